//! The interface of a peer to the run, and the shared parts of all peers' clients.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use cardswitch_tools::Outcome;
use tokio::runtime::Runtime;

use super::closed_loop::{Discipline, Lane, PeerFigures, Tally, keep_in_flight};
use super::program::{Program, Purchase, Purchases, Verdict};

/// Something that authorizes.
pub(crate) trait Authorizer {
    /// Forgets everything and founds a program.
    fn found(&mut self, program: &Program) -> Outcome<()>;

    /// Authorizes these purchases in one batch.
    fn authorize(&mut self, batch: &[Purchase]) -> Outcome<Vec<Verdict>>;

    /// Sums up what is stored.
    fn books(&mut self) -> Outcome<Books>;

    /// The rules that it evaluates, by their bit: a ledger has fewer than a switch.
    fn rules(&self) -> u32 {
        u32::MAX
    }
}

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

    /// As `Authorizer::rules`.
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

/// A peer with the one thread of its client, the caller's.
pub(crate) struct Contest<P> {
    peer: P,
    purchases: Rc<RefCell<Purchases>>,
    // Ended when it goes, after the connections of the peer.
    runtime: Runtime,
}

impl<P: Peer> Contest<P> {
    pub(crate) fn new(peer: P, purchases: Purchases) -> Outcome<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { peer, purchases: Rc::new(RefCell::new(purchases)), runtime })
    }

    pub(crate) fn connections(&self) -> &'static [usize] {
        self.peer.connections()
    }

    /// Keeps `window` purchases of the ordinary stream in flight for so long.
    pub(crate) fn measure(&mut self, load: Load) -> Outcome<PeerFigures> {
        self.runtime.block_on(async {
            let lanes = self.peer.connect(load.connections).await?;
            keep_in_flight(lanes, self.peer.discipline(), &self.purchases, load).await
        })
    }

    pub(crate) fn crash(&mut self) -> Outcome<()> {
        self.runtime.block_on(self.peer.crash())
    }

    pub(crate) fn durability(&mut self) -> Outcome<String> {
        self.runtime.block_on(self.peer.durability())
    }
}

impl<P: Peer> Authorizer for Contest<P> {
    fn found(&mut self, program: &Program) -> Outcome<()> {
        self.runtime.block_on(self.peer.found(program))
    }

    fn authorize(&mut self, batch: &[Purchase]) -> Outcome<Vec<Verdict>> {
        self.runtime.block_on(async { self.peer.connect(1).await?[0].authorize(batch).await })
    }

    fn books(&mut self) -> Outcome<Books> {
        self.runtime.block_on(self.peer.books())
    }

    fn rules(&self) -> u32 {
        self.peer.rules()
    }
}
