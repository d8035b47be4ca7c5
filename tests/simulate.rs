//! `simulate`: runs simulated worlds, a seed each, and tells the story of the first that fails.
//!
//! `simulate [--seeds N] [--first SEED] [--commands N] [--threads N]`; a line a minute; 1 where a world
//! failed.

use std::process::ExitCode;

use cardswitch_sim::campaign::Campaign;

fn main() -> ExitCode {
    let mut campaign = Campaign { first_seed: 1, seeds: 2_000, commands: 1_000, threads: cores() };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().and_then(|value| value.parse::<u64>().ok());
        match (name.as_str(), value) {
            ("--seeds", Some(value)) => campaign.seeds = value,
            ("--first", Some(value)) => campaign.first_seed = value,
            ("--commands", Some(value)) => campaign.commands = value,
            ("--threads", Some(value)) => campaign.threads = usize::try_from(value).unwrap_or(1),
            _ => {
                eprintln!(
                    "simulate [--seeds N] [--first SEED] [--commands N] [--threads N]: `{name}` is \
                     unknown, or lacks a number"
                );
                return ExitCode::from(2);
            }
        }
    }
    let report = campaign.run(|report| println!("{report}"));
    println!("{report}");
    let Some(seed) = report.failed else { return ExitCode::SUCCESS };
    match campaign.explain(seed) {
        Some(story) => println!("seed {seed} fails: {story}"),
        None => println!("seed {seed} failed, and does not fail again: it is not deterministic"),
    }
    ExitCode::FAILURE
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
