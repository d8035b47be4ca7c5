//! `simulate`: runs simulated worlds, a seed each, and tells the story of the first that fails.
//!
//! `simulate [--seeds N] [--first SEED] [--commands N] [--threads N] [--story 0]`; a line a minute; 1
//! where a world failed. `--story 0` names the seed only.

use std::process::ExitCode;

use cardswitch_sim::campaign::{Campaign, Report};

/// So many worlds meet each rare thing.
const SEEDS_TO_MEET_ALL: u64 = 2_000;

fn main() -> ExitCode {
    let mut campaign =
        Campaign { first_seed: 1, seeds: 2_000, commands: 1_000, threads: threads() };
    let mut wants_story = true;
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().and_then(|value| value.parse::<u64>().ok());
        match (name.as_str(), value) {
            ("--seeds", Some(value)) => campaign.seeds = value,
            ("--first", Some(value)) => campaign.first_seed = value,
            ("--commands", Some(value)) => campaign.commands = value,
            ("--threads", Some(value)) => campaign.threads = usize::try_from(value).unwrap_or(1),
            ("--story", Some(value)) => wants_story = value > 0,
            _ => {
                eprintln!(
                    "simulate [--seeds N] [--first SEED] [--commands N] [--threads N] [--story 0]: \
                     `{name}` is unknown, or lacks a number"
                );
                return ExitCode::from(2);
            }
        }
    }
    let report = campaign.run(|report| println!("{report}"));
    println!("{report}\nmarks:\n{}", report.total.marks);
    let Some(seed) = report.failed else { return has_met_all(&report) };
    match wants_story.then(|| campaign.explain(seed)) {
        None => println!("seed {seed} fails"),
        Some(Some(story)) => println!("seed {seed} fails: {story}"),
        Some(None) => {
            println!("seed {seed} failed, and does not fail again: it is not deterministic");
        }
    }
    ExitCode::FAILURE
}

/// Few worlds need not meet everything; many must.
fn has_met_all(report: &Report) -> ExitCode {
    let missed = report.total.marks.missed();
    if report.seeds < SEEDS_TO_MEET_ALL || missed.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("never met: {missed:?}");
    ExitCode::FAILURE
}

/// A world waits for its own threads to begin and to end: one world more than there are cores keeps these at work.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get) + 1
}
