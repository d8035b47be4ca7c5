//! The interface of a peer to the run.

use std::time::Duration;

use cardswitch_tools::Outcome;

use super::closed_loop::{Discipline, Lane, Tally};
use super::program::Program;

/// A server of another make.
pub(crate) trait Peer {
    /// One connection of its client.
    type Lane: Lane;

    /// How many connections its client may use: each is tried, the fastest is measured.
    fn connections(&self) -> &'static [usize] {
        &[1, 2, 4, 8]
    }

    /// How purchases are given to them.
    fn discipline(&self) -> Discipline {
        Discipline::CardsToLanes
    }

    /// The rules that it evaluates, by their bit: a ledger has fewer than a switch.
    fn rules(&self) -> u32 {
        u32::MAX
    }

    /// Forgets everything and founds a program.
    async fn found(&mut self, program: &Program) -> Outcome<()>;

    /// So many connections.
    async fn connect(&mut self, count: usize) -> Outcome<Vec<Self::Lane>>;

    /// Kills the server as a crash would, and starts it again on what the disk has.
    async fn crash(&mut self) -> Outcome<()>;

    /// Sums up what is stored.
    async fn books(&mut self) -> Outcome<Books>;

    /// The settings that make its answers durable, as the server states them.
    async fn durability(&mut self) -> Outcome<String>;
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

impl Books {
    /// The books after nothing but these answers.
    pub(crate) const fn of(tally: &Tally) -> Self {
        Self {
            account_held_minor: tally.approved_minor,
            cards_spent_minor: tally.approved_minor,
            transactions_held_minor: tally.approved_minor,
            transactions_held: tally.approvals,
        }
    }
}
