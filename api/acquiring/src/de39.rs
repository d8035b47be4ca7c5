//! DE39, the two-character answer of the card network: one table from the switch's outcomes.
//!
//! The exact response code travels beside it in DE44; DE39 is what every acquirer understands.

use cardswitch_engine::command::reply::{PostingOutcome, ReversalOutcome};
use cardswitch_engine::domain::response_code::{ResponseCode, SubReason};

/// A response code of the card network. Source: ISO DE39.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct De39(pub [u8; 2]);

impl De39 {
    /// Approved, or carried out.
    pub const APPROVED: Self = Self(*b"00");
    /// Do not honor.
    pub const DECLINED: Self = Self(*b"05");
    /// Approved for a part of the amount.
    pub const APPROVED_IN_PART: Self = Self(*b"10");
    /// A kind of transaction that is not offered.
    pub const INVALID_TRANSACTION: Self = Self(*b"12");
    /// No such card.
    pub const UNKNOWN_CARD: Self = Self(*b"14");
    /// Nothing was done.
    pub const NO_ACTION: Self = Self(*b"21");
    /// The original was not found.
    pub const NOT_FOUND: Self = Self(*b"25");
    /// A field is missing or wrong.
    pub const FORMAT_ERROR: Self = Self(*b"30");
    /// A code, a key or a certificate is wrong.
    ///
    /// // CHOICE: 63, as ISO 8583:1987 names it; DE44 tells it from risk monitoring, which answers 63 too.
    pub const SECURITY_VIOLATION: Self = Self(*b"63");
    /// The message never entered the engine: nothing of it will happen.
    pub const NOT_TAKEN: Self = Self(*b"91");
    /// The same key came with other content.
    pub const DUPLICATE_CONFLICT: Self = Self(*b"94");
    /// Whether it happened is unknown: the sender reverses, or repeats with the same key.
    pub const OUTCOME_UNKNOWN: Self = Self(*b"96");

    /// The meaning of the code, in a few words.
    pub const fn words(self) -> &'static str {
        match &self.0 {
            b"00" => "approved",
            b"05" => "declined",
            b"10" => "approved in part",
            b"12" => "not offered",
            b"14" => "unknown card",
            b"21" => "nothing done",
            b"25" => "original not found",
            b"30" => "format error",
            b"51" => "insufficient funds",
            b"54" => "card expired",
            b"55" => "incorrect PIN",
            b"57" => "not permitted",
            b"59" => "incorrect ZIP code",
            b"61" => "over a limit",
            b"62" => "card suspended",
            b"63" => "security or risk",
            b"78" => "card not activated",
            b"80" => "wrong expiration date",
            b"82" => "incorrect CVV",
            b"91" => "not taken",
            b"94" => "conflicts with an earlier message",
            b"96" => "outcome unknown",
            _ => "",
        }
    }

    /// The answer to a decision. A number that is no card's has an answer of its own.
    pub const fn of_decision(code: ResponseCode, reason: SubReason) -> Self {
        if matches!(reason, SubReason::UnknownCard) {
            return Self::UNKNOWN_CARD;
        }
        match code {
            ResponseCode::Approved => Self::APPROVED,
            ResponseCode::Declined => Self::DECLINED,
            ResponseCode::InsufficientFunds => Self(*b"51"),
            ResponseCode::CardUnactivated => Self(*b"78"),
            ResponseCode::CardSuspended => Self(*b"62"),
            ResponseCode::CardExpired => Self(*b"54"),
            ResponseCode::InvalidExpiration => Self(*b"80"),
            ResponseCode::InvalidPin => Self(*b"55"),
            ResponseCode::InvalidCvv => Self(*b"82"),
            ResponseCode::InvalidZip => Self(*b"59"),
            ResponseCode::AllowanceConstraints | ResponseCode::CashDenied => Self(*b"57"),
            ResponseCode::AllowanceExceeded | ResponseCode::TransactionLimitExceeded => {
                Self(*b"61")
            }
            ResponseCode::Risk => Self(*b"63"),
        }
    }

    /// The answer to a reversal request; a reversal advice is always accepted.
    pub const fn of_reversal(outcome: ReversalOutcome) -> Self {
        match outcome {
            ReversalOutcome::Reversed => Self::APPROVED,
            ReversalOutcome::NotFound => Self::NOT_FOUND,
            ReversalOutcome::NothingHeld => Self::NO_ACTION,
            ReversalOutcome::AmountOutOfRange => Self::FORMAT_ERROR,
        }
    }

    /// The answer to a presentment or refund.
    pub const fn of_posting(outcome: PostingOutcome) -> Self {
        match outcome {
            PostingOutcome::Posted | PostingOutcome::AlreadyPosted => Self::APPROVED,
            PostingOutcome::UnknownCard => Self::UNKNOWN_CARD,
            PostingOutcome::NotFound => Self::NOT_FOUND,
            PostingOutcome::OutOfBounds => Self::FORMAT_ERROR,
        }
    }

    /// Whether an advice's DE39 says that the network approved. Source: ISO 0120.
    pub fn is_approval(text: &[u8]) -> bool {
        text == Self::APPROVED.0 || text == Self::APPROVED_IN_PART.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_response_code_has_its_network_code() {
        use ResponseCode as Code;
        let rows = [
            (Code::Approved, b"00"),
            (Code::Declined, b"05"),
            (Code::InsufficientFunds, b"51"),
            (Code::CardUnactivated, b"78"),
            (Code::CardSuspended, b"62"),
            (Code::CardExpired, b"54"),
            (Code::InvalidExpiration, b"80"),
            (Code::InvalidPin, b"55"),
            (Code::InvalidCvv, b"82"),
            (Code::InvalidZip, b"59"),
            (Code::AllowanceConstraints, b"57"),
            (Code::AllowanceExceeded, b"61"),
            (Code::TransactionLimitExceeded, b"61"),
            (Code::Risk, b"63"),
            (Code::CashDenied, b"57"),
        ];
        for (code, expected) in rows {
            assert_eq!(De39::of_decision(code, SubReason::None), De39(*expected), "{code:?}");
        }
        let unknown = De39::of_decision(Code::Declined, SubReason::UnknownCard);
        assert_eq!(unknown, De39(*b"14"));
        let terminated = De39::of_decision(Code::Declined, SubReason::CardTerminated);
        assert_eq!(terminated, De39(*b"05"));
    }

    #[test]
    fn each_outcome_has_its_network_code() {
        assert_eq!(De39::of_reversal(ReversalOutcome::Reversed), De39(*b"00"));
        assert_eq!(De39::of_reversal(ReversalOutcome::NotFound), De39(*b"25"));
        assert_eq!(De39::of_reversal(ReversalOutcome::NothingHeld), De39(*b"21"));
        assert_eq!(De39::of_reversal(ReversalOutcome::AmountOutOfRange), De39(*b"30"));
        assert_eq!(De39::of_posting(PostingOutcome::Posted), De39(*b"00"));
        assert_eq!(De39::of_posting(PostingOutcome::UnknownCard), De39(*b"14"));
        assert_eq!(De39::of_posting(PostingOutcome::OutOfBounds), De39(*b"30"));
        assert!(De39::is_approval(b"00") && De39::is_approval(b"10"));
        assert!(!De39::is_approval(b"05") && !De39::is_approval(b"0"));
    }
}
