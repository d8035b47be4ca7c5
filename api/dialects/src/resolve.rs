//! From what dialect files say to the tables of the codec.

use std::sync::Arc;

use cardswitch_iso8583::field_form::{Coding, FieldForm, FieldLength, Filler, LengthUnit};
use cardswitch_iso8583::length_prefix::LengthDigits;
use cardswitch_iso8583::translation::{
    FieldPart, FieldShape, FieldTags, ReadValue, Tables, TablesError, TypeForm, WireField,
    WrittenValue,
};
use cardswitch_iso8583::{
    Alphabet, BitmapEncoding, Class, Dialect, Framing, Length, LengthPrefix, Translation, field,
};

use crate::DialectError;
use crate::file::{
    BytesName, CountedName, DigitsName, FieldTable, FillerName, PrefixName, ShapeName, TagsTable,
    TextName,
};
use crate::layers::LayeredSettings;

/// The dialect that a text describes.
pub(crate) fn dialect_of(file: &str, text: &str) -> Result<Dialect, DialectError> {
    let said = LayeredSettings::of(file, text)?;
    let refuse = |line, reason| DialectError { file: file.to_owned(), line, reason };
    let length: LengthPrefix =
        said.length.parse().map_err(|reason| refuse(line_with(text, "length"), reason))?;
    let framing = Framing { length, tpdu: said.tpdu };
    // The default spelling needs no translation, and has none.
    if said.is_default_spelling() {
        Translation::check_default_framing(&framing)
            .map_err(|error| refuse(line_with(text, "length"), error.to_string()))?;
        return Ok(Dialect { name: file.into(), ..Dialect::framed(framing) });
    }
    let of_tables = |error: TablesError| {
        let line = error.field.and_then(|number| said.fields.get(&number)?.0);
        refuse(line, error.to_string())
    };
    let mut fields = Vec::new();
    for (number, (line, table)) in &said.fields {
        let wire = field_of(&said, *number, table);
        let wire = wire.map_err(|reason| refuse(*line, format!("field {number}: {reason}")))?;
        fields.push((*number, wire));
    }
    let types = types_of(&said).map_err(|reason| refuse(line_with(text, "[types]"), reason))?;
    let bitmap = match said.bitmap {
        BytesName::Binary => BitmapEncoding::Binary,
        BytesName::Hex => BitmapEncoding::HexText,
    };
    let tables = Tables { types, bitmap: (bitmap, alphabet(said.text)), fields };
    let translation = Translation::new(tables).map_err(of_tables)?;
    translation.check_framing(&framing).map_err(of_tables)?;
    Ok(Dialect { name: file.into(), framing, translation: Some(Arc::new(translation)) })
}

/// The first line that begins so.
fn line_with(text: &str, start: &str) -> Option<usize> {
    text.lines().position(|line| line.trim_start().starts_with(start)).map(|line| line + 1)
}

fn types_of(said: &LayeredSettings) -> Result<TypeForm, String> {
    let digits = |text: &String| {
        let digits: Option<[u8; 4]> = text.as_bytes().try_into().ok();
        let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_digit));
        digits.ok_or_else(|| format!("`{text}` is no message type of four digits"))
    };
    let pairs = said.types.iter().map(|(theirs, own)| Ok((digits(theirs)?, digits(own)?)));
    let pairs: Vec<_> = pairs.collect::<Result<_, String>>()?;
    for (at, (_, own)) in pairs.iter().enumerate() {
        if pairs[..at].iter().any(|(_, other)| other == own) {
            let own = String::from_utf8_lossy(own);
            return Err(format!("two message types lead to `{own}`"));
        }
    }
    let coding = match said.mti {
        DigitsName::Text => Coding::Text(alphabet(said.text)),
        DigitsName::Bcd => Coding::Packed(Filler::Left),
    };
    Ok(TypeForm { coding, version: said.version.digit(), pairs })
}

