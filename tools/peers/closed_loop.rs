//! The client of a peer: so many purchases are in flight, and each answer lets the next one go.
//!
//! Purchases wait in lanes. A lane is one connection; while it waits for an answer, purchases
//! gather behind it, and it takes all of them at once when it is free, up to its batch's bound.
//! That is what a gateway in front of a database does, and what cardswitch's group commit does
//! inside. Latency counts from the moment a purchase may go, so waiting in a lane is in it.
//!
//! One thread, as the other side has the rest of the machine.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use cardswitch_load::latencies::Latencies;
use cardswitch_tools::{Outcome, fail};
use tokio::sync::Notify;
use tokio::task::LocalSet;

use super::peer::Load;
use super::program::{Purchase, Purchases, Verdict};

/// One connection to a peer.
pub(crate) trait Lane: 'static {
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
pub(crate) async fn keep_in_flight<L: Lane>(
    lanes: Vec<L>,
    discipline: Discipline,
    purchases: &Rc<RefCell<Purchases>>,
    Load { window, duration, .. }: Load,
) -> Outcome<PeerFigures> {
    let start = Instant::now();
    let queues = match discipline {
        Discipline::CardsToLanes => lanes.len(),
        Discipline::OneEach => 1,
    };
    let waiting = Rc::new(PurchaseQueue {
        purchases: Rc::clone(purchases),
        queues: (0..queues).map(|_| Queue::default()).collect(),
        measured: RefCell::default(),
        stop_at: start + duration,
    });
    for _ in 0..window {
        waiting.draw();
    }
    let local = LocalSet::new();
    let running: Vec<_> = lanes
        .into_iter()
        .enumerate()
        .map(|(lane, connection)| {
            let waiting = Rc::clone(&waiting);
            let batch_max = if discipline == Discipline::OneEach { 1 } else { usize::MAX };
            local.spawn_local(waiting.serve(connection, lane % queues, batch_max))
        })
        .collect();
    local.await;
    for lane in running {
        lane.await??;
    }
    let mut measured = waiting.measured.take();
    measured.elapsed = start.elapsed();
    if measured.tally.answers < window as u64 {
        return fail("fewer answers than purchases were in flight");
    }
    Ok(measured)
}

/// The purchases that may go.
struct PurchaseQueue {
    purchases: Rc<RefCell<Purchases>>,
    queues: Vec<Queue>,
    measured: RefCell<PeerFigures>,
    stop_at: Instant,
}

#[derive(Default)]
struct Queue {
    purchases: RefCell<VecDeque<(Instant, Purchase)>>,
    news: Notify,
}

impl PurchaseQueue {
    /// Lets one more purchase go.
    fn draw(&self) {
        let purchase = self.purchases.borrow_mut().next_purchase();
        // The hash is uniform; its upper half leaves the lower one to the hash tables of peers.
        let lane = usize::try_from(purchase.pan_hash >> 32).unwrap_or(0) % self.queues.len();
        self.queues[lane].purchases.borrow_mut().push_back((Instant::now(), purchase));
        self.queues[lane].news.notify_one();
    }

    async fn serve<L: Lane>(
        self: Rc<Self>,
        mut connection: L,
        lane: usize,
        batch_max: usize,
    ) -> Outcome<()> {
        let queue = &self.queues[lane];
        loop {
            let (sent_at, batch) = queue.take(batch_max);
            if batch.is_empty() {
                if Instant::now() >= self.stop_at {
                    // Another waiter of this lane shall see it, too.
                    queue.news.notify_one();
                    return Ok(());
                }
                // Woken by a purchase, or by the end: both are looked at above.
                drop(tokio::time::timeout_at(self.stop_at.into(), queue.news.notified()).await);
                continue;
            }
            let verdicts = connection.authorize(&batch).await?;
            if verdicts.len() != batch.len() {
                return fail(format!("{} answers to {}", verdicts.len(), batch.len()));
            }
            self.answered(&sent_at, &batch, &verdicts);
        }
    }

    fn answered(&self, sent_at: &[Instant], batch: &[Purchase], verdicts: &[Verdict]) {
        let now = Instant::now();
        for ((sent_at, purchase), verdict) in sent_at.iter().zip(batch).zip(verdicts) {
            let mut measured = self.measured.borrow_mut();
            measured.latencies.note(now - *sent_at);
            measured.tally.note(verdict.is_approved(), purchase.amount_minor);
            drop(measured);
            if now < self.stop_at {
                self.draw();
            }
        }
    }
}

impl Queue {
    fn take(&self, batch_max: usize) -> (Vec<Instant>, Vec<Purchase>) {
        let mut waiting = self.purchases.borrow_mut();
        let count = batch_max.min(waiting.len());
        waiting.drain(..count).unzip()
    }
}

#[cfg(test)]
mod tests {
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
        let purchases = Rc::new(RefCell::new(Purchases::new(1_000, 5)));
        let lanes = (0..lanes).map(|_| Approver(Rc::clone(&sizes))).collect();
        let load = Load { window, connections: 0, duration: Duration::from_millis(30) };
        let running = keep_in_flight(lanes, discipline, &purchases, load);
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
