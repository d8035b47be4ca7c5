//! The answers of this door as the published document shows them. `answers` writes them by hand, for
//! speed; its tests and those of the document hold these to them.

use utoipa::ToSchema;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use uuid::Uuid;

use cardswitch_wire::amount::Amount;
use cardswitch_wire::words::{RuleName, one_of};

/// The answer to an authorization, an increment or an advice.
#[derive(ToSchema)]
pub(super) struct AuthorizationAnswer {
    /// The transaction; null where none was made.
    transaction_id: Option<Uuid>,
    /// 0 where it was approved.
    response_code: u16,
    /// More on why not.
    sub_reason: Option<String>,
    /// Whether it was approved.
    approved: bool,
    /// How much of it.
    approved_amount: Amount,
    /// What later messages name it by.
    authorization_id: Option<String>,
    /// Every rule that failed, the deciding one first.
    failed_rules: Vec<RuleName>,
    /// What the allowance still has.
    allowance_balance: Option<Amount>,
}

/// The answer to a balance inquiry.
#[derive(ToSchema)]
pub(super) struct BalanceAnswer {
    /// 0 where it was approved.
    response_code: u16,
    /// Whether it was approved.
    approved: bool,
    /// Every rule that failed, the deciding one first.
    failed_rules: Vec<RuleName>,
    /// What the allowance still has.
    allowance_balance: Option<Amount>,
}

/// The answer to an authorization or a balance inquiry.
#[derive(ToSchema)]
#[serde(untagged)]
pub(super) enum CardUseAnswer {
    Authorization(AuthorizationAnswer),
    Balance(BalanceAnswer),
}

/// The answer to a reversal.
#[derive(ToSchema)]
pub(super) struct ReversalAnswer {
    /// The transaction; null where none is known.
    transaction_id: Option<Uuid>,
    /// 0 where it was reversed.
    response_code: u16,
    /// What came of it.
    #[schema(schema_with = reversal_outcomes)]
    outcome: String,
    /// How much was given back.
    given_back: Amount,
    /// How much is still held.
    remaining: Amount,
    /// What the allowance still has.
    allowance_balance: Option<Amount>,
}

fn reversal_outcomes() -> RefOr<Schema> {
    let words = ["reversed", "not_found", "nothing_held", "amount_out_of_range"];
    one_of("What came of it.", words)
}

/// The answer to a presentment or a refund.
#[derive(ToSchema)]
pub(super) struct PostingAnswer {
    /// The transaction; null where none is known.
    transaction_id: Option<Uuid>,
    /// 0 where it was posted.
    response_code: u16,
    /// What came of it.
    #[schema(schema_with = posting_outcomes)]
    outcome: String,
    /// How much was posted.
    posted: Amount,
    /// What the allowance still has.
    allowance_balance: Option<Amount>,
}

fn posting_outcomes() -> RefOr<Schema> {
    one_of("What came of it.", ["posted", "unknown_card", "not_found", "out_of_bounds"])
}

/// The answer to a transfer, and to its end.
#[derive(ToSchema)]
pub(super) struct TransferAnswer {
    /// The transaction.
    transaction_id: Option<Uuid>,
    /// 0 where it was approved.
    response_code: u16,
    /// Whether it was approved.
    approved: bool,
    /// What came of it.
    #[schema(schema_with = transfer_outcomes)]
    outcome: String,
    /// What the account still has.
    available_balance: Amount,
}

fn transfer_outcomes() -> RefOr<Schema> {
    one_of("What came of it.", ["in_transit", "settled", "returned", "declined"])
}
