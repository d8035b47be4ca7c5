//! Explicit steps from a file instead of seeded traffic, judged one by one: what is answered, and
//! how card, account and transaction stand afterwards.
//!
//! | file | what |
//! |---|---|
//! | `file`, `money` | what a file may say |
//! | `script` | the steps, each with what belongs to it; what makes no sense is refused with its line |
//! | `asked` | what a step asks of the switch, whatever the door |
//! | `iso_door`, `http_door` | the two forms of that, and of the answer |
//! | `switch_api` | cards, clock, transfers and balances, which have no ISO 8583 |
//! | `stage` | carries the steps out |
//! | `judge` | expected against found |
//!
//! The format is documented in `tests/scenarios/README.md`.

mod asked;
mod file;
mod http_door;
mod iso_door;
mod judge;
mod money;
mod script;
mod stage;
mod switch_api;

use std::path::{Path, PathBuf};
use std::time::Duration;

use self::script::Script;
use self::stage::Stage;
use super::{ANSWER_TIMEOUT, FeedError, HttpSource, Line};

/// Steps to carry out in order.
#[derive(Debug)]
pub struct Scenario {
    path: PathBuf,
    script: Script,
}

/// The door that the messages go through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Door {
    /// ISO 8583 messages.
    Iso8583,
    /// JSON under `/network/v1`.
    Http,
}

/// Where a scenario plays.
#[derive(Clone)]
pub struct ScenarioOptions {
    /// The line to the ISO 8583 door.
    pub line: Line,
    /// The HTTP door, which makes cards and turns the clock whatever door the messages take.
    pub http: HttpSource,
    /// The access token of an administrator.
    pub access_token: String,
    /// The door that the messages go through.
    pub door: Door,
    /// How long an answer is waited for.
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
    #[must_use]
    pub const fn new(line: Line, http: HttpSource, access_token: String) -> Self {
        let answer_timeout = ANSWER_TIMEOUT;
        Self { line, http, access_token, door: Door::Iso8583, answer_timeout }
    }
}

/// What a step came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepOutcome {
    /// Where it stands in the file, counted from one.
    pub line: usize,
    /// What it did, in words.
    pub step: String,
    /// What was answered; empty where nothing answers.
    pub answer: String,
    /// What was found otherwise than expected.
    pub mismatches: Vec<Mismatch>,
}

/// Something that was found otherwise than expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// The key of the expectation.
    pub key: &'static str,
    /// As expected.
    pub expected: String,
    /// As found.
    pub found: String,
}

impl StepOutcome {
    /// Tells whether all was found as expected.
    #[must_use]
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
        let script = Script::parse(&text).map_err(|flaw| FeedError::Scenario {
            message: format!("{}, line {}: {}", path.display(), flaw.line, flaw.message),
        })?;
        Ok(Self { path: path.to_owned(), script })
    }

    /// What it is about, in the words of the file.
    #[must_use]
    pub fn about(&self) -> &str {
        &self.script.about
    }

    /// The file that it was read from.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Carries the steps out, each after the answer to the one before, up to the first that went
    /// otherwise than expected; `tell` hears of each. Blocks.
    /// Errors: no switch at the address, one on the system's clock, a broken connection, a change
    /// that the switch does not make.
    pub fn run(
        &self,
        options: &ScenarioOptions,
        tell: &mut dyn FnMut(&StepOutcome),
    ) -> Result<(), FeedError> {
        let mut stage = Stage::set_up(&self.script, options)?;
        let carried_out = self.carry_out(&mut stage, tell);
        carried_out.and(stage.clear_away())
    }

    fn carry_out(
        &self,
        stage: &mut Stage<'_>,
        tell: &mut dyn FnMut(&StepOutcome),
    ) -> Result<(), FeedError> {
        for place in 0..self.script.steps.len() {
            let outcome = stage.carry_out(place)?;
            tell(&outcome);
            if !outcome.is_as_expected() {
                return Err(FeedError::Scenario {
                    message: format!(
                        "{}, line {}: went otherwise than expected",
                        self.path.display(),
                        outcome.line
                    ),
                });
            }
        }
        Ok(())
    }
}
