//! An engine: its handle for edges, its opening and its end.

mod standby;
mod wiring;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};

pub use self::standby::{Standby, TakeOver, leave_chain};
pub use self::wiring::{DecidingParts, EngineParts, FollowingParts};
use self::wiring::{RecoveredEngine, Threads};
use crate::backup::{CopyBeside, CopyError, CopySummary, check_room_for_running, copy_running};
use crate::clock::Clock;
use crate::codec::CodecError;
use crate::data_directory::DataDirectory;
use crate::disk::{Disk, at_path};
use crate::domain::ids::{RecordSeq, Timestamp};
use crate::domain::public_id::IdMint;
use crate::journal::limits::CommitLimits;
use crate::journal::log::{Expectation, open_read_only};
use crate::journal::{
    BatchFeed, ChainPosition, DirectoryId, DurablePosition, JournalError, JournalHealth,
    JournalIdentity, JournalNote, LogJournal, LogReader, LogRetention, Trail, TrimControl,
};
use crate::limits;
use crate::meters::{HistogramSnapshot, Meters};
use crate::recovery_progress::RecoveryProgress;
use crate::shard::CacheLimits;
use crate::shard::desk::ShardDesk;
use crate::store::overlay::SharedBackend;
use crate::store::{Pacing, ProjectionHealth, Store, StoreError, Watermark, io_failure};
use crate::submission::{Envelope, Submission, SubmitError};

/// The partition of the one shard.
pub const PARTITION: u16 = 0;

/// How much of the journal is kept beyond what recovery needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    /// Everything, so that the whole history can be proven again.
    Forever,
    /// Only what recovery needs.
    Recovery,
    /// As much as keeps the file within so many bytes, but never less than recovery needs.
    Bytes(u64),
}

impl Default for Retention {
    fn default() -> Self {
        Self::Bytes(limits::JOURNAL_BYTES_DEFAULT)
    }
}

impl Retention {
    fn of_log(self) -> LogRetention {
        match self {
            Self::Forever => LogRetention::of_bytes(u64::MAX),
            Self::Recovery => LogRetention::for_recovery(),
            Self::Bytes(bytes) => LogRetention::of_bytes(bytes),
        }
    }
}

/// How an engine is opened.
pub struct EngineOptions {
    /// The directory of its files.
    pub directory: DataDirectory,
    /// The key of public ids that carry sequence numbers.
    pub id_key: [u8; 16],
    /// The time.
    pub clock: Clock,
    /// How much of the journal is kept.
    pub retention: Retention,
    /// How closely the query tables follow.
    pub pacing: Pacing,
    /// How much of the past the shard keeps in memory.
    pub caches: CacheLimits,
    /// How much goes into a batch, and how much the shard commits itself.
    pub commits: CommitLimits,
}

// Shows no key.
crate::opaque!(EngineOptions);

/// The storage that stands in for the files of a directory.
#[derive(Clone, Debug)]
pub struct EngineStorage {
    /// For `store.redb`.
    pub store: SharedBackend,
    /// The pages of `store.redb` that are kept in memory. Units: bytes.
    pub cache_bytes: usize,
    /// For the directory `journal`.
    pub journal: Arc<dyn Disk>,
}

/// Why an engine cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The journal.
    #[error("journal: {0}")]
    Journal(#[from] JournalError),
    /// The query tables.
    #[error("query tables: {0}")]
    Store(#[from] StoreError),
    /// The query tables stand still: only opening the directory again helps.
    #[error("{0}")]
    Tables(String),
    /// A record in the journal.
    #[error("journal: a record in batch {batch}: {source}")]
    Record {
        /// The batch it is in.
        batch: u64,
        /// The fault in the record.
        source: CodecError,
    },
    /// The system starts no more threads.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] std::io::Error),
}

/// How far the query tables are behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProjectionLag {
    /// The records that are durable and that reads do not see yet.
    pub records: u64,
    /// For how long the oldest of them has been durable, to a millisecond or so.
    pub age: Duration,
}

