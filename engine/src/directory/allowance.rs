//! Allowances: the budget and the limits of a card. Source: spec "Allowance".
//!
//! Each allowance is a part of its card's record, which decisions read. This file holds the
//! commands on allowances and the rules for their terms.

use super::card::push_usage_if_changed;
use super::change::{PartitionView, StateChange};
use super::company::find_company;
use crate::command::audit_line::AuditLine;
use crate::command::effect::Effect;
use crate::command::reply::Rejection;
use crate::command::resource::commands;
use crate::domain::allowance::{AllowanceTerms, Scope};
use crate::domain::business_date::Interval;
use crate::domain::changes::{changes, replace};
use crate::domain::ids::{AllowanceId, CardSlot, CompanyId, Timestamp};
use crate::domain::money::Minor;

commands! {
    /// The commands on allowances.
    #[derive(Clone, Debug)]
    pub enum AllowanceCommand(change) {
        /// Changes an allowance.
        Update(company: CompanyId, id: AllowanceId, changes: AllowanceChanges) =>
            AuditLine::of_company(*company, "allowance.updated", id.0).with(changes.names()),
            update_allowance(change, find_allowance(change.state, *company, *id)?, changes);
    }
}

changes! {
    /// Changes of an allowance; absent fields stay.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct AllowanceChanges {
        /// The budget.
        amount: Option<Minor>,
        /// The length of a budget period.
        interval: Option<Interval>,
        /// Start a new period with nothing spent.
        reset: bool,
        /// The daily limit; `Minor::UNLIMITED` takes it away.
        daily_limit: Option<Minor>,
        /// The transaction limit; `Minor::UNLIMITED` takes it away.
        transaction_limit: Option<Minor>,
        /// Whether the first purchase suspends the card.
        single_use: Option<bool>,
        /// First instant; `Timestamp::MIN` takes it away.
        starts_at as "start_time": Option<Timestamp>,
        /// Last instant; `Timestamp::MAX` takes it away.
        ends_at as "end_time": Option<Timestamp>,
        /// Merchant categories.
        scope: Option<Scope>,
    }
}

fn find_allowance(
    state: &dyn PartitionView,
    company: CompanyId,
    id: AllowanceId,
) -> Result<CardSlot, Rejection> {
    let company = find_company(state, company)?;
    let slot = state.find_card_by_allowance(id);
    slot.filter(|slot| state.company_of(*slot) == company).ok_or(Rejection::AllowanceNotFound)
}

fn update_allowance(
    change: &mut StateChange<'_>,
    slot: CardSlot,
    changes: &AllowanceChanges,
) -> Result<(), Rejection> {
    let record = change.state.card(slot);
    let mut terms = record.terms;
    replace(&mut terms.amount, &changes.amount);
    replace(&mut terms.interval, &changes.interval);
    replace(&mut terms.daily_limit, &changes.daily_limit);
    replace(&mut terms.transaction_limit, &changes.transaction_limit);
    replace(&mut terms.single_use, &changes.single_use);
    replace(&mut terms.starts_at, &changes.starts_at);
    replace(&mut terms.ends_at, &changes.ends_at);
    replace(&mut terms.scope, &changes.scope);
    if changes.reset && terms.interval != Interval::None {
        return Err(Rejection::ResetNeedsNoInterval);
    }
    check_terms(&terms)?;
    let today = change.state.day_at(change.state.company_of(slot), change.moment.at).date;
    let rolled = record.usage.rolled(record.terms.interval, today);
    let mut usage = rolled;
    let is_other_interval = terms.interval != record.terms.interval;
    if changes.reset {
        usage.start_period(today);
    } else if is_other_interval {
        // The period goes on until the next boundary of the new interval: counting it from today
        // keeps switching back and forth from giving a free reset.
        usage.period_started_on = today;
    }
    if terms != record.terms {
        change.push(Effect::AllowanceTerms(slot, Box::new(terms)));
    }
    // A period or day that has only passed is no change.
    if usage != rolled || is_other_interval {
        push_usage_if_changed(change, slot, usage);
    }
    Ok(())
}

/// Limits are amounts, or `Minor::UNLIMITED`; a window may be an instant.
/// Errors: `OutOfBounds`, `StartsAfterEnd`.
pub(super) fn check_terms(terms: &AllowanceTerms) -> Result<(), Rejection> {
    let is_limit = |limit: Minor| limit == Minor::UNLIMITED || limit.is_amount();
    let limits = [terms.daily_limit, terms.transaction_limit];
    if !terms.amount.is_amount() || !limits.into_iter().all(is_limit) {
        return Err(Rejection::OutOfBounds);
    }
    if terms.starts_at > terms.ends_at {
        return Err(Rejection::StartsAfterEnd);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::Timestamp;

    #[test]
    fn terms_have_amounts_in_bounds_and_a_window_that_ends_no_earlier_than_it_starts() {
        const BEYOND: Minor = Minor(Minor::AMOUNT_MAX.0 + 1);
        let (bounds, window) = (Err(Rejection::OutOfBounds), Err(Rejection::StartsAfterEnd));
        // Amount, limit of a day, limit of a transaction, window.
        let rows = [
            ([Minor::ZERO, Minor::UNLIMITED, Minor::UNLIMITED], (0, 0), Ok(())),
            ([Minor::AMOUNT_MAX; 3], (0, 1), Ok(())),
            ([Minor::ZERO; 3], (1, 0), window),
            ([BEYOND, Minor::ZERO, Minor::ZERO], (0, 0), bounds),
            ([Minor::ZERO, BEYOND, Minor::ZERO], (0, 0), bounds),
            ([Minor::ZERO, Minor::ZERO, BEYOND], (0, 0), bounds),
            ([Minor(-1), Minor::ZERO, Minor::ZERO], (0, 0), bounds),
            ([Minor::ZERO, Minor(-2), Minor::ZERO], (0, 0), bounds),
            ([Minor::ZERO, Minor::ZERO, Minor(-2)], (0, 0), bounds),
        ];
        for ([amount, daily_limit, transaction_limit], (starts_at, ends_at), expected) in rows {
            let terms = AllowanceTerms {
                daily_limit,
                transaction_limit,
                starts_at: Timestamp(starts_at),
                ends_at: Timestamp(ends_at),
                ..AllowanceTerms::budget(amount)
            };
            assert_eq!(check_terms(&terms), expected, "{terms:?}");
        }
    }
}
