//! The credentials of a cardholder: expiry, CVV, PIN and ZIP, in the forms the shard compares.
//!
//! The edge derives the card's CVV, turns a PIN into its keyed verification value and normalizes a
//! ZIP. The shard alone compares, and counts wrong credentials.
//!
//! INVARIANT: only a `CredentialComparison` compares a credential of a message, and there is none while wrong
//! credentials have locked the card's. So a locked card replies alike to right and to wrong
//! credentials, which nothing has compared.

use serde::{Deserialize, Serialize};

use super::business_date::{BusinessDate, PlainDate};
use super::ids::Timestamp;

/// A card's expiry as messages carry it: year of the century and month, `yy * 100 + mm`.
/// Source: ISO DE14.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpiryMonth(pub u16);

impl ExpiryMonth {
    /// The expiry month of a card that is valid through `expires_on`.
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

    /// Whether a card that is valid through `expires_on` expires in this month: equal to a
    /// comparison with `of`, but without splitting a date of this century.
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

crate::opaque!(PinVerifier);

/// A postal code reduced to its letters and digits, packed; zero stands for "none on file".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[repr(transparent)]
pub struct PackedZip(pub u64);

impl PackedZip {
    /// Packs the letters and digits of a postal code, case folded. US ZIP+4 codes compare by
    /// their first five digits, as address verification does.
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
    pub const fn is_absent(self) -> bool {
        self.0 == 0
    }
}

/// A card verification value: three digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Cvv(u16);

impl Cvv {
    /// The CVV of no card: too few digits, too many, or other characters.
    pub const NONE: Self = Self(u16::MAX);

    /// Reads three ASCII digits.
    pub fn parse(digits: &[u8]) -> Self {
        let is_digits = digits.len() == 3 && digits.iter().all(u8::is_ascii_digit);
        if !is_digits {
            return Self::NONE;
        }
        Self(digits.iter().fold(0, |number, digit| number * 10 + u16::from(digit - b'0')))
    }
}

/// The CVV shown by a message, beside that of the card, which the engine does not know.
#[derive(Clone, Copy)]
pub struct CvvPair {
    /// The message's.
    pub shown: Cvv,
    /// The card's; `Cvv::NONE` if the card is not known.
    pub own: Cvv,
}

impl CvvPair {
    fn is_equal(self) -> bool {
        self.own != Cvv::NONE && self.shown == self.own
    }
}

/// A credential shown by a message. Only a `CredentialComparison` reads it.
#[derive(Clone, Copy)]
pub struct PresentedValue<T>(T);

impl<T> PresentedValue<T> {
    /// The credential shown by a message.
    pub const fn new(credential: T) -> Self {
        Self(credential)
    }
}

impl<T> std::fmt::Debug for PresentedValue<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Shown(..)")
    }
}

/// The credentials a message carries; absent ones are not checked.
/// Source: ISO DE14, DE48 tag 92, DE52, DE48 tag 80.
#[derive(Clone, Copy, Debug, Default)]
pub struct PresentedCredentials {
    /// Expiry month on the card.
    pub expiry: Option<PresentedValue<ExpiryMonth>>,
    /// The CVV entered, and the card's.
    pub cvv: Option<PresentedValue<CvvPair>>,
    /// The keyed value of the PIN entered.
    pub pin: Option<PresentedValue<PinVerifier>>,
    /// The postal code entered.
    pub zip: Option<PresentedValue<PackedZip>>,
}

impl PresentedCredentials {
    /// A message without credentials.
    pub const NONE: Self = Self { expiry: None, cvv: None, pin: None, zip: None };

    /// Whether the message carries no credential.
    pub const fn is_empty(&self) -> bool {
        self.expiry.is_none() && self.cvv.is_none() && self.pin.is_none() && self.zip.is_none()
    }
}

/// Permission to compare the credentials of one message with its card's, and the record of those
/// compared.
#[derive(Debug)]
pub struct CredentialComparison {
    /// The compared credentials.
    pub compared: CredentialPresence,
}

impl CredentialComparison {
    /// Opens the comparison; none while wrong credentials have locked the card's.
    pub fn open(failures: Option<CredentialFailures>, at: Timestamp) -> Option<Self> {
        let is_locked = failures.is_some_and(|failures| failures.is_blocking(at));
        (!is_locked).then_some(Self { compared: CredentialPresence::default() })
    }

    /// Whether a credential differs from the card's; an absent one does not differ.
    #[inline]
    pub fn differs<T>(
        &mut self,
        kind: CredentialPresence,
        shown: Option<PresentedValue<T>>,
        is_own: impl FnOnce(T) -> bool,
    ) -> bool {
        let Some(PresentedValue(credential)) = shown else { return false };
        self.compared.insert_if(kind, true);
        !is_own(credential)
    }

