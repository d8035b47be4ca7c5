//! The acquirers' own way to spell messages and to read answers, beside the product's codec: two that read one
//! standard check each other.
//!
//! A message is drawn as the elements of ISO 8583:1987, in plain text. Its *fields* are what an acquirer's version of
//! the standard makes of them, `version_1993` for the later one; they are spelled here.

use std::collections::BTreeMap;

use super::{ebcdic, version_1993};

/// A message's type and elements or fields, each in plain text; bytes where the standard has bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) mti: [u8; 4],
    pub(super) elements: BTreeMap<u8, Vec<u8>>,
}

impl Content {
    pub(super) fn new(mti: &str) -> Self {
        Self { mti: mti.as_bytes().try_into().unwrap(), elements: BTreeMap::new() }
    }

    pub(super) fn with(mut self, element: u8, content: impl Into<Vec<u8>>) -> Self {
        self.elements.insert(element, content.into());
        self
    }

    pub(super) fn text(&self, element: u8) -> Option<&str> {
        std::str::from_utf8(self.elements.get(&element)?).ok()
    }

    pub(super) fn number(&self, element: u8) -> Option<u64> {
        self.text(element)?.parse().ok()
    }

    pub(super) fn has(&self, element: u8) -> bool {
        self.elements.contains_key(&element)
    }
}

/// How an acquirer spells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Spelling {
    Ascii,
    AsciiHex,
    Ebcdic,
    /// Two digits a byte.
    Packed,
    /// ISO 8583:1993, in ASCII.
    Of1993,
}

/// The content of a field.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Digits,
    Text,
    /// Digits and a separator.
    Track,
    Bytes,
}

/// The extent of a field. Units: characters, or bytes.
#[derive(Clone, Copy)]
pub(super) enum Extent {
    Fixed(usize),
    /// Behind so many digits of length.
    Counted(usize),
}

/// The elements that acquirers send or are answered with. Source: ISO 8583:1987, table of data elements.
const fn form_of_1987(element: u8) -> Option<(Kind, Extent)> {
    Some(match element {
        2 | 32 => (Kind::Digits, Extent::Counted(2)),
        3 | 11 | 12 => (Kind::Digits, Extent::Fixed(6)),
        4 | 6 => (Kind::Digits, Extent::Fixed(12)),
        7 => (Kind::Digits, Extent::Fixed(10)),
        13 | 14 | 18 => (Kind::Digits, Extent::Fixed(4)),
        22 | 23 | 49 | 51 | 70 => (Kind::Digits, Extent::Fixed(3)),
        25 => (Kind::Digits, Extent::Fixed(2)),
        35 => (Kind::Track, Extent::Counted(2)),
        37 => (Kind::Text, Extent::Fixed(12)),
        38 => (Kind::Text, Extent::Fixed(6)),
        39 => (Kind::Text, Extent::Fixed(2)),
        41 => (Kind::Text, Extent::Fixed(8)),
        42 => (Kind::Text, Extent::Fixed(15)),
        43 => (Kind::Text, Extent::Fixed(40)),
        44 | 102 => (Kind::Text, Extent::Counted(2)),
        47 | 48 | 54 | 60..=63 => (Kind::Text, Extent::Counted(3)),
        52 | 64 | 128 => (Kind::Bytes, Extent::Fixed(8)),
        55 => (Kind::Bytes, Extent::Counted(3)),
        90 => (Kind::Digits, Extent::Fixed(42)),
        95 => (Kind::Text, Extent::Fixed(42)),
        _ => return None,
    })
}

