//! Decoding: type, bitmaps, then each announced element in order, checked against the table.
//!
//! Two kinds of faults are told apart. A fault in the content of one element (a letter among digits, too long a value)
//! leaves the layout readable: decoding notes the first such fault, leaves that element out and goes on, so that an
//! answer can still echo the trace number behind it. A fault in the layout ends decoding. Either way the error carries
//! what was readable.

use std::fmt;

use crate::bitmap::{Bitmap, BitmapEncoding};
use crate::dialect::FRAME_BYTES_MAX;
use crate::fields::{Class, FieldSpec, Length, field};
use crate::message::{Message, Span};
use crate::mti::Mti;

/// Why a message cannot be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeFault {
    /// The frame is longer than [`FRAME_BYTES_MAX`].
    FrameTooLong,
    /// The first four bytes are not four digits.
    BadMessageType,
    /// A bitmap is cut off or not hex.
    BadBitmap,
    /// A length prefix is not digits.
    BadLength,
    /// The frame ends within the element.
    Truncated,
    /// The length prefix says more than the element may have.
    TooLong,
    /// The content has characters that the element may not have.
    BadContent,
    /// Bytes follow the last announced element.
    TrailingBytes,
    /// The counterpart's dialect has no such element.
    UnknownElement,
}

impl DecodeFault {
    /// The fault in words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FrameTooLong => "frame is too long",
            Self::BadMessageType => "message type is not four digits",
            Self::BadBitmap => "bitmap is cut off or not hex",
            Self::BadLength => "length is not a number",
            Self::Truncated => "message ends too early",
            Self::TooLong => "value is too long",
            Self::BadContent => "value has characters that do not belong there",
            Self::TrailingBytes => "bytes follow the last element",
            Self::UnknownElement => "the dialect has no such element",
        }
    }
}

/// A message that cannot be taken, with what was readable of it.
#[derive(Debug, Clone)]
pub struct DecodeError<'a> {
    /// Why.
    pub fault: DecodeFault,
    /// The element at fault; none where it is the frame, the type, a bitmap or what follows the last element.
    pub de: Option<u8>,
    /// The message without the elements that are at fault or behind a broken layout. None when not even the type was
    /// readable. Boxed: it is large, and good messages do not pay for it.
    pub readable: Option<Box<Message<'a>>>,
}

impl DecodeError<'_> {
    /// The message type, where it was readable.
    pub fn mti(&self) -> Option<Mti> {
        self.readable.as_ref().map(|message| message.mti())
    }
}

impl fmt::Display for DecodeError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.de {
            Some(de) => write!(f, "data element {de}: {}", self.fault.as_str()),
            None => f.write_str(self.fault.as_str()),
        }
    }
}

impl std::error::Error for DecodeError<'_> {}

/// Reads one message of the default spelling from its frame, which is without length prefix and TPDU.
///
/// Errors: the first fault, with what was readable.
/// Cost: one pass over the frame; allocates only in an error.
pub fn decode(frame: &[u8]) -> Result<Message<'_>, DecodeError<'_>> {
    if frame.len() > FRAME_BYTES_MAX {
        return Err(DecodeError { fault: DecodeFault::FrameTooLong, de: None, readable: None });
    }
    let Some(mti) = frame.get(..MTI_BYTES).and_then(Mti::parse) else {
        return Err(DecodeError { fault: DecodeFault::BadMessageType, de: None, readable: None });
    };
    let mut message = Message::empty(frame, mti);
    match read_elements(&mut message, frame) {
        Ok(()) => Ok(message),
        Err(LocatedFault { fault, de }) => {
            Err(DecodeError { fault, de, readable: Some(Box::new(message)) })
        }
    }
}

/// The frame with a space for each byte of its texts that is not printable: for messages that must not be lost for a
/// merchant's name. Texts are the elements of class `ans`, and the retrieval reference number.
///
/// None where the layout cannot be read, or where nothing changes.
pub fn with_plain_texts(frame: &[u8]) -> Option<Vec<u8>> {
    let (announced, bitmap_bytes) = read_bitmap(frame)?;
    let mut cursor = FrameCursor { frame, at: MTI_BYTES + bitmap_bytes };
    let mut plain = frame.to_vec();
    for de in announced.elements() {
        let Some(spec) = field(de) else { continue };
        let (offset, content) = take_content(&mut cursor, spec).ok()?;
        if spec.class == Class::Printable || de == RETRIEVAL_REFERENCE {
            let text = plain.get_mut(offset..offset + content.len())?;
            text.iter_mut()
                .filter(|byte| !matches!(byte, b' '..=b'~'))
                .for_each(|byte| *byte = b' ');
        }
    }
    (plain != frame).then_some(plain)
}

const RETRIEVAL_REFERENCE: u8 = 37;
const MTI_BYTES: usize = 4;

