//! The journal: the decisions, in order, durable before any reply leaves.
//!
//! This room knows bytes only. A batch is a chained header with opaque records behind it
//! (`chain`); one committer thread per partition gathers the requests of the shard, makes them
//! durable with one write and releases the replies in order (`committer`); the traits here
//! are the seam under which the log of segment files lives (`log`), and later others.
//!
//! INVARIANT: a batch is never changed once written, and a reply leaves only when its own
//! commit and all earlier ones are certain.
//! Must not live here: the meaning of a record, retention policy, checkpoints.

mod ack_mark;
pub mod chain;
pub mod committer;
mod durable;
mod error;
mod feed;
mod follower;
pub mod limits;
pub mod log;
mod replicated_journal;
#[doc(hidden)]
pub mod testing;
mod trail;
pub mod window;

pub use chain::{
    BatchHeader, BatchKind, BatchNumber, ChainCursor, ChainHash, ChainPosition, Epoch, SealedBatch,
};
pub use committer::{
    CommitDesk, CommitOutcome, CommitRequest, CommitterSteps, CommitterWiring, DirectCommit,
    Release, RunningCommitter, spawn_committer,
};
pub use durable::{DurablePosition, JournalHealth, TrimControl, TrimHold};
pub use error::{ChainFault, ChainFaultKind, JournalError};
pub use feed::{BatchFeed, FeedReply};
pub use follower::{JournalFollower, ProvenBatch};
pub use log::{LogJournal, LogReader, LogRetention};
pub(crate) use replicated_journal::ReplicatedJournal;
pub(crate) use trail::TrailWiring;
pub use trail::{Trail, TrailSteps};

use std::sync::Arc;

/// Identifies the data directory that a journal belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirectoryId(pub [u8; 16]);

/// The identity of a journal, compared with the file at every open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JournalIdentity {
    /// The data directory that the journal was made in.
    pub directory_id: DirectoryId,
    /// The partition whose batches it holds.
    pub partition: u16,
}

/// The writing side of one partition's journal, owned by its committer.
pub trait Journal: Send {
    /// Returns the last batch written, which the next one continues.
    fn tip(&self) -> ChainPosition;

    /// Writes `batches` as one group, durable when it returns.
    /// Errors: after any error nothing may be appended to this value any more; whether the
    /// batches became durable is unknown until the journal is opened again.
    /// Cost: one sync.
    fn append(&mut self, batches: &[SealedBatch]) -> Result<(), JournalError>;

    /// The way to a log that is written behind the replies, where an append does not write everything.
    fn trail(&self) -> Option<&Arc<Trail>> {
        None
    }

    /// Makes certain that the batch appended last still is the newest of the chain: an answer without a
    /// record depends on that as much as one with a record.
    /// Errors: as `append`.
    /// Cost: nothing where only one process can write.
    fn confirm(&mut self) -> Result<(), JournalError> {
        Ok(())
    }

    /// Tells whether `keep_up` would do anything.
    fn needs_upkeep(&self, _trim_before: BatchNumber) -> bool {
        false
    }

    /// Does one step of upkeep, which makes the next appends cheap, and drops old batches
    /// before `trim_before` beyond the size to keep; the last batch always stays.
    /// Errors: as `append`.
    /// Cost: about one sync.
    fn keep_up(&mut self, _trim_before: BatchNumber) -> Result<(), JournalError> {
        Ok(())
    }
}

/// The reading side: usable from any thread.
pub trait JournalReader: Send + Sync {
    /// Returns the oldest batch still kept.
    fn first(&self) -> Result<BatchNumber, JournalError>;

    /// Returns the newest batch.
    fn last(&self) -> Result<BatchNumber, JournalError>;

    /// Copies batches from `number` on, at least one if there is one, about `limit_bytes` in all.
    /// The bytes are unproven: only a `ChainCursor` (or a `JournalFollower`) makes them records.
    /// Errors: `Trimmed` if `number` is not kept any more.
    fn read_from(
        &self,
        number: BatchNumber,
        limit_bytes: usize,
    ) -> Result<Vec<StoredBatch>, JournalError>;
}

impl<J: JournalReader + ?Sized> JournalReader for &J {
    fn first(&self) -> Result<BatchNumber, JournalError> {
        (**self).first()
    }

    fn last(&self) -> Result<BatchNumber, JournalError> {
        (**self).last()
    }

    fn read_from(
        &self,
        number: BatchNumber,
        limit_bytes: usize,
    ) -> Result<Vec<StoredBatch>, JournalError> {
        (**self).read_from(number, limit_bytes)
    }
}

/// A note for the operator about a journal that was opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JournalNote {
    /// A group that was cut short by a crash was dropped. No reply for it had left.
    TornTail {
        /// The file that it stands in.
        file: String,
        /// The offset at which it begins. Units: bytes.
        offset: u64,
        /// The newest record before it.
        last_seq: u64,
        /// Whether a batch of the group is whole, behind a torn one.
        has_whole_batch: bool,
    },
    /// The file system does not reserve room: commits take longer, and the disk may be found full
    /// by one.
    NotPreallocated,
}

impl std::fmt::Display for JournalNote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TornTail { file, offset, last_seq, .. } => write!(
                f,
                "what a crash had cut short was dropped from `{file}` at offset {offset}: the \
                 journal goes on after record {last_seq}"
            ),
            Self::NotPreallocated => write!(
                f,
                "the file system cannot reserve room for the journal: commits take longer, and one \
                 may find the disk full"
            ),
        }
    }
}

/// A batch as it was read, not yet proven.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredBatch {
    /// The number under which it was found.
    pub number: BatchNumber,
    /// Header and records, in the layout of `chain`.
    pub bytes: Vec<u8>,
}
