//! The facts of a decision, packed: a part of a transaction's row.
//!
//! | bytes | content |
//! |---|---|
//! | 1 | card state (2 bits), cause of a suspension (2), interval (3), single use (1) |
//! | 1 | credentials shown and on the card (6 bits), wrong ones before (1), velocity (1) |
//! | 1 | marks of the optional fields that follow |
//! | 1 | wrong PINs in a row |
//! | 1.. each | budget, spent, spent on the day, then the `KnownAmounts` |
//! | 1.. each | period, day, days since the period began, days to the card's expiry |
//! | 0 or 1.. each | transaction limit, daily limit, if there are any |
//! | 0 or 8 each | start and end of the window, if there are any |
//! | 0 or 1 + 2 each | scope: number of values, the values |
//! | 0 or 8 + 1 | wrong credentials: time of the first, number |
//! | 0 or 2.. + 8 twice | attempts in minute and hour: limit, count, time from which there is room
//! |
//!
//! Amounts, days and counts are short integers; a common purchase takes about thirty bytes.

use super::cursor::{Cursor, malformed, push_short_i64, push_short_u64};
use super::images::numbered;
use crate::codec::CodecError;
use crate::decision::{AttemptWindow, DecisionFacts, KnownAmounts, VelocityFacts};
use crate::domain::allowance::{AllowanceTerms, CardUsage, Scope};
use crate::domain::business_date::{BusinessDate, Interval};
use crate::domain::card::{CardState, SuspensionReason};
use crate::domain::credential::{CredentialFailures, CredentialPresence};
use crate::domain::ids::Timestamp;
use crate::domain::money::Minor;

const FAILURES: u8 = 1 << 6;
const VELOCITY: u8 = 1 << 7;

const TRANSACTION_LIMIT: u8 = 1;
const DAILY_LIMIT: u8 = 1 << 1;
const STARTS: u8 = 1 << 2;
const ENDS: u8 = 1 << 3;
const SCOPE: u8 = 1 << 4;
const KNOWN: u8 = (1 << 5) - 1;

pub(super) fn append_facts(bytes: &mut Vec<u8>, facts: &DecisionFacts) {
    let DecisionFacts { terms, usage, .. } = facts;
    let present = present_terms(terms);
    bytes.extend_from_slice(&[
        usage.state as u8
            | (usage.suspension as u8) << 2
            | (terms.interval as u8) << 4
            | u8::from(terms.single_use) << 7,
        facts.credentials.bits()
            | (FAILURES * u8::from(facts.failures.is_some()))
            | (VELOCITY * u8::from(facts.velocity.is_some())),
        present,
        usage.pin_failures,
    ]);
    let amounts = [terms.amount, usage.spent, usage.day_spent];
    amounts.into_iter().for_each(|amount| push_short_i64(bytes, amount.0));
    facts.known.values().into_iter().for_each(|amount| push_short_i64(bytes, amount.0));
    push_short_u64(bytes, u64::from(usage.period));
    push_short_i64(bytes, i64::from(usage.day.0));
    for date in [usage.period_started_on, facts.expires_on] {
        push_short_i64(bytes, i64::from(date.0) - i64::from(usage.day.0));
    }
    append_terms(bytes, terms, present);
    if let Some(CredentialFailures { since, count }) = facts.failures {
        bytes.extend_from_slice(&since.0.to_le_bytes());
        bytes.push(count);
    }
    for window in facts.velocity.iter().flat_map(|velocity| [velocity.minute, velocity.hour]) {
        push_short_u64(bytes, u64::from(window.limit));
        push_short_u64(bytes, u64::from(window.count));
        bytes.extend_from_slice(&window.room_at.0.to_le_bytes());
    }
}

fn present_terms(terms: &AllowanceTerms) -> u8 {
    let present = [
        (TRANSACTION_LIMIT, terms.transaction_limit != Minor::UNLIMITED),
        (DAILY_LIMIT, terms.daily_limit != Minor::UNLIMITED),
        (STARTS, terms.starts_at != Timestamp::MIN),
        (ENDS, terms.ends_at != Timestamp::MAX),
        (SCOPE, !terms.scope.codes().is_empty()),
    ];
    present.iter().fold(0, |bits, (bit, is)| bits | (bit * u8::from(*is)))
}

fn append_terms(bytes: &mut Vec<u8>, terms: &AllowanceTerms, present: u8) {
    let limits = [(TRANSACTION_LIMIT, terms.transaction_limit), (DAILY_LIMIT, terms.daily_limit)];
    for (_, limit) in limits.into_iter().filter(|(bit, _)| present & bit != 0) {
        push_short_i64(bytes, limit.0);
    }
    let bounds = [(STARTS, terms.starts_at), (ENDS, terms.ends_at)];
    for (_, bound) in bounds.into_iter().filter(|(bit, _)| present & bit != 0) {
        bytes.extend_from_slice(&bound.0.to_le_bytes());
    }
    let codes = terms.scope.codes();
    if let (true, Ok(count)) = (present & SCOPE != 0, u8::try_from(codes.len())) {
        bytes.push(count);
        codes.iter().for_each(|code| bytes.extend_from_slice(&code.to_le_bytes()));
    }
}

