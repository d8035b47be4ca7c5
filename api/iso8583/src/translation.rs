//! Between a counterpart's spelling and the default one: tables, made from a dialect file, and what they must hold.
//!
//! | file | what |
//! |---|---|
//! | this one | the tables of a dialect, checked as a whole |
//! | `layout` | where the fields of a message stand |
//! | `translate_in` | a message as it came, to the default spelling |
//! | `translate_out` | a message of the default spelling, as it goes out |
//! | `field_form`, `alphabet` | how one field stands on the wire, and its characters |
//!
//! *Fields* are the counterpart's, *elements* those of the default spelling ([`FIELDS`](crate::fields::FIELDS)). A field
//! leads to one element, to several by its parts, or to none.
//!
//! INVARIANT: no two fields lead to one element, every field has a length that fits a frame, and the elements that an
//! answer needs have fields.

use std::fmt;

use crate::alphabet::Alphabet;
use crate::bitmap::{Bitmap, BitmapEncoding};
use crate::dialect::{FRAME_BYTES_MAX, Framing};
use crate::echo::ECHOED;
use crate::field_form::{Coding, FIELD_LEN_MAX, FieldForm, FieldLength};
use crate::fields::{Class, FieldSpec, Length, field};
use crate::length_prefix::{LengthDigits, LengthPrefix};

/// A field of the counterpart, and what becomes of it.
#[derive(Debug, Clone)]
pub struct WireField {
    /// How it stands on the wire.
    pub form: FieldForm,
    /// The elements it leads to.
    pub parts: Vec<FieldPart>,
    /// Whether answers repeat it as it came, whatever it leads to.
    pub is_repeated: bool,
    /// The shape of its content.
    pub shape: FieldShape,
}

/// The shape of a field's content.
#[derive(Debug, Clone, Default)]
pub enum FieldShape {
    /// Nothing that matters here.
    #[default]
    Plain,
    /// Sub-elements that become those of DE48.
    Tags(FieldTags),
    /// Name, street, city and place of a merchant, as ISO 8583:1993 has them in field 43.
    Location,
    /// The message that another one is about, as ISO 8583:1993 names it in field 56.
    Original,
    /// The amounts before a partial reversal, as ISO 8583:1993 has them in field 30.
    AmountsBefore,
}

/// A part of a field's content that is an element.
#[derive(Debug, Clone)]
pub struct FieldPart {
    /// The element.
    pub element: u8,
    /// Its place in the content; all of it where absent. Units: characters.
    pub place: Option<(u16, u16)>,
    /// The rules from a value of the field to one of the default spelling; the first that fits counts.
    pub read: Vec<ReadValue>,
    /// The rules from a value of the default spelling to one of the field.
    pub write: Vec<WrittenValue>,
}

/// A value of a field and what it becomes.
#[derive(Debug, Clone)]
pub struct ReadValue {
    /// The start of the content.
    pub value: Vec<u8>,
    /// The value in the default spelling.
    pub plain: Vec<u8>,
    /// Whether it replaces the whole content, not only its start.
    pub is_whole: bool,
}

/// A value of the default spelling and what it becomes.
#[derive(Debug, Clone)]
pub struct WrittenValue {
    /// The first digits of the message types of the default spelling for which this counts; none for all.
    pub types: Vec<u8>,
    /// The start of the content.
    pub value: Vec<u8>,
    /// The value in the field.
    pub written: Vec<u8>,
}

/// A field of sub-elements, each a tag, a length and a value, all of them digits and text.
#[derive(Debug, Clone, Default)]
pub struct FieldTags {
    /// Digits of a tag.
    pub tag_digits: usize,
    /// Digits of a length.
    pub length_digits: usize,
    /// Their tags, with those of DE48 that they become; others are left out.
    pub pairs: Vec<(Vec<u8>, [u8; 2])>,
}

/// How message types are written.
#[derive(Debug, Clone)]
pub struct TypeForm {
    /// As text, or packed.
    pub coding: Coding,
    /// The first digit of the counterpart's version; that of the default spelling is 0.
    pub version: u8,
    /// Types that differ in more than the version: theirs, then that of the default spelling.
    pub pairs: Vec<([u8; 4], [u8; 4])>,
}

/// The tables of a dialect as they are written down.
#[derive(Debug, Clone)]
pub struct Tables {
    /// Message types.
    pub types: TypeForm,
    /// Bitmaps, and the alphabet of their hex characters.
    pub bitmap: (BitmapEncoding, Alphabet),
    /// The fields by number.
    pub fields: Vec<(u8, WireField)>,
}

/// Why tables are no dialect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TablesError {
    /// The field at fault, where it is one.
    pub field: Option<u8>,
    /// The cause, in words.
    pub reason: String,
}

