//! `feed --scenario`: files one after the other, each step as a line of a table.

use std::ops::ControlFlow;
use std::path::PathBuf;

use cardswitch_feed::{
    DoorProtocol, FeedError, HttpSource, Line, Mismatch, Progress, Scenario, ScenarioOptions,
    StepReport,
};

use super::{Failure, stoppable};

/// The arguments of `feed --scenario`.
#[derive(Debug, clap::Args)]
pub(super) struct ScenarioArgs {
    /// Carry out the steps of these files instead and judge them (format: tests/scenarios/README.md);
    /// needs --http, --network-key, --access-token and a switch on a manual clock
    #[arg(long, value_name = "FILE", num_args = 1.., requires_all = ["http", "access_token"])]
    pub(super) scenario: Vec<PathBuf>,
    /// Door for the messages of scenarios
    #[arg(long, value_enum, default_value = "iso8583", requires = "scenario")]
    door: DoorProtocol,
    /// Access token of an administrator, printed by `init`; for scenarios
    #[arg(long, value_name = "TOKEN", env = "CARDSWITCH_ACCESS_TOKEN", hide_env_values = true)]
    access_token: Option<String>,
}

/// Runs scenario files one after the other, to the first step that goes otherwise than expected.
pub(super) async fn run_scenarios(
    line: Line,
    http: Option<HttpSource>,
    args: ScenarioArgs,
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
        scenarios.iter().try_for_each(|scenario| play(scenario, &options, progress))
    };
    stoppable(Default::default(), run).await?.map_err(Failure::new)
}

/// Plays a file, to its end or until somebody stops the run.
fn play(
    scenario: &Scenario,
    options: &ScenarioOptions,
    progress: &Progress,
) -> Result<(), FeedError> {
    println!("{}: {}", scenario.path.display(), scenario.about());
    scenario.run(options, &mut |report| {
        print_step(report);
        if progress.is_stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
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
