//! What came of an authorization, in a few words. Source: spec "Response codes".

use cardswitch_engine::domain::response_code::ResponseCode;

/// What came of an authorization: why it was declined, or that it was not.
pub(crate) const fn outcome_words(code: ResponseCode) -> &'static str {
    match code {
        ResponseCode::Approved => "Approved",
        ResponseCode::Declined => "Declined",
        ResponseCode::InsufficientFunds => "Insufficient funds",
        ResponseCode::CardUnactivated => "Card not activated",
        ResponseCode::CardSuspended => "Card suspended",
        ResponseCode::CardExpired => "Card expired",
        ResponseCode::InvalidExpiration => "Wrong expiration date",
        ResponseCode::InvalidPin => "Incorrect PIN",
        ResponseCode::InvalidCvv => "Incorrect CVV",
        ResponseCode::InvalidZip => "Incorrect ZIP code",
        ResponseCode::AllowanceConstraints => "Merchant category not allowed",
        ResponseCode::AllowanceExceeded => "Over budget",
        ResponseCode::TransactionLimitExceeded => "Over the per-transaction limit",
        ResponseCode::Risk => "Too many attempts",
        ResponseCode::CashDenied => "Cash withdrawals not allowed",
    }
}