impl fmt::Display for TablesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field {
            Some(number) => write!(f, "field {number}: {}", self.reason),
            None => f.write_str(&self.reason),
        }
    }
}

impl std::error::Error for TablesError {}

/// The elements without which no purchase is understood and no answer made. Source: `mapping` of the network door.
const NEEDED: [u8; 5] = [2, 3, 4, 11, 39];

#[derive(Debug, Clone)]
pub(crate) struct ElementSource {
    pub(crate) spec: &'static FieldSpec,
    pub(crate) field: u8,
    pub(crate) part: usize,
    /// Whether its content is taken over as it is.
    pub(crate) is_plain: bool,
    /// How it is copied together with its neighbours, where it can be.
    pub(crate) run: Option<RunCoding>,
    /// Part of its field's content, if it is not all of it.
    pub(crate) place: Option<(u16, u16)>,
}

/// How fields side by side become elements side by side at once, their lengths included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunCoding {
    /// A character a byte.
    Characters(Alphabet),
    /// Two digits a byte.
    Digits,
}

impl RunCoding {
    /// The coding of a part whose content is taken over as it is.
    fn of(part: &FieldPart, form: &FieldForm, spec: &FieldSpec) -> Option<Self> {
        let is_exact = |len: usize| spec.length == Length::Fixed && spec.fits(len);
        let alphabet = match form.coding {
            Coding::Text(alphabet) => alphabet,
            Coding::Raw => Alphabet::Ascii,
            Coding::Packed(_) => {
                let is_alike = part.place.is_none() && form.has_whole_bytes();
                return (is_alike && is_exact(form.chars_max())).then_some(Self::Digits);
            }
            Coding::Hex(_) => return None,
        };
        let is_alike = match (form.length, part.place) {
            (FieldLength::Fixed, None) => is_exact(form.chars_max()),
            (FieldLength::Fixed, Some((start, end))) => is_exact(usize::from(end - start)),
            (FieldLength::Variable(digits, LengthDigits::Text(of_length)), None) => {
                of_length == alphabet
                    && u16::from(digits) == spec.length.prefix_digits()
                    && form.len_max <= spec.len_max
            }
            (FieldLength::Variable(..), _) => false,
        };
        is_alike.then_some(Self::Characters(alphabet))
    }
}

/// Facts of a field that every message needs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FieldRow {
    /// The elements that it leads to.
    pub(crate) elements: Bitmap,
    /// Its greatest length. Units: those of its form.
    pub(crate) units: u16,
    /// Bytes where its length is fixed, 0 where it varies.
    pub(crate) bytes: u16,
}

/// A checked dialect, ready for use.
#[derive(Debug, Clone)]
pub struct Translation {
    pub(crate) types: TypeForm,
    pub(crate) bitmap: (BitmapEncoding, Alphabet),
    /// The fields, by number.
    pub(crate) fields: Vec<Option<WireField>>,
    pub(crate) sources: Vec<Option<ElementSource>>,
    /// The rows, by number, also of missing fields.
    pub(crate) rows: Vec<FieldRow>,
    /// The fields that answers repeat as they came.
    pub(crate) repeated: Bitmap,
    /// The fields whose elements an answer may repeat.
    pub(crate) echoed: Bitmap,
    /// The elements that fields of `repeated` or `echoed` lead to.
    pub(crate) repeated_elements: Bitmap,
    /// The fields of partial reversals, where these are not told apart by an element.
    pub(crate) partial: Option<PartialFields>,
    /// Whether messages are named by local time, not by that of their transmission.
    pub names_by_local_time: bool,
}

/// The fields that tell what a partial reversal leaves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PartialFields {
    /// The amounts before.
    pub(crate) before: u8,
    /// The amount of a message: of a partial reversal, what stays.
    pub(crate) amount: u8,
    /// The function code, where there is one.
    pub(crate) function: Option<u8>,
}

/// One more than the greatest number of a field.
const NUMBERS: usize = 129;

