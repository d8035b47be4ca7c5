//! Loads a switch, and tells how long its answers took.
//!
//! | file | what |
//! |---|---|
//! | `arguments`, `main` | the command line; what follows from it |
//! | `crew`, `http` | threads and processes of a run; requests and answers of HTTP |
//! | `report` | what came of it |
//! | `sweep`, `chart` | one rate after the other, the knee, the picture |
//! | `own_switch`, `yardsticks`, `echo` | a switch made for the run, and what to compare it with |
//!
//! One thread with its connections is `cardswitch_load`. It is a counterpart of the switch and
//! knows nothing of the engine. It measures and proves
//! nothing: whether the books are right is for `feed` and `verify` to say.

mod arguments;
mod chart;
mod crew;
mod echo;
mod http;
mod own_switch;
mod report;
mod sweep;
mod yardsticks;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::{fs, thread};

use cardswitch_feed::Card;
use cardswitch_load::Failure;
use cardswitch_load::cards::{Choice, read_cards};
use cardswitch_load::clock::{SECOND_NS, unix_ns};
use clap::Parser;
use serde_json::json;

use arguments::{Arguments, Command, Door, LoadArguments, RunArguments, SweepArguments};
use crew::{Job, Key};
use own_switch::OwnSwitch;
use report::{Latency, Report};
use sweep::{Plan, TABLE_HEAD, table_line};
use yardsticks::{EchoProcess, Yardsticks, measure_commits};

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Iso(arguments) => run(Door::Iso, &arguments),
        Command::Http(arguments) => run(Door::Http, &arguments),
        Command::Sweep(arguments) => run_sweep(&arguments),
        Command::Worker => crew::work(),
        Command::Echo { door } => serve_echo(door),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("load: {error}");
            ExitCode::FAILURE
        }
    }
}

/// `iso` and `http`.
fn run(door: Door, arguments: &RunArguments) -> Result<(), Failure> {
    let (load, rate) = (&arguments.load, arguments.rate);
    let target = Target::find(door, load)?;
    let job = target.job(load, rate);
    let before = target.usage_ns()?;
    let report = carry_out(&job, &target.cards)?;
    let yardsticks = match &target.own {
        Some(own) => {
            let usage = own.switch.usage()?;
            Some(Yardsticks {
                redb_commit_us: own.commits,
                echo: Some(load_echo(&job, &target.cards)?),
                switch_cpu_us: usage.cpu_ns.saturating_sub(before) as f64
                    / 1e3
                    / report.counts.messages.max(1) as f64,
                switch_resident_bytes: usage.resident_bytes,
            })
        }
        None => None,
    };
    if load.json {
        println!("{}", json!({ "run": report, "yardsticks": yardsticks }));
    } else {
        print!("{}", report.text());
        let compared = yardsticks.map(|yardsticks| yardsticks.text(&report));
        print!("{}", compared.unwrap_or_default());
    }
    target.stop()
}

/// `sweep`.
fn run_sweep(arguments: &SweepArguments) -> Result<(), Failure> {
    let load = &arguments.load;
    let target = Target::find(arguments.door, load)?;
    let plan = Plan {
        from: arguments.from,
        to: arguments.to,
        steps: arguments.steps,
        refine: arguments.refine,
        bound_us: arguments.bound_ms * 1e3,
    };
    if !load.json {
        println!("{TABLE_HEAD}");
    }
    let sweep = plan.carry_out(
        |rate| carry_out(&target.job(load, Some(rate)), &target.cards),
        |report, is_kept| {
            if !load.json {
                println!("{}", table_line(report, is_kept));
            }
        },
    )?;
    let commits = target.own.as_ref().map(|own| own.commits);
    if load.json {
        println!("{}", json!({ "sweep": sweep, "redb_commit_us": commits }));
    } else {
        match sweep.knee {
            Some(knee) => println!("knee {knee}/s: the greatest rate with 99 % answered in time"),
            None => println!("no knee: no rate was kept"),
        }
        if let Some(commits) = commits {
            println!("yardstick   bare redb commit before, us: {}", commits.text());
        }
    }
    if let Some(path) = &arguments.svg {
        let marks = commits.map(commit_marks).unwrap_or_default();
        fs::write(path, chart::draw(&sweep, &title(arguments.door, &target), &marks))
            .map_err(|error| format!("`{}`: {error}", path.display()))?;
    }
    target.stop()
}

fn title(door: Door, target: &Target) -> String {
    let door = match door {
        Door::Iso => "ISO 8583",
        Door::Http => "HTTP",
    };
    format!(
        "Latency of authorizations over {door} from the intended send, {} cards",
        target.cards.len()
    )
}

