//! Writing a message from any holder of its content: `MessageBuilder` owns it, `AnswerMessage` borrows it.
//!
//! INVARIANT: a message written here decodes; on an error the output is as it was before.

use std::fmt;

use crate::bitmap::{Bitmap, BitmapEncoding};
use crate::dialect::FRAME_BYTES_MAX;
use crate::fields::{FieldSpec, field};
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

/// Appends type, bitmaps and the elements of the set, each with the value that `value_of` gives for it.
pub(crate) fn write_message<'v>(
    out: &mut Vec<u8>,
    head: (Mti, Bitmap),
    value_of: impl Fn(u8) -> Option<&'v [u8]>,
) -> Result<(), EncodeError> {
    let start = out.len();
    let (mti, present) = head;
    out.extend_from_slice(&mti.bytes());
    present.write(out, BitmapEncoding::Binary);
    let mut written = Ok(());
    for de in present.elements() {
        // INVARIANT: the set has only elements with a value; one without would be a hole in the layout.
        let value = value_of(de).unwrap_or_default();
        written = field(de)
            .ok_or(EncodeError::UnknownElement(de))
            .and_then(|spec| write_element(out, spec, value));
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
    content: &[u8],
) -> Result<(), EncodeError> {
    let prefix_at = out.len();
    let prefix_digits = usize::from(spec.length.prefix_digits());
    out.resize(prefix_at + prefix_digits, b'0');
    let content_at = out.len();
    out.extend_from_slice(content);
    check_content(spec, content)?;
    match put_len(out, prefix_at, content_at) {
        true => Ok(()),
        false => Err(EncodeError::WrongLength(spec.number)),
    }
}

/// Whether an element may have this content.
pub(crate) fn check_content(spec: &FieldSpec, content: &[u8]) -> Result<(), EncodeError> {
    if !spec.fits(content.len()) {
        return Err(EncodeError::WrongLength(spec.number));
    }
    if !spec.class.accepts(content) {
        return Err(EncodeError::BadContent(spec.number));
    }
    Ok(())
}

/// Writes into its place before the content how long that is; false where it needs more digits.
pub(crate) fn put_len(out: &mut [u8], prefix_at: usize, content_at: usize) -> bool {
    let Ok(len) = u64::try_from(out.len() - content_at) else { return false };
    let prefix = &mut out[prefix_at..content_at];
    // Writing into no digits at all is right for a fixed element only.
    prefix.is_empty() || write_zero_padded(len, prefix)
}
