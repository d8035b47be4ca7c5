//! Every bound of the journal room, with the reason for its size.
//!
//! Nothing here depends on the host; a bound that is exceeded has a typed answer in `JournalError`.

use std::time::Duration;

/// Bytes of one merged batch, header included, at which the committer starts the next one.
pub const BATCH_BYTES_TARGET: usize = 256 * 1024;

/// Bytes of one batch that may be stored at all: a single request larger than the target
/// becomes a batch of its own, up to here; beyond it the commit fails.
pub const BATCH_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Payload bytes gathered into one durable commit, after which the rest waits for the next one.
pub const COMMIT_BYTES_TARGET: usize = 8 * 1024 * 1024;

/// Payload bytes that a caller may commit itself while nothing is under way. Requests that come
/// meanwhile wait for little more than the sync, which they would have waited for anyway.
pub const IN_PLACE_BYTES_MAX: usize = 16 * 1024;

/// Bounds of a commit that an engine is opened with. Smaller ones are for simulated worlds, whose commits are
/// small: a start looks for a torn group as far as the bounds of this file reach.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommitLimits {
    /// `BATCH_BYTES_TARGET`, or less.
    pub batch_bytes: usize,
    /// `IN_PLACE_BYTES_MAX`, or less.
    pub in_place_bytes: usize,
}

impl Default for CommitLimits {
    fn default() -> Self {
        Self { batch_bytes: BATCH_BYTES_TARGET, in_place_bytes: IN_PLACE_BYTES_MAX }
    }
}

/// Requests gathered into one durable commit, so that empty ones cannot hold up the first.
pub const COMMIT_REQUESTS_MAX: usize = 16 * 1024;

/// Batches that the log of a node that leads may lack: a start reads them from the window, which has
/// some times as many.
pub const TRAIL_BATCHES_MAX: usize = 1024;
/// The same. Units: bytes.
pub const TRAIL_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Bytes that such a log writes at once, however soon after the write before. Units: bytes.
pub const TRAIL_SYNC_BYTES: usize = 1024 * 1024;
/// How long such a log lets more gather after a write: its syncs delay those of the window's service,
/// where both have one disk.
pub const TRAIL_PAUSE: Duration = Duration::from_millis(5);

/// Bytes of a segment file at least, however little is kept: it holds a merged batch.
pub const SEGMENT_BYTES_MIN: u64 = 512 * 1024;

/// Bytes of a segment file where only what recovery needs is kept: a new one at full speed costs the disk
/// two syncs some eight times a second.
pub const SEGMENT_BYTES_FOR_RECOVERY: u64 = 8 * 1024 * 1024;

/// Bytes of a segment file at most, but for one that holds a single larger batch: kept batches are
/// dropped in such steps, and a start proves at most one of them without need.
pub const SEGMENT_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// Bytes behind the newest batch that are kept written: writing to blocks that never were costs the
/// file system a commit of its own.
pub const ZERO_AHEAD_BYTES: u64 = 2 * 1024 * 1024;

/// Bytes written ahead in one step, which takes little longer than a commit.
pub const ZERO_STEP_BYTES: usize = 256 * 1024;

/// Bytes of durable batches kept in memory for a close follower; older ones are in the file.
pub const FEED_BYTES_MAX: usize = 32 * 1024 * 1024;

/// How close two times of durability are noted apart.
pub const FEED_TIME_STEP: Duration = Duration::from_millis(1);

/// Number of durability times that are noted: a lag of some seconds is known to the millisecond.
pub const FEED_TIMES_MAX: usize = 8 * 1024;

/// Bytes read at a time while the chain is proven.
pub const CHECK_READ_BYTES: usize = 4 * 1024 * 1024;

const _: () = assert!(BATCH_BYTES_TARGET < BATCH_BYTES_MAX);
const _: () = assert!(BATCH_BYTES_TARGET < COMMIT_BYTES_TARGET);
const _: () = assert!((BATCH_BYTES_TARGET as u64) < SEGMENT_BYTES_MIN);
const _: () = assert!(BATCH_BYTES_MAX < u32::MAX as usize);
const _: () = assert!(BATCH_BYTES_MAX < FEED_BYTES_MAX && COMMIT_BYTES_TARGET < FEED_BYTES_MAX);
const _: () = assert!(ZERO_STEP_BYTES as u64 <= ZERO_AHEAD_BYTES);