    /// Whether a CVV differs from the card's.
    #[inline]
    pub fn cvv_differs(&mut self, shown: Option<PresentedValue<CvvPair>>) -> bool {
        self.differs(CredentialPresence::CVV, shown, CvvPair::is_equal)
    }
}

/// The credentials that a message carried, and the optional credentials that the card had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CredentialPresence(u8);

impl CredentialPresence {
    /// An expiry was shown.
    pub const EXPIRY: Self = Self(1);
    /// A CVV was shown.
    pub const CVV: Self = Self(1 << 1);
    /// A PIN was shown.
    pub const PIN: Self = Self(1 << 2);
    /// A ZIP was shown.
    pub const ZIP: Self = Self(1 << 3);
    /// The card has a PIN.
    pub const CARD_HAS_PIN: Self = Self(1 << 4);
    /// A ZIP is on file.
    pub const CARD_HAS_ZIP: Self = Self(1 << 5);
    /// Every bit that has a meaning.
    const ALL: u8 = (1 << 6) - 1;

    /// The credentials shown by a message.
    pub fn shown(credentials: &PresentedCredentials) -> Self {
        let mut present = Self::default();
        present.insert_if(Self::EXPIRY, credentials.expiry.is_some());
        present.insert_if(Self::CVV, credentials.cvv.is_some());
        present.insert_if(Self::PIN, credentials.pin.is_some());
        present.insert_if(Self::ZIP, credentials.zip.is_some());
        present
    }

    /// Adds the flags of `other` if the condition holds.
    pub const fn insert_if(&mut self, other: Self, condition: bool) {
        self.0 |= other.0 * condition as u8;
    }

    /// Whether all of `other` are present.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The stored form.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The flags of a stored form; bits without a meaning are left out.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & Self::ALL)
    }
}

/// Wrong credentials on one card within an hour of the first of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CredentialFailures {
    /// The time of the first failure.
    pub since: Timestamp,
    /// The number of failures.
    pub count: u8,
}

impl CredentialFailures {
    /// The number of failures within the hour that locks the card's credentials for the rest of it.
    pub const COUNT_MAX: u8 = 5;

    /// Whether these failures still count at the instant `at`.
    pub fn is_current(&self, at: Timestamp) -> bool {
        at < self.since.plus(Timestamp::HOUR)
    }

    /// Whether these failures lock the card's credentials at the instant `at`.
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
        // The days reach from before the table of this century to after it.
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

    #[test]
    fn bits_without_a_meaning_are_left_out() {
        assert_eq!(CredentialPresence::from_bits(0xff).bits(), 0x3f);
        let shown = CredentialPresence::shown(&PresentedCredentials::default());
        assert_eq!(shown, CredentialPresence::default());
    }

    #[test]
    fn nothing_is_compared_while_wrong_credentials_lock() {
        let at = Timestamp(10 * Timestamp::HOUR);
        let failures = |count, ago: i64| CredentialFailures { since: at.plus(-ago), count };
        let rows = [
            (None, true),
            (Some(failures(4, 0)), true),
            (Some(failures(5, 0)), false),
            (Some(failures(u8::MAX, Timestamp::HOUR - 1)), false),
            (Some(failures(5, Timestamp::HOUR)), true),
        ];
        for (failures, is_open) in rows {
            assert_eq!(CredentialComparison::open(failures, at).is_some(), is_open, "{failures:?}");
        }
    }

    #[test]
    fn a_comparison_records_what_it_compared() {
        let mut comparison = CredentialComparison::open(None, Timestamp(0)).unwrap();
        let pin = Some(PresentedValue::new(PinVerifier(1)));
        assert!(!comparison.differs(CredentialPresence::PIN, pin, |pin| pin == PinVerifier(1)));
        assert!(comparison.differs(CredentialPresence::PIN, pin, |pin| pin == PinVerifier(2)));
        assert!(!comparison.differs::<PackedZip>(CredentialPresence::ZIP, None, |_| false));
        assert_eq!(comparison.compared, CredentialPresence::PIN);
        assert_eq!(format!("{pin:?}"), "Some(Shown(..))");
    }

    #[test]
    fn a_cvv_is_three_digits_and_the_one_of_no_card_is_nobodys() {
        let differs = |shown: &[u8], own: &[u8]| {
            let pair = CvvPair { shown: Cvv::parse(shown), own: Cvv::parse(own) };
            let mut comparison = CredentialComparison::open(None, Timestamp(0)).unwrap();
            comparison.cvv_differs(Some(PresentedValue::new(pair)))
        };
        assert!(!differs(b"042", b"042"));
        for (shown, own) in [("043", "042"), ("42", "042"), ("0042", "042"), ("", ""), ("x", "x")] {
            assert!(differs(shown.as_bytes(), own.as_bytes()), "{shown} {own}");
        }
    }
}
