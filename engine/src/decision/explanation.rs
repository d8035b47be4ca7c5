//! Explains a decision from what was kept of it: what each rule compared, and for a decline the
//! least change that would have approved it.
//!
//! INVARIANT: a change is only named where `decide` itself, on the kept facts with the change made,
//! approves. Where the rules of this build no longer come to what was decided, none is named.

use chrono_tz::Tz;

use super::kept::{AttemptWindow, DecisionFacts, IncrementDecision};
use super::{Facts, PIN_FAILURES_MAX, Question, Rule, RuleSet, VelocityFinding, decide};
use crate::domain::allowance::Scope;
use crate::domain::business_date::{BusinessDate, date_at, start_of_date};
use crate::domain::card::{CardRecord, CardState, PanHash, SuspensionReason};
use crate::domain::credential::{
    CredentialFailures, CredentialsPresent, Cvv, CvvPair, ExpiryMonth, PackedZip, PinVerifier,
    PresentedCredentials, Shown,
};
use crate::domain::ids::{AccountSlot, Timestamp};
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

/// Whose word a decision was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecidedBy {
    /// The rules'.
    Rules,
    /// The network's: advices, refunds, and what settled without an authorization.
    Network,
    /// A bank transfer's, to which rules of cards do not apply.
    Transfer,
}

/// What came of one rule.
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

/// What would have satisfied one rule.
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

/// A decision that can be made again: what was asked, what was known, what came of it.
#[derive(Clone, Copy, Debug)]
struct Case {
    facts: DecisionFacts,
    amount: Minor,
    /// What the purchase held before, of an increment.
    added_to: Minor,
    /// Whether the purchase itself had used the card up.
    has_used_card_up: bool,
    mcc: Option<Mcc>,
    is_cash: bool,
    at: Timestamp,
    zone: Tz,
    /// The rules that failed. Stands for what is not kept: the credentials themselves, the state of
    /// the company and its members, early reversals.
    failed: RuleSet,
}

impl Case {
    fn of(record: &TransactionRecord, facts: DecisionFacts, zone: Tz) -> Self {
        Self {
            facts,
            amount: record.requested,
            added_to: Minor::ZERO,
            has_used_card_up: false,
            mcc: record.merchant.as_ref().and_then(|merchant| merchant.mcc),
            is_cash: record.kind == TransactionKind::Cash,
            at: record.authorized_at,
            zone,
            failed: record.failed_rules,
        }
    }

    fn of_increment(decision: &IncrementDecision, zone: Tz) -> Self {
        Self {
            facts: decision.facts,
            amount: decision.amount,
            added_to: decision.added_to,
            has_used_card_up: decision.has_used_card_up,
            mcc: decision.mcc,
            is_cash: false,
            at: decision.decided_at,
            zone,
            failed: decision.failed_rules,
        }
    }

    /// Whether the rules of this build come to what was decided.
    fn is_as_decided(&self) -> bool {
        self.decide_again() == self.failed
    }

    fn decide_again(&self) -> RuleSet {
        let DecisionFacts { terms, known, expires_on, failures, .. } = self.facts;
        let today = date_at(self.zone, self.at);
        let usage = self.facts.usage.rolled(terms.interval, today);
        let card = CardRecord {
            pan_hash: PanHash::default(),
            pin: PinVerifier(u64::from(self.has(CredentialsPresent::CARD_HAS_PIN))),
            zip: PackedZip(u64::from(self.has(CredentialsPresent::CARD_HAS_ZIP))),
            account: AccountSlot::default(),
            expires_on,
            usage,
            terms,
        };
        let facts = Facts {
            card: &card,
            usage,
            known,
            is_company_closed: self.failed.contains(Rule::CompanyClosed),
            is_reversed_before: self.failed.contains(Rule::ReversedBefore),
            velocity: self.velocity(),
            failures,
        };
        let question = Question {
            amount: self.amount,
            added_to: self.added_to,
            mcc: self.mcc,
            is_cash: self.is_cash,
            credentials: &self.credentials(),
            at: self.at,
            today,
        };
        let failed = decide(&facts, &question).failed;
        let is_own_doing = self.has_used_card_up && usage.suspension == SuspensionReason::SingleUse;
        if is_own_doing { failed.without(Rule::CardSuspended) } else { failed }
    }