/// A running engine.
#[derive(Debug)]
pub struct Engine {
    /// None once it is shut down, and for readers.
    desk: RwLock<Option<ShardDesk>>,
    queued: Arc<AtomicUsize>,
    threads: Mutex<Option<Threads>>,
    health: Arc<JournalHealth>,
    durable: Arc<DurablePosition>,
    /// How far the query tables have come.
    pub watermark: Arc<Watermark>,
    projection: Arc<ProjectionHealth>,
    feed: Arc<BatchFeed>,
    /// The counters and times of the engine itself.
    pub meters: Arc<Meters>,
    /// Notes for the operator about how the journal was opened.
    pub journal_notes: Vec<JournalNote>,
    /// None once it is shut down: a reader keeps the files open.
    journal: Mutex<Option<LogReader>>,
    trim: Arc<TrimControl>,
    /// There where it commits to a window.
    trail: Option<Arc<Trail>>,
    /// The query tables.
    pub store: Arc<Store>,
    /// The time.
    pub clock: Arc<Clock>,
    /// Opens the ids that carry sequence numbers.
    pub ids: IdMint,
    /// The data directory.
    pub directory: Arc<DataDirectory>,
    /// Whether another node can lead by now: this node then has all durable records only if a
    /// command has been answered since.
    pub is_replicated: bool,
    /// The instant of the newest record when this engine began to decide. Timers that were due by then
    /// run first, at instants soon after it, which may be long ago.
    pub decides_after: Timestamp,
}

impl Engine {
    /// Opens the engine of a data directory: recovers the state, then starts the threads.
    /// Errors: a file that is damaged, foreign, newer or in use; nothing is skipped in silence.
    pub fn open(options: EngineOptions) -> Result<Self, OpenError> {
        Self::open_watched(options, &RecoveryProgress::default())
    }

    /// As `open`, telling how far it has come.
    /// Errors: as `open`.
    pub fn open_watched(
        options: EngineOptions,
        progress: &RecoveryProgress,
    ) -> Result<Self, OpenError> {
        let store = open_store(&options.directory)?;
        let journal_path = options.directory.journal_path();
        let retention = options.retention.of_log();
        let open = |expected: &Expectation| LogJournal::open(&journal_path, expected, retention);
        Self::assemble(options, store, open, progress)?.start()
    }

    /// Opens the engine on other storage than the directory's files, which tests make fail.
    /// Errors: as `open`.
    pub fn open_on(options: EngineOptions, storage: EngineStorage) -> Result<Self, OpenError> {
        Self::open_parts(options, storage)?.start()
    }

    /// As `open_on`, without threads: the caller drives the parts.
    /// Errors: as `open`.
    pub fn open_parts(
        options: EngineOptions,
        storage: EngineStorage,
    ) -> Result<AssembledEngine, OpenError> {
        let EngineStorage { store, cache_bytes, journal } = storage;
        let retention = options.retention.of_log();
        let store = Store::open_with_cache(store, options.directory.id(), cache_bytes)?;
        let open = |expected: &Expectation| LogJournal::open_on(journal, expected, retention);
        Self::assemble(options, store, open, &RecoveryProgress::default())
    }

    fn assemble(
        options: EngineOptions,
        store: Store,
        open_journal: impl FnOnce(&Expectation) -> Result<LogJournal, JournalError>,
        progress: &RecoveryProgress,
    ) -> Result<AssembledEngine, OpenError> {
        let (recovered, following) = RecoveredEngine::open(options, store, open_journal, progress)?;
        let (engine, deciding) = recovered.lead();
        Ok(AssembledEngine { engine, parts: EngineParts { deciding, following } })
    }

    /// Hands commands to the shard, all or none. Their answers come to their ports, perhaps on this
    /// thread before it returns: where little goes on, the caller decides and commits itself.
    /// Errors: `Overloaded` where too many wait already; `TablesStandStill` for changes; `Stopped`. No
    /// command was taken then.
    pub fn submit(&self, envelopes: Vec<Envelope>) -> Result<(), SubmitError> {
        if self.health.is_failed() {
            return Err(SubmitError::Stopped);
        }
        let count = envelopes.len();
        if count == 0 {
            return Ok(());
        }
        let is_change = |envelope: &Envelope| envelope.command.command.is_change();
        if envelopes.iter().any(is_change) && self.projection.failure().is_some() {
            return Err(SubmitError::TablesStandStill);
        }
        let waiting = self.queued.fetch_add(count, Ordering::AcqRel);
        // A batch larger than the bound passes when nothing waits, or it could never pass.
        if waiting > 0 && waiting + count > limits::QUEUED_COMMANDS_MAX {
            self.queued.fetch_sub(count, Ordering::AcqRel);
            self.meters.overloaded.add(count as u64);
            return Err(SubmitError::Overloaded);
        }
        let sent = match self.desk.read().as_ref() {
            Some(desk) => desk.hand_over(Submission::now(envelopes), waiting == 0),
            None => Err(SubmitError::Stopped),
        };
        if sent.is_err() {
            self.queued.fetch_sub(count, Ordering::AcqRel);
        }
        sent
    }