fn field_of(said: &LayeredSettings, number: u8, table: &FieldTable) -> Result<WireField, String> {
    let form = form_of(said, table)?;
    let parts = parts_of(number, &form, table)?;
    if parts.is_empty() && !table.read.is_empty() {
        return Err("its values lead to no element".to_owned());
    }
    let shape = match (&table.tags, table.shape) {
        (None, None) => FieldShape::Plain,
        (Some(tags), None) => FieldShape::Tags(tags_of(tags)?),
        (None, Some(ShapeName::Location1993)) => FieldShape::Location,
        (None, Some(ShapeName::Original1993)) => FieldShape::Original,
        (None, Some(ShapeName::AmountsBefore1993)) => FieldShape::AmountsBefore,
        (Some(_), Some(_)) => return Err("it has `tags` or a `shape`, not both".to_owned()),
    };
    Ok(WireField { form, parts, is_repeated: table.repeated, shape })
}

fn form_of(said: &LayeredSettings, table: &FieldTable) -> Result<FieldForm, String> {
    let (class, prefix_digits, len_max) = parse_format(&table.format)?;
    let text = alphabet(table.text.unwrap_or(said.text));
    let is_fixed = prefix_digits == 0;
    let filler = match table.filler.unwrap_or(said.filler) {
        // Fixed fields are as long as they are said to be: a zero in front, unless their own line says otherwise.
        _ if is_fixed && table.filler.is_none() => Filler::Left,
        FillerName::Left => Filler::Left,
        FillerName::Right => Filler::Right,
    };
    let coding = match class {
        Class::Binary => match table.bytes.unwrap_or(said.bytes) {
            BytesName::Binary => Coding::Raw,
            BytesName::Hex => Coding::Hex(text),
        },
        Class::Digits | Class::Track | Class::SignedDigits => {
            match table.digits.unwrap_or(said.digits) {
                DigitsName::Text => Coding::Text(text),
                DigitsName::Bcd => Coding::Packed(filler),
            }
        }
        _ => Coding::Text(text),
    };
    let digits = match table.prefix.unwrap_or(said.prefix) {
        PrefixName::Text => LengthDigits::Text(text),
        PrefixName::Bcd => LengthDigits::Packed,
        PrefixName::Binary => LengthDigits::Binary,
    };
    let counted = match table.counted.unwrap_or(said.counted) {
        // A fixed field has the length that is said.
        _ if is_fixed => LengthUnit::Characters,
        CountedName::Characters => LengthUnit::Characters,
        CountedName::Bytes => LengthUnit::Bytes,
    };
    let length =
        if is_fixed { FieldLength::Fixed } else { FieldLength::Variable(prefix_digits, digits) };
    Ok(FieldForm { class, length, len_max, counted, coding })
}

/// Class, digits of the length before it, and greatest length.
fn parse_format(format: &str) -> Result<(Class, u8, u16), String> {
    let refuse = || {
        format!(
            "`{format}` is no format, which is a class (n, a, an, ans, z, b, x+n) and a length: \
             `n 6`, `n ..19`, `ans ...999`"
        )
    };
    let (class, length) = format.split_once(' ').ok_or_else(refuse)?;
    let class = match class {
        "n" => Class::Digits,
        "a" => Class::Letters,
        "an" => Class::LettersDigits,
        "ans" => Class::Printable,
        "z" => Class::Track,
        "b" => Class::Binary,
        "x+n" => Class::SignedDigits,
        _ => return Err(refuse()),
    };
    let digits = length.trim_start_matches('.');
    let dots = length.len() - digits.len();
    if digits.is_empty() && dots > 0 {
        return Err(format!("`{format}` has no end: the greatest length stands behind the dots"));
    }
    let len_max = digits.parse().map_err(|_| refuse())?;
    Ok((class, u8::try_from(dots).map_err(|_| refuse())?, len_max))
}

fn parts_of(number: u8, form: &FieldForm, table: &FieldTable) -> Result<Vec<FieldPart>, String> {
    if table.parts.is_empty() {
        let element = match table.element {
            Some(0) => return Ok(Vec::new()),
            Some(element) => element,
            // A field whose content cannot be that of the element of its number leads nowhere.
            None if !leads_to_its_number(number, form) => return Ok(Vec::new()),
            None => number,
        };
        let (read, write) = values_of(table)?;
        return Ok(vec![FieldPart { element, place: None, read, write }]);
    }
    if table.element.is_some() {
        return Err("it has parts, so it leads to no element as a whole".to_owned());
    }
    let mut parts = Vec::new();
    for (element, place) in &table.parts {
        let refuse =
            || format!("part `{element} = \"{place}\"` is no element and place, as `2..6`");
        let (start, end) = place.split_once("..").ok_or_else(refuse)?;
        let place = (start.parse().map_err(|_| refuse())?, end.parse().map_err(|_| refuse())?);
        let element = element.parse().map_err(|_| refuse())?;
        parts.push(FieldPart { element, place: Some(place), read: Vec::new(), write: Vec::new() });
    }
    if !table.read.is_empty() || table.write.is_some() {
        return Err("values are for a field as a whole, not for its parts".to_owned());
    }
    parts.sort_by_key(|part| part.place);
    Ok(parts)
}

