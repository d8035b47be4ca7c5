//! From the engine's reply to a body. Approvals and declines alike are answers, not errors.
//!
//! | to | fields |
//! |---|---|
//! | authorizations, advices | transaction_id, response_code, sub_reason, approved, approved_amount, authorization_id, failed_rules, allowance_balance |
//! | reversals | transaction_id, response_code, outcome, given_back, remaining, allowance_balance |
//! | presentments, refunds | transaction_id, response_code, outcome, posted, allowance_balance |
//! | transfers | transaction_id, response_code, approved, outcome, available_balance |
//! | balance inquiries | response_code, approved, failed_rules, allowance_balance |
//!
//! The bodies are written by hand: they are short, always of the same form, and the most frequent
//! thing this door does.

use cardswitch_engine::command::reply::{
    AuthorizationReply, BalanceReply, NetworkReply, PostingOutcome, PostingReply, Reply,
    ReversalOutcome, ReversalReply, TransferOutcome, TransferReply,
};
use cardswitch_engine::decision::RuleSet;
use cardswitch_engine::domain::ids::TransactionId;
use cardswitch_engine::domain::money::{CurrencyCode, Minor};
use cardswitch_engine::domain::response_code::{ResponseCode, SubReason};
use uuid::Uuid;

use cardswitch_edge::error::ApiError;
use cardswitch_wire::amount::{write_amount, write_number};
use cardswitch_wire::fault::Flaw;

/// About the longest body. Units: bytes.
const BODY_BYTES_USUAL: usize = 320;

/// Renders a reply. `currency` stands in where the reply knows of no account.
/// Errors: the request cannot be carried out as it is, was sent before with other content, or its
/// outcome is unknown.
pub(super) fn render_reply(reply: &Reply, currency: CurrencyCode) -> Result<String, ApiError> {
    let Reply::Network(reply) = reply else { return Err(ApiError::outcome_unknown()) };
    match reply {
        NetworkReply::Authorization(reply) => Ok(authorization_body(reply, currency)),
        NetworkReply::Reversal(reply) => Ok(reversal_body(reply, currency)),
        NetworkReply::Posting(reply) => Ok(posting_body(reply, currency)),
        NetworkReply::Balance(reply) => Ok(balance_body(reply)),
        NetworkReply::Transfer(reply) => transfer_body(reply),
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
        _ => ApiError::invalid_field(
            "amount",
            Flaw::new("out_of_bounds", "is beyond what can be carried out"),
        ),
    }
}

fn authorization_body(reply: &AuthorizationReply, stand_in: CurrencyCode) -> String {
    let currency = known_currency(reply.transaction, reply.currency, stand_in);
    let mut body = BodyWriter::new();
    body.id("transaction_id", reply.transaction);
    body.code(reply.response_code);
    body.word("sub_reason", reply.sub_reason.text());
    body.flag("approved", reply.response_code.is_approved());
    body.amount("approved_amount", Some(reply.approved), currency);
    let authorization_id = reply.authorization_id.as_ref();
    body.word("authorization_id", authorization_id.and_then(|id| str::from_utf8(&id.0).ok()));
    body.rules(reply.failed_rules);
    body.amount("allowance_balance", balance(reply.transaction, reply.allowance_balance), currency);
    body.finish()
}

fn reversal_body(reply: &ReversalReply, stand_in: CurrencyCode) -> String {
    let currency = known_currency(reply.transaction, reply.currency, stand_in);
    let (code, outcome) = match reply.outcome {
        ReversalOutcome::Reversed => (ResponseCode::Approved, "reversed"),
        ReversalOutcome::NotFound => (ResponseCode::Declined, "not_found"),
        ReversalOutcome::NothingHeld => (ResponseCode::Declined, "nothing_held"),
        ReversalOutcome::AmountOutOfRange => (ResponseCode::Declined, "amount_out_of_range"),
    };
    let mut body = BodyWriter::new();
    body.id("transaction_id", reply.transaction);
    body.code(code);
    body.word("outcome", Some(outcome));
    body.amount("given_back", Some(reply.given_back), currency);
    body.amount("remaining", Some(reply.remaining), currency);
    body.amount("allowance_balance", balance(reply.transaction, reply.allowance_balance), currency);
    body.finish()
}

fn posting_body(reply: &PostingReply, stand_in: CurrencyCode) -> String {
    let currency = known_currency(reply.transaction, reply.currency, stand_in);
    let (code, outcome) = match reply.outcome {
        PostingOutcome::Posted => (ResponseCode::Approved, "posted"),
        PostingOutcome::UnknownCard => (ResponseCode::Declined, "unknown_card"),
        PostingOutcome::NotFound => (ResponseCode::Declined, "not_found"),
        PostingOutcome::OutOfBounds => (ResponseCode::Declined, "out_of_bounds"),
    };
    let mut body = BodyWriter::new();
    body.id("transaction_id", reply.transaction);
    body.code(code);
    body.word("outcome", Some(outcome));
    body.amount("posted", Some(reply.posted), currency);
    body.amount("allowance_balance", balance(reply.transaction, reply.allowance_balance), currency);
    body.finish()
}

