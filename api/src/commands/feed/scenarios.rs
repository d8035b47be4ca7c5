//! `feed --scenario`: files one after the other, each step as a line of a table, or the whole run as
//! one JSON object.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use cardswitch_feed::{
    DoorProtocol, FeedError, HttpSource, Line, Mismatch, Progress, Scenario, ScenarioOptions,
    StepReport,
};
use serde::Serialize;

use super::{Failure, stoppable};

/// The arguments of `feed --scenario`.
#[derive(Debug, clap::Args)]
pub(super) struct ScenarioArgs {
    /// Carry out the steps of these files instead and judge them (format: tests/scenarios/README.md);
    /// needs --http, --network-key, --access-token and a switch on a manual clock
    #[arg(
        long,
        value_name = "FILE",
        num_args = 1..,
        requires_all = ["http", "access_token"],
        conflicts_with_all = ["cards", "rate", "duration", "seed", "speed", "connections"],
    )]
    pub(super) scenario: Vec<PathBuf>,
    /// Door for the messages of scenarios
    #[arg(long, value_enum, default_value = "iso8583", requires = "scenario")]
    door: DoorProtocol,
    /// Access token of an administrator, printed by `init`; for scenarios
    #[arg(long, value_name = "TOKEN", env = "CARDSWITCH_ACCESS_TOKEN", hide_env_values = true)]
    access_token: Option<String>,
}

/// A run, as far as it has come.
#[derive(Default, Serialize)]
struct ScenarioRun {
    /// The files that were begun.
    files: usize,
    /// The steps that were carried out.
    steps: usize,
    /// The reason why the run ended early.
    error: Option<String>,
    /// The step that went otherwise than expected.
    wrong: Option<WrongStep>,
}

#[derive(Serialize)]
struct WrongStep {
    file: String,
    #[serde(flatten)]
    report: StepReport,
}

/// Runs scenario files one after the other, to the first step that goes otherwise than expected.
pub(super) async fn run_scenarios(
    line: Line,
    http: Option<HttpSource>,
    args: ScenarioArgs,
    is_json: bool,
) -> Result<(), Failure> {
    let (Some(http), Some(access_token)) = (http, args.access_token) else {
        return Err(Failure::usage("scenarios need --http, --network-key and --access-token"));
    };
    let options =
        ScenarioOptions { door: args.door, ..ScenarioOptions::new(line, http, access_token) };
    let paths = args.scenario.iter();
    // All files are read before the first is carried out: a flaw in the last one shows at once.
    let scenarios: Vec<Scenario> =
        paths.map(|path| Scenario::read(path)).collect::<Result<_, _>>()?;
    let run = move |progress: &Progress| {
        let mut run = ScenarioRun::default();
        let played = scenarios
            .iter()
            .try_for_each(|scenario| run.play(scenario, &options, (progress, is_json)));
        run.error = played.as_ref().err().map(FeedError::to_string);
        (run, played)
    };
    let (run, played) = stoppable(Default::default(), run).await?;
    if is_json {
        println!("{}", serde_json::to_string(&run).map_err(Failure::new)?);
    }
    played.map_err(Failure::new)
}

impl ScenarioRun {
    /// Plays a file, to its end or until somebody stops the run.
    fn play(
        &mut self,
        scenario: &Scenario,
        options: &ScenarioOptions,
        (progress, is_json): (&Progress, bool),
    ) -> Result<(), FeedError> {
        self.files += 1;
        if !is_json {
            println!("{}: {}", scenario.path.display(), scenario.about());
        }
        scenario.run(options, &mut |report| {
            self.enter(&scenario.path, report);
            if !is_json {
                print_step(report);
            }
            if progress.is_stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
    }

    fn enter(&mut self, path: &Path, report: &StepReport) {
        self.steps += 1;
        if !report.is_as_expected() {
            let file = path.display().to_string();
            self.wrong = Some(WrongStep { file, report: report.clone() });
        }
    }
}

/// A line of the table; below it what was found otherwise.
fn print_step(report: &StepReport) {
    let verdict = if report.is_as_expected() { "ok" } else { "WRONG" };
    let StepReport { line, step, answer, mismatches } = report;
    println!("{}", format!("  {verdict:<5} {line:>4}  {step:<52} {answer}").trim_end());
    for Mismatch { key, expected, found } in mismatches {
        println!("              {key}: expected {expected}, found {found}");
    }
}
