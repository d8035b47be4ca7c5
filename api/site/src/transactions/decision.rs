//! The reasons of a decision, in words for people: the explanation of `/v1` and the command line,
//! without figures for those who do not see the company's money.

use cardswitch_engine::decision::{
    DecisionMaker, Explanation, IncrementDecision, Remedy, Rule, RuleClass, RuleFinding, explain,
    explain_increment,
};
use cardswitch_engine::domain::allowance::Scope;
use cardswitch_engine::domain::company::Company;
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::domain::response_code::ResponseCode;
use cardswitch_engine::domain::transaction::TransactionFlags;
use cardswitch_engine::store::query::TransactionRow;
use cardswitch_v1::routes::view::View;
use cardswitch_wire::glossary::{Audience, capitalized, entry, sentence};

use crate::rights::ActingMember;
use crate::words::{Moment, PageReader, decline_words, moment, money};

/// Whether figures of the account may be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccountFigures {
    /// They may.
    Told,
    /// They may not.
    Kept,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DecisionWords {
    /// The outcome.
    pub(super) verdict: String,
    /// The authority that decided it, where it was not the rules.
    pub(super) decided_by: &'static str,
    /// Whether it went ahead.
    pub(super) is_approved: bool,
    /// Every rule, those that failed first.
    pub(super) rules: Vec<RuleLine>,
    pub(super) failed_count: usize,
    /// The changes that together would have approved the whole amount.
    pub(super) remedies: Vec<String>,
    /// The largest amount that would have been approved.
    pub(super) at_most: Option<String>,
    /// Whether limits of the card are among the causes of the decline.
    pub(super) is_by_limits: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RuleLine {
    /// Its finding, as a sentence.
    pub(super) text: String,
    pub(super) is_passed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IncrementWords {
    /// The time of the request.
    pub(super) at: Moment,
    /// How much more.
    pub(super) amount: String,
    pub(super) decision: DecisionWords,
}

/// The words for decisions of a company, as a visitor may see them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Teller<'a> {
    pub(crate) company: &'a Company,
    /// Whether figures of the account may be shown.
    pub(crate) figures: AccountFigures,
    /// The present time.
    pub(crate) now: Timestamp,
}

impl<'a> Teller<'a> {
    /// The words that a visitor may see: one limited to their own things sees nothing of the
    /// account.
    pub(crate) fn of(acting: &ActingMember, view: &View<'a>) -> Self {
        let figures = match acting.limited_to() {
            Some(_) => AccountFigures::Kept,
            None => AccountFigures::Told,
        };
        Self { company: view.company, figures, now: view.now }
    }

    pub(super) fn decision(&self, row: &TransactionRow) -> DecisionWords {
        let record = &row.record;
        let explanation = explain(record, &row.progress, self.company.zone);
        let scope = record.facts.as_ref().map(|facts| facts.terms.scope).unwrap_or_default();
        let code = record.response_code;
        let verdict = match explanation.approved_amount.filter(|_| is_partial(row)) {
            Some(part) => {
                let [part, whole] =
                    [part, record.requested].map(|amount| money(amount, self.company.currency));
                format!("Partially approved ({part} of {whole}).")
            }
            None if is_partial(row) => "Partially approved.".to_owned(),
            None if is_posted_only(row) => format!("{POSTED_ONLY}."),
            None => verdict(code, || decline_words(record)),
        };
        let told = self.told(&explanation, &scope);
        let at_most = told.at_most.filter(|_| !code.is_approved());
        DecisionWords { verdict, is_approved: code.is_approved(), at_most, ..told }
    }

    pub(super) fn increment(&self, decision: &IncrementDecision) -> IncrementWords {
        let explanation = explain_increment(decision, self.company.zone);
        let code = decision.failed_rules.response_code();
        let failed = decision.failed_rules.first().map(|rule| entry(rule).people.failed);
        let verdict = verdict(code, || capitalized(failed.unwrap_or_default()));
        let told = self.told(&explanation, &decision.facts.terms.scope);
        IncrementWords {
            at: moment(decision.decided_at, self.company.zone),
            amount: money(decision.amount, self.company.currency),
            decision: DecisionWords { verdict, is_approved: code.is_approved(), ..told },
        }
    }

    fn told(&self, explanation: &Explanation, scope: &Scope) -> DecisionWords {
        let line =
            |found: &RuleFinding| RuleLine { text: self.rule(found), is_passed: found.passed };
        let mut rules: Vec<_> = explanation.rules.iter().map(line).collect();
        rules.sort_by_key(|rule| rule.is_passed);
        let failed_count = rules.iter().filter(|rule| !rule.is_passed).count();
        let remedies = explanation.remedies.iter();
        let remedies = remedies.map(|remedy| sentence(&self.remedy(remedy, scope)));
        // A bound set by the account is left out: it would tell how much is in the account.
        let is_bound_by_account = explanation.remedies.iter().any(|remedy| self.keeps(remedy.rule));
        let at_most = explanation.amount_at_most.filter(|_| !is_bound_by_account);
        DecisionWords {
            verdict: String::new(),
            decided_by: decided_by_words(explanation),
            is_approved: false,
            rules,
            failed_count,
            is_by_limits: explanation.remedies.iter().any(|remedy| is_limit(remedy.rule)),
            remedies: remedies.collect(),
            at_most: at_most
                .filter(|amount| *amount > Minor::ZERO)
                .map(|amount| money(amount, self.company.currency)),
        }
    }

    /// Whether the figures of a rule tell how much is in the account.
    fn keeps(&self, rule: Rule) -> bool {
        self.figures == AccountFigures::Kept
            && (rule.class() == RuleClass::Funds || rule == Rule::OutOfBounds)
    }

    /// The finding of a rule, as a sentence.
    pub(crate) fn rule(&self, finding: &RuleFinding) -> String {
        let compared = finding.compared.filter(|_| !self.keeps(finding.rule));
        PageReader::of(self.company).sentence(&RuleFinding { compared, ..*finding })
    }

    /// The change that would have satisfied a rule, within a sentence.
    pub(crate) fn remedy(&self, remedy: &Remedy, scope: &Scope) -> String {
        if self.keeps(remedy.rule) {
            return "raise the available funds".to_owned();
        }
        PageReader::of(self.company).remedy(remedy, scope)
    }
}

/// The verdict on a purchase that was posted without an authorization, without a full stop.
pub(crate) const POSTED_ONLY: &str = "Posted without authorization";

/// Whether a purchase was posted without an authorization.
pub(crate) fn is_posted_only(row: &TransactionRow) -> bool {
    row.progress.is_posted_only(row.record.authorized_at)
}

/// Whether a purchase was approved for less than was requested.
pub(super) const fn is_partial(row: &TransactionRow) -> bool {
    row.progress.flags.contains(TransactionFlags::PARTIALLY_APPROVED)
}

/// The part that a partial approval approved; none where its facts do not tell it.
pub(super) fn approved_part(view: &View<'_>, row: &TransactionRow) -> Option<Minor> {
    let row = Some(row).filter(|row| is_partial(row))?;
    explain(&row.record, &row.progress, view.company.zone).approved_amount
}

/// Whether a rule is one of a card's own limits, which administrators change.
const fn is_limit(rule: Rule) -> bool {
    matches!(rule.class(), RuleClass::Constraint | RuleClass::Budget)
}

fn verdict(code: ResponseCode, decline: impl Fn() -> String) -> String {
    match code {
        ResponseCode::Approved => "Approved.".to_owned(),
        _ => format!("Declined: {} (code {}).", decline(), code.number()),
    }
}

const fn decided_by_words(explanation: &Explanation) -> &'static str {
    match explanation.decided_by {
        DecisionMaker::Rules => "",
        DecisionMaker::Network if !explanation.rules.is_empty() => {
            "Decided by the network; card rules were evaluated but didn’t decide."
        }
        DecisionMaker::Network => "Decided by the network; card rules weren’t evaluated.",
        DecisionMaker::Transfer if !explanation.rules.is_empty() => {
            "Of bank transfers only the available funds are checked."
        }
        DecisionMaker::Transfer => "Card rules don’t apply to bank transfers.",
    }
}
