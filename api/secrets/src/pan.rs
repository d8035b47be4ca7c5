//! A card number in clear: only the edges hold one, and never for long.
//!
//! INVARIANT: the digits never reach a log, an error or a panic message, and are wiped when the
//! value goes. `MaskedPan` may be shown; `PanHash` is the key by which the engine finds a card.

use cardswitch_engine::domain::card::MaskedPan;
use zeroize::Zeroize;

/// A card number in clear, digits only.
/// Source: ISO DE2.
#[derive(Clone)]
pub struct Pan {
    /// In a place of their own: a value that is moved leaves its bytes behind on the stack.
    digits: Box<[u8; Self::LEN_MAX]>,
    len: u8,
}

impl Pan {
    /// The fewest digits a card number has. Source: ISO/IEC 7812.
    pub const LEN_MIN: usize = 8;
    /// The most digits a card number has. Source: ISO DE2.
    pub const LEN_MAX: usize = 19;

    /// Reads a card number from ASCII digits; none where the text cannot be one. The check digit
    /// is not looked at: a number that fails it is simply no card's.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let fits = (Self::LEN_MIN..=Self::LEN_MAX).contains(&text.len());
        if !fits || !text.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let mut digits = Box::new([0; Self::LEN_MAX]);
        digits[..text.len()].copy_from_slice(text);
        Some(Self { digits, len: u8::try_from(text.len()).ok()? })
    }

    /// Completes the leading digits of a card number with its check digit.
    pub fn with_check_digit(leading: &[u8]) -> Option<Self> {
        let mut text = leading.to_vec();
        text.push(b'0');
        let candidate = Self::parse(&text);
        text.zeroize();
        let mut pan = candidate?;
        let missing = (10 - luhn_sum(pan.digits()) % 10) % 10;
        pan.digits[leading.len()] = b'0' + u8::try_from(missing).ok()?;
        Some(pan)
    }

    /// The digits in clear, as ASCII.
    pub fn digits(&self) -> &[u8] {
        &self.digits[..usize::from(self.len)]
    }

    /// The number in clear, for the few answers whose purpose is to show it.
    pub fn reveal(&self) -> String {
        self.digits().iter().copied().map(char::from).collect()
    }

    /// Whether the check digit is right. Source: ISO/IEC 7812, Luhn's formula.
    pub fn is_luhn_valid(&self) -> bool {
        luhn_sum(self.digits()).is_multiple_of(10)
    }

    /// The last four digits.
    pub fn last_four(&self) -> [u8; 4] {
        let mut last = [0; 4];
        last.copy_from_slice(&self.digits()[usize::from(self.len) - 4..]);
        last
    }

    /// The most that logs, pages and exports show. Of short numbers the first six stay hidden,
    /// since with the last four they would be most of the number.
    pub fn masked(&self) -> MaskedPan {
        let mut first_six = [b'*'; 6];
        if self.len >= 14 {
            first_six.copy_from_slice(&self.digits[..6]);
        }
        MaskedPan { first_six, last_four: self.last_four() }
    }
}

cardswitch_engine::opaque!(Pan);

impl Drop for Pan {
    fn drop(&mut self) {
        self.digits.zeroize();
    }
}

/// The sum of Luhn's formula over ASCII digits; a valid number's is a multiple of ten.
fn luhn_sum(digits: &[u8]) -> u32 {
    digits.iter().rev().enumerate().fold(0, |sum, (position, digit)| {
        let value = u32::from(digit - b'0');
        let weighed = if position % 2 == 1 { value * 2 } else { value };
        sum + weighed / 10 + weighed % 10
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn card_numbers_are_eight_to_nineteen_digits() {
        let rows = [
            ("4111111111111111", true),
            ("12345678", true),
            ("1234567890123456789", true),
            ("1234567", false),
            ("12345678901234567890", false),
            ("4111 1111 1111 1111", false),
            ("", false),
        ];
        for (text, is_pan) in rows {
            assert_eq!(Pan::parse(text.as_bytes()).is_some(), is_pan, "{text}");
        }
    }

    #[test]
    fn luhn_accepts_known_numbers_and_refuses_each_changed_digit() {
        for text in ["4111111111111111", "5500000000000004", "340000000000009", "6011000000000004"]
        {
            assert!(Pan::parse(text.as_bytes()).unwrap().is_luhn_valid(), "{text}");
            for position in 0..text.len() {
                let mut changed = text.as_bytes().to_vec();
                changed[position] = b'0' + (changed[position] - b'0' + 1) % 10;
                assert!(!Pan::parse(&changed).unwrap().is_luhn_valid(), "{text} at {position}");
            }
            let leading = &text.as_bytes()[..text.len() - 1];
            assert_eq!(Pan::with_check_digit(leading).unwrap().reveal(), text);
        }
    }

    #[test]
    fn nothing_but_the_masked_form_is_shown() {
        let pan = Pan::parse(b"4111111111111234").unwrap();
        assert_eq!(format!("{pan:?}"), "Pan(..)");
        assert_eq!(pan.masked(), MaskedPan { first_six: *b"411111", last_four: *b"1234" });
        let short = Pan::parse(b"12345678").unwrap();
        assert_eq!(short.masked(), MaskedPan { first_six: *b"******", last_four: *b"5678" });
    }
}
