//! The cost of operating a switch and the speed of its webhooks, measured on real processes of a
//! release build.
//!
//! | file | what |
//! |---|---|
//! | `ground` | data directories to stand on |
//! | `switch_process` | the switch as another process, and the load on it |
//! | `receiver` | receivers of webhooks, some of which take none |
//! | `deliveries` | deliveries a second |
//! | `delay` | how long after its purchase an event arrives, at few endpoints and at many |
//! | `cost` | authorizations with and without all that watching |
//! | `backups` | a backup under load |

mod backups;
mod cost;
mod delay;
mod deliveries;
mod ground;
#[path = "../peers/outcome.rs"]
mod outcome;
mod receiver;
mod switch_process;

use std::fs;
use std::process::ExitCode;
use std::thread;

use cardswitch_benches::meter::print_control;
use clap::{Parser, ValueEnum};

use crate::outcome::{Outcome, fail};
use crate::switch_process::Programs;

/// Measures webhooks, watching and backups.
#[derive(Debug, Parser)]
#[command(name = "operation-figures", version)]
struct Arguments {
    /// What is measured; repeat or separate with commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Part::ALL)]
    parts: Vec<Part>,
    /// Cards of the directories, but for that of the backup
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    cards: u64,
    /// Seconds of each load, but for those beside the backup
    #[arg(long, default_value_t = 20.0, value_name = "S")]
    seconds: f64,

    /// deliveries: events to all endpoints together
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    delivered_events: u64,
    /// deliveries: endpoints, one run each
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16, 64], value_name = "N")]
    delivered_endpoints: Vec<usize>,

    /// delay: purchases a second
    #[arg(long, default_value_t = 1_000, value_name = "N")]
    delay_rate: u64,
    /// delay: endpoints, one run each
    #[arg(long, value_delimiter = ',', default_values_t = [1, 10], value_name = "N")]
    delay_endpoints: Vec<usize>,

    /// fan: endpoints
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    fan_endpoints: usize,
    /// fan: endpoints of one company, a hundred at most
    #[arg(long, default_value_t = 100, value_name = "N")]
    fan_of_company: usize,
    /// fan: every so many endpoints is dead
    #[arg(long, default_value_t = 100, value_name = "N")]
    fan_dead_every: usize,
    /// fan: purchases a second; each goes to all endpoints of its company
    #[arg(long, default_value_t = 10, value_name = "N")]
    fan_rate: u64,

    /// cost: authorizations a second
    #[arg(long, value_delimiter = ',', default_values_t = [5_000, 10_000], value_name = "N")]
    cost_rates: Vec<u64>,
    /// cost: rounds
    #[arg(long, default_value_t = 3, value_name = "N")]
    cost_rounds: usize,
    /// cost: endpoints
    #[arg(long, default_value_t = 4, value_name = "N")]
    cost_endpoints: usize,
    /// cost: streams of events
    #[arg(long, default_value_t = 4, value_name = "N")]
    cost_streams: usize,

    /// backup: transactions of the directory
    #[arg(long, default_value_t = 5_000_000, value_name = "N")]
    backup_transactions: u64,
    /// backup: its cards
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    backup_cards: u64,
    /// backup: authorizations a second meanwhile
    #[arg(long, default_value_t = 5_000, value_name = "N")]
    backup_rate: u64,
    /// backup: seconds of each look at the latency
    #[arg(long, default_value_t = 4.0, value_name = "S")]
    backup_slice: f64,
}

/// A question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    Deliveries,
    Delay,
    Fan,
    Cost,
    Backup,
}

impl Part {
    const ALL: [Self; 5] = [Self::Deliveries, Self::Delay, Self::Fan, Self::Cost, Self::Backup];
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("operation-figures: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Outcome<()> {
    check(arguments)?;
    let programs = Programs::beside()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    println!("{}", machine());
    print_control("before");
    for part in &arguments.parts {
        let name = part.to_possible_value().map(|value| value.get_name().to_owned());
        println!("\n## {}", name.unwrap_or_default());
        match part {
            Part::Deliveries => deliveries::run(&deliveries_of(arguments), &programs, &runtime)?,
            Part::Delay => delay::run(&delay_of(arguments), &programs, &runtime)?,
            Part::Fan => delay::run_fan(&fan_of(arguments), &programs, &runtime)?,
            Part::Cost => cost::run(&cost_of(arguments), &programs, &runtime)?,
            Part::Backup => backups::run(&backup_of(arguments), &programs)?,
        }
    }
    println!();
    print_control("after");
    Ok(())
}

/// Errors: a number that means nothing.
fn check(arguments: &Arguments) -> Outcome<()> {
    let counts = [&arguments.delivered_endpoints, &arguments.delay_endpoints];
    let of_one_company = counts.into_iter().flatten().copied();
    let of_one_company = of_one_company.chain([arguments.cost_endpoints, arguments.fan_of_company]);
    if of_one_company.max().unwrap_or(0) > 100 {
        return fail("a company has at most 100 endpoints");
    }
    let least = [
        arguments.fan_of_company,
        arguments.fan_dead_every,
        arguments.delivered_endpoints.iter().copied().min().unwrap_or(1),
    ];
    let companies = arguments.fan_endpoints.div_ceil(arguments.fan_of_company.max(1)) as u64;
    if least.contains(&0) || arguments.cards < companies.max(1) || arguments.backup_cards == 0 {
        return fail("there is at least one card for each company, and one of everything else");
    }
    Ok(())
}

fn deliveries_of(arguments: &Arguments) -> deliveries::Scale {
    deliveries::Scale {
        endpoints: arguments.delivered_endpoints.clone(),
        events: arguments.delivered_events,
        cards: arguments.cards,
    }
}

fn delay_of(arguments: &Arguments) -> delay::Scale {
    delay::Scale {
        endpoints: arguments.delay_endpoints.clone(),
        rate: arguments.delay_rate,
        seconds: arguments.seconds,
        cards: arguments.cards,
    }
}

const fn fan_of(arguments: &Arguments) -> delay::FanScale {
    delay::FanScale {
        endpoints: arguments.fan_endpoints,
        of_company: arguments.fan_of_company,
        dead_every: arguments.fan_dead_every,
        rate: arguments.fan_rate,
        seconds: arguments.seconds,
        cards: arguments.cards,
    }
}

fn cost_of(arguments: &Arguments) -> cost::Scale {
    cost::Scale {
        endpoints: arguments.cost_endpoints,
        streams: arguments.cost_streams,
        rates: arguments.cost_rates.clone(),
        rounds: arguments.cost_rounds,
        seconds: arguments.seconds,
        cards: arguments.cards,
    }
}

const fn backup_of(arguments: &Arguments) -> backups::Scale {
    backups::Scale {
        transactions: arguments.backup_transactions,
        cards: arguments.backup_cards,
        rate: arguments.backup_rate,
        slice: arguments.backup_slice,
    }
}

/// The machine and the date. Source: proc(5).
fn machine() -> String {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let value = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_once(':')).map_or("?", |(_, value)| value.trim()).to_owned()
    };
    let model = value(&read("/proc/cpuinfo"), "model name");
    let memory = value(&read("/proc/meminfo"), "MemTotal");
    let cores = thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let date = chrono::Utc::now().format("%Y-%m-%d %H:%M UTC");
    let place = std::env::temp_dir();
    format!("{date}, {cores} cores of {model}, {memory}, data below {}", place.display())
}
