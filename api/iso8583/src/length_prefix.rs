//! The separation of messages on a stream: a length before each, or a delimiter after it.
//!
//! ```text
//! binary2, binary4      2 or 4 bytes, big-endian
//! ascii2 .. ascii6      so many ASCII digits
//! ebcdic4               4 EBCDIC digits
//! bcd4                  4 digits in 2 bytes
//! ... inclusive         the length counts its own bytes
//! delimiter 03          no length; these one or two bytes, in hex, end a message
//! ```

use std::fmt;
use std::str::FromStr;

use crate::alphabet::Alphabet;
use crate::dialect::FRAME_BYTES_MAX;
use crate::number::{parse_number, write_zero_padded};

/// How the end of a message is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LengthPrefix {
    /// A length before it.
    Length(LengthForm),
    /// One or two bytes behind it that it cannot hold itself.
    Delimiter(Delimiter),
}

/// How a length is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LengthForm {
    /// As what.
    pub digits: LengthDigits,
    /// In so many bytes.
    pub bytes: usize,
    /// Whether it counts its own bytes.
    pub is_inclusive: bool,
}

/// The digits of a length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LengthDigits {
    /// A big-endian number.
    Binary,
    /// A digit a byte.
    Text(Alphabet),
    /// Two digits a byte.
    Packed,
}

/// The bytes that end a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delimiter {
    bytes: [u8; 2],
    len: usize,
}

impl Delimiter {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Default for LengthPrefix {
    /// Two bytes, big-endian.
    fn default() -> Self {
        Self::Length(LengthForm { digits: LengthDigits::Binary, bytes: 2, is_inclusive: false })
    }
}

impl LengthForm {
    /// The bytes that these announce behind themselves, where they are a length at all.
    pub(crate) fn read(self, prefix: &[u8]) -> Option<usize> {
        let number = match self.digits {
            LengthDigits::Binary => {
                Some(prefix.iter().fold(0, |number: u64, byte| number << 8 | u64::from(*byte)))
            }
            LengthDigits::Text(alphabet) => {
                let mut digits = [0; MAX_DIGITS];
                let digits = digits.get_mut(..prefix.len())?;
                for (digit, byte) in digits.iter_mut().zip(prefix) {
                    *digit = alphabet.ascii_of(*byte);
                }
                parse_number(digits)
            }
            LengthDigits::Packed => prefix.iter().try_fold(0_u64, |number, byte| {
                let (high, low) = (byte >> 4, byte & 15);
                (high < 10 && low < 10).then(|| number * 100 + u64::from(high * 10 + low))
            }),
        };
        let number = usize::try_from(number?).ok()?;
        match self.is_inclusive {
            // A heartbeat, however it is counted.
            true if number == 0 => Some(0),
            true => number.checked_sub(self.bytes),
            false => Some(number),
        }
    }

    /// Writes the length of what follows; none where it is above the cap or needs more digits.
    pub(crate) fn write(self, announced: usize, place: &mut [u8]) -> Option<()> {
        if announced > FRAME_BYTES_MAX {
            return None;
        }
        let counted = if self.is_inclusive { announced + self.bytes } else { announced };
        let number = u64::try_from(counted).ok()?;
        match self.digits {
            LengthDigits::Binary => {
                let bytes = number.to_be_bytes();
                let (zeros, used) = bytes.split_at(bytes.len().checked_sub(place.len())?);
                zeros.iter().all(|zero| *zero == 0).then(|| place.copy_from_slice(used))
            }
            LengthDigits::Text(alphabet) => {
                let fits = write_zero_padded(number, place);
                place.iter_mut().for_each(|digit| *digit = alphabet.byte_of(*digit));
                fits.then_some(())
            }
            LengthDigits::Packed => {
                let mut rest = number;
                for byte in place.iter_mut().rev() {
                    let two = u8::try_from(rest % 100).ok()?;
                    *byte = two / 10 * 16 + two % 10;
                    rest /= 100;
                }
                (rest == 0).then_some(())
            }
        }
    }
}

const MAX_DIGITS: usize = 6;

/// The forms of a length, by name.
const FORMS: [(&str, LengthDigits, usize); 9] = [
    ("binary2", LengthDigits::Binary, 2),
    ("binary4", LengthDigits::Binary, 4),
    ("ascii2", LengthDigits::Text(Alphabet::Ascii), 2),
    ("ascii3", LengthDigits::Text(Alphabet::Ascii), 3),
    ("ascii4", LengthDigits::Text(Alphabet::Ascii), 4),
    ("ascii5", LengthDigits::Text(Alphabet::Ascii), 5),
    ("ascii6", LengthDigits::Text(Alphabet::Ascii), MAX_DIGITS),
    ("ebcdic4", LengthDigits::Text(Alphabet::Ebcdic037), 4),
    ("bcd4", LengthDigits::Packed, 2),
];
const INCLUSIVE: &str = " inclusive";

impl FromStr for LengthPrefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(hex) = text.strip_prefix("delimiter ") {
            let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
            let bytes: Option<Vec<u8>> = hex.as_bytes().chunks(2).map(byte).collect();
            if let (Some([one]), 2) = (bytes.as_deref(), hex.len()) {
                return Ok(Self::Delimiter(Delimiter { bytes: [*one, 0], len: 1 }));
            }
            if let (Some([one, two]), 4) = (bytes.as_deref(), hex.len()) {
                return Ok(Self::Delimiter(Delimiter { bytes: [*one, *two], len: 2 }));
            }
        }
        let (name, is_inclusive) = match text.strip_suffix(INCLUSIVE) {
            Some(name) => (name, true),
            None => (text, false),
        };
        match FORMS.iter().find(|(known, ..)| *known == name) {
            Some((_, digits, bytes)) => {
                Ok(Self::Length(LengthForm { digits: *digits, bytes: *bytes, is_inclusive }))
            }
            None => Err(format!(
                "`{text}` is none of binary2, binary4, ascii2 to ascii6, ebcdic4, bcd4, each also \
                 with ` inclusive`, or `delimiter` and one or two bytes in hex"
            )),
        }
    }
}