impl Spelling {
    /// The name of the product's dialect for it.
    pub(super) const fn dialect(self) -> &'static str {
        match self {
            Self::Ascii => "default",
            Self::AsciiHex => "ascii-hex",
            Self::Ebcdic => "ebcdic",
            Self::Packed => "bcd",
            Self::Of1993 => "1993",
        }
    }

    const fn form_of(self, field: u8) -> Option<(Kind, Extent)> {
        match self {
            Self::Of1993 => version_1993::form_of(field),
            _ => form_of_1987(field),
        }
    }

    /// The fields of a message.
    pub(super) fn fields_of(self, content: &Content) -> Content {
        match self {
            Self::Of1993 => version_1993::fields_of(content),
            _ => content.clone(),
        }
    }

    /// The code of an answer, as ISO 8583:1987 has it; none where there is no such code.
    pub(super) fn answer_code(self, fields: &Content) -> Option<[u8; 2]> {
        match self {
            Self::Of1993 => version_1993::answer_code(fields.mti, fields.text(39)?),
            _ => fields.text(39)?.as_bytes().try_into().ok(),
        }
    }

    /// The code that an acquirer reads in place of this one, where its version has one for both.
    pub(super) const fn code_heard(self, code: [u8; 2]) -> [u8; 2] {
        match (self, &code) {
            (Self::Of1993, b"80") => *b"54",
            (Self::Of1993, b"21") => *b"25",
            _ => code,
        }
    }

    /// The bytes of a message of these fields on the wire, without header.
    pub(super) fn write(self, fields: &Content) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write_digits(&fields.mti, &mut bytes);
        let mut bits = 0_u128;
        fields.elements.keys().for_each(|element| bits |= 1 << (128 - u32::from(*element)));
        let is_long = fields.elements.keys().any(|element| *element > 64);
        bits |= u128::from(is_long) << 127;
        let bitmap = bits.to_be_bytes();
        self.write_bytes_or_hex(&bitmap[..if is_long { 16 } else { 8 }], &mut bytes);
        for (field, value) in &fields.elements {
            self.write_field(*field, value, &mut bytes);
        }
        bytes
    }

    fn write_field(self, field: u8, value: &[u8], bytes: &mut Vec<u8>) {
        let (kind, extent) = self.form_of(field).unwrap();
        if let Extent::Counted(digits) = extent {
            let is_hex = kind == Kind::Bytes && self == Self::AsciiHex;
            // Hex digits are counted one by one.
            let len = if is_hex { 2 * value.len() } else { value.len() };
            self.write_digits(format!("{len:0digits$}").as_bytes(), bytes);
        }
        match kind {
            Kind::Digits => self.write_digits(value, bytes),
            Kind::Text => bytes.extend(self.text_of(value)),
            Kind::Track => self.write_track(value, bytes),
            Kind::Bytes => self.write_bytes_or_hex(value, bytes),
        }
    }

    fn text_of(self, ascii: &[u8]) -> Vec<u8> {
        match self {
            Self::Ebcdic => ascii.iter().map(|byte| ebcdic::of_ascii(*byte)).collect(),
            _ => ascii.to_vec(),
        }
    }

    fn write_digits(self, digits: &[u8], bytes: &mut Vec<u8>) {
        if self != Self::Packed {
            bytes.extend(self.text_of(digits));
            return;
        }
        let mut digits = digits.to_vec();
        if digits.len() % 2 == 1 {
            digits.insert(0, b'0');
        }
        bytes.extend(digits.chunks(2).map(|pair| (pair[0] - b'0') << 4 | (pair[1] - b'0')));
    }

    /// A track: where digits are packed its separator is a D.
    fn write_track(self, track: &[u8], bytes: &mut Vec<u8>) {
        if self != Self::Packed {
            bytes.extend(self.text_of(track));
            return;
        }
        // `=` and D are one, and the characters before it follow the digits.
        let nibble = |byte: &u8| if *byte == b'D' { 0xd } else { *byte - b'0' };
        let mut nibbles: Vec<_> = track.iter().map(nibble).collect();
        if nibbles.len() % 2 == 1 {
            nibbles.insert(0, 0);
        }
        bytes.extend(nibbles.chunks(2).map(|pair| pair[0] << 4 | pair[1]));
    }

    fn write_bytes_or_hex(self, value: &[u8], bytes: &mut Vec<u8>) {
        match self {
            Self::AsciiHex => {
                value.iter().for_each(|byte| bytes.extend(format!("{byte:02X}").as_bytes()));
            }
            _ => bytes.extend(value),
        }
    }

    /// The bytes that a code of eight bytes takes at the end of a message.
    pub(super) const fn code_len(self) -> usize {
        if matches!(self, Self::AsciiHex) { 16 } else { 8 }
    }

    /// Puts a code at the end of a message, in place of zeros.
    pub(super) fn put_code(self, code: [u8; 8], bytes: &mut Vec<u8>) {
        bytes.truncate(bytes.len() - self.code_len());
        self.write_bytes_or_hex(&code, bytes);
    }

    /// Reads the fields of a message; none where these bytes are no message of fields that are known here.
    pub(super) fn read(self, bytes: &[u8]) -> Option<Content> {
        let mut rest = bytes;
        let mti = self.take_digits(4, &mut rest)?.try_into().ok()?;
        let mut bitmap = self.take_bytes(8, &mut rest)?;
        if bitmap[0] & 0x80 != 0 {
            bitmap.extend(self.take_bytes(8, &mut rest)?);
        }
        let mut elements = BTreeMap::new();
        for element in 2..=8 * bitmap.len() as u8 {
            let bit = usize::from(element - 1);
            if bitmap[bit / 8] & (0x80 >> (bit % 8)) == 0 {
                continue;
            }
            elements.insert(element, self.read_field(element, &mut rest)?);
        }
        rest.is_empty().then_some(Content { mti, elements })
    }

    fn read_field(self, field: u8, rest: &mut &[u8]) -> Option<Vec<u8>> {
        let (kind, extent) = self.form_of(field)?;
        let len = match extent {
            Extent::Fixed(len) => len,
            Extent::Counted(digits) => {
                let digits = self.take_digits(digits, rest)?;
                std::str::from_utf8(&digits).ok()?.parse().ok()?
            }
        };
        let is_hex = self == Self::AsciiHex && matches!(extent, Extent::Counted(_));
        match kind {
            Kind::Digits => self.take_digits(len, rest),
            Kind::Text | Kind::Track => Some(self.plain_of(take(len, rest)?)),
            Kind::Bytes => self.take_bytes(if is_hex { len / 2 } else { len }, rest),
        }
    }

    fn plain_of(self, text: &[u8]) -> Vec<u8> {
        match self {
            Self::Ebcdic => text.iter().map(|byte| ebcdic::to_ascii(*byte)).collect(),
            _ => text.to_vec(),
        }
    }

    fn take_digits(self, count: usize, rest: &mut &[u8]) -> Option<Vec<u8>> {
        if self != Self::Packed {
            return Some(self.plain_of(take(count, rest)?));
        }
        let packed = take(count.div_ceil(2), rest)?;
        let digits: Vec<_> =
            packed.iter().flat_map(|byte| [b'0' + (byte >> 4), b'0' + (byte & 15)]).collect();
        Some(digits[digits.len() - count..].to_vec())
    }

    fn take_bytes(self, count: usize, rest: &mut &[u8]) -> Option<Vec<u8>> {
        if self != Self::AsciiHex {
            return Some(take(count, rest)?.to_vec());
        }
        let digits = std::str::from_utf8(take(2 * count, rest)?).ok()?;
        (0..count).map(|at| u8::from_str_radix(digits.get(2 * at..2 * at + 2)?, 16).ok()).collect()
    }
}

