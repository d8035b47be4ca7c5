//! Writes down who changed what, in the record of the change. A command that changes nothing leaves
//! nothing behind.

use uuid::Uuid;

use super::execute::Moment;
use super::state::ShardState;
use crate::command::admin::AdminCommand;
use crate::command::effect::Effect;
use crate::command::{AuditedObject, AuditedPlace};
use crate::domain::audit::{AuditEvent, AuditNote};
use crate::domain::ids::{CompanyId, CompanySlot};
use crate::limits;

/// Appends the events of a command that made `effects`.
pub(super) fn audit(
    state: &ShardState,
    moment: &Moment<'_>,
    (note, change): (&AuditNote, &AdminCommand),
    effects: &mut Vec<Effect>,
) {
    if effects.is_empty() {
        return;
    }
    let audited = change.audited();
    let objects = objects_of(state, audited.place, audited.object);
    for company in companies_of(state, audited.place, effects) {
        for object in &objects {
            effects.push(Effect::Audit(Box::new(AuditEvent {
                company,
                at: moment.at,
                actor: note.actor,
                address: note.address.clone(),
                action: audited.action.to_owned(),
                object_kind: audited.object_kind.to_owned(),
                object: *object,
                fields: audited.fields.iter().map(|name| (*name).to_owned()).collect(),
            })));
        }
    }
}

fn objects_of(
    state: &ShardState,
    place: AuditedPlace<'_>,
    object: AuditedObject,
) -> Vec<Option<Uuid>> {
    let ticket = match place {
        AuditedPlace::Ticket(digest) => state.identity.tickets.get(&digest),
        _ => None,
    };
    match object {
        AuditedObject::Unnamed => vec![None],
        AuditedObject::One(id) => vec![Some(id)],
        AuditedObject::Each(ids) => ids.into_iter().map(Some).collect(),
        AuditedObject::Ticket => vec![ticket.map(|ticket| ticket.id.0)],
        AuditedObject::Holder => {
            vec![ticket.map(|ticket| state.identity.users[ticket.user.index()].id.0)]
        }
    }
}

/// Whose audit it is; the switch's own where nobody's.
fn companies_of(
    state: &ShardState,
    place: AuditedPlace<'_>,
    effects: &[Effect],
) -> Vec<Option<CompanySlot>> {
    let companies = match place {
        AuditedPlace::Company(id) => company_of(state, id, effects).into_iter().collect(),
        AuditedPlace::Email(email) => memberships(state, email),
        AuditedPlace::User(id) => {
            state.identity.user_by_id.get(&id).map_or_else(Vec::new, |slot| {
                memberships(state, &state.identity.users[slot.index()].email)
            })
        }
        AuditedPlace::Ticket(digest) => match state.identity.tickets.get(&digest) {
            None => Vec::new(),
            Some(ticket) => match ticket.code() {
                Some(code) => vec![code.company],
                None => memberships(state, &state.identity.users[ticket.user.index()].email),
            },
        },
        AuditedPlace::Switch => Vec::new(),
    };
    if companies.is_empty() { vec![None] } else { companies.into_iter().map(Some).collect() }
}

/// A company, also one that is being made.
fn company_of(state: &ShardState, id: CompanyId, effects: &[Effect]) -> Option<CompanySlot> {
    let made = effects.iter().find_map(|effect| match effect {
        Effect::Company(company) if company.id == id => Some(company.slot),
        _ => None,
    });
    made.or_else(|| state.company_by_id.get(&id).copied())
}

/// The companies in which somebody takes part, as many as are written to at once.
fn memberships(state: &ShardState, email: &str) -> Vec<CompanySlot> {
    let members = state.member_names.memberships(email).map(|slot| &state.members[slot.index()]);
    let companies = members.filter(|member| member.takes_part()).map(|member| member.company);
    companies.take(limits::AUDITED_COMPANIES_MAX).collect()
}