impl Translation {
    /// Checks tables and makes them ready.
    /// Errors: the first thing that is wrong, with its field.
    pub fn new(tables: Tables) -> Result<Self, TablesError> {
        let mut made = Self {
            types: tables.types,
            bitmap: tables.bitmap,
            fields: (0..NUMBERS).map(|_| None).collect(),
            sources: (0..NUMBERS).map(|_| None).collect(),
            rows: vec![FieldRow::default(); NUMBERS],
            repeated: Bitmap::EMPTY,
            echoed: Bitmap::EMPTY,
            repeated_elements: Bitmap::EMPTY,
            partial: None,
            names_by_local_time: false,
        };
        for (number, wire) in tables.fields {
            let refuse = |reason| TablesError { field: Some(number), reason };
            made.add(number, wire).map_err(refuse)?;
        }
        for element in NEEDED {
            if made.sources[usize::from(element)].is_none() {
                let name = field(element).map_or("", |spec| spec.name);
                let reason = format!("no field leads to element {element}, {name}");
                return Err(TablesError { field: None, reason });
            }
        }
        let with_shape = |is_it: fn(&FieldShape) -> bool| {
            let shaped = made.fields.iter().zip(0..=u8::MAX);
            let mut shaped =
                shaped.filter(|(wire, _)| wire.as_ref().is_some_and(|w| is_it(&w.shape)));
            shaped.next().map(|(_, number)| number)
        };
        let before = with_shape(|shape| matches!(shape, FieldShape::AmountsBefore));
        let original = with_shape(|shape| matches!(shape, FieldShape::Original));
        made.names_by_local_time = original.is_some();
        made.partial = before.zip(made.field_of(4)).map(|(before, amount)| PartialFields {
            before,
            amount,
            function: made.field_of(70),
        });
        Ok(made)
    }

    /// Whether such messages can be cut out of a stream framed so.
    /// Errors: a delimiter that a message may hold.
    pub fn check_framing(&self, framing: &Framing) -> Result<(), TablesError> {
        let LengthPrefix::Delimiter(delimiter) = framing.length else { return Ok(()) };
        let holds = |number: u8, what: &str| {
            let delimiter = LengthPrefix::Delimiter(delimiter);
            let reason =
                format!("{what} may hold the bytes of `{delimiter}`, which ends a message");
            Err(TablesError { field: (number > 0).then_some(number), reason })
        };
        if framing.tpdu {
            return holds(0, "a TPDU");
        }
        if self.bitmap.0 == BitmapEncoding::Binary {
            return holds(0, "a binary bitmap");
        }
        let fields = self.fields.iter().flatten().zip(self.numbers().elements());
        for (wire, number) in fields {
            let has_bytes = |digits| matches!(digits, LengthDigits::Binary | LengthDigits::Packed);
            if matches!(wire.form.length, FieldLength::Variable(_, digits) if has_bytes(digits)) {
                return holds(number, "its length");
            }
            if matches!(wire.form.coding, Coding::Packed(_) | Coding::Raw) {
                return holds(number, "its content");
            }
        }
        Ok(())
    }

    /// As `check_framing`, of the default spelling.
    /// Errors: any delimiter, since bitmaps are bytes.
    pub fn check_default_framing(framing: &Framing) -> Result<(), TablesError> {
        match framing.length {
            LengthPrefix::Length(_) => Ok(()),
            LengthPrefix::Delimiter(_) => {
                let reason = "a binary bitmap may hold the delimiter".to_owned();
                Err(TablesError { field: None, reason })
            }
        }
    }

    /// The fields that there are.
    pub(crate) fn numbers(&self) -> Bitmap {
        let mut numbers = Bitmap::EMPTY;
        for (number, wire) in (0..=u8::MAX).zip(&self.fields) {
            if wire.is_some() {
                numbers.insert(number);
            }
        }
        numbers
    }

    /// The fields that lead to no element.
    pub fn unused(&self) -> impl Iterator<Item = u8> {
        let is_unused = |number: &u8| self.rows[usize::from(*number)].elements.is_empty();
        self.numbers().elements().filter(is_unused)
    }

    /// The field that an element comes from.
    pub fn field_of(&self, element: u8) -> Option<u8> {
        self.sources.get(usize::from(element))?.as_ref().map(|source| source.field)
    }

    fn add(&mut self, number: u8, wire: WireField) -> Result<(), String> {
        check_form(number, &wire.form)?;
        check_parts(&wire)?;
        let mut row = FieldRow { units: wire.form.len_max, ..FieldRow::default() };
        for (at, part) in wire.parts.iter().enumerate() {
            let spec = field(part.element)
                .ok_or_else(|| format!("there is no element {}", part.element))?;
            check_element(spec, &wire)?;
            check_values(part, &wire.form, spec)?;
            let is_unchanged = part.read.is_empty() && matches!(wire.shape, FieldShape::Plain);
            let run = RunCoding::of(part, &wire.form, spec).filter(|_| is_unchanged);
            let is_plain = is_unchanged && part.place.is_none();
            let (field, place) = (number, part.place);
            let source = ElementSource { spec, field, part: at, is_plain, run, place };
            let place = &mut self.sources[usize::from(part.element)];
            if let Some(other) = place.replace(source) {
                let (element, other) = (part.element, other.field);
                return Err(format!("it leads to element {element}, to which field {other} leads"));
            }
            row.elements.insert(part.element);
        }
        if wire.is_repeated {
            self.repeated.insert(number);
        } else if !wire.parts.is_empty() && row.elements.without(ECHOED).is_empty() {
            self.echoed.insert(number);
        }
        if self.repeated.union(self.echoed).contains(number) {
            self.repeated_elements = self.repeated_elements.union(row.elements);
        }
        if wire.form.is_fixed() {
            row.bytes = u16::try_from(wire.form.wire_bytes(row.units)).unwrap_or(0);
        }
        self.rows[usize::from(number)] = row;
        let place = &mut self.fields[usize::from(number)];
        if place.replace(wire).is_some() {
            return Err("it is described twice".to_owned());
        }
        Ok(())
    }
}

