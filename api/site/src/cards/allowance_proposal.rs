//! The least change of a card's limits with which a declined purchase would pass now: the values
//! with which the form of the limits is filled in, and the words about them.
//!
//! The advice beside a decline is about the moment of the decline; since then limits and spending
//! may have changed. Causes that no limit of the card decides (funds, credentials, states) stay as
//! they are.

use cardswitch_engine::domain::allowance::{AllowanceTerms, CardUsage, Scope};
use cardswitch_engine::domain::business_date::date_at;
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::domain::merchant::Mcc;
use cardswitch_engine::domain::merchant_category::is_in_scope;
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::domain::transaction::TransactionRecord;
use cardswitch_engine::store::query::CardRow;
use cardswitch_v1::routes::view::View;

use crate::words::{merchant_kind, money, title};

/// The limits with which a form is filled in for a purchase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AllowanceProposal {
    /// The limits with which the purchase would pass.
    pub(super) terms: AllowanceTerms,
    /// The purchase, in words.
    pub(super) purchase: String,
    /// The differences from the present limits, in words.
    pub(super) changes: Vec<String>,
}

/// The facts of a purchase that its limits are judged by.
#[derive(Clone, Copy)]
struct JudgedPurchase {
    amount: Minor,
    category: Option<Mcc>,
    at: Timestamp,
}

impl AllowanceProposal {
    /// The limits of `card` with which `purchase` would pass.
    pub(super) fn new(card: &CardRow, purchase: &TransactionRecord, view: &View<'_>) -> Self {
        let (terms, zone) = (&card.record.terms, view.company.zone);
        let usage = card.record.usage.rolled(terms.interval, date_at(zone, view.now));
        let category = purchase.merchant.as_ref().and_then(|merchant| merchant.mcc);
        let wanted = JudgedPurchase { amount: purchase.requested, category, at: view.now };
        let least = least_terms(terms, &usage, wanted);
        let shown = |amount| money(amount, view.company.currency);
        let raised = |name: &str, from: Minor, to: Minor| {
            (from != to).then(|| format!("{name}: {} instead of {}", shown(to), shown(from)))
        };
        let window = [
            ("Valid from", terms.starts_at != least.starts_at),
            ("Valid until", terms.ends_at != least.ends_at),
        ];
        let mut changes: Vec<_> = [
            raised("Budget", terms.amount, least.amount),
            raised("Per-transaction limit", terms.transaction_limit, least.transaction_limit),
            raised("Daily limit", terms.daily_limit, least.daily_limit),
        ]
        .into_iter()
        .flatten()
        .collect();
        let opened = window.into_iter().filter(|(_, is_opened)| *is_opened);
        changes.extend(opened.map(|(name, _)| format!("{name}: removed")));
        if least.scope != terms.scope {
            let kind = category.map(|mcc| merchant_kind(mcc.0)).unwrap_or_default();
            changes.push(format!("Merchant categories: also {kind}"));
        }
        let purchase = format!("{} at {}", shown(purchase.requested), title(purchase));
        Self { terms: least, purchase, changes }
    }
}

/// The least change of `terms` with which the purchase passes all limits. A scope that is full, or a
/// purchase without a category, leaves the scope as it is.
fn least_terms(
    terms: &AllowanceTerms,
    usage: &CardUsage,
    purchase: JudgedPurchase,
) -> AllowanceTerms {
    let JudgedPurchase { amount, category, at } = purchase;
    let mut least = *terms;
    let missing = |room: Minor| if room < amount { amount - room } else { Minor::ZERO };
    least.amount += missing(usage.allowance_balance(terms));
    if terms.daily_limit != Minor::UNLIMITED {
        least.daily_limit += missing(usage.day_room(terms));
    }
    least.transaction_limit = terms.transaction_limit.max(amount);
    if at < terms.starts_at {
        least.starts_at = Timestamp::MIN;
    }
    if at > terms.ends_at {
        least.ends_at = Timestamp::MAX;
    }
    let mut codes = terms.scope.codes().to_vec();
    if let Some(Mcc(code)) = category.filter(|mcc| !is_in_scope(&codes, Some(mcc.0))) {
        codes.push(code);
        least.scope = Scope::new(&codes).unwrap_or(terms.scope);
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Timestamp = Timestamp(1_000);

    fn purchase(minor: i64, code: Option<u16>) -> JudgedPurchase {
        JudgedPurchase { amount: Minor(minor), category: code.map(Mcc), at: AT }
    }

    fn usage(spent: i64, today: i64) -> CardUsage {
        CardUsage { spent: Minor(spent), day_spent: Minor(today), ..CardUsage::default() }
    }

    #[test]
    fn each_limit_is_raised_by_what_is_missing_and_no_more() {
        let terms = AllowanceTerms {
            daily_limit: Minor(500),
            transaction_limit: Minor(300),
            ..AllowanceTerms::budget(Minor(1_000))
        };
        let least = |spent, today, minor| {
            let least = least_terms(&terms, &usage(spent, today), purchase(minor, None));
            [least.amount.0, least.daily_limit.0, least.transaction_limit.0]
        };
        assert_eq!(least(0, 0, 300), [1_000, 500, 300], "it passes as it is");
        assert_eq!(least(900, 0, 250), [1_150, 500, 300]);
        assert_eq!(least(900, 450, 301), [1_201, 751, 301]);
        assert_eq!(least(1_100, 0, 1), [1_101, 500, 300], "what was overspent is made up for");
        let free = AllowanceTerms::budget(Minor(10));
        let least = least_terms(&free, &usage(0, 0), purchase(11, Some(5_812)));
        assert_eq!(least, AllowanceTerms { amount: Minor(11), ..free }, "no limit stays none");
    }

    #[test]
    fn windows_open_and_scopes_grow_where_they_have_room() {
        let scope = Scope::new(&[5_411]).unwrap();
        let terms = AllowanceTerms {
            starts_at: Timestamp(2_000),
            ends_at: Timestamp(500),
            scope,
            ..AllowanceTerms::budget(Minor(100))
        };
        let least = least_terms(&terms, &usage(0, 0), purchase(1, Some(5_812)));
        assert_eq!((least.starts_at, least.ends_at), (Timestamp::MIN, Timestamp::MAX));
        assert_eq!(least.scope.codes(), [5_411, 5_812]);
        let known = least_terms(&terms, &usage(0, 0), purchase(1, Some(5_411)));
        let unnamed = least_terms(&terms, &usage(0, 0), purchase(1, None));
        assert_eq!((known.scope, unnamed.scope), (scope, scope));
        let full = Scope::new(&[5_411; Scope::LEN_MAX]).unwrap();
        let full = AllowanceTerms { scope: full, ..terms };
        assert_eq!(least_terms(&full, &usage(0, 0), purchase(1, Some(5_812))).scope, full.scope);
    }
}
