//! What the card network asks, whichever door it came through.

use crate::domain::card::{MaskedPan, PanHash};
use crate::domain::credential::PresentedCredentials;
use crate::domain::ids::{AccountId, CardId, TransactionId};
use crate::domain::merchant::{Mcc, Merchant};
use crate::domain::money::{CurrencyAmount, CurrencyCode, Minor};
use crate::domain::network_key::{
    AuthorizationId, Fingerprint, NetworkTrace, OriginalKey, RetrievalKey,
};
use crate::domain::transaction::{BankAccount, TransferDirection};

/// A network message, and what identifies it among its repeats.
#[derive(Clone, Debug)]
pub struct NetworkRequest {
    /// What is asked.
    pub command: NetworkCommand,
    /// Its identity; a request without one is never taken for a repeat.
    pub fingerprint: Option<Fingerprint>,
}

/// A network message.
#[derive(Clone, Debug)]
pub enum NetworkCommand {
    /// May this purchase go ahead? Source: ISO 0100, 0200.
    Authorize(Authorize),
    /// May this pending purchase take more? Source: ISO 0100 with DE38.
    Increment(Increment),
    /// This was decided on the issuer's behalf. Source: ISO 0120.
    Advise(Advise),
    /// Give back all or a part of a purchase. Source: ISO 0400, 0420.
    Reverse(Reverse),
    /// Settle a purchase. Source: ISO 0220.
    Present(Present),
    /// Give money back to a card. Source: ISO 0220 with processing code 20.
    Refund(Refund),
    /// What is left on the card? Source: ISO 0100 with processing code 30.
    InquireBalance(InquireBalance),
    /// Money comes from, or goes to, the company's bank.
    Transfer(Transfer),
    /// A transfer in transit has arrived, or any transfer comes back.
    ConcludeTransfer(ConcludeTransfer),
}

/// How a message names its card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CardRef {
    /// By its number; the digits shown are for the network log only.
    Pan(PanHash, MaskedPan),
    /// By its public id.
    Id(CardId),
}

/// The amounts of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageAmounts {
    /// As the merchant asks. Source: ISO DE4, DE49.
    pub amount: Minor,
    /// The merchant's currency; the account's where absent.
    pub currency: Option<CurrencyCode>,
    /// In the cardholder's currency. Source: ISO DE6, DE51.
    pub billing: Option<CurrencyAmount>,
}

/// What every money message says of its purchase.
#[derive(Clone, Debug)]
pub struct PurchaseFacts {
    /// The card.
    pub card: CardRef,
    /// How much.
    pub amounts: MessageAmounts,
    /// Where.
    pub merchant: Merchant,
    /// The network's marks.
    pub trace: NetworkTrace,
}

/// What kind of authorization is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthorizationKind {
    /// Hold now, settle later.
    Purchase,
    /// Settle at once. Source: ISO 0200.
    SingleMessage,
    /// Check the card only.
    Verification,
    /// Cash; always declined.
    Cash,
}

/// Asks for an authorization.
#[derive(Clone, Debug)]
pub struct Authorize {
    /// The purchase.
    pub facts: PurchaseFacts,
    /// What kind.
    pub kind: AuthorizationKind,
    /// What the cardholder proved.
    pub credentials: PresentedCredentials,
    /// Whether the terminal can take less than it asks for.
    pub partial: PartialApproval,
}

/// Whether less may be approved than is asked for. Source: ISO DE48 tag 61.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PartialApproval {
    /// All or nothing.
    #[default]
    NotTaken,
    /// What the rules allow, where that is above zero.
    Taken,
}

/// Asks for more on a pending purchase.
#[derive(Clone, Debug)]
pub struct Increment {
    /// The card, where the message names one.
    pub card: Option<CardRef>,
    /// How much more.
    pub amounts: MessageAmounts,
    /// The merchant's category, where the message has one; the purchase's otherwise.
    pub mcc: Option<Mcc>,
    /// What the cardholder proved.
    pub credentials: PresentedCredentials,
    /// Which purchase.
    pub original: OriginalRef,
    /// What is asked where that names no pending purchase; declined without.
    pub otherwise: Option<Box<Authorize>>,
}

/// What the network decided on the issuer's behalf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdviceOutcome {
    /// Approved.
    Approved,
    /// Declined.
    Declined,
}

