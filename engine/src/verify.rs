//! Proves a data directory offline: the chain is whole, the replay equals the tables, the money adds up.
//!
//! Verification only reads, also after kill -9: the tables are read through an overlay that keeps
//! every change in memory. Each compared figure is reported, right or wrong.

use std::collections::BTreeSet;
use std::fs::File;
use std::panic::resume_unwind;
use std::path::Path;
use std::thread::{self, ScopedJoinHandle};

use redb::backends::FileBackend;

use crate::data_directory::{DataDirectory, DirectoryError};
use crate::domain::ids::RecordSeq;
use crate::domain::pan_key::PanGeneration;
use crate::engine::{EngineStorage, OpenError, PARTITION, journal_identity};
use crate::journal::log::{ReadOnlyJournal, open_read_only, open_read_only_on};
use crate::journal::{BatchNumber, ChainPosition, JournalError, JournalFollower};
use crate::recovery::{replay, restore_whole};
use crate::shard::{PartHash, ShardState, StateHash};
use crate::store::overlay::{OverlayBackend, OverlayLocks, SharedBackend};
use crate::store::{AuditFigure, ProjectionError, Store, StoreError, catch_up, io_failure};

/// The result of a verification.
#[derive(Clone, Debug)]
pub struct Verification {
    /// Every figure compared.
    pub figures: Vec<AuditFigure>,
    /// The hash of the state after the last record.
    pub state_hash: StateHash,
    /// The number of records in the state.
    pub records: u64,
    /// The number of those replayed for the comparison.
    pub replayed: u64,
    /// The generations of the key of card numbers that are needed after the last record.
    pub pan_generations: BTreeSet<PanGeneration>,
}

impl Verification {
    /// Whether every figure agrees.
    pub fn is_ok(&self) -> bool {
        self.figures.iter().all(AuditFigure::is_right)
    }
}

/// The cause of an impossible verification; damage to a file is one.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The directory itself.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// One of its files.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The tables cannot follow the journal.
    #[error("query tables: {0}")]
    Projection(ProjectionError),
}

impl From<StoreError> for VerifyError {
    fn from(error: StoreError) -> Self {
        Self::Open(error.into())
    }
}

/// Verifies the data directory at `path`, which no other process may be writing to.
/// Errors: a file that cannot be opened, or that is damaged; the message names the place.
/// Cost: reads everything, folds every record kept.
pub fn verify(path: &Path) -> Result<Verification, VerifyError> {
    let directory = DataDirectory::open_read_only(path)?;
    let identity = journal_identity(&directory);
    verify_opened(open_store_overlaid(&directory)?, |checkpoint| {
        open_read_only(&directory.journal_path(), Some(&identity), Some(checkpoint))
    })
}

/// Verifies files that are elsewhere than in their directory.
/// Errors: as `verify`.
pub fn verify_on(
    directory: &DataDirectory,
    storage: EngineStorage,
) -> Result<Verification, VerifyError> {
    let identity = journal_identity(directory);
    let overlay = OverlayBackend::over(storage.store, OverlayLocks::Shared);
    let store = Store::open_with_backend(overlay.map_err(io_failure)?, directory.id())?;
    verify_opened(store, |checkpoint| {
        open_read_only_on(&*storage.journal, Some(&identity), Some(checkpoint))
    })
}

