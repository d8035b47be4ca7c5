//! The file of a scenario: its syntax, without the meaning.
//!
//! Every key is listed here once. Any other key is refused by name and line; the combinations of
//! keys are checked by `script`. The format is documented in `tests/scenarios/README.md`.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};
use toml::Spanned;

use super::money::Money;

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScenarioFile {
    pub(super) about: String,
    #[serde(default)]
    pub(super) setup: SetupFile,
    #[serde(default)]
    pub(super) step: Vec<Spanned<StepFile>>,
}

/// The state before the first step.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SetupFile {
    /// The instant when it begins, in UTC.
    pub(super) start: Option<TimeOfDay>,
    /// The cards by name, each with the terms of its allowance.
    #[serde(default)]
    pub(super) cards: BTreeMap<String, Terms>,
    /// The state of the account, where that matters.
    pub(super) account: Option<AccountSetup>,
}

/// The first state of the account.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AccountSetup {
    /// Brought about by a transfer.
    pub(super) available: Money,
    /// The credit limit that the company must have: it cannot be changed while the switch runs.
    pub(super) credit_limit: Money,
}

/// The terms of an allowance, for a new card or a change; a term without a value stays or is off.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Terms {
    pub(super) amount: Option<Money>,
    pub(super) interval: Option<String>,
    pub(super) daily_limit: Option<Money>,
    pub(super) transaction_limit: Option<Money>,
    pub(super) single_use: Option<bool>,
    pub(super) scope: Option<Vec<u16>>,
    /// The delay from the moment of setup or change.
    pub(super) starts_in: Option<Span>,
    pub(super) ends_in: Option<Span>,
}

/// A step: one verb, its details, its expectations.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StepFile {
    // Verbs with an amount.
    pub(super) authorize: Option<Money>,
    pub(super) purchase: Option<Money>,
    pub(super) cash: Option<Money>,
    pub(super) advise: Option<Money>,
    pub(super) increment: Option<Money>,
    pub(super) present: Option<Money>,
    pub(super) refund: Option<Money>,
    pub(super) transfer: Option<Money>,
    // Verbs with the name of a card.
    pub(super) verify: Option<String>,
    pub(super) inquire: Option<String>,
    pub(super) suspend: Option<String>,
    pub(super) activate: Option<String>,
    pub(super) terminate: Option<String>,
    pub(super) change: Option<String>,
    // Verbs with the name of a transaction.
    pub(super) reverse: Option<String>,
    pub(super) settle: Option<String>,
    #[serde(rename = "return")]
    pub(super) take_back: Option<String>,
    pub(super) look: Option<String>,
    // The verb with a span of time.
    pub(super) advance: Option<Span>,

    // Options.
    #[serde(rename = "as")]
    pub(super) name: Option<String>,
    pub(super) of: Option<String>,
    pub(super) card: Option<String>,
    pub(super) mcc: Option<u16>,
    pub(super) billing: Option<Money>,
    pub(super) number: Option<Presentment>,
    pub(super) keep: Option<Money>,
    pub(super) partial: Option<bool>,
    pub(super) advice: Option<bool>,
    pub(super) declined: Option<bool>,
    pub(super) settled: Option<bool>,
    pub(super) wrong: Option<Vec<Credential>>,
    pub(super) to: Option<Terms>,

    // Expectations.
    pub(super) expect: Option<Expected>,
    pub(super) approved: Option<Money>,
    pub(super) balance: Option<Money>,
    pub(super) daily_balance: Option<Money>,
    pub(super) card_state: Option<String>,
    pub(super) ledger: Option<Money>,
    pub(super) available: Option<Money>,
    pub(super) available_credit: Option<Money>,
    pub(super) pending_credits: Option<Money>,
    pub(super) state: Option<String>,
    pub(super) amount: Option<Money>,
    pub(super) held: Option<Money>,
    pub(super) posted: Option<Money>,
}

/// A credential that a message may get wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Credential {
    Expiry,
    Pin,
    Cvv,
}

/// A span of time, `8d`. Units: seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span(pub(super) u64);

/// A time of day, `17:00`. Units: seconds since midnight, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TimeOfDay(pub(super) u32);

/// The number of a presentment among several, `1/2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Presentment {
    pub(super) number: u8,
    pub(super) count: u8,
}

/// The answer that is expected: a response code, a reason, or both, as `1000 reversed_before`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Expected {
    pub(super) code: Option<u16>,
    pub(super) reason: Option<String>,
}

impl Expected {
    /// The default expectation: success.
    pub(super) const APPROVED: Self = Self { code: Some(0), reason: None };