    /// The same engine for readers beside its owner: it takes no commands.
    pub fn for_reading(&self) -> Self {
        Self {
            desk: RwLock::new(None),
            queued: Arc::clone(&self.queued),
            threads: Mutex::new(None),
            health: Arc::clone(&self.health),
            durable: Arc::clone(&self.durable),
            watermark: Arc::clone(&self.watermark),
            projection: Arc::clone(&self.projection),
            feed: Arc::clone(&self.feed),
            meters: Arc::clone(&self.meters),
            journal_notes: self.journal_notes.clone(),
            journal: Mutex::new(None),
            trim: Arc::clone(&self.trim),
            trail: self.trail.clone(),
            store: Arc::clone(&self.store),
            clock: Arc::clone(&self.clock),
            ids: self.ids.clone(),
            directory: Arc::clone(&self.directory),
            is_replicated: self.is_replicated,
            decides_after: self.decides_after,
        }
    }

    /// How many commands wait for the shard.
    pub fn queued(&self) -> usize {
        self.queued.load(Ordering::Acquire)
    }

    /// How far the query tables were behind each time that they had taken something in.
    pub fn projection_lags(&self) -> HistogramSnapshot {
        self.feed.lag()
    }

    /// How far the query tables are behind what is durable.
    pub fn projection_lag(&self) -> ProjectionLag {
        let applied = self.watermark.applied().0;
        let records = self.durable.durable_seq().saturating_sub(applied);
        let age = if records == 0 { Duration::ZERO } else { self.feed.age_of_oldest() };
        ProjectionLag { records, age }
    }

    /// The newest durable record.
    pub fn durable_seq(&self) -> RecordSeq {
        RecordSeq(self.durable.durable_seq())
    }

    /// Why the engine has stopped taking commands, if it has.
    pub fn failure(&self) -> Option<String> {
        if let Some(why) = self.health.failure() {
            return Some(format!("journal: {why}"));
        }
        let threads = self.threads.lock();
        let deciding = threads.as_ref()?.deciding.as_ref()?;
        // A shard ends by itself only by a broken invariant, which it has printed.
        let is_broken = deciding.shard.is_finished();
        is_broken.then(|| "the shard broke off; see the message above".to_owned())
    }

    /// Tells for how long the log has written nothing of what it lacks; always no time without a window.
    pub fn log_stall(&self) -> impl Fn() -> Duration + Send + use<> {
        let trail = self.trail.clone();
        move || trail.as_ref().map_or(Duration::ZERO, |trail| trail.stall())
    }

    /// Why the query tables stand still, if they do. Authorizations go on without them.
    pub fn projection_failure(&self) -> Option<String> {
        self.projection.failure().map(|why| format!("query tables: {why}"))
    }

    /// How far the system's clock is behind the newest record, if it is far. Until it has caught up, each command
    /// gets the instant after the one before it: time stands still.
    pub fn clock_behind(&self) -> Option<Duration> {
        let newest = self.meters.newest_instant.load(Ordering::Relaxed);
        let behind_us = newest.saturating_sub(self.clock.now().0);
        let is_far = !self.clock.is_manual() && behind_us > limits::CLOCK_BEHIND_MAX;
        is_far.then(|| Duration::from_micros(behind_us.unsigned_abs()))
    }

    /// The switch's time: that of the clock, or of the newest record where the clock is far behind.
    pub fn now(&self) -> Timestamp {
        let newest = self.meters.newest_instant.load(Ordering::Relaxed);
        self.clock_behind().map_or_else(|| self.clock.now(), |_| Timestamp(newest))
    }

