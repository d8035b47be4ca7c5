//! The store: what the journal says, as rows that can be asked for.
//!
//! Only the projection writes (`project`), on the projector's thread (`projector`); everybody else
//! reads snapshots (`query`). Rows and keys are on one page (`tables`). A durable commit is a
//! checkpoint: recovery is these tables, re-emitted as effects (`restore`), and the journal after
//! the checkpoint. Numbers that nearly every record changes wait in memory for it (`numbers`).
//!
//! INVARIANT: rows, indexes and checkpoint change in one commit.
//! Out of scope: rules, choices, the meaning of a state.

mod audit;
mod audit_lists;
mod audit_runs;
mod blocks;
mod checkpoint;
mod copy;
mod directory;
mod error;
mod events;
mod figures;
mod late_holds;
mod layers;
mod numbers;
pub mod overlay;
mod pan_generations;
mod project;
mod projector;
pub mod query;
mod restore;
mod rows;
mod runs;
mod sets;
mod tables;
mod watermark;
mod write_back;

#[cfg(test)]
mod tests;

use std::fs::OpenOptions;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use redb::{
    Builder, Database, DatabaseError, Durability, ReadTransaction, ReadableDatabase,
    StorageBackend, StorageError, WriteTransaction,
};

pub use audit::AuditFigure;
pub use checkpoint::Checkpoint;
pub use error::StoreError;
pub use late_holds::LateHolds;
pub use project::Projection;
pub use projector::{
    Pacing, ProjectionError, ProjectionHealth, Projector, ProjectorOptions, ProjectorSteps,
    catch_up, spawn_projector,
};
pub use query::Snapshot;
pub use restore::{AnswerPlace, RestoreScope, RestoredPart};
pub use watermark::{WaitPurpose, Watermark};

use numbers::Numbers;
use overlay::{OverlayBackend, OverlayLocks, SharedBackend};
use project::{WriteOutcome, forget_moved_holds};
use runs::RunCounts;
use tables::{META, META_COMMIT, META_DIRECTORY, META_FORMAT, META_NUMBERS, STORE_FORMAT};
use write_back::WriteBackFile;

use crate::disk::at_path;
use crate::domain::ids::{RecordSeq, Timestamp};
use crate::journal::ChainPosition;
use crate::limits;

/// Whether a commit survives a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitKind {
    /// It is visible at once, and durable with the next checkpoint.
    Visible,
    /// It is durable when it returns.
    Checkpoint,
}

/// A commit that is written, but not seen by anybody yet.
struct PreparedCommit {
    write_txn: WriteTransaction,
    numbers: Numbers,
    checkpoint: Checkpoint,
    kind: CommitKind,
    changes_access: bool,
}

/// The query tables of one data directory.
/// INVARIANT: one caller commits, the projector where there is one.
#[derive(Debug)]
pub struct Store {
    database: Database,
    backend: SharedBackend,
    numbers: Mutex<KnownNumbers>,
    counts: Arc<RunCounts>,
    /// The note about late holds.
    pub late_holds: Arc<LateHolds>,
}

/// The numbers of the newest commit, and of the one on its way.
#[derive(Debug, Default)]
struct KnownNumbers {
    newest: Arc<Numbers>,
    coming: Option<Arc<Numbers>>,
    /// Whether there are rows behind the last checkpoint.
    is_ahead: bool,
    /// The view that readers share until the next commit.
    view: Option<Arc<Snapshot>>,
}

