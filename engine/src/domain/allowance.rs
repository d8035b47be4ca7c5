//! An allowance: the terms its owner sets, and their use so far.
//!
//! Usage is rolled forward by the calendar when it is read: no timer resets a budget. The period
//! is numbered, so that a hold can tell whether the budget it was taken from is the current one.

use serde::{Deserialize, Serialize};

use super::business_date::{BusinessDate, Interval};
use super::card::{CardState, SuspensionReason};
use super::ids::Timestamp;
use super::money::Minor;

/// The merchant categories an allowance is limited to; empty means no restriction.
/// Source: spec "Allowance", scope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[repr(C)]
pub struct Scope {
    codes: [u16; Self::LEN_MAX],
    len: u8,
}

impl Scope {
    /// The most values a scope holds. Source: spec "Limits".
    pub const LEN_MAX: usize = 10;

    /// A scope of these values, or none when there are too many.
    pub fn new(codes: &[u16]) -> Option<Self> {
        let mut scope = Self::default();
        scope.codes.get_mut(..codes.len())?.copy_from_slice(codes);
        scope.len = u8::try_from(codes.len()).ok()?;
        Some(scope)
    }

    /// The values, in the order they were given.
    pub fn codes(&self) -> &[u16] {
        &self.codes[..usize::from(self.len)]
    }
}

/// The restrictions an allowance puts on spending.
/// Units: minor units of the account's currency. Source: spec "Allowance".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(C)]
pub struct AllowanceTerms {
    /// The budget of one period.
    pub amount: Minor,
    /// The most that may be spent on one local day; `Minor::UNLIMITED` without one.
    pub daily_limit: Minor,
    /// The most one transaction may take; `Minor::UNLIMITED` without one.
    pub transaction_limit: Minor,
    /// Purchases before it are declined; `Timestamp::MIN` without one. Inclusive.
    pub starts_at: Timestamp,
    /// Purchases after it are declined; `Timestamp::MAX` without one. Inclusive.
    pub ends_at: Timestamp,
    /// The merchant categories allowed.
    pub scope: Scope,
    /// The length of a budget period.
    pub interval: Interval,
    /// Whether the first purchase suspends the card.
    pub single_use: bool,
}

impl AllowanceTerms {
    /// A budget without any further restriction.
    pub fn budget(amount: Minor) -> Self {
        Self {
            amount,
            daily_limit: Minor::UNLIMITED,
            transaction_limit: Minor::UNLIMITED,
            starts_at: Timestamp::MIN,
            ends_at: Timestamp::MAX,
            scope: Scope::default(),
            interval: Interval::None,
            single_use: false,
        }
    }

    /// Whether `at` is past the last instant of the window.
    pub fn has_ended(&self, at: Timestamp) -> bool {
        at > self.ends_at
    }
}

/// The usage of one card: everything that an authorization changes on it.
///
/// `spent` is the sum authorized, cleared or forced in period `period` and not given back;
/// `day_spent` is that sum for the local date `day`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[repr(C)]
pub struct CardUsage {
    /// The used part of the current period's budget.
    pub spent: Minor,
    /// The used part of the day's room.
    pub day_spent: Minor,
    /// Number of the current period; rises with every reset.
    pub period: u32,
    /// The local date from which the current period counts.
    pub period_started_on: BusinessDate,
    /// The local date `day_spent` belongs to.
    pub day: BusinessDate,
    /// The card's state.
    pub state: CardState,
    /// The reason of the suspension.
    pub suspension: SuspensionReason,
    /// Wrong PINs in a row.
    pub pin_failures: u8,
}

impl CardUsage {
    /// The usage on the local date `today`: past periods and days are left behind.
    #[must_use]
    pub fn rolled(self, interval: Interval, today: BusinessDate) -> Self {
        // No period starts after the day in question.
        let period_start = if today > self.period_started_on {
            today.period_start(interval)
        } else {
            self.period_started_on
        };
        self.rolled_to(period_start, today)
    }

    /// The usage on the local date `today`, whose period is known to start on `period_start`.
    #[must_use]
    pub fn rolled_to(mut self, period_start: BusinessDate, today: BusinessDate) -> Self {
        if period_start > self.period_started_on {
            self.start_period(period_start);
        }
        if today > self.day {
            self.day = today;
            self.day_spent = Minor::ZERO;
        }
        self
    }

    /// Starts a new period with nothing spent.
    pub fn start_period(&mut self, started_on: BusinessDate) {
        self.period += 1;
        self.period_started_on = started_on;
        self.spent = Minor::ZERO;
    }

