//! How one field of a counterpart's message stands on the wire: its length, and the coding of its content.
//!
//! Content is read into the characters of the default spelling and written from them. Nothing is judged here but
//! lengths: a digit that is none becomes a character that the field table refuses.

use crate::alphabet::Alphabet;
use crate::bitmap::{read_hex, write_hex};
use crate::codec::DecodeFault;
use crate::fields::Class;
use crate::length_prefix::{LengthDigits, LengthForm};

/// The longest that one field may be. Units: characters, or bytes.
pub const FIELD_LEN_MAX: u16 = 2048;

/// How the length of a field is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldLength {
    /// Always the greatest.
    Fixed,
    /// A number of so many digits before the content, in this coding.
    Variable(u8, LengthDigits),
}

/// The unit that a length counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LengthUnit {
    /// Characters and digits; of hex, its characters.
    #[default]
    Characters,
    /// Bytes: two digits each where they are packed, two characters each where they are hex.
    Bytes,
}

/// The place of the half byte that an odd number of packed digits leaves over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Filler {
    /// A zero in front.
    #[default]
    Left,
    /// An F behind.
    Right,
}

/// How the content of a field is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    /// A byte a character.
    Text(Alphabet),
    /// Two digits a byte; D is the separator of tracks.
    Packed(Filler),
    /// Bytes as they are.
    Raw,
    /// Two hex characters a byte.
    Hex(Alphabet),
}

/// How a field stands on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldForm {
    /// The characters that it may hold.
    pub class: Class,
    /// The rule by which its length is known.
    pub length: FieldLength,
    /// The greatest length. Units: those of `counted`.
    pub len_max: u16,
    /// The unit of lengths.
    pub counted: LengthUnit,
    /// The coding of its content.
    pub coding: Coding,
}

impl FieldForm {
    /// Bytes of the length before the content.
    pub(crate) const fn prefix_bytes(&self) -> usize {
        match self.length {
            FieldLength::Fixed => 0,
            FieldLength::Variable(digits, LengthDigits::Text(_)) => digits as usize,
            FieldLength::Variable(digits, LengthDigits::Packed) => digits.div_ceil(2) as usize,
            FieldLength::Variable(digits, LengthDigits::Binary) => digits.div_ceil(2) as usize,
        }
    }

    /// Takes the length off the front of the bytes: how many units the content has.
    pub(crate) fn read_len(&self, prefix: &[u8]) -> Result<u16, DecodeFault> {
        let FieldLength::Variable(_, digits) = self.length else { return Ok(self.len_max) };
        let form = LengthForm { digits, bytes: prefix.len(), is_inclusive: false };
        let len = form.read(prefix).and_then(|len| u16::try_from(len).ok());
        len.ok_or(DecodeFault::BadLength)
    }

    /// Bytes of a content of so many units.
    pub(crate) const fn wire_bytes(&self, units: u16) -> usize {
        let units = units as usize;
        match (self.coding, self.counted) {
            (Coding::Packed(_), LengthUnit::Characters) => {
                self.sign_bytes() + units_packed(self, units)
            }
            (Coding::Hex(_), LengthUnit::Bytes) => 2 * units,
            // The fixed length of bytes in hex is that of the bytes.
            (Coding::Hex(_), LengthUnit::Characters) if self.is_fixed() => 2 * units,
            _ => units,
        }
    }

    /// Appends the content of so many units in the default spelling. False where hex is none.
    pub(crate) fn read_content(&self, content: &[u8], units: u16, out: &mut Vec<u8>) -> bool {
        match self.coding {
            Coding::Text(alphabet) => alphabet.read(content, out),
            Coding::Raw => out.extend_from_slice(content),
            Coding::Hex(Alphabet::Ascii) => return read_hex(content, out),
            Coding::Hex(alphabet) => {
                let mut hex = Vec::with_capacity(content.len());
                alphabet.read(content, &mut hex);
                return read_hex(&hex, out);
            }
            Coding::Packed(filler) => {
                let (mut digits, mut count) = (content, usize::from(units));
                if let (Class::SignedDigits, [sign, behind @ ..]) = (self.class, content) {
                    out.push(*sign);
                    (digits, count) = (behind, count.saturating_sub(1));
                }
                if self.counted == LengthUnit::Bytes {
                    count = 2 * digits.len();
                }
                unpack(digits, count, filler, out);
            }
        }
        true
    }