fn leads_to_its_number(number: u8, form: &FieldForm) -> bool {
    field(number).is_some_and(|spec| {
        let is_number = |class| matches!(class, Class::Digits | Class::SignedDigits);
        let fits = match spec.class {
            Class::Binary => spec.length != Length::Fixed || form.len_max == spec.len_max,
            class => form.len_max <= spec.len_max || !is_number(class),
        };
        (form.class == Class::Binary) == (spec.class == Class::Binary) && fits
    })
}

type ResolvedValues = (Vec<ReadValue>, Vec<WrittenValue>);

fn values_of(table: &FieldTable) -> Result<ResolvedValues, String> {
    let bytes = |text: &String| text.as_bytes().to_vec();
    let value = |(key, plain): (&String, &String)| {
        let whole = key.strip_suffix('*');
        let value = whole.unwrap_or(key).as_bytes().to_vec();
        ReadValue { value, plain: bytes(plain), is_whole: whole.is_some() }
    };
    let mut read: Vec<_> = table.read.iter().map(value).collect();
    // Of values that begin alike the longer one counts.
    read.sort_by_key(|read| std::cmp::Reverse(read.value.len()));
    let written = |types: &str, value: &str, written: &String| WrittenValue {
        types: types.as_bytes().to_vec(),
        value: value.as_bytes().to_vec(),
        written: bytes(written),
    };
    let mut write: Vec<WrittenValue> = match &table.write {
        Some(write) => write
            .iter()
            .map(|(key, theirs)| match key.split_once('/') {
                Some((types, value)) => written(types, value, theirs),
                None => written("", key, theirs),
            })
            .collect(),
        None => table.read.iter().map(|(theirs, own)| written("", own, theirs)).collect(),
    };
    write.sort_by_key(|one| std::cmp::Reverse((one.types.len(), one.value.len())));
    for pair in write.windows(2) {
        if (&pair[0].types, &pair[0].value) == (&pair[1].types, &pair[1].value) {
            let value = String::from_utf8_lossy(&pair[0].value).into_owned();
            return Err(format!(
                "two values lead to `{value}`: `write` has to say which it becomes"
            ));
        }
    }
    Ok((read, write))
}

fn tags_of(table: &TagsTable) -> Result<FieldTags, String> {
    let [tag_digits, length_digits] = table.digits;
    if !(1..=4).contains(&tag_digits) || !(1..=3).contains(&length_digits) {
        return Err("tags have 1 to 4 digits, their lengths 1 to 3".to_owned());
    }
    let mut pairs: Vec<(Vec<u8>, [u8; 2])> = Vec::new();
    for (theirs, own) in &table.read {
        let tag = own
            .as_bytes()
            .try_into()
            .ok()
            .filter(|tag: &[u8; 2]| tag.iter().all(u8::is_ascii_digit));
        match tag.filter(|_| theirs.len() == tag_digits) {
            Some(tag) if pairs.iter().all(|(_, other)| *other != tag) => {
                pairs.push((theirs.as_bytes().to_vec(), tag));
            }
            Some(_) => return Err(format!("two tags lead to tag `{own}` of element 48")),
            None => {
                return Err(format!("`{theirs}` = `{own}` are no tags of this field and of 48"));
            }
        }
    }
    Ok(FieldTags { tag_digits, length_digits, pairs })
}

const fn alphabet(name: TextName) -> Alphabet {
    match name {
        TextName::Ascii => Alphabet::Ascii,
        TextName::Ebcdic => Alphabet::Ebcdic037,
        TextName::Ebcdic500 => Alphabet::Ebcdic500,
        TextName::Ebcdic1047 => Alphabet::Ebcdic1047,
    }
}
