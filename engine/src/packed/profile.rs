//! A card's profile with its texts packed: one block of bytes, the same in memory and in the card's row.
//!
//! | bytes | content |
//! |---|---|
//! | 16 each | dimensions |
//! | | the texts of `CardTexts` |
//! | | billing address, shipping address: seven texts each |
//!
//! Marks beside the block flag its parts: 2 billing address, 4 shipping address, from 8 on one for
//! each kind of dimension. 1 flags a virtual card.

use super::cursor::{Cursor, malformed, push_text};
use crate::codec::CodecError;
use crate::domain::card::{CardProfile, CardTexts, Dimensions};
use crate::domain::company::Address;
use crate::domain::ids::{
    AllowanceId, CardId, CardSlot, CompanySlot, DimensionId, MemberSlot, Timestamp,
};
use crate::domain::text::LineText;
use uuid::Uuid;

const VIRTUAL: u8 = 1;
const BILLING_ADDRESS: u8 = 1 << 1;
const SHIPPING_ADDRESS: u8 = 1 << 2;
const FIRST_DIMENSION: u8 = 1 << 3;
const KNOWN: u8 = (1 << 7) - 1;

/// The part of a card that people read, with its texts packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields of `CardProfile`")]
pub struct PackedProfile<'a> {
    pub slot: CardSlot,
    pub id: CardId,
    pub allowance_id: AllowanceId,
    pub company: CompanySlot,
    pub last_four: [u8; 4],
    pub assigned_to: Option<MemberSlot>,
    pub created_at: Timestamp,
    /// The remaining fields.
    pub texts: ProfileTexts<'a>,
}

impl<'a> PackedProfile<'a> {
    /// Packs the texts of a profile behind the contents of `bytes`. Cost: no allocation beyond the
    /// vector's own.
    pub fn pack(profile: &CardProfile, bytes: &'a mut Vec<u8>) -> Self {
        let start = bytes.len();
        append_texts(bytes, profile);
        Self {
            slot: profile.slot,
            id: profile.id,
            allowance_id: profile.allowance_id,
            company: profile.company,
            last_four: profile.last_four,
            assigned_to: profile.assigned_to,
            created_at: profile.created_at,
            texts: ProfileTexts { marks: marks_of(profile), bytes: &bytes[start..] },
        }
    }

    /// The profile with texts of its own.
    pub fn to_profile(&self) -> CardProfile {
        let texts = self.texts;
        let mut cursor = texts.behind_dimensions();
        CardProfile {
            slot: self.slot,
            id: self.id,
            allowance_id: self.allowance_id,
            company: self.company,
            texts: CardTexts::from_fn(|_| known_text(&mut cursor).to_owned()),
            is_virtual: texts.has(VIRTUAL),
            last_four: self.last_four,
            assigned_to: self.assigned_to,
            dimensions: texts.dimensions(),
            billing_address: texts.has(BILLING_ADDRESS).then(|| known_address(&mut cursor)),
            shipping_address: texts.has(SHIPPING_ADDRESS).then(|| known_address(&mut cursor)),
            created_at: self.created_at,
        }
    }
}

/// The block of a profile's texts, and its marks. INVARIANT: the bytes are such a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfileTexts<'a> {
    /// The marks of the block's parts.
    pub marks: u8,
    /// The block.
    pub bytes: &'a [u8],
}

impl<'a> ProfileTexts<'a> {
    /// Reads bytes as a block with these marks.
    /// Errors: bytes that are no such block.
    pub(super) fn parse(marks: u8, bytes: &'a [u8]) -> Result<Self, CodecError> {
        if marks & !KNOWN != 0 {
            return Err(malformed("unknown fields of a profile"));
        }
        let block = Self { marks, bytes };
        let mut cursor = Cursor(bytes);
        cursor.slice(block.dimension_bytes())?;
        for _ in 0..block.text_count() {
            cursor.text()?;
        }
        cursor.end()?;
        Ok(block)
    }

    /// A block known to be valid, of these marks and bytes.
    pub(crate) const fn known(marks: u8, bytes: &'a [u8]) -> Self {
        Self { marks, bytes }
    }

    /// Whether a card with these marks has a dimension.
    pub(crate) const fn has_dimensions(marks: u8) -> bool {
        marks >= FIRST_DIMENSION
    }

    /// The dimensions, which new transactions of the card receive.
    pub fn dimensions(&self) -> Dimensions {
        let mut dimensions = Dimensions::default();
        let (ids, _) = self.bytes.as_chunks::<16>();
        let mut ids = ids.iter();
        for (kind, dimension) in dimensions.iter_mut().enumerate() {
            if self.has(FIRST_DIMENSION << kind) {
                *dimension = ids.next().map(|id| DimensionId(Uuid::from_bytes(*id)));
            }
        }
        dimensions
    }

    /// The text above the card.
    pub fn description(&self) -> &'a str {
        known_text(&mut self.behind_dimensions())
    }

    const fn has(&self, mark: u8) -> bool {
        self.marks & mark != 0
    }

    const fn dimension_bytes(&self) -> usize {
        16 * (self.marks / FIRST_DIMENSION).count_ones() as usize
    }

    fn text_count(&self) -> usize {
        let addresses = (self.marks & (BILLING_ADDRESS | SHIPPING_ADDRESS)).count_ones() as usize;
        CardTexts::<String>::COUNT + Address::<LineText>::COUNT * addresses
    }

    fn behind_dimensions(&self) -> Cursor<'a> {
        Cursor(self.bytes.get(self.dimension_bytes()..).unwrap_or_default())
    }
}

/// A text of a valid block, which has no text missing.
fn known_text<'a>(cursor: &mut Cursor<'a>) -> &'a str {
    cursor.text().unwrap_or_default()
}

fn known_address(cursor: &mut Cursor<'_>) -> Address {
    Address::from_fn(|_| LineText::spaced(known_text(cursor)))
}

/// Appends the block of a profile's texts.
pub(super) fn append_texts(bytes: &mut Vec<u8>, profile: &CardProfile) {
    for dimension in profile.dimensions.iter().flatten() {
        bytes.extend_from_slice(dimension.0.as_bytes());
    }
    profile.texts.named().iter().for_each(|(_, text)| push_text(bytes, text));
    for address in [&profile.billing_address, &profile.shipping_address].into_iter().flatten() {
        address.named().iter().for_each(|(_, text)| push_text(bytes, text));
    }
}

/// The marks of a profile's block.
pub(super) fn marks_of(profile: &CardProfile) -> u8 {
    let mut marks = 0;
    let mut mark = |bit: u8, is_set: bool| marks |= bit * u8::from(is_set);
    mark(VIRTUAL, profile.is_virtual);
    mark(BILLING_ADDRESS, profile.billing_address.is_some());
    mark(SHIPPING_ADDRESS, profile.shipping_address.is_some());
    for (kind, dimension) in profile.dimensions.iter().enumerate() {
        mark(FIRST_DIMENSION << kind, dimension.is_some());
    }
    marks
}
