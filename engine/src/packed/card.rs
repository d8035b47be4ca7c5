//! A card, packed: everything but its usage, which changes with every authorization.
//!
//! | at | bytes | content |
//! |---|---|---|
//! | 0 | 1 | format version, 1 |
//! | 1 | 1 | marks of its texts, see `profile` |
//! | 2 | 1 | 1 a member holds it, 2 it is for a single use |
//! | 3 | 4 x 4 | slots of card, company, account and holder |
//! | 19 | 4 | last date on which it is valid |
//! | 23 | 3 x 8 | PAN hash, PIN verifier, ZIP |
//! | 47 | 5 x 8 | amount, daily limit, transaction limit, first and last instant of the allowance |
//! | 87 | 1 + 1 | interval, length of the scope |
//! | 89 | 16 + 16 | ids of card and allowance |
//! | 121 | 8 | made at, microseconds |
//! | 129 | 4 | last four digits |
//! | 133 | 2 each | scope |
//! | | | sealed number: length, bytes |
//! | | | texts, see `profile` |

use super::cursor::{Cursor, malformed, push_short_u64};
use super::profile::{PackedProfile, ProfileTexts, append_texts, marks_of};
use crate::codec::CodecError;
use crate::command::effect::IssuedCard;
use crate::domain::allowance::{AllowanceTerms, CardUsage, Scope};
use crate::domain::business_date::{BusinessDate, Interval};
use crate::domain::card::{CardRecord, PanHash, SealedPan};
use crate::domain::credential::{PackedZip, PinVerifier};
use crate::domain::ids::{
    AccountSlot, AllowanceId, CardId, CardSlot, CompanySlot, MemberSlot, Timestamp,
};
use crate::domain::money::Minor;
use uuid::Uuid;

const FORMAT: u8 = 1;
const HOLDER: u8 = 1;
const SINGLE_USE: u8 = 1 << 1;
const KNOWN: u8 = HOLDER | SINGLE_USE;

/// Appends a card; its usage stays out.
pub fn append_card(bytes: &mut Vec<u8>, card: &IssuedCard) {
    let IssuedCard { profile, record, sealed_pan } = card;
    let terms = &record.terms;
    bytes.push(FORMAT);
    let holder_flag = HOLDER * u8::from(profile.assigned_to.is_some());
    let flags = holder_flag | (SINGLE_USE * u8::from(terms.single_use));
    bytes.extend_from_slice(&[marks_of(profile), flags]);
    let holder = profile.assigned_to.map_or(0, |slot| slot.0);
    for slot in [profile.slot.0, profile.company.0, record.account.0, holder] {
        bytes.extend_from_slice(&slot.to_le_bytes());
    }
    bytes.extend_from_slice(&record.expires_on.0.to_le_bytes());
    for value in [record.pan_hash.0, record.pin.0, record.zip.0] {
        bytes.extend_from_slice(&value.to_le_bytes());
    }
    let limits = [terms.amount.0, terms.daily_limit.0, terms.transaction_limit.0];
    for value in limits.into_iter().chain([terms.starts_at.0, terms.ends_at.0]) {
        bytes.extend_from_slice(&value.to_le_bytes());
    }
    bytes.push(terms.interval as u8);
    let scope = terms.scope.codes();
    // A scope has at most ten codes.
    bytes.push(u8::try_from(scope.len()).unwrap_or(u8::MAX));
    bytes.extend_from_slice(profile.id.0.as_bytes());
    bytes.extend_from_slice(profile.allowance_id.0.as_bytes());
    bytes.extend_from_slice(&profile.created_at.0.to_le_bytes());
    bytes.extend_from_slice(&profile.last_four);
    scope.iter().for_each(|code| bytes.extend_from_slice(&code.to_le_bytes()));
    push_short_u64(bytes, sealed_pan.0.len() as u64);
    bytes.extend_from_slice(&sealed_pan.0);
    append_texts(bytes, profile);
}

/// A packed card, with its texts in place.
#[derive(Clone, Copy)]
pub struct PackedCard<'a> {
    /// The part that people read.
    pub profile: PackedProfile<'a>,
    /// The part that decisions read.
    pub record: CardRecord,
    /// Its number, sealed.
    pub sealed_pan: &'a [u8],
}

