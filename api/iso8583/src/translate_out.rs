//! From a message of the default spelling to the counterpart's.
//!
//! Each field is made of the elements that it leads to. In an answer the fields that are repeated stand as they came.

use crate::bitmap::{Bitmap, BitmapEncoding};
use crate::codec::decode;
use crate::encode::{EncodeError, put_len};
use crate::field_form::Coding;
use crate::fields::Class;
use crate::message::Message;
use crate::number::parse_number;
use crate::originals_1993::{FULL, PARTIAL, written_amounts, written_original};
use crate::translation::{FieldPart, FieldShape, FieldTags, Translation, TypeForm, WireField};

/// Elements without which a request is another one: which message it is about, and what of it stays.
const NEVER_LOST: [u8; 2] = [90, 95];

impl TypeForm {
    /// The type in the default spelling.
    pub(crate) fn read(&self, theirs: [u8; 4]) -> [u8; 4] {
        let pair = self.pairs.iter().find(|(known, _)| *known == theirs);
        pair.map_or_else(|| self.with_other_version(theirs), |(_, own)| *own)
    }

    pub(crate) fn write(&self, own: [u8; 4]) -> [u8; 4] {
        let pair = self.pairs.iter().find(|(_, known)| *known == own);
        pair.map_or_else(|| self.with_other_version(own), |(theirs, _)| *theirs)
    }

    /// The two versions changed for each other: so a type of the wrong version stays one that nobody serves.
    fn with_other_version(&self, [version, rest @ ..]: [u8; 4]) -> [u8; 4] {
        let other = match version {
            b'0' => self.version,
            version if version == self.version => b'0',
            version => version,
        };
        let [class, function, origin] = rest;
        [other, class, function, origin]
    }
}

impl Translation {
    /// Whether an answer repeats a field whose number is above this one.
    #[must_use]
    pub fn repeats_beyond(kept: &[u8], number: u8) -> bool {
        repeated(kept).any(|(repeated, _)| repeated > number)
    }

    /// Appends a message of the default spelling as the counterpart spells it. `kept` is what reading its request has
    /// kept; empty for a message that is no answer.
    ///
    /// Errors: an element that its field cannot hold, or a message that is not of the default spelling. The output is
    /// then as before.
    pub fn write(&self, plain: &[u8], kept: &[u8], out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let message = decode(plain).map_err(|error| match error.de {
            Some(de) => EncodeError::BadContent(de),
            None => EncodeError::FrameTooLong,
        })?;
        let start = out.len();
        let written = self.write_message(&message, kept, out);
        if written.is_err() {
            out.truncate(start);
        }
        written
    }

    fn write_message(
        &self,
        message: &Message<'_>,
        kept: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let mti = self.types.write(message.mti().bytes());
        match self.types.coding {
            Coding::Packed(_) => {
                out.extend(mti.chunks(2).map(|two| (two[0] & 15) << 4 | two[1] & 15))
            }
            Coding::Text(alphabet) => alphabet.write(&mti, out),
            Coding::Raw | Coding::Hex(_) => {}
        }
        let mut numbers = Bitmap::EMPTY;
        for element in message.present().elements() {
            if let Some(source) = &self.sources[usize::from(element)] {
                numbers.insert(source.field);
            } else if NEVER_LOST.contains(&element) && !message.mti().is_response() {
                return Err(EncodeError::UnknownElement(element));
            }
        }
        for (number, _) in repeated(kept) {
            numbers.insert(number);
        }
        let partial = self.reversal_contents(message);
        partial.iter().for_each(|(number, _)| numbers.insert(*number));
        self.write_bitmap(numbers, out);
        let mut repeats = repeated(kept).peekable();
        for number in numbers.elements() {
            if let Some((_, bytes)) = repeats.next_if(|(kept, _)| *kept == number) {
                out.extend_from_slice(bytes);
                continue;
            }
            let Some(wire) = &self.fields[usize::from(number)] else { continue };
            let swapped = partial.iter().find(|(swapped, _)| *swapped == number);
            let written = match swapped {
                None => wire.write(message, &self.types, out),
                Some((_, content)) => wire.write_content(content.clone(), out),
            };
            written.ok_or(EncodeError::WrongLength(number))?;
        }
        Ok(())
    }

    /// The fields of a reversal that are not made of the elements of their numbers; none of another message.
    fn reversal_contents(&self, message: &Message<'_>) -> Vec<(u8, Vec<u8>)> {
        let Some(fields) = self.partial.filter(|_| message.mti().class() == 4) else {
            return Vec::new();
        };
        let before = message.get(4).unwrap_or(b"000000000000");
        let amounts = message.get(95).and_then(|stays| written_amounts(before, stays));
        let code = if amounts.is_some() { PARTIAL } else { FULL };
        let is_told = message.has(70) || message.mti().is_response();
        let function = fields.function.filter(|_| !is_told).map(|number| (number, code.to_vec()));
        let amounts =
            amounts.map(|(stays, before)| [(fields.amount, stays), (fields.before, before)]);
        amounts.into_iter().flatten().chain(function).collect()
    }

