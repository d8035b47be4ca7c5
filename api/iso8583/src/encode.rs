//! Writing a message, whoever holds its content: `MessageBuilder` owns it, `Answer` borrows it.
//!
//! INVARIANT: what is written here decodes; on an error the output is as it was before.

use std::fmt;

use crate::bitmap::{Bitmap, read_hex, write_hex};
use crate::dialect::{BitmapEncoding, Dialect, FRAME_BYTES_MAX};
use crate::fields::{Class, FieldSpec, field};
use crate::mti::Mti;
use crate::number::write_zero_padded;

/// Why a message cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EncodeError {
    /// There is no such data element.
    UnknownElement(u8),
    /// The value is longer than the element, or not as long as a fixed one.
    WrongLength(u8),
    /// The value has characters that the element may not have.
    BadContent(u8),
    /// An answer holds no more elements of its own.
    TooManyElements(u8),
    /// The message is longer than [`FRAME_BYTES_MAX`].
    FrameTooLong,
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownElement(de) => write!(f, "there is no data element {de}"),
            Self::WrongLength(de) => write!(f, "data element {de}: value has the wrong length"),
            Self::BadContent(de) => {
                write!(f, "data element {de}: value has characters that do not belong there")
            }
            Self::TooManyElements(de) => {
                write!(f, "data element {de}: the answer has no room for one more")
            }
            Self::FrameTooLong => f.write_str("message is too long"),
        }
    }
}

impl std::error::Error for EncodeError {}

/// A content to write, and how its bytes are meant.
#[derive(Clone, Copy)]
pub(crate) struct Value<'a> {
    pub(crate) content: &'a [u8],
    /// Whether this is hex text for the bytes of a binary element, from a message that has them so.
    pub(crate) is_hex: bool,
}

impl<'a> Value<'a> {
    /// Text as it is, and binary elements as bytes.
    pub(crate) const fn plain(content: &'a [u8]) -> Self {
        Self { content, is_hex: false }
    }
}

/// Appends type, bitmaps and the elements of the set, each with the value that `value_of` gives for it.
pub(crate) fn write_message<'v>(
    out: &mut Vec<u8>,
    dialect: &Dialect,
    head: (Mti, Bitmap),
    value_of: impl Fn(u8) -> Option<Value<'v>>,
) -> Result<(), EncodeError> {
    let start = out.len();
    let (mti, present) = head;
    out.extend_from_slice(&mti.bytes());
    present.write(out, dialect.bitmap);
    let mut written = Ok(());
    for de in present.elements() {
        // INVARIANT: the set has only elements with a value; one without would be a hole in the layout.
        let value = value_of(de).unwrap_or(Value::plain(b""));
        written = field(de)
            .ok_or(EncodeError::UnknownElement(de))
            .and_then(|spec| write_element(out, spec, value, dialect.bitmap));
        if written.is_err() {
            break;
        }
    }
    if written.is_ok() && out.len() - start > FRAME_BYTES_MAX {
        written = Err(EncodeError::FrameTooLong);
    }
    if written.is_err() {
        out.truncate(start);
    }
    written
}

/// Appends one element, length prefix and content. On an error some of it may have been appended.
pub(crate) fn write_element(
    out: &mut Vec<u8>,
    spec: &FieldSpec,
    value: Value<'_>,
    encoding: BitmapEncoding,
) -> Result<(), EncodeError> {
    let prefix_at = out.len();
    let prefix_digits = usize::from(spec.length.prefix_digits());
    out.resize(prefix_at + prefix_digits, b'0');
    let content_at = out.len();
    if !write_content(out, spec, value, encoding) {
        return Err(EncodeError::BadContent(spec.number));
    }
    let len = out.len() - content_at;
    if !spec.fits(len, encoding) {
        return Err(EncodeError::WrongLength(spec.number));
    }
    if !spec.class.accepts(&out[content_at..], encoding) {
        return Err(EncodeError::BadContent(spec.number));
    }
    let prefix = &mut out[prefix_at..content_at];
    // Writing into no digits at all is right for a fixed element only.
    let wrote = prefix.is_empty() || u64::try_from(len).is_ok_and(|n| write_zero_padded(n, prefix));
    if wrote { Ok(()) } else { Err(EncodeError::WrongLength(spec.number)) }
}

/// Appends the content in the spelling of the dialect; false when hex text is none.
fn write_content(
    out: &mut Vec<u8>,
    spec: &FieldSpec,
    value: Value<'_>,
    encoding: BitmapEncoding,
) -> bool {
    match (spec.class, encoding, value.is_hex) {
        (Class::Binary, BitmapEncoding::HexText, false) => write_hex(value.content, out),
        (Class::Binary, BitmapEncoding::Binary, true) => return read_hex(value.content, out),
        _ => out.extend_from_slice(value.content),
    }
    true
}