fn check_form(number: u8, form: &FieldForm) -> Result<(), String> {
    if !(2..=128).contains(&number) {
        return Err("fields have numbers from 2 to 128".to_owned());
    }
    if form.len_max == 0 {
        return Err("its length is 0".to_owned());
    }
    if form.len_max > FIELD_LEN_MAX {
        return Err(format!("it has no end: at most {FIELD_LEN_MAX} are possible"));
    }
    const { assert!((FIELD_LEN_MAX as usize) * 2 <= FRAME_BYTES_MAX) };
    if let FieldLength::Variable(digits, coding) = form.length {
        let most = match coding {
            LengthDigits::Binary if form.prefix_bytes() == 1 => u16::from(u8::MAX),
            LengthDigits::Binary => u16::MAX,
            _ => 10_u16.saturating_pow(digits.into()).saturating_sub(1),
        };
        if !(1..=4).contains(&digits) {
            return Err("its length has 1 to 4 digits".to_owned());
        }
        if form.len_max > most {
            return Err(format!("its length of {digits} digits ends at {most}"));
        }
    }
    let is_binary = form.class == Class::Binary;
    match form.coding {
        Coding::Raw | Coding::Hex(_) if !is_binary => Err("only class `b` holds bytes".to_owned()),
        Coding::Text(_) | Coding::Packed(_) if is_binary => {
            Err("class `b` is binary or hex".to_owned())
        }
        Coding::Packed(_) => match form.class {
            Class::Digits | Class::Track | Class::SignedDigits => Ok(()),
            _ => Err("only classes `n`, `z` and `x+n` are packed".to_owned()),
        },
        _ => Ok(()),
    }
}

fn check_parts(wire: &WireField) -> Result<(), String> {
    let mut end_before = 0;
    for part in &wire.parts {
        let Some((start, end)) = part.place else {
            return match wire.parts.len() {
                1 => Ok(()),
                _ => Err("of several parts, each needs its place".to_owned()),
            };
        };
        if start >= end || usize::from(end) > wire.form.chars_max() {
            return Err(format!("no content has a part {start}..{end}"));
        }
        if start < end_before {
            return Err(format!("part {start}..{end} overlaps the one before it"));
        }
        end_before = end;
    }
    Ok(())
}

/// Mapped values have to fit, or messages with them would be lost.
fn check_values(part: &FieldPart, form: &FieldForm, spec: &FieldSpec) -> Result<(), String> {
    let check = |value: &[u8], class: Class, len_max: usize, place: &str| {
        let shown = String::from_utf8_lossy(value);
        let is_begin_of_sign = class == Class::SignedDigits;
        if value.len() > len_max {
            return Err(format!("`{shown}` is longer than {place} can be, which is {len_max}"));
        }
        match is_begin_of_sign || class.accepts(value) {
            true => Ok(()),
            false => Err(format!("`{shown}` is not of class `{}`, as {place} is", class.code())),
        }
    };
    for ReadValue { value, plain, .. } in &part.read {
        check(value, form.class, form.chars_max(), "it")?;
        check(plain, spec.class, spec.len_max.into(), &format!("element {}", spec.number))?;
    }
    let mut written = part.write.iter();
    written.try_for_each(|written| check(&written.written, form.class, form.chars_max(), "it"))
}

fn check_element(spec: &FieldSpec, wire: &WireField) -> Result<(), String> {
    let is_binary = wire.form.class == Class::Binary;
    let FieldSpec { number, class, .. } = spec;
    if is_binary != (*class == Class::Binary) {
        let (one, other) = (wire.form.class.code(), class.code());
        return Err(format!(
            "its class `{one}` cannot lead to element {number}, which is `{other}`"
        ));
    }
    if matches!(wire.shape, FieldShape::Tags(_)) && *number != 48 {
        return Err("only to element 48 do sub-elements lead".to_owned());
    }
    let (own, what) = match wire.shape {
        FieldShape::Location => (43, "a place of a merchant"),
        FieldShape::Original => (90, "a message that another one is about"),
        FieldShape::AmountsBefore => (95, "the amount before a reversal"),
        FieldShape::Plain | FieldShape::Tags(_) => return Ok(()),
    };
    if *number != own {
        return Err(format!("only to element {own} does {what} lead"));
    }
    Ok(())
}