    fn write_bitmap(&self, numbers: Bitmap, out: &mut Vec<u8>) {
        let (encoding, alphabet) = self.bitmap;
        let bitmap_at = out.len();
        numbers.write(out, encoding);
        if encoding == BitmapEncoding::HexText {
            for byte in &mut out[bitmap_at..] {
                *byte = alphabet.byte_of(*byte);
            }
        }
    }
}

/// The fields that reading a request has kept, in their order.
fn repeated(kept: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let mut rest = kept;
    std::iter::from_fn(move || {
        let ([number, high, low], behind) = rest.split_first_chunk()?;
        let (bytes, behind) = behind.split_at_checked(u16::from_be_bytes([*high, *low]).into())?;
        rest = behind;
        Some((*number, bytes))
    })
}

impl WireField {
    /// Appends the field; none where it cannot hold what is in the message.
    fn write(&self, message: &Message<'_>, types: &TypeForm, out: &mut Vec<u8>) -> Option<()> {
        // Most fields are an element as it is.
        if let ([part], FieldShape::Plain) = (&self.parts[..], &self.shape)
            && let (None, true, Some(content)) =
                (part.place, part.write.is_empty(), message.get(part.element))
            && self.fits(content.len())
        {
            return self.form.write(content, out).then_some(());
        }
        self.write_content(self.compose(message, types)?, out)
    }

    fn write_content(&self, content: Vec<u8>, out: &mut Vec<u8>) -> Option<()> {
        self.form.write(&self.fitted(content)?, out).then_some(())
    }

    fn fits(&self, len: usize) -> bool {
        match self.form.is_fixed() {
            true => len == self.form.chars_max(),
            false => len <= self.form.chars_max(),
        }
    }

    /// The content, made of the elements of the message.
    fn compose(&self, message: &Message<'_>, types: &TypeForm) -> Option<Vec<u8>> {
        if let ([part], FieldShape::Original) = (&self.parts[..], &self.shape) {
            return written_original(types, message.get(part.element)?);
        }
        if let ([part], FieldShape::Tags(tags)) = (&self.parts[..], &self.shape) {
            return tags.write(message.get(part.element)?);
        }
        let mut content = Vec::new();
        for part in &self.parts {
            let Some(value) = message.get(part.element) else { continue };
            let value = part.written(message, value);
            let Some((start, end)) = part.place else { return Some(value) };
            let (start, end) = (usize::from(start), usize::from(end));
            // What no element tells is blank.
            content.resize(content.len().max(end), self.blank());
            if value.len() != end - start {
                return None;
            }
            content[start..end].copy_from_slice(&value);
        }
        Some(content)
    }

    /// The content in a length that the field may have; a text that is too long is cut.
    fn fitted(&self, mut content: Vec<u8>) -> Option<Vec<u8>> {
        let (len, len_max) = (content.len(), self.form.chars_max());
        if self.fits(len) {
            return Some(content);
        }
        match self.form.class {
            Class::Digits if len < len_max => {
                content.splice(..0, std::iter::repeat_n(b'0', len_max - len));
            }
            Class::Digits => {
                let surplus = content.drain(..len - len_max);
                if surplus.into_iter().any(|digit| digit != b'0') {
                    return None;
                }
            }
            Class::Letters | Class::LettersDigits | Class::Printable => {
                content.resize(len_max, b' ');
            }
            Class::Binary | Class::Track | Class::SignedDigits => return None,
        }
        Some(content)
    }

    const fn blank(&self) -> u8 {
        if matches!(self.form.class, Class::Digits) { b'0' } else { b' ' }
    }
}

impl FieldPart {
    fn written(&self, message: &Message<'_>, value: &[u8]) -> Vec<u8> {
        let mti = message.mti().bytes();
        let found = self
            .write
            .iter()
            .find(|written| mti.starts_with(&written.types) && value.starts_with(&written.value));
        match found {
            Some(found) => [&found.written, &value[found.value.len()..]].concat(),
            None => value.to_vec(),
        }
    }
}

impl FieldTags {
    /// Their sub-elements, made of those of DE48; none where that has another form.
    fn write(&self, own: &[u8]) -> Option<Vec<u8>> {
        let mut theirs = Vec::with_capacity(own.len());
        let mut rest = own;
        while !rest.is_empty() {
            let ([tag @ .., high, low], behind): (&[u8; 4], _) = rest.split_first_chunk()?;
            let len = parse_number(&[*high, *low])?;
            let (value, behind) = behind.split_at_checked(usize::try_from(len).ok()?)?;
            rest = behind;
            let Some((known, _)) = self.pairs.iter().find(|(_, own)| own == tag) else { continue };
            theirs.extend_from_slice(known);
            let len_at = theirs.len();
            theirs.resize(len_at + self.length_digits, b'0');
            theirs.extend_from_slice(value);
            if !put_len(&mut theirs, len_at, len_at + self.length_digits) {
                return None;
            }
        }
        Some(theirs)
    }
}
