//! The store: what the journal says, as rows that can be asked for.
//!
//! Only the projection writes (`project`), on the projector's thread (`projector`); everybody else
//! reads snapshots (`query`). Rows and keys are on one page (`tables`). A durable commit is a
//! checkpoint: recovery is these tables, re-emitted as effects (`restore`), and the journal after
//! the checkpoint.
//!
//! INVARIANT: rows, indexes and checkpoint change in one commit.
//! What must not live here: rules, choices, the meaning of a state.

mod audit;
mod checkpoint;
mod error;
mod project;
mod projector;
pub mod query;
mod restore;
mod rows;
mod runs;
mod tables;
mod watermark;

#[cfg(test)]
mod tests;

use std::fs::OpenOptions;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use redb::{
    Builder, Database, DatabaseError, Durability, ReadableDatabase, StorageBackend, StorageError,
};

pub use audit::AuditFigure;
pub use checkpoint::Checkpoint;
pub use error::StoreError;
pub use project::Projection;
pub use projector::{
    Pacing, ProjectionError, ProjectionHealth, Projector, ProjectorOptions, catch_up,
    spawn_projector,
};
pub use query::Snapshot;
pub use watermark::Watermark;

use tables::{META, META_DIRECTORY, META_FORMAT, STORE_FORMAT};

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

/// The query tables of one data directory.
#[derive(Debug)]
pub struct Store {
    database: Database,
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
                _ => StoreError::Storage(Box::new(redb::Error::Io(error))),
            },
        )?;
        let store = Self { database: builder().create_file(file)? };
        store.initialize(directory_id)?;
        Ok(store)
    }

    /// Opens the store that was made for this directory, if it is undamaged.
    /// Errors: `InUse`, `NotAStore`, `NewerFormat`, `ForeignDirectory`, `Damaged`.
    /// Cost: reads the whole file, to check the sum of every page.
    pub fn open(path: &Path, directory_id: [u8; 16]) -> Result<Self, StoreError> {
        let mut store = Self { database: builder().open(path)? };
        store.check_pages()?;
        store.check_identity(directory_id)?;
        Ok(store)
    }

    /// Opens the store in `backend`, or makes one where that is empty.
    /// Errors: as `open`.
    pub fn open_with_backend(
        backend: impl StorageBackend,
        directory_id: [u8; 16],
    ) -> Result<Self, StoreError> {
        let mut store = Self { database: builder().create_with_backend(backend)? };
        store.check_pages()?;
        if store.database.begin_read()?.list_tables()?.next().is_none() {
            store.initialize(directory_id)?;
        }
        store.check_identity(directory_id)?;
        Ok(store)
    }

    /// How far the tables have come, as reads see them.
    pub fn checkpoint(&self) -> Result<Checkpoint, StoreError> {
        self.read()?.checkpoint()
    }

    /// A view of the tables that stands still. Keep it short: while it lives, the file grows.
    pub fn read(&self) -> Result<Snapshot, StoreError> {
        Ok(Snapshot::new(self.database.begin_read()?))
    }

    /// Writes a run of records that ends at `position` in the chain.
    /// Cost: two syncs for a checkpoint, none otherwise.
    pub fn commit(
        &self,
        projection: &Projection,
        position: ChainPosition,
        kind: CommitKind,
    ) -> Result<Checkpoint, StoreError> {
        let mut write_txn = self.database.begin_write()?;
        match kind {
            CommitKind::Visible => write_txn.set_durability(Durability::None)?,
            // Saves the allocator's state, so that opening after a crash need not walk the file.
            CommitKind::Checkpoint => write_txn.set_quick_repair(true),
        }
        let checkpoint = projection.write(&write_txn, position)?;
        write_txn.commit()?;
        Ok(checkpoint)
    }

    fn initialize(&self, directory_id: [u8; 16]) -> Result<(), StoreError> {
        let mut write_txn = self.database.begin_write()?;
        write_txn.set_quick_repair(true);
        tables::create_all(&write_txn)?;
        {
            let mut meta = write_txn.open_table(META)?;
            meta.insert(META_FORMAT, STORE_FORMAT.to_le_bytes().as_slice())?;
            meta.insert(META_DIRECTORY, directory_id.as_slice())?;
        }
        write_txn.commit()?;
        Ok(())
    }

    /// Checks the sum of every page. Reads do not: a flipped byte would come back as a row.
    fn check_pages(&mut self) -> Result<(), StoreError> {
        let damaged = |what: &str| StoreError::Damaged { what: what.to_owned() };
        // Pages in disorder can make redb panic while it looks at them.
        match catch_unwind(AssertUnwindSafe(|| self.database.check_integrity())) {
            Ok(Ok(true)) => Ok(()),
            Ok(Ok(false)) => Err(damaged("its newest pages were lost")),
            Ok(Err(DatabaseError::Storage(StorageError::Corrupted(what)))) => Err(damaged(&what)),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(damaged("its pages are in disorder")),
        }
    }

    fn check_identity(&self, expected: [u8; 16]) -> Result<(), StoreError> {
        let read_txn = self.database.begin_read()?;
        let meta = read_txn.open_table(META).map_err(|error| match error {
            redb::TableError::Storage(_) => StoreError::from(error),
            other => StoreError::NotAStore { what: other.to_string() },
        })?;
        let found = u32::from_le_bytes(query::meta_bytes(&meta, META_FORMAT)?);
        if found > STORE_FORMAT {
            return Err(StoreError::NewerFormat { found, supported: STORE_FORMAT });
        }
        let found = query::meta_bytes(&meta, META_DIRECTORY)?;
        if found != expected {
            return Err(StoreError::ForeignDirectory { found, expected });
        }
        Ok(())
    }
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(limits::STORE_CACHE_BYTES);
    builder
}
