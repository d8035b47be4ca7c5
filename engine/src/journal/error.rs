//! The errors of the journal, one enum for the room.
//!
//! Messages are written for the person who starts the switch: they name the key and the offset,
//! and never record contents.

use std::fmt;
use std::io::ErrorKind;

use super::window::{WindowError, WriterId};
use super::{BatchNumber, DirectoryId, Epoch};

/// Why stored bytes are not a valid continuation of the chain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChainFault {
    /// The number that the batch gives itself, if its header could be read.
    pub number: Option<BatchNumber>,
    /// The place in the batch at which the fault shows.
    pub offset: usize,
    /// The fault.
    pub what: ChainFaultKind,
}

/// The ways in which a batch can be invalid.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ChainFaultKind {
    /// Shorter than a header, or not as long as the header says.
    #[error("the length is not what the header says")]
    Length,
    /// Does not start with the magic of a batch.
    #[error("it does not start like a batch")]
    Magic,
    /// Written in a layout newer than this build knows.
    #[error("it is of format {0}, newer than known")]
    NewerFormat(u8),
    /// Neither a barrier nor a batch.
    #[error("it is of unknown kind {0}")]
    Kind(u8),
    /// The CRC32C over the batch is another.
    #[error("the checksum is wrong")]
    Checksum,
    /// Belongs to another partition.
    #[error("it belongs to partition {0}")]
    Partition(u16),
    /// Not the number that follows.
    #[error("batch {} had to follow", .expected.0)]
    Gap {
        /// The number that had to follow.
        expected: BatchNumber,
    },
    /// Does not carry the hash of the batch before it.
    #[error("it does not continue the batch before it")]
    BrokenLink,
    /// Its first record does not follow.
    #[error("record {expected} had to follow")]
    SequenceGap {
        /// The record that had to follow.
        expected: u64,
    },
    /// A batch of a higher epoch without a barrier before it.
    #[error("its epoch has no barrier")]
    EpochWithoutBarrier,
    /// A barrier that does not raise the epoch.
    #[error("the barrier does not raise the epoch")]
    BarrierWithoutEpoch,
    /// A barrier with records, or a batch without any.
    #[error("the record count does not fit its kind")]
    RecordCount,
}

impl fmt::Display for ChainFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number {
            Some(number) => write!(f, "batch {}: {}", number.0, self.what),
            None => self.what.fmt(f),
        }
    }
}

impl std::error::Error for ChainFault {}

/// Why the journal cannot be opened, read or written.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Another process has the journal open.
    #[error("the journal is in use by another process")]
    InUse,
    /// The file is not a journal.
    #[error("this is not a journal: {what}")]
    NotAJournal {
        /// The content found instead.
        what: String,
    },
    /// Written by a later build.
    #[error("the journal is of format {found}, this build reads formats up to {supported}")]
    NewerFormat {
        /// The version found.
        found: u32,
        /// The newest version this build reads.
        supported: u32,
    },
    /// Made in another data directory.
    #[error(
        "the journal belongs to data directory {}, not to {}",
        hex(.found),
        hex(.expected)
    )]
    ForeignDirectory {
        /// The directory that the file names.
        found: DirectoryId,
        /// The directory that was opened.
        expected: DirectoryId,
    },
    /// Holds another partition.
    #[error("the journal holds partition {found}, not {expected}")]
    ForeignPartition {
        /// The partition that the file names.
        found: u16,
        /// The partition that was opened.
        expected: u16,
    },
    /// Does not reach the checkpoint of the tables.
    #[error(
        "the journal ends at {}, before the checkpoint of the tables at batch {}",
        last_batch(*.last),
        .checkpoint.0
    )]
    EndsBeforeCheckpoint {
        /// The batch of the checkpoint.
        checkpoint: BatchNumber,
        /// The last batch found, if any.
        last: Option<BatchNumber>,
    },
    /// Begins only after the batch that follows the checkpoint.
    #[error("{}", late_start(*.checkpoint, *.first))]
    StartsAfterCheckpoint {
        /// The batch of the checkpoint.
        checkpoint: BatchNumber,
        /// The first batch found.
        first: BatchNumber,
    },
    /// Has another history than the tables.
    #[error("the journal and the checkpoint of the tables differ at batch {}", .checkpoint.0)]
    DiffersFromCheckpoint {
        /// The batch of the checkpoint.
        checkpoint: BatchNumber,
    },
    /// Ends before a batch whose replies have left.
    #[error(
        "the journal ends at {}, but batch {} was acknowledged{}",
        last_batch(*.last),
        .acknowledged.0,
        damage_note(.damage.as_ref())
    )]
    EndsBeforeAcknowledged {
        /// The last batch acknowledged.
        acknowledged: BatchNumber,
        /// The last batch found, if any.
        last: Option<BatchNumber>,
        /// The place at which the next batch had to be, if the journal has any.
        damage: Option<Damage>,
    },
    /// A batch that is not a valid continuation of the chain.
    #[error("the journal is damaged in batch {number}, offset {offset}: {what}")]
    Corrupt {
        /// The number that it had to have.
        number: u64,
        /// The place in the batch at which the fault shows. Units: bytes.
        offset: u64,
        /// The fault.
        what: String,
    },
    /// A file of the journal is damaged or missing.
    #[error("the journal is damaged in `{file}` at offset {offset}: {what}")]
    Damaged {
        /// Its name.
        file: String,
        /// The place in the file at which the fault shows. Units: bytes.
        offset: u64,
        /// The fault.
        what: String,
    },
    /// The batch asked for is not kept any more.
    #[error("the batch is not kept any more, the oldest is {}", .first.0)]
    Trimmed {
        /// The oldest batch kept.
        first: BatchNumber,
    },
    /// One request carries more than a batch may hold.
    #[error("a batch of {bytes} bytes is larger than a journal takes")]
    BatchTooLarge {
        /// Its size.
        bytes: usize,
    },
    /// A request does not continue the records before it.
    #[error("record {found} was handed over where {expected} had to follow")]
    OutOfOrder {
        /// The record that had to follow.
        expected: u64,
        /// The record that came.
        found: u64,
    },
    /// Another node leads the chain: nothing of this one is written any more.
    #[error("another node leads since epoch {}, as writer {leader}", .epoch.0)]
    Fenced {
        /// The writer that leads.
        leader: WriterId,
        /// The epoch since which it leads.
        epoch: Epoch,
    },
    /// The window of the chain.
    #[error("{0}")]
    Window(WindowError),
    /// An earlier write failed: nothing is written any more.
    #[error("an earlier write to the journal failed")]
    Failed,
    /// The operating system reports an error.
    #[error("{doing}: {source}")]
    Io {
        /// The operation that failed.
        doing: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
    /// The storage code gave up in an unexpected state.
    #[error("the journal's storage gave up: {what}")]
    Panicked {
        /// Its last words.
        what: String,
    },
}