/// Reads a card from bytes that hold nothing else; its usage is left at its default.
/// Errors: bytes that `append_card` did not write.
pub fn parse_card(bytes: &[u8]) -> Result<IssuedCard, CodecError> {
    PackedCard::parse(bytes).map(|card| card.to_issued())
}

// The output leaves out the number, sealed or not.
crate::opaque!(PackedCard<'_>);

impl<'a> PackedCard<'a> {
    /// Reads a card from bytes that hold nothing else; its usage is left at its default.
    /// Cost: no memory of its own.
    /// Errors: bytes that `append_card` did not write.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, CodecError> {
        let mut cursor = Cursor(bytes);
        let version = cursor.u8()?;
        if version != FORMAT {
            return Err(CodecError::UnknownVersion { version });
        }
        let [marks, flags] = cursor.array()?;
        if flags & !KNOWN != 0 {
            return Err(malformed("unknown fields of a card"));
        }
        let [slot, company, account, holder] =
            [cursor.u32()?, cursor.u32()?, cursor.u32()?, cursor.u32()?];
        let expires_on = BusinessDate(cursor.i32()?);
        let pan_hash = PanHash(cursor.u64()?);
        let (pin, zip) = (PinVerifier(cursor.u64()?), PackedZip(cursor.u64()?));
        let (mut terms, scope_len) = take_terms(&mut cursor)?;
        terms.single_use = flags & SINGLE_USE != 0;
        let id = CardId(Uuid::from_bytes(cursor.array()?));
        let allowance_id = AllowanceId(Uuid::from_bytes(cursor.array()?));
        let created_at = Timestamp(cursor.i64()?);
        let last_four = cursor.array()?;
        terms.scope = take_scope(&mut cursor, scope_len)?;
        let sealed_len = cursor.count()?;
        let sealed_pan = cursor.slice(sealed_len)?;
        let profile = PackedProfile {
            slot: CardSlot(slot),
            id,
            allowance_id,
            company: CompanySlot(company),
            last_four,
            assigned_to: (flags & HOLDER != 0).then_some(MemberSlot(holder)),
            created_at,
            texts: ProfileTexts::parse(marks, cursor.0)?,
        };
        let usage = CardUsage::default();
        let account = AccountSlot(account);
        let record = CardRecord { pan_hash, pin, zip, account, expires_on, usage, terms };
        Ok(Self { profile, record, sealed_pan })
    }

    /// The card with texts of its own.
    pub fn to_issued(&self) -> IssuedCard {
        IssuedCard {
            profile: self.profile.to_profile(),
            record: self.record,
            sealed_pan: SealedPan(self.sealed_pan.to_vec()),
        }
    }
}

/// The terms less their scope, and the scope's length.
fn take_terms(cursor: &mut Cursor<'_>) -> Result<(AllowanceTerms, usize), CodecError> {
    let mut terms = AllowanceTerms::budget(Minor(cursor.i64()?));
    terms.daily_limit = Minor(cursor.i64()?);
    terms.transaction_limit = Minor(cursor.i64()?);
    terms.starts_at = Timestamp(cursor.i64()?);
    terms.ends_at = Timestamp(cursor.i64()?);
    let number = cursor.u8()?;
    let interval = Interval::ALL.get(usize::from(number));
    terms.interval = *interval.ok_or(CodecError::UnknownKind { kind: number })?;
    Ok((terms, usize::from(cursor.u8()?)))
}

fn take_scope(cursor: &mut Cursor<'_>, len: usize) -> Result<Scope, CodecError> {
    let mut codes = [0; Scope::LEN_MAX];
    let codes = codes.get_mut(..len).ok_or_else(|| malformed("a scope is too long"))?;
    for code in codes.iter_mut() {
        *code = cursor.u16()?;
    }
    Scope::new(codes).ok_or_else(|| malformed("a scope is too long"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_stand_at_the_place_of_their_number() {
        for (number, interval) in Interval::ALL.iter().enumerate() {
            assert_eq!(*interval as usize, number);
        }
    }
}