    fn has(&self, credential: CredentialsPresent) -> bool {
        self.facts.credentials.contains(credential)
    }

    fn window(&self, rule: Rule) -> Option<AttemptWindow> {
        let velocity = self.facts.velocity?;
        Some(if rule == Rule::VelocityPerMinute { velocity.minute } else { velocity.hour })
    }

    fn velocity(&self) -> VelocityFinding {
        let is_over = |rule| self.window(rule).is_some_and(|window| window.is_over(self.at));
        VelocityFinding {
            over_minute: is_over(Rule::VelocityPerMinute),
            over_hour: is_over(Rule::VelocityPerHour),
        }
    }

    /// Whether a credential was compared: shown, and nothing locked.
    fn is_compared(&self, credential: CredentialsPresent) -> bool {
        let is_locked = self.failed.contains(Rule::CredentialsLocked);
        self.has(credential) && !is_locked
    }

    /// Credentials that compare as those in the message did: 1 is what the card has. Those that
    /// nobody compared are taken to be right.
    fn credentials(&self) -> PresentedCredentials {
        let value_of = |rule| if self.failed.contains(rule) { 2 } else { 1 };
        let own = Cvv::parse(b"000");
        let is_cvv_wrong = self.failed.contains(Rule::CvvWrong);
        let cvv = CvvPair { shown: if is_cvv_wrong { Cvv::NONE } else { own }, own };
        let expiry = if self.failed.contains(Rule::ExpirationDiffers) {
            ExpiryMonth(u16::MAX)
        } else {
            ExpiryMonth::of(self.facts.expires_on)
        };
        let pin = PinVerifier(value_of(Rule::PinWrong));
        let zip = PackedZip(value_of(Rule::ZipDiffers));
        PresentedCredentials {
            expiry: self.has(CredentialsPresent::EXPIRY).then_some(Shown::new(expiry)),
            cvv: self.has(CredentialsPresent::CVV).then_some(Shown::new(cvv)),
            pin: self.has(CredentialsPresent::PIN).then_some(Shown::new(pin)),
            zip: self.has(CredentialsPresent::ZIP).then_some(Shown::new(zip)),
        }
    }

    /// Changes to the rules that have a say which together approve; none where they would not.
    fn remedies(&self, has_say: RuleSet) -> Vec<Remedy> {
        let mut changed = *self;
        let mut remedies = Vec::new();
        // A change may bring an earlier rule up: a later end does not open the card that the end
        // has suspended. No rule comes up twice.
        for _ in Rule::ALL {
            let failed = changed.decide_again().intersection(has_say);
            let Some(rule) = failed.first() else { return remedies };
            let (_, change) = changed.compare(rule, Minor::ZERO);
            changed.make(rule, change);
            remedies.push(Remedy { rule, change, after: self.opens_at(rule) });
        }
        if changed.decide_again().intersection(has_say).is_empty() { remedies } else { Vec::new() }
    }

    /// What an amount is held against by an amount rule.
    fn limit(&mut self, rule: Rule) -> &mut Minor {
        let DecisionFacts { terms, known, .. } = &mut self.facts;
        match rule {
            Rule::TransactionLimit => &mut terms.transaction_limit,
            Rule::DailyLimit => &mut terms.daily_limit,
            Rule::AllowanceBalance => &mut terms.amount,
            _ => &mut known.available_credit,
        }
    }

    /// What an amount rule leaves.
    fn room(mut self, rule: Rule) -> Minor {
        let DecisionFacts { terms, usage, .. } = &self.facts;
        match rule {
            Rule::DailyLimit => usage.day_room(terms),
            Rule::AllowanceBalance => usage.allowance_balance(terms),
            Rule::TransactionLimit => terms.transaction_limit - self.added_to,
            _ => *self.limit(rule),
        }
    }

    /// The largest amount within what the ledger holds.
    fn bound(&self) -> Minor {
        let room = |used: Minor| Minor::BALANCE_MAX - used;
        let whole = Minor::AMOUNT_MAX - self.added_to;
        let most = room(self.facts.known.held).min(room(self.facts.usage.spent)).min(whole);
        self.amount.min(most).or_zero()
    }

