//! Measures whole switches: real processes of a distributed build, beside what they are compared with.
//! Each subcommand prints the rows of `benches/README.md` that it is quoted in.
//!
//! | file | content |
//! |---|---|
//! | `deliveries`, `delay`, `receiver` | webhooks: how many a second, how late, and who takes them |
//! | `stages` | the processor time of an authorization in each stage |
//! | `watching`, `backups` | the cost of watching a switch, and of a backup under load |
//! | `pages`, `statements`, `exports` | the site, statement files, `export` |
//! | `cluster` | purchases through three nodes, and changes of leader |
//! | `queries`, `peers` | beside PostgreSQL and Redis |
//! | `http`, `postgresql`, `server` | a client, and servers of other makes |

mod backups;
mod cluster;
mod delay;
mod deliveries;
mod exports;
mod http;
mod pages;
#[path = "../peers/mod.rs"]
mod peers;
mod postgresql;
mod queries;
mod receiver;
mod server;
mod stages;
mod statements;
mod watching;

use std::error::Error;
use std::fs;
use std::process::ExitCode;

use cardswitch_benches::meter::print_control;
use cardswitch_tools::Outcome;
use clap::{Parser, Subcommand};

/// Lets a switch deliver to the loopback.
pub(crate) const LOCAL_WEBHOOKS: [&str; 1] = ["--allow-local-webhooks"];

/// The balance of a new switch's account: more than a run can spend. Units: minor units.
pub(crate) const OPENING_BALANCE: &str = "90000000000";

/// Measures whole switches
#[derive(Debug, Parser)]
#[command(name = "measure", version)]
struct Arguments {
    #[command(subcommand)]
    measurement: Measurement,
}

#[derive(Debug, Subcommand)]
enum Measurement {
    /// Webhooks a second, beside their client alone
    Deliveries(deliveries::Scale),
    /// From the commit of a purchase to the end of its webhook
    Delay(delay::Scale),
    /// The processor time of an authorization in each stage
    Stages(stages::Scale),
    /// Authorizations without and with endpoints, streams and scrapes
    Watching(watching::Scale),
    /// A backup under load, beside `cp`: four times the directory on disk
    Backup(backups::Scale),
    /// Pages of the site, and authorizations beside live overviews; needs Debian's chromium
    Pages(pages::Scale),
    /// Statements of many lines in each format
    Statements(statements::Scale),
    /// `export` of a running switch, beside COPY of its rows
    Exports(exports::Scale),
    /// A cluster of three nodes and three etcd: purchases, an export, changes of leader
    Cluster(cluster::Scale),
    /// Lists of transactions, beside PostgreSQL with an expert's indexes: 4 GB of disk
    Queries(queries::Scale),
    /// Durable authorizations, beside PostgreSQL, Redis and TigerBeetle
    Peers(peers::Scale),
}

fn main() -> ExitCode {
    match run(&Arguments::parse().measurement) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("measure: {}", with_sources(&*error));
            ExitCode::FAILURE
        }
    }
}

/// The text of an error and of its sources: a database tells its reason there.
fn with_sources(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text += &format!(": {error}");
        source = error.source();
    }
    text
}

fn run(measurement: &Measurement) -> Outcome<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    println!("{}", machine());
    print_control("before");
    match measurement {
        Measurement::Deliveries(scale) => deliveries::run(scale, &runtime)?,
        Measurement::Delay(scale) => delay::run(scale, &runtime)?,
        Measurement::Stages(scale) => stages::run(scale)?,
        Measurement::Watching(scale) => watching::run(scale, &runtime)?,
        Measurement::Backup(scale) => backups::run(scale)?,
        Measurement::Pages(scale) => pages::run(scale)?,
        Measurement::Statements(scale) => statements::run(scale)?,
        Measurement::Exports(scale) => exports::run(scale, &runtime)?,
        Measurement::Cluster(scale) => cluster::run(scale, &runtime)?,
        Measurement::Queries(scale) => queries::run(scale)?,
        Measurement::Peers(scale) => peers::run(scale)?,
    }
    print_control("after");
    Ok(())
}

/// The machine, the date and the disk. Source: proc(5).
fn machine() -> String {
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processors.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("unknown processor", |line| line.trim_matches([' ', '\t', ':']));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let date = chrono::Utc::now().format("%Y-%m-%d %H:%M UTC");
    format!("{date}, {cores} cores of {model}, data below {}", std::env::temp_dir().display())
}
