//! The client of a peer: so many purchases are in flight, and each answer lets the next one go.
//!
//! Purchases wait in lanes. A lane is one connection; while it waits for an answer, purchases
//! gather behind it, and it takes all of them at once when it is free, up to its batch's bound.
//! That is what a gateway in front of a database does, and what cardswitch's group commit does
//! inside. Latency counts from the moment a purchase may go, so waiting in a lane is in it.
//!
//! One thread, as the other side has the rest of the machine.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use cardswitch_benches::program::Draws;
use cardswitch_load::latencies::Latencies;
use cardswitch_tools::{Outcome, fail};
use futures_util::TryStreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::peer::Load;
use super::program::{Purchase, Verdict};

/// One connection to a peer.
pub(crate) trait Lane {
    /// Authorizes a batch; the verdicts come in its order, and are durable.
    async fn authorize(&mut self, batch: &[Purchase]) -> Outcome<Vec<Verdict>>;
}

/// How purchases are given to lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Discipline {
    /// Each card has its lane, which takes all that wait; two lanes never meet at a card.
    CardsToLanes,
    /// Any free lane takes the first that waits, alone.
    OneEach,
}

/// The result of a closed loop.
#[derive(Debug, Default)]
pub(crate) struct PeerFigures {
    pub(crate) latencies: Latencies,
    pub(crate) elapsed: Duration,
    pub(crate) tally: Tally,
}

impl PeerFigures {
    /// Answers a second.
    pub(crate) fn per_second(&self) -> f64 {
        self.tally.answers as f64 / self.elapsed.as_secs_f64()
    }
}

/// The counts of answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) answers: u64,
    pub(crate) approvals: u64,
    /// Units: minor units, of approvals.
    pub(crate) approved_minor: i64,
}

impl Tally {
    /// Notes one answer.
    pub(crate) fn note(&mut self, is_approved: bool, amount_minor: i64) {
        self.answers += 1;
        if is_approved {
            self.approvals += 1;
            self.approved_minor += amount_minor;
        }
    }

    /// Adds what another loop was answered.
    pub(crate) fn add(&mut self, other: &Self) {
        self.answers += other.answers;
        self.approvals += other.approvals;
        self.approved_minor += other.approved_minor;
    }
}

/// Keeps the load's window in flight for as long as it says, and waits for the last answer.
/// Errors: that of the first lane that fails.
pub(crate) async fn keep_in_flight<L: Lane>(
    lanes: Vec<L>,
    discipline: Discipline,
    draws: &mut Draws,
    Load { window, duration, .. }: Load,
) -> Outcome<PeerFigures> {
    let start = Instant::now();
    let (queues, batch_max) = match discipline {
        Discipline::CardsToLanes => (lanes.len(), usize::MAX),
        Discipline::OneEach => (1, 1),
    };
    let (senders, queues): (Vec<_>, Vec<_>) = (0..queues)
        .map(|_| {
            let (sender, queue) = unbounded_channel();
            (sender, Mutex::new(queue))
        })
        .unzip();
    let running = ClosedLoop {
        draws: RefCell::new(draws),
        drawn: Cell::new(0),
        senders: RefCell::new(senders),
        measured: RefCell::default(),
        stop_at: start + duration,
    };
    (0..window).for_each(|_| running.draw());
    let lanes = lanes.into_iter().zip(queues.iter().cycle());
    let lanes = lanes.map(|(lane, queue)| running.serve(lane, queue, batch_max));
    lanes.collect::<FuturesUnordered<_>>().try_collect::<()>().await?;
    let mut measured = running.measured.take();
    measured.elapsed = start.elapsed();
    if measured.tally.answers < window as u64 {
        return fail("fewer answers than purchases were in flight");
    }
    Ok(measured)
}

/// A purchase that may go, and since when.
type DuePurchase = (Instant, Purchase);

/// A closed loop that runs.
struct ClosedLoop<'a> {
    draws: RefCell<&'a mut Draws>,
    drawn: Cell<u64>,
    /// The ends of the queues; none when the last purchase is answered.
    senders: RefCell<Vec<UnboundedSender<DuePurchase>>>,
    measured: RefCell<PeerFigures>,
    stop_at: Instant,
}