/// Tells what was decided on the issuer's behalf, or completes a pending authorization. It has no
/// credentials: whoever decided has compared them, and nobody learns here which were right.
#[derive(Clone, Debug)]
pub struct Advise {
    /// The purchase.
    pub facts: PurchaseFacts,
    /// What was decided.
    pub outcome: AdviceOutcome,
    /// The pending authorization it completes, if any.
    pub original: OriginalRef,
}

/// How a message names an earlier one; tried in the order of the fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OriginalRef {
    /// By its public id.
    pub transaction: Option<TransactionId>,
    /// By its authorization id, with the card. Source: ISO DE38.
    pub authorization_id: Option<AuthorizationId>,
    /// By STAN, transmission time and acquirer, with the card. Source: ISO DE90.
    pub original_key: Option<OriginalKey>,
    /// By retrieval reference and acquirer, with the card. Source: ISO DE37.
    pub retrieval_key: Option<RetrievalKey>,
}

/// How much a reversal gives back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReversalAmount {
    /// Everything.
    Full,
    /// This much, in the account's currency.
    GiveBack(Minor),
    /// All but this much, in the account's currency.
    Remaining(Minor),
    /// All but this much, in the currency the merchant asked in. Source: ISO DE95.
    RemainingOriginal(Minor),
}

/// Whether the network asks or tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReversalKind {
    /// It asks. Source: ISO 0400.
    Request,
    /// It tells; the answer is always "accepted". Source: ISO 0420.
    Advice,
}

/// Gives back all or a part of a purchase.
#[derive(Clone, Debug)]
pub struct Reverse {
    /// The card, where the message names one.
    pub card: Option<CardRef>,
    /// Which purchase.
    pub original: OriginalRef,
    /// How much.
    pub amount: ReversalAmount,
    /// Asked or told.
    pub kind: ReversalKind,
}

/// Which of how many presentments of one authorization this is.
/// Source: ISO DE48 tag 11; absent means the only and final one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PresentmentNumber {
    /// This one, from 1.
    pub number: u8,
    /// Of so many.
    pub count: u8,
}

impl PresentmentNumber {
    /// The only and final presentment.
    pub const ONLY: Self = Self { number: 1, count: 1 };

    /// Whether no further one is announced.
    #[must_use]
    pub const fn is_final(self) -> bool {
        self.number >= self.count
    }
}

/// Settles a purchase.
#[derive(Clone, Debug)]
pub struct Present {
    /// The purchase; card and merchant are used where no original is found. HTTP may leave the
    /// card out when it names the transaction.
    pub facts: Option<PurchaseFacts>,
    /// How much, in the account's currency or with a billing amount; the open hold where absent.
    pub amounts: Option<MessageAmounts>,
    /// Which authorization.
    pub original: OriginalRef,
    /// Which presentment of it.
    pub number: PresentmentNumber,
}

/// Gives money back to a card.
#[derive(Clone, Debug)]
pub struct Refund {
    /// The refund.
    pub facts: PurchaseFacts,
    /// The purchase it gives back, if it names one.
    pub original: OriginalRef,
}

/// Asks for what is left on a card.
#[derive(Clone, Debug)]
pub struct InquireBalance {
    /// The card.
    pub card: CardRef,
    /// What the cardholder proved.
    pub credentials: PresentedCredentials,
}

/// Whether a transfer's money is there at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferTiming {
    /// It is in transit until it is settled or comes back.
    InTransit,
    /// It settles in the same step.
    AtOnce,
}

/// Moves money between the company's bank and its account.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// The account.
    pub account: AccountId,
    /// Which way.
    pub direction: TransferDirection,
    /// How much; above zero.
    pub amount: Minor,
    /// The far end.
    pub bank_account: BankAccount,
    /// When it is there.
    pub timing: TransferTiming,
}

/// What becomes of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferConclusion {
    /// The money has arrived.
    Settle,
    /// The money comes back: out of transit, or by a compensating line.
    Return,
}

/// Concludes a transfer.
#[derive(Clone, Copy, Debug)]
pub struct ConcludeTransfer {
    /// Which one.
    pub transaction: TransactionId,
    /// How.
    pub conclusion: TransferConclusion,
}
