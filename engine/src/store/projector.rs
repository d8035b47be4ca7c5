//! The projector: one thread that reads the journal and keeps the tables in step with it.
//!
//! It sleeps until something is durable, takes what there is (bounded bytes) and commits it: at
//! once visible, and durable as a checkpoint by time and by volume. Nobody who authorizes ever
//! waits for it.
//!
//! INVARIANT: a failure here stops this thread and shows in its health; it harms no authorization
//! and no row, since the tables stay at their last commit.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::checkpoint::Checkpoint;
use super::error::StoreError;
use super::project::Projection;
use super::watermark::Watermark;
use super::{CommitKind, Store};
use crate::clock::Stopwatch;
use crate::codec::CodecError;
use crate::command::record;
use crate::journal::{
    ChainPosition, DurablePosition, JournalError, JournalFollower, JournalReader, ProvenBatch,
};
use crate::limits;

/// What a projector is told besides its connections.
pub struct ProjectorOptions {
    /// The partition whose journal it follows.
    pub partition: u16,
    /// Called on the projector's thread after each durable commit: what it covers may leave the
    /// journal now.
    pub on_checkpoint: Box<dyn FnMut(Checkpoint) + Send>,
}

/// The running projector.
#[derive(Debug)]
pub struct Projector {
    signal: Arc<Signal>,
    health: Arc<ProjectionHealth>,
    thread: Option<JoinHandle<()>>,
}

impl Projector {
    /// Whether and why projection has failed.
    #[must_use]
    pub const fn health(&self) -> &Arc<ProjectionHealth> {
        &self.health
    }

    /// Asks it to project what is durable already, make a last checkpoint and end.
    pub fn stop(&self) {
        self.signal.change(|state| state.is_stopping = true);
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
    /// Why projection stopped, for the log and the operator; none while it goes on.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }
}

/// Starts the projector on a thread of its own; it goes on where the tables' checkpoint ends.
/// Errors: the system starts no more threads.
pub fn spawn_projector(
    store: Arc<Store>,
    reader: Arc<dyn JournalReader>,
    durable: &DurablePosition,
    watermark: Arc<Watermark>,
    options: ProjectorOptions,
) -> std::io::Result<Projector> {
    let signal = Arc::new(Signal::default());
    let health = Arc::new(ProjectionHealth::default());
    let for_durable = Arc::clone(&signal);
    durable.on_durable(Box::new(move |_| for_durable.change(|state| state.has_news = true)));
    let name = format!("projector-{}", options.partition);
    let run = Run {
        store,
        watermark: Arc::clone(&watermark),
        signal: Arc::clone(&signal),
        options,
        unsaved: Unsaved::default(),
    };
    let failures = Arc::clone(&health);
    let thread = std::thread::Builder::new().name(name).spawn(move || {
        let failure = match catch_unwind(AssertUnwindSafe(|| run.run(&*reader))) {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(panic) => Some(last_words(&*panic)),
        };
        *failures.failure.lock() = failure;
        watermark.close();
    })?;
    Ok(Projector { signal, health, thread: Some(thread) })
}

fn last_words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("the projector broke: {}", text.unwrap_or("no reason given"))
}

/// Why projection stopped.
#[derive(Debug)]
pub enum ProjectionError {
    /// The tables cannot be written.
    Store(StoreError),
    /// The journal cannot be read.
    Journal(JournalError),
    /// This record cannot be read.
    Record(u64, CodecError),
    /// A record stands where another had to follow.
    Sequence {
        /// The record that had to follow.
        expected: u64,
        /// The record that stands there.
        found: u64,
    },
}

impl std::error::Error for ProjectionError {}

impl std::fmt::Display for ProjectionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Store(error) => write!(f, "the tables cannot be written: {error}"),
            Self::Journal(error) => write!(f, "the journal cannot be read: {error}"),
            Self::Record(seq, error) => write!(f, "record {seq} cannot be read: {error}"),
            Self::Sequence { expected, found } => {
                write!(f, "record {found} stands where record {expected} had to follow")
            }
        }
    }
}

impl From<StoreError> for ProjectionError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<JournalError> for ProjectionError {
    fn from(error: JournalError) -> Self {
        Self::Journal(error)
    }
}

/// What is visible in the tables but not durable there.
#[derive(Default)]
struct Unsaved {
    since: Option<Stopwatch>,
    records: u64,
}

impl Unsaved {
    fn add(&mut self, records: u64) {
        self.since.get_or_insert_with(Stopwatch::start);
        self.records += records;
    }

