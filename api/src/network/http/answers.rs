//! From the engine's reply to a body. Approvals and declines alike are answers, not errors.

use cardswitch_engine::command::reply::{
    AuthorizationReply, BalanceReply, NetworkReply, PostingOutcome, PostingReply, Reply,
    ReversalOutcome, ReversalReply,
};
use cardswitch_engine::decision::Rule;
use cardswitch_engine::domain::ids::TransactionId;
use cardswitch_engine::domain::money::{CurrencyCode, Minor};
use cardswitch_engine::domain::response_code::{ResponseCode, SubReason};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use uuid::Uuid;

use crate::error::ApiError;
use crate::network::marks::render_authorization_id;
use crate::wire::amount::Amount;
use crate::wire::fault::Flaw;

/// The answer to an authorization or advice.
#[derive(Serialize)]
struct AuthorizationBody {
    transaction_id: Option<Uuid>,
    response_code: u16,
    sub_reason: Option<&'static str>,
    approved: bool,
    approved_amount: Amount,
    authorization_id: Option<String>,
    failed_rules: Vec<&'static str>,
    /// None where no card is known.
    allowance_balance: Option<Amount>,
}

/// The answer to a reversal.
#[derive(Serialize)]
struct ReversalBody {
    transaction_id: Option<Uuid>,
    response_code: u16,
    outcome: &'static str,
    given_back: Amount,
    remaining: Amount,
    allowance_balance: Option<Amount>,
}

/// The answer to a presentment or refund.
#[derive(Serialize)]
struct PostingBody {
    transaction_id: Option<Uuid>,
    response_code: u16,
    outcome: &'static str,
    posted: Amount,
    allowance_balance: Option<Amount>,
}

/// The answer to a balance inquiry.
#[derive(Serialize)]
struct BalanceBody {
    response_code: u16,
    approved: bool,
    failed_rules: Vec<&'static str>,
    allowance_balance: Option<Amount>,
}

/// Renders a reply. `currency` stands in where the reply knows of no account.
/// Errors: the request cannot be carried out as it is, was sent before with other content, or its
/// outcome is unknown.
pub(super) fn render_reply(
    reply: &Reply,
    currency: CurrencyCode,
) -> Result<Box<RawValue>, ApiError> {
    let Reply::Network(reply) = reply else { return Err(ApiError::outcome_unknown()) };
    match reply {
        NetworkReply::Authorization(reply) => to_json(&authorization_body(reply, currency)),
        NetworkReply::Reversal(reply) => to_json(&reversal_body(reply, currency)),
        NetworkReply::Posting(reply) => to_json(&posting_body(reply, currency)),
        NetworkReply::Balance(reply) => to_json(&balance_body(reply)),
        NetworkReply::Conflict => Err(ApiError::idempotency_key_reused()),
        NetworkReply::FormatError(reason) => Err(format_error(*reason)),
    }
}

/// A body as text: amounts keep their digits, which a `Value` would turn into binary fractions.
pub(super) fn to_json(body: &impl Serialize) -> Result<Box<RawValue>, ApiError> {
    to_raw_value(body).map_err(|error| ApiError::internal(&error))
}

fn format_error(reason: SubReason) -> ApiError {
    match reason {
        SubReason::BillingAmountMissing => {
            let message = "is required where `currency` is not the account's";
            ApiError::invalid_field("billing_amount", Flaw::new("required", message))
        }
        _ => ApiError::invalid_field(
            "amount",
            Flaw::new("out_of_bounds", "is beyond what can be carried out"),
        ),
    }
}

fn authorization_body(reply: &AuthorizationReply, stand_in: CurrencyCode) -> AuthorizationBody {
    let currency = known_currency(reply.transaction, reply.currency, stand_in);
    AuthorizationBody {
        transaction_id: reply.transaction.map(|id| id.0),
        response_code: reply.response_code.number(),
        sub_reason: reply.sub_reason.text(),
        approved: reply.response_code.is_approved(),
        approved_amount: Amount::new(reply.approved, currency),
        authorization_id: reply.authorization_id.map(render_authorization_id),
        failed_rules: reply.failed_rules.iter().map(Rule::name).collect(),
        allowance_balance: balance(reply.transaction, reply.allowance_balance, currency),
    }
}

fn reversal_body(reply: &ReversalReply, stand_in: CurrencyCode) -> ReversalBody {
    let currency = known_currency(reply.transaction, reply.currency, stand_in);
    let (code, outcome) = match reply.outcome {
        ReversalOutcome::Reversed => (ResponseCode::Approved, "reversed"),
        ReversalOutcome::NotFound => (ResponseCode::Declined, "not_found"),
        ReversalOutcome::NothingHeld => (ResponseCode::Declined, "nothing_held"),
        ReversalOutcome::AmountOutOfRange => (ResponseCode::Declined, "amount_out_of_range"),
    };
    ReversalBody {
        transaction_id: reply.transaction.map(|id| id.0),
        response_code: code.number(),
        outcome,
        given_back: Amount::new(reply.given_back, currency),
        remaining: Amount::new(reply.remaining, currency),
        allowance_balance: balance(reply.transaction, reply.allowance_balance, currency),
    }
}

fn posting_body(reply: &PostingReply, stand_in: CurrencyCode) -> PostingBody {
    let currency = known_currency(reply.transaction, reply.currency, stand_in);
    let (code, outcome) = match reply.outcome {
        PostingOutcome::Posted => (ResponseCode::Approved, "posted"),
        PostingOutcome::UnknownCard => (ResponseCode::Declined, "unknown_card"),
        PostingOutcome::NotFound => (ResponseCode::Declined, "not_found"),
        PostingOutcome::OutOfBounds => (ResponseCode::Declined, "out_of_bounds"),
    };
    PostingBody {
        transaction_id: reply.transaction.map(|id| id.0),
        response_code: code.number(),
        outcome,
        posted: Amount::new(reply.posted, currency),
        allowance_balance: balance(reply.transaction, reply.allowance_balance, currency),
    }
}

fn balance_body(reply: &BalanceReply) -> BalanceBody {
    let approved = reply.response_code.is_approved();
    BalanceBody {
        response_code: reply.response_code.number(),
        approved,
        failed_rules: reply.failed_rules.iter().map(Rule::name).collect(),
        allowance_balance: approved.then(|| Amount::new(reply.allowance_balance, reply.currency)),
    }
}

/// The account's currency; a reply about no transaction knows none.
fn known_currency(
    transaction: Option<TransactionId>,
    currency: CurrencyCode,
    stand_in: CurrencyCode,
) -> CurrencyCode {
    if transaction.is_some() { currency } else { stand_in }
}

fn balance(
    transaction: Option<TransactionId>,
    balance: Minor,
    currency: CurrencyCode,
) -> Option<Amount> {
    transaction.map(|_| Amount::new(balance, currency))
}
