//! The outcome of an authorization, in a few words. Source: spec "Response codes".

use cardswitch_engine::domain::response_code::{ResponseCode, SubReason};
use cardswitch_engine::domain::transaction::TransactionRecord;
use cardswitch_wire::glossary::{capitalized, deciding_rule, entry};

/// The cause of a decline: by the rule that decided it, else by the response code.
pub(crate) fn decline_words(record: &TransactionRecord) -> String {
    match (deciding_rule(record), record.sub_reason) {
        (Some(rule), _) => capitalized(entry(rule).people.failed),
        (None, SubReason::DeclinedByNetwork) => "Declined by the card network".to_owned(),
        (None, SubReason::BillingAmountMissing) => {
            "Amount in the card’s currency missing".to_owned()
        }
        (None, _) => outcome_words(record.response_code).to_owned(),
    }
}

/// The outcome of an authorization: approved, or what every rule of its code has in common.
/// Source: the table of rules in the engine.
pub(crate) const fn outcome_words(code: ResponseCode) -> &'static str {
    match code {
        ResponseCode::Approved => "Approved",
        ResponseCode::Declined => "Card closed, purchase reversed, or declined by the network",
        ResponseCode::InsufficientFunds => "Insufficient funds",
        ResponseCode::CardUnactivated => "Card not activated",
        ResponseCode::CardSuspended => "Card suspended",
        ResponseCode::CardExpired => "Card expired",
        ResponseCode::InvalidExpiration => "Wrong expiration date",
        ResponseCode::InvalidPin => "Incorrect PIN",
        ResponseCode::InvalidCvv => "Incorrect CVV",
        ResponseCode::InvalidZip => "Incorrect ZIP code",
        ResponseCode::AllowanceConstraints => "Outside the card’s restrictions (category or dates)",
        ResponseCode::AllowanceExceeded => "Over budget or daily limit",
        ResponseCode::TransactionLimitExceeded => "Over the per-transaction limit",
        ResponseCode::Risk => "Too many attempts",
        ResponseCode::CashDenied => "Cash withdrawals not allowed",
    }
}
