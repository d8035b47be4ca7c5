//! A transaction: one card purchase or bank transfer, with its creation and its progress.
//!
//! `TransactionRecord` never changes after creation; all later changes are in
//! `TransactionProgress`, whose latest image is the truth.

use serde::{Deserialize, Serialize};

use super::card::Dimensions;
use super::enumeration::enumeration;
use super::hold::HoldParts;
use super::ids::{
    AccountSlot, CardSlot, CompanySlot, MemberSlot, Timestamp, TransactionId, TransactionSeq,
};
use super::later_message::LaterMessages;
use super::merchant::Merchant;
use super::money::{CurrencyAmount, Minor};
use super::network_key::{MessageClass, NetworkTrace};
use super::response_code::{ResponseCode, SubReason};
use super::text::LineText;
use crate::decision::{DecisionFacts, RuleSet};

enumeration! {
    /// A transaction's state. Source: spec "States and transitions".
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    pub enum TransactionState {
        /// Authorized or in transit, not settled.
        Pending => "pending",
        /// Settled.
        Completed => "completed",
        /// Refused.
        Declined => "declined",
        /// No amount of it remains.
        Canceled => "canceled",
    }
}

enumeration! {
    /// The kind of movement of a transaction.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub enum TransactionKind {
        /// Authorized now, settled later.
        Purchase,
        /// Authorized and settled at once. Source: ISO 0200.
        SingleMessagePurchase,
        /// A check of the card without money.
        Verification,
        /// A cash withdrawal; always declined.
        Cash,
        /// Money back from a merchant.
        Refund,
        /// Money from the company's bank.
        BankTransfer,
        /// Money to the company's bank.
        BankWithdrawal,
    }
}

impl TransactionKind {
    /// Whether it leaves the marks that it shares with another transaction to that one: a refund may
    /// carry those of its purchase, and a check of the card has nothing to settle.
    pub const fn yields_marks(self) -> bool {
        matches!(self, Self::Refund | Self::Verification)
    }

    /// The class of the request that makes one.
    pub const fn class(self) -> MessageClass {
        match self {
            Self::Purchase | Self::Verification | Self::Cash => MessageClass::Authorization,
            Self::SingleMessagePurchase
            | Self::Refund
            | Self::BankTransfer
            | Self::BankWithdrawal => MessageClass::Financial,
        }
    }
}

/// The direction of money between the company's bank and its account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferDirection {
    /// Into the account.
    Deposit,
    /// Out of it.
    Withdrawal,
}

impl TransactionKind {
    /// The direction of a bank transfer; none for transactions of cards.
    pub const fn transfer_direction(self) -> Option<TransferDirection> {
        match self {
            Self::BankTransfer => Some(TransferDirection::Deposit),
            Self::BankWithdrawal => Some(TransferDirection::Withdrawal),
            _ => None,
        }
    }
}

/// Facts about a transaction that reviewers look for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransactionFlags(pub u16);

impl TransactionFlags {
    /// Approved or declined on the issuer's behalf and reported by an advice.
    pub const ADVICE: Self = Self(1);
    /// Posted without a matching open hold.
    pub const FORCED: Self = Self(1 << 1);
    /// Posted for more than was held.
    pub const OVER_CLEARED: Self = Self(1 << 2);
    /// Posted again after the final presentment.
    pub const AFTER_FINAL: Self = Self(1 << 3);
    /// This purchase used up a single-use allowance.
    pub const CONSUMED_SINGLE_USE: Self = Self(1 << 4);
    /// The hold ended by time.
    pub const HOLD_EXPIRED: Self = Self(1 << 5);
    /// Refunded for more than was paid.
    pub const OVER_REFUNDED: Self = Self(1 << 6);
    /// Approved for less than requested.
    pub const PARTIALLY_APPROVED: Self = Self(1 << 7);
    /// A bank transfer that came back.
    pub const RETURNED: Self = Self(1 << 8);

    const NAMES: [(Self, &'static str); 9] = [
        (Self::ADVICE, "advice"),
        (Self::FORCED, "forced"),
        (Self::OVER_CLEARED, "over_cleared"),
        (Self::AFTER_FINAL, "after_final"),
        (Self::CONSUMED_SINGLE_USE, "consumed_single_use"),
        (Self::HOLD_EXPIRED, "hold_expired"),
        (Self::OVER_REFUNDED, "over_refunded"),
        (Self::PARTIALLY_APPROVED, "partially_approved"),
        (Self::RETURNED, "returned"),
    ];

    /// The names of the flags that are set, in the order of their bits.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().filter(move |(flag, _)| self.contains(*flag)).map(|(_, name)| name)
    }

