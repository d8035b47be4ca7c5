//! What can go wrong in the store, one enum for the room.
//!
//! Messages are written for the person who starts the switch; they name tables and keys, never the
//! contents of a row.

use std::fmt;
use std::path::PathBuf;

use redb::{CommitError, DatabaseError, SetDurabilityError, TableError, TransactionError};

use crate::codec::CodecError;

/// Why the store cannot be opened, read or written.
#[derive(Debug)]
pub enum StoreError {
    /// Another process has the store open.
    InUse,
    /// There is a store already where one is to be made.
    AlreadyExists {
        /// Where.
        path: PathBuf,
    },
    /// The file is not a store.
    NotAStore {
        /// What was found instead.
        what: String,
    },
    /// Written by a build with another layout.
    UnknownFormat {
        /// The version found.
        found: u32,
        /// The version this build reads.
        supported: u32,
    },
    /// Made in another data directory.
    ForeignDirectory {
        /// The directory that the file names.
        found: [u8; 16],
        /// The directory that was opened.
        expected: [u8; 16],
    },
    /// A row cannot be read or written.
    Row {
        /// Where it stands.
        table: &'static str,
        /// Why not.
        source: CodecError,
    },
    /// Rows contradict each other.
    Inconsistent {
        /// Which, and how.
        what: String,
    },
    /// Pages of the file are not what was written.
    Damaged {
        /// Which, as far as that is known.
        what: String,
    },
    /// The storage failed.
    Storage(Box<redb::Error>),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse => write!(f, "the store is in use by another process"),
            Self::AlreadyExists { path } => {
                write!(f, "there is a file already at `{}`", path.display())
            }
            Self::NotAStore { what } => write!(f, "the file is not a store: {what}"),
            Self::UnknownFormat { found, supported } => {
                write!(f, "the store is of format {found}, this build reads format {supported}")
            }
            Self::ForeignDirectory { .. } => {
                write!(f, "the store belongs to another data directory")
            }
            Self::Row { table, source } => write!(f, "a row of table {table}: {source}"),
            Self::Inconsistent { what } => write!(f, "the store contradicts itself: {what}"),
            Self::Damaged { what } => write!(f, "the store's file is damaged: {what}"),
            Self::Storage(source) => write!(f, "the store's file: {source}"),
        }
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Row { source, .. } => Some(source),
            Self::Storage(source) => Some(source),
            _ => None,
        }
    }
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
