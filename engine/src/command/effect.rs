//! What a command changed. Effects carry after-images: applying one twice, or only the last of
//! several, gives the same state.
//!
//! Only this file grows when a new kind of change appears. The order of the variants is part of
//! the record format: new ones go before the last.

use serde::{Deserialize, Serialize};

use crate::decision::IncrementDecision;
use crate::directory::DirectoryRow;
use crate::domain::account::{Account, AccountBalances};
use crate::domain::allowance::{AllowanceTerms, CardUsage};
use crate::domain::audit::AuditEvent;
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

use super::new_transaction::NewTransaction;
use super::reply::NetworkReply;

/// One change. A new transaction is told as `T`: as the shard decides it, as it is looked at in its
/// record, or as the shard keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Effect<T = Box<NewTransaction>> {
    /// A company is so.
    Company(Box<Company>),
    /// An account is so.
    Account(Box<Account>),
    /// An account's balances are so.
    AccountBalances(AccountSlot, AccountBalances),
    /// The row of a resource is so.
    Row(DirectoryRow),
    /// The network key's SHA-256 is this.
    NetworkKey([u8; 32]),
    /// A card was made.
    CardIssued(Box<IssuedCard>),
    /// A card's profile is so.
    CardProfile(Box<CardProfile>),
    /// A card's PIN is this.
    CardPin(CardSlot, PinVerifier),
    /// A card's billing ZIP is this.
    CardZip(CardSlot, PackedZip),
    /// A card's allowance is so.
    AllowanceTerms(CardSlot, Box<AllowanceTerms>),
    /// A card's usage is so.
    CardUsage(CardSlot, CardUsage),
    /// Attempts on a card that velocity still counts, oldest first.
    CardAttempts(CardSlot, Vec<Timestamp>),
    /// Wrong credentials on a card.
    CredentialFailures(CardSlot, CredentialFailures),
    /// A transaction stands so.
    TransactionProgress(TransactionSeq, Box<TransactionProgress>),
    /// Money moved between an account's books.
    Posting(Posting),
    /// A statement line was written.
    StatementLine(Box<StatementLine>),
    /// A message was answered so.
    Answer(Box<RememberedAnswer>),
    /// A reversal came before its purchase.
    EarlyReversal(EarlyReversal),
    /// A message without a transaction was seen.
    NetworkLog(Box<NetworkLogEntry>),
    /// Somebody tagged a transaction: the fields named are so, the others stay.
    TransactionTags(TransactionSeq, Box<TagChanges>),
    /// How a company's members sign on is so.
    CompanySso(CompanySlot, Option<Box<SingleSignOn>>),
    /// A request under an idempotency key was answered so.
    KeyedAnswer(Box<KeyedAnswer>),
    /// Somebody changed something.
    Audit(Box<AuditEvent>),
    /// An increment was decided so.
    Increment(Box<IncrementDecision>),
    /// These generations of the key of card numbers are of use.
    PanGenerations(PanGenerations),
    /// A card's number is sealed so.
    CardNumber(CardSlot, SealedPan),
    /// A transaction was made, with what it moved. `record` writes it packed, not as the others.
    #[serde(skip)]
    Transaction(T),
}

impl Effect {
    /// The row of a resource is so.
    pub fn row(row: impl Into<DirectoryRow>) -> Self {
        Self::Row(row.into())
    }
}

/// A card as it is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssuedCard {
    /// What people know of it.
    pub profile: CardProfile,
    /// What decisions read of it.
    pub record: CardRecord,
    /// Its number.
    pub sealed_pan: SealedPan,
}

/// An answer kept for repeats of its message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RememberedAnswer {
    /// The message.
    pub fingerprint: Fingerprint,
    /// Until when a repeat finds it.
    pub expires_at: Timestamp,
    /// The answer.
    pub reply: NetworkReply,
}

/// A reversal whose purchase has not been seen; it declines that purchase when it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlyReversal {
    /// How the purchase may be named.
    pub original_key: Option<OriginalKey>,
    /// How the purchase may be named.
    pub retrieval_key: Option<RetrievalKey>,
    /// Until when it is remembered.
    pub expires_at: Timestamp,
}

/// What kind of message was seen.
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
    /// When it was accepted.
    pub at: Timestamp,
    /// What it was.
    pub kind: NetworkMessageKind,
    /// What may be shown of the card number.
    pub masked_pan: MaskedPan,
    /// The amount it named.
    pub amount: Minor,
    /// The currency it named.
    pub currency: Option<CurrencyCode>,
    /// Its retrieval reference.
    pub rrn: String,
    /// Why there is no transaction.
    pub reason: SubReason,
}
