//! Amounts as integers in minor units of one account's currency.
//!
//! Decimals, exponents and the sign conventions of the wire exist only at the edges. Arithmetic is
//! checked: the engine builds with overflow checks in every profile, and `AMOUNT_MAX` keeps
//! single amounts far below what would overflow a balance.

use std::iter::Sum;
use std::ops::{Add, AddAssign, Neg, Sub, SubAssign};

use serde::{Deserialize, Serialize};

/// An amount of money. Units: minor units of the account's currency.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[repr(transparent)]
pub struct Minor(pub i64);

impl Minor {
    /// No money.
    pub const ZERO: Self = Self(0);
    /// The value for "no limit" where a limit is optional: no amount is above it.
    pub const UNLIMITED: Self = Self(i64::MAX);
    /// The largest single amount: 10^12 major units of a currency with four decimals.
    pub const AMOUNT_MAX: Self = Self(10_000_000_000_000_000);
    /// The largest balance in either direction; commands that would pass it are refused.
    pub const BALANCE_MAX: Self = Self(1_000_000_000_000_000_000);

    /// Whether the amount is above zero.
    pub const fn is_positive(self) -> bool {
        self.0 > 0
    }

    /// Whether the amount is zero.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Whether it is a single amount: from zero to `AMOUNT_MAX`.
    pub fn is_amount(self) -> bool {
        self >= Self::ZERO && self <= Self::AMOUNT_MAX
    }

    /// Whether the magnitude is within `BALANCE_MAX`.
    pub fn is_within_balance_bounds(self) -> bool {
        self >= -Self::BALANCE_MAX && self <= Self::BALANCE_MAX
    }

    /// The amount, or zero for a negative one.
    #[must_use]
    pub fn or_zero(self) -> Self {
        self.max(Self::ZERO)
    }
}

impl Add for Minor {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Minor {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sub for Minor {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl SubAssign for Minor {
    fn sub_assign(&mut self, other: Self) {
        self.0 -= other.0;
    }
}

impl Neg for Minor {
    type Output = Self;
    fn neg(self) -> Self {
        Self(-self.0)
    }
}

impl Sum for Minor {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Add::add)
    }
}

const _: () = assert!(Minor::AMOUNT_MAX.0 < Minor::BALANCE_MAX.0 / 10);
const _: () = assert!(Minor::BALANCE_MAX.0 < i64::MAX / 4);

/// A currency by its ISO 4217 numeric code, for example 840.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct CurrencyCode(pub u16);

/// An amount in a currency of its own. Units: minor units of `currency`, never negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CurrencyAmount {
    /// The amount.
    pub amount: Minor,
    /// Its currency.
    pub currency: CurrencyCode,
}

/// The rate of one message: what its merchant asked in another currency, and what that came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conversion {
    /// The amount in the merchant's currency; above zero.
    pub asked: CurrencyAmount,
    /// The same in the account's currency.
    pub billed: Minor,
}

impl Conversion {
    /// The rate of a message that came to `billed`; none if it asked nothing in another currency.
    pub fn of(asked: Option<CurrencyAmount>, billed: Minor) -> Option<Self> {
        let asked = asked.filter(|asked| asked.amount.is_positive())?;
        Some(Self { asked, billed })
    }

    /// A part of what was asked, in the account's currency, rounded up: the merchant loses nothing.
    pub fn share(self, part: Minor) -> Minor {
        assert!(self.asked.amount.is_positive(), "nothing has no parts");
        let (whole, share) =
            (i128::from(self.asked.amount.0), i128::from(self.billed.0) * i128::from(part.0));
        let rounded_up = (share + whole - 1) / whole;
        // More than any amount is out of range whatever is open.
        let bounded = rounded_up.min(i128::from(Minor::BALANCE_MAX.0));
        Minor(i64::try_from(bounded).unwrap_or(Minor::BALANCE_MAX.0))
    }
}
