//! Which rules an attempt breaks in the model, and how attempts and wrong credentials add up.

use cardswitch_engine::decision::{Rule, RuleSet};
use cardswitch_engine::domain::card::{CardState, SuspensionReason};
use cardswitch_engine::domain::credential::{
    CredentialComparison, CredentialPresence, PresentedCredentials,
};
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::domain::merchant_category::is_in_scope;
use cardswitch_engine::domain::money::Minor;
use chrono::Datelike;

use super::AMOUNT_MAX;
use crate::model::{Card, HOUR, MINUTE, Model};

/// The facts of an attempt besides card and amount.
pub(crate) struct Attempt<'a> {
    /// The amount that the purchase holds already.
    pub(crate) added_to: i64,
    pub(crate) mcc: Option<u16>,
    pub(crate) is_cash: bool,
    pub(crate) credentials: &'a PresentedCredentials,
    pub(crate) is_reversed_before: bool,
    pub(crate) over_minute: bool,
    pub(crate) over_hour: bool,
}

impl Model {
    pub(crate) fn failed_rules(
        &self,
        at: i64,
        card_at: usize,
        amount: i64,
        tried: &Attempt<'_>,
    ) -> Vec<Rule> {
        let card = &self.cards[card_at];
        let company = &self.companies[card.company];
        let terms = &card.terms;
        let shown = tried.credentials;
        let has_ended = at > terms.ends_at.0;
        let is_ended = card.reason == SuspensionReason::EndTime && has_ended;
        let available = self.available(card.company) + company.credit_limit;
        let wrong = self.wrong_credentials(at, card, shown);
        let scope = terms.scope.codes();
        let checks: [_; Rule::ALL.len()] = [
            (Rule::CardTerminated, card.state == CardState::Terminated),
            (Rule::CompanyClosed, company.is_closed || self.is_holder_gone(card)),
            (Rule::ReversedBefore, tried.is_reversed_before),
            (Rule::OutOfBounds, !Self::can_post(amount) || amount > AMOUNT_MAX - tried.added_to),
            (Rule::CardUnactivated, card.state == CardState::Unactivated),
            (Rule::CardSuspended, card.state == CardState::Suspended && !is_ended),
            (Rule::CardExpired, card.today > card.expires_on),
            (Rule::CredentialsLocked, wrong.contains(&Rule::CredentialsLocked)),
            (Rule::ExpirationDiffers, wrong.contains(&Rule::ExpirationDiffers)),
            (Rule::PinWrong, wrong.contains(&Rule::PinWrong)),
            (Rule::CvvWrong, wrong.contains(&Rule::CvvWrong)),
            (Rule::ZipDiffers, wrong.contains(&Rule::ZipDiffers)),
            (Rule::CashWithdrawal, tried.is_cash || matches!(tried.mcc, Some(6010 | 6011))),
            (Rule::VelocityPerMinute, tried.over_minute),
            (Rule::VelocityPerHour, tried.over_hour),
            (Rule::BeforeStart, at < terms.starts_at.0),
            (Rule::AfterEnd, has_ended),
            (Rule::OutOfScope, !is_in_scope(scope, tried.mcc)),
            (Rule::TransactionLimit, amount + tried.added_to > terms.transaction_limit.0),
            (
                Rule::DailyLimit,
                terms.daily_limit != Minor::UNLIMITED
                    && amount > terms.daily_limit.0 - self.day_spent(card_at),
            ),
            (Rule::AllowanceBalance, amount > self.allowance_balance(card_at)),
            (Rule::AvailableCredit, amount > available),
        ];
        checks.into_iter().filter(|(_, fails)| *fails).map(|(rule, _)| rule).collect()
    }

    /// The rules that the shown credentials break: their lock alone, or one for each wrong credential.
    fn wrong_credentials(&self, at: i64, card: &Card, shown: &PresentedCredentials) -> Vec<Rule> {
        if card.is_locked(at) {
            return if shown.is_empty() { Vec::new() } else { vec![Rule::CredentialsLocked] };
        }
        let expiry = (card.expires_on.year() % 100) as u16 * 100 + card.expires_on.month() as u16;
        // Only a comparison reads shown credentials; the lock is the model's own.
        let mut look = CredentialComparison::open(None, Timestamp(at)).unwrap();
        let is_pin_own = |pin: u64| card.wrong_pins < 3 && card.pin != 0 && pin == card.pin;
        let checks = [
            (
                Rule::ExpirationDiffers,
                look.differs(CredentialPresence::EXPIRY, shown.expiry, |month| month.0 == expiry),
            ),
            (
                Rule::PinWrong,
                look.differs(CredentialPresence::PIN, shown.pin, |pin| is_pin_own(pin.0)),
            ),
            (Rule::CvvWrong, look.cvv_differs(shown.cvv)),
            (
                Rule::ZipDiffers,
                look.differs(CredentialPresence::ZIP, shown.zip, |zip| {
                    card.zip == 0 || zip.0 == card.zip
                }),
            ),
        ];
        checks.into_iter().filter(|(_, is_wrong)| *is_wrong).map(|(rule, _)| rule).collect()
    }

    /// Whether this attempt is one too many in a minute, and in an hour; counts it.
    pub(crate) fn count_attempt(&mut self, at: i64, card: usize) -> (bool, bool) {
        let card = &mut self.cards[card];
        let limits = self.companies[card.company].velocity;
        if limits.per_minute == 0 && limits.per_hour == 0 {
            return (false, false);
        }
        let since = |span: i64| card.attempts.iter().filter(|then| **then > at - span).count();
        let is_over = |limit: u16, span| limit > 0 && since(span) >= usize::from(limit);
        let over = (is_over(limits.per_minute, MINUTE), is_over(limits.per_hour, HOUR));
        card.attempts.push(at);
        over
    }

    pub(crate) fn count_credentials(
        &mut self,
        at: i64,
        card: usize,
        shown: &PresentedCredentials,
        failed: &[Rule],
    ) {
        let card = &mut self.cards[card];
        if card.is_locked(at) {
            return;
        }
        let is_pin_compared = shown.pin.is_some() && card.wrong_pins < 3;
        if is_pin_compared {
            let is_wrong = failed.contains(&Rule::PinWrong);
            card.wrong_pins = if is_wrong { card.wrong_pins + 1 } else { 0 };
        }
        let wrong = [Rule::ExpirationDiffers, Rule::PinWrong, Rule::CvvWrong, Rule::ZipDiffers];
        let is_compared = |rule: &Rule| *rule != Rule::PinWrong || is_pin_compared;
        if failed.iter().any(|rule| wrong.contains(rule) && is_compared(rule)) {
            card.wrong_credentials = match card.wrong_credentials {
                Some((since, count)) if at < since + HOUR => Some((since, count + 1)),
                _ => Some((at, 1)),
            };
        }
    }
}

impl Card {
    fn is_locked(&self, at: i64) -> bool {
        self.wrong_credentials.is_some_and(|(since, count)| count >= 5 && at < since + HOUR)
    }
}

pub(crate) fn set_of(rules: &[Rule]) -> RuleSet {
    let mut set = RuleSet::EMPTY;
    for rule in rules {
        set.insert_if(*rule, true);
    }
    set
}
