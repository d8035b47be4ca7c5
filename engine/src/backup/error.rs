//! Failures to make a backup, or a directory out of one: one enum for the room, in words for the
//! caller.

use std::io;
use std::path::PathBuf;

use crate::codec::CodecError;
use crate::data_directory::DirectoryError;
use crate::domain::ids::Timestamp;
use crate::engine::OpenError;
use crate::journal::JournalError;
use crate::store::StoreError;
use crate::verify::VerifyError;

const MIB: u64 = 1 << 20;

/// A failure to make a copy.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// A data directory.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The place is taken already.
    #[error("`{0}` exists already")]
    Exists(PathBuf),
    /// The place of the unfinished copy is taken by something else.
    #[error("`{0}` is needed for the unfinished copy, but is none: move it away")]
    InTheWay(PathBuf),
    /// Tables or a journal.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A record cannot be read.
    #[error("record {0} cannot be read: {1}")]
    Record(u64, CodecError),
    /// The engine has ended.
    #[error("the switch is stopping")]
    ShutDown,
    /// The tables are of a later moment than the one asked for.
    #[error("the backup is of a later moment; take one that was made before it")]
    TooLate {
        /// The instant of the tables.
        tables_at: Timestamp,
    },
    /// The tables at that moment are not to be used.
    #[error("{0}")]
    Unfit(String),
    /// The further journal begins after the end of the backup's.
    #[error(
        "the journal begins with batch {first}, but the backup has to go on with batch {needed}: \
         take a later backup, or a journal that was kept longer"
    )]
    Gap {
        /// The batch that had to follow.
        needed: u64,
        /// The first one there is.
        first: u64,
    },
    /// The further journal ends where the backup's does, or before.
    #[error("{}", nothing_further(*.last, *.known))]
    NothingFurther {
        /// Its last batch, if it has one.
        last: Option<u64>,
        /// The last batch of the backup.
        known: u64,
    },
    /// The further journal tells another history than the backup's.
    #[error(
        "the journal does not follow on the backup: at batch {batch} they tell different \
         histories, as when a restored copy went on beside the original"
    )]
    OtherHistory {
        /// The batch from which on they differ, at the latest.
        batch: u64,
    },
    /// The copy would not fit.
    #[error(
        "`{place}`: the copy needs about {} MiB, and {} MiB are free there", .needed.div_ceil(MIB), .free / MIB
    )]
    NoRoom {
        /// The place of the copy.
        place: PathBuf,
        /// The room that it takes, about. Units: bytes.
        needed: u64,
        /// The free room. Units: bytes.
        free: u64,
    },
    /// The system refused.
    #[error("`{0}`: {1}")]
    Io(PathBuf, io::Error),
}

impl From<VerifyError> for CopyError {
    fn from(error: VerifyError) -> Self {
        match error {
            VerifyError::Directory(error) => Self::Directory(error),
            VerifyError::Open(error) => Self::Open(error),
            error @ VerifyError::Projection(_) => OpenError::Tables(error.to_string()).into(),
        }
    }
}

impl From<StoreError> for CopyError {
    fn from(error: StoreError) -> Self {
        Self::Open(error.into())
    }
}

impl From<JournalError> for CopyError {
    fn from(error: JournalError) -> Self {
        Self::Open(error.into())
    }
}

fn nothing_further(last: Option<u64>, known: u64) -> String {
    match last {
        Some(last) => format!(
            "the journal ends with batch {last}, but the backup has batch {known} already: it adds \
             nothing; restore without it, or take a later one"
        ),
        None => "the journal has no batch: it adds nothing; restore without it".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::ProjectionError;

    /// Once, both named an empty path.
    #[test]
    fn tables_that_cannot_follow_are_named() {
        let projection = ProjectionError::Sequence { expected: 7, found: 9 };
        let error = CopyError::from(VerifyError::Projection(projection)).to_string();
        assert_eq!(error, "query tables: record 9 stands where record 7 had to follow");
        let error = CopyError::from(OpenError::Tables("they stand still".into())).to_string();
        assert_eq!(error, "they stand still");
    }
}
