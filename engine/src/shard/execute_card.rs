//! The common parts of all decisions on a card: the judgement, and the count of its credentials.
//!
//! INVARIANT: compared credentials are always counted: `judge` does both, and nothing else here
//! asks the rules.

use super::card_money::CardMoney;
use super::shard_change::ShardChange;
use super::state::ShardState;
use crate::command::Moment;
use crate::command::effect::Effect;
use crate::decision::{
    AmountSource, AttemptWindow, DecisionFacts, Facts, KnownAmounts, Question, Rule, RuleSet,
    VelocityFacts, VelocityFinding, Verdict, decide,
};
use crate::domain::company::VelocityLimits;
use crate::domain::credential::{CredentialFailures, CredentialPresence, PresentedCredentials};
use crate::domain::ids::{CardSlot, Timestamp};
use crate::domain::merchant::Mcc;
use crate::domain::money::Minor;

/// An attempt to use a card.
pub(super) struct Attempt<'a> {
    pub(super) amount: Minor,
    /// The holds of the purchase so far.
    pub(super) added_to: Minor,
    pub(super) mcc: Option<Mcc>,
    pub(super) is_cash: bool,
    pub(super) credentials: &'a PresentedCredentials,
    pub(super) is_reversed_before: bool,
    /// Whether velocity limits apply; advices tell of the past and are not counted.
    pub(super) velocity: VelocityFinding,
    /// The attempts before this one, where the company limits them and they count.
    pub(super) before: Option<VelocityFacts>,
}

/// The judgement of an attempt.
pub(super) struct Judgement {
    /// The rules that failed.
    pub(super) failed: RuleSet,
    /// The facts that they were evaluated on, kept with the transaction.
    pub(super) facts: DecisionFacts,
}

/// Evaluates every rule for an attempt, and counts the credentials that were compared for it.
pub(super) fn judge(
    change: &mut ShardChange<'_>,
    money: &mut CardMoney<'_>,
    attempt: &Attempt<'_>,
) -> Judgement {
    let question = Question {
        amount: attempt.amount,
        added_to: attempt.added_to,
        mcc: attempt.mcc,
        is_cash: attempt.is_cash,
        credentials: attempt.credentials,
        at: change.moment.at,
        today: money.account.day.date,
    };
    let facts = facts_of(change.state, money, attempt);
    let verdict = decide(&facts, &question);
    // The kept facts are those before this attempt is counted.
    let facts = keep_facts(&facts, change.moment, attempt);
    count_credentials(change, money, verdict);
    Judgement { failed: verdict.failed, facts }
}

/// The facts of a card that the rules read for an attempt.
pub(super) fn facts_of<'a>(
    state: &'a ShardState,
    money: &CardMoney<'_>,
    attempt: &Attempt<'_>,
) -> Facts<'a> {
    let company = &state.company(state.cards.head(money.slot).company).company;
    let (balances, credit_limit) = (&money.account.balances, money.account.credit_limit());
    Facts {
        card: state.card(money.slot),
        usage: money.usage,
        known: KnownAmounts::of(&AmountSource { company, balances, credit_limit }),
        is_company_closed: state.is_company_closed(money.slot),
        is_reversed_before: attempt.is_reversed_before,
        velocity: attempt.velocity,
        failures: state.failures.get(&money.slot).copied(),
    }
}

/// Keeps the facts of an attempt as they were before it.
/// Cost: copies of what `judge` has just read.
fn keep_facts(facts: &Facts<'_>, moment: &Moment<'_>, attempt: &Attempt<'_>) -> DecisionFacts {
    let card = facts.card;
    let mut credentials = CredentialPresence::shown(attempt.credentials);
    credentials.insert_if(CredentialPresence::CARD_HAS_PIN, card.pin.0 != 0);
    credentials.insert_if(CredentialPresence::CARD_HAS_ZIP, !card.zip.is_absent());
    DecisionFacts {
        terms: card.terms,
        usage: facts.usage,
        known: facts.known,
        expires_on: card.expires_on,
        credentials,
        failures: facts.failures.filter(|failures| failures.is_current(moment.at)),
        velocity: attempt.before,
    }
}

/// The attempts before this one, where the company limits velocity.
pub(super) fn velocity_facts(
    state: &ShardState,
    moment: &Moment<'_>,
    slot: CardSlot,
) -> Option<VelocityFacts> {
    let limits = state.company(state.cards.head(slot).company).velocity;
    if !limits.is_set() {
        return None;
    }
    let before = state.attempts.get(&slot).map_or(&[][..], Vec::as_slice);
    let window = |limit, span| AttemptWindow::of(before, limit, span, moment.at);
    Some(VelocityFacts {
        minute: window(limits.per_minute, Timestamp::MINUTE),
        hour: window(limits.per_hour, Timestamp::HOUR),
    })
}

