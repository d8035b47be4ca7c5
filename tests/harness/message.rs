//! An ISO 8583:1987 message as the harness sees it, with an encoder and decoder of its own.
//!
//! CHOICE: this does not use the switch's codec. Two implementations that read the same field
//! profile check each other (`network/codec.rs` compares them); one that talks to itself would
//! agree with its own mistakes.
//!
//! ```text
//! MTI 4 | bitmap 8 | second bitmap 8 if bit 1 | fields in order, ASCII, two or three digits of
//! length before variable ones; binary fields (52, 64, 128) as they are
//! ```

use std::collections::BTreeMap;
use std::fmt;

/// How a field's end is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    Fixed(usize),
    /// Digits of length before the value.
    Prefixed(usize),
}

/// One message: its type and its fields.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    /// The message type indicator.
    pub mti: String,
    fields: BTreeMap<u8, Vec<u8>>,
}

impl Message {
    /// A message without fields.
    pub fn new(mti: &str) -> Self {
        Self { mti: mti.to_owned(), fields: BTreeMap::new() }
    }

    /// A network management request.
    /// Source: MTI 0800, DE70.
    pub fn network_management(code: &str, stan: u32) -> Self {
        let mut message = Self::new("0800");
        message.set(7, "0115120000");
        message.set(11, &format!("{stan:06}"));
        message.set(70, code);
        message
    }

    /// Sets a field.
    pub fn set(&mut self, field: u8, value: &str) {
        self.set_bytes(field, value.as_bytes());
    }

    /// Sets a field where there is a value.
    pub fn set_optional(&mut self, field: u8, value: Option<&str>) {
        if let Some(value) = value {
            self.set(field, value);
        }
    }

    /// Sets a binary field.
    pub fn set_bytes(&mut self, field: u8, value: &[u8]) {
        self.fields.insert(field, value.to_vec());
    }

    /// Takes a field out.
    pub fn remove(&mut self, field: u8) {
        self.fields.remove(&field);
    }

    /// A field's value as text, if it is there.
    pub fn get(&self, field: u8) -> Option<&str> {
        let value = self.fields.get(&field)?;
        Some(std::str::from_utf8(value).expect("text fields are ASCII"))
    }

    /// The numbers of the fields that are there.
    pub fn field_numbers(&self) -> impl Iterator<Item = u8> + '_ {
        self.fields.keys().copied()
    }

    /// The response, which every answer has.
    /// Source: ISO DE39.
    #[track_caller]
    pub fn response(&self) -> &str {
        self.get(39).expect("an answer has DE39")
    }

    /// The exact response code that begins DE44, if the answer has one.
    pub fn exact_code(&self) -> Option<&str> {
        self.get(44)?.split(' ').next()
    }

    /// Asserts an approval and returns its authorization id.
    /// Source: ISO DE38.
    #[track_caller]
    pub fn expect_approved(&self) -> String {
        assert_eq!(self.response(), "00", "an approval was expected: {self:?}");
        self.get(38).expect("an approval has DE38").to_owned()
    }

    /// Asserts a decline with this exact code, in DE39 and in DE44.
    #[track_caller]
    pub fn expect_declined(&self, code: u16) {
        let code = code.to_string();
        assert_eq!(self.exact_code(), Some(code.as_str()), "DE44 of {self:?}");
        assert_eq!(Some(self.response()), de39_of(&code), "DE39 of {self:?}");
    }

    /// The bytes of the message, without a length before them.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.mti.as_bytes().to_vec();
        bytes.extend_from_slice(&self.bitmap());
        for (&field, value) in &self.fields {
            match extent_of(field) {
                Extent::Fixed(length) => {
                    assert_eq!(value.len(), length, "DE{field} has a fixed length");
                }
                Extent::Prefixed(digits) => {
                    bytes.extend_from_slice(format!("{:0digits$}", value.len()).as_bytes());
                }
            }
            bytes.extend_from_slice(value);
        }
        bytes
    }

    /// Reads a message; the switch only sends whole ones, so anything else fails the test.
    #[track_caller]
    pub fn decode(bytes: &[u8]) -> Self {
        let mut reader = Reader { rest: bytes };
        let mut message = Self::new(&reader.text(4));
        let mut bitmap = reader.take(8).to_vec();
        if bitmap[0] & 0x80 != 0 {
            bitmap.extend_from_slice(reader.take(8));
        }
        for field in 2..=128u8 {
            let bit = usize::from(field) - 1;
            if bitmap.get(bit / 8).is_some_and(|byte| byte & (0x80 >> (bit % 8)) != 0) {
                let length = match extent_of(field) {
                    Extent::Fixed(length) => length,
                    Extent::Prefixed(digits) => {
                        reader.text(digits).parse().expect("a length is digits")
                    }
                };
                message.set_bytes(field, reader.take(length));
            }
        }
        assert!(reader.rest.is_empty(), "{} bytes after the last field", reader.rest.len());
        message
    }

    fn bitmap(&self) -> Vec<u8> {
        let needs_second = self.fields.keys().any(|&field| field > 64);
        let mut bitmap = vec![0; if needs_second { 16 } else { 8 }];
        if needs_second {
            bitmap[0] |= 0x80;
        }
        for &field in self.fields.keys() {
            let bit = usize::from(field) - 1;
            bitmap[bit / 8] |= 0x80 >> (bit % 8);
        }
        bitmap
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.mti)?;
        for (field, value) in &self.fields {
            write!(formatter, " {field}=`{}`", value.escape_ascii())?;
        }
        Ok(())
    }
}

