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
use cardswitch_feed::Profile;
use chrono::{Datelike, Days};
use chrono_tz::Tz;

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
/// The opening balance of the company without funds. Units: hundredths.
pub const NO_FUNDS_BALANCE: Minor = Minor(500);

/// The profile of the card at this place of a portfolio.
pub const fn profile_at(place: usize) -> Profile {
    if place % SPECIAL_EVERY == SPECIAL_EVERY - 1 {
        SPECIAL[place / SPECIAL_EVERY % SPECIAL.len()]
    } else {
        Profile::Ordinary
    }
}

/// The state such a card is made in.
pub const fn state_of(profile: Profile) -> CardState {
    match profile {
        Profile::Suspended => CardState::Suspended,
        Profile::Unactivated => CardState::Unactivated,
        Profile::Terminated => CardState::Terminated,
        _ => CardState::Active,
    }
}

/// The allowance of such a card, made at the instant `at`. Units: hundredths.
pub fn terms_of(profile: Profile, at: Timestamp) -> AllowanceTerms {
    let mut terms = AllowanceTerms::budget(Minor(25_000_000));
    match profile {
        Profile::Scoped => terms.scope = Scope::new(&SCOPE).unwrap_or_default(),
        Profile::WindowedFuture => terms.starts_at = at.plus(3_650 * Timestamp::DAY),
        Profile::WindowedPast => terms.ends_at = at.plus(-Timestamp::DAY),
        Profile::TinyTransactionLimit => terms.transaction_limit = Minor(100),
        Profile::TinyAllowance => terms.amount = Minor(100),
        Profile::DailyLimited => terms.daily_limit = Minor(10_000),
        Profile::SingleUse => terms.single_use = true,
        _ => {}
    }
    terms
}

/// The expiration of such a card, where it is not the usual one.
pub fn expires_on(profile: Profile, zone: Tz, at: Timestamp) -> Option<BusinessDate> {
    (profile == Profile::Expired).then(|| {
        let today = date_at(zone, at).to_naive();
        let first_of_month = today.with_day(1).unwrap_or(today);
        BusinessDate::from_naive(first_of_month - Days::new(1))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_portfolio_has_every_profile() {
        let profiles: Vec<_> = (0..SPECIAL_EVERY * SPECIAL.len()).map(profile_at).collect();
        for profile in SPECIAL {
            assert_eq!(profiles.iter().filter(|found| **found == profile).count(), 1);
        }
        assert_eq!(profiles.iter().filter(|found| **found == Profile::Ordinary).count(), 26);
    }
}
