//! A card, packed: everything but its usage, which changes with every authorization.
//!
//! | at | bytes | content |
//! |---|---|---|
//! | 0 | 1 | format version, 1 |
//! | 1 | 2 | which of the optional fields follow |
//! | 3 | 4 x 4 | slots of card, company, account and holder |
//! | 19 | 4 | last date on which it is valid |
//! | 23 | 3 x 8 | PAN hash, PIN verifier, ZIP |
//! | 47 | 5 x 8 | amount, daily limit, transaction limit, first and last instant of the allowance |
//! | 87 | 1 + 1 | interval, length of the scope |
//! | 89 | 16 + 16 | ids of card and allowance |
//! | 121 | 8 | made at, microseconds |
//! | 129 | 4 | last four digits |
//! | 133 | 2 each | scope |
//! | | 16 each | dimensions |
//! | | | description, billing name: texts; sealed number: length, bytes |
//! | | | billing address, shipping address: seven texts each |

use super::cursor::{Cursor, malformed, push_short_u64, push_text};
use crate::codec::CodecError;
use crate::command::effect::IssuedCard;
use crate::domain::allowance::{AllowanceTerms, CardUsage, Scope};
use crate::domain::business_date::{BusinessDate, Interval};
use crate::domain::card::{CardProfile, CardRecord, Dimensions, PanHash, ProfileView, SealedPan};
use crate::domain::company::{Address, AddressTexts};
use crate::domain::credential::{PackedZip, PinVerifier};
use crate::domain::ids::{
    AccountSlot, AllowanceId, CardId, CardSlot, CompanySlot, DimensionId, MemberSlot, Timestamp,
};
use crate::domain::money::Minor;
use uuid::Uuid;

const FORMAT: u8 = 1;
const HOLDER: u16 = 1;
const VIRTUAL: u16 = 1 << 1;
const SINGLE_USE: u16 = 1 << 2;
const BILLING_ADDRESS: u16 = 1 << 3;
const SHIPPING_ADDRESS: u16 = 1 << 4;
const FIRST_DIMENSION: u16 = 1 << 5;
const KNOWN: u16 = (1 << 9) - 1;

/// Appends a card; its usage stays out.
pub fn append_card(bytes: &mut Vec<u8>, card: &IssuedCard) {
    let IssuedCard { profile, record, sealed_pan } = card;
    let terms = &record.terms;
    bytes.push(FORMAT);
    bytes.extend_from_slice(&present_fields(profile, terms).to_le_bytes());
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
    for dimension in profile.dimensions.iter().flatten() {
        bytes.extend_from_slice(dimension.0.as_bytes());
    }
    push_text(bytes, &profile.description);
    push_text(bytes, &profile.billing_name);
    push_short_u64(bytes, sealed_pan.0.len() as u64);
    bytes.extend_from_slice(&sealed_pan.0);
    for address in [&profile.billing_address, &profile.shipping_address].into_iter().flatten() {
        append_address(bytes, address);
    }
}

fn present_fields(profile: &CardProfile, terms: &AllowanceTerms) -> u16 {
    let mut present = 0;
    for (place, dimension) in profile.dimensions.iter().enumerate() {
        present |= (FIRST_DIMENSION << place) * u16::from(dimension.is_some());
    }
    let fields = [
        (HOLDER, profile.assigned_to.is_some()),
        (VIRTUAL, profile.is_virtual),
        (SINGLE_USE, terms.single_use),
        (BILLING_ADDRESS, profile.billing_address.is_some()),
        (SHIPPING_ADDRESS, profile.shipping_address.is_some()),
    ];
    fields.iter().fold(present, |bits, (bit, is)| bits | (bit * u16::from(*is)))
}

fn append_address(bytes: &mut Vec<u8>, address: &Address) {
    for text in address.texts() {
        push_text(bytes, text);
    }
}

/// A packed card, its texts where they stand.
#[derive(Clone, Copy)]
pub struct CardView<'a> {
    /// What people know of it.
    pub profile: ProfileView<'a>,
    /// What decisions read of it.
    pub record: CardRecord,
    /// Its number, sealed.
    pub sealed_pan: &'a [u8],
}

/// Reads a card from bytes that hold nothing else; its usage is left at its default.
/// Errors: bytes that `append_card` did not write.
pub fn parse_card(bytes: &[u8]) -> Result<IssuedCard, CodecError> {
    CardView::parse(bytes).map(|card| card.to_issued())
}

/// Shows no number, sealed or not.
impl std::fmt::Debug for CardView<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("CardView")
            .field("profile", &self.profile)
            .field("record", &self.record)
            .finish_non_exhaustive()
    }
}

impl<'a> CardView<'a> {
    /// Reads a card from bytes that hold nothing else; its usage is left at its default.
    /// Cost: no memory of its own.
    /// Errors: bytes that `append_card` did not write.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, CodecError> {
        let mut cursor = Cursor(bytes);
        let version = cursor.u8()?;
        if version != FORMAT {
            return Err(CodecError::UnknownVersion { version });
        }
        let present = cursor.u16()?;
        if present & !KNOWN != 0 {
            return Err(malformed("unknown fields of a card"));
        }
        let has = |bit: u16| present & bit != 0;
        let [slot, company, account, holder] =
            [cursor.u32()?, cursor.u32()?, cursor.u32()?, cursor.u32()?];
        let expires_on = BusinessDate(cursor.i32()?);
        let pan_hash = PanHash(cursor.u64()?);
        let (pin, zip) = (PinVerifier(cursor.u64()?), PackedZip(cursor.u64()?));
        let (mut terms, scope_len) = take_terms(&mut cursor)?;
        terms.single_use = has(SINGLE_USE);
        let id = CardId(Uuid::from_bytes(cursor.array()?));
        let allowance_id = AllowanceId(Uuid::from_bytes(cursor.array()?));
        let created_at = Timestamp(cursor.i64()?);
        let last_four = cursor.array()?;
        terms.scope = take_scope(&mut cursor, scope_len)?;
        let mut dimensions = Dimensions::default();
        for (place, dimension) in dimensions.iter_mut().enumerate() {
            if has(FIRST_DIMENSION << place) {
                *dimension = Some(DimensionId(Uuid::from_bytes(cursor.array()?)));
            }
        }
        let description = cursor.text()?;
        let billing_name = cursor.text()?;
        let sealed_len = cursor.count()?;
        let sealed_pan = cursor.slice(sealed_len)?;
        let mut address =
            |bit| if has(bit) { take_address(&mut cursor).map(Some) } else { Ok(None) };
        let profile = ProfileView {
            slot: CardSlot(slot),
            id,
            allowance_id,
            company: CompanySlot(company),
            description,
            billing_name,
            is_virtual: has(VIRTUAL),
            last_four,
            assigned_to: has(HOLDER).then_some(MemberSlot(holder)),
            dimensions,
            billing_address: address(BILLING_ADDRESS)?,
            shipping_address: address(SHIPPING_ADDRESS)?,
            created_at,
        };
        cursor.end()?;
        let usage = CardUsage::default();
        let account = AccountSlot(account);
        let record = CardRecord { pan_hash, pin, zip, account, expires_on, usage, terms };
        Ok(Self { profile, record, sealed_pan })
    }

    /// The card with texts of its own.
    #[must_use]
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

fn take_address<'a>(cursor: &mut Cursor<'a>) -> Result<AddressTexts<'a>, CodecError> {
    let mut texts = AddressTexts::default();
    for text in &mut texts {
        *text = cursor.text()?;
    }
    Ok(texts)
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