/// The DE39 that stands for a response code.
/// Source: the table under the field profile.
pub fn de39_of(code: &str) -> Option<&'static str> {
    let table = [
        ("0", "00"),
        ("1000", "05"),
        ("1101", "51"),
        ("1201", "78"),
        ("1202", "62"),
        ("1203", "54"),
        ("1301", "80"),
        ("1302", "55"),
        ("1303", "82"),
        ("1304", "59"),
        ("1501", "57"),
        ("1502", "61"),
        ("1503", "61"),
        ("1701", "63"),
        ("1702", "57"),
    ];
    table.iter().find(|(key, _)| *key == code).map(|(_, de39)| *de39)
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    #[track_caller]
    fn take(&mut self, length: usize) -> &'a [u8] {
        assert!(self.rest.len() >= length, "a message of the switch ends too early");
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }

    #[track_caller]
    fn text(&mut self, length: usize) -> String {
        std::str::from_utf8(self.take(length)).expect("ASCII").to_owned()
    }
}

/// The extents of the fields that the switch and its acquirers use.
/// Source: ISO 8583:1987.
#[track_caller]
fn extent_of(field: u8) -> Extent {
    let extent = match field {
        2 | 32 | 33 | 35 | 44 => Some(Extent::Prefixed(2)),
        48 | 54 | 55 | 60..=63 => Some(Extent::Prefixed(3)),
        3 | 11 | 12 | 38 => Some(Extent::Fixed(6)),
        4..=6 | 37 => Some(Extent::Fixed(12)),
        7 => Some(Extent::Fixed(10)),
        8 | 9 | 10 | 41 | 52 | 64 | 128 => Some(Extent::Fixed(8)),
        13..=18 => Some(Extent::Fixed(4)),
        19 | 22 | 23 | 24 | 49..=51 | 70 => Some(Extent::Fixed(3)),
        25 | 26 | 39 => Some(Extent::Fixed(2)),
        42 => Some(Extent::Fixed(15)),
        43 => Some(Extent::Fixed(40)),
        90 | 95 => Some(Extent::Fixed(42)),
        _ => None,
    };
    extent.expect("a field that the harness knows")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_survives_its_bytes() {
        let mut message = Message::network_management("301", 42);
        message.set(2, "4000001234567899");
        message.set(48, "9203123");
        message.set_bytes(52, &[0, 255, 1, 2, 3, 4, 5, 6]);
        assert_eq!(Message::decode(&message.encode()), message);
    }

    #[test]
    fn an_echo_has_the_bytes_of_the_standard() {
        let bytes = Message::network_management("301", 42).encode();
        let bitmaps = b"\x82\x20\0\0\0\0\0\0\x04\0\0\0\0\0\0\0";
        assert_eq!(bytes, [b"0800", &bitmaps[..], b"0115120000000042301"].concat());
    }
}
