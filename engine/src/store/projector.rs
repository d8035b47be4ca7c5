//! The projector: one thread that follows the journal and keeps the tables in step with it.
//!
//! It takes what is durable from memory, and from the file where it has fallen behind or just
//! starts. A record after a rest is visible at once; under load a commit gathers the records of
//! some milliseconds. While a reader waits, the projector rests for as long as the last commit
//! took, or a few times that. Commits are made durable, as a checkpoint, by volume and by time. No
//! authorization ever waits for it.
//!
//! A change that its client waits for is written into the tables while the journal writes it, and
//! shown once it is durable.
//!
//! INVARIANT: a failure here stops this thread and shows in its health; it harms no authorization
//! and no row, since the tables stay at their last commit.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;

use super::checkpoint::Checkpoint;
use super::error::StoreError;
use super::project::Projection;
use super::watermark::{WaitPurpose, Watermark};
use super::{CommitKind, PreparedCommit, Store};
use crate::clock::Stopwatch;
use crate::codec::CodecError;
use crate::command::record;
use crate::journal::{
    BatchFeed, ChainPosition, FeedReply, JournalError, JournalFollower, JournalReader, ProvenBatch,
    SealedBatch,
};
use crate::limits;
use crate::steps::{StepOutcome, Steps, spawn};

/// The lag of the tables behind the journal, and the rate of their checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pacing {
    /// The time between two commits while records keep coming.
    pub visible_interval: Duration,
    /// The longest such time while somebody waits to read what is not visible yet.
    pub awaited_interval: Duration,
    /// The longest time between two checkpoints while records come.
    pub checkpoint_interval: Duration,
    /// The most records that are visible without being durable in the tables.
    pub checkpoint_records: u64,
}

impl Default for Pacing {
    fn default() -> Self {
        Self {
            visible_interval: Duration::from_millis(limits::VISIBLE_INTERVAL_MS),
            awaited_interval: Duration::from_millis(limits::AWAITED_INTERVAL_MS),
            checkpoint_interval: Duration::from_millis(limits::CHECKPOINT_INTERVAL_MS),
            checkpoint_records: limits::CHECKPOINT_RECORDS_MAX,
        }
    }
}

/// Options of a projector besides its connections.
pub struct ProjectorOptions {
    /// The partition whose journal it follows.
    pub partition: u16,
    /// The lag of the tables, and the rate of their checkpoints.
    pub pacing: Pacing,
    /// Called on the projector's thread after each durable commit: what it covers may leave the
    /// journal now.
    pub on_checkpoint: Box<dyn FnMut(Checkpoint) + Send>,
}

/// The running projector.
#[derive(Debug)]
pub struct Projector {
    feed: Arc<BatchFeed>,
    thread: Option<JoinHandle<()>>,
}

impl Projector {
    /// Asks it to project what is durable already, make a last checkpoint and end.
    pub fn stop(&self) {
        self.feed.stop();
    }

    /// Waits until it has ended; after `stop`, or once it has failed.
    pub fn join(mut self) {
        if let Some(thread) = self.thread.take() {
            // The thread catches its own panics: there is no other outcome.
            drop(thread.join());
        }
    }
}

/// Whether the tables still follow the journal. Once failed they stand still until a restart.
#[derive(Debug, Default)]
pub struct ProjectionHealth {
    failure: Mutex<Option<String>>,
}

impl ProjectionHealth {
    /// The failure that stopped projection, for the log and the operator; none while it goes on.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }
}

/// Starts the projector on a thread of its own; it goes on where the tables' checkpoint ends.
/// Errors: the system starts no more threads.
pub fn spawn_projector(steps: ProjectorSteps) -> std::io::Result<Projector> {
    let feed = Arc::clone(&steps.feed);
    let name = format!("projector-{}", steps.options.partition);
    Ok(Projector { feed, thread: Some(spawn(name, steps)?) })
}

fn last_words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("the projector broke: {}", text.unwrap_or("no reason given"))
}