    /// Whether taking so much keeps both sums in bounds. Only one of them is reset with the budget,
    /// so that either may be the larger one.
    pub fn can_take(&self, amount: Minor) -> bool {
        (self.spent.max(self.day_spent) + amount).is_within_balance_bounds()
    }

    /// Takes again what was given back, as far as period and day are the current ones.
    pub fn take_again(&mut self, amount: Minor, period: u32, day: BusinessDate) {
        if period == self.period {
            self.spent += amount;
        }
        if day == self.day {
            self.day_spent += amount;
        }
    }

    /// Takes an amount from the budget and from the day's room.
    pub fn take(&mut self, amount: Minor) {
        assert!(amount >= Minor::ZERO, "a negative amount gives room");
        self.spent += amount;
        self.day_spent += amount;
    }

    /// Gives back an amount taken in `period` on `day`, if those are still the current ones.
    pub fn give_back(&mut self, amount: Minor, period: u32, day: BusinessDate) {
        assert!(amount >= Minor::ZERO, "a negative amount takes room");
        if period == self.period {
            self.spent = (self.spent - amount).or_zero();
        }
        if day == self.day {
            self.day_spent = (self.day_spent - amount).or_zero();
        }
    }

    /// The rest of the budget; negative if the budget was lowered below the spent amount.
    pub fn allowance_balance(&self, terms: &AllowanceTerms) -> Minor {
        terms.amount - self.spent
    }

    /// The rest of the daily limit; `Minor::UNLIMITED` without one.
    pub fn day_room(&self, terms: &AllowanceTerms) -> Minor {
        if terms.daily_limit == Minor::UNLIMITED {
            Minor::UNLIMITED
        } else {
            terms.daily_limit - self.day_spent
        }
    }

    /// Suspends an active card.
    pub fn suspend(&mut self, reason: SuspensionReason) {
        self.state = CardState::Suspended;
        self.suspension = reason;
    }
}

const _: () = assert!(size_of::<AllowanceTerms>() == 64);
const _: () = assert!(size_of::<CardUsage>() == 32);

#[cfg(test)]
mod tests {
    use super::*;

    fn date(text: &str) -> BusinessDate {
        BusinessDate::from_naive(text.parse().unwrap())
    }

    fn spent(amount: i64, on: &str) -> CardUsage {
        CardUsage {
            spent: Minor(amount),
            day_spent: Minor(amount),
            period: 7,
            period_started_on: date(on),
            day: date(on),
            ..CardUsage::default()
        }
    }

    #[test]
    fn a_period_ends_only_at_the_boundary_of_its_interval() {
        let rows = [
            (Interval::Weekly, "2026-03-03", "2026-03-08", 500),
            (Interval::Weekly, "2026-03-03", "2026-03-09", 0),
            (Interval::Monthly, "2026-03-03", "2026-03-31", 500),
            (Interval::Monthly, "2026-03-03", "2026-04-01", 0),
            (Interval::None, "2026-03-03", "2036-03-03", 500),
        ];
        for (interval, from, to, expected) in rows {
            let usage = spent(500, from).rolled(interval, date(to));
            assert_eq!(usage.spent, Minor(expected), "{interval:?} {from} {to}");
            assert_eq!(usage.day_spent, Minor::ZERO);
        }
    }

    #[test]
    fn an_earlier_date_rolls_nothing_back() {
        let usage = spent(500, "2026-03-03");
        assert_eq!(usage.rolled(Interval::Daily, date("2026-03-01")), usage);
    }

    #[test]
    fn giving_back_reaches_only_the_current_period_and_day_and_never_below_zero() {
        let today = date("2026-03-03");
        let mut usage = spent(500, "2026-03-03");
        usage.give_back(Minor(200), 6, date("2026-03-02"));
        assert_eq!((usage.spent, usage.day_spent), (Minor(500), Minor(500)));
        usage.give_back(Minor(200), 7, date("2026-03-02"));
        assert_eq!((usage.spent, usage.day_spent), (Minor(300), Minor(500)));
        usage.give_back(Minor(900), 7, today);
        assert_eq!((usage.spent, usage.day_spent), (Minor::ZERO, Minor::ZERO));
    }

    #[test]
    fn a_scope_holds_ten_values() {
        assert!(Scope::new(&[5812; 10]).is_some());
        assert!(Scope::new(&[5812; 11]).is_none());
        assert_eq!(Scope::new(&[1, 2]).unwrap().codes(), &[1, 2]);
    }
}
