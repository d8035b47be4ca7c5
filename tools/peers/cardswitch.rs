//! cardswitch under the same discipline: in process, and as another process over ISO 8583, as a peer
//! is reached.

use std::sync::Arc;
use std::time::Duration;

use cardswitch_benches::caller::{ClosedLoopCaller, wait_for_tables};
use cardswitch_benches::installation::{CardHashes, Installation, open};
use cardswitch_benches::program::{self, CardDraw, is_approved};
use cardswitch_engine::command::reply::{NetworkReply, Reply};
use cardswitch_engine::domain::ids::AccountSlot;
use cardswitch_engine::engine::{Engine, Retention};
use cardswitch_feed::Card;
use cardswitch_harness::Switch;
use cardswitch_load::iso::{Iso, PurchaseSettings};
use cardswitch_load::load::Load as IsoLoad;
use cardswitch_tools::Outcome;
use cardswitch_tools::ground::{Ground, Plan};

use super::closed_loop::{PeerFigures, Tally};
use super::peer::{Books, Load};

/// The amount of every purchase over ISO 8583, so that answers tell the sum. Units: minor units.
const AMOUNT: u64 = 10_050;
/// Cards that are drawn beforehand.
const DRAWN: u64 = 100_000;

/// The engine in process, called by one thread.
pub(crate) struct EmbeddedEngine {
    engine: Arc<Engine>,
    purchases: program::Purchases,
    /// Dropped after the engine has closed it.
    _home: Installation,
}

impl EmbeddedEngine {
    /// Opens an engine with the ordinary program.
    pub(crate) fn open(cards: u64, purchases: program::Purchases) -> Self {
        let program = program::Program::of_one_company(cards);
        let _home = Installation::new(program, CardHashes::Simulated);
        Self { engine: _home.open(Retention::Recovery), purchases, _home }
    }

    /// Keeps `window` purchases in flight for so long.
    pub(crate) fn measure(&mut self, load: Load) -> PeerFigures {
        let PeerFigures { mut latencies, mut tally, .. } = PeerFigures::default();
        let mut caller = ClosedLoopCaller::new(Arc::clone(&self.engine), load.window);
        let next = || self.purchases.next_command();
        let elapsed = caller.run_for(load.duration, next, &mut |reply, latency| {
            tally.note(is_approved(&reply), approved_minor(&reply));
            latencies.note(latency);
        });
        PeerFigures { latencies, elapsed, tally }
    }

    /// The books once the query tables have caught up, of which only the account is looked at.
    pub(crate) fn books(&self, tally: &Tally) -> Outcome<Books> {
        books_of(&self.engine, tally)
    }
}

fn approved_minor(reply: &Reply) -> i64 {
    match reply {
        Reply::Network(NetworkReply::Authorization(reply)) => reply.approved.0,
        _ => 0,
    }
}

fn books_of(engine: &Engine, tally: &Tally) -> Outcome<Books> {
    wait_for_tables(engine);
    let account = engine.store.read()?.account(AccountSlot(0))?;
    let account = account.ok_or("the account is not in the query tables")?;
    Ok(Books { account_held_minor: account.balances.held.0, ..Books::of(tally) })
}

/// The whole switch as another process, and one connection to its ISO 8583 door.
pub(crate) struct Iso8583Switch {
    ground: Ground,
    switch: Switch,
    /// Cards as they are drawn: popular ones stand there often.
    drawn: Vec<Card>,
}

impl Iso8583Switch {
    /// Serves the ordinary program.
    pub(crate) fn open(cards: u64, draw: &CardDraw) -> Outcome<Self> {
        let ground = Ground::make(&Plan::of_cards(cards))?;
        let switch = ground.serve(&[]);
        let mut random = program::Random::new(DRAWN);
        let places = (0..DRAWN).map(|_| usize::try_from(draw.next_card(&mut random)));
        let drawn = places.map(|place| Ok(ground.cards[place?].clone())).collect::<Outcome<_>>()?;
        Ok(Self { ground, switch, drawn })
    }

    /// Keeps `window` purchases in flight for so long, and waits for the last answer.
    pub(crate) fn measure(&self, load: Load) -> Outcome<PeerFigures> {
        let purchases = PurchaseSettings {
            amount_min: AMOUNT,
            amount_max: AMOUNT,
            ..PurchaseSettings::default()
        };
        let wire = Iso::new(&self.drawn, purchases)?;
        let pace = IsoLoad {
            connections: 1,
            in_flight_max: u32::try_from(load.window)?,
            warmup: Duration::ZERO,
            measured: load.duration,
            ..IsoLoad::default()
        };
        let tally = pace.carry_out(&[self.switch.iso8583], wire)?;
        let approvals = tally.approved();
        Ok(PeerFigures {
            latencies: tally.latencies.clone(),
            elapsed: Duration::from_nanos(tally.counts.elapsed_ns),
            tally: Tally {
                answers: tally.counts.messages,
                approvals,
                approved_minor: i64::try_from(approvals * AMOUNT)?,
            },
        })
    }

    /// Stops the switch, and returns the books, of which only the account in its directory is looked at.
    pub(crate) fn stop(self, tally: &Tally) -> Outcome<Books> {
        self.switch.stop();
        books_of(&open(&self.ground.data, Retention::Recovery), tally)
    }
}
