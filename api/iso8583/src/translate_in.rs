//! From a counterpart's message to one of the default spelling.
//!
//! The layout comes first: which fields there are and where. Then the elements follow in their order, each from
//! its field. Content that the default spelling does not allow stays: its decoder reads the message next, and
//! says why.

use crate::bitmap::{Bitmap, BitmapEncoding};
use crate::codec::{DecodeError, DecodeFault, decode};
use crate::dialect::FRAME_BYTES_MAX;
use crate::encode::put_len;
use crate::field_form::{Coding, unpack_pairs};
use crate::fields::{Class, FieldSpec, Length};
use crate::layout::{FieldPlace, Layout, short_len};
use crate::message::{Message, Span};
use crate::mti::Mti;
use crate::number::parse_number;
use crate::originals_1993::{AMOUNT_DIGITS, is_partial, read_original, read_remaining};
use crate::repeated_fields::RepeatedFields;
use crate::translation::{
    ElementSource, FieldPart, FieldShape, FieldTags, PartialFields, RunCoding, Translation,
    TypeForm,
};

/// The reason why a message cannot be translated. Its readable part has been translated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TranslationFault {
    /// Why.
    pub fault: DecodeFault,
    /// The counterpart's field at fault, where it is one.
    pub field: Option<u8>,
}

impl std::fmt::Display for TranslationFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.field {
            Some(number) => write!(f, "field {number}: {}", self.fault.as_str()),
            None => f.write_str(self.fault.as_str()),
        }
    }
}

impl std::error::Error for TranslationFault {}

/// A translated message: the places of its elements in the appended bytes.
#[derive(Debug, Clone)]
pub struct TranslatedMessage {
    mti: Mti,
    present: Bitmap,
    spans: [Span; 129],
    /// Whether each content is what the default spelling allows.
    is_sound: bool,
}

impl TranslatedMessage {
    /// The message, where `plain` has the bytes that reading it appended.
    ///
    /// Errors: content that the default spelling does not allow, with the readable part.
    pub fn message<'p>(&self, plain: &'p [u8]) -> Result<Message<'p>, DecodeError<'p>> {
        match self.is_sound {
            true => Ok(Message::laid_out(plain, self.mti, self.present, self.spans)),
            false => decode(plain),
        }
    }
}

const TYPE_DIGITS: usize = 4;
/// Elements that change places in a partial reversal.
const AMOUNT: u8 = 4;
const REPLACEMENT: u8 = 95;

impl Translation {
    /// Appends a message, without length and TPDU, in the default spelling to `plain`. The fields that its answer may
    /// repeat take the place of `repeated`, for [`write`](Self::write).
    ///
    /// Errors: the first fault; the readable part is appended all the same, nothing where no type was.
    /// Cost: one pass over the message and one over its elements; allocates only in the output.
    pub fn read(
        &self,
        message: &[u8],
        plain: &mut Vec<u8>,
        repeated: &mut RepeatedFields,
    ) -> Result<TranslatedMessage, TranslationFault> {
        let fault = |fault| TranslationFault { fault, field: None };
        if message.len() > FRAME_BYTES_MAX {
            return Err(fault(DecodeFault::FrameTooLong));
        }
        let (mti, behind) = self.read_type(message).ok_or(fault(DecodeFault::BadMessageType))?;
        let mti = Mti::parse(&mti).ok_or(fault(DecodeFault::BadMessageType))?;
        plain.extend_from_slice(&mti.bytes());
        let Some((announced, bitmap_bytes)) = self.read_bitmap(&message[behind..]) else {
            Bitmap::EMPTY.write(plain, BitmapEncoding::Binary);
            return Err(fault(DecodeFault::BadBitmap));
        };
        let layout = self.lay_out(message, behind + bitmap_bytes, announced);
        let partial = self.partial_of(mti, message, &layout);
        let (mut certain, mut elements) = (self.repeated, self.repeated_elements);
        if let Some(PartialFields { amount, before, .. }) = partial {
            // The answer has the amounts as they came.
            for number in [amount, before] {
                certain.insert(number);
                elements = elements.union(self.rows[usize::from(number)].elements);
            }
        }
        repeated.numbers = layout.present.intersection(certain.union(self.echoed));
        repeated.certain = layout.present.intersection(certain);
        repeated.elements = layout.elements.intersection(elements);
        repeated.copy(message, |number| {
            let FieldPlace { start, end, .. } = layout.places[usize::from(number)];
            usize::from(start)..usize::from(end)
        });
        self.write_elements((mti, message), &layout, partial, plain)
    }

