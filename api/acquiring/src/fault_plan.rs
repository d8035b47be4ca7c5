//! Misbehaviour towards clients under test: answers and webhooks that come late, twice or not at all.
//!
//! A plan only chooses. The room that sends carries the fault out, and only after the decision is durable:
//! nothing here reaches the engine. Rules are tried in order; the first that fits and whose draw succeeds
//! is taken. Draws come from the seed, in the order of the answers.
//!
//! INVARIANT: no delay is longer than `DELAY_MAX`, so what is held for faults is bounded.

use std::fmt;
use std::time::Duration;

use parking_lot::Mutex;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

/// The longest that an answer or a webhook is held.
pub const DELAY_MAX: Duration = Duration::from_secs(600);
/// How many rules a plan may have.
const RULES_MAX: usize = 1_000;
/// The highest rate that a seed draws for one kind of fault.
const DRAWN_RATE_MAX: f64 = 0.04;
/// The longest delay that a seed draws. Units: milliseconds.
const DRAWN_DELAY_MS_MAX: u64 = 20_000;

/// A fault of an answer to an authorization.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AnswerFault {
    /// It comes after `late_ms`.
    Late,
    /// It comes behind the answer to the reversal of the same purchase.
    AfterReversal,
    /// It comes twice.
    Twice,
    /// The connection ends instead.
    Disconnect,
    /// The switch signs off first, unasked.
    SignOff,
    /// It says 91, as if the switch had not taken the message.
    #[serde(rename = "code-91")]
    NotTaken,
    /// It says 96, as if the outcome were unknown.
    #[serde(rename = "code-96")]
    OutcomeUnknown,
}

/// A fault of a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WebhookFault {
    /// It comes after `late_ms`.
    Late,
    /// It comes twice.
    Twice,
}

/// As a file names it.
impl fmt::Display for AnswerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// As a file names it.
impl fmt::Display for WebhookFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// A fault that was drawn, with how long what it befalls is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrawnFault<F> {
    /// The fault.
    pub fault: F,
    /// The delay, of a fault that has one.
    pub delay: Duration,
}

/// Faults as a file declares them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultRules {
    /// The seed of all draws.
    #[serde(default)]
    pub seed: u64,
    /// Faults of answers.
    #[serde(default)]
    pub answers: Vec<AnswerRule>,
    /// Faults of webhooks.
    #[serde(default)]
    pub webhooks: Vec<WebhookRule>,
}

/// The answers that a fault befalls.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerRule {
    /// The fault.
    pub fault: AnswerFault,
    /// Cards, by the last four digits of their numbers; all where absent.
    pub last_four: Option<String>,
    /// Purchases, by their amount; all where absent. Units: minor units of the message's currency.
    pub amount_minor: Option<u64>,
    /// The share of these answers, from 0 to 1.
    #[serde(default = "always")]
    pub rate: f64,
    /// The delay. Units: milliseconds.
    pub late_ms: Option<u64>,
}

/// The webhooks that a fault befalls.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookRule {
    /// The fault.
    pub fault: WebhookFault,
    /// The share of webhooks, from 0 to 1.
    #[serde(default = "always")]
    pub rate: f64,
    /// The delay. Units: milliseconds.
    pub late_ms: Option<u64>,
}

const fn always() -> f64 {
    1.0
}

/// The reason why rules cannot be used, with the list and the place of the rule, from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{list} rule {place}: {reason}")]
pub struct FaultRuleError {
    list: &'static str,
    place: usize,
    reason: &'static str,
}

/// Chooses the faults of a running switch.
#[derive(Debug)]
pub struct FaultPlan {
    rules: FaultRules,
    random: Mutex<ChaCha8Rng>,
}

impl FaultPlan {
    /// Errors: the first rule that cannot be carried out.
    pub fn of(rules: FaultRules) -> Result<Self, FaultRuleError> {
        check("answers", &rules.answers, |rule| {
            let digits = rule.last_four.as_deref().unwrap_or("0000");
            match digits.len() == 4 && digits.bytes().all(|digit| digit.is_ascii_digit()) {
                true => fault_of_rule(rule.rate, rule.late_ms, rule.fault == AnswerFault::Late),
                false => Some("last_four needs four digits"),
            }
        })?;
        check("webhooks", &rules.webhooks, |rule| {
            fault_of_rule(rule.rate, rule.late_ms, rule.fault == WebhookFault::Late)
        })?;
        let random = Mutex::new(ChaCha8Rng::seed_from_u64(rules.seed));
        Ok(Self { rules, random })
    }

