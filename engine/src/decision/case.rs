//! A repeated decision on its kept facts: the values that each rule compared, and the least change
//! with which it approves.

use chrono_tz::Tz;

use super::comparison::{Alteration, Comparison, Limit, Window};
use super::explanation::{Change, Quantity, Remedy};
use super::facts::{AttemptWindow, DecisionFacts, IncrementDecision, VelocityFacts};
use super::{Facts, PIN_FAILURES_MAX, Question, Rule, RuleSet, VelocityFinding, decide, each_room};
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
        let failed = self.ask(|facts, question| decide(facts, question).failed);
        let is_own_doing =
            self.has_used_card_up && self.facts.usage.suspension == SuspensionReason::SingleUse;
        if is_own_doing { failed.without(Rule::CardSuspended) } else { failed }
    }

    /// Asks for what follows from the facts and the question of the decision.
    fn ask<T>(&self, ask: impl FnOnce(&Facts<'_>, &Question<'_>) -> T) -> T {
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
        ask(&facts, &question)
    }

    fn has(&self, credential: CredentialPresence) -> bool {
        self.facts.credentials.contains(credential)
    }

    fn velocity(&self) -> VelocityFinding {
        let is_over = |window: Window| {
            let velocity = self.facts.velocity;
            velocity.is_some_and(|mut velocity| window(&mut velocity).is_over(self.at))
        };
        VelocityFinding {
            over_minute: is_over(|velocity| &mut velocity.minute),
            over_hour: is_over(|velocity| &mut velocity.hour),
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
            let Comparison { change, alteration, .. } = changed.compare(rule, Minor::ZERO);
            changed.make(rule, change, alteration);
            remedies.push(Remedy { rule, change, after: self.opens_at(rule) });
        }
        if changed.decide_again().intersection(has_say).is_empty() { remedies } else { Vec::new() }
    }

    /// The largest amount within the ledger's range.
    fn bound(&self) -> Minor {
        let room = |used: Minor| Minor::BALANCE_MAX - used;
        let whole = Minor::AMOUNT_MAX - self.added_to;
        let most = room(self.facts.known.held).min(room(self.facts.usage.spent)).min(whole);
        self.amount.min(most).or_zero()
    }

    /// Makes a change.
    fn make(&mut self, rule: Rule, change: Change, alteration: Alteration) {
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
            Change::WrongCredentials(count) => {
                facts.failures = facts.failures.map(|known| CredentialFailures { count, ..known });
            }
            Change::Raise { to, .. } => {
                if let Alteration::Limit(limit) = alteration {
                    *limit(facts) = to;
                }
            }
            Change::Attempts(count) => {
                if let (Alteration::Window(window), Some(velocity)) =
                    (alteration, &mut facts.velocity)
                {
                    window(velocity).count = count;
                }
            }
            Change::Otherwise => {
                self.failed = self.failed.without(rule);
                if let Alteration::Objection(remove) = alteration {
                    remove(self);
                }
            }
        }
    }

    /// The first instant at which a failed rule would pass and no other would fail instead.
    fn opens_at(&self, rule: Rule) -> Option<Timestamp> {
        let opens_at = self.compare(rule, Minor::ZERO).opens_at?;
        if opens_at > Timestamp::CALENDAR_MAX {
            return None;
        }
        let mut later = Self { at: opens_at, ..*self };
        later.facts.velocity = self.facts.velocity.map(VelocityFacts::after_this_one);
        let failed = later.decide_again();
        let is_no_worse = failed.intersection(self.failed) == failed;
        (is_no_worse && !failed.contains(rule)).then_some(opens_at)
    }

    /// The largest amount that would have been approved; none if there is none, or if other rules
    /// than those of amounts failed.
    pub(super) fn amount_at_most(&self) -> Option<Minor> {
        let mut amount = self.bound();
        self.ask(|facts, question| {
            each_room(facts, question.added_to, |_, room| amount = amount.min(room));
        });
        let would = Self { amount, ..*self };
        (amount.is_positive() && would.decide_again().is_empty()).then_some(amount)
    }

    /// What a rule compared, in a decision that took `taken`, and what satisfies it if it failed.
    pub(super) fn compare(&self, rule: Rule, taken: Minor) -> Comparison {
        let DecisionFacts { terms, usage, expires_on, .. } = self.facts;
        let (now, today) = (Quantity::Instant(self.at), date_at(self.zone, self.at));
        // An amount with what it adds to: bounds and the limit of a transaction are for both.
        let whole = self.amount + self.added_to;
        let amount = |asked, limit| self.compare_amount(rule, asked, limit);
        let objection = |remove| Comparison::objection(self.failed.contains(rule), remove);
        let credential = |of| Comparison::objection(self.is_compared(of), NOT_KEPT);
        let used = |before: Minor| [before, before + taken].map(Quantity::Amount);
        match rule {
            Rule::CardTerminated | Rule::CardUnactivated | Rule::CardSuspended => {
                Comparison::of(Quantity::Card(usage.state, usage.suspension), Change::ActiveCard)
            }
            Rule::CompanyClosed | Rule::ReversedBefore => objection(NOT_KEPT),
            Rule::CashWithdrawal => objection(|case| {
                case.is_cash = false;
                case.mcc = case.mcc.filter(|mcc| !Mcc::CASH.contains(mcc));
            }),
            Rule::OutOfBounds => {
                Comparison::of(Quantity::Amount(whole), Change::Amount(self.bound()))
                    .against(Quantity::Amount(Minor::AMOUNT_MAX))
            }
            Rule::CardExpired => Comparison::of(Quantity::Date(today), Change::ValidThrough(today))
                .against(Quantity::Date(expires_on)),
            Rule::ExpirationDiffers => credential(CredentialPresence::EXPIRY),
            Rule::PinWrong => self.compare_pin(),
            Rule::CvvWrong => credential(CredentialPresence::CVV),
            Rule::ZipDiffers => credential(CredentialPresence::ZIP),
            Rule::VelocityPerMinute => self.compare_attempts(|velocity| &mut velocity.minute),
            Rule::VelocityPerHour => self.compare_attempts(|velocity| &mut velocity.hour),
            Rule::CredentialsLocked => self.compare_wrong_credentials(),
            Rule::BeforeStart => {
                let start = terms.starts_at;
                let bound = (start != Timestamp::MIN).then_some(Quantity::Instant(start));
                Comparison::of(now, Change::StartBy(self.at)).against(bound).opens_at(start)
            }
            Rule::AfterEnd => {
                let end = terms.ends_at;
                let bound = (end != Timestamp::MAX).then_some(Quantity::Instant(end));
                Comparison::of(now, Change::EndFrom(self.at)).against(bound)
            }
            Rule::OutOfScope => {
                let scope = terms.scope;
                let bound = (!scope.codes().is_empty()).then_some(Quantity::Scope(scope));
                Comparison::of(Quantity::Category(self.mcc), Change::Category(self.mcc))
                    .against(bound)
            }
            Rule::TransactionLimit => amount(whole, |facts| &mut facts.terms.transaction_limit),
            Rule::DailyLimit => {
                let tomorrow = BusinessDate(today.0 + 1);
                amount(self.amount, |facts| &mut facts.terms.daily_limit)
                    .used(used(usage.day_spent))
                    .opens_at(start_of_date(self.zone, tomorrow))
            }
            Rule::AllowanceBalance => {
                let next_period = today.next_period_start(terms.interval);
                amount(self.amount, |facts| &mut facts.terms.amount)
                    .used(used(usage.spent))
                    .opens_at(next_period.map(|date| start_of_date(self.zone, date)))
            }
            Rule::AvailableCredit => amount(self.amount, |facts| &mut facts.known.available_credit),
        }
    }

    /// The compared amount and the limit of a rule of amounts, with the least raise.
    fn compare_amount(mut self, rule: Rule, asked: Minor, limit: Limit) -> Comparison {
        let mut by = Minor::ZERO;
        self.ask(|facts, question| {
            each_room(facts, question.added_to, |of, room| {
                // For a failed rule only: the distance to no limit would overflow.
                if of == rule && self.amount > room {
                    by = self.amount - room;
                }
            });
        });
        let most = *limit(&mut self.facts);
        let raise = Change::Raise { by, to: most + by };
        let threshold = (most != Minor::UNLIMITED).then_some(Quantity::Amount(most));
        let asked = Comparison::of(Quantity::Amount(asked), raise).against(threshold);
        Comparison { alteration: Alteration::Limit(limit), ..asked }
    }

    /// The PIN's comparison: the wrong PINs in a row before and after it, beside the number that
    /// locks the PIN.
    fn compare_pin(&self) -> Comparison {
        let before = self.facts.usage.pin_failures;
        let is_compared = self.is_compared(CredentialPresence::PIN) && before < PIN_FAILURES_MAX;
        let after = match (is_compared, self.failed.contains(Rule::PinWrong)) {
            (false, _) => before,
            (true, true) => before + 1,
            (true, false) => 0,
        };
        let count = |count: u8| Quantity::Count(count.into());
        let set_right = |case: &mut Self| {
            case.facts.usage.pin_failures = 0;
            case.facts.credentials.insert_if(CredentialPresence::CARD_HAS_PIN, true);
        };
        Comparison::objection(is_compared, set_right)
            .against(count(PIN_FAILURES_MAX))
            .used([before, after].map(count))
    }

    /// The wrong credentials of the hour before, and the number that locks them.
    fn compare_wrong_credentials(&self) -> Comparison {
        const MAX: u8 = CredentialFailures::COUNT_MAX;
        let failures = self.facts.failures;
        let count = failures.map_or(0, |failures| failures.count);
        let [count, most] = [count, MAX].map(|count| Quantity::Count(count.into()));
        Comparison::of(count, Change::WrongCredentials(MAX - 1))
            .against(most)
            .opens_at(failures.map(|failures| failures.since.plus(Timestamp::HOUR)))
    }

    /// The attempt itself, with the number of attempts and the number that the company allows.
    fn compare_attempts(&self, window: Window) -> Comparison {
        let known = self.facts.velocity.map(|mut velocity| *window(&mut velocity));
        let limited = known.filter(|known| known.limit > 0);
        let fewer = limited.map_or(0, |limited| limited.limit - 1);
        let one = Comparison::of(Quantity::Count(1), Change::Attempts(fewer));
        let one = Comparison { alteration: Alteration::Window(window), ..one };
        let Some(AttemptWindow { limit, count, room_at }) = limited else { return one };
        one.against(Quantity::Count(limit))
            .used([count, count.saturating_add(1)].map(Quantity::Count))
            .opens_at(room_at)
    }
}

/// Of an objection whose input is not kept, only the failure is undone.
const NOT_KEPT: fn(&mut Case) = |_| {};

#[cfg(test)]
#[path = "case_tests.rs"]
mod tests;
