//! The processor time that one authorization takes in each stage of a switch: that of the threads of
//! `serve` during a load, divided by its answers. Source: proc(5), `comm` and `schedstat` of a thread.
//!
//! While few requests are under way, the shard commits on its own thread: its stage has that time.

use std::fs;
use std::time::Duration;

use cardswitch_harness::Switch;
use cardswitch_load::load::Load;
use cardswitch_tools::ground::{Ground, Plan};
use cardswitch_tools::report::{each, outcome, print_row, short};
use cardswitch_tools::switch::load_door;
use cardswitch_tools::{Outcome, fail};

/// The stages in the order in which a request meets them: how the names of their threads begin.
const STAGES: [(&str, &str); 5] = [
    ("iso8583", "door: read, parse, session, write of the answer"),
    ("shard-", "shard: decide, encode, apply"),
    ("journal-", "committer: chain, write, release of the answers"),
    ("projector-", "projector"),
    ("", "all other threads"),
];
/// Nanoseconds of a processor in each stage.
type StageTimes = [u64; STAGES.len()];
/// The load before that of which the times are taken.
const WARMUP: Duration = Duration::from_secs(2);

/// The loads.
#[derive(Debug, clap::Args)]
pub(crate) struct Scale {
    /// Authorizations a second of the open loop
    #[arg(long, default_value_t = 20_000, value_name = "N")]
    rate: u64,
    /// Authorizations in flight of the closed loop, over four connections
    #[arg(long, default_value_t = 1_024, value_name = "N")]
    in_flight: u32,
    /// Seconds of each load
    #[arg(long, default_value_t = 10.0, value_name = "S")]
    seconds: f64,
    /// Cards of the directory
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    cards: u64,
}

/// Measures and prints.
pub(crate) fn run(scale: &Scale) -> Outcome<()> {
    let ground = Ground::make(&Plan::of_cards(scale.cards))?;
    let switch = ground.serve(&[]);
    let measured = Duration::try_from_secs_f64(scale.seconds)?;
    let open = Load { rate: Some(scale.rate), measured, warmup: Duration::ZERO, ..Load::default() };
    let in_flight_max = scale.in_flight.div_ceil(4);
    let closed = Load { rate: None, in_flight_max, ..open };
    let figures = [open, closed].map(|load| times_under(&switch, &ground, &load));
    let [open, closed] = figures;
    let loads = [open?, closed?];
    switch.stop();
    for (place, (_, stage)) in STAGES.iter().enumerate() {
        print_row(stage, &format!("{} us", each(&loads, |times| short(times[place]))));
    }
    print_row("together", &format!("{} us", each(&loads, |times| short(times.iter().sum()))));
    Ok(())
}

/// Microseconds of a processor for one authorization in each stage.
fn times_under(switch: &Switch, ground: &Ground, load: &Load) -> Outcome<[f64; STAGES.len()]> {
    load_door(switch.iso8583, &ground.cards, &Load { measured: WARMUP, ..*load })?;
    let before = stage_times(switch.pid())?;
    let tally = load_door(switch.iso8583, &ground.cards, load)?;
    let after = stage_times(switch.pid())?;
    println!("{}", outcome(&tally));
    let mut times = [0.0; STAGES.len()];
    for (place, time) in times.iter_mut().enumerate() {
        let took = after[place].saturating_sub(before[place]);
        *time = took as f64 / 1e3 / tally.counts.answered as f64;
    }
    Ok(times)
}

/// Errors: the process is gone.
fn stage_times(pid: u32) -> Outcome<StageTimes> {
    let mut times = StageTimes::default();
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let path = thread?.path();
        // A thread may end meanwhile; those of the stages stay.
        let (Ok(name), Ok(usage)) =
            (fs::read_to_string(path.join("comm")), fs::read_to_string(path.join("schedstat")))
        else {
            continue;
        };
        let Some(ns) = usage.split_whitespace().next().and_then(|text| text.parse::<u64>().ok())
        else {
            return fail(format!("`{}` has no times", path.display()));
        };
        times[stage_of(&name)] += ns;
    }
    Ok(times)
}

fn stage_of(thread: &str) -> usize {
    STAGES.iter().position(|(start, _)| thread.starts_with(start)).unwrap_or(STAGES.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_belong_to_stages_by_their_names() {
        let threads = ["iso8583", "shard-0", "journal-0", "projector-0", "tokio-rt-worker", ""];
        assert_eq!(threads.map(stage_of), [0, 1, 2, 3, 4, 4]);
    }

    #[test]
    fn a_process_that_works_takes_time() {
        let times = stage_times(std::process::id()).unwrap();
        assert!(times.iter().sum::<u64>() > 0);
    }
}