    /// The fields of a partial reversal, where the message is one.
    fn partial_of(&self, mti: Mti, message: &[u8], layout: &Layout) -> Option<PartialFields> {
        let fields = self.partial.filter(|_| mti.class() == 4)?;
        let content = |number: u8| {
            let mut content = Vec::new();
            let is_read = layout.present.contains(number)
                && self.read_field(message, layout, number, &mut content);
            is_read.then_some(content)
        };
        let function = fields.function.and_then(content);
        let (amount, before) = (content(fields.amount), content(fields.before));
        is_partial(function.as_deref(), amount.as_deref(), before.as_deref()).then_some(fields)
    }

    /// Appends the content of a field that is there in the default spelling. False where it is none.
    fn read_field(&self, message: &[u8], layout: &Layout, number: u8, plain: &mut Vec<u8>) -> bool {
        let Some(wire) = &self.fields[usize::from(number)] else { return false };
        let place = layout.places[usize::from(number)];
        let content = &message[usize::from(place.content)..usize::from(place.end)];
        wire.form.read_content(content, place.units, plain)
    }

    /// The type in the default spelling, and how many bytes it has.
    fn read_type(&self, message: &[u8]) -> Option<([u8; 4], usize)> {
        let (digits, bytes) = match self.types.coding {
            Coding::Packed(_) => {
                let [high, low] = *message.first_chunk()?;
                ([high >> 4, high & 15, low >> 4, low & 15].map(|digit| digit + b'0'), 2)
            }
            Coding::Text(alphabet) => {
                let digits: &[u8; TYPE_DIGITS] = message.first_chunk()?;
                (digits.map(|digit| alphabet.ascii_of(digit)), TYPE_DIGITS)
            }
            Coding::Raw | Coding::Hex(_) => return None,
        };
        digits.iter().all(u8::is_ascii_digit).then(|| (self.types.read(digits), bytes))
    }

    fn read_bitmap(&self, bytes: &[u8]) -> Option<(Bitmap, usize)> {
        let (encoding, alphabet) = self.bitmap;
        match (encoding, alphabet) {
            (BitmapEncoding::HexText, alphabet) if alphabet.byte_of(b'0') != b'0' => {
                let mut characters = [0; 32];
                for (character, byte) in characters.iter_mut().zip(bytes) {
                    *character = alphabet.ascii_of(*byte);
                }
                Bitmap::read(&characters[..bytes.len().min(32)], encoding)
            }
            _ => Bitmap::read(bytes, encoding),
        }
    }

    /// Makes the element of the content of its field, which stands from there on. False where that has no such part.
    fn change(&self, source: &ElementSource, content_at: usize, plain: &mut Vec<u8>) -> bool {
        let Some(wire) = &self.fields[usize::from(source.field)] else { return false };
        wire.parts[source.part].change(&wire.shape, &self.types, content_at, plain)
    }

    /// Appends the bitmaps and the elements of the fields that there are.
    fn write_elements(
        &self,
        (mti, message): (Mti, &[u8]),
        layout: &Layout,
        partial: Option<PartialFields>,
        plain: &mut Vec<u8>,
    ) -> Result<TranslatedMessage, TranslationFault> {
        // INVARIANT: the type is the first that a message has.
        let start = plain.len() - TYPE_DIGITS;
        let mut elements = layout.elements;
        match (self.partial, partial) {
            (_, Some(_)) => elements.insert(REPLACEMENT),
            // The amounts before mean something else in other messages.
            (Some(_), None) => elements.remove(REPLACEMENT),
            (None, None) => {}
        }
        let bitmap_at = plain.len();
        elements.write(plain, BitmapEncoding::Binary);
        let (mut fault, mut written) = (layout.fault, elements);
        let (mut spans, mut run) = ([Span::default(); 129], FieldRun::EMPTY);
        for element in elements.elements() {
            let Some(source) = &self.sources[usize::from(element)] else { continue };
            let swapped = partial.and_then(|fields| fields.swapped(element, layout.present));
            if let (Some(coding), None) = (source.run, swapped) {
                let place = layout.places[usize::from(source.field)].part(source.place);
                if run.end != place.start || run.coding != coding {
                    run.append(message, plain);
                    let (start, plain_at) = (place.start, short_len(&plain[start..]));
                    run = FieldRun { coding, start, end: start, plain_at };
                }
                run.end = place.end;
                spans[usize::from(element)] = run.span_of(place);
                continue;
            }
            run.append(message, plain);
            run = FieldRun::EMPTY;
            let (field, at) = (swapped.unwrap_or(source.field), plain.len());
            let is_swapped = swapped.is_some();
            match self.read_element(message, layout, (source, field, is_swapped), plain) {
                Some(content_at) => {
                    let offset = short_len(&plain[start..content_at]);
                    let len = short_len(&plain[content_at..]);
                    spans[usize::from(element)] = Span { offset, len };
                }
                None => {
                    plain.truncate(at);
                    written.remove(element);
                    let (reason, field) = (DecodeFault::BadContent, Some(field));
                    fault.get_or_insert(TranslationFault { fault: reason, field });
                }
            }
        }
        run.append(message, plain);
        if written != elements {
            written.write_over(&mut plain[bitmap_at..], elements.needs_secondary());
        }
        match fault {
            None => {
                let is_sound = self.is_sound(&plain[start..], written, &spans);
                Ok(TranslatedMessage { mti, present: written, spans, is_sound })
            }
            Some(fault) => Err(fault),
        }
    }

