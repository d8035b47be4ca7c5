//! What the shard answers. A refusal is a value; only a broken shard is a failure.

use serde::{Deserialize, Serialize};

use crate::decision::RuleSet;
use crate::domain::ids::{RecordSeq, TransactionId};
use crate::domain::money::{CurrencyCode, Minor};
use crate::domain::network_key::AuthorizationId;
use crate::domain::response_code::{ResponseCode, SubReason};

/// The answer to a command, released once everything it shows is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// To the network.
    Network(NetworkReply),
    /// An admin change was made; tables show it from this record on.
    Done(RecordSeq),
    /// An admin change was refused and nothing changed.
    Rejected(Rejection),
    /// The clock was moved.
    Ticked,
    /// The journal failed: whether the change happened is unknown until the switch restarts.
    OutcomeUnknown,
}

/// The answer to a network message; kept with its key, so that a repeat gets the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NetworkReply {
    /// To an authorization or advice.
    Authorization(AuthorizationReply),
    /// To a reversal.
    Reversal(ReversalReply),
    /// To a presentment or refund.
    Posting(PostingReply),
    /// To a balance inquiry.
    Balance(BalanceReply),
    /// The key is known with other content; nothing changed. Source: ISO DE39 94.
    Conflict,
    /// The message cannot be carried out as it is. Source: ISO DE39 30.
    FormatError(SubReason),
    /// To a transfer.
    Transfer(TransferReply),
}

/// The answer to an authorization or advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthorizationReply {
    /// The transaction; none for an unknown card.
    pub transaction: Option<TransactionId>,
    /// Approved, or why not.
    pub response_code: ResponseCode,
    /// Why exactly.
    pub sub_reason: SubReason,
    /// Every rule that failed.
    pub failed_rules: RuleSet,
    /// What was approved, in the account's currency.
    pub approved: Minor,
    /// The authorization's id, for approvals.
    pub authorization_id: Option<AuthorizationId>,
    /// What is left of the allowance.
    pub allowance_balance: Minor,
    /// The account's currency.
    pub currency: CurrencyCode,
}

/// What became of a reversal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReversalOutcome {
    /// Carried out, or was before.
    Reversed,
    /// Nothing to reverse is known; remembered, in case the purchase comes later.
    /// Source: ISO DE39 25.
    NotFound,
    /// Nothing is held any more and something was posted. Source: ISO DE39 21.
    NothingHeld,
    /// More was to stay or be given back than is held. Source: ISO DE39 30.
    AmountOutOfRange,
}

/// The answer to a reversal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReversalReply {
    /// What became of it.
    pub outcome: ReversalOutcome,
    /// Which transaction.
    pub transaction: Option<TransactionId>,
    /// What was given back by it.
    pub given_back: Minor,
    /// What is still held.
    pub remaining: Minor,
    /// What is left of the allowance.
    pub allowance_balance: Minor,
    /// The account's currency.
    pub currency: CurrencyCode,
}

/// What became of a presentment or refund.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PostingOutcome {
    /// Posted, or was before.
    Posted,
    /// No card has this number. Source: ISO DE39 14.
    UnknownCard,
    /// No transaction has this id, and no card is named to post to. Source: ISO DE39 25.
    NotFound,
    /// The amount, or a balance after it, is beyond what the ledger holds. Source: ISO DE39 30.
    OutOfBounds,
}

/// The answer to a presentment or refund.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PostingReply {
    /// What became of it.
    pub outcome: PostingOutcome,
    /// Which transaction.
    pub transaction: Option<TransactionId>,
    /// What was posted by it.
    pub posted: Minor,
    /// What is left of the allowance.
    pub allowance_balance: Minor,
    /// The account's currency.
    pub currency: CurrencyCode,
}

/// The answer to a balance inquiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BalanceReply {
    /// Approved, or why not.
    pub response_code: ResponseCode,
    /// Why exactly.
    pub sub_reason: SubReason,
    /// Every rule that failed.
    pub failed_rules: RuleSet,
    /// What is left of the allowance, for approvals.
    pub allowance_balance: Minor,
    /// The account's currency.
    pub currency: CurrencyCode,
}

