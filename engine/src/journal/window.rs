//! The window: the newest batches of a chain and the writer that leads it, held by a service that
//! outlives any node.
//!
//! The service compares before it writes: an append names the tip it continues, and only that tip
//! is replaced. So there is one chain, however many nodes believe to lead; no clock and no lease
//! matters for it. The comparison includes the tip's writer: two nodes that take over at once seal
//! the same barrier.
//!
//! INVARIANT: a batch is in the window before any node's own journal has it.

use super::chain::{BatchNumber, ChainPosition, SealedBatch};
use super::{JournalError, StoredBatch};
use crate::limits::{HAND_OVER_BYTES, RECORD_BYTES_MAX};

/// Bytes of batches that one append carries, unless a single batch is larger.
pub const WINDOW_APPEND_BYTES: usize = 512 * 1024;

/// Bytes that a service of such windows takes in one request, and the part of them beside batches:
/// etcd takes 1.5 MiB.
const REQUEST_BYTES_MAX: usize = 1536 * 1024;
const REQUEST_BYTES_BESIDE: usize = 64 * 1024;

const _: () = assert!(
    HAND_OVER_BYTES + RECORD_BYTES_MAX + REQUEST_BYTES_BESIDE < REQUEST_BYTES_MAX,
    "the largest batch fits a request"
);

/// One run of one node: another run of the same node is another writer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct WriterId(pub u128);

impl std::fmt::Display for WriterId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The newest batch of the chain, and its writer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WindowTip {
    /// The batch.
    pub position: ChainPosition,
    /// The writer that leads.
    pub writer: WriterId,
}

/// The outcome of an append.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AppendOutcome {
    /// The batches are in the window, and the tip is the last of them.
    Written,
    /// The tip is not the one named. Nothing was written by this request; an earlier request with
    /// the same bytes may have been.
    Refused,
}

/// Why the window gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum WindowError {
    /// The service does not answer. A write may have happened, or may still happen.
    #[error("the window does not answer: {0}")]
    Unavailable(String),
    /// The batch asked for is not in the window any more.
    #[error("batch {} is not in the window any more, the oldest is {}", wanted.0, first.0)]
    Trimmed {
        /// The batch.
        wanted: BatchNumber,
        /// The oldest batch in the window.
        first: BatchNumber,
    },
    /// It is not used any more: this node stops.
    #[error("this node stops")]
    Closed,
    /// The window ends before this node's journal does, or with another batch. How both end.
    #[error("{0}: they are not of one chain")]
    Parted(String),
    /// The service holds something else than a window of this chain.
    #[error("{0}")]
    Foreign(String),
}

/// A connection to the window of one chain, as one writer.
pub trait ChainWindow: Send {
    /// The writer of this connection.
    fn writer(&self) -> WriterId;

    /// Returns the tip as of now: no older answer than the newest write.
    /// Errors: as `WindowError` says; it takes its time before it reports `Unavailable`.
    fn tip(&mut self) -> Result<WindowTip, WindowError>;

    /// Writes `batches`, which continue `after`, and this writer's tip behind them, if the tip is
    /// exactly `after`.
    /// Errors: as for `tip`; whether `Unavailable` wrote is not known.
    fn append(
        &mut self,
        after: &WindowTip,
        batches: &[SealedBatch],
    ) -> Result<AppendOutcome, WindowError>;

    /// Reads batches from `number` on, oldest first, about `limit_bytes` in all; empty behind the tip.
    /// The bytes are unproven.
    /// Errors: as for `tip`; `Trimmed`.
    fn read_from(
        &mut self,
        number: BatchNumber,
        limit_bytes: usize,
    ) -> Result<Vec<StoredBatch>, WindowError>;
}

/// Appends and learns the outcome, however long that takes. Returns the new tip.
/// Errors: `Fenced` where another writer leads; the window is closed or no window of this chain.
pub(crate) fn append_certainly(
    window: &mut dyn ChainWindow,
    after: &WindowTip,
    batches: &[SealedBatch],
) -> Result<WindowTip, JournalError> {
    let last = batches.last().expect("an append carries batches");
    let new = WindowTip { position: last.position(), writer: window.writer() };
    loop {
        match window.append(after, batches) {
            Ok(AppendOutcome::Written) => return Ok(new),
            Ok(AppendOutcome::Refused) | Err(WindowError::Unavailable(_)) => {}
            Err(error) => return Err(JournalError::Window(error)),
        }
        let tip = tip_certainly(window)?;
        if tip == new {
            // An earlier request arrived, and its answer did not.
            return Ok(new);
        }
        if tip != *after {
            return Err(JournalError::Fenced { leader: tip.writer, epoch: tip.position.epoch });
        }
    }
}

/// Reads the tip, however long that takes.
pub(crate) fn tip_certainly(window: &mut dyn ChainWindow) -> Result<WindowTip, JournalError> {
    loop {
        match window.tip() {
            Ok(tip) => return Ok(tip),
            Err(WindowError::Unavailable(_)) => {}
            Err(error) => return Err(JournalError::Window(error)),
        }
    }
}