/// A failure that stops projection.
#[derive(Debug, thiserror::Error)]
pub enum ProjectionError {
    /// The tables cannot be written.
    #[error("the tables cannot be written: {0}")]
    Store(#[from] StoreError),
    /// The journal cannot be read.
    #[error("the journal cannot be read: {0}")]
    Journal(#[from] JournalError),
    /// This record cannot be read.
    #[error("record {0} cannot be read: {1}")]
    Record(u64, CodecError),
    /// A record stands where another had to follow.
    #[error("record {found} stands where record {expected} had to follow")]
    Sequence {
        /// The record that had to follow.
        expected: u64,
        /// The record that stands there.
        found: u64,
    },
}

/// The time that the next commit gathers while readers wait, in durations of the last commit.
const READ_RESTS: u32 = 3;

/// Records that are visible in the tables but not durable there.
#[derive(Default)]
struct UnsavedRecords {
    since: Option<Stopwatch>,
    records: u64,
}

impl UnsavedRecords {
    fn add(&mut self, records: u64) {
        self.since.get_or_insert_with(Stopwatch::start);
        self.records += records;
    }

    /// The time that a checkpoint may still wait; none while there is nothing to save.
    fn time_left(&self, pacing: &Pacing) -> Option<Duration> {
        self.since.map(|since| pacing.checkpoint_interval.saturating_sub(since.elapsed()))
    }

    /// Whether a checkpoint is due with so many records more.
    fn is_due(&self, pacing: &Pacing, more: u64) -> bool {
        self.records + more >= pacing.checkpoint_records
            || self.time_left(pacing).is_some_and(|left| left.is_zero())
    }
}

/// The projector, as steps. It ends when it was asked to, or has failed.
pub struct ProjectorSteps {
    /// The next batch, if it is in the tables while the journal still writes it. Above the store: redb does
    /// not close before it is dropped.
    prepared: Option<PreparedRun>,
    store: Arc<Store>,
    reader: Arc<dyn JournalReader>,
    watermark: Arc<Watermark>,
    feed: Arc<BatchFeed>,
    options: ProjectorOptions,
    /// Whether and why projection has failed.
    pub health: Arc<ProjectionHealth>,
    /// The last batch that is visible.
    position: ChainPosition,
    unsaved: UnsavedRecords,
    /// The last commit that showed anything.
    timing: Option<CommitTiming>,
    /// The event that ends an idle step.
    end: WaitEnd,
}

/// The end of a commit, and its duration.
#[derive(Clone, Copy)]
struct CommitTiming {
    since: Stopwatch,
    took: Duration,
}

impl CommitTiming {
    /// The time that the next commit may gather: a commit costs some hundred microseconds however
    /// little it shows, and the thread shares its processor with others.
    fn rest(self, pacing: &Pacing, awaiting: Option<WaitPurpose>) -> Duration {
        match awaiting {
            None => pacing.visible_interval,
            Some(WaitPurpose::Read) => pacing.awaited_interval.min(self.took * READ_RESTS),
            Some(WaitPurpose::OwnChange) => pacing.awaited_interval.min(self.took),
        }
    }
}

/// A run of records that is written into the tables, but not seen yet.
struct PreparedRun {
    commit: PreparedCommit,
    records: u64,
    /// The time of the writing.
    took: Duration,
}

/// The end of a wait: so many bytes of batches, or a time.
struct WaitEnd {
    bytes: usize,
    time: Option<Duration>,
}

impl ProjectorSteps {
    /// Goes on where the tables' checkpoint ends.
    /// Errors: the tables cannot be read.
    pub fn new(
        store: Arc<Store>,
        reader: Arc<dyn JournalReader>,
        feed: Arc<BatchFeed>,
        watermark: Arc<Watermark>,
        options: ProjectorOptions,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            position: store.checkpoint()?.position(),
            prepared: None,
            store,
            reader,
            watermark,
            feed,
            options,
            health: Arc::default(),
            unsaved: UnsavedRecords::default(),
            timing: None,
            end: WaitEnd { bytes: 1, time: None },
        })
    }