    /// Appends length and content. False where the content is too long, or cannot be packed.
    pub(crate) fn write(&self, content: &[u8], out: &mut Vec<u8>) -> bool {
        let prefix_at = out.len();
        out.resize(prefix_at + self.prefix_bytes(), 0);
        let content_at = out.len();
        match self.coding {
            Coding::Text(alphabet) => alphabet.write(content, out),
            Coding::Raw => out.extend_from_slice(content),
            Coding::Hex(alphabet) => {
                write_hex(content, out);
                for byte in &mut out[content_at..] {
                    *byte = alphabet.byte_of(*byte);
                }
            }
            Coding::Packed(filler) => {
                let (sign, digits) = content.split_at(self.sign_bytes().min(content.len()));
                out.extend_from_slice(sign);
                if !pack(digits, filler, out) {
                    return false;
                }
            }
        }
        let units = match (self.coding, self.counted) {
            (Coding::Packed(_), LengthUnit::Characters) => content.len(),
            (Coding::Hex(_), LengthUnit::Bytes) => content.len(),
            (Coding::Hex(_), LengthUnit::Characters) if self.is_fixed() => content.len(),
            _ => out.len() - content_at,
        };
        let is_right_len = match self.length {
            FieldLength::Fixed => units == usize::from(self.len_max),
            FieldLength::Variable(..) => units <= usize::from(self.len_max),
        };
        is_right_len && self.write_len(units, &mut out[prefix_at..content_at])
    }

    fn write_len(&self, units: usize, prefix: &mut [u8]) -> bool {
        let FieldLength::Variable(_, digits) = self.length else { return true };
        let form = LengthForm { digits, bytes: prefix.len(), is_inclusive: false };
        form.write(units, prefix).is_some()
    }

    /// The longest content. Units: characters of the default spelling.
    pub(crate) const fn chars_max(&self) -> usize {
        let len_max = self.len_max as usize;
        match (self.coding, self.counted) {
            (Coding::Packed(_), LengthUnit::Bytes) => 2 * len_max,
            (Coding::Hex(_), LengthUnit::Characters) if !self.is_fixed() => len_max / 2,
            _ => len_max,
        }
    }

    /// Whether it is always of whole bytes of packed digits.
    pub(crate) fn has_whole_bytes(&self) -> bool {
        self.coding == Coding::Packed(Filler::Left)
            && self.is_fixed()
            && self.class == Class::Digits
            && self.chars_max().is_multiple_of(2)
    }

    /// Whether its length never varies.
    pub(crate) const fn is_fixed(&self) -> bool {
        matches!(self.length, FieldLength::Fixed)
    }

    /// The sign before packed digits stands in a byte of its own.
    const fn sign_bytes(&self) -> usize {
        matches!(self.class, Class::SignedDigits) as usize
    }
}

/// Bytes of packed digits, without those of a sign.
const fn units_packed(form: &FieldForm, units: usize) -> usize {
    units.saturating_sub(form.sign_bytes()).div_ceil(2)
}

/// Appends so many digits. A half byte above nine becomes one of `:;<=>?`, of which `=` separates tracks.
fn unpack(bytes: &[u8], count: usize, filler: Filler, out: &mut Vec<u8>) {
    let is_odd = 2 * bytes.len() > count;
    let mut pairs = bytes;
    if let (Filler::Left, true, [first, rest @ ..]) = (filler, is_odd, bytes) {
        out.push(b'0' + (first & 15));
        pairs = rest;
    }
    unpack_pairs(pairs, out);
    // A length in bytes does not tell whether the number of digits is odd: only the filler does.
    if filler == Filler::Right && (is_odd || out.last() == Some(&b'?')) {
        out.pop();
    }
}

/// Appends two digits a byte, as `unpack`.
pub(crate) fn unpack_pairs(bytes: &[u8], out: &mut Vec<u8>) {
    for some in bytes.chunks(32) {
        let mut digits = [[0; 2]; 32];
        for (pair, byte) in digits.iter_mut().zip(some) {
            *pair = [b'0' + (byte >> 4), b'0' + (byte & 15)];
        }
        out.extend_from_slice(digits[..some.len()].as_flattened());
    }
}

