//! The decision on an authorization: one pure function over the shard's facts.
//!
//! Every rule is evaluated and the whole set of failed rules is kept; the first in the order of
//! `rules` gives the response code. This module changes no state.

mod case;
mod comparison;
mod explanation;
mod facts;
mod rules;

pub use explanation::{
    Change, ComparedValues, DecisionMaker, Explanation, Quantity, Remedy, RuleFinding, explain,
    explain_increment,
};
pub use facts::{AttemptWindow, DecisionFacts, IncrementDecision, VelocityFacts};
pub use rules::{Rule, RuleClass, RuleSet};

use crate::domain::account::AccountBalances;
use crate::domain::allowance::CardUsage;
use crate::domain::business_date::BusinessDate;
use crate::domain::card::{CardRecord, CardState, SuspensionReason};
use crate::domain::company::Company;
use crate::domain::credential::{
    CredentialComparison, CredentialFailures, CredentialPresence, PresentedCredentials,
};
use crate::domain::ids::Timestamp;
use crate::domain::merchant::Mcc;
use crate::domain::merchant_category;
use crate::domain::money::Minor;

/// The number of wrong PINs in a row that makes every PIN wrong until a new one is set.
pub const PIN_FAILURES_MAX: u8 = 3;

/// The request to decide.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The amount; never negative. Units: minor units of the account's currency.
    pub amount: Minor,
    /// The amount that the purchase holds already, for an increment. Units: as `amount`.
    pub added_to: Minor,
    /// The merchant's category; a non-empty scope declines a message without one.
    pub mcc: Option<Mcc>,
    /// Whether the message asks for cash by its processing code.
    pub is_cash: bool,
    /// The credentials it carries.
    pub credentials: &'a PresentedCredentials,
    /// The time of the switch's acceptance.
    pub at: Timestamp,
    /// The local date of that instant.
    pub today: BusinessDate,
}

/// Hands the amounts that rules read of the shard to a macro, each with the expression that reads
/// it. They are kept with the decision, packed in this order: a new one is a line at the end.
#[macro_export]
macro_rules! each_known_amount {
    ($visit:ident) => {
        $visit! {
            /// Funds of the account, with its line of credit.
            available_credit = |of| of.balances.available_credit(of.credit_limit);
            /// Open holds of the account.
            held = |of| of.balances.held;
        }
    };
}

macro_rules! define_known_amounts {
    ($($(#[$about:meta])* $amount:ident = |$source:ident| $read:expr;)+) => {
        /// Amounts that the shard knows. Units: minor units of the account's currency.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct KnownAmounts {
            $($(#[$about])* pub $amount: Minor,)+
        }

        impl KnownAmounts {
            /// Reads the amounts.
            #[inline]
            pub fn of(source: &AmountSource<'_>) -> Self {
                Self { $($amount: { let $source = source; $read },)+ }
            }

            /// The amounts, in order.
            pub(crate) const fn values(&self) -> [Minor; [$(stringify!($amount)),+].len()] {
                [$(self.$amount),+]
            }

            /// The amounts as references, in order.
            pub(crate) fn each_mut(&mut self) -> [&mut Minor; [$(stringify!($amount)),+].len()] {
                [$(&mut self.$amount),+]
            }
        }
    };
}
each_known_amount!(define_known_amounts);

/// The sources of amounts.
#[derive(Clone, Copy, Debug)]
pub struct AmountSource<'a> {
    /// The card's company.
    pub company: &'a Company,
    /// The account's balances.
    pub balances: &'a AccountBalances,
    /// The account's line of credit.
    pub credit_limit: Minor,
}

/// The facts known to the shard. `usage` is the card's, rolled to the question's local date.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The card.
    pub card: &'a CardRecord,
    /// The card's usage by now.
    pub usage: CardUsage,
    /// The amounts that rules compare, beside the card's terms.
    pub known: KnownAmounts,
    /// Whether the card's company is not in business, or its holder inactive.
    pub is_company_closed: bool,
    /// Whether a reversal of this very purchase came before it.
    pub is_reversed_before: bool,
    /// The velocity limits that this attempt exceeds.
    pub velocity: VelocityFinding,
    /// Recent wrong credentials, if any.
    pub failures: Option<CredentialFailures>,
}

/// The velocity limits that an attempt exceeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VelocityFinding {
    /// The limit of a sliding minute.
    pub over_minute: bool,
    /// The limit of a sliding hour.
    pub over_hour: bool,
}

/// The outcome of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Verdict {
    /// The rules that failed; an empty set is an approval.
    pub failed: RuleSet,
    /// The compared credentials, which have to be counted. A PIN that comes while PINs are locked
    /// counts as a wrong one and is not among them.
    pub compared: CredentialPresence,
}

/// Evaluates every rule. Source: spec "Response codes".
pub fn decide(facts: &Facts<'_>, question: &Question<'_>) -> Verdict {
    let mut failed = RuleSet::default();
    decide_standing(facts, question, &mut failed);
    let compared = decide_credentials(facts, question, &mut failed);
    decide_risk(facts, question, &mut failed);
    decide_constraints(facts, question, &mut failed);
    decide_amounts(facts, question, &mut failed);
    Verdict { failed, compared }
}