    /// Asks it to project what is durable already, make a last checkpoint and end.
    pub fn stop(&self) {
        self.feed.stop();
    }

    fn follow(&mut self) -> Result<StepOutcome, ProjectionError> {
        // Asked before looking, so that what became durable before the end is seen.
        let is_stopping = self.feed.is_stopping();
        let position = self.position;
        let may_gather = !is_stopping && self.prepared.is_none();
        if may_gather && let Some(time) = self.time_to_gather() {
            self.end = WaitEnd { bytes: limits::PROJECTION_BYTES_MAX, time: Some(time) };
            return Ok(StepOutcome::Idle);
        }
        match self.feed.take_after(position.number, limits::PROJECTION_BYTES_MAX) {
            FeedReply::Announced(batch) => {
                // One that never became durable.
                self.prepared = None;
                let batch = std::iter::once(Batch::from(&batch));
                self.prepared = Some(self.prepare(batch, CommitKind::Visible)?);
            }
            FeedReply::Batches(batches) => {
                match self.take_prepared(&batches) {
                    Some(prepared) => self.show(prepared)?,
                    None => self.project(batches.iter().map(Batch::from))?,
                }
                self.feed.finish(batches, self.position.last_seq);
            }
            FeedReply::InFile => {
                self.prepared = None;
                let reader = Arc::clone(&self.reader);
                let partition = self.options.partition;
                let mut follower = JournalFollower::after(&*reader, partition, position);
                let batches = follower.read_next(limits::PROJECTION_BYTES_MAX)?;
                assert!(!batches.is_empty(), "what is durable can be read");
                self.project(batches.iter().map(Batch::from))?;
                self.feed.finish(Vec::new(), self.position.last_seq);
            }
            FeedReply::Nothing => {
                let is_due = is_stopping || self.unsaved.is_due(&self.options.pacing, 0);
                if self.unsaved.since.is_some() && is_due {
                    self.prepared = None;
                    let saved = self.prepare(std::iter::empty(), CommitKind::Checkpoint)?;
                    self.show(saved)?;
                } else if is_stopping {
                    return Ok(StepOutcome::Ended);
                } else {
                    let time = self.unsaved.time_left(&self.options.pacing);
                    self.end = WaitEnd { bytes: 1, time };
                    return Ok(StepOutcome::Idle);
                }
            }
        }
        Ok(StepOutcome::Worked)
    }

    /// The time that the next commit may still gather; none if it is large already or follows a
    /// rest.
    fn time_to_gather(&self) -> Option<Duration> {
        let timing = self.timing?;
        if !self.feed.is_gathering_after(self.position.number, limits::PROJECTION_BYTES_MAX) {
            return None;
        }
        let rest = timing.rest(&self.options.pacing, self.watermark.awaiting());
        let left = rest.saturating_sub(timing.since.elapsed());
        (!left.is_zero()).then_some(left)
    }

    /// Takes what is prepared, if it is all that became durable; else that is dropped.
    fn take_prepared(&mut self, durable: &[SealedBatch]) -> Option<PreparedRun> {
        let prepared = self.prepared.take()?;
        let end = prepared.commit.checkpoint.position();
        matches!(durable, [batch] if batch.position() == end).then_some(prepared)
    }

