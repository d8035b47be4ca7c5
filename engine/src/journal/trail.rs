//! The log of a node that leads, written behind the window by a part of its own.
//!
//! A reply waits for the window only, so batches gather here while the log syncs: one sync writes all of
//! them. Followers of the log get them afterwards, since a checkpoint must not name a batch that the
//! log lacks.
//!
//! INVARIANT: the log is a prefix of the chain in the window, and the batches here continue it.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::chain::SealedBatch;
use super::committer::guard;
use super::limits::{TRAIL_BATCHES_MAX, TRAIL_BYTES_MAX, TRAIL_PAUSE, TRAIL_SYNC_BYTES};
use super::{BatchFeed, Journal, JournalHealth, LogJournal, TrimControl};
use crate::clock::Stopwatch;
use crate::inbox::Doorbell;
use crate::steps::{StepOutcome, Steps};

/// Hands batches from the committer to the log behind it.
#[derive(Debug)]
pub struct Trail {
    state: Mutex<TrailState>,
    /// Wakes the part that writes the log.
    writer: Doorbell,
    /// Wakes the committer, which may wait for room.
    committer: Arc<Doorbell>,
}

#[derive(Debug, Default)]
struct TrailState {
    batches: Vec<SealedBatch>,
    /// The batches that the log lacks, those being written included.
    lacking: BatchSum,
    /// Since when the log has written nothing of these; none where it lacks nothing.
    stalled: Option<Stopwatch>,
    /// Buffers of batches that are dealt with.
    spent: Vec<Vec<u8>>,
    /// The log has all there was, so the first batch wakes it; else it writes, or lets more gather.
    is_waiting: bool,
    is_closed: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct BatchSum {
    batches: usize,
    bytes: usize,
}

impl BatchSum {
    fn of(batches: &[SealedBatch]) -> Self {
        let bytes = batches.iter().map(|batch| batch.bytes.len()).sum();
        Self { batches: batches.len(), bytes }
    }
}

impl TrailState {
    /// Whether the gathered batches are not to wait for more.
    const fn is_due(&self) -> bool {
        self.is_closed || self.lacking.bytes >= TRAIL_SYNC_BYTES
    }

    const fn has_room(&self) -> bool {
        self.lacking.batches < TRAIL_BATCHES_MAX && self.lacking.bytes < TRAIL_BYTES_MAX
    }
}

impl Trail {
    /// A trail behind the committer that this bell wakes.
    pub(crate) fn behind(committer: &Arc<Doorbell>) -> Self {
        let committer = Arc::clone(committer);
        Self { state: Mutex::default(), writer: Doorbell::default(), committer }
    }

    /// Puts batches in that the window has, oldest first, and takes buffers out for new ones. There are none where a
    /// commit changed nothing.
    pub(super) fn offer(&self, batches: &mut Vec<SealedBatch>, spare_buffers: &mut Vec<Vec<u8>>) {
        if batches.is_empty() {
            return;
        }
        let BatchSum { batches: len, bytes } = BatchSum::of(batches);
        let mut state = self.state.lock();
        let was_due = state.is_due();
        state.lacking.batches += len;
        state.lacking.bytes += bytes;
        state.stalled.get_or_insert_with(Stopwatch::start);
        state.batches.append(batches);
        spare_buffers.append(&mut state.spent);
        let wakes = std::mem::take(&mut state.is_waiting) || (state.is_due() && !was_due);
        drop(state);
        if wakes {
            self.writer.ring();
        }
    }

    /// Whether the log is close enough for more to be committed.
    pub(super) fn has_room(&self) -> bool {
        self.state.lock().has_room()
    }

