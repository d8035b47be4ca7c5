//! The interface of a peer to the run, and the shared parts of all peers' clients.

use std::time::Duration;

use cardswitch_tools::Outcome;
use tokio::runtime::Runtime;

use super::closed_loop::PeerFigures;
use super::program::{Program, Purchase, Verdict};

/// A server of another make that authorizes.
pub(crate) trait Peer {
    /// Forgets everything and founds a program.
    fn found(&mut self, program: &Program) -> Outcome<()>;

    /// Authorizes these purchases in one batch.
    fn authorize(&mut self, batch: &[Purchase]) -> Outcome<Vec<Verdict>>;

    /// The rules that it evaluates, by their bit: a ledger has fewer than a switch.
    fn rules(&self) -> u32 {
        u32::MAX
    }

    /// How many connections its client may use: each is tried, the fastest is measured.
    fn connections(&self) -> &'static [usize];

    /// Keeps `window` purchases of the ordinary stream in flight for so long.
    fn measure(&mut self, load: Load) -> Outcome<PeerFigures>;

    /// Kills the server as a crash would, and starts it again on what the disk has.
    fn crash(&mut self) -> Outcome<()>;

    /// Sums up what is stored.
    fn books(&mut self) -> Outcome<Books>;

    /// The settings that make its answers durable, as the server states them.
    fn durability(&mut self) -> Outcome<String>;
}

/// How a peer is loaded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Purchases in flight.
    pub(crate) window: usize,
    /// Connections they are spread over.
    pub(crate) connections: usize,
    pub(crate) duration: Duration,
}

/// The sums that a peer has stored, three times over. Units: minor units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Books {
    /// Holds on the account.
    pub(crate) account_held_minor: i64,
    /// The usage of the cards' current periods.
    pub(crate) cards_spent_minor: i64,
    /// Holds of transactions.
    pub(crate) transactions_held_minor: i64,
    /// Transactions with a hold.
    pub(crate) transactions_held: u64,
}

/// A runtime of one thread: the caller's.
pub(crate) fn new_runtime() -> Outcome<Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}
