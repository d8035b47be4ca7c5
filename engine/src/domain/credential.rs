//! What a cardholder proves with: expiry, CVV, PIN and ZIP, in the forms the shard compares.
//!
//! Nothing secret in clear reaches the engine. The edge checks the CVV, turns a PIN into its keyed
//! verification value and normalizes a ZIP; the shard compares and counts failures.

use serde::{Deserialize, Serialize};

use super::business_date::{BusinessDate, PlainDate};
use super::ids::Timestamp;

/// A card's expiry as messages carry it: year of the century and month, `yy * 100 + mm`.
/// Source: ISO DE14.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpiryMonth(pub u16);

impl ExpiryMonth {
    /// The expiry month of a card that is valid through `expires_on`.
    #[must_use]
    pub fn of(expires_on: BusinessDate) -> Self {
        use chrono::Datelike;
        if let Some(PlainDate { year, month, .. }) = expires_on.plain() {
            // INVARIANT: a year of the century and a month have four digits.
            return Self(u16::try_from(year % 100 * 100 + month).unwrap_or(0));
        }
        let date = expires_on.to_naive();
        let year = u16::try_from(date.year().rem_euclid(100)).unwrap_or(0);
        let month = u16::try_from(date.month()).unwrap_or(0);
        Self(year * 100 + month)
    }

    /// Whether a card that is valid through `expires_on` expires in this month: what `of` says,
    /// without taking a date of this century apart.
    #[must_use]
    pub fn is_month_of(self, expires_on: BusinessDate) -> bool {
        let (year, month) = (self.0 / 100, self.0 % 100);
        let of_century = MONTH_STARTS[0]..MONTH_STARTS[MONTHS_OF_CENTURY];
        if !(of_century.contains(&expires_on.0) && year < 100 && (1..=12).contains(&month)) {
            return self == Self::of(expires_on);
        }
        let place = usize::from(year * 12 + month - 1);
        (MONTH_STARTS[place]..MONTH_STARTS[place + 1]).contains(&expires_on.0)
    }
}

const MONTHS_OF_CENTURY: usize = 1_200;

/// The first day of each month from January 2000 to January 2100. Units: days since 1970-01-01.
static MONTH_STARTS: [i32; MONTHS_OF_CENTURY + 1] = {
    const DAYS: [i32; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut starts = [10_957; MONTHS_OF_CENTURY + 1];
    let mut place = 0;
    while place < MONTHS_OF_CENTURY {
        // INVARIANT: every fourth year of this century is a leap year, 2000 among them.
        let is_leap_february = place % 12 == 1 && place / 12 % 4 == 0;
        starts[place + 1] = starts[place] + DAYS[place % 12] + is_leap_february as i32;
        place += 1;
    }
    starts
};

/// A keyed verification value of a PIN; zero stands for "no PIN set".
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[repr(transparent)]
pub struct PinVerifier(pub u64);

impl std::fmt::Debug for PinVerifier {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("PinVerifier(..)")
    }
}

/// A postal code reduced to its letters and digits, packed; zero stands for "none on file".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[repr(transparent)]
pub struct PackedZip(pub u64);

impl PackedZip {
    /// Packs the letters and digits of a postal code, case folded. US ZIP+4 codes compare by
    /// their first five digits, as address verification does.
    #[must_use]
    pub fn pack(text: &str) -> Self {
        let mut symbols: Vec<u8> = text
            .bytes()
            .filter(u8::is_ascii_alphanumeric)
            .map(|byte| byte.to_ascii_uppercase())
            .collect();
        if symbols.len() == 9 && symbols.iter().all(u8::is_ascii_digit) {
            symbols.truncate(5);
        }
        Self(symbols.iter().take(12).fold(0, |packed, symbol| {
            let value =
                if symbol.is_ascii_digit() { symbol - b'0' + 1 } else { symbol - b'A' + 11 };
            packed * 37 + u64::from(value)
        }))
    }

    /// Whether no postal code is on file.
    #[must_use]
    pub const fn is_absent(self) -> bool {
        self.0 == 0
    }
}

/// What an edge found when it compared a CVV itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CvvCheck {
    /// The CVV is the card's.
    Match,
    /// It is not.
    Mismatch,
}

/// The credentials a message carries; absent ones are not checked.
/// Source: ISO DE14, DE48 tag 92, DE52, DE48 tag 80.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PresentedCredentials {
    /// Expiry month on the card.
    pub expiry: Option<ExpiryMonth>,
    /// The outcome of the CVV comparison.
    pub cvv: Option<CvvCheck>,
    /// The keyed value of the PIN entered.
    pub pin: Option<PinVerifier>,
    /// The postal code entered.
    pub zip: Option<PackedZip>,
}

/// Wrong credentials on one card within an hour of the first of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CredentialFailures {
    /// When the first of them was seen.
    pub since: Timestamp,
    /// How many there were.
    pub count: u8,
}

impl CredentialFailures {
    /// So many failures within the hour close the card to every attempt for the rest of it.
    pub const COUNT_MAX: u8 = 5;

    /// Whether these failures still count at the instant `at`.
    #[must_use]
    pub fn is_current(&self, at: Timestamp) -> bool {
        at < self.since.plus(Timestamp::HOUR)
    }

    /// Whether the card is closed by these failures at the instant `at`.
    #[must_use]
    pub fn is_blocking(&self, at: Timestamp) -> bool {
        self.count >= Self::COUNT_MAX && self.is_current(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zips_compare_by_what_matters() {
        assert_eq!(PackedZip::pack("94105"), PackedZip::pack("94105-1234"));
        assert_eq!(PackedZip::pack("sw1a 1aa"), PackedZip::pack("SW1A1AA"));
        assert_ne!(PackedZip::pack("94105"), PackedZip::pack("94106"));
        assert_ne!(PackedZip::pack("0123"), PackedZip::pack("123"));
        assert!(PackedZip::pack(" - ").is_absent());
    }

    #[test]
    fn expiry_months_are_year_and_month() {
        let last_of_june_2029 = BusinessDate::from_naive("2029-06-30".parse().unwrap());
        assert_eq!(ExpiryMonth::of(last_of_june_2029), ExpiryMonth(2906));
    }

    #[test]
    fn a_month_knows_its_dates_as_the_calendar_does() {
        // From before the table of this century to after it.
        for day in 10_900..47_600 {
            let date = BusinessDate(day);
            let month = ExpiryMonth::of(date);
            let wrong = [month.0 + 1, month.0.wrapping_sub(1), month.0 + 100, 0, 13, 9_912, 10_001];
            assert!(month.is_month_of(date), "{date:?}");
            for other in wrong.map(ExpiryMonth) {
                assert_eq!(other.is_month_of(date), other == month, "{other:?} {date:?}");
            }
        }
    }
}
