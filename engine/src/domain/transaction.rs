//! A transaction: one card purchase or bank transfer, as it was made and as it stands.
//!
//! `TransactionRecord` never changes after creation; everything that does is in
//! `TransactionProgress`, whose latest image is the truth.

use serde::{Deserialize, Serialize};

use super::card::Dimensions;
use super::enumeration::enumeration;
use super::hold::HoldParts;
use super::ids::{
    AccountSlot, CardSlot, CompanySlot, MemberSlot, Timestamp, TransactionId, TransactionSeq,
};
use super::merchant::Merchant;
use super::money::{CurrencyAmount, Minor};
use super::network_key::NetworkTrace;
use super::response_code::{ResponseCode, SubReason};
use super::text::LineText;
use crate::decision::{DecisionFacts, RuleSet};

enumeration! {
    /// A transaction's state. Source: spec "States and transitions".
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    pub enum TransactionState {
        /// Authorized or in transit, not settled.
        Pending,
        /// Settled.
        Completed,
        /// Refused.
        Declined,
        /// Nothing of it remains.
        Canceled,
    }
}

enumeration! {
    /// What kind of movement a transaction is.
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

/// Which way money goes between the company's bank and its account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferDirection {
    /// Into the account.
    Deposit,
    /// Out of it.
    Withdrawal,
}

impl TransactionKind {
    /// Which way a bank transfer goes; none for what a card did.
    #[must_use]
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
    /// Approved or declined on the issuer's behalf and told by an advice.
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
    /// Approved for less than was asked.
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

    /// What those that are set are called, in the order of their bits.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().filter(move |(flag, _)| self.contains(*flag)).map(|(_, name)| name)
    }

    /// Whether all of `other` are set.
    #[must_use]
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
    /// What the statement says.
    pub description: LineText,
    /// Its name.
    pub name: LineText,
    /// Its number.
    pub number: LineText,
}

/// What never changes about a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransactionRecord {
    /// Its place among all transactions.
    pub seq: TransactionSeq,
    /// Its public id.
    pub id: TransactionId,
    /// What kind of movement it is.
    pub kind: TransactionKind,
    /// Whose it is.
    pub company: CompanySlot,
    /// The account that pays or receives.
    pub account: AccountSlot,
    /// The card, for purchases.
    pub card: Option<CardSlot>,
    /// Who held the card then.
    pub member: Option<MemberSlot>,
    /// What was asked for, in the account's currency; never negative.
    pub requested: Minor,
    /// What was asked for in the merchant's currency, where that is another one.
    pub foreign: Option<CurrencyAmount>,
    /// Where.
    pub merchant: Option<Merchant>,
    /// The far end of a transfer.
    pub bank_account: Option<BankAccount>,
    /// The network's marks.
    pub trace: NetworkTrace,
    /// Approved, or why not.
    pub response_code: ResponseCode,
    /// Why exactly.
    pub sub_reason: SubReason,
    /// Every rule that failed, the deciding one among them.
    pub failed_rules: RuleSet,
    /// The facts that the rules were evaluated on, where they were.
    pub facts: Option<DecisionFacts>,
    /// The transaction it gives money back for.
    pub refund_of: Option<TransactionSeq>,
    /// When it was accepted.
    pub authorized_at: Timestamp,
    /// The dimensions of its card at that time.
    pub dimensions: Dimensions,
}

/// How a transaction stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransactionProgress {
    /// Its state.
    pub state: TransactionState,
    /// What is still held.
    pub held: HoldParts,
    /// What of the allowance has been cleared and not been given back.
    pub cleared: HoldParts,
    /// The sum of what was posted, less what was given back by compensating lines; signed from
    /// the merchant's side: above zero for purchases, below zero for refunds.
    pub posted: Minor,
    /// What linked refunds have given back; in a refund, what of it gave its purchase room.
    pub refunded: Minor,
    /// Numbers of the presentments seen; each posts once, for ever.
    pub presented: Vec<u8>,
    /// Whether the final presentment was seen.
    pub is_final: bool,
    /// When the hold ends by itself.
    pub hold_expires_at: Timestamp,
    /// When it was first posted.
    pub posted_at: Option<Timestamp>,
    /// Facts reviewers look for.
    pub flags: TransactionFlags,
}

impl TransactionProgress {
    /// A transaction in `state` with nothing held or posted.
    #[must_use]
    pub fn empty(state: TransactionState) -> Self {
        Self {
            state,
            held: HoldParts::new(),
            cleared: HoldParts::new(),
            posted: Minor::ZERO,
            refunded: Minor::ZERO,
            presented: Vec::new(),
            is_final: false,
            hold_expires_at: Timestamp::MAX,
            posted_at: None,
            flags: TransactionFlags::default(),
        }
    }

    /// What a transaction of a kind amounts to now, from the merchant's or the bank's side; declined
    /// ones keep what was `requested`. Source: spec "Transaction", amount.
    #[must_use]
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