/// Counts an attempt where the company limits velocity, and finds the limits it is over.
pub(super) fn count_attempt(change: &mut ShardChange<'_>, slot: CardSlot) -> VelocityFinding {
    let limits = change.state.company(change.state.cards.head(slot).company).velocity;
    if !limits.is_set() {
        return VelocityFinding::default();
    }
    let before = change.state.attempts.get(&slot).map_or(&[][..], Vec::as_slice);
    let finding = find_velocity(before, limits, change.moment.at);
    change.push(Effect::CardAttempts(slot, attempts_after(before, limits, change.moment.at)));
    finding
}

fn find_velocity(before: &[Timestamp], limits: VelocityLimits, at: Timestamp) -> VelocityFinding {
    let is_over = |limit, span| AttemptWindow::of(before, limit, span, at).is_over(at);
    VelocityFinding {
        over_minute: is_over(limits.per_minute, Timestamp::MINUTE),
        over_hour: is_over(limits.per_hour, Timestamp::HOUR),
    }
}

/// The attempts that can still matter: those of the last hour, and no more than decide a limit.
fn attempts_after(before: &[Timestamp], limits: VelocityLimits, at: Timestamp) -> Vec<Timestamp> {
    let kept_max = usize::from(limits.per_minute.max(limits.per_hour));
    let mut attempts: Vec<_> =
        before.iter().copied().filter(|attempt| *attempt > at.plus(-Timestamp::HOUR)).collect();
    attempts.push(at);
    attempts.drain(..attempts.len().saturating_sub(kept_max));
    attempts
}

/// Counts wrong credentials, and wrong PINs in a row; a right PIN ends the row. A PIN that was not compared, behind
/// too many wrong ones, is none.
fn count_credentials(
    change: &mut ShardChange<'_>,
    money: &mut CardMoney<'_>,
    Verdict { mut failed, compared }: Verdict,
) {
    if compared.contains(CredentialPresence::PIN) {
        let is_wrong = failed.contains(Rule::PinWrong);
        money.usage.pin_failures = if is_wrong { money.usage.pin_failures + 1 } else { 0 };
    } else {
        failed = failed.without(Rule::PinWrong);
    }
    if failed.intersection(RuleSet::CREDENTIALS).is_empty() {
        return;
    }
    let current =
        change.state.failures.get(&money.slot).filter(|known| known.is_current(change.moment.at));
    let failures = match current {
        Some(known) => CredentialFailures { count: known.count.saturating_add(1), ..*known },
        None => CredentialFailures { since: change.moment.at, count: 1 },
    };
    change.push(Effect::CredentialFailures(money.slot, failures));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn velocity_looks_back_a_sliding_minute_and_hour() {
        let limits = VelocityLimits { per_minute: 2, per_hour: 3 };
        let at = Timestamp(10 * Timestamp::HOUR);
        let ago = |micros: i64| at.plus(-micros);
        let rows: [(&[Timestamp], bool, bool); 5] = [
            (&[], false, false),
            (&[ago(Timestamp::SECOND)], false, false),
            (&[ago(2 * Timestamp::SECOND), ago(Timestamp::SECOND)], true, false),
            (&[ago(Timestamp::MINUTE), ago(Timestamp::SECOND)], false, false),
            (
                &[
                    ago(40 * Timestamp::MINUTE),
                    ago(3 * Timestamp::MINUTE),
                    ago(2 * Timestamp::MINUTE),
                ],
                false,
                true,
            ),
        ];
        for (before, over_minute, over_hour) in rows {
            let found = find_velocity(before, limits, at);
            assert_eq!(found, VelocityFinding { over_minute, over_hour }, "{before:?}");
        }
        let kept = attempts_after(&[ago(Timestamp::HOUR), ago(5), ago(4), ago(3)], limits, at);
        assert_eq!(kept, [ago(4), ago(3), at]);
    }

    /// A raised limit knows only the attempts that the old one needed; so many more pass as it was raised by.
    #[test]
    fn a_raised_limit_lets_through_no_more_than_it_was_raised_by() {
        let (old, new) = (3_u16, 10_u16);
        let limits = |per_hour| VelocityLimits { per_minute: 0, per_hour };
        let at = |second: i64| Timestamp(10 * Timestamp::HOUR).plus(second * Timestamp::SECOND);
        let mut known = Vec::new();
        (0..50).for_each(|second| known = attempts_after(&known, limits(old), at(second)));
        let raised = (50..100).take_while(|second| {
            let is_over = find_velocity(&known, limits(new), at(*second)).over_hour;
            known = attempts_after(&known, limits(new), at(*second));
            !is_over
        });
        assert_eq!(raised.count(), usize::from(new - old));
    }
}
