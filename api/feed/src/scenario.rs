//! Explicit steps from a file instead of seeded traffic, judged one by one: their answers, and the
//! states of card, account and transaction afterwards.
//!
//! | file | content |
//! |---|---|
//! | `file`, `money` | the syntax of a file |
//! | `act`, `script` | the steps, each with its details; nonsense is refused with its line |
//! | `step_request` | the request of a step, before either door |
//! | `switch` | the switch that the steps are for |
//! | `switch_api` | a running one, with cards, clock, transfers and balances, which have no ISO 8583 |
//! | `iso_door`, `http_door` | the two forms of a request, and of the answer |
//! | `stage` | carries the steps out |
//! | `judge` | expected against found |
//! | `story` | a file that is written instead of read |
//!
//! The format is documented in `tests/scenarios/README.md`.

mod act;
mod file;
mod http_door;
mod iso_door;
mod judge;
mod money;
mod script;
mod stage;
mod step_request;
mod story;
mod switch;
mod switch_api;

use std::fmt::Display;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use self::script::Script;
use self::stage::Stage;
use self::switch_api::SwitchApi;
use super::{ANSWER_TIMEOUT, FeedError, HttpSource, Line};

pub use act::Act;
pub use file::{
    AccountSetup, Credential, ExpectedAnswer, Naming, Presentment, ScenarioFile, SetupFile,
    StepFile, Terms, TimeOfDay, TimeSpan,
};
pub use money::Money;
pub use step_request::{Original, StepAnswer, StepRequest, TransactionIds};
pub use story::Story;
pub use switch::{AccountView, CardView, PlayedSwitch, ScenarioTransaction};

/// Steps to carry out in order.
#[derive(Debug)]
pub struct Scenario {
    /// The file that it was read from.
    pub path: PathBuf,
    script: Script,
}

/// The door that the messages go through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum DoorProtocol {
    /// ISO 8583 messages.
    Iso8583,
    /// JSON under `/network/v1`.
    Http,
}

/// The options of carrying out a scenario.
#[derive(Clone)]
pub struct ScenarioOptions {
    /// The line to the ISO 8583 door.
    pub line: Line,
    /// The HTTP door, which makes cards and turns the clock for either door of messages.
    pub http: HttpSource,
    /// The access token of an administrator.
    pub access_token: String,
    /// The door that the messages go through.
    pub door: DoorProtocol,
    /// The longest wait for an answer.
    pub answer_timeout: Duration,
}

/// Shows no secrets.
impl std::fmt::Debug for ScenarioOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScenarioOptions")
            .field("line", &self.line)
            .field("http", &self.http)
            .field("door", &self.door)
            .finish_non_exhaustive()
    }
}

impl ScenarioOptions {
    /// The options for a switch at these addresses, over ISO 8583.
    pub const fn new(line: Line, http: HttpSource, access_token: String) -> Self {
        let answer_timeout = ANSWER_TIMEOUT;
        Self { line, http, access_token, door: DoorProtocol::Iso8583, answer_timeout }
    }
}

/// The report of a step.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct StepReport {
    /// Its line in the file, counted from one.
    pub line: usize,
    /// The step, in words.
    pub step: String,
    /// The answer; empty for a step without one.
    pub answer: String,
    /// The values that differ from the expected ones.
    pub mismatches: Vec<Mismatch>,
}

/// A value that differs from the expected one.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Mismatch {
    /// The key of the expectation.
    pub key: &'static str,
    /// The expected value.
    pub expected: String,
    /// The found value.
    pub found: String,
}

impl StepReport {
    /// Tells whether all was found as expected.
    pub const fn is_as_expected(&self) -> bool {
        self.mismatches.is_empty()
    }
}

impl Scenario {
    /// Reads a scenario file.
    /// Errors: unreadable file, text that is no scenario: with the line and the key at fault.
    pub fn read(path: &Path) -> Result<Self, FeedError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| FeedError::Read { path: path.to_owned(), source })?;
        Self::parse(path, &text)
    }

    /// Reads the text of a scenario file.
    /// Errors: text that is no scenario: with the line and the key at fault.
    pub fn parse(path: &Path, text: &str) -> Result<Self, FeedError> {
        let script =
            Script::parse(text).map_err(|flaw| failed_at(path, flaw.line, flaw.message))?;
        Ok(Self { path: path.to_owned(), script })
    }

    /// The subject of the scenario, in the words of the file.
    pub fn about(&self) -> &str {
        &self.script.about
    }

    /// Plays it at a running switch. Blocks.
    /// Errors: no switch at the address, and those of [`Scenario::play`].
    pub fn run(
        &self,
        options: &ScenarioOptions,
        tell: &mut dyn FnMut(&StepReport) -> ControlFlow<()>,
    ) -> Result<(), FeedError> {
        self.play(&mut SwitchApi::open(options)?, tell)
    }

    /// Carries the steps out, each after the answer to the one before, up to the first that went
    /// otherwise than expected; `tell` hears of each, and may break off.
    /// Errors: a switch on the system's clock, a broken connection, a change that the switch does not
    /// make, a step that went otherwise than expected, the end of steps that were broken off.
    pub fn play(
        &self,
        switch: &mut dyn PlayedSwitch,
        tell: &mut dyn FnMut(&StepReport) -> ControlFlow<()>,
    ) -> Result<(), FeedError> {
        let (path, line) = (&self.path, self.script.setup_line);
        let set_up = Stage::set_up(&self.script, switch);
        let mut stage = set_up.map_err(|error| failed_at(path, line, error))?;
        let carried_out = self.carry_out(&mut stage, tell);
        let cleared_away = stage.clear_away().map_err(|error| failed_at(path, line, error));
        match (carried_out, cleared_away) {
            (Err(first), Err(second)) => Err(FeedError::Refused(format!("{first}; {second}"))),
            (carried_out, cleared_away) => carried_out.and(cleared_away),
        }
    }

    fn carry_out(
        &self,
        stage: &mut Stage<'_>,
        tell: &mut dyn FnMut(&StepReport) -> ControlFlow<()>,
    ) -> Result<(), FeedError> {
        for (place, step) in self.script.steps.iter().enumerate() {
            let failed = |error: &dyn Display| failed_at(&self.path, step.line, error);
            let report = stage.carry_out(place).map_err(|error| failed(&error))?;
            let told = tell(&report);
            if !report.is_as_expected() {
                return Err(failed(&"went otherwise than expected"));
            }
            if told.is_break() {
                return Err(failed(&"stopped after this step"));
            }
        }
        Ok(())
    }
}

/// A failure of a line of a file.
fn failed_at(path: &Path, line: usize, error: impl Display) -> FeedError {
    FeedError::Refused(format!("{}, line {line}: {error}", path.display()))
}
