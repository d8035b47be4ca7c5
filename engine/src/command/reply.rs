//! Replies of the shard. A refusal is a value; only a broken shard is a failure.

use serde::{Deserialize, Serialize};

use crate::decision::RuleSet;
use crate::domain::card::DimensionKind;
use crate::domain::enumeration::enumeration;
use crate::domain::ids::{RecordSeq, TransactionId};
use crate::domain::money::{CurrencyCode, Minor};
use crate::domain::network_key::AuthorizationId;
use crate::domain::response_code::{ResponseCode, SubReason};

/// The reply to a command, released once all data it shows are durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The reply to a network message.
    Network(NetworkReply),
    /// Success of an admin change; tables show it from this record on.
    Done(RecordSeq),
    /// Refusal of an admin change, which changed nothing.
    Rejected(Rejection),
    /// Success of a tick.
    Ticked,
    /// Failure of the journal: the outcome is unknown until the switch restarts.
    OutcomeUnknown,
}

/// The reply to a network message; kept with its key, so that a repeat gets the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NetworkReply {
    /// The reply to an authorization or advice.
    Authorization(AuthorizationReply),
    /// The reply to a reversal.
    Reversal(ReversalReply),
    /// The reply to a presentment or refund.
    Posting(PostingReply),
    /// The reply to a balance inquiry.
    Balance(BalanceReply),
    /// The key is known with other content; nothing changed. Source: ISO DE39 94.
    Conflict,
    /// The message cannot be carried out as it is. Source: ISO DE39 30.
    FormatError(SubReason),
    /// The reply to a transfer.
    Transfer(TransferReply),
}

/// The reply to an authorization or advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthorizationReply {
    /// The transaction; none for an unknown card.
    pub transaction: Option<TransactionId>,
    /// The approval, or the cause of its absence.
    pub response_code: ResponseCode,
    /// The exact cause.
    pub sub_reason: SubReason,
    /// Every rule that failed.
    pub failed_rules: RuleSet,
    /// The approved amount, in the account's currency.
    pub approved: Minor,
    /// The authorization's id, for approvals.
    pub authorization_id: Option<AuthorizationId>,
    /// The rest of the allowance.
    pub allowance_balance: Minor,
    /// The account's currency.
    pub currency: CurrencyCode,
}

enumeration! {
    /// The outcome of a reversal.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub enum ReversalOutcome {
        /// Executed now, or before.
        Reversed => "reversed",
        /// No purchase to reverse is known; the reversal is remembered, in case the purchase comes
        /// later.
        /// Source: ISO DE39 25.
        NotFound => "not_found",
        /// The hold is empty and a part was posted, or refunds have given back all that was posted. Source: ISO
        /// DE39 21.
        NothingHeld => "nothing_held",
        /// The amount to keep or to give back is above the held amount. Source: ISO DE39 30.
        AmountOutOfRange => "amount_out_of_range",
    }
}

impl ReversalOutcome {
    /// Its exact code: approved where it is executed.
    pub const fn response_code(self) -> ResponseCode {
        match self {
            Self::Reversed => ResponseCode::Approved,
            Self::NotFound | Self::NothingHeld | Self::AmountOutOfRange => ResponseCode::Declined,
        }
    }
}

/// The reply to a reversal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReversalReply {
    /// The outcome.
    pub outcome: ReversalOutcome,
    /// The transaction.
    pub transaction: Option<TransactionId>,
    /// The amount given back by it.
    pub given_back: Minor,
    /// The amount still held.
    pub remaining: Minor,
    /// The rest of the allowance.
    pub allowance_balance: Minor,
    /// The account's currency.
    pub currency: CurrencyCode,
}

enumeration! {
    /// The outcome of a presentment or refund.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub enum PostingOutcome {
        /// Posted now.
        Posted => "posted",
        /// Posted before: nothing is posted now. Source: ISO DE39 00.
        AlreadyPosted => "already_posted",
        /// No card has this number. Source: ISO DE39 14.
        UnknownCard => "unknown_card",
        /// No transaction has this id, and no card is named to post to. Source: ISO DE39 25.
        NotFound => "not_found",
        /// The amount, or a balance after it, is beyond the ledger's range. Source: ISO DE39 30.
        OutOfBounds => "out_of_bounds",
    }
}

impl PostingOutcome {
    /// Its exact code: approved where it is posted.
    pub const fn response_code(self) -> ResponseCode {
        match self {
            Self::Posted | Self::AlreadyPosted => ResponseCode::Approved,
            Self::UnknownCard | Self::NotFound | Self::OutOfBounds => ResponseCode::Declined,
        }
    }
}

/// The reply to a presentment or refund.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PostingReply {
    /// The outcome.
    pub outcome: PostingOutcome,
    /// The transaction.
    pub transaction: Option<TransactionId>,
    /// The amount posted by it.
    pub posted: Minor,
    /// The rest of the allowance.
    pub allowance_balance: Minor,
    /// The account's currency.
    pub currency: CurrencyCode,
}