/// A fault and its element, while decoding goes on.
struct LocatedFault {
    fault: DecodeFault,
    de: Option<u8>,
}

/// The bitmaps of a frame, and how many bytes they have.
fn read_bitmap(frame: &[u8]) -> Option<(Bitmap, usize)> {
    Bitmap::read(frame.get(MTI_BYTES..)?, BitmapEncoding::Binary)
}

fn read_elements(message: &mut Message<'_>, frame: &[u8]) -> Result<(), LocatedFault> {
    let Some((announced, bitmap_bytes)) = read_bitmap(frame) else {
        return Err(LocatedFault { fault: DecodeFault::BadBitmap, de: None });
    };
    let mut cursor = FrameCursor { frame, at: MTI_BYTES + bitmap_bytes };
    let mut content_fault = None;
    for de in announced.elements() {
        let Some(spec) = field(de) else { continue };
        match read_element(&mut cursor, spec) {
            Ok(span) => message.note(de, span),
            Err(ElementFault::Content(fault)) => {
                content_fault.get_or_insert(LocatedFault { fault, de: Some(de) });
            }
            // The first fault is the likelier cause: a wrong length spoils the elements behind it.
            Err(ElementFault::Layout(fault)) => {
                return Err(content_fault.unwrap_or(LocatedFault { fault, de: Some(de) }));
            }
        }
    }
    match content_fault {
        Some(fault) => Err(fault),
        None if cursor.at < frame.len() => {
            Err(LocatedFault { fault: DecodeFault::TrailingBytes, de: None })
        }
        None => Ok(()),
    }
}

enum ElementFault {
    /// The element is unusable, the ones behind it are not.
    Content(DecodeFault),
    /// Nobody knows where the next element starts.
    Layout(DecodeFault),
}

fn read_element(cursor: &mut FrameCursor<'_>, spec: &FieldSpec) -> Result<Span, ElementFault> {
    let (offset, content) = take_content(cursor, spec)?;
    if !spec.class.accepts(content) {
        return Err(ElementFault::Content(DecodeFault::BadContent));
    }
    let too_long = |_| ElementFault::Layout(DecodeFault::FrameTooLong);
    let offset = u16::try_from(offset).map_err(too_long)?;
    let len = u16::try_from(content.len()).map_err(too_long)?;
    Ok(Span { offset, len })
}

/// Takes the content of an element, whatever it is, and says where it begins.
fn take_content<'a>(
    cursor: &mut FrameCursor<'a>,
    spec: &FieldSpec,
) -> Result<(usize, &'a [u8]), ElementFault> {
    let len = match spec.length {
        Length::Fixed => spec.len_max,
        Length::LlVar | Length::LllVar => {
            let digits = cursor.take(spec.length.prefix_digits())?;
            read_length(digits).ok_or(ElementFault::Layout(DecodeFault::BadLength))?
        }
    };
    let offset = cursor.at;
    let content = cursor.take(len)?;
    if len > spec.len_max {
        return Err(ElementFault::Content(DecodeFault::TooLong));
    }
    Ok((offset, content))
}

/// Two or three digits as a length.
fn read_length(digits: &[u8]) -> Option<u16> {
    digits.iter().try_fold(0_u16, |len, digit| {
        digit.is_ascii_digit().then(|| len * 10 + u16::from(digit - b'0'))
    })
}

struct FrameCursor<'a> {
    frame: &'a [u8],
    at: usize,
}

impl<'a> FrameCursor<'a> {
    fn take(&mut self, len: u16) -> Result<&'a [u8], ElementFault> {
        let end = self.at + usize::from(len);
        let taken =
            self.frame.get(self.at..end).ok_or(ElementFault::Layout(DecodeFault::Truncated))?;
        self.at = end;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MessageBuilder;

    /// 0100 with DE 2, 3, 4, 11, 41, of the default spelling.
    fn good() -> Vec<u8> {
        let mut frame = Vec::new();
        MessageBuilder::new(Mti::AUTHORIZATION_REQUEST)
            .set(2, b"4111111111111111")
            .set_number(3, 0)
            .set_number(4, 12_345)
            .set_number(11, 42)
            .set_text(41, "TERM1")
            .encode(&mut frame)
            .unwrap();
        frame
    }

    const PAN_LEN_AT: usize = 12;
    const PAN_AT: usize = 14;
    const AMOUNT_AT: usize = 36;

    fn faulty(frame: &[u8]) -> (DecodeFault, Option<u8>, Vec<u8>) {
        let error = decode(frame).unwrap_err();
        let readable = error
            .readable
            .map(|message| message.present().elements().collect())
            .unwrap_or_default();
        (error.fault, error.de, readable)
    }

    #[test]
    fn a_good_message_decodes_whole() {
        let frame = good();
        let message = decode(&frame).unwrap();
        assert_eq!(message.mti(), Mti::AUTHORIZATION_REQUEST);
        assert_eq!(message.get(2), Some(&b"4111111111111111"[..]));
        assert_eq!(message.get_number(11), Some(42));
    }

