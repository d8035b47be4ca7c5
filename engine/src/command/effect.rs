//! The changes made by a command. Effects carry after-images: applying one twice, or only the last
//! of several, gives the same state.
//!
//! Only this file grows when a new kind of change appears. The order of the variants is part of
//! the record format: new ones go before the last.

use serde::{Deserialize, Serialize};

use crate::decision::IncrementDecision;
use crate::directory::DirectoryRow;
use crate::domain::account::{Account, AccountBalances};
use crate::domain::allowance::{AllowanceTerms, CardUsage};
use crate::domain::audit::{AuditEvent, AuditGroup};
use crate::domain::card::{CardProfile, CardRecord, MaskedPan, SealedPan};
use crate::domain::company::{Company, SingleSignOn};
use crate::domain::credential::{CredentialFailures, PackedZip, PinVerifier};
use crate::domain::ids::{AccountSlot, CardSlot, CompanySlot, Timestamp, TransactionSeq};
use crate::domain::keyed_answer::KeyedAnswer;
use crate::domain::money::{CurrencyCode, Minor};
use crate::domain::network_key::{Fingerprint, OriginalKey, RetrievalKey};
use crate::domain::pan_key::PanGenerations;
use crate::domain::posting::{Posting, StatementLine};
use crate::domain::response_code::SubReason;
use crate::domain::transaction::TransactionProgress;
use crate::domain::transaction_tags::TagChanges;

use super::network::ReversalAmount;
use super::new_transaction::NewTransaction;
use super::reply::NetworkReply;

/// One change. A new transaction has the type `T`: as the shard decides it, as a view of its
/// record, or as the shard keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Effect<T = Box<NewTransaction>> {
    /// The company after a change.
    Company(Box<Company>),
    /// The account after a change.
    Account(Box<Account>),
    /// The balances of an account after a change.
    AccountBalances(AccountSlot, AccountBalances),
    /// The row of a resource after a change.
    Row(DirectoryRow),
    /// The SHA-256 of the network key.
    NetworkKey([u8; 32]),
    /// A card was made.
    CardIssued(Box<IssuedCard>),
    /// A card's profile after a change.
    CardProfile(Box<CardProfile>),
    /// A card's PIN after a change.
    CardPin(CardSlot, PinVerifier),
    /// A card's billing ZIP after a change.
    CardZip(CardSlot, PackedZip),
    /// A card's allowance after a change.
    AllowanceTerms(CardSlot, Box<AllowanceTerms>),
    /// A card's usage after a change.
    CardUsage(CardSlot, CardUsage),
    /// Attempts on a card that velocity still counts, oldest first.
    CardAttempts(CardSlot, Vec<Timestamp>),
    /// Wrong credentials on a card.
    CredentialFailures(CardSlot, CredentialFailures),
    /// A transaction's progress after a change.
    TransactionProgress(TransactionSeq, Box<TransactionProgress>),
    /// Money moved between an account's books.
    Posting(Posting),
    /// A statement line was written.
    StatementLine(Box<StatementLine>),
    /// The reply to a message, kept for repeats.
    Answer(Box<RememberedAnswer>),
    /// A reversal came before its message.
    EarlyReversal(Box<EarlyReversal>),
    /// A message without a transaction was seen.
    NetworkLog(Box<NetworkLogEntry>),
    /// A change of a transaction's tags: the named fields are set, the others stay.
    TransactionTags(TransactionSeq, Box<TagChanges>),
    /// The single sign-on settings of a company's members after a change.
    CompanySso(CompanySlot, Option<Box<SingleSignOn>>),
    /// The reply to a request under an idempotency key.
    KeyedAnswer(Box<KeyedAnswer>),
    /// The audit event of a change.
    Audit(Box<AuditEvent>),
    /// The decision on an increment.
    Increment(Box<IncrementDecision>),
    /// The generations of the key of card numbers in use.
    PanGenerations(PanGenerations),
    /// A card's number, sealed anew.
    CardNumber(CardSlot, SealedPan),
    /// The audit events of objects that a change closes besides its own.
    AuditGroup(Box<AuditGroup>),
    /// A new transaction, with its movements. `record` writes it packed, unlike the others.
    #[serde(skip)]
    Transaction(T),
}

impl Effect {
    /// The effect of a resource's row.
    pub fn row(row: impl Into<DirectoryRow>) -> Self {
        Self::Row(row.into())
    }
}

/// A newly issued card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssuedCard {
    /// The part that people read.
    pub profile: CardProfile,
    /// The part that decisions read.
    pub record: CardRecord,
    /// Its number, sealed.
    pub sealed_pan: SealedPan,
}

/// A reply kept for repeats of its message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RememberedAnswer {
    /// The message.
    pub fingerprint: Fingerprint,
    /// Whether another reply under its trace was kept when it was given.
    pub shares_trace: bool,
    /// The time at which the reply is forgotten.
    pub expires_at: Timestamp,
    /// The reply.
    pub reply: NetworkReply,
}

/// A reversal that came before its message. It declines a request, and takes back what a message
/// posts or holds without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlyReversal {
    /// The card, where the reversal names one.
    pub card: Option<CardSlot>,
    /// The original key of the message; beside a retrieval key its vague name.
    pub original_key: Option<OriginalKey>,
    /// The retrieval key of the purchase.
    pub retrieval_key: Option<RetrievalKey>,
    /// The amount that it gives back.
    pub amount: ReversalAmount,
    /// The time at which it is forgotten.
    pub expires_at: Timestamp,
}

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NetworkMessageKind {
    /// An authorization.
    Authorization,
    /// An advice.
    Advice,
    /// A reversal.
    Reversal,
    /// A presentment.
    Presentment,
    /// A refund.
    Refund,
    /// A balance inquiry.
    BalanceInquiry,
    /// An increment.
    Increment,
}

/// A message that made no transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkLogEntry {
    /// The time of acceptance.
    pub at: Timestamp,
    /// Its kind.
    pub kind: NetworkMessageKind,
    /// The part of the card number that may be shown.
    pub masked_pan: MaskedPan,
    /// Its amount.
    pub amount: Minor,
    /// Its currency.
    pub currency: Option<CurrencyCode>,
    /// Its retrieval reference.
    pub rrn: String,
    /// The cause of the missing transaction.
    pub reason: SubReason,
}