fn commit_marks(commits: Latency) -> Vec<chart::Mark> {
    [("p50", commits.p50), ("p99", commits.p99)]
        .map(|(name, us)| chart::Mark { label: format!("bare redb commit, {name}"), us })
        .into()
}

/// `echo`: serves until it is killed.
fn serve_echo(door: Door) -> Result<(), Failure> {
    println!("{}", echo::start(door)?);
    loop {
        thread::park();
    }
}

fn carry_out(job: &Job, cards: &[Card]) -> Result<Report, Failure> {
    // Each run has reference numbers of its own, so that no message is taken for a repeat.
    let first_reference = unix_ns() / 10_000 % 1_000_000_000_000;
    let job = Job { first_reference, ..job.clone() };
    Ok(Report::new(&job, &crew::carry_out(&job, cards)?))
}

/// The same load on a counterpart that does no work.
fn load_echo(job: &Job, cards: &[Card]) -> Result<Report, Failure> {
    let echo = EchoProcess::start(job.door)?;
    carry_out(&Job { address: echo.address, again: Vec::new(), ..job.clone() }, cards)
}

/// The target of the load.
struct Target {
    door: Door,
    address: SocketAddr,
    again: Vec<SocketAddr>,
    key: Key,
    cards: Vec<Card>,
    cards_file: PathBuf,
    choice: Choice,
    own: Option<MeasuredSwitch>,
}

/// A switch of the run's own, and what was measured before it was loaded.
struct MeasuredSwitch {
    switch: OwnSwitch,
    commits: Latency,
}

impl Target {
    /// The switch that the arguments name, or one made for the run.
    fn find(door: Door, load: &LoadArguments) -> Result<Self, Failure> {
        let choice = if load.every_card { Choice::Every } else { Choice::Ordinary };
        if load.serve {
            return Self::make(door, choice, load);
        }
        let (address, cards_file) = load
            .address
            .first()
            .zip(load.cards.clone())
            .ok_or("--address and --cards are needed")?;
        let (address, mut again) = (*address, load.address.clone());
        if again.len() < 2 {
            again.clear();
        }
        let key = Key(load.key.clone());
        let cards = read_cards(&cards_file, choice)?;
        Ok(Self { door, address, again, key, cards, cards_file, choice, own: None })
    }

    fn make(door: Door, choice: Choice, load: &LoadArguments) -> Result<Self, Failure> {
        let switch = OwnSwitch::start(load.switch.as_deref(), load.serve_cards)?;
        let commits = measure_commits()?;
        let (cards_file, key) = (switch.cards(), switch.key.clone());
        let address = match door {
            Door::Iso => switch.iso8583,
            Door::Http => switch.http,
        };
        let cards = read_cards(&cards_file, choice)?;
        let own = Some(MeasuredSwitch { switch, commits });
        Ok(Self { door, address, again: Vec::new(), key, cards, cards_file, choice, own })
    }

    fn job(&self, load: &LoadArguments, rate: Option<u64>) -> Job {
        let in_flight_max = load.in_flight.unwrap_or(match self.door {
            Door::Iso => u32::MAX,
            Door::Http => 1,
        });
        Job {
            door: self.door,
            address: self.address,
            again: self.again.clone(),
            key: self.key.clone(),
            cards: self.cards_file.clone(),
            choice: self.choice,
            rate,
            in_flight_max,
            connections: load.connections,
            processes: load.processes,
            threads: load.threads,
            warmup_ns: nanoseconds(load.warmup),
            measured_ns: nanoseconds(load.seconds),
            gather_ns: u64::from(load.gather_us) * 1_000,
            patience_ns: nanoseconds(load.patience),
            amounts: (load.amount_min, load.amount_max),
            currency: load.currency,
            seed: load.seed,
            first_reference: 0,
        }
    }

    /// The processor time of a switch of the run's own so far. Units: nanoseconds.
    fn usage_ns(&self) -> Result<u64, Failure> {
        self.own.as_ref().map_or(Ok(0), |own| Ok(own.switch.usage()?.cpu_ns))
    }

    fn stop(self) -> Result<(), Failure> {
        self.own.map_or(Ok(()), |own| own.switch.stop())
    }
}

/// A time as the command line gives it; a negative one is none.
#[expect(clippy::cast_possible_truncation, reason = "a cast from a float saturates")]
#[expect(clippy::cast_sign_loss, reason = "a cast from a float saturates")]
fn nanoseconds(seconds: f64) -> u64 {
    (seconds * SECOND_NS as f64).round() as u64
}
