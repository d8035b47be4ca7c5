//! Explicit steps from a file instead of seeded traffic: one message after the other, each with
//! the answer it is to get.
//!
//! ```toml
//! [[step]]
//! name = "lunch"            # for later steps; optional
//! message = "authorization" # authorization, advice, financial, verification, balance_inquiry;
//!                           # presentment, reversal, partial_reversal, time_out_reversal
//! card = 0                  # line of the cards file, from 0
//! amount = "12.34"          # in US dollars
//! keep = "5.00"             # partial_reversal: what stays
//! mcc = 5812                # the category of the merchant; optional
//! wrong = ["pin"]           # expiry, pin, cvv, zip; optional
//! cash = false
//! of = "lunch"              # the purchase that a later message names
//! after_s = 60              # time since the step before (virtual time only)
//! expect = 0                # exact response code; optional
//! ```
//! The format is to be widened here and nowhere else.

use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;
use serde::Deserialize;

use super::client::Connection;
use super::merchants::{Price, catalogue};
use super::message::{Answer, Identity, Key, LaterKind, LaterMessage, OpeningMessage};
use super::traffic::{Credentials, Fate, Given, Opening, Payer, Plan, Reference, SECOND_US};
use super::{FeedError, FeedOptions, FeedTime, Progress, start_us};

/// Steps to carry out in order.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    #[serde(default, rename = "step")]
    steps: Vec<Step>,
}

/// What a step came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepOutcome {
    /// Its name, or its number from 1.
    pub step: String,
    /// The exact response code that was expected, if one was.
    pub expected: Option<u16>,
    /// The one that came; `None` where there was no answer.
    pub found: Option<u16>,
}

impl StepOutcome {
    /// Tells whether the answer was the expected one.
    #[must_use]
    pub fn is_as_expected(&self) -> bool {
        self.expected.is_none() || self.expected == self.found
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    name: Option<String>,
    message: Kind,
    #[serde(default)]
    card: u32,
    amount: Option<String>,
    keep: Option<String>,
    mcc: Option<u16>,
    #[serde(default)]
    wrong: Vec<Credential>,
    #[serde(default)]
    cash: bool,
    of: Option<String>,
    #[serde(default)]
    after_s: u64,
    expect: Option<u16>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Authorization,
    Advice,
    Financial,
    Verification,
    BalanceInquiry,
    Presentment,
    Reversal,
    PartialReversal,
    TimeOutReversal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Credential {
    Expiry,
    Pin,
    Cvv,
    Zip,
}

/// A purchase that later steps may name.
struct Opened {
    plan: Plan,
    pan: String,
    identity: Identity,
    authorization_id: Option<[u8; 6]>,
    amount_minor: u64,
}

impl Scenario {
    /// Reads a scenario file.
    /// Errors: unreadable file, text that is no scenario.
    pub fn read(path: &Path) -> Result<Self, FeedError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| FeedError::Read { path: path.to_owned(), source })?;
        Self::parse(&text)
    }

    /// Parses the text of a scenario.
    /// Errors: text that is no scenario.
    pub fn parse(text: &str) -> Result<Self, FeedError> {
        toml::from_str(text).map_err(|error| FeedError::Scenario {
            message: error.message().to_owned() + &place(text, error.span()),
        })
    }

    /// Carries the steps out, each after the answer to the one before. Blocks.
    /// Errors: a step that names what is not there, no switch at the address, a broken connection.
    pub fn run(
        &self,
        options: &FeedOptions,
        progress: &Progress,
    ) -> Result<Vec<StepOutcome>, FeedError> {
        let address = options.connect;
        let connection = Connection::open(address, options.dialect)
            .map_err(|source| FeedError::Connect { address, source })?;
        let mut stage = Stage {
            options,
            connection,
            opened: BTreeMap::new(),
            now_us: start_us(options.time),
            first_rrn: start_us(options.time) / SECOND_US % 10_000_000 * 100_000,
        };
        let mut outcomes = Vec::new();
        for (number, step) in (1..).zip(&self.steps) {
            if progress.is_stopped() {
                break;
            }
            let found = stage.carry_out(number, step)?;
            let step_name = step.name.clone().unwrap_or_else(|| number.to_string());
            outcomes.push(StepOutcome { step: step_name, expected: step.expect, found });
        }
        Ok(outcomes)
    }
}