fn verify_opened(
    mut store: Store,
    open_journal: impl FnOnce(ChainPosition) -> Result<ReadOnlyJournal, JournalError>,
) -> Result<Verification, VerifyError> {
    let checkpoint = store.checkpoint()?;
    let position = checkpoint.position();
    let journal = match open_journal(position) {
        Ok(journal) => journal,
        Err(error) => {
            // A damaged page explains whatever else is wrong.
            store.check_pages()?;
            return Err(OpenError::Journal(error).into());
        }
    };
    let tail = journal.tip.last_seq.saturating_sub(position.last_seq);
    let transactions = checkpoint.last_transaction.0.saturating_add(tail);
    // The history and the tables are read at once, each on a thread.
    let (folded, followed) = thread::scope(|scope| {
        let folding = scope.spawn(|| fold_history(&journal, transactions));
        let followed = follow_tables(&mut store, &journal, position);
        (join(folding), followed)
    });
    let followed = followed?;
    let history = match folded? {
        Some(history) => history,
        // The journal no longer holds its first records, so they are in the tables alone: tables
        // that followed the journal must give the same state.
        None => (restore_whole(&store)?.0.part_hashes(), followed.tail),
    };
    let mut figures =
        vec![AuditFigure::new("journal records", journal.tip.last_seq, followed.last_seq.0)];
    figures.extend(compare_parts(&history.0, &followed.parts));
    figures.extend(followed.audit);
    Ok(Verification {
        figures,
        state_hash: StateHash::of_parts(&followed.parts),
        records: followed.last_seq.0,
        replayed: history.1.max(followed.tail),
        pan_generations: followed.pan_generations,
    })
}

/// Folds the journal from its first record, if it holds that; it made at most so many transactions. Returns the
/// state's hashes and the number of records.
fn fold_history(
    journal: &ReadOnlyJournal,
    transactions: u64,
) -> Result<Option<(Vec<PartHash>, u64)>, OpenError> {
    if journal.first > BatchNumber(1) {
        return Ok(None);
    }
    let mut state = ShardState::default();
    state.reserve(transactions);
    let follower = JournalFollower::after(&journal.reader, PARTITION, ChainPosition::GENESIS);
    let replayed = replay(&mut state, follower)?;
    Ok(Some((state.part_hashes(), replayed)))
}

/// The tables after following the journal, with the records that they lacked.
struct FollowedTables {
    /// The parts of the state of their checkpoint and those records.
    parts: Vec<PartHash>,
    last_seq: RecordSeq,
    /// The number of records they lacked.
    tail: u64,
    /// The sums, once the tables have followed.
    audit: Vec<AuditFigure>,
    pan_generations: BTreeSet<PanGeneration>,
}

fn follow_tables(
    store: &mut Store,
    journal: &ReadOnlyJournal,
    position: ChainPosition,
) -> Result<FollowedTables, VerifyError> {
    store.check_pages()?;
    let store = &*store;
    let (mut state, _) = restore_whole(store)?;
    // The sums are added up while the state is completed and hashed.
    thread::scope(|scope| {
        let adding = scope.spawn(|| audit_followed(store, journal));
        let follower = JournalFollower::after(&journal.reader, PARTITION, position);
        let tail = replay(&mut state, follower)?;
        let (parts, last_seq) = (state.part_hashes(), state.last_seq());
        drop(state);
        let (audit, pan_generations) = join(adding)?;
        Ok(FollowedTables { parts, last_seq, tail, audit, pan_generations })
    })
}

/// Has the tables follow the journal, and adds up their sums.
fn audit_followed(
    store: &Store,
    journal: &ReadOnlyJournal,
) -> Result<(Vec<AuditFigure>, BTreeSet<PanGeneration>), VerifyError> {
    catch_up(store, &journal.reader, PARTITION).map_err(VerifyError::Projection)?;
    Ok((store.read()?.audit()?, store.needed_pan_generations()?))
}

fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// Opens the tables without changing a byte of their file; their pages are not proven.
pub(crate) fn open_store_overlaid(directory: &DataDirectory) -> Result<Store, OpenError> {
    let file = File::open(directory.store_path()).map_err(io_failure)?;
    let backend = FileBackend::new(file).map_err(StoreError::from)?;
    let overlay = OverlayBackend::over(SharedBackend::new(backend), OverlayLocks::Shared);
    Ok(Store::open_with_backend(overlay.map_err(io_failure)?, directory.id())?)
}

fn compare_parts(expected: &[PartHash], found: &[PartHash]) -> Vec<AuditFigure> {
    let describe = |part: &PartHash| format!("{} entries, {}", part.entries, part.hash);
    let compare = |(expected, found): (&PartHash, &PartHash)| {
        let name = format!("replay equals tables: {}", expected.name);
        AuditFigure::new(name, describe(expected), describe(found))
    };
    expected.iter().zip(found).map(compare).collect()
}