/// The reply to a balance inquiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BalanceReply {
    /// The approval, or the cause of its absence.
    pub response_code: ResponseCode,
    /// The exact cause.
    pub sub_reason: SubReason,
    /// Every rule that failed.
    pub failed_rules: RuleSet,
    /// The rest of the allowance, for approvals.
    pub allowance_balance: Minor,
    /// The account's currency.
    pub currency: CurrencyCode,
}

/// The outcome of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TransferOutcome {
    /// On its way.
    InTransit,
    /// Arrived now, or before.
    Settled,
    /// Returned now, or before.
    Returned,
    /// Refused for the cause in the response code.
    Declined,
    /// No such account, or no such transfer.
    NotFound,
    /// The state forbids the conclusion: returned and refused transfers cannot settle, refused ones
    /// cannot return.
    WrongState,
    /// The amount, or a balance after it, is beyond the ledger's range.
    OutOfBounds,
}

/// The reply to a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferReply {
    /// The outcome.
    pub outcome: TransferOutcome,
    /// The transaction.
    pub transaction: Option<TransactionId>,
    /// The approval, or the cause of its absence.
    pub response_code: ResponseCode,
    /// The account's available balance afterwards, without credit.
    pub available_balance: Minor,
    /// The account's currency.
    pub currency: CurrencyCode,
}

/// The cause of a refused admin change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The caller's company has no object of this kind with this id.
    NotFound,
    /// No such company.
    CompanyNotFound,
    /// The company is closed.
    CompanyClosed,
    /// No such card in the caller's company.
    CardNotFound,
    /// No such allowance in the caller's company.
    AllowanceNotFound,
    /// No such member in the caller's company.
    MemberNotFound,
    /// A category, department, label or location of another company, or unknown.
    DimensionNotFound(DimensionKind),
    /// A terminated card cannot change its state.
    CardTerminated,
    /// A physical card cannot become active without an assignee.
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
    /// The shard is full.
    Full,
    /// An amount is beyond the ledger's range.
    OutOfBounds,
    /// The idempotency key was used before, or by a request that is under way.
    KeyTaken,
    /// The company has reached the number of idempotency keys kept for a day.
    TooManyKeys,
    /// Cards made at once have more text than fits one record.
    CardsTooLong,
    /// A card has no room for another shared link.
    TooManySharedLinks,
    /// The company has sent the recipient as many shared links as allowed.
    TooManyLinksToAddress,
    /// A deleted member cannot change.
    MemberDeleted,
    /// Another member of the company has this code.
    MemberCodeTaken,
    /// The company would be without an administrator.
    LastAdministrator,
    /// The member holds as many cards as allowed.
    TooManyCards,
    /// The consequences of the change do not fit one record.
    TooMuchAtOnce,
    /// A decided or canceled requisition cannot change.
    RequisitionDecided,
    /// The requisition's end_time is past.
    RequisitionEnded,
    /// No such administrator or reviewer in the caller's company.
    ReviewerNotFound,
    /// The member has as many pending requisitions as allowed.
    TooManyRequisitions,
    /// Another dimension of the company and kind has this code.
    DimensionCodeTaken,
    /// No such parent of the company and kind.
    ParentNotFound,
    /// The parent stands below its future child.
    ParentCycle,
    /// The tree would have more levels than allowed.
    TreeTooDeep,
    /// One parent would have more children than allowed.
    TooManyChildren,
    /// No such transaction.
    TransactionNotFound,
    /// No such user.
    UserNotFound,
    /// The member's role does not allow the scope.
    ScopeNotAllowed,
    /// The company has sent as many links to set a password as allowed.
    TooManyPasswordLinks,
    /// No such ticket, or it was forgotten.
    TicketNotFound,
    /// The ticket was used or ended, or has expired.
    TicketSpent,
    /// The password, or a second factor, was changed since it was verified.
    PasswordChanged,
    /// The step of the one-time passwords, or a later one, was used before.
    StepUsed,
    /// No such app in the caller's company.
    AppNotFound,
    /// The app's profile differs from the one the operator has seen.
    AppChanged,
    /// A role needs an active member, and so does a session of a user who has members.
    MemberInactive,
    /// No such access token in the caller's company.
    TokenNotFound,
    /// The app or the member has as many live tokens as allowed.
    TooManyTokens,
    /// Another member of the company has this external id.
    ExternalIdTaken,
    /// The allowance would end before it starts.
    StartsAfterEnd,
    /// The company has as many webhook endpoints as allowed.
    TooManyWebhookEndpoints,
    /// As many replaced secrets of the webhook endpoint as allowed sign still.
    TooManyWebhookSecrets,
    /// The card number is sealed under a forgotten key, or, for a number sealed anew, under a key
    /// that is not the newest.
    PanKeyOutdated,
    /// No such generation of the key of card numbers, or one that is still in use.
    PanKeyUnknown,
    /// The object was changed since it was read, or may have been.
    ChangedMeanwhile,
    /// An earlier message with this time or a later one gave the door a key for this use.
    ZoneKeyRepeated,
}
