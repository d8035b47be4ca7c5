//! Proves a data directory offline: the chain is whole, the replay equals the tables, the money adds up.
//!
//! Reads only, also after kill -9: the tables are read through an overlay that keeps every change
//! in memory. Each figure that was compared is reported, right or wrong.

use std::fs::File;
use std::path::Path;

use redb::backends::FileBackend;

use crate::data_directory::{DataDirectory, DirectoryError};
use crate::domain::pan_key::PanGenerations;
use crate::engine::{EngineStorage, OpenError, PARTITION, chain_position, journal_identity};
use crate::journal::log::{ReadOnlyJournal, open_read_only, open_read_only_on};
use crate::journal::{BatchNumber, ChainPosition, JournalError, JournalFollower};
use crate::recovery::{replay, restore_whole};
use crate::shard::{PartHash, ShardState, StateHash};
use crate::store::overlay::{OverlayBackend, OverlayLocks, SharedBackend};
use crate::store::{AuditFigure, ProjectionError, Store, StoreError, catch_up};

/// One comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// What was compared.
    pub name: String,
    /// What it should be.
    pub expected: String,
    /// What it is.
    pub found: String,
}

impl Figure {
    /// Whether both agree.
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.expected == self.found
    }
}

/// What a verification found.
#[derive(Clone, Debug)]
pub struct Verification {
    /// Every figure compared.
    pub figures: Vec<Figure>,
    /// The hash of the state after the last record.
    pub state_hash: StateHash,
    /// The number of records in the state.
    pub records: u64,
    /// How many of them were replayed for the comparison.
    pub replayed: u64,
    /// The generations of the key of card numbers that are of use after the last record.
    pub pan_generations: PanGenerations,
}

impl Verification {
    /// Whether every figure agrees.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.figures.iter().all(Figure::is_right)
    }
}

/// Why a directory cannot be verified; damage to a file is among the reasons.
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

/// As `verify`, of files that are elsewhere than in their directory.
/// Errors: as `verify`.
pub fn verify_on(
    directory: &DataDirectory,
    storage: EngineStorage,
) -> Result<Verification, VerifyError> {
    let identity = journal_identity(directory);
    let overlay = OverlayBackend::over(storage.store, OverlayLocks::Shared);
    let store = Store::open_with_backend(overlay.map_err(unreadable)?, directory.id())?;
    verify_opened(store, |checkpoint| {
        open_read_only_on(&*storage.journal, Some(&identity), Some(checkpoint))
    })
}

fn verify_opened(
    mut store: Store,
    open_journal: impl FnOnce(ChainPosition) -> Result<ReadOnlyJournal, JournalError>,
) -> Result<Verification, VerifyError> {
    store.check_pages()?;
    let (mut from_tables, checkpoint) = restore_whole(&store)?;
    let position = chain_position(&checkpoint);
    let journal = open_journal(position).map_err(OpenError::Journal)?;

    let tail =
        replay(&mut from_tables, JournalFollower::after(&journal.reader, PARTITION, position))?;
    let (from_journal, replayed) = replay_all(&journal, &store, position)?;
    catch_up(&store, &journal.reader, PARTITION).map_err(VerifyError::Projection)?;

    let mut figures =
        vec![figure("journal records", journal.tip.last_seq, from_tables.last_seq().0)];
    let parts = from_tables.part_hashes();
    figures.extend(compare_parts(&from_journal.part_hashes(), &parts));
    let tables = store.read()?;
    figures.extend(tables.audit()?.into_iter().map(audited));
    Ok(Verification {
        figures,
        state_hash: StateHash::of_parts(&parts),
        records: from_tables.last_seq().0,
        replayed: replayed.max(tail),
        pan_generations: tables.pan_generations()?,
    })
}

/// Folds the journal from its first record where everything was kept, else from the checkpoint.
fn replay_all(
    journal: &ReadOnlyJournal,
    store: &Store,
    checkpoint: ChainPosition,
) -> Result<(ShardState, u64), VerifyError> {
    let is_whole = journal.first <= BatchNumber(1);
    let (mut state, start) = if is_whole {
        (ShardState::default(), ChainPosition::GENESIS)
    } else {
        (restore_whole(store)?.0, checkpoint)
    };
    let follower = JournalFollower::after(&journal.reader, PARTITION, start);
    let replayed = replay(&mut state, follower)?;
    Ok((state, replayed))
}

/// Opens the tables without changing a byte of their file; their pages are not proven.
pub(crate) fn open_store_overlaid(directory: &DataDirectory) -> Result<Store, OpenError> {
    let file = File::open(directory.store_path()).map_err(unreadable)?;
    let backend = FileBackend::new(file).map_err(StoreError::from)?;
    let overlay = OverlayBackend::over(SharedBackend::new(backend), OverlayLocks::Shared);
    Ok(Store::open_with_backend(overlay.map_err(unreadable)?, directory.id())?)
}

fn unreadable(error: std::io::Error) -> StoreError {
    StoreError::Storage(Box::new(redb::Error::Io(error)))
}

fn compare_parts(expected: &[PartHash], found: &[PartHash]) -> Vec<Figure> {
    let describe = |part: &PartHash| format!("{} entries, {}", part.entries, part.hash);
    let compare = |(expected, found): (&PartHash, &PartHash)| {
        figure(
            &format!("replay equals tables: {}", expected.name),
            describe(expected),
            describe(found),
        )
    };
    expected.iter().zip(found).map(compare).collect()
}

fn audited(audited: AuditFigure) -> Figure {
    figure(&audited.name, audited.expected, audited.found)
}

fn figure(name: &str, expected: impl ToString, found: impl ToString) -> Figure {
    Figure { name: name.to_owned(), expected: expected.to_string(), found: found.to_string() }
}