    /// Every kind of fault, seldom: rates and delays are drawn from the seed.
    pub fn from_seed(seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let answers = [
            AnswerFault::Late,
            AnswerFault::AfterReversal,
            AnswerFault::Twice,
            AnswerFault::Disconnect,
            AnswerFault::SignOff,
            AnswerFault::NotTaken,
            AnswerFault::OutcomeUnknown,
        ];
        let answers = answers.map(|fault| AnswerRule {
            fault,
            last_four: None,
            amount_minor: None,
            rate: share(&mut random) * DRAWN_RATE_MAX,
            late_ms: (fault == AnswerFault::Late).then(|| drawn_delay_ms(&mut random)),
        });
        let webhooks = [WebhookFault::Late, WebhookFault::Twice].map(|fault| WebhookRule {
            fault,
            rate: share(&mut random) * DRAWN_RATE_MAX,
            late_ms: (fault == WebhookFault::Late).then(|| drawn_delay_ms(&mut random)),
        });
        let rules = FaultRules { seed, answers: answers.into(), webhooks: webhooks.into() };
        Self { rules, random: Mutex::new(random) }
    }

    /// Its rules.
    pub const fn rules(&self) -> &FaultRules {
        &self.rules
    }

    /// Draws the fault of the answer to a purchase, if it has one.
    pub fn draw_answer(
        &self,
        card_number: &[u8],
        amount_minor: Option<u64>,
    ) -> Option<DrawnFault<AnswerFault>> {
        let fits = |rule: &&AnswerRule| {
            let last_four = rule.last_four.as_deref();
            last_four.is_none_or(|digits| card_number.ends_with(digits.as_bytes()))
                && rule.amount_minor.is_none_or(|amount| amount_minor == Some(amount))
        };
        let mut fitting = self.rules.answers.iter().filter(fits);
        let rule = fitting.find(|rule| self.befalls(rule.rate))?;
        Some(DrawnFault { fault: rule.fault, delay: delay(rule.late_ms) })
    }

    /// Draws the fault of a webhook, if it has one.
    pub fn draw_webhook(&self) -> Option<DrawnFault<WebhookFault>> {
        let rule = self.rules.webhooks.iter().find(|rule| self.befalls(rule.rate))?;
        Some(DrawnFault { fault: rule.fault, delay: delay(rule.late_ms) })
    }

    fn befalls(&self, rate: f64) -> bool {
        share(&mut self.random.lock()) < rate
    }
}

fn check<R>(
    list: &'static str,
    rules: &[R],
    fault: impl Fn(&R) -> Option<&'static str>,
) -> Result<(), FaultRuleError> {
    if rules.len() > RULES_MAX {
        return Err(FaultRuleError { list, place: RULES_MAX + 1, reason: "too many rules" });
    }
    for (at, rule) in rules.iter().enumerate() {
        if let Some(reason) = fault(rule) {
            return Err(FaultRuleError { list, place: at + 1, reason });
        }
    }
    Ok(())
}

fn fault_of_rule(rate: f64, late_ms: Option<u64>, is_late: bool) -> Option<&'static str> {
    if !(0.0..=1.0).contains(&rate) {
        return Some("rate has to be between 0 and 1");
    }
    match (is_late, late_ms) {
        (true, None) => Some("a late one needs late_ms"),
        (false, Some(_)) => Some("late_ms belongs to the fault `late` alone"),
        (true, Some(_)) if delay(late_ms) > DELAY_MAX => Some("late_ms is above 600000"),
        _ => None,
    }
}

fn delay(late_ms: Option<u64>) -> Duration {
    late_ms.map_or(DELAY_MAX, Duration::from_millis)
}

fn drawn_delay_ms(random: &mut ChaCha8Rng) -> u64 {
    1 + random.next_u64() % DRAWN_DELAY_MS_MAX
}

