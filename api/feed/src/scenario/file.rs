//! The file of a scenario: its syntax, without the meaning.
//!
//! Every key is listed here once. Any other key is refused by name and line; the combinations of
//! keys are checked by `script`. The format is documented in `tests/scenarios/README.md`.

#![expect(missing_docs, reason = "names are the keys of a file, which its page explains")]

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use toml::Spanned;

use super::money::Money;
use super::step_request::StepAnswer;

/// The whole file.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioFile {
    pub about: String,
    #[serde(default)]
    pub setup: SetupFile,
    #[serde(default)]
    pub step: Vec<Spanned<StepFile>>,
}

/// The state before the first step.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SetupFile {
    /// The instant when it begins, in UTC.
    pub start: Option<TimeOfDay>,
    /// The cards by name, each with the terms of its allowance.
    #[serde(default)]
    pub cards: BTreeMap<String, Terms>,
    /// The state of the account, where that matters.
    pub account: Option<AccountSetup>,
}

/// The first state of the account.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AccountSetup {
    /// Brought about by a transfer.
    pub available: Money,
    /// The credit limit that the company must have: it cannot be changed while the switch runs.
    pub credit_limit: Money,
}

/// The terms of an allowance, for a new card or a change; a term without a value stays or is off.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Terms {
    pub amount: Option<Money>,
    pub interval: Option<String>,
    pub daily_limit: Option<Money>,
    pub transaction_limit: Option<Money>,
    pub single_use: Option<bool>,
    pub scope: Option<Vec<u16>>,
    /// The delay from the moment of setup or change.
    pub starts_in: Option<TimeSpan>,
    pub ends_in: Option<TimeSpan>,
}

/// A step: one verb, its details, its expectations.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StepFile {
    // Verbs with an amount.
    pub authorize: Option<Money>,
    pub purchase: Option<Money>,
    pub cash: Option<Money>,
    pub advise: Option<Money>,
    pub increment: Option<Money>,
    pub present: Option<Money>,
    pub refund: Option<Money>,
    pub transfer: Option<Money>,
    // Verbs with the name of a card.
    pub verify: Option<String>,
    pub inquire: Option<String>,
    pub suspend: Option<String>,
    pub activate: Option<String>,
    pub terminate: Option<String>,
    pub change: Option<String>,
    // Verbs with the name of a transaction.
    pub reverse: Option<String>,
    pub settle: Option<String>,
    #[serde(rename = "return")]
    pub take_back: Option<String>,
    pub look: Option<String>,
    // The verb with the name of a message.
    pub again: Option<String>,
    // The verb with a span of time.
    pub advance: Option<TimeSpan>,

    // Options.
    #[serde(rename = "as")]
    pub name: Option<String>,
    pub of: Option<String>,
    pub card: Option<String>,
    pub mcc: Option<u16>,
    pub billing: Option<Money>,
    pub number: Option<Presentment>,
    pub keep: Option<Money>,
    pub by: Option<Naming>,
    pub partial: Option<bool>,
    pub advice: Option<bool>,
    pub declined: Option<bool>,
    pub settled: Option<bool>,
    pub repeat: Option<bool>,
    pub wrong: Option<Vec<Credential>>,
    pub to: Option<Terms>,

    // Expectations.
    pub expect: Option<ExpectedAnswer>,
    pub approved: Option<Money>,
    pub balance: Option<Money>,
    pub daily_balance: Option<Money>,
    pub card_state: Option<String>,
    pub ledger: Option<Money>,
    pub available: Option<Money>,
    pub available_credit: Option<Money>,
    pub pending_credits: Option<Money>,
    pub state: Option<String>,
    pub amount: Option<Money>,
    pub held: Option<Money>,
    pub posted: Option<Money>,
}

impl StepFile {
    /// Whether a credential is given, and wrong.
    pub fn is_wrong(&self, credential: Credential) -> bool {
        self.wrong.as_ref().is_some_and(|wrong| wrong.contains(&credential))
    }

    /// Whether it has expectations of the card and its allowance.
    pub(super) fn expects_card(&self) -> bool {
        self.balance.or(self.daily_balance).is_some() || self.card_state.is_some()
    }

    /// Whether it has expectations of the account: the change of each balance since the scenario
    /// began, or its value if the scenario set it up.
    pub(super) fn expects_account(&self) -> bool {
        let Self { ledger, available, available_credit, pending_credits, .. } = self;
        [ledger, available, available_credit, pending_credits].into_iter().any(Option::is_some)
    }