impl Store {
    /// Makes a store where there is none.
    /// Errors: `AlreadyExists`.
    pub fn create(path: &Path, directory_id: [u8; 16]) -> Result<Self, StoreError> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path).map_err(
            |error| match error.kind() {
                std::io::ErrorKind::AlreadyExists => {
                    StoreError::AlreadyExists { path: path.to_path_buf() }
                }
                _ => io_failure(error),
            },
        )?;
        Self::over(WriteBackFile::new(file)?, limits::STORE_CACHE_BYTES, |store| {
            store.initialize(directory_id)
        })
    }

    /// Opens the store that was made for this directory. Pages are checked when they are read;
    /// `check_pages` reads all of them.
    /// Errors: `InUse`, `NotAStore`, `UnknownFormat`, `ForeignDirectory`, `Inconsistent`.
    pub fn open(path: &Path, directory_id: [u8; 16]) -> Result<Self, StoreError> {
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.map_err(|error| io_failure(at_path(path)(error)))?;
        if file.metadata().map_err(io_failure)?.len() == 0 {
            return Err(StoreError::NotAStore { what: "it is empty".to_owned() });
        }
        Self::over(WriteBackFile::new(file)?, limits::STORE_CACHE_BYTES, |store| {
            store.check_identity(directory_id)?;
            store.take_up()
        })
    }

    /// Opens the store in `backend`, or makes one where that is empty.
    /// Errors: as `open`.
    pub fn open_with_backend(
        backend: impl StorageBackend,
        directory_id: [u8; 16],
    ) -> Result<Self, StoreError> {
        Self::open_with_cache(backend, directory_id, limits::STORE_CACHE_BYTES)
    }

    /// As `open_with_backend`, with so many bytes of pages in memory.
    /// Errors: as `open`.
    pub fn open_with_cache(
        backend: impl StorageBackend,
        directory_id: [u8; 16],
        cache_bytes: usize,
    ) -> Result<Self, StoreError> {
        Self::over(backend, cache_bytes, |store| {
            if store.database.begin_read()?.list_tables()?.next().is_none() {
                store.initialize(directory_id)?;
            }
            store.check_identity(directory_id)?;
            store.take_up()
        })
    }

    /// The store in `backend`, with which `begin` begins.
    fn over(
        backend: impl StorageBackend,
        cache_bytes: usize,
        begin: impl FnOnce(&Self) -> Result<(), StoreError>,
    ) -> Result<Self, StoreError> {
        let backend = SharedBackend::new(backend);
        let builder = builder_with(cache_bytes);
        // Pages in disorder can make redb panic while it looks at them.
        let opened = AssertUnwindSafe(|| {
            let store = Self {
                database: builder.create_with_backend(backend.clone())?,
                backend,
                numbers: Mutex::default(),
                counts: Arc::default(),
                late_holds: Arc::default(),
            };
            begin(&store)?;
            Ok(store)
        });
        catch_unwind(opened).unwrap_or_else(|_| Err(in_disorder()))
    }

    /// Opens the same tables again for a caller that reads all of them once, and never writes.
    /// Pages go through a small cache, instead of filling a large one in vain.
    /// INVARIANT: nobody commits while they are open twice.
    pub(crate) fn open_beside(&self) -> Result<Self, StoreError> {
        let overlay = OverlayBackend::over(self.backend.clone(), OverlayLocks::Held);
        Self::over(overlay.map_err(io_failure)?, limits::START_CACHE_BYTES, Self::take_up)
    }

    /// The checkpoint of the newest visible commit.
    pub fn checkpoint(&self) -> Result<Checkpoint, StoreError> {
        self.read()?.checkpoint()
    }

    /// A view of the tables that stands still. Keep it short: while it lives, the file grows. The
    /// newest view is kept for the next reader; the commit that replaces it lets go of it.
    pub fn read(&self) -> Result<Arc<Snapshot>, StoreError> {
        if let Some(view) = &self.numbers.lock().view {
            return Ok(Arc::clone(view));
        }
        loop {
            let read_txn = self.database.begin_read()?;
            let commit = commit_of(&read_txn)?;
            let mut known = self.numbers.lock();
            let found = [Some(&known.newest), known.coming.as_ref()];
            let found = found.into_iter().flatten().find(|numbers| numbers.commit == commit);
            // Neither fits if two commits came in between: look again.
            if let Some(numbers) = found {
                let counts = Arc::clone(&self.counts);
                let view = Arc::new(Snapshot::new(read_txn, Arc::clone(numbers), counts));
                if known.coming.is_none() {
                    known.view = Some(Arc::clone(&view));
                }
                return Ok(view);
            }
        }
    }

    /// Writes a run of records that ends at `position` in the chain, and shows it.
    /// Cost: two syncs for a checkpoint, none otherwise.
    pub fn commit(
        &self,
        projection: &Projection,
        position: ChainPosition,
        kind: CommitKind,
    ) -> Result<Checkpoint, StoreError> {
        self.show(self.prepare(projection, position, kind)?)
    }

    /// Writes a run of records that ends at `position` in the chain, but shows it to nobody: dropped, it
    /// was never written.
    /// Cost: the next call waits until this run is shown or dropped.
    fn prepare(
        &self,
        projection: &Projection,
        position: ChainPosition,
        kind: CommitKind,
    ) -> Result<PreparedCommit, StoreError> {
        let forgotten = match kind {
            CommitKind::Visible => None,
            CommitKind::Checkpoint => Some(self.read()?.first_messages()?),
        };
        let mut write_txn = self.database.begin_write()?;
        match kind {
            CommitKind::Visible => write_txn.set_durability(Durability::None)?,
            // Saves the allocator's state, so that opening after a crash need not walk the file.
            CommitKind::Checkpoint => write_txn.set_quick_repair(true),
        }
        let WriteOutcome { checkpoint, is_new, added } = projection.write(&write_txn, position)?;
        if let Some(first) = forgotten {
            first.forget_before(&write_txn)?;
        }
        let mut numbers = self.newest_numbers();
        if is_new {
            let late_since = self.late_holds.since().unwrap_or(Timestamp::MAX);
            forget_moved_holds(&write_txn, late_since.min(checkpoint.applied_at))?;
            numbers = numbers.with(projection, added.figures, &added.held);
        }
        if kind == CommitKind::Checkpoint {
            numbers.write(&write_txn)?;
            write_number(&write_txn, META_NUMBERS, checkpoint.applied_seq.0)?;
            self.late_holds.write(&write_txn, checkpoint.applied_seq)?;
            numbers = Numbers::none_at(numbers.commit);
        }
        numbers.commit += 1;
        write_number(&write_txn, META_COMMIT, numbers.commit)?;
        let changes_access = projection.changes_access();
        Ok(PreparedCommit { write_txn, numbers, checkpoint, kind, changes_access })
    }

    /// Commits, with the numbers that belong to it at hand the moment it can be seen.
    fn show(&self, prepared: PreparedCommit) -> Result<Checkpoint, StoreError> {
        let PreparedCommit { write_txn, numbers, checkpoint, kind, .. } = prepared;
        let numbers = Arc::new(numbers);
        self.numbers.lock().coming = Some(Arc::clone(&numbers));
        let outcome = write_txn.commit();
        let mut known = self.numbers.lock();
        known.coming = None;
        outcome?;
        known.newest = numbers;
        known.is_ahead = kind == CommitKind::Visible;
        drop(known);
        self.forget_view();
        if kind == CommitKind::Checkpoint {
            self.late_holds.forget_ended(checkpoint.applied_seq);
        }
        Ok(checkpoint)
    }

    /// Lets go of the view that readers share.
    fn forget_view(&self) {
        let view = self.numbers.lock().view.take();
        drop(view);
    }

    fn newest_numbers(&self) -> Numbers {
        let known = self.numbers.lock();
        assert!(known.coming.is_none(), "one caller commits");
        (*known.newest).clone()
    }

    /// Checks the sum of every page, also of those that nobody reads.
    /// Errors: `Damaged`. Cost: reads the whole file.
    pub fn check_pages(&mut self) -> Result<(), StoreError> {
        let damaged = |what: &str| StoreError::Damaged { what: what.to_owned() };
        self.forget_view();
        // Pages in disorder can make redb panic while it looks at them.
        match catch_unwind(AssertUnwindSafe(|| self.database.check_integrity())) {
            Ok(Ok(true)) => Ok(()),
            Ok(Ok(false)) => Err(damaged("its newest pages were lost")),
            Ok(Err(DatabaseError::Storage(StorageError::Corrupted(what)))) => Err(damaged(&what)),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(in_disorder()),
        }
    }

    fn initialize(&self, directory_id: [u8; 16]) -> Result<(), StoreError> {
        let mut write_txn = self.database.begin_write()?;
        write_txn.set_quick_repair(true);
        tables::create_all(&write_txn)?;
        {
            let mut meta = write_txn.open_table(META)?;
            meta.insert(META_FORMAT, STORE_FORMAT.to_le_bytes().as_slice())?;
            meta.insert(META_DIRECTORY, directory_id.as_slice())?;
            meta.insert(META_NUMBERS, 0_u64.to_le_bytes().as_slice())?;
            meta.insert(META_COMMIT, 0_u64.to_le_bytes().as_slice())?;
        }
        write_txn.commit()?;
        Ok(())
    }

    fn check_identity(&self, expected: [u8; 16]) -> Result<(), StoreError> {
        let read_txn = self.database.begin_read()?;
        let meta = read_txn.open_table(META).map_err(|error| match error {
            redb::TableError::Storage(_) => StoreError::from(error),
            other => StoreError::NotAStore { what: other.to_string() },
        })?;
        let found = u32::from_le_bytes(query::meta_bytes(&meta, META_FORMAT)?);
        if found != STORE_FORMAT {
            return Err(StoreError::UnknownFormat { found, supported: STORE_FORMAT });
        }
        let found = query::meta_bytes(&meta, META_DIRECTORY)?;
        if found != expected {
            return Err(StoreError::ForeignDirectory { found, expected });
        }
        Ok(())
    }

    /// Goes on where the tables were left: at a checkpoint, whose numbers are in its tables.
    fn take_up(&self) -> Result<(), StoreError> {
        let read_txn = self.database.begin_read()?;
        let meta = read_txn.open_table(META)?;
        let applied = checkpoint::read(&meta)?.applied_seq;
        let numbers = RecordSeq(u64::from_le_bytes(query::meta_bytes(&meta, META_NUMBERS)?));
        if numbers != applied {
            let (rows, numbers) = (applied.0, numbers.0);
            return Err(StoreError::Inconsistent {
                what: format!("its rows are of record {rows}, its balances of record {numbers}"),
            });
        }
        self.late_holds.take_up(&meta)?;
        let commit = commit_of(&read_txn)?;
        self.numbers.lock().newest = Arc::new(Numbers::none_at(commit));
        Ok(())
    }

    /// Makes what is visible a checkpoint.
    fn save(&self) -> Result<(), StoreError> {
        let position = self.checkpoint()?.position();
        self.commit(&Projection::default(), position, CommitKind::Checkpoint).map(drop)
    }
}

