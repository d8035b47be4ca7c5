//! From a message of the default spelling to the counterpart's.
//!
//! Each field is made of the elements that it leads to. In an answer the fields that are repeated stand as they came.

use std::borrow::Cow;

use crate::answer::AnswerMessage;
use crate::bitmap::{Bitmap, BitmapEncoding};
use crate::codec::decode;
use crate::encode::{EncodeError, put_len};
use crate::field_form::Coding;
use crate::fields::Class;
use crate::message::Elements;
use crate::mti::Mti;
use crate::number::parse_number;
use crate::originals_1993::{FULL, PARTIAL, written_amounts, written_original};
use crate::repeated_fields::RepeatedFields;
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
    /// Appends a message of the default spelling as the counterpart spells it. `repeated` is of the request that it
    /// answers, [`NONE`](RepeatedFields::NONE) for a message that is no answer.
    ///
    /// Errors: an element that its field cannot hold, or a message that is not of the default spelling. The output is
    /// then as before.
    pub fn write(
        &self,
        plain: &[u8],
        repeated: &RepeatedFields,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let message = decode(plain).map_err(|error| match error.de {
            Some(de) => EncodeError::BadContent(de),
            None => EncodeError::FrameTooLong,
        })?;
        self.write_message(&message, repeated, out)
    }

    /// As [`write`](Self::write), of an answer that is not written in the default spelling.
    ///
    /// Errors: as there, and a value that the answer may not hold.
    pub fn write_answer(
        &self,
        answer: &AnswerMessage<'_>,
        repeated: &RepeatedFields,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        answer.check()?;
        self.write_message(answer, repeated, out)
    }

    fn write_message(
        &self,
        message: &impl Elements,
        repeated: &RepeatedFields,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let start = out.len();
        let written = self.append_elements(message, repeated, out);
        if written.is_err() {
            out.truncate(start);
        }
        written
    }

    fn append_elements(
        &self,
        message: &impl Elements,
        repeated: &RepeatedFields,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let mti = self.types.write(message.mti().bytes());
        match self.types.coding {
            Coding::Packed(_) => {
                let [a, b, c, d] = mti.map(|digit| digit & 15);
                out.extend_from_slice(&[a << 4 | b, c << 4 | d]);
            }
            Coding::Text(alphabet) => alphabet.write(&mti, out),
            Coding::Raw | Coding::Hex(_) => {}
        }
        let (as_they_came, others) = self.split_elements(message, repeated);
        let mut made = Bitmap::EMPTY;
        for element in others.elements() {
            if let Some(source) = &self.sources[usize::from(element)] {
                made.insert(source.field);
            } else if NEVER_LOST.contains(&element) && !message.mti().is_response() {
                return Err(EncodeError::UnknownElement(element));
            }
        }
        let partial = self.reversal_contents(message);
        partial.iter().for_each(|(number, _)| made.insert(*number));
        let made = made.without(as_they_came);
        self.write_bitmap(as_they_came.union(made), out);
        let left_out = repeated.numbers.without(as_they_came);
        repeated.runs().copy_but(made.union(left_out), out, |number, out| {
            let Some(wire) =
                self.fields[usize::from(number)].as_ref().filter(|_| made.contains(number))
            else {
                return Ok(());
            };
            let swapped = partial.iter().find(|(swapped, _)| *swapped == number);
            let written = match swapped {
                None => wire.write(message, &self.types, out),
                Some((_, content)) => wire.write_content(content, out),
            };
            written.ok_or(EncodeError::WrongLength(number))
        })
    }

    /// The fields that stand as they came, and the elements that no such field leads to.
    fn split_elements(
        &self,
        message: &impl Elements,
        repeated: &RepeatedFields,
    ) -> (Bitmap, Bitmap) {
        let (mut as_they_came, mut elements) = (repeated.numbers, repeated.elements);
        for element in elements.without(message.echoed()).elements() {
            let field = self.field_of(element).filter(|field| !repeated.certain.contains(*field));
            let Some(field) = field else { continue };
            as_they_came.remove(field);
            elements = elements.without(self.rows[usize::from(field)].elements);
        }
        (as_they_came, message.present().without(elements))
    }

    /// The fields of a reversal that are not made of the elements of their numbers; none of another message.
    fn reversal_contents(&self, message: &impl Elements) -> Vec<(u8, Vec<u8>)> {
        let Some(fields) = self.partial.filter(|_| message.mti().class() == 4) else {
            return Vec::new();
        };
        let before = message.get(4).unwrap_or(b"000000000000");
        let amounts = message.get(95).and_then(|stays| written_amounts(before, stays));
        let code = if amounts.is_some() { PARTIAL } else { FULL };
        let is_told = message.present().contains(70) || message.mti().is_response();
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

impl WireField {
    /// Appends the field; none where it cannot hold what is in the message.
    fn write(&self, message: &impl Elements, types: &TypeForm, out: &mut Vec<u8>) -> Option<()> {
        // Most fields are one element.
        if let ([part], FieldShape::Plain) = (&self.parts[..], &self.shape)
            && let (None, Some(value)) = (part.place, message.get(part.element))
        {
            return self.write_content(&part.written(message.mti(), value), out);
        }
        self.write_content(&self.compose(message, types)?, out)
    }

    fn write_content(&self, content: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let start = out.len();
        if self.form.write(content, out) {
            return Some(());
        }
        out.truncate(start);
        self.form.write(&self.fitted(content)?, out).then_some(())
    }

    /// The content, made of the elements of the message.
    fn compose(&self, message: &impl Elements, types: &TypeForm) -> Option<Vec<u8>> {
        if let ([part], FieldShape::Original) = (&self.parts[..], &self.shape) {
            return written_original(types, message.get(part.element)?);
        }
        if let ([part], FieldShape::Tags(tags)) = (&self.parts[..], &self.shape) {
            return tags.write(message.get(part.element)?);
        }
        let mut content = Vec::new();
        for part in &self.parts {
            let Some(value) = message.get(part.element) else { continue };
            let value = part.written(message.mti(), value);
            let Some((start, end)) = part.place else { return Some(value.into_owned()) };
            let (start, end) = (usize::from(start), usize::from(end));
            // Places that no element fills are blank.
            content.resize(content.len().max(end), self.blank());
            if value.len() != end - start {
                return None;
            }
            content[start..end].copy_from_slice(&value);
        }
        Some(content)
    }

    /// The content in a length that the field may have; a text that is too long is cut.
    fn fitted(&self, content: &[u8]) -> Option<Vec<u8>> {
        let (mut content, len, len_max) = (content.to_vec(), content.len(), self.form.chars_max());
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
    fn written<'v>(&'v self, mti: Mti, value: &'v [u8]) -> Cow<'v, [u8]> {
        if self.write.is_empty() {
            return Cow::Borrowed(value);
        }
        let mti = mti.bytes();
        let found = self
            .write
            .iter()
            .find(|written| mti.starts_with(&written.types) && value.starts_with(&written.value));
        match found.map(|found| (&found.written, &value[found.value.len()..])) {
            None => Cow::Borrowed(value),
            Some((written, [])) => Cow::Borrowed(written),
            Some((written, rest)) => Cow::Owned([written, rest].concat()),
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