    /// Whether it has expectations of the transaction that it opens or is about.
    pub(super) fn expects_transaction(&self) -> bool {
        self.state.is_some() || self.amount.or(self.held).or(self.posted).is_some()
    }
}

/// The way in which a message names the transaction that it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Naming {
    /// Source: ISO DE38.
    AuthorizationId,
    /// Source: ISO DE90.
    OriginalData,
    /// Source: ISO DE37.
    Rrn,
}

/// A credential that a message may get wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Credential {
    Expiry,
    Pin,
    Cvv,
}

/// The longest span of time: a century. Units: seconds.
const SPAN_MAX_S: u64 = 36_500 * 24 * 60 * 60;

/// A span of time, `8d`. Units: seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeSpan(pub u64);

/// A time of day, `17:00`. Units: seconds since midnight, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeOfDay(pub u32);

/// The number of a presentment among several, `1/2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Presentment {
    pub number: u8,
    pub count: u8,
}

/// The answer that is expected: a response code, a reason, or both, as `1000 reversed_before`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedAnswer {
    pub code: Option<u16>,
    pub reason: Option<String>,
}

impl ExpectedAnswer {
    /// The default expectation: success.
    pub const APPROVED: Self = Self { code: Some(0), reason: None };

    pub const fn of_code(code: u16) -> Self {
        Self { code: Some(code), reason: None }
    }

    pub fn of_reason(reason: &str) -> Self {
        Self { code: None, reason: Some(reason.to_owned()) }
    }

    /// The expectation of an answer: the reason where there is one, as both doors name it.
    pub(super) fn of(answered: &StepAnswer) -> Self {
        match &answered.reason {
            Some(reason) if answered.code != 0 => Self::of_reason(reason),
            _ => Self::of_code(answered.code),
        }
    }

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

impl fmt::Display for ExpectedAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, &self.reason) {
            (Some(code), Some(reason)) => write!(f, "{code} {reason}"),
            (Some(code), None) => write!(f, "{code}"),
            (None, reason) => f.write_str(reason.as_deref().unwrap_or_default()),
        }
    }
}

impl TimeSpan {
    /// The end of a span. Units: microseconds since the Unix epoch.
    pub(crate) fn after_us(self, start_us: i64) -> i64 {
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
        let span = digits.parse::<u32>().ok().map(|number| u64::from(number) * unit_s);
        span.filter(|span| *span <= SPAN_MAX_S).map(Self)
    }
}

impl fmt::Display for TimeSpan {
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

impl fmt::Display for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let minutes = self.0 / 60;
        write!(f, "{:02}:{:02}", minutes / 60, minutes % 60)
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

impl fmt::Display for Presentment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.count)
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

/// Reads each of the small forms from a text, and writes it as one.
macro_rules! as_text {
    ($($type:ty: $form:literal),+ $(,)?) => {$(
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(TextVisitor { form: $form, parse: <$type>::parse })
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    )+};
}

as_text! {
    TimeSpan: "a span of time such as \"90m\" or \"8d\", of at most 36500 days",
    TimeOfDay: "a time of day such as \"17:00\"",
    Presentment: "a presentment number such as \"1/2\"",
    ExpectedAnswer: "a response code, a reason, or both as \"1000 reversed_before\"",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_small_forms_are_read() {
        assert_eq!(TimeSpan::parse("90m"), Some(TimeSpan(5_400)));
        assert_eq!(TimeSpan::parse("8d"), Some(TimeSpan(691_200)));
        assert_eq!(TimeSpan::parse("36500d"), Some(TimeSpan(SPAN_MAX_S)));
        for text in ["", "d", "8", "8w", "-1d", "1.5h", "ä", "36501d", "4294967295d"] {
            assert_eq!(TimeSpan::parse(text), None, "{text}");
        }
        for (seconds, shown) in [(691_200, "8d"), (5_400, "90m"), (61, "61s"), (0, "0s")] {
            assert_eq!(TimeSpan(seconds).to_string(), shown);
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
            assert_eq!(ExpectedAnswer::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "Not found", "1000 Late", "99999", "1000 a b"] {
            assert_eq!(ExpectedAnswer::parse(text), None, "{text}");
        }
    }
}
