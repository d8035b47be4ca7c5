//! Specifications of moov-io/iso8583, in JSON. Source: its `specs` package, which writes and reads them.

use std::collections::BTreeMap;

use cardswitch_iso8583::line_of;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::import::{
    Described8583, FieldDescription, FieldNotation, Letters, Prefix, SpecificationFault,
};

#[derive(Deserialize)]
struct MoovSpecification<'t> {
    #[serde(borrow)]
    fields: BTreeMap<String, &'t RawValue>,
}

#[derive(Deserialize)]
struct MoovField<'t> {
    #[serde(rename = "type")]
    kind: String,
    length: usize,
    #[serde(default)]
    enc: String,
    #[serde(default)]
    prefix: String,
    #[serde(default, borrow)]
    subfields: Option<&'t RawValue>,
}

pub(crate) fn read(text: &str) -> Result<Described8583, SpecificationFault> {
    let specification: MoovSpecification<'_> = serde_json::from_str(text).map_err(of_json)?;
    let (mut mti, mut bitmap, mut fields) = (None, None, Vec::new());
    for (number, raw) in specification.fields {
        // The value is a part of the text.
        let offset = (raw.get().as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
        let line = line_of(text, offset);
        let refuse = |reason: String| (line, format!("field {number}: {reason}"));
        let field: MoovField<'_> =
            serde_json::from_str(raw.get()).map_err(|error| refuse(error.to_string()))?;
        match number.as_str() {
            "0" => mti = Some(written(&field).map_err(refuse)?),
            "1" => bitmap = Some(written(&field).map_err(refuse)?),
            _ => {
                let known = number.parse().ok().filter(|number| (2..=128).contains(number));
                let number =
                    known.ok_or_else(|| refuse("fields have numbers from 0 to 128".to_owned()))?;
                fields.push(described(number, line, &field).map_err(refuse)?);
            }
        }
    }
    Described8583::of(mti, bitmap, fields)
}

fn of_json(error: serde_json::Error) -> SpecificationFault {
    (error.line(), error.to_string())
}

fn described(number: u8, line: usize, field: &MoovField<'_>) -> Result<FieldDescription, String> {
    let prefix = prefix(&field.prefix)?;
    let is_known = matches!(
        field.kind.as_str(),
        "String" | "Numeric" | "Binary" | "Hex" | "Track1" | "Track2" | "Track3" | "Composite"
    );
    if !is_known {
        return Err(format!("type `{}` cannot be said in a dialect file", field.kind));
    }
    Ok(FieldDescription {
        number,
        line,
        is_numeric: field.kind == "Numeric",
        is_signed: false,
        len_max: field.length,
        prefix,
        written: written(field)?,
    })
}

fn written(field: &MoovField<'_>) -> Result<FieldNotation, String> {
    Ok(match field.enc.as_str() {
        "ASCII" => FieldNotation::Text(Letters::Ascii),
        "EBCDIC" => FieldNotation::Text(Letters::Ebcdic),
        "EBCDIC1047" => FieldNotation::Text(Letters::Ebcdic1047),
        "BCD" => FieldNotation::Packed { is_left_filled: true },
        "LBCD" => FieldNotation::Packed { is_left_filled: false },
        // Text that stands for bytes is these bytes on the wire.
        "Binary" | "ASCIIToHex" => FieldNotation::Bytes,
        "Hex" | "HexToASCII" => FieldNotation::Hex(Letters::Ascii),
        // The parts of a composite are taken as a whole: as text where all of them are.
        "" if field.subfields.is_some() => {
            let parts = field.subfields.map_or("", RawValue::get);
            composite(&parts.split_whitespace().collect::<String>())
        }
        other => return Err(format!("encoding `{other}` cannot be said in a dialect file")),
    })
}

/// How a composite is written, by the encodings in its parts without white space.
fn composite(parts: &str) -> FieldNotation {
    let encodings: Vec<_> =
        parts.split("\"enc\":\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let all = |name: &str| !encodings.is_empty() && encodings.iter().all(|one| *one == name);
    match (all("ASCII"), all("EBCDIC")) {
        (true, _) => FieldNotation::Text(Letters::Ascii),
        (_, true) => FieldNotation::Text(Letters::Ebcdic),
        _ => FieldNotation::Bytes,
    }
}

fn prefix(name: &str) -> Result<Option<Prefix>, String> {
    let refuse = || format!("prefix `{name}` cannot be said in a dialect file");
    let (kind, letters) = name.split_once('.').ok_or_else(refuse)?;
    if letters == "Fixed" {
        return Ok(None);
    }
    let digits = letters.len();
    if letters.bytes().any(|letter| letter != b'L') || !(1..=4).contains(&digits) {
        return Err(refuse());
    }
    let of = |written, digits| Ok(Some(Prefix { digits, written }));
    match kind {
        "ASCII" => of(FieldNotation::Text(Letters::Ascii), digits),
        "EBCDIC" => of(FieldNotation::Text(Letters::Ebcdic), digits),
        "EBCDIC1047" => of(FieldNotation::Text(Letters::Ebcdic1047), digits),
        "BCD" => of(FieldNotation::Packed { is_left_filled: true }, digits),
        // Here an L is a byte.
        "Binary" if digits <= 2 => of(FieldNotation::Bytes, digits + 1),
        _ => Err(refuse()),
    }
}