    /// Whether the default spelling allows the content of these elements.
    fn is_sound(&self, plain: &[u8], elements: Bitmap, spans: &[Span; 129]) -> bool {
        let accepts =
            |class: Class, start, end| class.accepts(&plain[usize::from(start)..usize::from(end)]);
        let (mut is_sound, mut class, mut start, mut end) =
            (plain.len() <= FRAME_BYTES_MAX, Class::Binary, 0, 0);
        for element in elements.elements() {
            let Some(source) = &self.sources[usize::from(element)] else { continue };
            let Span { offset, len } = spans[usize::from(element)];
            // Contents side by side are judged as one, those with a sign by the decoder.
            if offset != end || source.spec.class != class {
                is_sound &= accepts(class, start, end);
                (class, start) = (source.spec.class, offset);
            }
            end = offset + len;
        }
        is_sound && accepts(class, start, end)
    }

    /// Appends an element by itself, and says where its content begins. None where its field has no such content; some
    /// of it may have been appended.
    fn read_element(
        &self,
        message: &[u8],
        layout: &Layout,
        (source, field, is_swapped): (&ElementSource, u8, bool),
        plain: &mut Vec<u8>,
    ) -> Option<usize> {
        let (spec, prefix_at) = (source.spec, plain.len());
        if spec.length != Length::Fixed {
            plain.resize(prefix_at + usize::from(spec.length.prefix_digits()), b'0');
        }
        let content_at = plain.len();
        let is_right = self.read_field(message, layout, field, plain)
            && match is_swapped {
                true => swap(spec.number, content_at, plain),
                false => source.is_plain || self.change(source, content_at, plain),
            }
            && (spec.fits(plain.len() - content_at) || fit(spec, content_at, plain))
            && put_len(plain, prefix_at, content_at);
        is_right.then_some(content_at)
    }
}

/// Fields side by side that become elements side by side, not yet appended.
#[derive(Clone, Copy)]
struct FieldRun {
    coding: RunCoding,
    /// Start and end in the message.
    start: u16,
    end: u16,
    /// Start of the first in the default spelling.
    plain_at: u16,
}

impl FieldRun {
    const EMPTY: Self = Self { coding: RunCoding::Digits, start: 0, end: 0, plain_at: 0 };

    fn append(&self, message: &[u8], plain: &mut Vec<u8>) {
        let bytes = &message[usize::from(self.start)..usize::from(self.end)];
        match self.coding {
            RunCoding::Characters(alphabet) => alphabet.read(bytes, plain),
            RunCoding::Digits => unpack_pairs(bytes, plain),
        }
    }

    /// Place of a field's content in the default spelling.
    fn span_of(&self, place: FieldPlace) -> Span {
        let each = match self.coding {
            RunCoding::Characters(_) => 1,
            RunCoding::Digits => 2,
        };
        let offset = self.plain_at + each * (place.content - self.start);
        Span { offset, len: each * (place.end - place.content) }
    }
}

impl PartialFields {
    /// The field that an element of a partial reversal comes from, where that is another than usual.
    fn swapped(self, element: u8, present: Bitmap) -> Option<u8> {
        match element {
            AMOUNT if present.contains(self.before) => Some(self.before),
            REPLACEMENT => Some(self.amount),
            _ => None,
        }
    }
}