    /// For how long the log has written nothing of what it lacks.
    pub(crate) fn stall(&self) -> Duration {
        self.state.lock().stalled.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Lets the log end once it has everything.
    pub(super) fn close(&self) {
        self.state.lock().is_closed = true;
        self.writer.ring();
    }

    fn is_due(&self) -> bool {
        self.state.lock().is_due()
    }

    fn is_waiting(&self) -> bool {
        self.state.lock().is_waiting
    }

    /// Takes the gathered batches. Returns whether more may come.
    fn take(&self, batches: &mut Vec<SealedBatch>) -> bool {
        let mut state = self.state.lock();
        state.is_waiting = state.batches.is_empty();
        std::mem::swap(&mut state.batches, batches);
        !state.is_closed
    }

    /// Makes room once batches are dealt with.
    fn finish(&self, written: BatchSum, spent: &mut Vec<Vec<u8>>) {
        let mut state = self.state.lock();
        let had_room = state.has_room();
        state.lacking.batches -= written.batches;
        state.lacking.bytes -= written.bytes;
        state.stalled = (state.lacking.batches > 0).then(Stopwatch::start);
        state.spent.append(spent);
        drop(state);
        if !had_room {
            self.committer.ring();
        }
    }
}

/// The connections of the log behind a window.
#[derive(Debug)]
pub(crate) struct TrailWiring {
    /// The health to which a failure is reported.
    pub(crate) health: Arc<JournalHealth>,
    /// The requests to drop old batches.
    pub(crate) trim: Arc<TrimControl>,
    /// The destination of written batches.
    pub(crate) feed: Arc<BatchFeed>,
}

/// The log behind a window, as steps.
pub struct TrailSteps {
    trail: Arc<Trail>,
    log: LogJournal,
    wiring: TrailWiring,
    batches: Vec<SealedBatch>,
    spent: Vec<Vec<u8>>,
    /// It has just written: more gathers before it writes again.
    owes_pause: bool,
}

impl TrailSteps {
    pub(crate) fn new(trail: Arc<Trail>, log: LogJournal, wiring: TrailWiring) -> Self {
        let (batches, spent) = (Vec::new(), Vec::new());
        Self { trail, log, wiring, batches, spent, owes_pause: false }
    }

    fn write(&mut self) {
        let Self { trail, log, wiring, batches, spent, .. } = self;
        let written = BatchSum::of(batches);
        if !wiring.health.is_failed() {
            match guard(|| log.append(batches)) {
                Ok(()) => wiring.feed.offer(batches, spent),
                Err(error) => wiring.health.fail(error.to_string()),
            }
        }
        batches.clear();
        trail.finish(written, spent);
    }

    /// Does one step of the log's upkeep; returns whether there was one.
    fn keep_up(&mut self) -> bool {
        let Self { log, wiring, .. } = self;
        let before = wiring.trim.requested();
        let is_due = !wiring.health.is_failed() && log.needs_upkeep(before);
        if is_due && let Err(error) = guard(|| log.keep_up(before)) {
            wiring.health.fail(error.to_string());
        }
        is_due
    }
}

impl Steps for TrailSteps {
    fn step(&mut self) -> StepOutcome {
        if std::mem::take(&mut self.owes_pause) && !self.trail.is_due() {
            return StepOutcome::Idle;
        }
        let may_come = self.trail.take(&mut self.batches);
        if !self.batches.is_empty() {
            self.write();
            self.owes_pause = true;
            // Every time: under load there is no idle moment.
            self.keep_up();
            return StepOutcome::Worked;
        }
        match (self.keep_up(), may_come) {
            (true, _) => StepOutcome::Worked,
            (false, true) => StepOutcome::Idle,
            (false, false) => StepOutcome::Ended,
        }
    }

    fn wait(&mut self) {
        self.trail.writer.wait((!self.trail.is_waiting()).then_some(TRAIL_PAUSE));
    }
}

crate::opaque!(TrailSteps);

#[cfg(test)]
mod tests {
    use super::super::chain::{BatchBuilder, ChainPosition};
    use super::super::log::Expectation;
    use super::super::testing::{DiskFaultPlan, FaultyDisk};
    use super::super::{BatchNumber, DirectoryId, FeedReply, JournalIdentity, LogRetention};
    use super::*;
    use crate::inbox::inbox;

    const EXPECTED: Expectation = Expectation {
        identity: JournalIdentity { directory_id: DirectoryId([3; 16]), partition: 0 },
        checkpoint: Some(ChainPosition::GENESIS),
    };
    const RETENTION: LogRetention = LogRetention { keep_bytes: 0, segment_bytes: 16 * 4096 };

    /// A trail without a committer, which `tip` stands for.
    struct TrailHarness {
        disk: FaultyDisk,
        trail: Arc<Trail>,
        steps: TrailSteps,
        feed: Arc<BatchFeed>,
        health: Arc<JournalHealth>,
        tip: ChainPosition,
    }

    impl TrailHarness {
        fn start() -> Self {
            let disk = FaultyDisk::default();
            let log = LogJournal::open_on(Arc::new(disk.clone()), &EXPECTED, RETENTION).unwrap();
            let (_, committer) = inbox::<()>(1);
            let trail = Arc::new(Trail::behind(&committer.bell));
            let (feed, health) = (Arc::<BatchFeed>::default(), Arc::<JournalHealth>::default());
            let wiring = TrailWiring {
                health: Arc::clone(&health),
                trim: Arc::default(),
                feed: Arc::clone(&feed),
            };
            let tip = log.tip();
            let mut steps = TrailSteps::new(Arc::clone(&trail), log, wiring);
            while steps.keep_up() {}
            Self { disk, trail, steps, feed, health, tip }
        }

