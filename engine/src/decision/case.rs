//! A repeated decision on its kept facts: the values that each rule compared, and the least change
//! with which it approves.

use chrono_tz::Tz;

use super::explanation::{Change, ComparedValues, Quantity, Remedy};
use super::facts::{AttemptWindow, DecisionFacts, IncrementDecision};
use super::{Facts, PIN_FAILURES_MAX, Question, Rule, RuleSet, VelocityFinding, decide};
use crate::domain::allowance::Scope;
use crate::domain::business_date::{BusinessDate, date_at, start_of_date};
use crate::domain::card::{CardRecord, CardState, PanHash, SuspensionReason};
use crate::domain::credential::{
    CredentialFailures, CredentialPresence, Cvv, CvvPair, ExpiryMonth, PackedZip, PinVerifier,
    PresentedCredentials, PresentedValue,
};
use crate::domain::ids::{AccountSlot, Timestamp};
use crate::domain::merchant::Mcc;
use crate::domain::money::Minor;
use crate::domain::transaction::{TransactionKind, TransactionRecord};

/// A repeatable decision: its request, its facts, its outcome.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    facts: DecisionFacts,
    amount: Minor,
    /// The amount that the purchase held before an increment; zero for a purchase.
    added_to: Minor,
    /// Whether the purchase itself had used the card up.
    has_used_card_up: bool,
    mcc: Option<Mcc>,
    is_cash: bool,
    at: Timestamp,
    zone: Tz,
    /// The rules that failed. They stand for the inputs that are not kept: the credentials
    /// themselves, the state of the company and its members, early reversals.
    failed: RuleSet,
}

impl Case {
    pub(super) fn of(record: &TransactionRecord, facts: DecisionFacts, zone: Tz) -> Self {
        Self {
            facts,
            amount: record.requested,
            added_to: Minor::ZERO,
            has_used_card_up: false,
            mcc: record.merchant.as_ref().and_then(|merchant| merchant.mcc),
            // An advice about cash makes a purchase.
            is_cash: record.kind == TransactionKind::Cash
                || record.failed_rules.contains(Rule::CashWithdrawal),
            at: record.authorized_at,
            zone,
            failed: record.failed_rules,
        }
    }

