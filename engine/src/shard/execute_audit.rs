//! Writes down who changed what, in the record of the change. A command that changes nothing leaves
//! nothing behind, but one that says that somebody was shown something or failed
//! to sign in.

use std::slice;

use uuid::Uuid;

use super::audit_values::changed_values;
use super::shard_change::ShardChange;
use super::state::ShardState;
use crate::command::admin::AdminCommand;
use crate::command::effect::Effect;
use crate::command::{AuditLine, AuditTarget, AuditedPlace, kind_of_action};
use crate::directory::DirectoryRow;
use crate::directory::card::{self, CardCommand};
use crate::directory::requisition::{self, RequisitionStatus};
use crate::directory::shared_link;
use crate::directory::user::{UserCommand, memberships};
use crate::domain::audit::{AuditEvent, AuditGroup, AuditNote};
use crate::domain::card::CardState;
use crate::domain::ids::{CompanyId, CompanySlot};

/// Appends the events of a command whose effects are chosen.
pub(super) fn audit(change: &mut ShardChange<'_>, note: &AuditNote, command: &AdminCommand) {
    let is_news = matches!(
        command,
        AdminCommand::Card(CardCommand::NoteNumberShown(..))
            | AdminCommand::User(UserCommand::NoteSignInFailed(..))
            | AdminCommand::NoteAct(_)
    );
    if change.effects.is_empty() && !is_news {
        return;
    }
    let (state, audited) = (change.state, command.audited());
    let objects = objects_of(state, audited.place, &audited.object);
    let company = company_of(state, note, audited.place, change.effects);
    let made = cards_made(&audited, change.effects);
    let event = |action: &str, kind: &str, object| AuditEvent {
        company,
        at: change.moment.at,
        actor: note.actor,
        address: note.address.clone(),
        action: action.to_owned(),
        object_kind: kind.to_owned(),
        object,
        fields: Vec::new(),
        values: Vec::new(),
    };
    let mut events: Vec<_> =
        made.into_iter().map(|card| event("card.created", "card", Some(card))).collect();
    events.extend(objects.into_iter().map(|object| AuditEvent {
        fields: audited.fields.iter().map(|name| (*name).to_owned()).collect(),
        values: changed_values(state, change.effects, (audited.object_kind(), object)),
        ..event(audited.action, audited.object_kind(), object)
    }));
    let mut groups: Vec<AuditGroup> = Vec::new();
    for effect in &*change.effects {
        let Some((action, object)) = closed_object(state, effect) else { continue };
        let kind = kind_of_action(action);
        if kind == audited.object_kind() {
            continue;
        }
        let values = changed_values(state, slice::from_ref(effect), (kind, Some(object)));
        let same =
            |group: &&mut AuditGroup| group.event.action == action && group.event.values == values;
        match groups.iter_mut().find(same) {
            Some(group) => group.objects.push(object.into_bytes()),
            None => groups.push(AuditGroup {
                event: AuditEvent { values, ..event(action, kind, None) },
                objects: vec![object.into_bytes()],
            }),
        }
    }
    events.into_iter().for_each(|event| change.push(Effect::Audit(Box::new(event))));
    groups.into_iter().for_each(|group| change.push(Effect::AuditGroup(Box::new(group))));
}

/// The action and the object of an effect that closes one. One that is closed already is none.
fn closed_object(state: &ShardState, effect: &Effect) -> Option<(&'static str, Uuid)> {
    let directory = &state.directory;
    match effect {
        Effect::CardUsage(slot, usage) => {
            let is_closing = usage.state == CardState::Terminated
                && state.card(*slot).usage.state != CardState::Terminated;
            is_closing.then(|| (card::TERMINATED, state.cards.profile(*slot).id.0))
        }
        Effect::Row(DirectoryRow::Requisition(new)) => {
            let known = directory.requisitions.find(new.id.0)?;
            let is_closing = new.status == RequisitionStatus::Denied && known.status != new.status;
            is_closing.then_some((requisition::DENIED, new.id.0))
        }
        Effect::Row(DirectoryRow::SharedLink(new)) => {
            let known = directory.shared_links.find(new.id.0)?;
            let is_closing = new.is_deleted && !known.is_deleted;
            is_closing.then_some((shared_link::DELETED, new.id.0))
        }
        _ => None,
    }
}

/// The cards that a change of something else made: the approval of a requisition makes one.
fn cards_made(audited: &AuditLine<'_>, effects: &[Effect]) -> Vec<Uuid> {
    let made = effects.iter().filter_map(|effect| match effect {
        Effect::CardIssued(card) => Some(card.profile.id.0),
        _ => None,
    });
    made.filter(|_| audited.object_kind() != "card").collect()
}

fn objects_of(
    state: &ShardState,
    place: AuditedPlace<'_>,
    object: &AuditTarget,
) -> Vec<Option<Uuid>> {
    let ticket = match place {
        AuditedPlace::Ticket(digest) => state.directory.tickets.get(&digest),
        _ => None,
    };
    match object {
        AuditTarget::Unnamed => vec![None],
        AuditTarget::One(id) => vec![Some(*id)],
        AuditTarget::Each(ids) => ids.iter().copied().map(Some).collect(),
        AuditTarget::Ticket => vec![ticket.map(|ticket| ticket.id.0)],
        AuditTarget::Holder => {
            vec![ticket.map(|ticket| state.directory.users.get(ticket.user).id.0)]
        }
    }
}

/// The company of an audit event; none where it is the switch's own.
fn company_of(
    state: &ShardState,
    note: &AuditNote,
    place: AuditedPlace<'_>,
    effects: &[Effect],
) -> Option<CompanySlot> {
    let users = &state.directory.users;
    match place {
        AuditedPlace::Company(id) => company_by_id(state, id, effects),
        AuditedPlace::Email(email) => company_of_user(state, note, email),
        AuditedPlace::User(id) => company_of_user(state, note, &users.find(id.0)?.email),
        AuditedPlace::Ticket(digest) => {
            let ticket = state.directory.tickets.get(&digest)?;
            match ticket.code() {
                Some(code) => Some(code.company),
                None => company_of_user(state, note, &users.get(ticket.user).email),
            }
        }
        AuditedPlace::Switch => None,
    }
}

/// A company, also one that is being made.
fn company_by_id(state: &ShardState, id: CompanyId, effects: &[Effect]) -> Option<CompanySlot> {
    let made = effects.iter().find_map(|effect| match effect {
        Effect::Company(company) if company.id == id => Some(company.slot),
        _ => None,
    });
    made.or_else(|| state.company_by_id.get(&id).copied())
}

/// The company whose audit log tells of a user's own matters: that of the acting member, else the
/// one in which the user has taken part for longest. Any company may add any address, so a later
/// one gets no event: it would read when and from where somebody signs in to another's pages.
fn company_of_user(state: &ShardState, note: &AuditNote, email: &str) -> Option<CompanySlot> {
    let acting = note.actor.member().and_then(|id| state.directory.members.find(id.0));
    if let Some(member) = acting {
        return Some(member.company);
    }
    // In the order of their slots, which is that in which they were made.
    let mut members = memberships(state, email);
    members.find(|member| member.takes_part()).map(|member| member.company)
}