/// Makes an element of a partial reversal of the amount that stands from there on. False where that is none.
fn swap(element: u8, content_at: usize, plain: &mut Vec<u8>) -> bool {
    match element {
        REPLACEMENT => read_remaining(content_at, plain),
        _ => {
            plain.truncate(content_at + AMOUNT_DIGITS);
            true
        }
    }
}

impl FieldPart {
    /// Makes the element of the content that stands from there on. False where the content has no such part.
    fn change(
        &self,
        shape: &FieldShape,
        types: &TypeForm,
        content_at: usize,
        plain: &mut Vec<u8>,
    ) -> bool {
        match shape {
            FieldShape::Plain | FieldShape::AmountsBefore => {}
            FieldShape::Original => return read_original(types, content_at, plain),
            FieldShape::Tags(tags) => return tags.read(content_at, plain),
            FieldShape::Location => read_location(content_at, plain),
        }
        if let Some((start, end)) = self.place {
            let (start, end) = (content_at + usize::from(start), content_at + usize::from(end));
            if end > plain.len() {
                return false;
            }
            plain.truncate(end);
            plain.drain(content_at..start);
        }
        let content = &plain[content_at..];
        if let Some(read) = self.read.iter().find(|read| content.starts_with(&read.value)) {
            let end = if read.is_whole { plain.len() } else { content_at + read.value.len() };
            plain.splice(content_at..end, read.plain.iter().copied());
        }
        true
    }
}

impl FieldTags {
    /// Makes sub-elements of DE48 of those that stand from there on.
    fn read(&self, content_at: usize, plain: &mut Vec<u8>) -> bool {
        let theirs = plain.split_off(content_at);
        let mut rest = &theirs[..];
        while !rest.is_empty() {
            let Some((tag, behind)) = rest.split_at_checked(self.tag_digits) else { return false };
            let Some((len, behind)) = behind.split_at_checked(self.length_digits) else {
                return false;
            };
            let len = parse_number(len).and_then(|len| usize::try_from(len).ok());
            let Some((value, behind)) = len.and_then(|len| behind.split_at_checked(len)) else {
                return false;
            };
            rest = behind;
            let Some((_, own)) = self.pairs.iter().find(|(known, _)| known == tag) else {
                continue;
            };
            plain.extend_from_slice(own);
            let len_at = plain.len();
            plain.extend_from_slice(b"00");
            plain.extend_from_slice(value);
            if !put_len(plain, len_at, len_at + 2) {
                return false;
            }
        }
        true
    }
}

/// Makes name, city and region of 22, 13 and 3 characters of those of 1993; the country stands in DE19.
/// Source: ISO 8583:1993, field 43: `name\street\city\` and 16 characters of postal code, region and country.
fn read_location(content_at: usize, plain: &mut Vec<u8>) {
    let mut parts = plain[content_at..].split(|byte| *byte == b'\\');
    let (name, _street) = (parts.next().unwrap_or_default(), parts.next());
    let (city, place) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let region = place.get(10..13).unwrap_or_default();
    let mut location = [b' '; 40];
    for (part, at, width) in [(name, 0, 22), (city, 22, 13), (region, 35, 3)] {
        let len = part.len().min(width);
        location[at..at + len].copy_from_slice(&part[..len]);
    }
    plain.truncate(content_at);
    plain.extend_from_slice(&location);
}

/// Brings the content that stands from there on to a length that the element may have: zeros before digits, spaces
/// behind text, and such taken off. False where more than that would be lost.
#[cold]
fn fit(spec: &FieldSpec, content_at: usize, plain: &mut Vec<u8>) -> bool {
    let (len, len_max) = (plain.len() - content_at, usize::from(spec.len_max));
    let is_number = spec.class == Class::Digits;
    if len > len_max {
        let over = len - len_max;
        let surplus = match is_number {
            true => content_at..content_at + over,
            false => content_at + len_max..content_at + len,
        };
        let pad = if is_number { b'0' } else { b' ' };
        if spec.class == Class::Binary || plain[surplus.clone()].iter().any(|byte| *byte != pad) {
            return false;
        }
        plain.drain(surplus);
        return true;
    }
    match spec.class {
        Class::Digits => {
            plain.splice(content_at..content_at, std::iter::repeat_n(b'0', len_max - len));
        }
        Class::Letters | Class::LettersDigits | Class::Printable => {
            plain.resize(content_at + len_max, b' ');
        }
        Class::Binary | Class::Track | Class::SignedDigits => return false,
    }
    true
}
