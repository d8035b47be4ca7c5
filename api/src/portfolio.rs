//! A portfolio of test cards that can bring about every response code.
//!
//! Two thirds are ordinary; the others take turns through the profiles below. Besides the company
//! that `init` makes there are two more: one nearly without funds, one that limits velocity.

use cardswitch_engine::domain::allowance::{AllowanceTerms, Scope};
use cardswitch_engine::domain::business_date::{BusinessDate, date_at};
use cardswitch_engine::domain::card::CardState;
use cardswitch_engine::domain::company::VelocityLimits;
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::domain::money::Minor;
use chrono::{Datelike, Days};
use chrono_tz::Tz;

/// What a test card is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Approved within generous limits.
    Ordinary,
    /// Declined 1202.
    Suspended,
    /// Declined 1201.
    Unactivated,
    /// Declined 1000.
    Terminated,
    /// Declined 1203.
    Expired,
    /// Declined 1501 outside restaurants.
    Scoped,
    /// Declined 1501: not open yet.
    WindowedFuture,
    /// Declined 1501: over.
    WindowedPast,
    /// Declined 1503 above 1.00.
    TinyTransactionLimit,
    /// Declined 1502 above 1.00 in all.
    TinyAllowance,
    /// Declined 1502 above 100.00 a day.
    DailyLimited,
    /// Declined 1202 after one purchase.
    SingleUse,
    /// Declined 1101: a company with 5.00.
    NoFunds,
    /// Declined 1701 after three tries a minute.
    Velocity,
}

/// The profiles that take turns among the cards that are not ordinary.
const SPECIAL: [Profile; 13] = [
    Profile::Suspended,
    Profile::Unactivated,
    Profile::Terminated,
    Profile::Expired,
    Profile::Scoped,
    Profile::WindowedFuture,
    Profile::WindowedPast,
    Profile::TinyTransactionLimit,
    Profile::TinyAllowance,
    Profile::DailyLimited,
    Profile::SingleUse,
    Profile::NoFunds,
    Profile::Velocity,
];

/// Every third card is not ordinary.
const SPECIAL_EVERY: usize = 3;
/// Restaurants and fast food.
const SCOPE: [u16; 2] = [5812, 5814];
/// The velocity limits of the company that has them.
pub const VELOCITY: VelocityLimits = VelocityLimits { per_minute: 3, per_hour: 30 };
/// What the company without funds starts with. Units: hundredths.
pub const NO_FUNDS_BALANCE: Minor = Minor(5_00);

impl Profile {
    /// The profile of the card at this place of a portfolio.
    #[must_use]
    pub const fn of_card(place: usize) -> Self {
        if place % SPECIAL_EVERY == SPECIAL_EVERY - 1 {
            SPECIAL[place / SPECIAL_EVERY % SPECIAL.len()]
        } else {
            Self::Ordinary
        }
    }

    /// Its name in a cards file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ordinary => "ordinary",
            Self::Suspended => "suspended",
            Self::Unactivated => "unactivated",
            Self::Terminated => "terminated",
            Self::Expired => "expired",
            Self::Scoped => "scoped",
            Self::WindowedFuture => "windowed_future",
            Self::WindowedPast => "windowed_past",
            Self::TinyTransactionLimit => "tiny_transaction_limit",
            Self::TinyAllowance => "tiny_allowance",
            Self::DailyLimited => "daily_limited",
            Self::SingleUse => "single_use",
            Self::NoFunds => "no_funds",
            Self::Velocity => "velocity",
        }
    }

    /// The state such a card is made in.
    #[must_use]
    pub const fn state(self) -> CardState {
        match self {
            Self::Suspended => CardState::Suspended,
            Self::Unactivated => CardState::Unactivated,
            Self::Terminated => CardState::Terminated,
            _ => CardState::Active,
        }
    }

    /// The allowance of such a card, made at the instant `at`.
    #[must_use]
    pub fn terms(self, at: Timestamp) -> AllowanceTerms {
        let mut terms = AllowanceTerms::budget(Minor(250_000_00));
        match self {
            Self::Scoped => terms.scope = Scope::new(&SCOPE).unwrap_or_default(),
            Self::WindowedFuture => terms.starts_at = at.plus(3_650 * Timestamp::DAY),
            Self::WindowedPast => terms.ends_at = at.plus(-Timestamp::DAY),
            Self::TinyTransactionLimit => terms.transaction_limit = Minor(1_00),
            Self::TinyAllowance => terms.amount = Minor(1_00),
            Self::DailyLimited => terms.daily_limit = Minor(100_00),
            Self::SingleUse => terms.single_use = true,
            _ => {}
        }
        terms
    }

    /// The expiration of such a card, where it is not the usual one.
    #[must_use]
    pub fn expires_on(self, zone: Tz, at: Timestamp) -> Option<BusinessDate> {
        (self == Self::Expired).then(|| {
            let today = date_at(zone, at).to_naive();
            let first_of_month = today.with_day(1).unwrap_or(today);
            BusinessDate::from_naive(first_of_month - Days::new(1))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_portfolio_has_every_profile() {
        let profiles: Vec<_> = (0..SPECIAL_EVERY * SPECIAL.len()).map(Profile::of_card).collect();
        for profile in SPECIAL {
            assert_eq!(profiles.iter().filter(|found| **found == profile).count(), 1);
        }
        assert_eq!(profiles.iter().filter(|found| **found == Profile::Ordinary).count(), 26);
    }
}