/// Errors: no such account or transfer; it cannot be concluded so; its amount is out of bounds.
fn transfer_body(reply: &TransferReply) -> Result<String, ApiError> {
    let outcome = match reply.outcome {
        TransferOutcome::InTransit => "in_transit",
        TransferOutcome::Settled => "settled",
        TransferOutcome::Returned => "returned",
        TransferOutcome::Declined => "declined",
        TransferOutcome::NotFound => return Err(ApiError::not_found()),
        TransferOutcome::WrongState => return Err(ApiError::transfer_concluded()),
        TransferOutcome::OutOfBounds => return Err(format_error(SubReason::OutOfBounds)),
    };
    let mut body = BodyWriter::new();
    body.id("transaction_id", reply.transaction);
    body.code(reply.response_code);
    body.flag("approved", reply.response_code.is_approved());
    body.word("outcome", Some(outcome));
    body.amount("available_balance", Some(reply.available_balance), reply.currency);
    Ok(body.finish())
}

fn balance_body(reply: &BalanceReply) -> String {
    let approved = reply.response_code.is_approved();
    let mut body = BodyWriter::new();
    body.code(reply.response_code);
    body.flag("approved", approved);
    body.rules(reply.failed_rules);
    let balance = approved.then_some(reply.allowance_balance);
    body.amount("allowance_balance", balance, reply.currency);
    body.finish()
}

/// The account's currency; a reply about no transaction knows none.
fn known_currency(
    transaction: Option<TransactionId>,
    currency: CurrencyCode,
    stand_in: CurrencyCode,
) -> CurrencyCode {
    if transaction.is_some() { currency } else { stand_in }
}

/// What the allowance still has; none where no card is known.
fn balance(transaction: Option<TransactionId>, balance: Minor) -> Option<Minor> {
    transaction.map(|_| balance)
}

/// Writes one JSON object.
/// INVARIANT: names and words are ASCII letters, digits and underscores, which JSON has as they are.
struct BodyWriter {
    json: String,
}

impl BodyWriter {
    fn new() -> Self {
        let mut json = String::with_capacity(BODY_BYTES_USUAL);
        json.push('{');
        Self { json }
    }

    fn finish(mut self) -> String {
        self.json.push('}');
        self.json
    }

    fn name(&mut self, name: &str) {
        if self.json.len() > 1 {
            self.json.push(',');
        }
        self.quoted(name);
        self.json.push(':');
    }

    fn quoted(&mut self, word: &str) {
        debug_assert!(word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'));
        self.json.push('"');
        self.json.push_str(word);
        self.json.push('"');
    }

    fn id(&mut self, name: &str, id: Option<TransactionId>) {
        self.name(name);
        let Some(TransactionId(id)) = id else { return self.json.push_str("null") };
        let mut text = Uuid::encode_buffer();
        self.json.push('"');
        self.json.push_str(id.hyphenated().encode_lower(&mut text));
        self.json.push('"');
    }

    fn code(&mut self, code: ResponseCode) {
        self.name("response_code");
        write_number(&mut self.json, u64::from(code.number()), 1);
    }

    fn word(&mut self, name: &str, word: Option<&str>) {
        self.name(name);
        match word {
            Some(word) => self.quoted(word),
            None => self.json.push_str("null"),
        }
    }

    fn flag(&mut self, name: &str, flag: bool) {
        self.name(name);
        self.json.push_str(if flag { "true" } else { "false" });
    }

    fn amount(&mut self, name: &str, amount: Option<Minor>, currency: CurrencyCode) {
        self.name(name);
        match amount {
            Some(amount) => write_amount(&mut self.json, amount, currency),
            None => self.json.push_str("null"),
        }
    }

    fn rules(&mut self, failed: RuleSet) {
        self.name("failed_rules");
        self.json.push('[');
        for (place, rule) in failed.iter().enumerate() {
            if place > 0 {
                self.json.push(',');
            }
            self.quoted(rule.name());
        }
        self.json.push(']');
    }
}

#[cfg(test)]
mod tests {
    use cardswitch_engine::decision::Rule;
    use cardswitch_engine::domain::network_key::AuthorizationId;
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
                    r#"{"response_code":0,"approved":true,"failed_rules":[],"#,
                    r#""allowance_balance":1234.56}"#,
                ),
            ),
        ];
        for (reply, expected) in rows {
            assert_eq!(rendered(reply), expected);
        }
    }
}
