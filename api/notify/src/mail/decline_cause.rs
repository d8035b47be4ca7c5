//! The cause of a decline, in words for the cardholder.
//!
//! Cardholders learn the causes that they can do something about. The balance of the company's
//! account is not theirs to know, so no amount but that of the purchase is named.

use cardswitch_engine::domain::response_code::SubReason;
use cardswitch_engine::domain::transaction::TransactionRecord;
use cardswitch_wire::glossary::{deciding_rule, entry, sentence};

/// The cause, and the remedy.
pub(super) type DeclineCause = (String, &'static str);

/// Why a purchase was declined: in the glossary's words for people, without figures.
pub(super) fn cause(record: &TransactionRecord) -> DeclineCause {
    if let Some(rule) = deciding_rule(record) {
        let words = entry(rule);
        return (sentence(words.people.failed), words.help);
    }
    let (cause, help) = match record.sub_reason {
        SubReason::DeclinedByNetwork => (
            "The card network declined it without asking the switch.",
            "Try again a little later, or pay in another way.",
        ),
        SubReason::BillingAmountMissing => (
            "The merchant's bank did not say what it is in the currency of the card.",
            "Try again, or pay in another way.",
        ),
        _ => ("The purchase could not be approved.", "Try again, or pay in another way."),
    };
    (cause.to_owned(), help)
}
