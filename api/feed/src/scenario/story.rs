//! A story as a scenario: the file, its steps in words, and the happenings that it leaves out.

use std::fmt;

use toml::Spanned;

use super::file::{ScenarioFile, SetupFile, StepFile};
use super::script::Script;
use super::stage::Stage;
use super::switch::PlayedSwitch;
use super::{FeedError, Scenario};

/// A story, as far as a scenario tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Story {
    /// A scenario file; none where nothing can be told.
    pub scenario: Option<String>,
    /// Its steps in words.
    pub steps: Vec<String>,
    /// The happenings that the file leaves out, each with the reason.
    pub untold: Vec<String>,
}

impl Story {
    /// Writes a file, with what it leaves out above it. A file that could not be read again is left out whole.
    pub fn write(file: &ScenarioFile, mut untold: Vec<String>) -> Self {
        untold.dedup();
        let written = file.text().and_then(|text| Ok((Script::parse(&text)?, text)));
        match written {
            Ok((script, text)) => {
                let notes: String =
                    untold.iter().map(|note| format!("# Not told: {note}.\n")).collect();
                let steps = script.steps.iter().map(ToString::to_string).collect();
                Self { scenario: Some(notes + &text), steps, untold }
            }
            Err(flaw) => {
                untold.push(flaw.message);
                Self::without_file(untold)
            }
        }
    }

    /// A story that no file tells.
    pub const fn without_file(untold: Vec<String>) -> Self {
        Self { scenario: None, steps: Vec::new(), untold }
    }
}

/// The steps by number, and the happenings left out: a line each.
impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, step) in (1..).zip(&self.steps) {
            writeln!(f, "  {number:>3}  {step}")?;
        }
        self.untold.iter().try_for_each(|note| writeln!(f, "not told: {note}"))
    }
}

impl ScenarioFile {
    /// A file of these steps.
    pub fn new(about: String, setup: SetupFile, steps: Vec<StepFile>) -> Self {
        let step = steps.into_iter().map(|step| Spanned::new(0..0, step)).collect();
        Self { about, setup, step }
    }

    /// Its steps, in order.
    pub fn steps(&self) -> impl Iterator<Item = &StepFile> {
        self.step.iter().map(Spanned::get_ref)
    }

    /// Plays it, and makes what each step finds its expectations.
    /// Errors: steps that are no scenario, a change that the switch does not make.
    pub fn learn(&mut self, switch: &mut dyn PlayedSwitch) -> Result<(), FeedError> {
        let scenario = self.scenario()?;
        let mut stage = Stage::set_up(&scenario.script, switch)?;
        for (place, step) in self.step.iter_mut().enumerate() {
            stage.learn(place, step.get_mut())?;
        }
        stage.clear_away()
    }

    /// The scenario that it is the file of.
    /// Errors: steps that are none.
    pub fn scenario(&self) -> Result<Scenario, FeedError> {
        let flawed = |flaw: super::script::ScriptFlaw| FeedError::Refused(flaw.message);
        Scenario::parse("written.toml".as_ref(), &self.text().map_err(flawed)?)
    }

    fn text(&self) -> Result<String, super::script::ScriptFlaw> {
        toml::to_string(self)
            .map_err(|error| super::script::ScriptFlaw { line: 1, message: error.to_string() })
    }
}