    /// Whether all of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Sets all of `other`.
    pub const fn insert(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// A bank account at the far end of a transfer. Source: spec "Transaction", bank_account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BankAccount {
    /// The description on the statement.
    pub description: LineText,
    /// Its name.
    pub name: LineText,
    /// Its number.
    pub number: LineText,
}

/// The part of a transaction that never changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransactionRecord {
    /// Its place among all transactions.
    pub seq: TransactionSeq,
    /// Its public id.
    pub id: TransactionId,
    /// The kind of movement.
    pub kind: TransactionKind,
    /// The company that owns it.
    pub company: CompanySlot,
    /// The account that pays or receives.
    pub account: AccountSlot,
    /// The card, for purchases.
    pub card: Option<CardSlot>,
    /// The member who held the card then.
    pub member: Option<MemberSlot>,
    /// The requested amount, in the account's currency; never negative.
    pub requested: Minor,
    /// The requested amount in the merchant's currency, if that is another one.
    pub foreign: Option<CurrencyAmount>,
    /// The merchant.
    pub merchant: Option<Merchant>,
    /// The far end of a transfer.
    pub bank_account: Option<BankAccount>,
    /// The network's marks.
    pub trace: NetworkTrace,
    /// The approval, or the cause of its absence.
    pub response_code: ResponseCode,
    /// The exact cause.
    pub sub_reason: SubReason,
    /// Every rule that failed, the deciding one among them.
    pub failed_rules: RuleSet,
    /// The facts on which the rules were evaluated, if they were.
    pub facts: Option<DecisionFacts>,
    /// The transaction that it refunds.
    pub refund_of: Option<TransactionSeq>,
    /// The time of acceptance.
    pub authorized_at: Timestamp,
    /// The dimensions of its card at that time.
    pub dimensions: Dimensions,
}

/// The current progress of a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransactionProgress {
    /// Its state.
    pub state: TransactionState,
    /// The parts still held.
    pub held: HoldParts,
    /// The cleared parts of the allowance that have not been given back; in a refund, the parts
    /// that it gave back.
    pub cleared: HoldParts,
    /// The sum of postings, less compensating lines; signed from the merchant's side: above zero
    /// for purchases, below zero for refunds.
    pub posted: Minor,
    /// The sum that linked refunds have given back, also of what is held and may be posted; in a refund,
    /// the part of it that gives its purchase room.
    pub refunded: Minor,
    /// The messages that changed it since it was made.
    pub later: LaterMessages,
    /// Whether the final presentment was seen.
    pub is_final: bool,
    /// The time at which the hold expires.
    pub hold_expires_at: Timestamp,
    /// The time of the first posting.
    pub posted_at: Option<Timestamp>,
    /// Facts that reviewers look for.
    pub flags: TransactionFlags,
}

impl TransactionProgress {
    /// A transaction in `state` with nothing held or posted.
    pub fn empty(state: TransactionState) -> Self {
        Self {
            state,
            held: HoldParts::new(),
            cleared: HoldParts::new(),
            posted: Minor::ZERO,
            refunded: Minor::ZERO,
            later: LaterMessages::default(),
            is_final: false,
            hold_expires_at: Timestamp::MAX,
            posted_at: None,
            flags: TransactionFlags::default(),
        }
    }

    /// Whether it was posted by the presentment that made it. A late presentment of an authorization
    /// is forced, too, but not at the instant `made_at`.
    pub fn is_posted_only(&self, made_at: Timestamp) -> bool {
        self.flags.contains(TransactionFlags::FORCED) && self.posted_at == Some(made_at)
    }

    /// The posted amount that no refund covers: it alone takes room of the allowance.
    pub fn unrefunded(&self) -> Minor {
        (self.posted - self.refunded).or_zero()
    }

    /// The time of the first posting, while something is posted: none where it was canceled since.
    /// Source: spec "Transaction", posted_at.
    pub fn shown_posted_at(&self) -> Option<Timestamp> {
        self.posted_at.filter(|_| self.state == TransactionState::Completed)
    }

    /// The current amount of a transaction of a kind, from the merchant's or the bank's side;
    /// declined ones keep the amount `requested`. Source: spec "Transaction", amount.
    pub fn amount(&self, kind: TransactionKind, requested: Minor) -> Minor {
        match self.state {
            TransactionState::Pending => match kind.transfer_direction() {
                None => self.held.total(),
                Some(TransferDirection::Deposit) => -requested,
                Some(TransferDirection::Withdrawal) => requested,
            },
            TransactionState::Completed => self.posted,
            TransactionState::Declined => requested,
            TransactionState::Canceled => Minor::ZERO,
        }
    }
}
