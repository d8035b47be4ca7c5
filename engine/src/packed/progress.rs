//! The progress of a transaction, packed: the last part of a row, and a row of its own after a
//! change.
//!
//! | bytes | content |
//! |---|---|
//! | 1 | state |
//! | 1 | marks of the optional fields that follow |
//! | 2 | flags |
//! | 0 or 8 | time at which the hold expires, if it does |
//! | 1.. | open parts: their count, then amount, period and day of each, as short integers |
//! | 0 or 1.. | cleared parts in the same form, if there are any |
//! | 0 or 2.. | posted and refunded as short integers, if one is not zero |
//! | 0 or 1.. | later messages, if there are any: their count, then of each its kind, the number of a presentment, the key where bit 7 of the kind is set, its amount, what is left of it, the parts in which it took that, and where bit 6 is set another currency (2), what was asked in it and what that came to, short integers |
//! | 0 or 8 | time of the first posting, if there was one |

use std::num::NonZeroU8;

use super::cursor::{Cursor, malformed, push_short_i64, push_short_u64};
use crate::codec::CodecError;
use crate::domain::business_date::BusinessDate;
use crate::domain::hold::{HoldPart, HoldParts};
use crate::domain::ids::Timestamp;
use crate::domain::later_message::{LaterMessage, LaterMessageKind, LaterMessages};
use crate::domain::money::{Conversion, CurrencyAmount, CurrencyCode, Minor};
use crate::domain::network_key::OriginalKey;
use crate::domain::transaction::{TransactionFlags, TransactionProgress, TransactionState};

const EXPIRES: u8 = 1;
const CLEARED: u8 = 1 << 1;
const SUMS: u8 = 1 << 2;
const LATER: u8 = 1 << 3;
const POSTED_AT: u8 = 1 << 4;
const FINAL: u8 = 1 << 5;
const KNOWN: u8 = EXPIRES | CLEARED | SUMS | LATER | POSTED_AT | FINAL;

/// Appends the progress of a transaction.
pub fn append_progress(bytes: &mut Vec<u8>, progress: &TransactionProgress) {
    let TransactionProgress { state, ref held, ref cleared, posted, refunded, .. } = *progress;
    let present = [
        (EXPIRES, progress.hold_expires_at != Timestamp::MAX),
        (CLEARED, !cleared.is_empty()),
        (SUMS, !posted.is_zero() || !refunded.is_zero()),
        (LATER, !progress.later.is_empty()),
        (POSTED_AT, progress.posted_at.is_some()),
        (FINAL, progress.is_final),
    ];
    let present = present.iter().fold(0, |bits, (bit, is)| bits | (bit * u8::from(*is)));
    bytes.extend_from_slice(&[state as u8, present]);
    bytes.extend_from_slice(&progress.flags.0.to_le_bytes());
    if present & EXPIRES != 0 {
        bytes.extend_from_slice(&progress.hold_expires_at.0.to_le_bytes());
    }
    append_parts(bytes, held);
    if present & CLEARED != 0 {
        append_parts(bytes, cleared);
    }
    if present & SUMS != 0 {
        push_short_i64(bytes, posted.0);
        push_short_i64(bytes, refunded.0);
    }
    if present & LATER != 0 {
        append_later(bytes, &progress.later);
    }
    if let Some(at) = progress.posted_at {
        bytes.extend_from_slice(&at.0.to_le_bytes());
    }
}

fn append_parts(bytes: &mut Vec<u8>, parts: &HoldParts) {
    push_short_u64(bytes, parts.parts().len() as u64);
    for part in parts.parts() {
        push_short_i64(bytes, part.amount.0);
        push_short_u64(bytes, u64::from(part.period));
        push_short_i64(bytes, i64::from(part.day.0));
    }
}

const INCREMENT: u8 = 0;
const COMPLETION: u8 = 1;
const PRESENTMENT: u8 = 2;
const CONVERTED: u8 = 1 << 6;
const NAMED: u8 = 1 << 7;

fn append_later(bytes: &mut Vec<u8>, later: &LaterMessages) {
    push_short_u64(bytes, later.as_slice().len() as u64);
    for LaterMessage { kind, key, amount, left, parts, conversion } in later.as_slice() {
        let (kind, number) = match *kind {
            LaterMessageKind::Increment => (INCREMENT, None),
            LaterMessageKind::Completion => (COMPLETION, None),
            LaterMessageKind::Presentment(number) => {
                (PRESENTMENT, Some(number.map_or(0, NonZeroU8::get)))
            }
        };
        let marks = [(NAMED, key.is_some()), (CONVERTED, conversion.is_some())];
        bytes.push(marks.iter().fold(kind, |head, (bit, is)| head | (bit * u8::from(*is))));
        bytes.extend(number);
        bytes.extend(key.iter().flat_map(|key| key.0.to_le_bytes()));
        push_short_i64(bytes, amount.0);
        push_short_i64(bytes, left.0);
        append_parts(bytes, parts);
        if let Some(Conversion { asked, billed }) = conversion {
            bytes.extend(asked.currency.0.to_le_bytes());
            push_short_i64(bytes, asked.amount.0);
            push_short_i64(bytes, billed.0);
        }
    }
}

