//! Transactions as lists show them, with the outcome of each in words: the rules that failed, and
//! the changes that would have approved it.

use cardswitch_engine::decision::{DecisionMaker, Explanation, explain};
use cardswitch_engine::domain::company::Company;
use cardswitch_engine::domain::transaction::{TransactionFlags, TransactionKind, TransactionState};
use cardswitch_engine::store::query::TransactionRow;

use crate::transactions::decision::{POSTED_ONLY, Teller, is_posted_only};
use crate::words::{
    Badge, Moment, amount_words, decline_words, ending_words, kind_words, money, near_moment,
    place, shown_kind, title, transaction_badge,
};

/// A transaction in a list.
#[derive(Clone, Debug)]
pub(crate) struct Purchase {
    pub(crate) id: String,
    /// When it was authorized.
    pub(crate) at: Moment,
    /// The merchant's or the bank account's name, else the kind of the transaction.
    pub(crate) title: String,
    /// The merchant's city, state and country.
    pub(crate) place: String,
    /// Its amount; below zero where money is spent.
    pub(crate) amount: String,
    /// How it stands.
    pub(crate) badge: Badge,
    /// The outcome, in a few words.
    pub(crate) outcome: String,
    /// Rules that failed, the deciding one first.
    pub(crate) failed: Vec<String>,
    /// The changes that together would have approved it.
    pub(crate) remedies: Vec<String>,
}

impl Purchase {
    /// The transaction as it stands, with the figures that `teller` may tell.
    pub(crate) fn new(row: &TransactionRow, teller: &Teller<'_>) -> Self {
        let company = teller.company;
        let (record, progress) = (&row.record, &row.progress);
        let explanation = explain(record, progress, company.zone);
        let scope = record.facts.map(|facts| facts.terms.scope).unwrap_or_default();
        let failed = explanation.rules.iter().filter(|found| !found.passed);
        let remedies = explanation.remedies.iter();
        let remedies = remedies.map(|remedy| teller.remedy(remedy, &scope));
        Self {
            id: record.id.0.to_string(),
            at: near_moment(record.authorized_at, teller.now, company.zone),
            title: title(record),
            place: record.merchant.as_ref().map(place).unwrap_or_default(),
            amount: amount_words(row, company.currency),
            badge: transaction_badge(record.kind, progress.state),
            outcome: outcome(row, &explanation, company),
            failed: failed.map(|found| teller.rule(found)).collect(),
            remedies: remedies.collect(),
        }
    }
}

fn outcome(row: &TransactionRow, explanation: &Explanation, company: &Company) -> String {
    let (record, progress) = (&row.record, &row.progress);
    let is_partial = progress.flags.contains(TransactionFlags::PARTIALLY_APPROVED);
    match explanation.decided_by {
        _ if progress.state == TransactionState::Declined => decline_words(record),
        DecisionMaker::Rules if is_partial => {
            format!(
                "Partially approved (of {} requested)",
                money(record.requested, company.currency)
            )
        }
        DecisionMaker::Rules if shown_kind(row) == TransactionKind::Verification => {
            kind_words(TransactionKind::Verification).to_owned()
        }
        DecisionMaker::Rules if progress.state == TransactionState::Canceled => {
            format!("Approved, then {}", ending_words(row))
        }
        DecisionMaker::Rules => "Approved".to_owned(),
        DecisionMaker::Network
            if is_posted_only(row) && progress.state == TransactionState::Completed =>
        {
            POSTED_ONLY.to_owned()
        }
        DecisionMaker::Network => network_words(record.kind, progress.state).to_owned(),
        DecisionMaker::Transfer => "Bank transfer".to_owned(),
    }
}

/// The outcome of a transaction that the network decided.
const fn network_words(kind: TransactionKind, state: TransactionState) -> &'static str {
    match (kind, state) {
        (TransactionKind::Refund, TransactionState::Canceled) => "Refund, canceled",
        (TransactionKind::Refund, _) => "Refund",
        (_, TransactionState::Canceled) => "Decided by the network (stand-in), canceled",
        _ => "Decided by the network (stand-in)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A canceled refund was once called money back from the merchant.
    #[test]
    fn what_was_canceled_is_called_so() {
        for kind in [TransactionKind::Refund, TransactionKind::Purchase] {
            for (state, is_canceled) in
                [(TransactionState::Canceled, true), (TransactionState::Completed, false)]
            {
                let words = network_words(kind, state);
                assert_eq!(words.contains("canceled"), is_canceled, "{words}");
            }
        }
    }
}
