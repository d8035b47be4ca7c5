//! Values before and after a change, as audits name them: of limits, states, roles and holders.
//!
//! INVARIANT: amounts, instants, states, codes and ids only. No typed text gets into an audit: a
//! description or a name may hold anything, also a secret.

use uuid::Uuid;

use super::state::ShardState;
use crate::command::effect::Effect;
use crate::directory::DirectoryRow;
use crate::directory::member::Member;
use crate::directory::requisition::Requisition;
use crate::domain::allowance::AllowanceTerms;
use crate::domain::audit::{AuditValue, ValueChange};
use crate::domain::company::Company;
use crate::domain::ids::{CardSlot, Timestamp};
use crate::domain::money::Minor;

/// The values that the effects of a change to `object` change.
pub(super) fn changed_values(
    state: &ShardState,
    effects: &[Effect],
    (kind, object): (&str, Option<Uuid>),
) -> Vec<ValueChange> {
    let mut changes = ValueChanges(Vec::new());
    for effect in effects {
        match effect {
            Effect::AllowanceTerms(slot, terms) if kind == "allowance" => {
                changes.terms(&state.card(*slot).terms, terms);
            }
            Effect::CardUsage(slot, usage) if kind == "card" && is_card(state, *slot, object) => {
                let before = state.card(*slot).usage.state;
                changes.note("state", before, usage.state, AuditValue::CardState);
            }
            Effect::CardProfile(profile)
                if kind == "card" && is_card(state, profile.slot, object) =>
            {
                let id = |slot| state.directory.members.get(slot).id.0;
                let before = state.cards.profile(profile.slot).assigned_to.map(id);
                let value = |id: Option<Uuid>| id.map_or(AuditValue::None, AuditValue::Member);
                changes.note("assigned_to", before, profile.assigned_to.map(id), value);
            }
            Effect::Company(company) if kind == "company" => {
                if let Some(known) = state.companies.get(company.slot.index()) {
                    changes.company(&known.company, company);
                }
            }
            Effect::Account(account) if kind == "company" => {
                if let Some(known) = state.accounts.get(account.slot.index()) {
                    let (old, new) = (known.credit_limit, account.credit_limit);
                    changes.note("credit_limit", old, new, AuditValue::Amount);
                }
            }
            Effect::Row(row) if Some(row.id()) == object => changes.row(state, row),
            _ => {}
        }
    }
    changes.0
}

fn is_card(state: &ShardState, slot: CardSlot, object: Option<Uuid>) -> bool {
    Some(state.cards.profile(slot).id.0) == object
}

struct ValueChanges(Vec<ValueChange>);

impl ValueChanges {
    fn note<T: PartialEq>(&mut self, field: &str, old: T, new: T, value: impl Fn(T) -> AuditValue) {
        if old != new {
            let (old, new) = (value(old), value(new));
            self.0.push(ValueChange { field: field.to_owned(), old, new });
        }
    }

    fn terms(&mut self, old: &AllowanceTerms, new: &AllowanceTerms) {
        self.note("amount", old.amount, new.amount, AuditValue::Amount);
        self.note("interval", old.interval, new.interval, AuditValue::Interval);
        let limit = |amount| match amount {
            Minor::UNLIMITED => AuditValue::None,
            amount => AuditValue::Amount(amount),
        };
        self.note("daily_limit", old.daily_limit, new.daily_limit, limit);
        self.note("transaction_limit", old.transaction_limit, new.transaction_limit, limit);
        self.note("single_use", old.single_use, new.single_use, AuditValue::Flag);
        let bound = |at| match at {
            Timestamp::MIN | Timestamp::MAX => AuditValue::None,
            at => AuditValue::Instant(at),
        };
        self.note("start_time", old.starts_at, new.starts_at, bound);
        self.note("end_time", old.ends_at, new.ends_at, bound);
        let codes = |terms: &AllowanceTerms| terms.scope.codes().to_vec();
        self.note("scope", codes(old), codes(new), AuditValue::Categories);
    }

    fn row(&mut self, state: &ShardState, row: &DirectoryRow) {
        let directory = &state.directory;
        match row {
            DirectoryRow::Member(new) => {
                if let Some(old) = directory.members.find(new.id.0) {
                    self.member(old, new);
                }
            }
            DirectoryRow::Requisition(new) => {
                if let Some(old) = directory.requisitions.find(new.id.0) {
                    self.requisition(old, new);
                }
            }
            DirectoryRow::WebhookEndpoint(new) => {
                if let Some(old) = directory.webhook_endpoints.find(new.id.0) {
                    self.note("state", old.state, new.state, AuditValue::EndpointState);
                }
            }
            _ => {}
        }
    }

    fn company(&mut self, old: &Company, new: &Company) {
        let limit = |most| if most > 0 { AuditValue::Count(most) } else { AuditValue::None };
        self.note("per_minute", old.velocity.per_minute, new.velocity.per_minute, limit);
        self.note("per_hour", old.velocity.per_hour, new.velocity.per_hour, limit);
        let partial = (old.partial_approval, new.partial_approval);
        self.note("partial_approval", partial.0, partial.1, AuditValue::Flag);
        let tables = (old.hold_table.clone(), new.hold_table.clone());
        self.note("hold_table", tables.0, tables.1, AuditValue::HoldTable);
        self.note("state", old.state, new.state, AuditValue::CompanyState);
    }

    fn requisition(&mut self, old: &Requisition, new: &Requisition) {
        self.note("amount", old.amount, new.amount, AuditValue::Amount);
        let bound = |at: Option<Timestamp>| at.map_or(AuditValue::None, AuditValue::Instant);
        self.note("end_time", old.end_time, new.end_time, bound);
        self.note("status", old.status, new.status, AuditValue::RequisitionStatus);
    }

    fn member(&mut self, old: &Member, new: &Member) {
        self.note("role", old.role, new.role, AuditValue::Role);
        self.note("state", old.state, new.state, AuditValue::MemberState);
    }
}