    /// Makes a backup at `to`, a new directory, as of now, while everything goes on.
    /// Errors: something is there, or a file cannot be read or written; nothing is left there then.
    /// Cost: reads and writes everything once, on the caller's thread.
    pub fn back_up(&self, to: &Path, beside: CopyBeside<'_>) -> Result<CopySummary, CopyError> {
        let journal = self.journal.lock().clone().ok_or(CopyError::ShutDown)?;
        // Before the view is taken: the batches that it needs must not go.
        let _hold = self.trim.hold();
        copy_running(&self.directory, &self.store, &journal, to, beside)
    }

    /// Makes sure that a backup at `to` fits, with files of `beside` bytes that the engine does not know of. Returns
    /// the size of the backup, about. Units: bytes.
    /// Errors: it does not fit, or files cannot be looked at.
    pub fn check_room_for_backup(&self, to: &Path, beside: u64) -> Result<u64, CopyError> {
        let journal = self.journal.lock().clone().ok_or(CopyError::ShutDown)?;
        check_room_for_running(&self.directory, &self.store, &journal, to, beside)
    }

    /// Finishes the commands taken, writes a last checkpoint, stops every thread. Idempotent.
    pub fn shut_down(&self) {
        drop(self.desk.write().take());
        drop(self.journal.lock().take());
        let Some(threads) = self.threads.lock().take() else { return };
        // Each thread ends when the one before it has, so no answered command is left behind. A
        // broken thread has printed the reason, and the journal tells the truth on restart.
        if let Some(deciding) = threads.deciding {
            drop(deciding.shard.join());
            drop(deciding.loader.map(std::thread::JoinHandle::join));
            drop(deciding.committer.join());
            drop(deciding.trail.map(std::thread::JoinHandle::join));
        }
        drop(threads.segments.join());
        threads.projector.stop();
        threads.projector.join();
    }
}

/// An engine that nothing drives yet.
#[derive(Debug)]
pub struct AssembledEngine {
    /// The engine, as edges hold it.
    pub engine: Engine,
    /// The parts to be driven.
    pub parts: EngineParts,
}

impl AssembledEngine {
    /// Starts the threads.
    /// Errors: the system starts no more of them.
    fn start(self) -> Result<Engine, OpenError> {
        let EngineParts { deciding, following } = self.parts;
        self.engine.start_following(following)?;
        self.engine.start_deciding(deciding)?;
        Ok(self.engine)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shut_down();
    }
}

/// Opens the query tables. New ones are made beside their place and moved there when they are whole,
/// so that a start cut short never leaves half of them.
/// Errors: they are missing and cannot be made anew; nothing is changed then.
fn open_store(directory: &DataDirectory) -> Result<Store, OpenError> {
    let path = directory.store_path();
    if is_missing(&path).map_err(|error| io_failure(at_path(&path)(error)))? {
        require_first_batch(directory)?;
        let unfinished = path.with_extension("redb.new");
        match std::fs::remove_file(&unfinished) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(io_failure(error).into());
            }
            _ => {}
        }
        drop(Store::create(&unfinished, directory.id())?);
        std::fs::rename(&unfinished, &path).map_err(io_failure)?;
        std::fs::File::open(directory.path())
            .and_then(|file| file.sync_all())
            .map_err(io_failure)?;
    }
    Ok(Store::open(&path, directory.id())?)
}

/// Whether there is no file, or an empty one. A link that leads nowhere is there: its volume may be away.
fn is_missing(path: &Path) -> std::io::Result<bool> {
    match std::fs::symlink_metadata(path) {
        Ok(found) => Ok(found.is_file() && found.len() == 0),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

/// Errors: the journal does not begin with its first batch, so no tables can be made of it. Its other faults are told
/// when it is opened.
/// Cost: reads the journal.
fn require_first_batch(directory: &DataDirectory) -> Result<(), JournalError> {
    let (path, identity) = (directory.journal_path(), journal_identity(directory));
    match open_read_only(&path, Some(&identity), Some(ChainPosition::GENESIS)) {
        Err(trimmed @ JournalError::StartsAfterCheckpoint { .. }) => Err(trimmed),
        _ => Ok(()),
    }
}

/// The identity that a directory's journal must have.
pub(crate) fn journal_identity(directory: &DataDirectory) -> JournalIdentity {
    JournalIdentity { directory_id: DirectoryId(directory.id()), partition: PARTITION }
}
