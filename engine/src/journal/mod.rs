//! The journal: what was decided, in order, durable before anybody is told.
//!
//! This room knows bytes only. A batch is a chained header with opaque records behind it
//! (`chain`); one committer thread per partition gathers what the shard hands over, makes it
//! durable with one commit and releases the replies in order (`committer`); the traits here
//! are the seam under which the embedded implementation on redb lives (`redb`), and later
//! others.
//!
//! INVARIANT: a batch is never changed once written, and a reply leaves only when its own
//! commit and all earlier ones are certain.
//! What must not live here: the meaning of a record, retention policy, checkpoints.

mod ack_mark;
pub mod chain;
pub mod committer;
mod durable;
mod error;
mod feed;
mod follower;
pub mod limits;
mod metered;
pub mod overlay;
pub mod redb;
#[doc(hidden)]
pub mod testing;

pub use chain::{
    BatchHeader, BatchKind, BatchNumber, ChainCursor, ChainHash, ChainPosition, Epoch, SealedBatch,
};
pub use committer::{
    CommitDesk, CommitOutcome, CommitRequest, CommitterWiring, InPlace, Release, RunningCommitter,
    spawn_committer,
};
pub use durable::{DurablePosition, JournalHealth, TrimControl, TrimHold};
pub use error::{ChainFault, ChainFaultKind, JournalError};
pub use feed::{BatchFeed, Fed};
pub use follower::{JournalFollower, ProvenBatch};
pub(crate) use metered::MeteredJournal;
pub use redb::{RedbJournal, RedbReader};

/// Identifies the data directory that a journal belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirectoryId(pub [u8; 16]);

/// Whose journal it is: what every open compares with what the file says.
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

    /// Returns the oldest batch still kept.
    fn first(&self) -> BatchNumber;

    /// Writes `batches` in one durable commit, and lets go of some batches before `trim_before`.
    /// Errors: after any error nothing may be appended to this value any more; whether the
    /// batches became durable is unknown until the journal is opened again.
    /// Cost: one sync.
    fn append(
        &mut self,
        batches: &[SealedBatch],
        trim_before: BatchNumber,
    ) -> Result<(), JournalError>;

    /// Tells whether `trim` would let go of anything.
    fn can_trim(&self, before: BatchNumber) -> bool;

    /// Lets go of a bounded number of batches before `before`, as far as more is kept than was
    /// asked for; the last batch always stays.
    /// Cost: one sync, none when there is nothing to trim.
    fn trim(&mut self, before: BatchNumber) -> Result<(), JournalError>;
}

/// The reading side: usable from any thread, short read transactions only.
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

    /// Finds the batch that holds record `seq`.
    /// Errors: `Trimmed` if it is older than what is kept. `None` if it is not written yet.
    /// Cost: O(log n) reads.
    fn find_batch_of_seq(&self, seq: u64) -> Result<Option<BatchNumber>, JournalError>;
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

    fn find_batch_of_seq(&self, seq: u64) -> Result<Option<BatchNumber>, JournalError> {
        (**self).find_batch_of_seq(seq)
    }
}

/// A batch as it was read, not yet proven.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredBatch {
    /// The key it was stored under.
    pub number: BatchNumber,
    /// Header and records, in the layout of `chain`.
    pub bytes: Vec<u8>,
}