impl fmt::Display for LengthPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delimiter(delimiter) => {
                f.write_str("delimiter ")?;
                delimiter.bytes().iter().try_for_each(|byte| write!(f, "{byte:02X}"))
            }
            Self::Length(form) => {
                let is_it = |(_, digits, bytes): &&(_, LengthDigits, usize)| {
                    (*digits, *bytes) == (form.digits, form.bytes)
                };
                let name = FORMS.iter().find(is_it).map_or("binary2", |(name, ..)| *name);
                write!(f, "{name}{}", if form.is_inclusive { INCLUSIVE } else { "" })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_their_layouts_and_come_back() {
        for (name, announced, bytes) in [
            ("binary2", 3, &b"\0\x03"[..]),
            ("binary4", 3, b"\0\0\0\x03"),
            ("binary2 inclusive", 3, b"\0\x05"),
            ("ascii2", 99, b"99"),
            ("ascii4", 103, b"0103"),
            ("ascii4 inclusive", 103, b"0107"),
            ("ascii6", 103, b"000103"),
            ("ebcdic4", 103, b"\xf0\xf1\xf0\xf3"),
            ("bcd4", 103, b"\x01\x03"),
            ("bcd4 inclusive", 103, b"\x01\x05"),
        ] {
            let length: LengthPrefix = name.parse().unwrap();
            assert_eq!(length.to_string(), name);
            let LengthPrefix::Length(form) = length else { panic!("{name}") };
            let mut place = vec![0; form.bytes];
            form.write(announced, &mut place).unwrap();
            assert_eq!(place, bytes, "{name}");
            assert_eq!(form.read(bytes), Some(announced), "{name}");
            assert_eq!(form.write(FRAME_BYTES_MAX + 1, &mut place), None, "{name}");
        }
        for name in ["delimiter 03", "delimiter 0D0A"] {
            assert_eq!(name.parse::<LengthPrefix>().unwrap().to_string(), name);
        }
        for name in
            ["", "binary3", "ascii4inclusive", "delimiter", "delimiter 0", "delimiter 030405"]
        {
            assert!(name.parse::<LengthPrefix>().unwrap_err().contains(name), "{name}");
        }
    }

    #[test]
    fn what_is_no_length_is_none() {
        let form = |name: &str| match name.parse().unwrap() {
            LengthPrefix::Length(form) => form,
            LengthPrefix::Delimiter(_) => panic!("{name}"),
        };
        assert_eq!(form("ascii4").read(b"01x3"), None);
        assert_eq!(form("ebcdic4").read(b"0103"), None);
        assert_eq!(form("bcd4").read(b"\x1a\x00"), None);
        assert_eq!(form("binary2 inclusive").read(b"\0\x01"), None);
        assert_eq!(form("binary2 inclusive").read(b"\0\x02"), Some(0));
        assert_eq!(form("binary2 inclusive").read(b"\0\0"), Some(0));
        assert_eq!(form("ascii2").write(100, &mut [0; 2]), None);
    }
}
