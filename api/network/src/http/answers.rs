//! From the engine's reply to a body. Approvals and declines alike are answers, not errors.
//!
//! The bodies are written by hand: they are short, always of the same form, and the most frequent
//! thing this door does. The published document shows the same bodies.

use cardswitch_engine::command::reply::{
    AuthorizationReply, BalanceReply, NetworkReply, PostingOutcome, PostingReply, Reply,
    ReversalOutcome, ReversalReply, TransferOutcome, TransferReply,
};
use cardswitch_engine::decision::RuleSet;
use cardswitch_engine::domain::ids::TransactionId;
use cardswitch_engine::domain::money::CurrencyCode;
use cardswitch_engine::domain::network_key::AuthorizationId;
use cardswitch_engine::domain::response_code::SubReason;
use utoipa::ToSchema;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use uuid::Uuid;

use cardswitch_edge::error::ApiError;
use cardswitch_wire::amount::{Amount, write_number};
use cardswitch_wire::fault::Flaw;
use cardswitch_wire::words::{RuleName, one_of};

/// About the longest body. Units: bytes.
const BODY_BYTES_USUAL: usize = 320;

/// Declares answers: the schema of each, and how it is written.
macro_rules! answers {
    ($($(#[$about:meta])+ $name:ident {
        $($(#[$field_about:meta])+ $field:ident: $type:ty,)+
    })*) => {$(
        $(#[$about])+
        #[derive(ToSchema)]
        pub(super) struct $name {
            $($(#[$field_about])+ $field: $type,)+
        }

        impl $name {
            fn render(&self) -> String {
                let mut json = String::with_capacity(BODY_BYTES_USUAL);
                $(
                    json.push(if json.is_empty() { '{' } else { ',' });
                    json.push_str(concat!('"', stringify!($field), "\":"));
                    self.$field.write(&mut json);
                )+
                json.push('}');
                json
            }
        }
    )*};
}

/// Renders a reply. `currency` stands in where the reply knows of no account.
/// Errors: the request cannot be carried out as it is, was sent before with other content, or its
/// outcome is unknown.
pub(super) fn render_reply(reply: &Reply, currency: CurrencyCode) -> Result<String, ApiError> {
    let Reply::Network(reply) = reply else { return Err(ApiError::outcome_unknown()) };
    match reply {
        NetworkReply::Authorization(reply) => {
            Ok(AuthorizationAnswer::new(reply, currency).render())
        }
        NetworkReply::Reversal(reply) => Ok(ReversalAnswer::new(reply, currency).render()),
        NetworkReply::Posting(reply) => Ok(PostingAnswer::new(reply, currency).render()),
        NetworkReply::Balance(reply) => Ok(BalanceAnswer::new(reply).render()),
        NetworkReply::Transfer(reply) => Ok(TransferAnswer::new(reply)?.render()),
        NetworkReply::Conflict => Err(ApiError::idempotency_key_reused()),
        NetworkReply::FormatError(reason) => Err(format_error(*reason)),
    }
}

fn format_error(reason: SubReason) -> ApiError {
    match reason {
        SubReason::BillingAmountMissing => {
            let message = "is required where `currency` is not the account's";
            ApiError::invalid_field("billing_amount", Flaw::new("required", message))
        }
        SubReason::NothingHeld => {
            let message = "is required where nothing is held";
            ApiError::invalid_field("amount", Flaw::new("required", message))
        }
        _ => ApiError::invalid_field(
            "amount",
            Flaw::new("out_of_bounds", "is beyond what can be carried out"),
        ),
    }
}

answers! {
    /// The answer to an authorization, an increment or an advice.
    AuthorizationAnswer {
        /// The transaction; null where none was made.
        transaction_id: Option<Uuid>,
        /// 0 where it was approved.
        response_code: u16,
        /// More on why not.
        sub_reason: Option<&'static str>,
        /// Whether it was approved.
        approved: bool,
        /// How much of it.
        approved_amount: Amount,
        /// Reference for later messages.
        #[schema(value_type = Option<String>)]
        authorization_id: Option<AuthorizationId>,
        /// Every rule that failed, the deciding one first.
        #[schema(value_type = Vec<RuleName>)]
        failed_rules: RuleSet,
        /// Amount left of the allowance.
        allowance_balance: Option<Amount>,
    }
    /// The answer to a balance inquiry.
    BalanceAnswer {
        /// 0 where it was approved.
        response_code: u16,
        /// More on why not.
        sub_reason: Option<&'static str>,
        /// Whether it was approved.
        approved: bool,
        /// Every rule that failed, the deciding one first.
        #[schema(value_type = Vec<RuleName>)]
        failed_rules: RuleSet,
        /// Amount left of the allowance.
        allowance_balance: Option<Amount>,
    }
    /// The answer to a reversal.
    ReversalAnswer {
        /// The transaction; null where none is known.
        transaction_id: Option<Uuid>,
        /// 0 where it was reversed.
        response_code: u16,
        /// Outcome.
        #[schema(schema_with = reversal_outcomes)]
        outcome: &'static str,
        /// Returned amount.
        given_back: Amount,
        /// Amount still held.
        remaining: Amount,
        /// Amount left of the allowance.
        allowance_balance: Option<Amount>,
    }
    /// The answer to a presentment or a refund.
    PostingAnswer {
        /// The transaction; null where none is known.
        transaction_id: Option<Uuid>,
        /// 0 where it was posted.
        response_code: u16,
        /// Outcome.
        #[schema(schema_with = posting_outcomes)]
        outcome: &'static str,
        /// Posted amount.
        posted: Amount,
        /// Amount left of the allowance.
        allowance_balance: Option<Amount>,
    }
    /// The answer to a transfer, and to its end.
    TransferAnswer {
        /// The transaction.
        transaction_id: Option<Uuid>,
        /// 0 where it was approved.
        response_code: u16,
        /// Whether it was approved.
        approved: bool,
        /// Outcome.
        #[schema(schema_with = transfer_outcomes)]
        outcome: &'static str,
        /// Amount left on the account.
        available_balance: Amount,
    }
}

/// The answer to an authorization or a balance inquiry.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "a shape of the published document")]
pub(super) enum CardUseAnswer {
    Authorization(AuthorizationAnswer),
    Balance(BalanceAnswer),
}

impl AuthorizationAnswer {
    fn new(reply: &AuthorizationReply, stand_in: CurrencyCode) -> Self {
        let currency = known_currency(reply.transaction, reply.currency, stand_in);
        let balance = Amount::new(reply.allowance_balance, currency);
        Self {
            transaction_id: reply.transaction.map(|id| id.0),
            response_code: reply.response_code.number(),
            sub_reason: reply.sub_reason.text(),
            approved: reply.response_code.is_approved(),
            approved_amount: Amount::new(reply.approved, currency),
            authorization_id: reply.authorization_id,
            failed_rules: reply.failed_rules,
            allowance_balance: reply.transaction.map(|_| balance),
        }
    }
}

impl BalanceAnswer {
    fn new(reply: &BalanceReply) -> Self {
        let approved = reply.response_code.is_approved();
        let balance = || Amount::new(reply.allowance_balance, reply.currency);
        Self {
            response_code: reply.response_code.number(),
            sub_reason: reply.sub_reason.text(),
            approved,
            failed_rules: reply.failed_rules,
            allowance_balance: approved.then(balance),
        }
    }
}

impl ReversalAnswer {
    fn new(reply: &ReversalReply, stand_in: CurrencyCode) -> Self {
        let currency = known_currency(reply.transaction, reply.currency, stand_in);
        let balance = Amount::new(reply.allowance_balance, currency);
        Self {
            transaction_id: reply.transaction.map(|id| id.0),
            response_code: reply.outcome.response_code().number(),
            outcome: reply.outcome.word(),
            given_back: Amount::new(reply.given_back, currency),
            remaining: Amount::new(reply.remaining, currency),
            allowance_balance: reply.transaction.map(|_| balance),
        }
    }
}

fn reversal_outcomes() -> RefOr<Schema> {
    one_of("Outcome.", ReversalOutcome::WORDS)
}

impl PostingAnswer {
    fn new(reply: &PostingReply, stand_in: CurrencyCode) -> Self {
        let currency = known_currency(reply.transaction, reply.currency, stand_in);
        let balance = Amount::new(reply.allowance_balance, currency);
        Self {
            transaction_id: reply.transaction.map(|id| id.0),
            response_code: reply.outcome.response_code().number(),
            outcome: reply.outcome.word(),
            posted: Amount::new(reply.posted, currency),
            allowance_balance: reply.transaction.map(|_| balance),
        }
    }
}

fn posting_outcomes() -> RefOr<Schema> {
    one_of("Outcome.", PostingOutcome::WORDS)
}

impl TransferAnswer {
    /// Errors: no such account or transfer; it cannot be concluded so; its amount is out of bounds.
    fn new(reply: &TransferReply) -> Result<Self, ApiError> {
        let outcome = match reply.outcome {
            TransferOutcome::InTransit => "in_transit",
            TransferOutcome::Settled => "settled",
            TransferOutcome::Returned => "returned",
            TransferOutcome::Declined => "declined",
            TransferOutcome::NotFound => return Err(ApiError::not_found()),
            TransferOutcome::WrongState => return Err(ApiError::transfer_concluded()),
            TransferOutcome::OutOfBounds => return Err(format_error(SubReason::OutOfBounds)),
        };
        Ok(Self {
            transaction_id: reply.transaction.map(|id| id.0),
            response_code: reply.response_code.number(),
            approved: reply.response_code.is_approved(),
            outcome,
            available_balance: Amount::new(reply.available_balance, reply.currency),
        })
    }
}

fn transfer_outcomes() -> RefOr<Schema> {
    one_of("Outcome.", ["in_transit", "settled", "returned", "declined"])
}

/// The account's currency; a reply about no transaction knows none.
fn known_currency(
    transaction: Option<TransactionId>,
    currency: CurrencyCode,
    stand_in: CurrencyCode,
) -> CurrencyCode {
    if transaction.is_some() { currency } else { stand_in }
}

/// A value of an answer.
trait AnswerValue {
    /// Appends it as JSON.
    fn write(&self, json: &mut String);
}

impl<T: AnswerValue> AnswerValue for Option<T> {
    fn write(&self, json: &mut String) {
        match self {
            Some(value) => value.write(json),
            None => json.push_str("null"),
        }
    }
}

impl AnswerValue for Uuid {
    fn write(&self, json: &mut String) {
        json.push('"');
        json.push_str(self.hyphenated().encode_lower(&mut Self::encode_buffer()));
        json.push('"');
    }
}

impl AnswerValue for u16 {
    fn write(&self, json: &mut String) {
        write_number(json, u64::from(*self), 1);
    }
}

impl AnswerValue for bool {
    fn write(&self, json: &mut String) {
        json.push_str(if *self { "true" } else { "false" });
    }
}

impl AnswerValue for Amount {
    fn write(&self, json: &mut String) {
        self.append_to(json);
    }
}

/// INVARIANT: words are ASCII letters, digits and underscores, which JSON has as they are.
impl AnswerValue for &str {
    fn write(&self, json: &mut String) {
        debug_assert!(self.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'));
        json.push('"');
        json.push_str(self);
        json.push('"');
    }
}

impl AnswerValue for AuthorizationId {
    fn write(&self, json: &mut String) {
        str::from_utf8(&self.0).ok().write(json);
    }
}

impl AnswerValue for RuleSet {
    fn write(&self, json: &mut String) {
        json.push('[');
        for (place, rule) in self.iter().enumerate() {
            if place > 0 {
                json.push(',');
            }
            rule.name().write(json);
        }
        json.push(']');
    }
}

#[cfg(test)]
mod tests {
    use cardswitch_engine::decision::Rule;
    use cardswitch_engine::domain::money::Minor;
    use cardswitch_engine::domain::response_code::ResponseCode;
    use serde_json::{Value, json};

    use super::*;

    const USD: CurrencyCode = CurrencyCode(840);
    const TRANSACTION: Option<TransactionId> = Some(TransactionId(Uuid::from_u128(7)));

    fn rendered(reply: NetworkReply) -> String {
        render_reply(&Reply::Network(reply), USD).unwrap()
    }

    fn authorization() -> AuthorizationReply {
        AuthorizationReply {
            transaction: TRANSACTION,
            response_code: ResponseCode::Approved,
            sub_reason: SubReason::None,
            failed_rules: RuleSet::EMPTY,
            approved: Minor(1_250),
            authorization_id: Some(AuthorizationId(*b"A1B2C3")),
            allowance_balance: Minor(-5),
            currency: USD,
        }
    }

    #[test]
    fn an_approval_has_every_field_in_its_order() {
        let expected = concat!(
            r#"{"transaction_id":"00000000-0000-0000-0000-000000000007","response_code":0,"#,
            r#""sub_reason":null,"approved":true,"approved_amount":12.50,"#,
            r#""authorization_id":"A1B2C3","failed_rules":[],"allowance_balance":-0.05}"#,
        );
        assert_eq!(rendered(NetworkReply::Authorization(authorization())), expected);
    }

    #[test]
    fn every_rule_and_reason_is_well_formed_json() {
        let mut failed = RuleSet::EMPTY;
        Rule::ALL.iter().for_each(|rule| failed.insert_if(*rule, true));
        for (reason, expected) in
            [(SubReason::None, Value::Null), (SubReason::UnknownCard, json!("unknown_card"))]
        {
            let declined = AuthorizationReply {
                transaction: None,
                response_code: ResponseCode::Declined,
                sub_reason: reason,
                failed_rules: failed,
                authorization_id: None,
                currency: CurrencyCode(392),
                ..authorization()
            };
            let body: Value =
                serde_json::from_str(&rendered(NetworkReply::Authorization(declined))).unwrap();
            let names: Vec<_> = failed.iter().map(Rule::name).collect();
            assert_eq!(body["failed_rules"], json!(names));
            assert_eq!((&body["sub_reason"], &body["response_code"]), (&expected, &json!(1000)));
            assert_eq!(body["approved_amount"], json!(12.5), "no account, so the stand-in's");
            assert_eq!(body["allowance_balance"], Value::Null);
        }
    }

    #[test]
    fn the_other_bodies_have_every_field_in_their_order() {
        let reversal = ReversalReply {
            outcome: ReversalOutcome::AmountOutOfRange,
            transaction: TRANSACTION,
            given_back: Minor(100),
            remaining: Minor::ZERO,
            allowance_balance: Minor(7),
            currency: CurrencyCode(392),
        };
        let posting = PostingReply {
            outcome: PostingOutcome::Posted,
            transaction: None,
            posted: Minor(1),
            allowance_balance: Minor(7),
            currency: USD,
        };
        let balance = BalanceReply {
            response_code: ResponseCode::Approved,
            sub_reason: SubReason::None,
            failed_rules: RuleSet::EMPTY,
            allowance_balance: Minor(123_456),
            currency: USD,
        };
        let rows = [
            (
                NetworkReply::Reversal(reversal),
                concat!(
                    r#"{"transaction_id":"00000000-0000-0000-0000-000000000007","#,
                    r#""response_code":1000,"outcome":"amount_out_of_range","#,
                    r#""given_back":100,"remaining":0,"allowance_balance":7}"#,
                ),
            ),
            (
                NetworkReply::Posting(posting),
                concat!(
                    r#"{"transaction_id":null,"response_code":0,"outcome":"posted","#,
                    r#""posted":0.01,"allowance_balance":null}"#,
                ),
            ),
            (
                NetworkReply::Balance(balance),
                concat!(
                    r#"{"response_code":0,"sub_reason":null,"approved":true,"failed_rules":[],"#,
                    r#""allowance_balance":1234.56}"#,
                ),
            ),
        ];
        for (reply, expected) in rows {
            assert_eq!(rendered(reply), expected);
        }
    }
}
