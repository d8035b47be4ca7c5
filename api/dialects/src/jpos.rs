//! Packagers of jPOS, in XML: `isopackager` with an `isofield` a field, whose class says how it is written.
//!
//! | family | digits and lengths | texts | bytes |
//! |---|---|---|---|
//! | `IFA_` | ASCII | ASCII | hex |
//! | `IFB_` | packed; lengths with H binary | ASCII, with E EBCDIC | as they are |
//! | `IFE_` | EBCDIC | EBCDIC | as they are |
//!
//! Source: the documented names of the classes; no code of jPOS is used.

use cardswitch_iso8583::line_of;
use quick_xml::events::attributes::Attributes;
use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;

use crate::import::{
    Described8583, FieldDescription, FieldNotation, Letters, Prefix, SpecificationFault,
};

/// An `isofield` or `isofieldpackager`.
struct Element {
    number: usize,
    len_max: usize,
    class: String,
    is_left_filled: bool,
}

/// Reads a packager.
pub(crate) fn read(text: &str) -> Result<Described8583, SpecificationFault> {
    let (mut mti, mut bitmap, mut fields) = (None, None, Vec::<FieldDescription>::new());
    for (line, element) in elements(text)? {
        let number = element.number;
        let refuse = |reason: String| (line, format!("field {number}: {reason}"));
        let written = ClassLayout::of(&element).map_err(refuse)?;
        match number {
            0 => mti = Some(written.written),
            1 => bitmap = Some(written.written),
            // It announces fields beyond 128, of which there are none here.
            65 => {}
            _ => {
                let known = u8::try_from(number).ok().filter(|number| *number <= 128);
                let number = known.ok_or_else(|| refuse("fields end at 128".to_owned()))?;
                fields.push(written.described(number, line, element.len_max));
            }
        }
    }
    Described8583::of(mti, bitmap, fields)
}

/// The fields of the message itself, each with its line; those within fields are part of them.
fn elements(text: &str) -> Result<Vec<(usize, Element)>, SpecificationFault> {
    let mut reader = Reader::from_str(text);
    let (mut found, mut depth) = (Vec::new(), 0_usize);
    loop {
        let before = usize::try_from(reader.buffer_position()).unwrap_or(text.len());
        let line = line_of(text, before + leading_space(text, before));
        let event = reader.read_event().map_err(|error| (line, error.to_string()))?;
        match event {
            Event::Start(start) => {
                if depth == 1 && is_field(&start) {
                    found.push((line, element(&start, line)?));
                }
                depth += 1;
            }
            Event::Empty(start) if depth == 1 && is_field(&start) => {
                found.push((line, element(&start, line)?));
            }
            Event::End(_) => depth = depth.saturating_sub(1),
            Event::Eof => return Ok(found),
            _ => {}
        }
    }
}

fn leading_space(text: &str, at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    rest.len() - rest.trim_start().len()
}

fn is_field(start: &BytesStart<'_>) -> bool {
    matches!(start.name().as_ref(), "isofield" | "isofieldpackager")
}

fn element(start: &BytesStart<'_>, line: usize) -> Result<Element, SpecificationFault> {
    let value = |name: &str| attribute(start.attributes(), name);
    let number = value("id").and_then(|id| id.parse().ok());
    let number = number.ok_or((line, "a field without an `id`".to_owned()))?;
    let refuse = |what: &str| (line, format!("field {number}: no `{what}`"));
    Ok(Element {
        number,
        len_max: value("length")
            .and_then(|len| len.parse().ok())
            .ok_or_else(|| refuse("length"))?,
        class: value("class").ok_or_else(|| refuse("class"))?.trim().to_owned(),
        is_left_filled: value("pad").is_none_or(|pad| pad != "false"),
    })
}

fn attribute(attributes: Attributes<'_>, name: &str) -> Option<String> {
    let found = attributes.flatten().find(|attribute| attribute.key.as_ref() == name)?;
    Some(found.value.into_owned())
}

/// The layout that the name of a class means.
struct ClassLayout {
    prefix: Option<Prefix>,
    written: FieldNotation,
    is_numeric: bool,
    is_signed: bool,
}

impl ClassLayout {
    fn of(element: &Element) -> Result<Self, String> {
        let name = element.class.rsplit('.').next().unwrap_or_default();
        let refuse = || format!("class `{name}` cannot be said in a dialect file");
        let (family, rest) = name.split_once('_').ok_or_else(refuse)?;
        let letters = match family {
            "IF" | "IFA" | "IFB" => Letters::Ascii,
            "IFE" => Letters::Ebcdic,
            _ => return Err(refuse()),
        };
        let kind = rest.trim_start_matches('L');
        let count = rest.len() - kind.len();
        let (kind, is_binary_length) = match kind.strip_prefix('H') {
            Some(kind) if family == "IFB" && count > 0 => (kind, true),
            _ => (kind, false),
        };
        let packed = FieldNotation::Packed { is_left_filled: element.is_left_filled };
        let prefix = match (count, family) {
            (0, _) => None,
            (1..=4, "IFB") if is_binary_length => Some(FieldNotation::Bytes),
            (1..=4, "IFB") => Some(FieldNotation::Packed { is_left_filled: true }),
            (1..=4, "IFA" | "IFE") => Some(FieldNotation::Text(letters)),
            _ => return Err(refuse()),
        };
        let (is_numeric, is_signed) = (kind.starts_with("NUM"), kind == "AMOUNT");
        let written = match (kind, family) {
            ("NUMERIC" | "NUM" | "AMOUNT", "IFB") => packed,
            ("NUMERIC" | "NUM" | "AMOUNT", "IFA" | "IFE") => FieldNotation::Text(letters),
            ("CHAR", _) => FieldNotation::Text(letters),
            ("ECHAR", "IF" | "IFB") => FieldNotation::Text(Letters::Ebcdic),
            ("BINARY" | "BITMAP", "IFA") => FieldNotation::Hex(letters),
            ("BINARY" | "BITMAP", "IFB" | "IFE") => FieldNotation::Bytes,
            _ => return Err(refuse()),
        };
        let prefix = prefix.map(|written| Prefix { digits: count, written });
        Ok(Self { prefix, written, is_numeric, is_signed })
    }

    fn described(self, number: u8, line: usize, len_max: usize) -> FieldDescription {
        let Self { prefix, written, is_numeric, is_signed } = self;
        FieldDescription { number, line, is_numeric, is_signed, len_max, prefix, written }
    }
}