fn take<'a>(count: usize, rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(count)?;
    *rest = left;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes that the shipped dialects' golden files have.
    #[test]
    fn messages_have_the_bytes_of_the_golden_files() {
        let sign_on = Content::new("0810").with(7, "0102030405").with(11, "000001");
        let sign_on = sign_on.with(39, "00").with(70, "001");
        let sign_on = sign_on.with(128, [0xff, 0xee, 0xdd, 0xcc, 0xbb, 0xaa, 0x99, 0x88]);
        let packed = "081082200000020000000400000000000001010203040500000130300001ffeeddccbbaa9988";
        let ebcdic = "f0f8f1f082200000020000000400000000000001f0f1f0f2f0f3f0f4f0f5f0f0f0f0f0f1f0f0\
                      f0f0f1ffeeddccbbaa9988";
        let hex = "303831303832323030303030303230303030303030343030303030303030303030303031303130\
                   3230333034303530303030303130303030314646454544444343424241413939\
                   3838";
        let rows =
            [(Spelling::Packed, packed), (Spelling::Ebcdic, ebcdic), (Spelling::AsciiHex, hex)];
        for (spelling, golden) in rows {
            let bytes = spelling.write(&sign_on);
            let shown: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(shown, golden, "{spelling:?}");
            assert_eq!(spelling.read(&bytes).as_ref(), Some(&sign_on));
            assert_eq!(spelling.read(&bytes[..bytes.len() - 1]), None);
        }
    }

    #[test]
    fn numbers_of_an_odd_length_are_filled_in_front() {
        let message = Content::new("0100").with(32, "12345").with(44, "a reason_9");
        for spelling in [Spelling::Ascii, Spelling::AsciiHex, Spelling::Ebcdic, Spelling::Packed] {
            assert_eq!(spelling.read(&spelling.write(&message)).as_ref(), Some(&message));
        }
        let packed = Spelling::Packed.write(&message);
        assert_eq!(packed[10..14], [0x05, 0x01, 0x23, 0x45]);
    }
}
