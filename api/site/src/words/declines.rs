//! What came of an authorization, in a few words. Source: spec "Response codes".

use cardswitch_engine::domain::response_code::ResponseCode;

/// What came of an authorization: why it was declined, or that it was not.
pub(crate) const fn outcome_words(code: ResponseCode) -> &'static str {
    match code {
        ResponseCode::Approved => "Approved",
        ResponseCode::Declined => "Declined",
        ResponseCode::InsufficientFunds => "Not enough money in the account",
        ResponseCode::CardUnactivated => "Card not activated",
        ResponseCode::CardSuspended => "Card suspended",
        ResponseCode::CardExpired => "Card expired",
        ResponseCode::InvalidExpiration => "Wrong expiration date",
        ResponseCode::InvalidPin => "Wrong PIN",
        ResponseCode::InvalidCvv => "Wrong CVV",
        ResponseCode::InvalidZip => "Wrong ZIP code",
        ResponseCode::AllowanceConstraints => "Outside of what the card is for",
        ResponseCode::AllowanceExceeded => "Over the card’s budget",
        ResponseCode::TransactionLimitExceeded => "Over the limit for one purchase",
        ResponseCode::Risk => "Too many attempts",
        ResponseCode::CashDenied => "Cash is not allowed",
    }
}
