//! Explains a decision from its kept facts: the values that each rule compared, and for a decline
//! the least change that would have approved it. `case` repeats the decision.
//!
//! INVARIANT: a change is named only if `decide` itself, on the kept facts with the change made,
//! approves. If the rules of this build no longer reach the same decision, no change is named.

use chrono_tz::Tz;

use super::case::Case;
use super::facts::IncrementDecision;
use super::{Rule, RuleSet};
use crate::domain::allowance::Scope;
use crate::domain::business_date::BusinessDate;
use crate::domain::card::{CardState, SuspensionReason};
use crate::domain::ids::Timestamp;
use crate::domain::merchant::Mcc;
use crate::domain::money::Minor;
use crate::domain::response_code::SubReason;
use crate::domain::transaction::{
    TransactionFlags, TransactionKind, TransactionProgress, TransactionRecord,
};

/// The explanation of a transaction's approval or decline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The party that decided.
    pub decided_by: DecisionMaker,
    /// Every rule in order of precedence; empty if none was evaluated.
    pub rules: Vec<RuleFinding>,
    /// For a decline or a partial approval: changes that together would have approved the whole.
    /// Empty if none would, or if the facts are not known.
    pub remedies: Vec<Remedy>,
    /// The largest amount that would have been approved, if amounts alone failed.
    pub amount_at_most: Option<Minor>,
    /// The approved amount: all, or a part. None for a decline, for nothing, and for a part that
    /// the facts do not tell.
    pub approved_amount: Option<Minor>,
}

/// The party that decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecisionMaker {
    /// The rules of this switch; of an advice, those that stand above the network's word.
    Rules,
    /// The network: advices, refunds, and settlements without an authorization. Of an advice the
    /// rules were evaluated, too.
    Network,
    /// The bank transfer itself, to which rules of cards do not apply.
    Transfer,
}

/// Result of one rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleFinding {
    /// The rule.
    pub rule: Rule,
    /// Whether the rule passed.
    pub passed: bool,
    /// The values that it compared; none if they were not kept.
    pub compared: Option<ComparedValues>,
}

/// The values that a rule compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComparedValues {
    /// The requested or present value.
    pub input: Quantity,
    /// The threshold that it was compared with; none if there was no such limit.
    pub threshold: Option<Quantity>,
    /// The used part of the threshold before and after the decision, if it is used up.
    pub usage: Option<[Quantity; 2]>,
}

/// A compared value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Money. Units: minor units of the account's currency.
    Amount(Minor),
    /// A number of events.
    Count(u16),
    /// An instant.
    Instant(Timestamp),
    /// A local date.
    Date(BusinessDate),
    /// A card's state.
    Card(CardState, SuspensionReason),
    /// The truth of a statement, or of a credential's comparison.
    Is(bool),
    /// A merchant's category.
    Category(Option<Mcc>),
    /// The categories allowed.
    Scope(Scope),
}

/// Change that would have satisfied one rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remedy {
    /// The rule.
    pub rule: Rule,
    /// The least change of request or facts.
    pub change: Change,
    /// The first instant at which the rule would have passed and no other failed, without other
    /// changes meanwhile.
    pub after: Option<Timestamp>,
}

/// A change of request or facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A rise of the limit that the amount is compared with.
    Raise {
        /// The difference.
        by: Minor,
        /// The new value: of the limit, the budget, the available credit.
        to: Minor,
    },
    /// A smaller amount: this one.
    Amount(Minor),
    /// A start of the window at this instant, or before.
    StartBy(Timestamp),
    /// An end of the window at this instant, or after.
    EndFrom(Timestamp),
    /// An expiry of the card on this date, or later.
    ValidThrough(BusinessDate),
    /// A number of attempts not above this one.
    Attempts(u16),
    /// A number of wrong credentials not above this one.
    WrongCredentials(u8),
    /// A scope with this category, or an empty one.
    Category(Option<Mcc>),
    /// An active card.
    ActiveCard,
    /// The contrary of the rule's objection: the right credential, no cash, no early reversal.
    Otherwise,
}

