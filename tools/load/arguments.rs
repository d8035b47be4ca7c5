//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};

/// Loads a switch over ISO 8583 or HTTP and tells how long its answers took.
#[derive(Debug, Parser)]
#[command(name = "load", version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Authorizations (0100) over ISO 8583
    Iso(RunArguments),
    /// Authorizations over /network/v1
    Http(RunArguments),
    /// One rate after the other, to find the greatest one that is kept
    Sweep(SweepArguments),
    /// One of several processes: is told over stdin what to do
    #[command(hide = true)]
    Worker,
    /// A counterpart that does no work
    #[command(hide = true)]
    Echo {
        /// What it speaks
        door: Door,
    },
}

/// The door of the switch under load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Door {
    /// ISO 8583
    Iso,
    /// HTTP under /network/v1
    Http,
}

#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// Open loop: messages a second, sent at their instants whatever becomes of them
    #[arg(long, value_name = "N", required_unless_present = "in_flight")]
    pub(crate) rate: Option<u64>,
    #[command(flatten)]
    pub(crate) load: LoadArguments,
}

#[derive(Debug, Args)]
pub(crate) struct SweepArguments {
    /// Which door
    pub(crate) door: Door,
    /// The first rate
    #[arg(long, value_name = "N")]
    pub(crate) from: u64,
    /// The last rate
    #[arg(long, value_name = "N")]
    pub(crate) to: u64,
    /// How many rates, each the same factor above the one before
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(2..=100))]
    pub(crate) steps: u32,
    /// How many more between the greatest rate that was kept and the next one
    #[arg(long, default_value_t = 2)]
    pub(crate) refine: u32,
    /// A rate counts as kept while p99 is below this
    #[arg(long, default_value_t = 10.0, value_name = "MS")]
    pub(crate) bound_ms: f64,
    /// Where to draw latency against rate
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) load: LoadArguments,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct LoadArguments {
    /// Where the door is; of several, with commas between them, the next is taken where a connection breaks
    #[arg(long, value_name = "ADDR", required_unless_present = "serve", value_delimiter = ',')]
    pub(crate) address: Vec<SocketAddr>,
    /// The cards that `cardswitch init --cards N --cards-out FILE` wrote
    #[arg(long, value_name = "FILE", required_unless_present = "serve")]
    pub(crate) cards: Option<PathBuf>,
    /// The network key, for HTTP
    #[arg(long, env = "CARDSWITCH_NETWORK_KEY", hide_env_values = true, default_value = "")]
    pub(crate) key: String,
    /// Make, serve, load and stop a switch of its own, and measure yardsticks beside it
    #[arg(long, conflicts_with_all = ["address", "cards"])]
    pub(crate) serve: bool,
    /// How many cards the switch of --serve has
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    pub(crate) serve_cards: u32,
    /// The binary of --serve [default: cardswitch beside this program]
    #[arg(long, value_name = "FILE")]
    pub(crate) switch: Option<PathBuf>,
    /// How long is measured
    #[arg(long, default_value_t = 10.0, value_name = "S")]
    pub(crate) seconds: f64,
    /// How long the load runs before that
    #[arg(long, default_value_t = 1.0, value_name = "S")]
    pub(crate) warmup: f64,
    /// How long answers are waited for after the last message
    #[arg(long, default_value_t = 4.0, value_name = "S")]
    pub(crate) patience: f64,
    /// Connections, of all processes together
    #[arg(long, default_value_t = 4, value_name = "N")]
    pub(crate) connections: u32,
    /// Messages without an answer that one connection may have; without --rate, a closed loop
    /// [default: 1 over HTTP, any number over ISO 8583]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) in_flight: Option<u32>,
    /// Processes that share the load
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) processes: u32,
    /// Threads of each process
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) threads: u32,
    /// The least time between two rounds of sending: what becomes due meanwhile goes together
    #[arg(long, default_value_t = 50, value_name = "US")]
    pub(crate) gather_us: u32,
    /// The least amount, in minor units
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(..100_000_000))]
    pub(crate) amount_min: u64,
    /// The greatest amount, in minor units
    #[arg(long, default_value_t = 199, value_parser = clap::value_parser!(u64).range(..100_000_000))]
    pub(crate) amount_max: u64,
    /// Currency of the amounts over ISO 8583: its ISO 4217 number
    #[arg(long, default_value_t = 840, value_parser = clap::value_parser!(u64).range(1..1_000))]
    pub(crate) currency: u64,
    /// Use also the cards that were made to be declined
    #[arg(long)]
    pub(crate) every_card: bool,
    /// Seed of cards and amounts
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