        fn offer(&mut self, bytes: usize) {
            let mut builder = BatchBuilder::start(Vec::new());
            builder.push(1, &vec![7; bytes]);
            let batch = builder.seal(0, &self.tip);
            self.tip = batch.position();
            self.trail.offer(&mut vec![batch], &mut Vec::new());
        }

        fn fed_after(&self, number: u64) -> usize {
            match self.feed.take_after(BatchNumber(number), usize::MAX) {
                FeedReply::Batches(batches) => batches.len(),
                _ => 0,
            }
        }
    }

    #[test]
    fn the_first_batch_is_written_at_once_and_others_gather_for_one_sync() {
        let mut trailing = TrailHarness::start();
        let first = trailing.tip.number.0;
        trailing.offer(8);
        assert_eq!(trailing.fed_after(first), 0, "what follows the log waits for it");
        assert_eq!(trailing.steps.step(), StepOutcome::Worked);
        assert_eq!(trailing.fed_after(first), 1);
        trailing.offer(8);
        assert_eq!(trailing.steps.step(), StepOutcome::Idle, "it pauses");
        assert!(!trailing.trail.is_waiting(), "no batch cuts the pause short");
        trailing.offer(8);
        let syncs = trailing.disk.syncs();
        assert_eq!(trailing.steps.step(), StepOutcome::Worked);
        assert_eq!(trailing.fed_after(first + 1), 2);
        assert_eq!(trailing.disk.syncs(), syncs + 1);
        trailing.offer(TRAIL_SYNC_BYTES);
        assert_eq!(trailing.steps.step(), StepOutcome::Worked, "so much does not wait");
    }

    #[test]
    fn a_log_that_lacks_too_much_has_no_room_until_it_is_written() {
        let mut trailing = TrailHarness::start();
        for _ in 0..TRAIL_BATCHES_MAX {
            assert!(trailing.trail.has_room());
            trailing.offer(8);
        }
        assert!(!trailing.trail.has_room());
        assert_eq!(trailing.steps.step(), StepOutcome::Worked);
        assert!(trailing.trail.has_room());
    }

    /// Once, a leader whose disk hung led for ever, and answered nothing once its log lacked too much.
    #[test]
    fn a_log_that_writes_nothing_is_stalled() {
        let mut trailing = TrailHarness::start();
        assert_eq!(trailing.trail.stall(), Duration::ZERO, "it lacks nothing");
        trailing.offer(8);
        std::thread::sleep(Duration::from_millis(20));
        trailing.offer(8);
        assert!(trailing.trail.stall() >= Duration::from_millis(20), "since the first of them");
        trailing.steps.step();
        assert_eq!(trailing.trail.stall(), Duration::ZERO);
    }

    /// Once, a leader that repeated an answer and then was asked nothing gave the lead away after 10 s.
    #[test]
    fn a_commit_that_changed_nothing_stalls_no_log() {
        let trailing = TrailHarness::start();
        trailing.trail.offer(&mut Vec::new(), &mut Vec::new());
        std::thread::sleep(Duration::from_millis(1));
        assert_eq!(trailing.trail.stall(), Duration::ZERO);
    }

    #[test]
    fn what_is_there_is_written_before_the_end() {
        let mut trailing = TrailHarness::start();
        trailing.offer(8);
        trailing.steps.step();
        trailing.offer(8);
        trailing.trail.close();
        while trailing.steps.step() != StepOutcome::Ended {}
        assert_eq!(trailing.steps.log.tip(), trailing.tip);
    }

    #[test]
    fn a_failure_ends_all_writing_and_keeps_nobody_waiting() {
        let mut trailing = TrailHarness::start();
        trailing.disk.plan(DiskFaultPlan { fail_sync: Some(1), ..DiskFaultPlan::default() });
        for _ in 0..TRAIL_BATCHES_MAX {
            trailing.offer(8);
        }
        trailing.steps.step();
        assert!(trailing.health.is_failed());
        assert!(trailing.trail.has_room());
        assert_eq!(trailing.fed_after(0), 0);
        trailing.trail.close();
        while trailing.steps.step() != StepOutcome::Ended {}
    }
}
