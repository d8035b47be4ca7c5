//! A journal record: the outcome of one command.
//!
//! | offset | bytes | content |
//! |---|---|---|
//! | 0 | 4 | length of what follows, little endian |
//! | 4 | 1 | format version |
//! | 5 | 1 | kind: 1 = outcome, 2 = authorization |
//!
//! An outcome goes on with `Record` in bincode's legacy encoding; an authorization, which is what
//! nearly every record is, with the packed row of its transaction:
//!
//! | offset | bytes | content |
//! |---|---|---|
//! | 6 | 8 | sequence number |
//! | 14 | 8 | when it was accepted, microseconds |
//! | 22 | 1 | which effects stand beside the transaction: 1 posting, 2 usage, 4 balances |
//! | 23 | 4 | length of the row |
//! | 27 | n | the row, layout in `packed` |
//! | | 0 or 32 | the card's usage |
//! | | 0 or 40 | the account's balances |
//!
//! INVARIANT: the kind is only a way to write: a record reads back to the very effects it was made
//! of. A record holds effects with their results, never only the request, so a replay decides
//! nothing.

use serde::{Deserialize, Serialize};

use super::authorization_record::Authorization;
pub use super::authorization_record::AuthorizationView;
use super::effect::Effect;
use crate::codec::{self, CodecError};
use crate::domain::ids::{RecordSeq, Timestamp};
use crate::limits;

/// The version of the layout above and of every type in it.
pub const RECORD_FORMAT: u8 = 1;
const KIND_OUTCOME: u8 = 1;
const KIND_AUTHORIZATION: u8 = 2;
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
    if let Some(authorization) = Authorization::of(effects) {
        payload.extend_from_slice(&[0, 0, 0, 0, RECORD_FORMAT, KIND_AUTHORIZATION]);
        authorization.append(seq, at, payload);
    } else {
        payload.extend_from_slice(&[0, 0, 0, 0, RECORD_FORMAT, KIND_OUTCOME]);
        codec::encode_into(&BorrowedRecord { seq, at, effects }, payload)?;
    }
    let body_bytes = payload.len() - start - 4;
    if body_bytes > limits::RECORD_BYTES_MAX {
        return Err(CodecError::TooLong { bytes: body_bytes });
    }
    let length =
        u32::try_from(body_bytes).map_err(|_| CodecError::TooLong { bytes: body_bytes })?;
    payload[start..start + 4].copy_from_slice(&length.to_le_bytes());
    Ok(())
}

/// A record as it is read: decoded, or looked at in place.
#[derive(Clone, Debug)]
pub enum RecordView<'a> {
    /// Any outcome.
    Outcome(Record),
    /// A transaction that was made, with what it moved.
    Authorization(AuthorizationView<'a>),
}

impl RecordView<'_> {
    /// Its place in the journal.
    #[must_use]
    pub const fn seq(&self) -> RecordSeq {
        match self {
            Self::Outcome(record) => record.seq,
            Self::Authorization(view) => view.seq(),
        }
    }

    /// When the command was accepted.
    #[must_use]
    pub const fn at(&self) -> Timestamp {
        match self {
            Self::Outcome(record) => record.at,
            Self::Authorization(view) => view.at(),
        }
    }

    /// The record with its effects. Errors: a damaged row.
    pub fn into_record(self) -> Result<Record, CodecError> {
        match self {
            Self::Outcome(record) => Ok(record),
            Self::Authorization(view) => {
                let (seq, at) = (view.seq(), view.at());
                Ok(Record { seq, at, effects: view.to_effects()? })
            }
        }
    }
}

/// Reads the records of a batch's payload, one after the other.
pub fn records(payload: &[u8]) -> impl Iterator<Item = Result<Record, CodecError>> + '_ {
    record_views(payload).map(|view| view?.into_record())
}

/// Looks at the records of a batch's payload, one after the other.
#[must_use]
pub const fn record_views(payload: &[u8]) -> RecordViews<'_> {
    RecordViews { rest: payload }
}

/// See `record_views`.
#[derive(Clone, Debug)]
pub struct RecordViews<'a> {
    rest: &'a [u8],
}

impl<'a> RecordViews<'a> {
    /// The records that were not looked at yet, as they are stored.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for RecordViews<'a> {
    type Item = Result<RecordView<'a>, CodecError>;

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

fn take_record<'a>(rest: &mut &'a [u8]) -> Result<RecordView<'a>, CodecError> {
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
    let body = rest.get(HEADER_BYTES..4 + length).ok_or(CodecError::Cut)?;
    let view = match kind {
        KIND_OUTCOME => RecordView::Outcome(codec::decode(body)?),
        KIND_AUTHORIZATION => RecordView::Authorization(AuthorizationView::parse(body)?),
        _ => return Err(CodecError::UnknownKind { kind }),
    };
    *rest = &rest[4 + length..];
    Ok(view)
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
