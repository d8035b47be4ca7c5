//! The plan of a purchase: its buyer, merchant, place and time, and its fate.
//!
//! A plan is complete when the purchase is made. Times are microseconds since the start of the run,
//! virtual or real alike.

use super::merchants::Price;

/// The message that opens a purchase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Opening {
    /// 0100.
    Authorization,
    /// 0120: approved by a stand-in while the switch was out of reach.
    Advice,
    /// 0200: authorized and posted in one.
    Financial,
    /// 0220 that names no authorization: sold while the terminal was offline.
    Forced,
    /// 0220 with processing code 20: money back that names no purchase.
    Refund,
    /// 0100 with processing code 30: asks for the balance only.
    BalanceInquiry,
    /// 0100 with amount zero.
    Verification,
}

impl Opening {
    /// Whether it tells what has happened: such a message is repeated until it is heard.
    pub(super) fn is_advice(self) -> bool {
        matches!(self, Self::Advice | Self::Forced | Self::Refund)
    }
}

/// The payer of a purchase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Payer {
    /// The card in this slot of the portfolio.
    Card(u32),
    /// A card number that nobody issued, from this draw.
    Stranger(u64),
}

/// The way a credential is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CredentialChoice {
    /// No credential in the message.
    Absent,
    /// The card's own value.
    Right,
    /// Another value.
    Wrong,
}

/// The credentials of the card that a message carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CardCredentials {
    /// ISO DE14, or in track 2.
    pub(super) expiry: CredentialChoice,
    /// ISO DE52.
    pub(super) pin: CredentialChoice,
    /// ISO DE48 tag 92.
    pub(super) cvv: CredentialChoice,
    /// ISO DE48 tag 80.
    pub(super) zip: CredentialChoice,
    /// Card number and expiry in DE35 instead of DE2 and DE14.
    pub(super) track2: bool,
}

/// The fate of an approved purchase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Presented after so long.
    Settles { after_us: u64, late: bool },
    /// Reversed in full after so long.
    Reversed { after_us: u64 },
    /// Reversed down to a share, the rest presented later.
    PartlyReversed { after_us: u64, keep_percent: u64, settles_after_us: u64 },
    /// More is asked for, by a share of what was; all of it is presented later.
    Incremented { after_us: u64, add_percent: u64, settles_after_us: u64 },
    /// A pump: the amount it gave replaces the held one, as a share of that; presented later.
    Completed { after_us: u64, percent: u64, settles_after_us: u64 },
    /// The feed acts as if it never saw the answer: an 0420, and perhaps its repeat.
    TimesOut { after_us: u64, repeat_after_us: Option<u64> },
    /// Never heard of again: the hold stays open until it expires.
    Abandoned,
}

/// The difference of the presented amount from the held one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Clearing {
    /// Above 100 with a tip, below it where less was delivered.
    pub(super) percent: u64,
    /// The number of presentments.
    pub(super) parcels: u8,
    /// The network's rate, in thousandths of that at the authorization.
    pub(super) rate_per_mille: u64,
}

impl Clearing {
    /// The presented amount is the held one.
    pub(super) const EXACT: Self = Self { percent: 100, parcels: 1, rate_per_mille: 1000 };
}

/// Money back for a purchase that has settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Return {
    /// The delay after the settlement.
    pub(super) after_us: u64,
    /// The share of the posted amount; above 100 where the merchant gives more than it got.
    pub(super) percent: u64,
    /// The merchant was wrong: it is taken back after so long.
    pub(super) reversed_after_us: Option<u64>,
}

/// The way a later message names the purchase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PurchaseReference {
    /// The authorization id. Source: ISO DE38.
    AuthorizationId,
    /// The original's data elements. Source: ISO DE90.
    OriginalData,
    /// The retrieval reference number. Source: ISO DE37.
    Rrn,
}

/// A purchase as planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    /// Counts from zero over the run.
    pub(super) number: u64,
    pub(super) due_us: u64,
    pub(super) opening: Opening,
    pub(super) payer: Payer,
    /// Slot in the catalogue.
    pub(super) merchant: u16,
    pub(super) price: Price,
    /// Processing code 01.
    pub(super) cash: bool,
    /// DE48 tag 61: the terminal takes partial approvals.
    pub(super) partial: bool,
    pub(super) credentials: CardCredentials,
    pub(super) fate: Fate,
    pub(super) reference: PurchaseReference,
    /// The opening message is sent once more, byte for byte, after so long.
    pub(super) duplicate_after_us: Option<u64>,
    /// The first later message is repeated (0221, 0421) after so long.
    pub(super) repeat_after_us: Option<u64>,
    pub(super) clearing: Clearing,
    pub(super) refund: Option<Return>,
}
