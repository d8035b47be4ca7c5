//! `simulate`: runs simulated worlds, a seed each, and tells the story of the first that fails.
//!
//! | option | meaning |
//! |---|---|
//! | `--seeds N`, `--first SEED` | so many worlds, from this seed on |
//! | `--commands N` | commands of each |
//! | `--threads N` | worlds at a time |
//! | `--story 0` | names the seed that fails and tells no story |
//! | `--kills N` | instead, so many worlds on real files, each killed and compared with the simulated disk |
//! | `--scenario-out FILE` | writes the story as a scenario; that of a single seed also if it does not fail |
//!
//! A line a minute; 1 where a world failed.

mod changes;
mod inside;
mod messages;
mod retelling;
mod teller;

use std::path::PathBuf;
use std::process::ExitCode;

use cardswitch_feed::Story;
use cardswitch_sim::campaign::{Campaign, Report};
use cardswitch_sim::world::files::{kill_on_files, run_on_files};

use retelling::{story_of, story_of_failure};

/// So many worlds meet each rare thing.
const SEEDS_TO_MEET_ALL: u64 = 2_000;

struct Options {
    campaign: Campaign,
    wants_story: bool,
    scenario_out: Option<PathBuf>,
    /// Worlds on real files, to be killed.
    kills: u64,
    /// The directory of such a world, in its process.
    on_files: Option<PathBuf>,
}

fn main() -> ExitCode {
    let Options { campaign, wants_story, scenario_out, kills, on_files } = match options() {
        Ok(options) => options,
        Err(name) => {
            eprintln!("simulate: `{name}` is unknown, or lacks its value; see tests/sim/README.md");
            return ExitCode::from(2);
        }
    };
    if let Some(place) = on_files {
        // It ends by a signal, or with its listener.
        drop(run_on_files(campaign.first_seed, &place, &mut std::io::stdout()));
        return ExitCode::SUCCESS;
    }
    if kills > 0 {
        let program = std::env::current_exe().expect("a program knows its file");
        let seeds = campaign.first_seed..campaign.first_seed + kills;
        let records: u64 = seeds.map(|seed| kill_on_files(seed, &program)).sum();
        println!(
            "{kills} worlds on real files were killed; the simulated disk has their {records} records"
        );
        return ExitCode::SUCCESS;
    }
    let report = campaign.run(|report| println!("{report}"));
    println!("{report}\nmarks:\n{}", report.total.marks);
    let Some(seed) = report.failed else {
        if let Some(path) = scenario_out.filter(|_| campaign.seeds == 1) {
            let seed = campaign.first_seed;
            write(&path, &story_of(seed, &campaign.happenings_of(seed)));
        }
        return has_met_all(&report);
    };
    match wants_story.then(|| campaign.explain(seed)) {
        None => println!("seed {seed} fails"),
        Some(Some(story)) => {
            println!("seed {seed} fails: {story}");
            if let Some(path) = scenario_out {
                let told = story_of_failure(seed, &story.happenings, &story.failure.message);
                write(&path, &told);
            }
        }
        Some(None) => {
            println!("seed {seed} failed, and does not fail again: it is not deterministic");
        }
    }
    ExitCode::FAILURE
}

/// Reads the options.
/// Errors: the option that is unknown, or has no value.
fn options() -> Result<Options, String> {
    let campaign = Campaign { first_seed: 1, seeds: 2_000, commands: 1_000, threads: threads() };
    let (scenario_out, on_files) = (None, None);
    let mut options = Options { campaign, wants_story: true, scenario_out, kills: 0, on_files };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| name.clone())?;
        let path = match name.as_str() {
            "--scenario-out" => Some(&mut options.scenario_out),
            "--on-files" => Some(&mut options.on_files),
            _ => None,
        };
        if let Some(path) = path {
            *path = Some(value.into());
            continue;
        }
        let value: u64 = value.parse().map_err(|_| name.clone())?;
        let campaign = &mut options.campaign;
        match name.as_str() {
            "--seeds" => campaign.seeds = value,
            "--first" => campaign.first_seed = value,
            "--commands" => campaign.commands = value,
            "--threads" => campaign.threads = usize::try_from(value).unwrap_or(1),
            "--kills" => options.kills = value,
            "--story" => options.wants_story = value > 0,
            _ => return Err(name),
        }
    }
    Ok(options)
}

/// Shows a story, and writes its file if there is one.
fn write(path: &std::path::Path, story: &Story) {
    print!("{story}");
    let Some(scenario) = &story.scenario else { return println!("no scenario tells it") };
    match std::fs::write(path, scenario) {
        Ok(()) => println!("scenario: {}", path.display()),
        Err(error) => println!("cannot write {}: {error}", path.display()),
    }
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