fn take_later(cursor: &mut Cursor<'_>) -> Result<LaterMessage, CodecError> {
    let head = cursor.u8()?;
    let kind = match head & !(NAMED | CONVERTED) {
        INCREMENT => LaterMessageKind::Increment,
        COMPLETION => LaterMessageKind::Completion,
        PRESENTMENT => LaterMessageKind::Presentment(NonZeroU8::new(cursor.u8()?)),
        kind => return Err(CodecError::UnknownKind { kind }),
    };
    let key = if head & NAMED == 0 { None } else { Some(OriginalKey(cursor.u64()?)) };
    let (amount, left) = (Minor(cursor.short_i64()?), Minor(cursor.short_i64()?));
    let parts = take_parts(cursor)?;
    let conversion = match head & CONVERTED {
        0 => None,
        _ => Some(take_conversion(cursor)?),
    };
    Ok(LaterMessage { kind, key, amount, left, parts, conversion })
}

fn take_conversion(cursor: &mut Cursor<'_>) -> Result<Conversion, CodecError> {
    let currency = CurrencyCode(cursor.u16()?);
    let asked = CurrencyAmount { amount: Minor(cursor.short_i64()?), currency };
    if !asked.amount.is_positive() {
        return Err(malformed("a rate without an amount"));
    }
    Ok(Conversion { asked, billed: Minor(cursor.short_i64()?) })
}

/// The flags of a progress that begins with these bytes; none if they are too few.
pub(super) fn flags_of(bytes: &[u8]) -> TransactionFlags {
    let found = bytes.get(2..4).and_then(|flags| flags.try_into().ok());
    TransactionFlags(found.map_or(0, u16::from_le_bytes))
}

/// Reads the progress of a transaction from bytes that hold nothing else.
/// Errors: bytes that `append_progress` did not write.
pub fn parse_progress(bytes: &[u8]) -> Result<TransactionProgress, CodecError> {
    let mut cursor = Cursor(bytes);
    let state = state_of(cursor.u8()?)?;
    let present = cursor.u8()?;
    if present & !KNOWN != 0 {
        return Err(malformed("unknown fields of a progress"));
    }
    let mut progress = TransactionProgress::empty(state);
    progress.flags = TransactionFlags(cursor.u16()?);
    progress.is_final = present & FINAL != 0;
    if present & EXPIRES != 0 {
        progress.hold_expires_at = Timestamp(cursor.i64()?);
    }
    progress.held = take_parts(&mut cursor)?;
    if present & CLEARED != 0 {
        progress.cleared = take_parts(&mut cursor)?;
    }
    if present & SUMS != 0 {
        progress.posted = Minor(cursor.short_i64()?);
        progress.refunded = Minor(cursor.short_i64()?);
    }
    if present & LATER != 0 {
        let count = cursor.count()?;
        progress.later = (0..count).map(|_| take_later(&mut cursor)).collect::<Result<_, _>>()?;
    }
    if present & POSTED_AT != 0 {
        progress.posted_at = Some(Timestamp(cursor.i64()?));
    }
    cursor.end()?;
    Ok(progress)
}

fn take_parts(cursor: &mut Cursor<'_>) -> Result<HoldParts, CodecError> {
    let count = cursor.count()?;
    (0..count).map(|_| take_part(cursor)).collect()
}

fn take_part(cursor: &mut Cursor<'_>) -> Result<HoldPart, CodecError> {
    Ok(HoldPart {
        amount: Minor(cursor.short_i64()?),
        period: cursor.short_u32()?,
        day: BusinessDate(cursor.short_i32()?),
    })
}

/// The state in the first byte of a packed progress.
pub(super) fn state_of(number: u8) -> Result<TransactionState, CodecError> {
    let state = TransactionState::ALL.get(usize::from(number));
    state.copied().ok_or(CodecError::UnknownKind { kind: number })
}

/// The held amount in a packed progress. Errors: damaged bytes.
pub(super) fn held_of(bytes: &[u8]) -> Result<Minor, CodecError> {
    let mut cursor = Cursor(bytes);
    let (_, present, _) = (cursor.u8()?, cursor.u8()?, cursor.u16()?);
    if present & EXPIRES != 0 {
        cursor.i64()?;
    }
    let count = cursor.count()?;
    (0..count).map(|_| take_part(&mut cursor).map(|part| part.amount)).sum()
}

/// The time at which the hold of a packed progress expires; `Timestamp::MAX` if it does not.
pub(super) fn hold_end_of(bytes: &[u8]) -> Timestamp {
    let ends = bytes.get(1).is_some_and(|present| present & EXPIRES != 0);
    match bytes.get(4..12).map(TryInto::try_into) {
        Some(Ok(end)) if ends => Timestamp(i64::from_le_bytes(end)),
        _ => Timestamp::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_stand_at_the_place_of_their_number() {
        for (number, state) in TransactionState::ALL.iter().enumerate() {
            assert_eq!(*state as usize, number);
        }
    }
}