/// Explains the decision on a transaction, without its increments: `explain_increment` does the
/// rest. `zone` is its company's.
pub fn explain(
    record: &TransactionRecord,
    progress: &TransactionProgress,
    zone: Tz,
) -> Explanation {
    let decided_by = decided_by(record, progress);
    let case = record.facts.map(|facts| Case::of(record, facts, zone));
    let is_partial = progress.flags.contains(TransactionFlags::PARTIALLY_APPROVED);
    let is_whole = record.response_code.is_approved() && !is_partial;
    let mut explanation = Explanation {
        decided_by,
        rules: Vec::new(),
        remedies: Vec::new(),
        amount_at_most: None,
        approved_amount: approved(record.requested, is_whole),
    };
    if decided_by == DecisionMaker::Rules || case.is_some() {
        explanation.rules = findings(record, is_partial, case.as_ref());
    } else if record.kind == TransactionKind::BankWithdrawal {
        explanation.rules = vec![finding(record, Rule::AvailableCredit)];
    }
    let has_remedies = is_partial || is_decline_by_rules(record);
    let Some(case) = case.filter(|case| has_remedies && case.is_as_decided()) else {
        return explanation;
    };
    // An advice is declined by the vetoes only; the other failed rules had no effect.
    if progress.flags.contains(TransactionFlags::ADVICE) {
        explanation.remedies = case.remedies(RuleSet::VETOES);
    } else {
        explanation.remedies = case.remedies(RuleSet::ALL);
        explanation.amount_at_most = case.amount_at_most();
    }
    if is_partial {
        explanation.approved_amount = explanation.amount_at_most;
    }
    explanation
}

/// Explains the decision on an increment. `zone` is its company's.
pub fn explain_increment(decision: &IncrementDecision, zone: Tz) -> Explanation {
    let case = Case::of_increment(decision, zone);
    let failed = decision.failed_rules;
    let taken = if failed.is_empty() { decision.amount } else { Minor::ZERO };
    let finding = |rule| RuleFinding {
        rule,
        passed: !failed.contains(rule),
        compared: Some(case.compare(rule, taken).compared),
    };
    let rules = Rule::ALL.into_iter().map(finding).collect();
    let decided_by = DecisionMaker::Rules;
    let is_told = !failed.is_empty() && case.is_as_decided();
    Explanation {
        decided_by,
        rules,
        remedies: if is_told { case.remedies(RuleSet::ALL) } else { Vec::new() },
        amount_at_most: if is_told { case.amount_at_most() } else { None },
        approved_amount: approved(decision.amount, failed.is_empty()),
    }
}

/// The amount, where all of it was approved; none for nothing, as of a verification.
fn approved(amount: Minor, is_whole: bool) -> Option<Minor> {
    (is_whole && amount.is_positive()).then_some(amount)
}

fn is_decline_by_rules(record: &TransactionRecord) -> bool {
    !record.response_code.is_approved() && record.sub_reason != SubReason::DeclinedByNetwork
}

fn decided_by(record: &TransactionRecord, progress: &TransactionProgress) -> DecisionMaker {
    if record.card.is_none() {
        return DecisionMaker::Transfer;
    }
    let is_posted_only = record.facts.is_none() && progress.is_posted_only(record.authorized_at);
    // An advice stands as the network decided, unless a veto of the rules declined it.
    let is_told = progress.flags.contains(TransactionFlags::ADVICE) && !is_decline_by_rules(record);
    if is_told || is_posted_only || record.kind == TransactionKind::Refund {
        DecisionMaker::Network
    } else {
        DecisionMaker::Rules
    }
}

fn findings(record: &TransactionRecord, is_partial: bool, case: Option<&Case>) -> Vec<RuleFinding> {
    let compare = |rule| {
        let case = case?;
        Some(case.compare(rule, taken_of(record, is_partial, case)).compared)
    };
    let findings = Rule::ALL.into_iter().map(|rule| finding(record, rule));
    findings.map(|found| RuleFinding { compared: compare(found.rule), ..found }).collect()
}

fn finding(record: &TransactionRecord, rule: Rule) -> RuleFinding {
    RuleFinding { rule, passed: !record.failed_rules.contains(rule), compared: None }
}

/// The amount that the decision took from allowance, day and account.
fn taken_of(record: &TransactionRecord, is_partial: bool, case: &Case) -> Minor {
    match record.kind {
        _ if !record.response_code.is_approved() => Minor::ZERO,
        TransactionKind::Verification => Minor::ZERO,
        // A partial approval, of a purchase whose amount alone was too high, takes the largest
        // amount.
        _ if is_partial => case.amount_at_most().unwrap_or(record.requested),
        _ => record.requested,
    }
}