    #[test]
    fn bad_content_costs_its_own_element_only() {
        let mut frame = good();
        frame[AMOUNT_AT + 3] = b'x';
        assert_eq!(faulty(&frame), (DecodeFault::BadContent, Some(4), vec![2, 3, 11, 41]));
    }

    #[test]
    fn the_first_of_several_faults_is_named() {
        let mut frame = good();
        frame[AMOUNT_AT] = b'x';
        frame[PAN_AT] = b'x';
        assert_eq!(faulty(&frame), (DecodeFault::BadContent, Some(2), vec![3, 11, 41]));
        frame.truncate(frame.len() - 1);
        assert_eq!(faulty(&frame), (DecodeFault::BadContent, Some(2), vec![3, 11]));
    }

    #[test]
    fn texts_lose_what_is_not_printable_and_nothing_else_changes() {
        let frame = good();
        assert_eq!(with_plain_texts(&frame), None);
        let terminal = frame.len() - 8;
        for byte in [b'\0', b'\r', 0x1b, 0x7f, 0x85, 0xe9, 0xff] {
            let mut hostile = frame.clone();
            hostile[terminal + 1] = byte;
            assert_eq!(faulty(&hostile), (DecodeFault::BadContent, Some(41), vec![2, 3, 4, 11]));
            let plain = with_plain_texts(&hostile).unwrap();
            let message = decode(&plain).unwrap();
            assert_eq!(message.get(41), Some(&b"T RM1   "[..]));
            assert_eq!(plain[..terminal], frame[..terminal]);
        }
        let mut letters = frame.clone();
        letters[AMOUNT_AT] = b'\0';
        assert_eq!(with_plain_texts(&letters), None, "amounts are no texts");
        for end in 0..frame.len() {
            assert_eq!(with_plain_texts(&frame[..end]), None, "cut at {end}");
        }
    }

    #[test]
    fn a_value_too_long_is_skipped_where_it_is_all_there() {
        let mut frame = good();
        frame[PAN_LEN_AT..PAN_AT].copy_from_slice(b"20");
        let more = *b"1111";
        frame.splice(PAN_AT..PAN_AT, more);
        assert_eq!(faulty(&frame), (DecodeFault::TooLong, Some(2), vec![3, 4, 11, 41]));
    }

    #[test]
    fn a_broken_layout_keeps_what_was_before_it() {
        let mut letters = good();
        letters[PAN_LEN_AT] = b'1' + 64;
        assert_eq!(faulty(&letters), (DecodeFault::BadLength, Some(2), vec![]));

        let mut beyond = good();
        beyond[PAN_LEN_AT..PAN_AT].copy_from_slice(b"99");
        assert_eq!(faulty(&beyond), (DecodeFault::Truncated, Some(2), vec![]));

        let mut cut = good();
        cut.truncate(AMOUNT_AT + 5);
        assert_eq!(faulty(&cut), (DecodeFault::Truncated, Some(4), vec![2, 3]));

        let mut trailing = good();
        trailing.push(b' ');
        assert_eq!(faulty(&trailing), (DecodeFault::TrailingBytes, None, vec![2, 3, 4, 11, 41]));
    }

    #[test]
    fn without_a_type_nothing_is_readable_and_without_a_bitmap_only_the_type() {
        for frame in [&b""[..], b"01", b"01x0\0\0\0\0\0\0\0\0"] {
            let error = decode(frame).unwrap_err();
            assert_eq!((error.fault, error.mti()), (DecodeFault::BadMessageType, None));
        }
        for frame in [&b"0100"[..], b"0100\0\0\0\0\0\0\0", b"0100\x80\0\0\0\0\0\0\0\0"] {
            let error = decode(frame).unwrap_err();
            assert_eq!(error.fault, DecodeFault::BadBitmap);
            assert_eq!(error.mti(), Some(Mti::AUTHORIZATION_REQUEST));
        }
        let error = decode(&[b'0'; FRAME_BYTES_MAX + 1]).unwrap_err();
        assert_eq!(error.fault, DecodeFault::FrameTooLong);
    }

    #[test]
    fn every_truncation_of_a_good_message_is_an_error() {
        let frame = good();
        for end in 0..frame.len() {
            assert!(decode(&frame[..end]).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn a_message_without_elements_is_a_message() {
        let message = decode(b"0800\0\0\0\0\0\0\0\0").unwrap();
        assert_eq!(message.fields().count(), 0);
    }

    #[test]
    fn errors_say_where_and_never_what() {
        let mut frame = good();
        frame[PAN_AT] = b'x';
        let error = decode(&frame).unwrap_err();
        assert_eq!(
            error.to_string(),
            "data element 2: value has characters that do not belong there"
        );
        assert!(!format!("{error:?}").contains("111111"));
    }
}
