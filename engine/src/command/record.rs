//! A journal record: the outcome of one command.
//!
//! | offset | bytes | content |
//! |---|---|---|
//! | 0 | 4 | length of what follows, little endian |
//! | 4 | 1 | format version |
//! | 5 | 1 | kind: 1 = outcome |
//! | 6 | n | `Record` in bincode's legacy encoding |
//!
//! A record holds effects with their results, never only the request, so a replay decides nothing.

use serde::{Deserialize, Serialize};

use super::effect::Effect;
use crate::codec::{self, CodecError};
use crate::domain::ids::{RecordSeq, Timestamp};
use crate::limits;

/// The version of the layout above and of every type in it.
pub const RECORD_FORMAT: u8 = 1;
const KIND_OUTCOME: u8 = 1;
const HEADER_BYTES: usize = 6;

/// The outcome of one command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Its place in the journal.
    pub seq: RecordSeq,
    /// When the command was accepted.
    pub at: Timestamp,
    /// What changed, in order.
    pub effects: Vec<Effect>,
}

/// The same outcome, borrowed for writing; encodes to the same bytes as `Record`.
#[derive(Serialize)]
struct BorrowedRecord<'a> {
    seq: RecordSeq,
    at: Timestamp,
    effects: &'a [Effect],
}

/// Appends a record to a batch's payload.
/// Errors: `CodecError::TooLong` beyond `limits::RECORD_BYTES_MAX`.
pub fn append_record(
    payload: &mut Vec<u8>,
    seq: RecordSeq,
    at: Timestamp,
    effects: &[Effect],
) -> Result<(), CodecError> {
    let start = payload.len();
    payload.extend_from_slice(&[0, 0, 0, 0, RECORD_FORMAT, KIND_OUTCOME]);
    codec::encode_into(&BorrowedRecord { seq, at, effects }, payload)?;
    let body_bytes = payload.len() - start - 4;
    let length =
        u32::try_from(body_bytes).map_err(|_| CodecError::TooLong { bytes: body_bytes })?;
    payload[start..start + 4].copy_from_slice(&length.to_le_bytes());
    Ok(())
}

/// Reads the records of a batch's payload, one after the other.
#[must_use]
pub const fn records(payload: &[u8]) -> Records<'_> {
    Records { rest: payload }
}

/// See `records`.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
}

impl Iterator for Records<'_> {
    type Item = Result<Record, CodecError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let outcome = take_record(&mut self.rest);
        if outcome.is_err() {
            self.rest = &[];
        }
        Some(outcome)
    }
}

fn take_record(rest: &mut &[u8]) -> Result<Record, CodecError> {
    let header: [u8; HEADER_BYTES] =
        rest.get(..HEADER_BYTES).and_then(|bytes| bytes.try_into().ok()).ok_or(CodecError::Cut)?;
    let [a, b, c, d, version, kind] = header;
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    if length > limits::RECORD_BYTES_MAX {
        return Err(CodecError::TooLong { bytes: length });
    }
    if version != RECORD_FORMAT {
        return Err(CodecError::UnknownVersion { version });
    }
    if kind != KIND_OUTCOME {
        return Err(CodecError::UnknownKind { kind });
    }
    let body = rest.get(HEADER_BYTES..4 + length).ok_or(CodecError::Cut)?;
    let record = codec::decode(body)?;
    *rest = &rest[4 + length..];
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_read_back_and_refuse_what_is_not_whole() {
        let effects = [Effect::NetworkKey([7; 32])];
        let mut payload = Vec::new();
        append_record(&mut payload, RecordSeq(1), Timestamp(10), &effects).unwrap();
        append_record(&mut payload, RecordSeq(2), Timestamp(20), &[]).unwrap();
        let read: Vec<_> = records(&payload).collect::<Result<_, _>>().unwrap();
        assert_eq!(
            read[0],
            Record { seq: RecordSeq(1), at: Timestamp(10), effects: effects.into() }
        );
        assert_eq!(read[1].seq, RecordSeq(2));
        for cut in 1..payload.len() {
            let outcome: Result<Vec<_>, _> = records(&payload[..cut]).collect();
            let whole_first = cut >= payload.len() - 4 - 26;
            assert!(outcome.is_err() || (whole_first && outcome.unwrap().len() == 1), "{cut}");
        }
        payload[4] = 9;
        assert_eq!(records(&payload).next(), Some(Err(CodecError::UnknownVersion { version: 9 })));
    }
}
