//! A decoded message: a view into the frame it was read from.
//!
//! Only where each data element lies is kept (offset and length, four bytes each), so decoding allocates nothing and a
//! message lives as long as its frame. Written by `codec`, and by `translate_in` for what it has just written itself.

use std::fmt;
use std::ops::Range;

use crate::bitmap::Bitmap;
use crate::fields::field;
use crate::mti::Mti;
use crate::number::parse_number;

/// The source of a message to write: a decoded message, or an answer.
pub(crate) trait Elements {
    /// The message type.
    fn mti(&self) -> Mti;
    /// The elements that it has.
    fn present(&self) -> Bitmap;
    /// The elements that are as in the message that it answers.
    fn echoed(&self) -> Bitmap;
    /// The content of an element, without length prefix.
    fn get(&self, de: u8) -> Option<&[u8]>;
}

impl Elements for Message<'_> {
    fn mti(&self) -> Mti {
        self.mti
    }

    fn present(&self) -> Bitmap {
        self.present
    }

    fn echoed(&self) -> Bitmap {
        Bitmap::EMPTY
    }

    fn get(&self, de: u8) -> Option<&[u8]> {
        self.get(de)
    }
}

/// The place of the content of one data element in the frame.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Span {
    pub(crate) offset: u16,
    pub(crate) len: u16,
}

/// A message that borrows from the frame it was decoded from.
///
/// Its `Debug` shows the type and the numbers of the elements, never their content.
#[derive(Clone)]
pub struct Message<'a> {
    frame: &'a [u8],
    mti: Mti,
    present: Bitmap,
    spans: [Span; 129],
}

impl<'a> Message<'a> {
    /// A message of which only the type is known yet.
    pub(crate) const fn empty(frame: &'a [u8], mti: Mti) -> Self {
        let none = Span { offset: 0, len: 0 };
        Self { frame, mti, present: Bitmap::EMPTY, spans: [none; 129] }
    }

    /// A message whose elements lie so in its frame. The spans have been checked against it.
    pub(crate) const fn laid_out(
        frame: &'a [u8],
        mti: Mti,
        present: Bitmap,
        spans: [Span; 129],
    ) -> Self {
        Self { frame, mti, present, spans }
    }

    /// Notes where an element lies. The span has been checked against the frame.
    pub(crate) fn note(&mut self, de: u8, span: Span) {
        debug_assert!(usize::from(span.offset) + usize::from(span.len) <= self.frame.len());
        if let Some(place) = self.spans.get_mut(usize::from(de)) {
            *place = span;
            self.present.insert(de);
        }
    }

    /// The message type.
    pub const fn mti(&self) -> Mti {
        self.mti
    }

    /// The elements that the message has, 2 to 128.
    pub const fn present(&self) -> Bitmap {
        self.present
    }

    /// Whether the message has the element.
    pub const fn has(&self, de: u8) -> bool {
        self.present.contains(de)
    }

    /// The content of an element as it stands on the wire, without length prefix.
    pub fn get(&self, de: u8) -> Option<&'a [u8]> {
        if !self.present.contains(de) {
            return None;
        }
        let span = self.spans.get(usize::from(de))?;
        let start = usize::from(span.offset);
        self.frame.get(start..start + usize::from(span.len))
    }

    /// The content of an element as text, with its padding. None for binary elements that are not ASCII.
    pub fn get_text(&self, de: u8) -> Option<&'a str> {
        std::str::from_utf8(self.get(de)?).ok()
    }

    /// The content of an element as text, without spaces around it.
    pub fn get_trimmed(&self, de: u8) -> Option<&'a str> {
        self.get_text(de).map(str::trim_ascii)
    }

    /// The number that an element of digits spells. None when it is absent, empty, not digits, or more than a u64 holds.
    pub fn get_number(&self, de: u8) -> Option<u64> {
        parse_number(self.get(de)?)
    }

    /// The content of a fixed element as an array. None when it is absent or of another length.
    pub fn get_array<const LEN: usize>(&self, de: u8) -> Option<[u8; LEN]> {
        self.get(de)?.try_into().ok()
    }

    /// The place of an element in the frame, its length prefix included.
    pub(crate) fn wire_range(&self, de: u8) -> Range<usize> {
        let prefix = field(de).map_or(0, |spec| usize::from(spec.length.prefix_digits()));
        let span = self.spans.get(usize::from(de)).copied().unwrap_or_default();
        let start = usize::from(span.offset);
        start.saturating_sub(prefix)..start + usize::from(span.len)
    }

    /// A part of the frame.
    pub(crate) fn wire_bytes(&self, range: Range<usize>) -> &'a [u8] {
        self.frame.get(range).unwrap_or_default()
    }

    /// The elements of the message in ascending order, with their content as on the wire.
    pub fn fields(&self) -> impl Iterator<Item = (u8, &'a [u8])> {
        self.present.elements().filter_map(|de| Some((de, self.get(de)?)))
    }
}

impl fmt::Debug for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("mti", &self.mti)
            .field("elements", &self.present)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MessageBuilder, decode};

    #[test]
    fn accessors_read_text_numbers_and_bytes() {
        let block = [0x04, 0x12, 0xac, 0x89, 0xab, 0xcd, 0xef, 0x67];
        let mut frame = Vec::new();
        MessageBuilder::new(Mti::AUTHORIZATION_REQUEST)
            .set(2, b"4111111111111111")
            .set_number(4, 12_345)
            .set_text(41, "TERM1")
            .set(52, &block)
            .encode(&mut frame)
            .unwrap();
        let message = decode(&frame).unwrap();
        assert_eq!(message.get_number(4), Some(12_345));
        assert_eq!(message.get_text(41), Some("TERM1   "));
        assert_eq!(message.get_trimmed(41), Some("TERM1"));
        assert_eq!(message.get_array::<12>(4), Some(*b"000000012345"));
        assert_eq!(message.get_array::<11>(4), None);
        assert_eq!(message.get_array(52), Some(block));
        assert_eq!((message.get(3), message.get_number(41)), (None, None));
        assert_eq!(message.fields().map(|(de, _)| de).collect::<Vec<_>>(), [2, 4, 41, 52]);
    }

    #[test]
    fn debug_shows_no_content() {
        let mut frame = Vec::new();
        MessageBuilder::new(Mti::AUTHORIZATION_REQUEST)
            .set(2, b"4111111111111111")
            .set_text(48, "9203123")
            .encode(&mut frame)
            .unwrap();
        let shown = format!("{:?}", decode(&frame).unwrap());
        assert_eq!(shown, "Message { mti: Mti(0100), elements: [2, 48], .. }");
    }
}
