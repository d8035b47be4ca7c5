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

use crate::feed::Profile;

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
pub const NO_FUNDS_BALANCE: Minor = Minor(500);

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

    /// The allowance of such a card, made at the instant `at`. Units: hundredths.
    #[must_use]
    pub fn terms(self, at: Timestamp) -> AllowanceTerms {
        let mut terms = AllowanceTerms::budget(Minor(25_000_000));
        match self {
            Self::Scoped => terms.scope = Scope::new(&SCOPE).unwrap_or_default(),
            Self::WindowedFuture => terms.starts_at = at.plus(3_650 * Timestamp::DAY),
            Self::WindowedPast => terms.ends_at = at.plus(-Timestamp::DAY),
            Self::TinyTransactionLimit => terms.transaction_limit = Minor(100),
            Self::TinyAllowance => terms.amount = Minor(100),
            Self::DailyLimited => terms.daily_limit = Minor(10_000),
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
