//! From the specifications of other tools to dialect files: moov-io/iso8583 in JSON, jPOS packagers in XML.
//!
//! Only layouts are taken over: which fields there are, and how each stands on the wire. A layout
//! that a dialect file cannot express is refused with its field and line; nothing is left out
//! without a word.

use std::fmt::Write as _;

use cardswitch_iso8583::{Class, field};

use crate::{DialectError, jpos, moov, parse};

/// How something is written, of what dialect files know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldNotation {
    /// Text; digits as text.
    Text(Letters),
    /// Two digits a byte.
    Packed { is_left_filled: bool },
    /// As bytes.
    Bytes,
    /// As hex characters.
    Hex(Letters),
}

/// An alphabet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Letters {
    Ascii,
    Ebcdic,
    Ebcdic1047,
}

impl Letters {
    const fn name(self) -> &'static str {
        match self {
            Self::Ascii => "ascii",
            Self::Ebcdic => "ebcdic",
            Self::Ebcdic1047 => "ebcdic-1047",
        }
    }
}

/// The length before a field, of so many digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefix {
    pub(crate) digits: usize,
    pub(crate) written: FieldNotation,
}

/// A field as another tool describes it.
#[derive(Clone, Debug)]
pub(crate) struct FieldDescription {
    pub(crate) number: u8,
    /// Its line in the specification, from 1.
    pub(crate) line: usize,
    /// Whether it is said to hold digits alone.
    pub(crate) is_numeric: bool,
    /// Whether it begins with C or D.
    pub(crate) is_signed: bool,
    pub(crate) len_max: usize,
    pub(crate) prefix: Option<Prefix>,
    pub(crate) written: FieldNotation,
}

/// A whole specification.
#[derive(Clone, Debug)]
pub(crate) struct Described8583 {
    pub(crate) mti: FieldNotation,
    pub(crate) bitmap: FieldNotation,
    pub(crate) fields: Vec<FieldDescription>,
}

impl Described8583 {
    /// The layout of a specification's fields, sorted by their numbers.
    /// Errors: no message type or no bitmap.
    pub(crate) fn of(
        mti: Option<FieldNotation>,
        bitmap: Option<FieldNotation>,
        mut fields: Vec<FieldDescription>,
    ) -> Result<Self, SpecificationFault> {
        fields.sort_by_key(|field| field.number);
        let missing = |what: &str| (1, format!("no field {what}"));
        let mti = mti.ok_or_else(|| missing("0, the message type"))?;
        let bitmap = bitmap.ok_or_else(|| missing("1, the bitmap"))?;
        Ok(Self { mti, bitmap, fields })
    }
}

/// The fault of a specification, and its line.
pub(crate) type SpecificationFault = (usize, String);

/// The dialect file of a specification; `file` is its name in errors.
/// Errors: no specification of a known tool; a layout that a dialect file cannot express.
pub fn import(file: &str, text: &str) -> Result<String, DialectError> {
    let refuse = |(line, reason): SpecificationFault| DialectError {
        file: file.to_owned(),
        line: Some(line),
        reason,
    };
    let begin = text.trim_start();
    let described = if begin.starts_with('{') {
        moov::read(text).map_err(refuse)?
    } else if begin.starts_with('<') {
        jpos::read(text).map_err(refuse)?
    } else {
        let reason =
            "neither a specification of moov-io/iso8583 (JSON) nor a packager of jPOS (XML)";
        return Err(refuse((1, reason.to_owned())));
    };
    let (made, first_field_line) = render(file, &described);
    // A fault of a rendered line is one of the line it was made of.
    parse(file, &made).map_err(|error| {
        let place = error.line.and_then(|line| line.checked_sub(first_field_line));
        let source = place.and_then(|place| described.fields.get(place));
        DialectError { line: source.map(|field| field.line), ..error }
    })?;
    Ok(made)
}

/// The file, and the line of its first field.
fn render(file: &str, described: &Described8583) -> (String, usize) {
    let name = file.rsplit('/').next().unwrap_or(file);
    let letters = match described.mti {
        FieldNotation::Text(letters) => letters,
        _ => Letters::Ascii,
    };
    let mti = if matches!(described.mti, FieldNotation::Packed { .. }) { "bcd" } else { "text" };
    let bitmap = if described.bitmap == FieldNotation::Bytes { "binary" } else { "hex" };
    let mut text = format!(
        "# Made of {name}, which does not say the edition of the standard and the length before a message.\n\
         base = \"none\"\nversion = 1987\ntext = \"{}\"\nmti = \"{mti}\"\nbitmap = \"{bitmap}\"\nlength = \"binary2\"\n\n[fields]\n",
        letters.name()
    );
    let first_field_line = text.lines().count() + 1;
    for field in &described.fields {
        // Writing to text does not fail.
        let _ = writeln!(text, "{} = {}", field.number, entry(field, letters));
    }
    (text, first_field_line)
}

fn entry(described: &FieldDescription, letters: Letters) -> String {
    let dots = described.prefix.map_or(0, |prefix| prefix.digits);
    let class = class_of(described).code();
    let format = format!("\"{class} {}{}\"", ".".repeat(dots), described.len_max);
    let mut keys = Vec::new();
    let own = match described.written {
        FieldNotation::Text(own) | FieldNotation::Hex(own) => own,
        // The prefix may be of another alphabet.
        _ => match described.prefix.map(|prefix| prefix.written) {
            Some(FieldNotation::Text(own)) => own,
            _ => letters,
        },
    };
    if own != letters {
        keys.push(format!("text = \"{}\"", own.name()));
    }
    match described.written {
        FieldNotation::Packed { is_left_filled } => {
            keys.push("digits = \"bcd\"".to_owned());
            if !is_left_filled {
                keys.push("filler = \"right\"".to_owned());
            }
        }
        FieldNotation::Hex(_) => {
            keys.push("bytes = \"hex\"".to_owned());
            if dots > 0 {
                keys.push("counted = \"bytes\"".to_owned());
            }
        }
        FieldNotation::Text(_) | FieldNotation::Bytes => {}
    }
    match described.prefix.map(|prefix| prefix.written) {
        Some(FieldNotation::Packed { .. }) => keys.push("prefix = \"bcd\"".to_owned()),
        Some(FieldNotation::Bytes) => keys.push("prefix = \"binary\"".to_owned()),
        _ => {}
    }
    match keys.is_empty() {
        true => format,
        false => format!("{{ format = {format}, {} }}", keys.join(", ")),
    }
}

/// The class of the field: that of the standard, where that can be written so.
fn class_of(described: &FieldDescription) -> Class {
    let standard = field(described.number).map_or(Class::Printable, |spec| spec.class);
    match described.written {
        FieldNotation::Bytes | FieldNotation::Hex(_) => Class::Binary,
        _ if described.is_signed => Class::SignedDigits,
        FieldNotation::Packed { .. } if standard == Class::Track => Class::Track,
        FieldNotation::Packed { .. } => Class::Digits,
        FieldNotation::Text(_) if standard == Class::Binary => Class::Printable,
        FieldNotation::Text(_) if described.is_numeric && standard != Class::Track => Class::Digits,
        FieldNotation::Text(_) => standard,
    }
}