    /// How long a checkpoint may still wait; none while there is nothing to save.
    fn time_left(&self) -> Option<Duration> {
        let interval = Duration::from_millis(limits::CHECKPOINT_INTERVAL_MS);
        self.since.map(|since| interval.saturating_sub(since.elapsed()))
    }

    fn is_due(&self) -> bool {
        self.records >= limits::CHECKPOINT_RECORDS_MAX
            || self.time_left().is_some_and(|left| left.is_zero())
    }
}

struct Run {
    store: Arc<Store>,
    watermark: Arc<Watermark>,
    signal: Arc<Signal>,
    options: ProjectorOptions,
    unsaved: Unsaved,
}

impl Run {
    fn run(mut self, reader: &dyn JournalReader) -> Result<(), ProjectionError> {
        let mut position = self.store.checkpoint()?.position();
        let mut follower = JournalFollower::after(reader, self.options.partition, position);
        loop {
            // Taken before reading, so that what becomes durable meanwhile is news again.
            let is_stopping = self.signal.take_news();
            let batches = follower.read_next(limits::PROJECTION_READ_BYTES_MAX)?;
            if let Some(last) = batches.last() {
                let projection = project_batches(&batches, position.last_seq)?;
                position = last.position();
                self.unsaved.add(projection.records());
                let kind = if self.unsaved.is_due() {
                    CommitKind::Checkpoint
                } else {
                    CommitKind::Visible
                };
                self.commit(&projection, position, kind)?;
            } else if self.unsaved.since.is_some() && (is_stopping || self.unsaved.is_due()) {
                self.commit(&Projection::default(), position, CommitKind::Checkpoint)?;
            } else if is_stopping {
                return Ok(());
            } else {
                self.signal.wait(self.unsaved.time_left());
            }
        }
    }

    fn commit(
        &mut self,
        projection: &Projection,
        position: ChainPosition,
        kind: CommitKind,
    ) -> Result<(), StoreError> {
        let checkpoint = self.store.commit(projection, position, kind)?;
        self.watermark.publish(checkpoint.applied_seq);
        if kind == CommitKind::Checkpoint {
            self.unsaved = Unsaved::default();
            (self.options.on_checkpoint)(checkpoint);
        }
        Ok(())
    }
}

/// Brings the tables up to the end of the journal, without a thread: for those who only read.
/// Errors: as projection itself, in words.
pub fn catch_up(
    store: &Store,
    reader: impl JournalReader,
    partition: u16,
) -> Result<(), ProjectionError> {
    let mut position = store.checkpoint()?.position();
    let mut follower = JournalFollower::after(reader, partition, position);
    loop {
        let batches = follower.read_next(limits::PROJECTION_READ_BYTES_MAX)?;
        let Some(last) = batches.last() else { return Ok(()) };
        let projection = project_batches(&batches, position.last_seq)?;
        position = last.position();
        store.commit(&projection, position, CommitKind::Visible)?;
    }
}

/// Gathers the records of proven batches, which follow record `last_seq` without a gap.
fn project_batches(
    batches: &[ProvenBatch],
    mut last_seq: u64,
) -> Result<Projection, ProjectionError> {
    let mut projection = Projection::default();
    for batch in batches {
        for record in record::records(batch.payload()) {
            let expected = last_seq + 1;
            let record = record.map_err(|error| ProjectionError::Record(expected, error))?;
            if record.seq.0 != expected {
                return Err(ProjectionError::Sequence { expected, found: record.seq.0 });
            }
            last_seq = expected;
            projection.project(record);
        }
    }
    Ok(projection)
}

/// Wakes the projector.
#[derive(Debug, Default)]
struct Signal {
    state: Mutex<SignalState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct SignalState {
    has_news: bool,
    is_stopping: bool,
}

impl Signal {
    fn change(&self, change: impl FnOnce(&mut SignalState)) {
        change(&mut self.state.lock());
        self.changed.notify_one();
    }

    /// Forgets the news and returns whether to stop.
    fn take_news(&self) -> bool {
        let mut state = self.state.lock();
        state.has_news = false;
        state.is_stopping
    }

    /// Waits for news, for `stop` or until the time is up.
    fn wait(&self, timeout: Option<Duration>) {
        let mut state = self.state.lock();
        let waits = |state: &mut SignalState| !state.has_news && !state.is_stopping;
        match timeout {
            Some(timeout) => {
                self.changed.wait_while_for(&mut state, waits, timeout);
            }
            None => self.changed.wait_while(&mut state, waits),
        }
    }
}