    pub(super) fn of_increment(decision: &IncrementDecision, zone: Tz) -> Self {
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

    /// Whether the rules of this build reach the same decision.
    pub(super) fn is_as_decided(&self) -> bool {
        self.decide_again() == self.failed
    }

    fn decide_again(&self) -> RuleSet {
        let DecisionFacts { terms, known, expires_on, failures, .. } = self.facts;
        let today = date_at(self.zone, self.at);
        let usage = self.facts.usage.rolled(terms.interval, today);
        let card = CardRecord {
            pan_hash: PanHash::default(),
            pin: PinVerifier(u64::from(self.has(CredentialPresence::CARD_HAS_PIN))),
            zip: PackedZip(u64::from(self.has(CredentialPresence::CARD_HAS_ZIP))),
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

    fn has(&self, credential: CredentialPresence) -> bool {
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

    /// Whether a credential was compared: shown, and not locked.
    fn is_compared(&self, credential: CredentialPresence) -> bool {
        let is_locked = self.failed.contains(Rule::CredentialsLocked);
        self.has(credential) && !is_locked
    }

    /// Credentials that compare as those in the message did: 1 stands for the card's own.
    /// Credentials that were not compared count as right.
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
            expiry: self.has(CredentialPresence::EXPIRY).then_some(PresentedValue::new(expiry)),
            cvv: self.has(CredentialPresence::CVV).then_some(PresentedValue::new(cvv)),
            pin: self.has(CredentialPresence::PIN).then_some(PresentedValue::new(pin)),
            zip: self.has(CredentialPresence::ZIP).then_some(PresentedValue::new(zip)),
        }
    }

    /// Changes that together satisfy the rules in `has_say`; none if they would not.
    pub(super) fn remedies(&self, has_say: RuleSet) -> Vec<Remedy> {
        let mut changed = *self;
        let mut remedies = Vec::new();
        // A change may make an earlier rule fail: a later end does not open the card that the end
        // has suspended. No rule fails twice.
        for _ in Rule::ALL {
            let failed = changed.decide_again().intersection(has_say);
            let Some(rule) = failed.first() else { return remedies };
            let (_, change) = changed.compare(rule, Minor::ZERO);
            changed.make(rule, change);
            remedies.push(Remedy { rule, change, after: self.opens_at(rule) });
        }
        if changed.decide_again().intersection(has_say).is_empty() { remedies } else { Vec::new() }
    }

    /// The limit that an amount rule compares with.
    fn limit(&mut self, rule: Rule) -> &mut Minor {
        let DecisionFacts { terms, known, .. } = &mut self.facts;
        match rule {
            Rule::TransactionLimit => &mut terms.transaction_limit,
            Rule::DailyLimit => &mut terms.daily_limit,
            Rule::AllowanceBalance => &mut terms.amount,
            _ => &mut known.available_credit,
        }
    }

    /// The amount that an amount rule leaves.
    fn room(mut self, rule: Rule) -> Minor {
        let DecisionFacts { terms, usage, .. } = &self.facts;
        match rule {
            Rule::DailyLimit => usage.day_room(terms),
            Rule::AllowanceBalance => usage.allowance_balance(terms),
            Rule::TransactionLimit => terms.transaction_limit - self.added_to,
            _ => *self.limit(rule),
        }
    }

    /// The largest amount within the ledger's range.
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
                self.facts.credentials.insert_if(CredentialPresence::CARD_HAS_PIN, true);
            }
            Rule::CashWithdrawal => {
                self.is_cash = false;
                self.mcc = self.mcc.filter(|mcc| !Mcc::CASH.contains(mcc));
            }
            _ => {}
        }
    }

    /// The first instant at which a failed rule would pass and no other would fail instead.
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

    /// The largest amount that would have been approved; none if there is none, or if other rules
    /// than those of amounts failed.
    pub(super) fn amount_at_most(&self) -> Option<Minor> {
        let rooms = RuleSet::AMOUNTS.iter().map(|rule| self.room(rule));
        let amount = rooms.fold(self.bound(), Minor::min);
        let would = Self { amount, ..*self };
        (amount.is_positive() && would.decide_again().is_empty()).then_some(amount)
    }

    /// The values that a rule compared, in a decision that took `taken`, and the least change that
    /// satisfies the rule if it failed.
    pub(super) fn compare(&self, rule: Rule, taken: Minor) -> (ComparedValues, Change) {
        let facts = self.facts;
        let only = |input| ComparedValues { input, threshold: None, usage: None };
        let against = |input, threshold| ComparedValues { input, threshold, usage: None };
        let is = |is| (only(Quantity::Is(is)), Change::Otherwise);
        // The bounded amount is that of the whole purchase after the increment.
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
            Rule::ExpirationDiffers => is(self.is_compared(CredentialPresence::EXPIRY)),
            Rule::PinWrong => (self.compared_pin(), Change::Otherwise),
            Rule::CvvWrong => is(self.is_compared(CredentialPresence::CVV)),
            Rule::ZipDiffers => is(self.is_compared(CredentialPresence::ZIP)),
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

    /// The compared amount and the limit of an amount rule, with the least change.
    fn compare_amount(mut self, rule: Rule, taken: Minor) -> (ComparedValues, Change) {
        let limit = *self.limit(rule);
        // The distance is computed for a failed rule only: that to no limit would overflow.
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
        let compared = ComparedValues { input: Quantity::Amount(input), threshold, usage };
        (compared, Change::Raise { by, to: limit + by })
    }

    /// The PIN's comparison: the wrong PINs in a row before and after it, beside the number that
    /// locks the PIN.
    fn compared_pin(&self) -> ComparedValues {
        let before = self.facts.usage.pin_failures;
        let is_compared = self.is_compared(CredentialPresence::PIN) && before < PIN_FAILURES_MAX;
        let after = match (is_compared, self.failed.contains(Rule::PinWrong)) {
            (false, _) => before,
            (true, true) => before + 1,
            (true, false) => 0,
        };
        ComparedValues {
            input: Quantity::Is(is_compared),
            threshold: Some(Quantity::Count(u16::from(PIN_FAILURES_MAX))),
            usage: Some([before, after].map(|count| Quantity::Count(u16::from(count)))),
        }
    }

    /// The attempt itself, with the number of attempts and the number that the company allows.
    fn compare_attempts(&self, rule: Rule) -> (ComparedValues, Change) {
        let window = self.window(rule).filter(|window| window.limit > 0);
        let usage = |window: AttemptWindow| {
            [window.count, window.count.saturating_add(1)].map(Quantity::Count)
        };
        let compared = ComparedValues {
            input: Quantity::Count(1),
            threshold: window.map(|window| Quantity::Count(window.limit)),
            usage: window.map(usage),
        };
        let limit = window.map_or(0, |window| window.limit);
        (compared, Change::Attempts(limit.saturating_sub(1)))
    }
}

#[cfg(test)]
#[path = "case_tests.rs"]
mod tests;