struct Stage<'a> {
    options: &'a FeedOptions,
    connection: Connection,
    opened: BTreeMap<String, Opened>,
    now_us: u64,
    first_rrn: u64,
}

impl Stage<'_> {
    fn carry_out(&mut self, number: u32, step: &Step) -> Result<Option<u16>, FeedError> {
        self.now_us += step.after_s * SECOND_US;
        if !self.is_virtual() {
            self.now_us = start_us(self.options.time);
        }
        let rrn = self.first_rrn + u64::from(number);
        let identity = Identity { stan: number, rrn, sent_us: self.now_us };
        match opening_of(step.message) {
            Some(opening) => self.open(number, step, (opening, identity)),
            None => self.continue_with(number, step, identity),
        }
    }

    fn open(
        &mut self,
        number: u32,
        step: &Step,
        (opening, identity): (Opening, Identity),
    ) -> Result<Option<u16>, FeedError> {
        let card = self
            .options
            .portfolio
            .card(step.card)
            .ok_or_else(|| fault(number, &format!("there is no card {}", step.card)))?;
        let plan = step.plan(number, opening)?;
        let message = OpeningMessage {
            plan: &plan,
            card: Some(card),
            pan: &card.pan,
            identity,
            virtual_us: self.virtual_us(),
        };
        let (bytes, key) = (message.encode(false, &self.options.dialect), message.key());
        let answer = self.exchange(&bytes, key)?;
        let opened = Opened {
            amount_minor: plan.price.amount_minor,
            authorization_id: answer.as_ref().and_then(|answer| answer.authorization_id),
            pan: card.pan.clone(),
            identity,
            plan,
        };
        self.opened.insert(step.name.clone().unwrap_or_else(|| number.to_string()), opened);
        Ok(answer.map(|answer| code_of(&answer)))
    }

    fn continue_with(
        &mut self,
        number: u32,
        step: &Step,
        identity: Identity,
    ) -> Result<Option<u16>, FeedError> {
        let name = step.of.as_deref().ok_or_else(|| fault(number, "`of` is missing"))?;
        let virtual_us = self.virtual_us();
        let opened = self
            .opened
            .get_mut(name)
            .ok_or_else(|| fault(number, &format!("no step before it is named `{name}`")))?;
        let amount_minor = step.amount_minor(number)?.unwrap_or(opened.amount_minor);
        let keep = parse_amount(number, step.keep.as_deref())?.unwrap_or(0);
        let message = LaterMessage {
            kind: later_kind_of(step.message),
            identity: Identity { rrn: opened.identity.rrn, ..identity },
            original: opened.identity,
            reference: match opened.authorization_id {
                Some(_) => Reference::AuthorizationId,
                None => Reference::Rrn,
            },
            authorization_id: opened.authorization_id,
            amount_minor,
            held_minor: amount_minor,
            keep_amount_minor: keep,
            keep_held_minor: keep,
        };
        if message.kind == LaterKind::PartialReversal {
            opened.amount_minor = keep;
        }
        let (named, dialect) = ((&opened.plan, opened.pan.as_str()), &self.options.dialect);
        let bytes = message.encode(named, virtual_us, false, dialect);
        let answer = self.exchange(&bytes, message.key())?;
        Ok(answer.map(|answer| code_of(&answer)))
    }

    fn exchange(&mut self, bytes: &[u8], key: Key) -> Result<Option<Answer>, FeedError> {
        let broken = |source| FeedError::Connection { source };
        self.connection.send(bytes).map_err(broken)?;
        loop {
            let timeout: Duration = self.options.answer_timeout;
            let Some(message) = self.connection.receive(Some(timeout)).map_err(broken)? else {
                return Ok(None);
            };
            let answer = Answer::parse(&message, &self.options.dialect);
            if let Some(answer) = answer.filter(|answer| answer.key == key) {
                return Ok(Some(answer));
            }
        }
    }

    fn is_virtual(&self) -> bool {
        matches!(self.options.time, FeedTime::Virtual { .. })
    }

    fn virtual_us(&self) -> Option<u64> {
        self.is_virtual().then_some(self.now_us)
    }
}

