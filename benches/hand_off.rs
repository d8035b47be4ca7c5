//! What does it cost to hand a command to the shard and its answer back?
//!
//! The shard's own loop with commands that change nothing, between a caller and a stand-in for the
//! committer that lets every answer go at once: three threads, three hand-offs, no journal. Beside
//! it the same three hand-offs with nothing around them: a mutex whose vector is swapped for an empty
//! one. One batch is under way at a time, so a batch of one shows what waking costs, and a large one
//! what a command costs.

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use cardswitch_benches::Must;
use cardswitch_benches::meter::{Bench, Pace, print_ratio};
use cardswitch_engine::clock::Clock;
use cardswitch_engine::command::Command;
use cardswitch_engine::command::reply::Reply;
use cardswitch_engine::domain::public_id::IdMint;
use cardswitch_engine::inbox::{InboxSender, inbox};
use cardswitch_engine::journal::{CommitDesk, CommitOutcome, Release};
use cardswitch_engine::limits;
use cardswitch_engine::shard::ShardState;
use cardswitch_engine::shard::run::{ShardWiring, spawn_shard};
use cardswitch_engine::submission::{Envelope, ReplyPort, Submission};
use crossbeam_channel::bounded;

const BATCH_LENS: [usize; 3] = [1, 64, 512];
/// Hand-offs from the caller round to the caller.
const LANES: usize = 3;

pub(crate) fn ask(bench: &mut Bench) {
    bench.run("hand_off", Pace::LONG.seconds(2), |bench| {
        for len in BATCH_LENS {
            let swapped = Relay::start();
            let name = format!("yardstick_swapped/{len}");
            let swapped = bench.measure(&name, len as u64, || swapped.send_round(len));
            let shard = ShardLine::start();
            let name = format!("through_shard/{len}");
            let measured = bench.measure(&name, len as u64, || shard.send_round(len));
            shard.finish();
            let what = format!("a command handed to the shard and back, {len} at a time");
            print_ratio(&what, &measured, &[("swapped vectors", &swapped)]);
        }
    });
}

/// A caller, the shard, and a committer that waits for no disk.
struct ShardLine {
    inbox: InboxSender<Submission>,
    queued: Arc<AtomicUsize>,
    answers: Arc<Lane<Reply>>,
    shard: JoinHandle<()>,
    committer: JoinHandle<()>,
}

impl ShardLine {
    fn start() -> Self {
        let (to_shard, from_caller) = inbox(limits::QUEUED_COMMANDS_MAX);
        let (to_committer, from_shard) = inbox(limits::COMMIT_QUEUE_LEN_MAX);
        let (_spent, spent_payloads) = bounded(limits::COMMIT_QUEUE_LEN_MAX);
        let queued = Arc::new(AtomicUsize::new(0));
        let wiring = ShardWiring {
            inbox: from_caller,
            queued: Arc::clone(&queued),
            committer: CommitDesk::passing_on(to_committer),
            spent_payloads,
            clock: Arc::new(Clock::System),
            ids: IdMint::new([7; 16], 0),
            recall: None,
            meters: Arc::default(),
        };
        let shard = spawn_shard(ShardState::default(), wiring).must("start the shard");
        let committer = std::thread::spawn(move || {
            while let Some(request) = from_shard.take() {
                let releases = request.releases.into_iter();
                releases.for_each(|release| release.release(CommitOutcome::Durable));
            }
        });
        Self { inbox: to_shard, queued, answers: Arc::default(), shard, committer }
    }

    fn send_round(&self, len: usize) -> usize {
        let envelope = |tag| Envelope {
            command: Command::Tick.into(),
            tag,
            port: Arc::clone(&self.answers) as Arc<dyn ReplyPort>,
        };
        self.queued.fetch_add(len, Ordering::AcqRel);
        let envelopes = (0..len as u64).map(envelope).collect();
        self.inbox.send(Submission::now(envelopes)).must("reach the shard");
        let mut received = 0;
        while received < len {
            received += self.answers.take().len();
        }
        received
    }

    fn finish(self) {
        drop(self.inbox);
        self.shard.join().must("end the shard");
        self.committer.join().must("end the committer");
    }
}

impl ReplyPort for Lane<Reply> {
    fn deliver(&self, _tag: u64, reply: Reply) {
        self.held().items.push(reply);
    }

    fn flush(&self) {
        self.news.notify_one();
    }

    fn deliver_all(&self, replies: &mut Vec<(u64, Reply)>) {
        self.put(replies.drain(..).map(|(_, reply)| reply).collect());
    }
}

/// A vector behind a mutex; a taker leaves an empty one.
struct Lane<T> {
    held: Mutex<QueueState<T>>,
    news: Condvar,
}

struct QueueState<T> {
    items: Vec<T>,
    is_closed: bool,
}

impl<T> Default for Lane<T> {
    fn default() -> Self {
        let held = QueueState { items: Vec::new(), is_closed: false };
        Self { held: Mutex::new(held), news: Condvar::new() }
    }
}

impl<T> Lane<T> {
    fn put(&self, mut items: Vec<T>) {
        self.held().items.append(&mut items);
        self.news.notify_one();
    }

    /// Waits for something; nothing where nobody puts anything in any more.
    fn take(&self) -> Vec<T> {
        let waits = |held: &mut QueueState<T>| held.items.is_empty() && !held.is_closed;
        let held = self.news.wait_while(self.held(), waits);
        std::mem::take(&mut held.unwrap_or_else(PoisonError::into_inner).items)
    }

    fn close(&self) {
        self.held().is_closed = true;
        self.news.notify_one();
    }

    fn held(&self) -> MutexGuard<'_, QueueState<T>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The side of a lane that closes it when it goes.
struct LaneEnd<T>(Arc<Lane<T>>);

impl<T> Drop for LaneEnd<T> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Bare hand-offs of tags: the caller's batch comes back to it from the last of two threads.
struct Relay {
    first: LaneEnd<u64>,
    last: Arc<Lane<u64>>,
}

impl Relay {
    fn start() -> Self {
        let first = Arc::<Lane<u64>>::default();
        let mut last = Arc::clone(&first);
        for _ in 1..LANES {
            let (previous, next) = (last, LaneEnd(Arc::default()));
            last = Arc::clone(&next.0);
            // Ends when the lane before it is closed, and closes the one after.
            std::thread::spawn(move || {
                loop {
                    let batch = previous.take();
                    if batch.is_empty() {
                        return;
                    }
                    next.0.put(batch.into_iter().map(black_box).collect());
                }
            });
        }
        Self { first: LaneEnd(first), last }
    }

    fn send_round(&self, len: usize) -> usize {
        self.first.0.put((0..len as u64).collect());
        let mut received = 0;
        while received < len {
            received += self.last.take().len();
        }
        received
    }
}
