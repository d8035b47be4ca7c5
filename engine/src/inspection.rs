//! Reads a data directory at rest: its tables at the end of its journal.
//!
//! Inspection writes nothing, also after kill -9: changes of recovery stay in memory, as for
//! `verify`, which also proves the data.

use std::path::Path;
use std::sync::Arc;

use crate::data_directory::DataDirectory;
use crate::engine::{OpenError, PARTITION, journal_identity};
use crate::journal::log::open_read_only;
use crate::store::{Snapshot, Store, StoreError, catch_up};
use crate::verify::{VerifyError, open_store_overlaid};

/// A data directory that is read, while no process writes to it.
#[derive(Debug)]
pub struct Inspection {
    store: Store,
    /// The lock that keeps other processes from writing.
    _directory: DataDirectory,
}

impl Inspection {
    /// Opens the data directory at `path`, which no other process may be writing to.
    /// Errors: a file that cannot be opened, or that is damaged.
    /// Cost: proves the journal's chain and projects the records that the tables lack.
    pub fn open(path: &Path) -> Result<Self, VerifyError> {
        let directory = DataDirectory::open_read_only(path)?;
        Ok(Self { store: followed_tables(&directory)?, _directory: directory })
    }

    /// The tables.
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// A view of the tables.
    /// Errors: they cannot be read.
    pub fn read(&self) -> Result<Arc<Snapshot>, StoreError> {
        self.store.read()
    }
}

/// The tables of a directory that is locked, at the end of its journal.
/// Errors: as `Inspection::open`.
pub(crate) fn followed_tables(directory: &DataDirectory) -> Result<Store, VerifyError> {
    let store = open_store_overlaid(directory)?;
    let position = store.checkpoint()?.position();
    let identity = journal_identity(directory);
    let journal = open_read_only(&directory.journal_path(), Some(&identity), Some(position))
        .map_err(OpenError::Journal)?;
    catch_up(&store, &journal.reader, PARTITION).map_err(VerifyError::Projection)?;
    Ok(store)
}
