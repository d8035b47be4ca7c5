//! Comparison of expected and found values, for every expectation of a step.

use std::fmt::Display;

use super::Mismatch;
use super::file::{ExpectedAnswer, StepFile};
use super::money::Money;
use super::step_request::StepAnswer;
use super::switch::{AccountView, CardView, ScenarioTransaction};

/// The text for an absent value.
const NOTHING: &str = "none";

/// The mismatches of one step, as they are found.
#[derive(Default)]
pub(super) struct Judge {
    pub(super) mismatches: Vec<Mismatch>,
}

impl Judge {
    /// Compares an answer; the expectation is a code, a reason, or both.
    pub(super) fn answer(&mut self, expected: &ExpectedAnswer, found: Option<&StepAnswer>) {
        let is_as_expected = found.is_some_and(|found| {
            expected.code.is_none_or(|code| code == found.code)
                && expected.reason.as_ref().is_none_or(|r| Some(r) == found.reason.as_ref())
        });
        if !is_as_expected {
            let found = found.map_or_else(|| "no answer".to_owned(), StepAnswer::to_string);
            self.mismatches.push(Mismatch { key: "expect", expected: expected.to_string(), found });
        }
    }

    /// Compares the answer to a message sent again with the first one: but for the balance, which
    /// others may have changed, and for the word that says so once the first answer is forgotten.
    pub(super) fn first_answer(&mut self, first: Option<&StepAnswer>, found: Option<&StepAnswer>) {
        let told = |answered: Option<&StepAnswer>| {
            answered.map(|answered| {
                let reason = answered.reason.clone().filter(|reason| reason != "already_posted");
                StepAnswer { balance: None, reason, ..answered.clone() }
            })
        };
        let (first, found) = (told(first), told(found));
        if first != found {
            let text = |answered: Option<StepAnswer>| {
                answered.map_or_else(|| "no answer".to_owned(), |answered| answered.to_string())
            };
            let expected = format!("the first answer again, {}", text(first));
            self.mismatches.push(Mismatch { key: "expect", expected, found: text(found) });
        }
    }

    /// Compares a card and its allowance.
    pub(super) fn card(&mut self, expected: &StepFile, found: &CardView) {
        self.compare("balance", expected.balance, Some(found.balance));
        self.compare("daily_balance", expected.daily_balance, found.daily_balance);
        self.compare("card_state", expected.card_state.clone(), Some(found.state.clone()));
    }

    /// Compares how far the account has moved from where it counts from.
    pub(super) fn account(&mut self, expected: &StepFile, first: &AccountView, now: &AccountView) {
        let moved = |first: Money, now: Money| Some(Money::of_account(now.minor - first.minor));
        self.compare("ledger", expected.ledger, moved(first.ledger, now.ledger));
        self.compare("available", expected.available, moved(first.available, now.available));
        let credit = moved(first.available_credit, now.available_credit);
        self.compare("available_credit", expected.available_credit, credit);
        let pending = moved(first.pending_credits, now.pending_credits);
        self.compare("pending_credits", expected.pending_credits, pending);
    }

    /// Compares a transaction.
    pub(super) fn transaction(&mut self, expected: &StepFile, found: Option<&ScenarioTransaction>) {
        let state = found.map(|found| found.state.clone());
        self.compare("state", expected.state.clone(), state);
        self.compare("amount", expected.amount, found.map(|found| found.amount));
        self.compare("held", expected.held, found.and_then(|found| found.held));
        self.compare("posted", expected.posted, found.and_then(|found| found.posted));
    }

    pub(super) fn compare<T: PartialEq + Display>(
        &mut self,
        key: &'static str,
        expected: Option<T>,
        found: Option<T>,
    ) {
        let Some(expected) = expected else { return };
        if found.as_ref() != Some(&expected) {
            let found = found.map_or_else(|| NOTHING.to_owned(), |found| found.to_string());
            self.mismatches.push(Mismatch { key, expected: expected.to_string(), found });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::step_request::TransactionIds;
    use super::*;

    fn answered(code: u16, reason: Option<&str>) -> StepAnswer {
        let known = TransactionIds { authorization_id: None, transaction_id: None };
        let reason = reason.map(str::to_owned);
        StepAnswer { code, reason, approved: None, balance: None, known }
    }

    #[test]
    fn answers_are_compared_as_far_as_they_are_expected() {
        let code = |code| ExpectedAnswer { code: Some(code), reason: None };
        let reason = |code, reason: &str| ExpectedAnswer { code, reason: Some(reason.to_owned()) };
        let late = answered(1000, Some("reversed_before"));
        for (expected, found, is_right) in [
            (code(1000), Some(&late), true),
            (reason(None, "reversed_before"), Some(&late), true),
            (reason(Some(1000), "reversed_before"), Some(&late), true),
            (code(0), Some(&late), false),
            (reason(Some(1000), "not_found"), Some(&late), false),
            (reason(Some(1502), "reversed_before"), Some(&late), false),
            (code(1000), None, false),
        ] {
            let mut judge = Judge::default();
            judge.answer(&expected, found);
            assert_eq!(judge.mismatches.is_empty(), is_right, "{expected}");
        }
    }

    #[test]
    fn accounts_are_compared_by_how_far_they_moved() {
        let view = |ledger, available| AccountView {
            ledger: Money::of_account(ledger),
            available: Money::of_account(available),
            available_credit: Money::of_account(available + 7),
            pending_credits: Money::of_account(0),
        };
        let ledger = Some(Money::of_account(-5));
        let expected = StepFile { ledger, ..StepFile::default() };
        let mut judge = Judge::default();
        judge.account(&expected, &view(100, 90), &view(95, 0));
        assert_eq!(judge.mismatches, []);
        judge.account(&expected, &view(100, 90), &view(96, 0));
        let mismatch =
            Mismatch { key: "ledger", expected: "-0.05".to_owned(), found: "-0.04".to_owned() };
        assert_eq!(judge.mismatches, [mismatch]);
    }
}