    /// Makes a change.
    fn make(&mut self, rule: Rule, change: Change) {
        let facts = &mut self.facts;
        let terms = &mut facts.terms;
        match change {
            Change::Amount(amount) => self.amount = amount,
            Change::ActiveCard => {
                facts.usage.state = CardState::Active;
                facts.usage.suspension = SuspensionReason::None;
            }
            Change::ValidThrough(date) => facts.expires_on = date,
            Change::StartBy(at) => terms.starts_at = at,
            Change::EndFrom(at) => terms.ends_at = at,
            Change::Category(_) => terms.scope = Scope::default(),
            Change::Raise { to, .. } => *self.limit(rule) = to,
            Change::Attempts(count) => {
                if let Some(velocity) = &mut facts.velocity {
                    let is_minute = rule == Rule::VelocityPerMinute;
                    let window = if is_minute { &mut velocity.minute } else { &mut velocity.hour };
                    window.count = count;
                }
            }
            Change::WrongCredentials(count) => {
                facts.failures = facts.failures.map(|known| CredentialFailures { count, ..known });
            }
            Change::Otherwise => self.make_otherwise(rule),
        }
    }

    fn make_otherwise(&mut self, rule: Rule) {
        self.failed = self.failed.without(rule);
        match rule {
            Rule::PinWrong => {
                self.facts.usage.pin_failures = 0;
                self.facts.credentials.insert_if(CredentialsPresent::CARD_HAS_PIN, true);
            }
            Rule::CashWithdrawal => {
                self.is_cash = false;
                self.mcc = self.mcc.filter(|mcc| !Mcc::CASH.contains(mcc));
            }
            _ => {}
        }
    }

    /// The first instant at which a rule that fails would pass and no other would fail instead.
    fn opens_at(&self, rule: Rule) -> Option<Timestamp> {
        let today = date_at(self.zone, self.at);
        let opens_at = match rule {
            Rule::BeforeStart => self.facts.terms.starts_at,
            Rule::VelocityPerMinute | Rule::VelocityPerHour => self.window(rule)?.room_at,
            Rule::CredentialsLocked => self.facts.failures?.since.plus(Timestamp::HOUR),
            Rule::DailyLimit => start_of_date(self.zone, BusinessDate(today.0 + 1)),
            Rule::AllowanceBalance => {
                start_of_date(self.zone, today.next_period_start(self.facts.terms.interval)?)
            }
            _ => return None,
        };
        if opens_at > Timestamp::CALENDAR_MAX {
            return None;
        }
        let failed = Self { at: opens_at, ..*self }.decide_again();
        let is_no_worse = failed.intersection(self.failed) == failed;
        (is_no_worse && !failed.contains(rule)).then_some(opens_at)
    }

    /// The largest amount that nothing would have declined; none where there is none, or where it
    /// is not the amount alone that was declined.
    fn amount_at_most(&self) -> Option<Minor> {
        let rooms = RuleSet::AMOUNTS.iter().map(|rule| self.room(rule));
        let amount = rooms.fold(self.bound(), Minor::min);
        let would = Self { amount, ..*self };
        (amount.is_positive() && would.decide_again().is_empty()).then_some(amount)
    }

