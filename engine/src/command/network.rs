//! Messages of the card network, from any door.

use std::num::NonZeroU8;

use serde::{Deserialize, Serialize};

use crate::domain::card::{MaskedPan, PanHash};
use crate::domain::credential::PresentedCredentials;
use crate::domain::ids::{AccountId, CardId, TransactionId};
use crate::domain::merchant::{Mcc, Merchant};
use crate::domain::money::{CurrencyAmount, CurrencyCode, Minor};
use crate::domain::network_key::{
    AuthorizationId, Fingerprint, MessageClass, NetworkTrace, OriginalKey, RetrievalKey,
};
use crate::domain::transaction::{BankAccount, TransferDirection};

/// A network message, with its identity among repeats.
#[derive(Clone, Debug)]
pub struct NetworkRequest {
    /// The message.
    pub command: NetworkCommand,
    /// Its identity; a request without one never counts as a repeat.
    pub fingerprint: Option<Fingerprint>,
}

impl NetworkRequest {
    /// The identities whose answers tell what becomes of it: its own, and that of the request that an
    /// advice stands for.
    pub(crate) fn identities(&self) -> impl Iterator<Item = &Fingerprint> {
        let stood_for = match &self.command {
            NetworkCommand::Advise(advise) => advise.request.as_deref(),
            _ => None,
        };
        self.fingerprint.iter().chain(stood_for)
    }
}

/// A network message.
#[derive(Clone, Debug)]
pub enum NetworkCommand {
    /// A request to authorize a purchase. Source: ISO 0100, 0200.
    Authorize(Authorize),
    /// A request to increase the hold of a purchase. Source: ISO 0100 with DE38.
    Increment(Increment),
    /// An advice of a decision on the issuer's behalf. Source: ISO 0120.
    Advise(Advise),
    /// A reversal of all or a part of a purchase. Source: ISO 0400, 0420.
    Reverse(Reverse),
    /// A settlement of a purchase. Source: ISO 0220.
    Present(Present),
    /// A refund to a card. Source: ISO 0220 with processing code 20.
    Refund(Refund),
    /// An inquiry of the balance left on a card. Source: ISO 0100 with processing code 30.
    InquireBalance(InquireBalance),
    /// A transfer of money from or to the company's bank.
    Transfer(Transfer),
    /// The conclusion of a transfer: money in transit arrives, or any transfer comes back.
    ConcludeTransfer(ConcludeTransfer),
}

/// The card named by a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CardRef {
    /// The card's number; the digits shown are for the network log only.
    Pan(PanHash, MaskedPan),
    /// The card's public id.
    Id(CardId),
}

/// The amounts of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageAmounts {
    /// The amount requested by the merchant. Source: ISO DE4, DE49.
    pub amount: Minor,
    /// The merchant's currency; the account's if absent.
    pub currency: Option<CurrencyCode>,
    /// The amount in the cardholder's currency. Source: ISO DE6, DE51.
    pub billing: Option<CurrencyAmount>,
}

/// The facts of a purchase that every money message carries.
#[derive(Clone, Debug)]
pub struct PurchaseFacts {
    /// The card.
    pub card: CardRef,
    /// The amounts.
    pub amounts: MessageAmounts,
    /// The merchant.
    pub merchant: Merchant,
    /// The network's marks.
    pub trace: NetworkTrace,
}

/// The kind of a requested authorization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthorizationKind {
    /// A hold now, a settlement later.
    Purchase,
    /// A settlement at once. Source: ISO 0200.
    SingleMessage,
    /// A check of the card only.
    Verification,
    /// Cash; always declined.
    Cash,
}

/// A request for an authorization.
#[derive(Clone, Debug)]
pub struct Authorize {
    /// The purchase.
    pub facts: PurchaseFacts,
    /// The kind.
    pub kind: AuthorizationKind,
    /// The credentials of the cardholder.
    pub credentials: PresentedCredentials,
    /// Whether the terminal accepts a partial approval.
    pub partial: PartialApproval,
}

/// The terminal's support of partial approval. Source: ISO DE48 tag 61.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PartialApproval {
    /// Full approval only.
    #[default]
    NotTaken,
    /// Approval of the part that the rules allow, if that is above zero.
    Taken,
}

/// A request to increase the hold of a purchase.
#[derive(Clone, Debug)]
pub struct Increment {
    /// The card, if the message names one.
    pub card: Option<CardRef>,
    /// The additional amounts.
    pub amounts: MessageAmounts,
    /// The merchant's category, if the message has one; the purchase's otherwise.
    pub mcc: Option<Mcc>,
    /// The credentials of the cardholder.
    pub credentials: PresentedCredentials,
    /// The purchase to increase.
    pub original: OriginalRef,
    /// The key by which later messages name this one.
    pub own_key: Option<OriginalKey>,
    /// The request to execute if no such purchase holds anything; without one, it is declined.
    pub otherwise: Option<Box<Authorize>>,
}

