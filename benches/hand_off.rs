//! What does it cost to hand a command to the shard and its answer back?
//!
//! The shard's own loop with commands that change nothing, between a caller and a stand-in for the
//! committer that lets every answer go at once: three threads, three hand-offs, no journal. Beside
//! it the same three hand-offs with nothing around them: a mutex whose vector is swapped for an empty
//! one. One batch is under way at a time, so a batch of one shows what waking costs, and a large one
//! what a command costs.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use cardswitch_benches::caller::{Answers, BatchQueue};
use cardswitch_benches::meter::{Bench, SamplingPlan, print_ratio};
use cardswitch_engine::clock::Clock;
use cardswitch_engine::command::Command;
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
    bench.run("hand_off", SamplingPlan::LONG.seconds(2), |bench| {
        for len in BATCH_LENS {
            let relay = Relay::start();
            let name = format!("yardstick_swapped/{len}");
            let swapped = bench.measure(&name, len as u64, || relay.send_round(len));
            relay.finish();
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
    answers: Arc<Answers>,
    shard: JoinHandle<()>,
    committer: JoinHandle<()>,
}

impl ShardLine {
    fn start() -> Self {
        let (to_shard, from_caller) = inbox(limits::QUEUED_COMMANDS_MAX);
        let (to_committer, from_shard) = inbox(limits::COMMIT_QUEUE_LEN_MAX);
        let (_spent, spent_buffers) = bounded(limits::COMMIT_QUEUE_LEN_MAX);
        let queued = Arc::new(AtomicUsize::new(0));
        let wiring = ShardWiring {
            inbox: from_caller,
            queued: Arc::clone(&queued),
            committer: CommitDesk::passing_on(to_committer),
            spent_buffers,
            clock: Arc::new(Clock::System),
            ids: IdMint::new([7; 16], 0),
            recall: None,
            meters: Arc::default(),
        };
        let shard = spawn_shard(ShardState::default(), wiring).expect("start the shard");
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
        self.inbox.send(Submission::now(envelopes)).expect("reach the shard");
        receive(&self.answers, len)
    }

    fn finish(self) {
        drop(self.inbox);
        self.shard.join().expect("end the shard");
        self.committer.join().expect("end the committer");
    }
}

/// The tag that ends a relay.
const END: u64 = u64::MAX;

/// Bare hand-offs of tags: the caller's batch comes back to it from the last of two threads.
struct Relay {
    first: Arc<BatchQueue<u64>>,
    last: Arc<BatchQueue<u64>>,
}

impl Relay {
    fn start() -> Self {
        let first = Arc::<BatchQueue<u64>>::default();
        let mut last = Arc::clone(&first);
        for _ in 1..LANES {
            let (previous, next) = (last, Arc::<BatchQueue<u64>>::default());
            last = Arc::clone(&next);
            std::thread::spawn(move || {
                let mut is_over = false;
                while !is_over {
                    let mut batch = Vec::new();
                    previous.take(&mut batch);
                    is_over = batch.last() == Some(&END);
                    next.put(&mut batch.into_iter().map(black_box).collect());
                }
            });
        }
        Self { first, last }
    }

    fn send_round(&self, len: usize) -> usize {
        self.first.put(&mut (0..len as u64).collect());
        receive(&self.last, len)
    }

    fn finish(&self) {
        self.first.put(&mut vec![END]);
    }
}

fn receive<T>(queue: &BatchQueue<T>, len: usize) -> usize {
    let mut received = 0;
    while received < len {
        let mut batch = Vec::new();
        queue.take(&mut batch);
        received += batch.len();
    }
    received
}