/// What became of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TransferOutcome {
    /// On its way.
    InTransit,
    /// Arrived, or had before.
    Settled,
    /// Came back, or had before.
    Returned,
    /// Refused; the response code says why.
    Declined,
    /// No such account, or no such transfer.
    NotFound,
    /// What came back, or was refused, cannot settle, and what was refused cannot come back.
    WrongState,
    /// The amount, or a balance after it, is beyond what the ledger holds.
    OutOfBounds,
}

/// The answer to a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferReply {
    /// What became of it.
    pub outcome: TransferOutcome,
    /// Which transaction.
    pub transaction: Option<TransactionId>,
    /// Approved, or why not.
    pub response_code: ResponseCode,
    /// What the account may spend without credit afterwards.
    pub available_balance: Minor,
    /// The account's currency.
    pub currency: CurrencyCode,
}

/// Why an admin change was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The caller's company has nothing of this kind with this id.
    NotFound,
    /// No such company.
    CompanyNotFound,
    /// No such card in the caller's company.
    CardNotFound,
    /// No such allowance in the caller's company.
    AllowanceNotFound,
    /// No such member in the caller's company.
    MemberNotFound,
    /// A category, department, label or location that is not the company's.
    DimensionNotFound,
    /// A terminated card changes its state no more.
    CardTerminated,
    /// A physical card is activated only for somebody.
    AssigneeMissing,
    /// The allowance's end_time is past.
    AllowanceEnded,
    /// A reset needs an allowance without an interval.
    ResetNeedsNoInterval,
    /// Another member of the company, or another user, has this e-mail address.
    EmailTaken,
    /// The id is in use.
    IdTaken,
    /// The card number is in use; draw another.
    CardNumberTaken,
    /// No more room in the shard.
    Full,
    /// An amount is beyond what the ledger holds.
    OutOfBounds,
    /// The idempotency key was used before, or by a request that is under way.
    KeyTaken,
    /// The company has used as many idempotency keys in a day as are kept.
    TooManyKeys,
    /// Cards made at once have more text than one record takes.
    CardsTooLong,
    /// A card has no room for another shared link.
    TooManySharedLinks,
    /// A deleted member changes no more.
    MemberDeleted,
    /// Another member of the company has this code.
    MemberCodeTaken,
    /// Without this member nobody would administer the company.
    LastAdministrator,
    /// The member holds as many cards as one may.
    TooManyCards,
    /// What follows from the change is more than one record takes.
    TooMuchAtOnce,
    /// A requisition changes no more once it was approved, denied or taken back.
    RequisitionDecided,
    /// The requisition's end_time is past.
    RequisitionEnded,
    /// No such administrator or reviewer in the caller's company.
    ReviewerNotFound,
    /// The member has as many pending requisitions as one may.
    TooManyRequisitions,
    /// Another one of the company and kind has this code.
    DimensionCodeTaken,
    /// No such parent of the company and kind.
    ParentNotFound,
    /// The parent stands below what is to stand below it.
    ParentCycle,
    /// The tree would have more levels than it may.
    TreeTooDeep,
    /// One parent would have more children than it may.
    TooManyChildren,
    /// No such transaction.
    TransactionNotFound,
    /// No such user.
    UserNotFound,
    /// No such ticket, or it was forgotten.
    TicketNotFound,
    /// The ticket was used or ended, or has expired.
    TicketSpent,
    /// The password, or a second factor, is another than when the password was proven.
    PasswordChanged,
    /// The step of the one-time passwords, or a later one, was used before.
    StepUsed,
    /// No such app in the caller's company.
    AppNotFound,
    /// The app's profile is another than the operator has seen.
    AppChanged,
    /// A role is for members who take part.
    MemberInactive,
    /// No such access token in the caller's company.
    TokenNotFound,
    /// So many tokens of the app or the member open something that there is no room for another.
    TooManyTokens,
    /// Another member of the company has this external id.
    ExternalIdTaken,
    /// The allowance would end before it starts.
    StartsAfterEnd,
    /// The company has as many webhook endpoints as one may.
    TooManyWebhookEndpoints,
    /// The card number is sealed under a key that was forgotten or, where it is sealed anew, under
    /// another one than the newest.
    PanKeyOutdated,
    /// No such generation of the key of card numbers, or one that is still of use.
    PanKeyUnknown,
    /// A message of this time or a later one gave the door a key for this use before.
    ZoneKeyRepeated,
}
