//! Why a purchase was declined, in words for whoever held the card.
//!
//! Cardholders are told what they can do something about. What the company's account holds is not
//! theirs to know, so no amounts but that of the purchase are named.

use cardswitch_engine::decision::Rule;
use cardswitch_engine::domain::response_code::{ResponseCode, SubReason};
use cardswitch_engine::domain::transaction::TransactionRecord;

/// The cause, and what helps.
pub(super) type Why = (&'static str, &'static str);

const ASK: &str = "Ask the administrator of your company.";
const TYPED: &str = "Check what was typed, and try again.";

/// Why a purchase was declined.
pub(super) fn why(record: &TransactionRecord) -> Why {
    let first = record.failed_rules.first();
    let deciding = first.filter(|rule| rule.response_code() == record.response_code);
    deciding.map_or_else(|| without_rule(record), of_rule)
}

/// For purchases on which no rule was asked.
fn without_rule(record: &TransactionRecord) -> Why {
    match (record.sub_reason, record.response_code) {
        (SubReason::DeclinedByNetwork, _) => (
            "The card network declined it without asking the switch.",
            "Try again a little later, or pay in another way.",
        ),
        (SubReason::BillingAmountMissing, _) => (
            "The merchant's bank did not say what it is in the currency of the card.",
            "Try again, or pay in another way.",
        ),
        (_, ResponseCode::Risk) => of_rule(Rule::VelocityPerHour),
        (_, ResponseCode::CashDenied) => of_rule(Rule::CashWithdrawal),
        _ => ("The purchase could not be approved.", "Try again, or pay in another way."),
    }
}

/// One row a rule.
const fn of_rule(rule: Rule) -> Why {
    match rule {
        Rule::CardTerminated => ("The card is closed.", ASK),
        Rule::CompanyClosed => ("The company's card program is closed.", ASK),
        Rule::ReversedBefore => (
            "The merchant took the purchase back before it arrived.",
            "Try again if you still need it.",
        ),
        Rule::OutOfBounds => ("The amount is more than can be booked.", "Check the amount."),
        Rule::CardUnactivated => ("The card has not been activated yet.", ASK),
        Rule::CardSuspended => ("The card is suspended.", ASK),
        Rule::CardExpired => ("The card has expired.", ASK),
        Rule::ExpirationDiffers => ("The expiration date that was given is not the card's.", TYPED),
        Rule::PinWrong => ("The PIN that was entered is not the card's.", TYPED),
        Rule::CvvWrong => ("The security code that was given is not the card's.", TYPED),
        Rule::ZipDiffers => ("The ZIP code that was given is not the one on file.", TYPED),
        Rule::CashWithdrawal => {
            ("The card cannot be used to withdraw cash.", "Pay with the card itself.")
        }
        Rule::VelocityPerMinute | Rule::VelocityPerHour => (
            "The card was used more often than usual in a short time.",
            "Wait a while, and try again.",
        ),
        Rule::CredentialsLocked => (
            "Too many wrong details were given for the card in a short time.",
            "Wait an hour, and check what is typed.",
        ),
        Rule::BeforeStart => ("The card may not be used yet.", ASK),
        Rule::AfterEnd => ("The card may not be used any more.", ASK),
        Rule::OutOfScope => ("The card may not be used at this kind of merchant.", ASK),
        Rule::TransactionLimit => {
            ("The amount is more than the card may spend in one purchase.", ASK)
        }
        Rule::DailyLimit => ("The amount is more than the card may still spend today.", ASK),
        Rule::AllowanceBalance => ("The amount is more than is left to spend on the card.", ASK),
        Rule::AvailableCredit => {
            ("The company's account cannot cover the amount at the moment.", ASK)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_has_words_of_its_own() {
        let mut seen = Vec::new();
        for rule in Rule::ALL {
            let (cause, help) = of_rule(rule);
            assert!(cause.ends_with('.') && help.ends_with('.'), "{rule:?}");
            let is_twin = rule == Rule::VelocityPerHour;
            assert!(is_twin || !seen.contains(&cause), "{rule:?}: {cause}");
            seen.push(cause);
        }
    }
}
