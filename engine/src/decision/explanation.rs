//! Explains a decision from what was kept of it: what each rule compared, and for a decline the
//! least change that would have approved it. `case` makes the decision again.
//!
//! INVARIANT: a change is only named where `decide` itself, on the kept facts with the change made,
//! approves. Where the rules of this build no longer come to what was decided, none is named.

use chrono_tz::Tz;

use super::case::Case;
use super::kept::IncrementDecision;
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

/// Why a transaction was approved or declined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Whose word it was.
    pub decided_by: DecidedBy,
    /// Every rule in order of precedence; empty where none was evaluated.
    pub rules: Vec<RuleFinding>,
    /// For a decline, or where only a part was approved: changes that together would have approved
    /// it whole. Empty where nothing would, or where the facts are not known.
    pub remedies: Vec<Remedy>,
    /// Where amounts alone failed: the largest amount that would have been approved.
    pub amount_at_most: Option<Minor>,
}

/// The party that decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecidedBy {
    /// The rules'.
    Rules,
    /// The network's: advices, refunds, and what settled without an authorization.
    Network,
    /// A bank transfer's, to which rules of cards do not apply.
    Transfer,
}

/// Result of one rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleFinding {
    /// The rule.
    pub rule: Rule,
    /// Whether it spoke for the purchase.
    pub passed: bool,
    /// What it compared; none where that was not kept.
    pub compared: Option<Compared>,
}

/// What a rule compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compared {
    /// What was asked, or found.
    pub input: Quantity,
    /// What it was held against; none where there was no such limit.
    pub threshold: Option<Quantity>,
    /// What was used of the threshold before and after the decision, where it is used up.
    pub usage: Option<[Quantity; 2]>,
}

/// Something that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Money. Units: minor units of the account's currency.
    Amount(Minor),
    /// A number of things.
    Count(u16),
    /// An instant.
    Instant(Timestamp),
    /// A local date.
    Date(BusinessDate),
    /// A card's state.
    Card(CardState, SuspensionReason),
    /// Whether the message's was compared, or a statement holds.
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
    /// The least change to what was asked or known.
    pub change: Change,
    /// Or else waiting: the first instant at which the rule would have passed and no other failed,
    /// nothing else happening meanwhile.
    pub after: Option<Timestamp>,
}

/// A change to what was asked or known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// What the amount is held against is so much higher.
    Raise {
        /// How much.
        by: Minor,
        /// To what: the limit, the budget, the available credit.
        to: Minor,
    },
    /// The amount is this.
    Amount(Minor),
    /// The window begins here, or before.
    StartBy(Timestamp),
    /// The window ends here, or after.
    EndFrom(Timestamp),
    /// The card is valid through this date, or longer.
    ValidThrough(BusinessDate),
    /// There were no more attempts than this.
    Attempts(u16),
    /// There were no more wrong credentials than this.
    WrongCredentials(u8),
    /// The scope has this category, or is empty.
    Category(Option<Mcc>),
    /// The card is active.
    ActiveCard,
    /// What the rule objects to is otherwise: the right credential, no cash, no early reversal.
    Otherwise,
}

/// Explains how a transaction was decided, before anything was added to it: `explain_increment` does
/// the rest. `zone` is its company's.
#[must_use]
pub fn explain(
    record: &TransactionRecord,
    progress: &TransactionProgress,
    zone: Tz,
) -> Explanation {
    let decided_by = decided_by(record, progress);
    let case = record.facts.map(|facts| Case::of(record, facts, zone));
    let mut explanation =
        Explanation { decided_by, rules: Vec::new(), remedies: Vec::new(), amount_at_most: None };
    let is_partial = progress.flags.contains(TransactionFlags::PARTIALLY_APPROVED);
    if decided_by == DecidedBy::Rules || case.is_some() {
        explanation.rules = findings(record, is_partial, case.as_ref());
    } else if record.kind == TransactionKind::BankWithdrawal {
        explanation.rules = vec![finding(record, Rule::AvailableCredit)];
    }
    let has_remedies = is_partial || is_decline_by_rules(record);
    let Some(case) = case.filter(|case| has_remedies && case.is_as_decided()) else {
        return explanation;
    };
    // Of an advice only the vetoes declined; the other rules that fail had no say.
    let has_say = if decided_by == DecidedBy::Rules { RuleSet::ALL } else { RuleSet::VETOES };
    explanation.remedies = case.remedies(has_say);
    if decided_by == DecidedBy::Rules {
        explanation.amount_at_most = case.amount_at_most();
    }
    explanation
}

/// Explains how an increment was decided. `zone` is its company's.
#[must_use]
pub fn explain_increment(decision: &IncrementDecision, zone: Tz) -> Explanation {
    let case = Case::of_increment(decision, zone);
    let failed = decision.failed_rules;
    let taken = if failed.is_empty() { decision.amount } else { Minor::ZERO };
    let finding = |rule| RuleFinding {
        rule,
        passed: !failed.contains(rule),
        compared: Some(case.compare(rule, taken).0),
    };
    let rules = Rule::ALL.into_iter().map(finding).collect();
    let decided_by = DecidedBy::Rules;
    let is_told = !failed.is_empty() && case.is_as_decided();
    Explanation {
        decided_by,
        rules,
        remedies: if is_told { case.remedies(RuleSet::ALL) } else { Vec::new() },
        amount_at_most: if is_told { case.amount_at_most() } else { None },
    }
}

fn is_decline_by_rules(record: &TransactionRecord) -> bool {
    !record.response_code.is_approved() && record.sub_reason != SubReason::DeclinedByNetwork
}

fn decided_by(record: &TransactionRecord, progress: &TransactionProgress) -> DecidedBy {
    if record.card.is_none() {
        return DecidedBy::Transfer;
    }
    // A late presentment of an authorization is forced too, but not at the instant of its decision.
    let is_posted_only = record.facts.is_none()
        && progress.flags.contains(TransactionFlags::FORCED)
        && progress.posted_at == Some(record.authorized_at);
    let is_told = progress.flags.contains(TransactionFlags::ADVICE);
    if is_told || is_posted_only || record.kind == TransactionKind::Refund {
        DecidedBy::Network
    } else {
        DecidedBy::Rules
    }
}

fn findings(record: &TransactionRecord, is_partial: bool, case: Option<&Case>) -> Vec<RuleFinding> {
    let compare = |rule| {
        let case = case?;
        Some(case.compare(rule, taken_of(record, is_partial, case)).0)
    };
    let findings = Rule::ALL.into_iter().map(|rule| finding(record, rule));
    findings.map(|found| RuleFinding { compared: compare(found.rule), ..found }).collect()
}

fn finding(record: &TransactionRecord, rule: Rule) -> RuleFinding {
    RuleFinding { rule, passed: !record.failed_rules.contains(rule), compared: None }
}

/// What the decision took from allowance, day and account.
fn taken_of(record: &TransactionRecord, is_partial: bool, case: &Case) -> Minor {
    match record.kind {
        _ if !record.response_code.is_approved() => Minor::ZERO,
        TransactionKind::Verification => Minor::ZERO,
        // A part is approved where only its amount was too much, and then all that could be.
        _ if is_partial => case.amount_at_most().unwrap_or(record.requested),
        _ => record.requested,
    }
}
