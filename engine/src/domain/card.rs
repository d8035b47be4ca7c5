//! A card: the hot record that decisions read, and the profile that only people read.
//!
//! `CardRecord` is two cache lines; fields that no decision compares stay out of it.

use serde::{Deserialize, Serialize};

use super::allowance::{AllowanceTerms, CardUsage};
use super::business_date::BusinessDate;
use super::company::Address;
use super::credential::{PackedZip, PinVerifier};
use super::enumeration::enumeration;
use super::ids::{
    AccountSlot, AllowanceId, CardId, CardSlot, CompanySlot, DimensionId, MemberSlot, Timestamp,
};
use super::named_texts::named_texts;
use super::pan_key::PanGeneration;
use super::text::LineText;

enumeration! {
    /// A card's state. Source: spec "States and transitions".
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[repr(u8)]
    pub enum CardState {
        /// A physical card that its holder has not activated yet.
        #[default]
        Unactivated => "unactivated",
        /// Ready to spend.
        Active => "active",
        /// Closed to new purchases until it is opened again.
        Suspended => "suspended",
        /// Closed for good.
        Terminated => "terminated",
    }
}

enumeration! {
    /// The reason of a card's suspension.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[repr(u8)]
    pub enum SuspensionReason {
        /// The card is not suspended.
        #[default]
        None,
        /// A person suspended it.
        Manual,
        /// Its single-use allowance was used.
        SingleUse,
        /// Its allowance ended.
        EndTime,
    }
}

/// A keyed 64-bit hash of a card number, by which the switch finds a card without knowing its
/// number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(transparent)]
pub struct PanHash(pub u64);

/// The part of a card that decisions read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(C, align(64))]
pub struct CardRecord {
    /// The hash of its number, by which lookups find it.
    pub pan_hash: PanHash,
    /// The keyed value of its PIN.
    pub pin: PinVerifier,
    /// Its billing ZIP.
    pub zip: PackedZip,
    /// The account that pays.
    pub account: AccountSlot,
    /// The last local date on which it is valid.
    pub expires_on: BusinessDate,
    /// Its usage so far.
    pub usage: CardUsage,
    /// The terms of its allowance.
    pub terms: AllowanceTerms,
}

const _: () = assert!(size_of::<CardRecord>() == 128);

enumeration! {
    /// The four kinds of accounting dimensions, in the order of `CardProfile::dimensions`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    pub enum DimensionKind {
        /// A category.
        Category => "category",
        /// A department.
        Department => "department",
        /// A label.
        Label => "label",
        /// A location.
        Location => "location",
    }
}

/// At most one dimension of each kind.
pub type Dimensions = [Option<DimensionId>; 4];

named_texts! {
    /// The texts of a card.
    pub struct CardTexts {
        /// The text shown above the card.
        description,
        /// The name embossed on the card.
        billing_name,
    }
}

impl CardTexts {
    /// The texts of a card of which only the description is given.
    pub fn described(description: LineText) -> Self {
        let mut texts = Self { description, ..Self::default() };
        texts.billing_name = default_billing_name(&texts.description);
        texts
    }
}

/// The most characters a billing name has. Source: spec "Limits".
pub const BILLING_NAME_CHARS_MAX: usize = 40;

/// The default text that is embossed on a card.
pub fn default_billing_name(description: &LineText) -> LineText {
    LineText::spaced(&description.chars().take(BILLING_NAME_CHARS_MAX).collect::<String>())
}

/// The part of a card that people read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardProfile {
    /// The row's slot.
    pub slot: CardSlot,
    /// Its public id.
    pub id: CardId,
    /// The public id of its allowance.
    pub allowance_id: AllowanceId,
    /// The company that owns it.
    pub company: CompanySlot,
    /// Its texts besides those of addresses.
    pub texts: CardTexts<String>,
    /// Virtual or physical.
    pub is_virtual: bool,
    /// The last four digits of its number.
    pub last_four: [u8; 4],
    /// The member who holds it.
    pub assigned_to: Option<MemberSlot>,
    /// Its dimensions, which its new transactions receive.
    pub dimensions: Dimensions,
    /// Its own billing address; the company's without one.
    pub billing_address: Option<Address>,
    /// The shipping address of a physical card.
    pub shipping_address: Option<Address>,
    /// The time of creation.
    pub created_at: Timestamp,
}

/// A stored card number: sealed by the edge, unreadable here but for the head of its form.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedPan(pub Vec<u8>);

impl SealedPan {
    /// The form whose second to fifth byte hold the generation of its key. Numbers in other forms
    /// are of generation 0.
    pub const FORM_WITH_GENERATION: u8 = 2;

    /// The generation of the key it is sealed under, according to its head. Only the key itself
    /// proves that.
    pub fn generation(&self) -> PanGeneration {
        match self.0.as_slice() {
            [Self::FORM_WITH_GENERATION, a, b, c, d, ..] => {
                PanGeneration(u32::from_le_bytes([*a, *b, *c, *d]))
            }
            _ => PanGeneration::default(),
        }
    }
}

impl std::fmt::Debug for SealedPan {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "SealedPan({} bytes)", self.0.len())
    }
}

/// The most of a card number that logs, pages and exports show: first six and last four digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MaskedPan {
    /// The first six digits.
    pub first_six: [u8; 6],
    /// The last four digits.
    pub last_four: [u8; 4],
}
