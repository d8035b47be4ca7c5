//! The form of stored values: a version byte, a sum and the payloads of effects as they are; packed
//! values with a sum alone, since they carry a version of their own.
//!
//! | row, at | bytes | content | | packed value, at | bytes | content |
//! |---|---|---|---|---|---|---|
//! | 0 | 1 | format version, 1 | | 0 | 4 | CRC32C over what follows |
//! | 1 | 4 | CRC32C over what follows | | 4 | | the value |
//! | 5 | | the value in bincode | | | | |

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::StoreError;
use crate::codec::{self, CodecError};

/// The version of every row type; a row of another one is refused, never guessed at.
const ROW_FORMAT: u8 = 1;
const SUM_BYTES: usize = 4;

/// A row's bytes.
/// Errors: `Row` if the value is longer than a record may be.
pub(super) fn encode<T: Serialize>(table: &'static str, row: &T) -> Result<Vec<u8>, StoreError> {
    let mut bytes = vec![ROW_FORMAT, 0, 0, 0, 0];
    codec::encode_into(row, &mut bytes).map_err(|source| StoreError::Row { table, source })?;
    write_sum(&mut bytes[1..]);
    Ok(bytes)
}

/// The row in these bytes.
/// Errors: `Row` if they are of another version or damaged.
pub(super) fn decode<T: DeserializeOwned>(
    table: &'static str,
    bytes: &[u8],
) -> Result<T, StoreError> {
    let outcome = match bytes.split_first() {
        None => Err(CodecError::Cut),
        Some((&ROW_FORMAT, body)) => checked(body).and_then(codec::decode),
        Some((&version, _)) => Err(CodecError::UnknownVersion { version }),
    };
    outcome.map_err(|source| StoreError::Row { table, source })
}

/// The bytes of a packed value, which `append` writes.
pub(super) fn pack(append: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = vec![0; SUM_BYTES];
    append(&mut bytes);
    write_sum(&mut bytes);
    bytes
}

/// The packed value in these bytes, as `parse` reads it.
/// Errors: `Row` if they are damaged.
pub(super) fn unpack<'a, T>(
    table: &'static str,
    bytes: &'a [u8],
    parse: impl FnOnce(&'a [u8]) -> Result<T, CodecError>,
) -> Result<T, StoreError> {
    checked(bytes).and_then(parse).map_err(|source| StoreError::Row { table, source })
}

/// Puts the sum of what stands behind it into the first bytes.
fn write_sum(bytes: &mut [u8]) {
    let sum = crc32c::crc32c(&bytes[SUM_BYTES..]);
    bytes[..SUM_BYTES].copy_from_slice(&sum.to_le_bytes());
}

/// The bytes behind a sum, once it is checked.
fn checked(bytes: &[u8]) -> Result<&[u8], CodecError> {
    let (sum, body) = bytes.split_at_checked(SUM_BYTES).ok_or(CodecError::Cut)?;
    if *sum == crc32c::crc32c(body).to_le_bytes() {
        Ok(body)
    } else {
        Err(CodecError::Malformed { what: "its sum is wrong".to_owned() })
    }
}