/// The network's decision on the issuer's behalf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdviceOutcome {
    /// Approved.
    Approved,
    /// Declined.
    Declined,
}

/// An advice of a decision on the issuer's behalf, or the completion of an authorization that is open. It
/// has no credentials: the network has compared them, and does not report the result.
#[derive(Clone, Debug)]
pub struct Advise {
    /// The purchase.
    pub facts: PurchaseFacts,
    /// Whether it is about cash. Source: ISO DE3.
    pub is_cash: bool,
    /// The network's decision.
    pub outcome: AdviceOutcome,
    /// The open authorization that it completes, if any.
    pub original: OriginalRef,
    /// The identity of the request that it stands for, if one can be told: that may have come before
    /// it, or may come yet.
    pub request: Option<Box<Fingerprint>>,
}

/// The names of an earlier message, tried in the order of the fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OriginalRef {
    /// Its public id.
    pub transaction: Option<TransactionId>,
    /// Its authorization id, with the card. Source: ISO DE38.
    pub authorization_id: Option<AuthorizationId>,
    /// Its STAN, transmission time and acquirer, with the card. Source: ISO DE90.
    pub original_key: Option<OriginalKey>,
    /// The class of the message of that key, where it is told. Source: ISO DE90.
    pub class: Option<MessageClass>,
    /// Its retrieval reference and acquirer, with the card. Source: ISO DE37.
    pub retrieval_key: Option<RetrievalKey>,
}

/// The amount that a reversal gives back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReversalAmount {
    /// The whole amount.
    Full,
    /// This amount, in the account's currency.
    GiveBack(Minor),
    /// All but this amount, in the account's currency.
    Remaining(Minor),
    /// All but this amount, in the currency of the merchant's request. Source: ISO DE95.
    RemainingOriginal(Minor),
}

/// Whether a reversal is a request or an advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReversalKind {
    /// A request. Source: ISO 0400.
    Request,
    /// An advice, whose reply is always "accepted". Source: ISO 0420.
    Advice,
}

/// A reversal of all or a part of a purchase.
#[derive(Clone, Debug)]
pub struct Reverse {
    /// The card, if the message names one.
    pub card: Option<CardRef>,
    /// The purchase to reverse.
    pub original: OriginalRef,
    /// The amount.
    pub amount: ReversalAmount,
    /// The kind.
    pub kind: ReversalKind,
}

/// The number of a presentment among those of one authorization.
/// Source: ISO DE48 tag 11; absent means the only and final one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PresentmentNumber {
    /// The number of this presentment, from 1.
    pub number: u8,
    /// The number of all presentments.
    pub count: u8,
}

impl PresentmentNumber {
    /// The only and final presentment.
    pub const ONLY: Self = Self { number: 1, count: 1 };

    /// The number, if there are several.
    pub fn among_several(self) -> Option<NonZeroU8> {
        NonZeroU8::new(self.number).filter(|_| self != Self::ONLY)
    }

    /// Whether no further presentment is announced.
    pub const fn is_final(self) -> bool {
        self.number >= self.count
    }
}

/// A settlement of a purchase.
#[derive(Clone, Debug)]
pub struct Present {
    /// The purchase; card and merchant are used if no original is found. HTTP may leave the card
    /// out if it names the transaction.
    pub facts: Option<PurchaseFacts>,
    /// The amounts, in the account's currency or with a billing amount; the open hold if absent.
    pub amounts: Option<MessageAmounts>,
    /// The authorization.
    pub original: OriginalRef,
    /// The number of the presentment.
    pub number: PresentmentNumber,
}

/// A refund to a card.
#[derive(Clone, Debug)]
pub struct Refund {
    /// The refund.
    pub facts: PurchaseFacts,
    /// The purchase that it refunds, if it names one.
    pub original: OriginalRef,
}

/// An inquiry of the balance left on a card.
#[derive(Clone, Debug)]
pub struct InquireBalance {
    /// The card.
    pub card: CardRef,
    /// The credentials of the cardholder.
    pub credentials: PresentedCredentials,
}

/// The time of a transfer's settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferTiming {
    /// Later: the transfer is in transit until it is settled or comes back.
    InTransit,
    /// In the same step.
    AtOnce,
}

/// A transfer of money between the company's bank and its account.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// The account.
    pub account: AccountId,
    /// The direction.
    pub direction: TransferDirection,
    /// The amount; above zero.
    pub amount: Minor,
    /// The far end.
    pub bank_account: BankAccount,
    /// The time of settlement.
    pub timing: TransferTiming,
}

/// The outcome of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferConclusion {
    /// The money has arrived.
    Settle,
    /// The money comes back: out of transit, or by a compensating line.
    Return,
}

/// The conclusion of a transfer.
#[derive(Clone, Copy, Debug)]
pub struct ConcludeTransfer {
    /// The transfer.
    pub transaction: TransactionId,
    /// The outcome.
    pub conclusion: TransferConclusion,
}