/// Appends digits, two a byte. False where there is another character among them.
fn pack(characters: &[u8], filler: Filler, out: &mut Vec<u8>) -> bool {
    let mut is_right = true;
    let mut half = |character: u8| match character {
        b'0'..=b'?' => character - b'0',
        b'D' => 0xD,
        _ => {
            is_right = false;
            0
        }
    };
    let (first, rest) = match filler {
        Filler::Left => characters.split_at(characters.len() % 2),
        Filler::Right => characters.split_at(0),
    };
    out.extend(first.iter().map(|low| half(*low)));
    let (pairs, last) = rest.as_chunks();
    out.extend(pairs.iter().map(|[high, low]| half(*high) << 4 | half(*low)));
    out.extend(last.iter().map(|high| half(*high) << 4 | 0xF));
    is_right
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASCII: Coding = Coding::Text(Alphabet::Ascii);
    const TEXT_LENGTH: LengthDigits = LengthDigits::Text(Alphabet::Ascii);

    fn form(class: Class, length: FieldLength, len_max: u16, coding: Coding) -> FieldForm {
        FieldForm { class, length, len_max, counted: LengthUnit::Characters, coding }
    }

    #[test]
    fn fields_have_their_layouts_and_come_back() {
        let ebcdic = Alphabet::Ebcdic037;
        let fixed = |class, len, coding| form(class, FieldLength::Fixed, len, coding);
        let ll = |class, coding, length| form(class, FieldLength::Variable(2, length), 37, coding);
        let lll =
            |class, coding, length| form(class, FieldLength::Variable(3, length), 999, coding);
        let (left, right) = (Coding::Packed(Filler::Left), Coding::Packed(Filler::Right));
        let (packed, binary) = (LengthDigits::Packed, LengthDigits::Binary);
        let bytes = |form: FieldForm| FieldForm { counted: LengthUnit::Bytes, ..form };
        for (form, content, wire) in [
            (fixed(Class::Digits, 3, ASCII), &b"840"[..], &b"840"[..]),
            (fixed(Class::Digits, 3, left), b"840", b"\x08\x40"),
            (fixed(Class::Digits, 3, right), b"840", b"\x84\x0f"),
            (fixed(Class::Printable, 2, Coding::Text(ebcdic)), b"A1", b"\xc1\xf1"),
            (fixed(Class::Binary, 2, Coding::Raw), b"\x01\xff", b"\x01\xff"),
            (fixed(Class::Binary, 2, Coding::Hex(Alphabet::Ascii)), b"\x01\xff", b"01FF"),
            (fixed(Class::Binary, 2, Coding::Hex(ebcdic)), b"\x01\xff", b"\xf0\xf1\xc6\xc6"),
            (fixed(Class::SignedDigits, 9, left), b"C00000123", b"C\0\0\x01\x23"),
            (ll(Class::Digits, ASCII, TEXT_LENGTH), b"123", b"03123"),
            (ll(Class::Digits, left, packed), b"123", b"\x03\x01\x23"),
            (ll(Class::Digits, right, binary), b"123", b"\x03\x12\x3f"),
            (bytes(ll(Class::Digits, right, binary)), b"123", b"\x02\x12\x3f"),
            (ll(Class::Track, left, packed), b"4111=25", b"\x07\x04\x11\x1d\x25"),
            (ll(Class::Digits, ASCII, LengthDigits::Text(ebcdic)), b"1", b"\xf0\xf11"),
            (lll(Class::Binary, Coding::Raw, packed), b"\x9f", b"\0\x01\x9f"),
            (lll(Class::Binary, Coding::Raw, binary), b"\x9f", b"\0\x01\x9f"),
            (lll(Class::Binary, Coding::Hex(Alphabet::Ascii), TEXT_LENGTH), b"\x9f", b"0029F"),
            (
                bytes(lll(Class::Binary, Coding::Hex(Alphabet::Ascii), TEXT_LENGTH)),
                b"\x9f",
                b"0019F",
            ),
        ] {
            let mut out = Vec::new();
            assert!(form.write(content, &mut out), "{form:?}");
            assert_eq!(out, wire, "{form:?}");
            let (prefix, rest) = wire.split_at(form.prefix_bytes());
            let units = form.read_len(prefix).unwrap();
            assert_eq!(form.wire_bytes(units), rest.len(), "{form:?}");
            let mut again = Vec::new();
            assert!(form.read_content(rest, units, &mut again));
            assert_eq!(again, content, "{form:?}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let fixed = form(Class::Digits, FieldLength::Fixed, 3, ASCII);
        assert!(!fixed.write(b"12", &mut Vec::new()) && !fixed.write(b"1234", &mut Vec::new()));
        let packed = form(Class::Digits, FieldLength::Fixed, 4, Coding::Packed(Filler::Left));
        assert!(!packed.write(b"12a4", &mut Vec::new()));
        let mut out = Vec::new();
        assert!(packed.read_content(b"\x1a\xf2", 4, &mut out));
        assert_eq!(out, b"1:?2", "half bytes above nine are no digits");
        let ll = form(Class::Digits, FieldLength::Variable(2, TEXT_LENGTH), 19, ASCII);
        assert!(!ll.write(&[b'1'; 20], &mut Vec::new()));
        assert_eq!(ll.read_len(b"1x"), Err(DecodeFault::BadLength));
        let hex = form(Class::Binary, FieldLength::Fixed, 1, Coding::Hex(Alphabet::Ascii));
        assert!(!hex.read_content(b"0g", 1, &mut Vec::new()));
    }
}