impl Step {
    fn plan(&self, number: u32, opening: Opening) -> Result<Plan, FeedError> {
        let amount_minor = match opening {
            Opening::Verification | Opening::BalanceInquiry => 0,
            _ => self.amount_minor(number)?.ok_or_else(|| fault(number, "`amount` is missing"))?,
        };
        let merchant = catalogue()
            .find_domestic(self.mcc)
            .ok_or_else(|| fault(number, "no merchant has this `mcc`"))?;
        let given = |credential, with| match self.wrong.contains(&credential) {
            true => Given::Wrong,
            false => with,
        };
        Ok(Plan {
            number: number.into(),
            due_us: 0,
            opening,
            payer: Payer::Card(self.card),
            merchant,
            price: Price { amount_minor, billing_minor: amount_minor },
            cash: self.cash,
            partial: false,
            credentials: Credentials {
                expiry: given(Credential::Expiry, Given::Right),
                pin: given(Credential::Pin, Given::Absent),
                cvv: given(Credential::Cvv, Given::Absent),
                zip: given(Credential::Zip, Given::Absent),
                track2: false,
            },
            fate: Fate::Abandoned,
            reference: Reference::Rrn,
            duplicate_after_us: None,
            repeat_after_us: None,
        })
    }

    fn amount_minor(&self, number: u32) -> Result<Option<u64>, FeedError> {
        parse_amount(number, self.amount.as_deref())
    }
}

fn opening_of(kind: Kind) -> Option<Opening> {
    match kind {
        Kind::Authorization => Some(Opening::Authorization),
        Kind::Advice => Some(Opening::Advice),
        Kind::Financial => Some(Opening::Financial),
        Kind::Verification => Some(Opening::Verification),
        Kind::BalanceInquiry => Some(Opening::BalanceInquiry),
        Kind::Presentment | Kind::Reversal | Kind::PartialReversal | Kind::TimeOutReversal => None,
    }
}

fn later_kind_of(kind: Kind) -> LaterKind {
    match kind {
        Kind::Reversal => LaterKind::Reversal,
        Kind::PartialReversal => LaterKind::PartialReversal,
        Kind::TimeOutReversal => LaterKind::TimeOutReversal,
        _ => LaterKind::Presentment,
    }
}

/// The exact code; an approval is 0 whatever its spelling.
fn code_of(answer: &Answer) -> u16 {
    if matches!(&answer.response, b"00" | b"10") { 0 } else { answer.exact_code() }
}

/// Reads an amount of US dollars. Units: cents.
fn parse_amount(number: u32, text: Option<&str>) -> Result<Option<u64>, FeedError> {
    let Some(text) = text else { return Ok(None) };
    let cents =
        Decimal::from_str(text).ok().and_then(|amount| amount.checked_mul(Decimal::from(100)));
    let whole = cents.filter(|cents| cents.fract().is_zero() && !cents.is_sign_negative());
    let bounded = whole.and_then(|cents| cents.to_u64()).filter(|cents| *cents < 1_000_000_000_000);
    bounded.map(Some).ok_or_else(|| fault(number, &format!("`{text}` is not an amount")))
}

fn fault(number: u32, message: &str) -> FeedError {
    FeedError::Scenario { message: format!("step {number}: {message}") }
}

/// The line that a fault lies in.
fn place(text: &str, span: Option<std::ops::Range<usize>>) -> String {
    let before = span.and_then(|span| text.get(..span.start));
    before.map_or(String::new(), |before| format!(" in line {}", before.lines().count().max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_is_read() {
        let scenario = Scenario::parse(
            "[[step]]\nname = \"lunch\"\nmessage = \"authorization\"\namount = \"12.34\"\nwrong = [\"pin\"]\nexpect = 1302\n",
        )
        .unwrap();
        let plan = scenario.steps[0].plan(1, Opening::Authorization).unwrap();
        assert_eq!(plan.price.amount_minor, 1234);
        assert_eq!(plan.credentials.pin, Given::Wrong);
    }

    #[test]
    fn a_fault_is_named_with_its_place() {
        for (text, part) in [
            ("[[step]]\nmessage = \"lunch\"\n", "lunch"),
            ("[[step]]\nmessage = \"advice\"\ncolour = 1\n", "colour"),
            ("step = 3", "step"),
        ] {
            let error = Scenario::parse(text).unwrap_err().to_string();
            assert!(error.starts_with("scenario: "), "{error}");
            assert!(error.contains(part) || error.contains("line"), "{error}");
        }
        for bad in ["-1", "1.005", "x", "99999999999.00"] {
            assert!(parse_amount(1, Some(bad)).is_err(), "{bad}");
        }
    }
}
