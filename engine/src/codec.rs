//! The only place that turns values into stored bytes and back: bincode's legacy encoding.
//!
//! The encoding is little endian with fixed-width integers and 64-bit lengths. Reading is limited,
//! so that a damaged length can never ask for more memory than a record may have.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::limits;

/// The cause of a failed write or read of bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// A value is longer than a record may be.
    #[error("value of {bytes} bytes is too long")]
    TooLong {
        /// The length.
        bytes: usize,
    },
    /// The bytes end before the value does.
    #[error("value is cut short")]
    Cut,
    /// The layout is of a version this build does not know.
    #[error("format version {version} is not known to this build")]
    UnknownVersion {
        /// The version.
        version: u8,
    },
    /// The kind of content is not known.
    #[error("content kind {kind} is not known")]
    UnknownKind {
        /// The kind.
        kind: u8,
    },
    /// The bytes are not an encoded value.
    #[error("malformed value: {what}")]
    Malformed {
        /// The decoder's finding.
        what: String,
    },
}

const fn configuration() -> impl bincode::config::Config {
    bincode::config::legacy().with_limit::<{ limits::RECORD_BYTES_MAX }>()
}

/// Appends a value's bytes.
pub fn encode_into<T: Serialize>(value: &T, bytes: &mut Vec<u8>) -> Result<(), CodecError> {
    let start = bytes.len();
    bincode::serde::encode_into_std_write(value, bytes, configuration())
        .map_err(|error| CodecError::Malformed { what: error.to_string() })?;
    let written = bytes.len() - start;
    if written > limits::RECORD_BYTES_MAX {
        return Err(CodecError::TooLong { bytes: written });
    }
    Ok(())
}

/// A value's bytes.
pub fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, CodecError> {
    let mut bytes = Vec::new();
    encode_into(value, &mut bytes)?;
    Ok(bytes)
}

/// Reads a value that fills `bytes` entirely.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    let mut rest = bytes;
    let value = take(&mut rest)?;
    if rest.is_empty() {
        Ok(value)
    } else {
        Err(CodecError::Malformed { what: format!("{} bytes are left over", rest.len()) })
    }
}

/// Reads a value from the front of `rest`.
pub fn take<T: DeserializeOwned>(rest: &mut &[u8]) -> Result<T, CodecError> {
    let (value, read) = bincode::serde::decode_from_slice(rest, configuration())
        .map_err(|error| CodecError::Malformed { what: error.to_string() })?;
    *rest = &rest[read..];
    Ok(value)
}