/// The place at which a batch had to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage {
    /// The file's name.
    pub file: String,
    /// The offset in the file at which it had to begin. Units: bytes.
    pub file_offset: u64,
}

impl JournalError {
    /// Describes the fault of the bytes that had to be batch `number`.
    pub(crate) fn corrupt(number: u64, fault: &ChainFault) -> Self {
        Self::Corrupt { number, offset: fault.offset as u64, what: fault.to_string() }
    }

    /// Whether the disk was full, or the quota of the owner.
    pub(super) fn is_no_room(&self) -> bool {
        let Self::Io { source, .. } = self else { return false };
        matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
    }

    /// Adds the failed operation to an error of the operating system.
    pub(crate) fn io(doing: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }
}

/// Reads the message of a panic.
pub(super) fn last_words(panic: &(dyn std::any::Any + Send)) -> String {
    match (panic.downcast_ref::<String>(), panic.downcast_ref::<&str>()) {
        (Some(words), _) => words.clone(),
        (None, Some(words)) => (*words).to_owned(),
        (None, None) => "without a word".to_owned(),
    }
}

fn hex(id: &DirectoryId) -> String {
    id.0.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn last_batch(last: Option<BatchNumber>) -> String {
    last.map_or_else(|| "its very beginning".to_owned(), |number| format!("batch {}", number.0))
}

/// A journal that starts too late: the checkpoint's batch, 0 without tables, and the first batch found.
fn late_start(BatchNumber(checkpoint): BatchNumber, BatchNumber(first): BatchNumber) -> String {
    if checkpoint == 0 {
        return format!(
            "`store.redb` is missing or empty, and the journal cannot make it anew: older batches than {first} \
             are trimmed; restore a backup, with the `--journal` of this directory"
        );
    }
    format!(
        "the journal starts at batch {first}, after the checkpoint of the tables at batch {checkpoint}"
    )
}

fn damage_note(damage: Option<&Damage>) -> String {
    damage.map_or_else(String::new, |Damage { file, file_offset }| {
        format!("; the next one had to be in `{file}` at offset {file_offset}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_and_a_spent_quota_leave_no_room() {
        for (kind, is_no_room) in [
            (ErrorKind::StorageFull, true),
            (ErrorKind::QuotaExceeded, true),
            (ErrorKind::Other, false),
        ] {
            assert_eq!(JournalError::io("a write")(kind.into()).is_no_room(), is_no_room, "{kind}");
        }
    }
}
