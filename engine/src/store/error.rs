//! Errors of the store, in one enum for the room.
//!
//! Messages are written for the person who starts the switch; they name tables and keys, never the
//! contents of a row.

use std::path::PathBuf;

use redb::{CommitError, DatabaseError, SetDurabilityError, TableError, TransactionError};

use crate::codec::CodecError;

/// Failures to open, read or write the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process has the store open.
    #[error("the store is in use by another process")]
    InUse,
    /// There is a store already where one is to be made.
    #[error("there is a file already at `{path}`")]
    AlreadyExists {
        /// The path that was opened.
        path: PathBuf,
    },
    /// The file is not a store.
    #[error("the file is not a store: {what}")]
    NotAStore {
        /// The content that was found instead.
        what: String,
    },
    /// Written by a build with another layout.
    #[error("the store is of format {found}, this build reads format {supported}")]
    UnknownFormat {
        /// The version found.
        found: u32,
        /// The version this build reads.
        supported: u32,
    },
    /// Made in another data directory.
    #[error("the store belongs to another data directory")]
    ForeignDirectory {
        /// The directory that the file names.
        found: [u8; 16],
        /// The directory that was opened.
        expected: [u8; 16],
    },
    /// A row cannot be read or written.
    #[error("a row of table {table}: {source}")]
    Row {
        /// The table of the row.
        table: &'static str,
        /// The failure to decode or encode it.
        source: CodecError,
    },
    /// Rows contradict each other.
    #[error("the store contradicts itself: {what}")]
    Inconsistent {
        /// The rows, and their contradiction.
        what: String,
    },
    /// Pages of the file are not what was written.
    #[error("the store's file is damaged: {what}")]
    Damaged {
        /// The pages, as far as they are known.
        what: String,
    },
    /// A list has more rows to look at than its reader may.
    #[error("a list is long, and was to be read apart")]
    LongScan,
    /// The storage failed.
    #[error("the store's file: {0}")]
    Storage(#[source] Box<redb::Error>),
}

impl From<DatabaseError> for StoreError {
    fn from(error: DatabaseError) -> Self {
        match error {
            DatabaseError::DatabaseAlreadyOpen => Self::InUse,
            DatabaseError::UpgradeRequired(version) => {
                Self::NotAStore { what: format!("its pages are of an old layout, {version}") }
            }
            other => match redb::Error::from(other) {
                redb::Error::Corrupted(what) => Self::NotAStore { what },
                redb::Error::Io(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                    Self::NotAStore { what: error.to_string() }
                }
                error => Self::Storage(Box::new(error)),
            },
        }
    }
}

macro_rules! storage_errors {
    ($($error:ty),*) => {$(
        impl From<$error> for StoreError {
            fn from(error: $error) -> Self {
                Self::Storage(Box::new(error.into()))
            }
        }
    )*};
}
storage_errors!(redb::StorageError, TableError, TransactionError, CommitError, SetDurabilityError);

/// The row of a transaction that cannot be read.
pub(super) fn unreadable_transaction(source: CodecError) -> StoreError {
    StoreError::Row { table: "transaction_blocks", source }
}