    /// Makes the next batches visible.
    fn project<'a>(
        &mut self,
        batches: impl Iterator<Item = Batch<'a>> + Clone,
    ) -> Result<(), ProjectionError> {
        let prepared = self.prepare(batches, CommitKind::Visible)?;
        Ok(self.show(prepared)?)
    }

    /// Writes the next batches into the tables, seen by nobody yet; as a checkpoint, too, where one is due.
    fn prepare<'a>(
        &self,
        batches: impl Iterator<Item = Batch<'a>> + Clone,
        kind: CommitKind,
    ) -> Result<PreparedRun, ProjectionError> {
        let begun = Stopwatch::start();
        let end = batches.clone().last().map_or(self.position, |last| last.position);
        let projection = project_batches(batches, self.position.last_seq)?;
        let records = projection.records;
        let is_due = self.unsaved.is_due(&self.options.pacing, records);
        let kind = if is_due { CommitKind::Checkpoint } else { kind };
        let commit = self.store.prepare(&projection, end, kind)?;
        Ok(PreparedRun { commit, records, took: begun.elapsed() })
    }

    /// Makes what is prepared visible, now that it is durable in the journal.
    fn show(&mut self, prepared: PreparedRun) -> Result<(), StoreError> {
        let begun = Stopwatch::start();
        let PreparedRun { commit, records, took } = prepared;
        let (kind, changes_access) = (commit.kind, commit.changes_access);
        let checkpoint = self.store.show(commit)?;
        if changes_access {
            self.watermark.tell_access_change(checkpoint.applied_seq);
        }
        self.watermark.publish(checkpoint.applied_seq);
        self.position = checkpoint.position();
        if records > 0 {
            let took = took + begun.elapsed();
            self.timing = Some(CommitTiming { since: Stopwatch::start(), took });
        }
        if kind == CommitKind::Checkpoint {
            self.unsaved = UnsavedRecords::default();
            (self.options.on_checkpoint)(checkpoint);
        } else {
            self.unsaved.add(records);
        }
        Ok(())
    }
}

impl Steps for ProjectorSteps {
    /// Projects what has gathered, or saves it. A failure ends it and shows in its health.
    fn step(&mut self) -> StepOutcome {
        let failure = match catch_unwind(AssertUnwindSafe(|| self.follow())) {
            Ok(Ok(StepOutcome::Ended)) => None,
            Ok(Ok(outcome)) => return outcome,
            Ok(Err(error)) => Some(error.to_string()),
            Err(panic) => Some(last_words(&*panic)),
        };
        self.prepared = None;
        *self.health.failure.lock() = failure;
        self.watermark.close();
        StepOutcome::Ended
    }

    fn wait(&mut self) {
        self.feed.wait(self.end.bytes, self.end.time);
    }
}

crate::opaque!(ProjectorSteps);

/// A batch of records, wherever it comes from.
#[derive(Clone, Copy)]
struct Batch<'a> {
    payload: &'a [u8],
    position: ChainPosition,
}

impl<'a> From<&'a SealedBatch> for Batch<'a> {
    fn from(batch: &'a SealedBatch) -> Self {
        Self { payload: batch.payload(), position: batch.position() }
    }
}

impl<'a> From<&'a ProvenBatch> for Batch<'a> {
    fn from(batch: &'a ProvenBatch) -> Self {
        Self { payload: batch.payload(), position: batch.position() }
    }
}

/// Brings the tables up to the end of the journal, without a thread, for callers that only read.
/// Errors: as projection itself, in words.
pub fn catch_up(
    store: &Store,
    reader: impl JournalReader,
    partition: u16,
) -> Result<(), ProjectionError> {
    let mut position = store.checkpoint()?.position();
    let mut follower = JournalFollower::after(reader, partition, position);
    loop {
        let batches = follower.read_next(limits::PROJECTION_BYTES_MAX)?;
        let Some(last) = batches.last() else { return Ok(()) };
        let projection = project_batches(batches.iter().map(Batch::from), position.last_seq)?;
        position = last.position();
        store.commit(&projection, position, CommitKind::Visible)?;
    }
}

/// Gathers the records of batches, which follow record `last_seq` without a gap.
fn project_batches<'a>(
    batches: impl Iterator<Item = Batch<'a>> + Clone,
    mut last_seq: u64,
) -> Result<Projection, ProjectionError> {
    let mut projection = Projection::default();
    projection.reserve(batches.clone().map(|batch| batch.payload.len()).sum());
    for batch in batches {
        for record in record::record_views(batch.payload) {
            let expected = last_seq + 1;
            let unreadable = |error| ProjectionError::Record(expected, error);
            let record = record.map_err(unreadable)?;
            if record.seq.0 != expected {
                return Err(ProjectionError::Sequence { expected, found: record.seq.0 });
            }
            last_seq = expected;
            projection.project(record).map_err(unreadable)?;
        }
    }
    Ok(projection)
}