impl From<DecisionFacts> for Vec<u8> {
    fn from(facts: DecisionFacts) -> Self {
        let mut bytes = Self::new();
        append_facts(&mut bytes, &facts);
        bytes
    }
}

impl TryFrom<Vec<u8>> for DecisionFacts {
    type Error = CodecError;

    fn try_from(bytes: Vec<u8>) -> Result<Self, CodecError> {
        let mut cursor = Cursor(&bytes);
        let facts = take(&mut cursor)?;
        cursor.end()?;
        Ok(facts)
    }
}

/// Reads the facts of a decision.
/// Errors: bytes that `append_facts` did not write.
pub(super) fn take_facts(bytes: &mut &[u8]) -> Result<DecisionFacts, CodecError> {
    let mut cursor = Cursor(bytes);
    let facts = take(&mut cursor);
    *bytes = cursor.0;
    facts
}

fn take(cursor: &mut Cursor<'_>) -> Result<DecisionFacts, CodecError> {
    let [card, credentials, present, pin_failures] = cursor.array()?;
    if present & !KNOWN != 0 {
        return Err(malformed("unknown facts of a decision"));
    }
    let mut amounts = [Minor::ZERO; 3];
    let mut known = KnownAmounts::default();
    for amount in amounts.iter_mut().chain(known.each_mut()) {
        *amount = Minor(cursor.short_i64()?);
    }
    let [amount, spent, day_spent] = amounts;
    let period = cursor.short_u32()?;
    let day = BusinessDate(cursor.short_i32()?);
    let period_started_on = take_date(cursor, day)?;
    let expires_on = take_date(cursor, day)?;
    let mut terms = AllowanceTerms::budget(amount);
    terms.interval = numbered(&Interval::ALL, card >> 4 & 0b111)?;
    terms.single_use = card >> 7 != 0;
    take_terms(cursor, present, &mut terms)?;
    let usage = CardUsage {
        spent,
        day_spent,
        period,
        period_started_on,
        day,
        state: numbered(&CardState::ALL, card & 0b11)?,
        suspension: numbered(&SuspensionReason::ALL, card >> 2 & 0b11)?,
        pin_failures,
    };
    let credentials_present = CredentialPresence::from_bits(credentials);
    Ok(DecisionFacts {
        terms,
        usage,
        known,
        expires_on,
        credentials: credentials_present,
        failures: take_if(credentials & FAILURES != 0, cursor, take_failures)?,
        velocity: take_if(credentials & VELOCITY != 0, cursor, take_velocity)?,
    })
}

fn take_if<T>(
    is_present: bool,
    cursor: &mut Cursor<'_>,
    take: impl FnOnce(&mut Cursor<'_>) -> Result<T, CodecError>,
) -> Result<Option<T>, CodecError> {
    if is_present { take(cursor).map(Some) } else { Ok(None) }
}

fn take_date(cursor: &mut Cursor<'_>, day: BusinessDate) -> Result<BusinessDate, CodecError> {
    let date = cursor.short_i64()?.checked_add(i64::from(day.0));
    let date = date.and_then(|date| i32::try_from(date).ok());
    date.map(BusinessDate).ok_or_else(|| malformed("a date is beyond 32 bits"))
}

fn take_terms(
    cursor: &mut Cursor<'_>,
    present: u8,
    terms: &mut AllowanceTerms,
) -> Result<(), CodecError> {
    if present & TRANSACTION_LIMIT != 0 {
        terms.transaction_limit = Minor(cursor.short_i64()?);
    }
    if present & DAILY_LIMIT != 0 {
        terms.daily_limit = Minor(cursor.short_i64()?);
    }
    if present & STARTS != 0 {
        terms.starts_at = Timestamp(cursor.i64()?);
    }
    if present & ENDS != 0 {
        terms.ends_at = Timestamp(cursor.i64()?);
    }
    if present & SCOPE != 0 {
        let mut codes = [0; Scope::LEN_MAX];
        let count = usize::from(cursor.u8()?);
        let codes = codes.get_mut(..count).ok_or_else(|| malformed("a scope is too long"))?;
        for code in codes.iter_mut() {
            *code = cursor.u16()?;
        }
        terms.scope = Scope::new(codes).ok_or_else(|| malformed("a scope is too long"))?;
    }
    Ok(())
}

fn take_failures(cursor: &mut Cursor<'_>) -> Result<CredentialFailures, CodecError> {
    Ok(CredentialFailures { since: Timestamp(cursor.i64()?), count: cursor.u8()? })
}

fn take_velocity(cursor: &mut Cursor<'_>) -> Result<VelocityFacts, CodecError> {
    Ok(VelocityFacts { minute: take_window(cursor)?, hour: take_window(cursor)? })
}

fn take_window(cursor: &mut Cursor<'_>) -> Result<AttemptWindow, CodecError> {
    let mut number = || {
        let number = u16::try_from(cursor.short_u64()?);
        number.map_err(|_| malformed("a number of attempts is beyond 16 bits"))
    };
    let (limit, count) = (number()?, number()?);
    Ok(AttemptWindow { limit, count, room_at: Timestamp(cursor.i64()?) })
}