impl ClosedLoop<'_> {
    /// Lets one more purchase go.
    fn draw(&self) {
        let purchase = Purchase::from(self.draws.borrow_mut().next_draw());
        self.drawn.update(|drawn| drawn + 1);
        let senders = self.senders.borrow();
        // The hash is uniform; its upper half leaves the lower one to the hash tables of peers.
        let lane = usize::try_from(purchase.pan_hash >> 32).unwrap_or(0) % senders.len();
        // Queues outlive the loop.
        let _ = senders[lane].send((Instant::now(), purchase));
    }

    /// Takes from a queue all that waits there, as often as the connection is free.
    async fn serve(
        &self,
        mut connection: impl Lane,
        queue: &Mutex<UnboundedReceiver<DuePurchase>>,
        batch_max: usize,
    ) -> Outcome<()> {
        let mut taken = Vec::new();
        while queue.lock().await.recv_many(&mut taken, batch_max).await > 0 {
            let (due_at, batch): (Vec<Instant>, Vec<Purchase>) = taken.drain(..).unzip();
            let verdicts = connection.authorize(&batch).await?;
            if verdicts.len() != batch.len() {
                return fail(format!("{} answers to {}", verdicts.len(), batch.len()));
            }
            let now = Instant::now();
            for ((due_at, purchase), verdict) in due_at.iter().zip(&batch).zip(&verdicts) {
                self.note(now - *due_at, purchase, verdict);
                if now < self.stop_at {
                    self.draw();
                }
            }
            if self.measured.borrow().tally.answers == self.drawn.get() {
                self.senders.borrow_mut().clear();
            }
        }
        Ok(())
    }

    fn note(&self, latency: Duration, purchase: &Purchase, verdict: &Verdict) {
        let mut measured = self.measured.borrow_mut();
        measured.latencies.note(latency);
        measured.tally.note(verdict.is_approved(), purchase.amount_minor);
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use cardswitch_benches::program::CardDraw;

    use super::*;

    /// Approves even amounts, and keeps the sizes of its batches.
    struct Approver(Rc<RefCell<Vec<usize>>>);

    impl Lane for Approver {
        async fn authorize(&mut self, batch: &[Purchase]) -> Outcome<Vec<Verdict>> {
            self.0.borrow_mut().push(batch.len());
            tokio::time::sleep(Duration::from_millis(1)).await;
            let verdict = |purchase: &Purchase| Verdict {
                transaction: None,
                response_code: if purchase.amount_minor % 2 == 0 { 0 } else { 1502 },
                failed_rules: 0,
                allowance_balance: 0,
            };
            Ok(batch.iter().map(verdict).collect())
        }
    }

    fn run(lanes: usize, discipline: Discipline, window: usize) -> (PeerFigures, Vec<usize>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let sizes = Rc::new(RefCell::new(Vec::new()));
        let mut draws = Draws::over(CardDraw::uniform(1_000), 5);
        let lanes = (0..lanes).map(|_| Approver(Rc::clone(&sizes))).collect();
        let load = Load { window, connections: 0, duration: Duration::from_millis(30) };
        let running = keep_in_flight(lanes, discipline, &mut draws, load);
        let measured = runtime.block_on(running).unwrap();
        let drawn = sizes.borrow().iter().sum::<usize>() as u64;
        assert_eq!(measured.tally.answers, drawn, "each purchase is answered once");
        assert_eq!(measured.latencies.count(), drawn);
        (measured, sizes.take())
    }

    #[test]
    fn all_that_wait_for_a_lane_go_together() {
        let (measured, sizes) = run(2, Discipline::CardsToLanes, 64);
        assert!(sizes.iter().all(|size| *size <= 64) && sizes.iter().any(|size| *size > 8));
        assert!(measured.tally.approvals > 0);
        assert!(measured.tally.approvals < measured.tally.answers);
        assert!(measured.elapsed >= Duration::from_millis(30));
    }

    #[test]
    fn one_each_means_one() {
        let (_, sizes) = run(4, Discipline::OneEach, 16);
        assert!(sizes.len() > 16 && sizes.iter().all(|size| *size == 1));
    }

    #[test]
    fn only_approved_amounts_are_added() {
        let mut tally = Tally::default();
        tally.note(true, 500);
        tally.note(false, 900);
        let mut sum = Tally { answers: 1, approvals: 1, approved_minor: 1 };
        sum.add(&tally);
        assert_eq!(sum, Tally { answers: 3, approvals: 2, approved_minor: 501 });
    }
}
