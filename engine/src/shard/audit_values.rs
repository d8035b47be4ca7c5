//! Values before and after a change, as audits name them: of limits, states, roles and holders.
//!
//! INVARIANT: amounts, instants, states, codes and ids only. No typed text gets into an audit: a
//! description or a name may hold anything, also a secret.

use uuid::Uuid;

use super::state::ShardState;
use crate::command::effect::Effect;
use crate::directory::DirectoryRow;
use crate::directory::member::Member;
use crate::domain::allowance::AllowanceTerms;
use crate::domain::audit::{AuditValue, ValueChange};
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
            Effect::Row(DirectoryRow::Member(row)) if Some(row.id.0) == object => {
                if let Some(known) = state.directory.members.find(row.id.0) {
                    changes.member(known, row);
                }
            }
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

    fn member(&mut self, old: &Member, new: &Member) {
        self.note("role", old.role, new.role, AuditValue::Role);
        self.note("state", old.state, new.state, AuditValue::MemberState);
    }
}