impl Drop for Store {
    /// redb makes the last visible commit durable when it closes, so its numbers have to be
    /// durable, too, with the record that they belong to. Where they cannot be, nothing is: the next
    /// start finds the last checkpoint, as after a kill.
    fn drop(&mut self) {
        let is_ahead = self.numbers.lock().is_ahead;
        if is_ahead && self.save().is_err() {
            self.backend.seal();
        }
        self.forget_view();
    }
}

pub(crate) fn io_failure(error: std::io::Error) -> StoreError {
    StoreError::Storage(Box::new(redb::Error::Io(error)))
}

/// The error where redb panicked over damaged pages.
pub(crate) fn in_disorder() -> StoreError {
    StoreError::Damaged { what: "its pages are in disorder".to_owned() }
}

fn commit_of(read_txn: &ReadTransaction) -> Result<u64, StoreError> {
    let meta = read_txn.open_table(META)?;
    query::meta_bytes(&meta, META_COMMIT).map(u64::from_le_bytes)
}

fn write_number(write_txn: &WriteTransaction, name: &str, value: u64) -> Result<(), StoreError> {
    write_txn.open_table(META)?.insert(name, value.to_le_bytes().as_slice())?;
    Ok(())
}

fn builder() -> Builder {
    builder_with(limits::STORE_CACHE_BYTES)
}

fn builder_with(cache_bytes: usize) -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(cache_bytes);
    builder
}
