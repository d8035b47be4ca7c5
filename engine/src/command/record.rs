//! A journal record: the outcome of one command, a list of effects.
//!
//! | offset | bytes | content |
//! |---|---|---|
//! | 0 | 4 | length of the rest, little endian |
//! | 4 | 1 | format version |
//! | 5 | 8 | sequence number |
//! | 13 | 8 | time of acceptance, microseconds |
//! | 21 | | effects, one after the other |
//!
//! An effect begins with a byte. 1: a new transaction follows, packed (`new_transaction`), which is
//! all that nearly every record has. 0: any other effect follows in bincode's legacy encoding.
//!
//! INVARIANT: a record holds effects with their results, never only the request, so a replay decides
//! nothing.

use super::effect::Effect;
use super::new_transaction::NewTransactionView;
use crate::codec::{self, CodecError};
use crate::domain::ids::{RecordSeq, Timestamp};
use crate::limits;

/// The version of the layout above and of every type in it.
pub const RECORD_FORMAT: u8 = 1;

const EFFECT: u8 = 0;
const TRANSACTION: u8 = 1;
const HEADER_BYTES: usize = 21;
/// The bytes of the length itself, which it does not count.
const LENGTH_BYTES: usize = 4;

/// The outcome of one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its place in the journal.
    pub seq: RecordSeq,
    /// The time of the command's acceptance.
    pub at: Timestamp,
    /// The changes, in order.
    pub effects: Vec<Effect>,
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
    let mut header = [0; HEADER_BYTES];
    header[4] = RECORD_FORMAT;
    header[5..13].copy_from_slice(&seq.0.to_le_bytes());
    header[13..].copy_from_slice(&at.0.to_le_bytes());
    payload.extend_from_slice(&header);
    for effect in effects {
        append_effect(payload, effect)?;
    }
    let bytes = payload.len() - start - LENGTH_BYTES;
    let length = u32::try_from(bytes).ok().filter(|_| bytes <= limits::RECORD_BYTES_MAX);
    let length = length.ok_or(CodecError::TooLong { bytes })?;
    payload[start..start + LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
    Ok(())
}

fn append_effect(payload: &mut Vec<u8>, effect: &Effect) -> Result<(), CodecError> {
    if let Effect::Transaction(made) = effect {
        payload.push(TRANSACTION);
        made.append(payload);
        Ok(())
    } else {
        payload.push(EFFECT);
        codec::encode_into(effect, payload)
    }
}

/// A view of a record in place.
#[derive(Clone, Copy, Debug)]
pub struct RecordView<'a> {
    /// Its place in the journal.
    pub seq: RecordSeq,
    /// The time of the command's acceptance.
    pub at: Timestamp,
    effects: &'a [u8],
}

impl<'a> RecordView<'a> {
    /// The changes, in order; new transactions as `read` gives them.
    /// Errors: bytes that `append_record` did not write.
    pub fn effects<T>(
        &self,
        read: impl Fn(NewTransactionView<'a>) -> Result<T, CodecError>,
    ) -> impl Iterator<Item = Result<Effect<T>, CodecError>> {
        let mut rest = self.effects;
        std::iter::from_fn(move || (!rest.is_empty()).then(|| take_effect(&mut rest, &read)))
    }

    /// The record with its effects. Errors: bytes that `append_record` did not write.
    pub fn to_record(&self) -> Result<Record, CodecError> {
        let effects = self.effects(|made| made.to_transaction().map(Box::new));
        Ok(Record { seq: self.seq, at: self.at, effects: effects.collect::<Result<_, _>>()? })
    }
}

/// Takes an effect from the front of `rest`, or empties `rest` if the bytes are no effect.
fn take_effect<'a, T>(
    rest: &mut &'a [u8],
    read: impl Fn(NewTransactionView<'a>) -> Result<T, CodecError>,
) -> Result<Effect<T>, CodecError> {
    let Some((kind, mut behind)) = rest.split_first() else { return Err(CodecError::Cut) };
    *rest = &[];
    let effect = match *kind {
        TRANSACTION => Effect::Transaction(read(NewTransactionView::take(&mut behind)?)?),
        EFFECT => codec::take(&mut behind)?,
        kind => return Err(CodecError::UnknownKind { kind }),
    };
    *rest = behind;
    Ok(effect)
}

/// Reads the records of a batch's payload, one after the other.
pub fn records(payload: &[u8]) -> impl Iterator<Item = Result<Record, CodecError>> + '_ {
    record_views(payload).map(|view| view?.to_record())
}

/// Views the records of a batch's payload, one after the other.
pub const fn record_views(payload: &[u8]) -> RecordViews<'_> {
    RecordViews { rest: payload }
}

/// The iterator of `record_views`.
#[derive(Clone, Debug)]
pub struct RecordViews<'a> {
    /// The remaining records, in stored form.
    pub rest: &'a [u8],
}

impl<'a> RecordViews<'a> {}

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
    let Some(header) = rest.first_chunk::<HEADER_BYTES>() else { return Err(CodecError::Cut) };
    let [a, b, c, d, version, numbers @ ..] = *header;
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    if length > limits::RECORD_BYTES_MAX {
        return Err(CodecError::TooLong { bytes: length });
    }
    if version != RECORD_FORMAT {
        return Err(CodecError::UnknownVersion { version });
    }
    let effects = rest.get(HEADER_BYTES..LENGTH_BYTES + length).ok_or(CodecError::Cut)?;
    *rest = &rest[LENGTH_BYTES + length..];
    let number = |at: usize| {
        let mut number = [0; 8];
        number.copy_from_slice(&numbers[at..at + 8]);
        u64::from_le_bytes(number)
    };
    let (seq, at) = (RecordSeq(number(0)), Timestamp(number(8).cast_signed()));
    Ok(RecordView { seq, at, effects })
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