    fn parse(text: &str) -> Option<Self> {
        let (first, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        let is_word = |word: &str| {
            !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        };
        let word = |word: &str| is_word(word).then(|| word.to_owned());
        match (first.parse(), rest.trim()) {
            (Ok(code), "") => Some(Self { code: Some(code), reason: None }),
            (Ok(code), rest) => Some(Self { code: Some(code), reason: Some(word(rest)?) }),
            (Err(_), "") => Some(Self { code: None, reason: Some(word(first)?) }),
            (Err(_), _) => None,
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, &self.reason) {
            (Some(code), Some(reason)) => write!(f, "{code} {reason}"),
            (Some(code), None) => write!(f, "{code}"),
            (None, reason) => f.write_str(reason.as_deref().unwrap_or_default()),
        }
    }
}

impl Span {
    /// The end of a span. Units: microseconds since the Unix epoch.
    pub(super) fn after_us(self, start_us: i64) -> i64 {
        let seconds = i64::try_from(self.0).unwrap_or(i64::MAX);
        start_us.saturating_add(seconds.saturating_mul(1_000_000))
    }

    fn parse(text: &str) -> Option<Self> {
        let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
        let unit_s = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 60 * 60,
            "d" => 24 * 60 * 60,
            _ => return None,
        };
        digits.parse::<u32>().ok().map(|number| Self(u64::from(number) * unit_s))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(24 * 60 * 60, 'd'), (60 * 60, 'h'), (60, 'm'), (1, 's')];
        let (unit_s, unit) = units
            .into_iter()
            .find(|(unit_s, _)| self.0.is_multiple_of(*unit_s) && self.0 > 0)
            .unwrap_or((1, 's'));
        write!(f, "{}{unit}", self.0 / unit_s)
    }
}

impl TimeOfDay {
    fn parse(text: &str) -> Option<Self> {
        let (hour, minute) = text.split_once(':')?;
        let bounded =
            |text: &str, bound: u32| text.parse::<u32>().ok().filter(|part| *part < bound);
        let (hour, minute) = (bounded(hour, 24)?, bounded(minute, 60)?);
        Some(Self((hour * 60 + minute) * 60))
    }
}

impl Presentment {
    fn parse(text: &str) -> Option<Self> {
        let (number, count) = text.split_once('/')?;
        let bounded = |text: &str| text.parse().ok().filter(|part| (1..=99).contains(part));
        let (number, count) = (bounded(number)?, bounded(count)?);
        (number <= count).then_some(Self { number, count })
    }
}

/// Reads a value of one form of text, or of a whole number.
struct TextVisitor<T> {
    form: &'static str,
    parse: fn(&str) -> Option<T>,
}

impl<T> Visitor<'_> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.form)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        let form = self.form;
        (self.parse)(text).ok_or_else(|| E::custom(format_args!("`{text}` is not {form}")))
    }
}

/// Reads each of the small forms from a text.
macro_rules! read_as_text {
    ($($type:ty: $form:literal),+ $(,)?) => {$(
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(TextVisitor { form: $form, parse: <$type>::parse })
            }
        }
    )+};
}

read_as_text! {
    Span: "a span of time such as \"90m\" or \"8d\"",
    TimeOfDay: "a time of day such as \"17:00\"",
    Presentment: "a presentment number such as \"1/2\"",
    Expected: "a response code, a reason, or both as \"1000 reversed_before\"",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_small_forms_are_read() {
        assert_eq!(Span::parse("90m"), Some(Span(5_400)));
        assert_eq!(Span::parse("8d"), Some(Span(691_200)));
        for text in ["", "d", "8", "8w", "-1d", "1.5h", "ä"] {
            assert_eq!(Span::parse(text), None, "{text}");
        }
        for (seconds, shown) in [(691_200, "8d"), (5_400, "90m"), (61, "61s"), (0, "0s")] {
            assert_eq!(Span(seconds).to_string(), shown);
        }
        assert_eq!(TimeOfDay::parse("17:30"), Some(TimeOfDay(63_000)));
        for text in ["24:00", "17:60", "17", ":"] {
            assert_eq!(TimeOfDay::parse(text), None, "{text}");
        }
        assert_eq!(Presentment::parse("1/2"), Some(Presentment { number: 1, count: 2 }));
        for text in ["2/1", "0/1", "1/100", "1"] {
            assert_eq!(Presentment::parse(text), None, "{text}");
        }
    }

    #[test]
    fn an_expectation_is_a_code_a_reason_or_both() {
        for text in ["0", "1502", "not_found", "1000 reversed_before"] {
            assert_eq!(Expected::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "Not found", "1000 Late", "99999", "1000 a b"] {
            assert_eq!(Expected::parse(text), None, "{text}");
        }
    }
}
