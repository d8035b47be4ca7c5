//! The keys of a dialect file. Every key may be left out: its value is then that of the dialect the
//! file is based on.

use std::collections::BTreeMap;

use cardswitch_iso8583::line_of;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use crate::DialectError;

/// A dialect file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DialectFile {
    /// The shipped dialect that it changes; `none` for a file that says everything itself.
    pub(crate) base: Option<Spanned<String>>,
    pub(crate) version: Option<Version>,
    /// How texts are written.
    pub(crate) text: Option<TextName>,
    /// How the message type is written.
    pub(crate) mti: Option<DigitsName>,
    /// How classes `n`, `z` and `x+n` are written.
    pub(crate) digits: Option<DigitsName>,
    /// How the lengths of variable fields are written.
    pub(crate) prefix: Option<PrefixName>,
    /// How bitmaps are written.
    pub(crate) bitmap: Option<BytesName>,
    /// How class `b` is written.
    pub(crate) bytes: Option<BytesName>,
    /// The place of the filler in a variable field with an odd number of packed digits.
    pub(crate) filler: Option<FillerName>,
    /// The unit of lengths.
    pub(crate) counted: Option<CountedName>,
    /// How messages are told apart on a stream.
    pub(crate) length: Option<Spanned<String>>,
    /// Whether a TPDU stands before each message.
    pub(crate) tpdu: Option<bool>,
    /// Message types that differ in more than their version: theirs, then ours.
    pub(crate) types: Option<BTreeMap<String, Spanned<String>>>,
    /// Fields by number.
    #[serde(default)]
    pub(crate) fields: BTreeMap<String, Spanned<FieldEntry>>,
}

/// The edition of the standard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "u16")]
pub(crate) enum Version {
    Of1987,
    Of1993,
    Of2003,
}

impl Version {
    /// The first digit of its message types. Source: ISO 8583.
    pub(crate) const fn digit(self) -> u8 {
        match self {
            Self::Of1987 => b'0',
            Self::Of1993 => b'1',
            Self::Of2003 => b'2',
        }
    }
}

impl TryFrom<u16> for Version {
    type Error = String;

    fn try_from(year: u16) -> Result<Self, String> {
        match year {
            1987 => Ok(Self::Of1987),
            1993 => Ok(Self::Of1993),
            2003 => Ok(Self::Of2003),
            _ => Err(format!("version {year} is none of 1987, 1993, 2003")),
        }
    }
}

/// An alphabet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TextName {
    Ascii,
    Ebcdic,
    #[serde(rename = "ebcdic-500")]
    Ebcdic500,
    #[serde(rename = "ebcdic-1047")]
    Ebcdic1047,
}

/// How digits are written: as the texts are, or two a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DigitsName {
    Text,
    Bcd,
}

/// How lengths are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PrefixName {
    Text,
    Bcd,
    Binary,
}

/// How bytes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum BytesName {
    Binary,
    Hex,
}

/// The place of a filler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FillerName {
    Left,
    Right,
}

/// The unit of lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CountedName {
    Characters,
    Bytes,
}

/// A field: its format alone, or a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FieldTable {
    /// Class and length, such as `n 6`, `n ..19` and `ans ...999`: a dot for each digit of the length before it.
    pub(crate) format: String,
    /// As the keys of the file, for this field alone.
    pub(crate) text: Option<TextName>,
    pub(crate) digits: Option<DigitsName>,
    pub(crate) bytes: Option<BytesName>,
    pub(crate) prefix: Option<PrefixName>,
    pub(crate) filler: Option<FillerName>,
    pub(crate) counted: Option<CountedName>,
    /// The element it leads to, 0 for none; that of its number where absent.
    pub(crate) element: Option<u8>,
    /// The elements that its parts lead to, with their places such as `2..6`.
    #[serde(default)]
    pub(crate) parts: BTreeMap<String, String>,
    /// Values, and those they become: of all that begins so, or of the whole where a `*` stands behind.
    #[serde(default)]
    pub(crate) read: BTreeMap<String, String>,
    /// Our values, and those they become; those of `read` turned round where absent. A message type or its
    /// first digits and a slash before a value restrict it, such as `0810/00`.
    pub(crate) write: Option<BTreeMap<String, String>>,
    /// Whether answers repeat it as it came.
    #[serde(default)]
    pub(crate) repeated: bool,
    /// Sub-elements that become those of element 48.
    pub(crate) tags: Option<TagsTable>,
    /// Further parts of its content.
    pub(crate) shape: Option<ShapeName>,
}

/// A part of the content of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) enum ShapeName {
    /// Name, street, city and place of a merchant.
    #[serde(rename = "location-1993")]
    Location1993,
    /// The message that another one is about.
    #[serde(rename = "original-1993")]
    Original1993,
    /// The amounts before a partial reversal.
    #[serde(rename = "amounts-before-1993")]
    AmountsBefore1993,
}

/// A field of sub-elements.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TagsTable {
    /// Digits of a tag, and of a length.
    pub(crate) digits: [usize; 2],
    /// Their tags, and ours.
    pub(crate) read: BTreeMap<String, String>,
}

/// The value behind the number of a field.
#[derive(Clone, Debug)]
pub(crate) struct FieldEntry(pub(crate) FieldTable);

impl<'de> Deserialize<'de> for FieldEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EntryVisitor)
    }
}

struct EntryVisitor;

impl<'de> Visitor<'de> for EntryVisitor {
    type Value = FieldEntry;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a format such as \"n 6\", or a table")
    }

    fn visit_str<E: Error>(self, format: &str) -> Result<FieldEntry, E> {
        Ok(FieldEntry(FieldTable { format: format.to_owned(), ..FieldTable::default() }))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<FieldEntry, A::Error> {
        FieldTable::deserialize(MapAccessDeserializer::new(map)).map(FieldEntry)
    }
}

/// Reads a file.
/// Errors: no TOML, unknown keys, values that none has.
pub(crate) fn read(file: &str, text: &str) -> Result<DialectFile, DialectError> {
    toml::from_str(text).map_err(|error: toml::de::Error| DialectError {
        file: file.to_owned(),
        line: error.span().map(|span| line_of(text, span.start)),
        reason: error.message().to_owned(),
    })
}