/// A number from 0 to 1, without 1.
fn share(random: &mut ChaCha8Rng) -> f64 {
    f64::from(random.next_u32()) / (f64::from(u32::MAX) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(fault: AnswerFault) -> AnswerRule {
        AnswerRule { fault, last_four: None, amount_minor: None, rate: 1.0, late_ms: None }
    }

    fn plan(answers: Vec<AnswerRule>) -> Result<FaultPlan, FaultRuleError> {
        FaultPlan::of(FaultRules { answers, ..FaultRules::default() })
    }

    #[test]
    fn the_first_rule_that_fits_is_taken() {
        let of_card =
            AnswerRule { last_four: Some("1234".to_owned()), ..rule(AnswerFault::Disconnect) };
        let of_amount = AnswerRule { amount_minor: Some(1_313), ..rule(AnswerFault::Twice) };
        let late = AnswerRule { late_ms: Some(40), ..rule(AnswerFault::Late) };
        let never = AnswerRule { rate: 0.0, ..rule(AnswerFault::SignOff) };
        let plan = plan(vec![never, of_card, of_amount, late]).unwrap();
        let drawn = |card: &[u8], amount| plan.draw_answer(card, amount).map(|drawn| drawn.fault);
        assert_eq!(drawn(b"4537110000001234", Some(1_313)), Some(AnswerFault::Disconnect));
        assert_eq!(drawn(b"4537110000001235", Some(1_313)), Some(AnswerFault::Twice));
        assert_eq!(drawn(b"1234567890123456", None), Some(AnswerFault::Late));
        assert_eq!(plan.draw_answer(b"", None).unwrap().delay, Duration::from_millis(40));
        assert_eq!(plan.draw_webhook(), None);
    }

    #[test]
    fn a_rate_is_the_share_of_answers_and_a_seed_repeats_them() {
        let rules = || vec![AnswerRule { rate: 0.25, ..rule(AnswerFault::Twice) }];
        let draw = |plan: &FaultPlan| -> Vec<bool> {
            (0..10_000).map(|_| plan.draw_answer(b"4537", None).is_some()).collect()
        };
        let drawn = draw(&plan(rules()).unwrap());
        assert_eq!(drawn, draw(&plan(rules()).unwrap()));
        let share = drawn.iter().filter(|is_befallen| **is_befallen).count();
        assert!((2_200..2_800).contains(&share), "{share}");
        let other = FaultRules { seed: 2, answers: rules(), ..FaultRules::default() };
        assert_ne!(drawn, draw(&FaultPlan::of(other).unwrap()));
    }

    #[test]
    fn a_seed_draws_every_kind_of_fault() {
        let plan = FaultPlan::from_seed(7);
        let drawn: Vec<_> = (0..20_000).filter_map(|_| plan.draw_answer(b"4537", None)).collect();
        assert!((100..6_000).contains(&drawn.len()), "{}", drawn.len());
        let mut kinds: Vec<_> = drawn.iter().map(|drawn| format!("{:?}", drawn.fault)).collect();
        kinds.sort_unstable();
        kinds.dedup();
        assert_eq!(kinds.len(), 7, "{kinds:?}");
    }

    #[test]
    fn rules_that_cannot_be_carried_out_are_refused_with_their_place() {
        let late = rule(AnswerFault::Late);
        let cases = [
            (AnswerRule { rate: 1.5, ..rule(AnswerFault::Twice) }, "rate"),
            (AnswerRule { rate: f64::NAN, ..rule(AnswerFault::Twice) }, "rate"),
            (AnswerRule { last_four: Some("123".to_owned()), ..late.clone() }, "four digits"),
            (AnswerRule { late_ms: Some(600_001), ..late.clone() }, "above"),
            (AnswerRule { late_ms: Some(1), ..rule(AnswerFault::Twice) }, "alone"),
            (late, "needs late_ms"),
        ];
        for (bad, reason) in cases {
            let error = plan(vec![rule(AnswerFault::Twice), bad]).unwrap_err().to_string();
            assert!(error.starts_with("answers rule 2: ") && error.contains(reason), "{error}");
        }
        let twice = WebhookRule { fault: WebhookFault::Twice, rate: -1.0, late_ms: None };
        let rules = FaultRules { webhooks: vec![twice], ..FaultRules::default() };
        let error = FaultPlan::of(rules).unwrap_err().to_string();
        assert!(error.starts_with("webhooks rule 1: rate"), "{error}");
    }
}