    /// What a rule compared, where the decision then took `taken`, and the least change that satisfies
    /// the rule where it fails.
    fn compare(&self, rule: Rule, taken: Minor) -> (Compared, Change) {
        let facts = self.facts;
        let only = |input| Compared { input, threshold: None, usage: None };
        let against = |input, threshold| Compared { input, threshold, usage: None };
        let is = |is| (only(Quantity::Is(is)), Change::Otherwise);
        // What is bounded is the purchase as it would be.
        let whole = Quantity::Amount(self.amount + self.added_to);
        let (now, today) = (Quantity::Instant(self.at), date_at(self.zone, self.at));
        match rule {
            Rule::CardTerminated | Rule::CardUnactivated | Rule::CardSuspended => {
                let card = Quantity::Card(facts.usage.state, facts.usage.suspension);
                (only(card), Change::ActiveCard)
            }
            Rule::CompanyClosed | Rule::ReversedBefore | Rule::CashWithdrawal => {
                is(self.failed.contains(rule))
            }
            Rule::OutOfBounds => {
                let bound = Quantity::Amount(Minor::AMOUNT_MAX);
                (against(whole, Some(bound)), Change::Amount(self.bound()))
            }
            Rule::CardExpired => {
                let last = Quantity::Date(facts.expires_on);
                (against(Quantity::Date(today), Some(last)), Change::ValidThrough(today))
            }
            Rule::ExpirationDiffers => is(self.is_compared(CredentialsPresent::EXPIRY)),
            Rule::PinWrong => (self.compared_pin(), Change::Otherwise),
            Rule::CvvWrong => is(self.is_compared(CredentialsPresent::CVV)),
            Rule::ZipDiffers => is(self.is_compared(CredentialsPresent::ZIP)),
            Rule::VelocityPerMinute | Rule::VelocityPerHour => self.compare_attempts(rule),
            Rule::CredentialsLocked => {
                const MAX: u8 = CredentialFailures::COUNT_MAX;
                let count = facts.failures.map_or(0, |failures| failures.count);
                let [count, limit] = [count, MAX].map(|count| Quantity::Count(count.into()));
                (against(count, Some(limit)), Change::WrongCredentials(MAX - 1))
            }
            Rule::BeforeStart => {
                let start = facts.terms.starts_at;
                let bound = (start != Timestamp::MIN).then_some(Quantity::Instant(start));
                (against(now, bound), Change::StartBy(self.at))
            }
            Rule::AfterEnd => {
                let end = facts.terms.ends_at;
                let bound = (end != Timestamp::MAX).then_some(Quantity::Instant(end));
                (against(now, bound), Change::EndFrom(self.at))
            }
            Rule::OutOfScope => {
                let scope = facts.terms.scope;
                let bound = (!scope.codes().is_empty()).then_some(Quantity::Scope(scope));
                (against(Quantity::Category(self.mcc), bound), Change::Category(self.mcc))
            }
            Rule::TransactionLimit
            | Rule::DailyLimit
            | Rule::AllowanceBalance
            | Rule::AvailableCredit => self.compare_amount(rule, taken),
        }
    }

    /// An amount, beside the limit of an amount rule.
    fn compare_amount(mut self, rule: Rule, taken: Minor) -> (Compared, Change) {
        let limit = *self.limit(rule);
        // Only of a rule that fails: the distance to no limit is beyond what numbers hold.
        let room = self.room(rule);
        let by = if self.amount > room { self.amount - room } else { Minor::ZERO };
        let (asked, usage) = (self.amount, self.facts.usage);
        let used = |before| Some([before, before + taken].map(Quantity::Amount));
        let (input, usage) = match rule {
            Rule::TransactionLimit => (asked + self.added_to, None),
            Rule::DailyLimit => (asked, used(usage.day_spent)),
            Rule::AllowanceBalance => (asked, used(usage.spent)),
            _ => (asked, None),
        };
        let threshold = (limit != Minor::UNLIMITED).then_some(Quantity::Amount(limit));
        let compared = Compared { input: Quantity::Amount(input), threshold, usage };
        (compared, Change::Raise { by, to: limit + by })
    }

    /// A PIN, beside how many wrong ones in a row lock the card.
    fn compared_pin(&self) -> Compared {
        let before = self.facts.usage.pin_failures;
        let is_compared = self.is_compared(CredentialsPresent::PIN) && before < PIN_FAILURES_MAX;
        let after = match (is_compared, self.failed.contains(Rule::PinWrong)) {
            (false, _) => before,
            (true, true) => before + 1,
            (true, false) => 0,
        };
        Compared {
            input: Quantity::Is(is_compared),
            threshold: Some(Quantity::Count(u16::from(PIN_FAILURES_MAX))),
            usage: Some([before, after].map(|count| Quantity::Count(u16::from(count)))),
        }
    }

    /// One attempt, beside how many the company allows.
    fn compare_attempts(&self, rule: Rule) -> (Compared, Change) {
        let window = self.window(rule).filter(|window| window.limit > 0);
        let usage = |window: AttemptWindow| {
            [window.count, window.count.saturating_add(1)].map(Quantity::Count)
        };
        let compared = Compared {
            input: Quantity::Count(1),
            threshold: window.map(|window| Quantity::Count(window.limit)),
            usage: window.map(usage),
        };
        let limit = window.map_or(0, |window| window.limit);
        (compared, Change::Attempts(limit.saturating_sub(1)))
    }
}

#[cfg(test)]
#[path = "explanation_tests.rs"]
mod tests;
