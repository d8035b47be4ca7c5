//! Why there is no backup, or no directory out of one: one enum for the room, in words for whoever asked.

use std::io;
use std::path::PathBuf;

use crate::codec::CodecError;
use crate::data_directory::DirectoryError;
use crate::domain::ids::Timestamp;
use crate::engine::OpenError;
use crate::journal::JournalError;
use crate::store::StoreError;

const MIB: u64 = 1 << 20;

/// Why there is no copy.
#[derive(Debug)]
pub enum CopyError {
    /// A data directory.
    Directory(DirectoryError),
    /// Something is at the place already.
    Exists(PathBuf),
    /// What has to make room for an unfinished copy is none itself.
    InTheWay(PathBuf),
    /// Tables.
    Store(StoreError),
    /// A journal.
    Journal(JournalError),
    /// A record cannot be read.
    Record(u64, CodecError),
    /// The engine has ended.
    ShutDown,
    /// The tables are of a later moment than the one asked for.
    TooLate {
        /// Of when they are.
        tables_at: Timestamp,
    },
    /// The further journal begins after the end of the backup's.
    Gap {
        /// The batch that had to follow.
        needed: u64,
        /// The first one there is.
        first: u64,
    },
    /// The further journal ends where the backup's does, or before.
    NothingFurther {
        /// Its last batch, if it has one.
        last: Option<u64>,
        /// The last batch of the backup.
        known: u64,
    },
    /// The further journal tells another history than the backup's.
    OtherHistory {
        /// From this batch on, at the latest.
        batch: u64,
    },
    /// The copy would not fit.
    NoRoom {
        /// Where it was to be.
        place: PathBuf,
        /// What it takes, about. Units: bytes.
        needed: u64,
        /// What there is. Units: bytes.
        free: u64,
    },
    /// The system refused.
    Io(PathBuf, io::Error),
}

impl std::fmt::Display for CopyError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Directory(error) => error.fmt(formatter),
            Self::Exists(path) => write!(formatter, "`{}` exists already", path.display()),
            Self::InTheWay(path) => write!(
                formatter,
                "`{}` is needed for the unfinished copy, but is none: move it away",
                path.display()
            ),
            Self::Store(error) => write!(formatter, "query tables: {error}"),
            Self::Journal(error) => write!(formatter, "journal: {error}"),
            Self::Record(seq, error) => write!(formatter, "record {seq} cannot be read: {error}"),
            Self::ShutDown => formatter.write_str("the switch is stopping"),
            Self::TooLate { .. } => formatter
                .write_str("the backup is of a later moment; take one that was made before it"),
            Self::Gap { needed, first } => write!(
                formatter,
                "the journal begins with batch {first}, but the backup has to go on with batch \
                 {needed}: take a later backup, or a journal that was kept longer"
            ),
            Self::NothingFurther { last: Some(last), known } => write!(
                formatter,
                "the journal ends with batch {last}, but the backup has batch {known} already: it \
                 adds nothing; restore without it, or take a later one"
            ),
            Self::NothingFurther { last: None, .. } => {
                formatter.write_str("the journal has no batch: it adds nothing; restore without it")
            }
            Self::OtherHistory { batch } => write!(
                formatter,
                "the journal does not follow on the backup: at batch {batch} they tell different \
                 histories, as when a restored copy went on beside the original"
            ),
            Self::NoRoom { place, needed, free } => write!(
                formatter,
                "`{}`: the copy takes about {} MiB, and {} MiB are free there",
                place.display(),
                needed.div_ceil(MIB),
                free / MIB
            ),
            Self::Io(path, error) => write!(formatter, "`{}`: {error}", path.display()),
        }
    }
}

impl std::error::Error for CopyError {}

impl From<DirectoryError> for CopyError {
    fn from(error: DirectoryError) -> Self {
        Self::Directory(error)
    }
}

impl From<StoreError> for CopyError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<JournalError> for CopyError {
    fn from(error: JournalError) -> Self {
        Self::Journal(error)
    }
}

impl From<OpenError> for CopyError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Journal(error) => Self::Journal(error),
            OpenError::Store(error) => Self::Store(error),
            OpenError::Record { batch, source } => Self::Record(batch, source),
            OpenError::Thread(error) => Self::Io(PathBuf::new(), error),
        }
    }
}