/// Checks the states of card and company.
fn decide_standing(facts: &Facts<'_>, question: &Question<'_>, failed: &mut RuleSet) {
    let state = facts.usage.state;
    failed.insert_if(Rule::CardTerminated, state == CardState::Terminated);
    failed.insert_if(Rule::CompanyClosed, facts.is_company_closed);
    failed.insert_if(Rule::ReversedBefore, facts.is_reversed_before);
    failed.insert_if(Rule::OutOfBounds, !is_within_bounds(facts, question));
    failed.insert_if(Rule::CardUnactivated, state == CardState::Unactivated);
    // A card that its end_time suspended declines for its allowance, as in the instant before the
    // timer ran.
    let is_ended = facts.usage.suspension == SuspensionReason::EndTime
        && facts.card.terms.has_ended(question.at);
    failed.insert_if(Rule::CardSuspended, state == CardState::Suspended && !is_ended);
    failed.insert_if(Rule::CardExpired, question.today > facts.card.expires_on);
}

fn is_within_bounds(facts: &Facts<'_>, question: &Question<'_>) -> bool {
    let amount = question.amount;
    amount >= Minor::ZERO
        && amount <= Minor::AMOUNT_MAX - question.added_to
        && (facts.known.held + amount).is_within_balance_bounds()
        && facts.usage.can_take(amount)
}

/// Checks the credentials of the message. Absent ones are not compared, and none is while wrong
/// credentials have locked the card's. Returns the compared credentials.
fn decide_credentials(
    facts: &Facts<'_>,
    question: &Question<'_>,
    failed: &mut RuleSet,
) -> CredentialPresence {
    let (card, shown) = (facts.card, question.credentials);
    let Some(mut comparison) = CredentialComparison::open(facts.failures, question.at) else {
        failed.insert_if(Rule::CredentialsLocked, !shown.is_empty());
        return CredentialPresence::default();
    };
    let expiry_differs = comparison.differs(CredentialPresence::EXPIRY, shown.expiry, |expiry| {
        expiry.is_month_of(card.expires_on)
    });
    failed.insert_if(Rule::ExpirationDiffers, expiry_differs);
    let pin_wrong = if facts.usage.pin_failures >= PIN_FAILURES_MAX {
        shown.pin.is_some()
    } else {
        let is_own = |pin| card.pin.0 != 0 && pin == card.pin;
        comparison.differs(CredentialPresence::PIN, shown.pin, is_own)
    };
    failed.insert_if(Rule::PinWrong, pin_wrong);
    failed.insert_if(Rule::CvvWrong, comparison.cvv_differs(shown.cvv));
    let zip_differs = comparison
        .differs(CredentialPresence::ZIP, shown.zip, |zip| card.zip.is_absent() || zip == card.zip);
    failed.insert_if(Rule::ZipDiffers, zip_differs);
    comparison.compared
}

fn decide_risk(facts: &Facts<'_>, question: &Question<'_>, failed: &mut RuleSet) {
    let is_cash_mcc = question.mcc.is_some_and(|mcc| Mcc::CASH.contains(&mcc));
    failed.insert_if(Rule::CashWithdrawal, question.is_cash || is_cash_mcc);
    failed.insert_if(Rule::VelocityPerMinute, facts.velocity.over_minute);
    failed.insert_if(Rule::VelocityPerHour, facts.velocity.over_hour);
}

fn decide_constraints(facts: &Facts<'_>, question: &Question<'_>, failed: &mut RuleSet) {
    let terms = &facts.card.terms;
    failed.insert_if(Rule::BeforeStart, question.at < terms.starts_at);
    failed.insert_if(Rule::AfterEnd, terms.has_ended(question.at));
    let codes = terms.scope.codes();
    let is_outside =
        !codes.is_empty() && !merchant_category::is_in_scope(codes, question.mcc.map(|mcc| mcc.0));
    failed.insert_if(Rule::OutOfScope, is_outside);
}

fn decide_amounts(facts: &Facts<'_>, question: &Question<'_>, failed: &mut RuleSet) {
    // Nothing passes an exhausted budget, not even a check of zero below it: a verification asks
    // whether a purchase could follow, so the rules compare it like any amount.
    let amount = question.amount;
    each_room(facts, question.added_to, |rule, room| failed.insert_if(rule, amount > room));
}

/// Visits each rule of amounts with the largest amount that it lets pass; an increment adds to what
/// is held. A visit rather than a list: the hot path then compares each as soon as it is known.
/// Source: spec "Allowance", transaction_limit, daily_limit, balance; "Account", available_credit.
#[inline]
fn each_room(facts: &Facts<'_>, added_to: Minor, mut visit: impl FnMut(Rule, Minor)) {
    let terms = &facts.card.terms;
    // An increment is one transaction with what it adds to; it takes only itself from the rest.
    visit(Rule::TransactionLimit, terms.transaction_limit - added_to);
    visit(Rule::DailyLimit, facts.usage.day_room(terms));
    visit(Rule::AllowanceBalance, facts.usage.allowance_balance(terms));
    visit(Rule::AvailableCredit, facts.known.available_credit);
}

/// The largest part of a purchase that could be approved if only amount rules decline it; none if
/// another rule declines it, or if no amount is left.
pub fn approvable_part(facts: &Facts<'_>, failed: RuleSet) -> Option<Minor> {
    if failed.is_empty() || failed.intersection(RuleSet::AMOUNTS) != failed {
        return None;
    }
    let mut part = Minor::AMOUNT_MAX;
    each_room(facts, Minor::ZERO, |_, room| part = part.min(room));
    part.is_positive().then_some(part)
}

#[cfg(test)]
#[path = "decision_tests.rs"]
mod tests;
