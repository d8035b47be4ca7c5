//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// The door of the switch under load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Door {
    /// Authorizations (0100) over ISO 8583
    Iso,
    /// Authorizations over /network/v1
    Http,
}

impl std::fmt::Display for Door {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(if *self == Self::Iso { "iso" } else { "http" })
    }
}

/// Loads a switch over ISO 8583 or HTTP and tells how long its answers took.
#[derive(Debug, Parser)]
#[command(name = "load", version)]
pub(crate) struct Arguments {
    /// Which door
    pub(crate) door: Door,
    /// Open loop: messages a second, sent at their instants whatever becomes of them
    #[arg(long, value_name = "N", required_unless_present = "in_flight", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rate: Option<u64>,
    /// Doubles --rate until p99 is above so many milliseconds or an answer in a hundred is missing,
    /// then looks between for the greatest rate that is kept
    #[arg(long, value_name = "MS", requires = "rate", conflicts_with_all = ["serve", "json"])]
    pub(crate) knee: Option<f64>,
    /// Address of the door; of several, with commas between them, the next is taken where a connection breaks
    #[arg(long, value_name = "ADDR", required_unless_present = "serve", value_delimiter = ',')]
    pub(crate) address: Vec<SocketAddr>,
    /// The cards that `cardswitch init --cards N --cards-out FILE` wrote
    #[arg(long, value_name = "FILE", required_unless_present = "serve")]
    pub(crate) cards: Option<PathBuf>,
    /// The network key, for HTTP
    #[arg(long, env = "CARDSWITCH_NETWORK_KEY", hide_env_values = true, default_value = "")]
    pub(crate) key: String,
    /// Make, serve, load and stop a switch of its own, and measure redb commits before
    #[arg(long, conflicts_with_all = ["address", "cards"])]
    pub(crate) serve: bool,
    /// How many cards the switch of --serve has
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    pub(crate) serve_cards: u64,
    /// How long is measured
    #[arg(long, default_value_t = 10.0, value_name = "S")]
    pub(crate) seconds: f64,
    /// How long the load runs before that
    #[arg(long, default_value_t = 1.0, value_name = "S")]
    pub(crate) warmup: f64,
    /// Connections, all of one thread
    #[arg(long, default_value_t = 4, value_name = "N")]
    pub(crate) connections: usize,
    /// Messages without an answer that one connection may have; without --rate, a closed loop
    /// [default: 1 over HTTP, any number over ISO 8583]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) in_flight: Option<u32>,
    /// The least amount, in minor units
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(..100_000_000))]
    pub(crate) amount_min: u64,
    /// The greatest amount, in minor units
    #[arg(long, default_value_t = 199, value_parser = clap::value_parser!(u64).range(..100_000_000))]
    pub(crate) amount_max: u64,
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
