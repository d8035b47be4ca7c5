//! Every bound of the journal room, with the reason for its size.
//!
//! Nothing here depends on the host; a bound that is exceeded has a typed answer in `JournalError`.

use std::time::Duration;

/// Bytes of one merged batch, header included, at which the committer starts the next one.
/// A little under 256 KiB: redb rounds the page run of a value up to a power of two.
pub const BATCH_BYTES_TARGET: usize = 256 * 1024 - 512;

/// Bytes of one batch that may be stored at all: a single request larger than the target
/// becomes a batch of its own, up to here; beyond it the commit fails.
pub const BATCH_BYTES_MAX: usize = 16 * 1024 * 1024 - 512;

/// Payload bytes gathered into one durable commit, after which the rest waits for the next one.
pub const COMMIT_BYTES_TARGET: usize = 8 * 1024 * 1024;

/// Payload bytes that who hands them over may commit itself while nothing is under way: what comes
/// meanwhile waits for little more than the sync, which it would have waited for anyway.
pub const IN_PLACE_BYTES_MAX: usize = 16 * 1024;

/// Requests gathered into one durable commit, so that empty ones cannot hold up the first.
pub const COMMIT_REQUESTS_MAX: usize = 16 * 1024;

/// Batches let go of in one commit at least, while there are any to trim.
pub const TRIM_STEP_MIN: u64 = 16;

/// Batches let go of for each batch appended, so that trimming always outruns appending.
pub const TRIM_STEP_PER_APPENDED: u64 = 4;

/// Batches let go of in one commit at most, however small they are: about a millisecond's work.
pub const TRIM_STEP_MAX: u64 = 1024;

/// Bytes of durable batches kept in memory for who follows closely; older ones are in the file.
pub const FEED_BYTES_MAX: usize = 32 * 1024 * 1024;

/// How close two times of durability are noted apart.
pub const FEED_TIME_STEP: Duration = Duration::from_millis(1);

/// How many times of durability are noted: a lag of some seconds is told to the millisecond.
pub const FEED_TIMES_MAX: usize = 8 * 1024;

/// Bytes of redb's page cache for the journal: readers follow closely behind the writer.
pub const PAGE_CACHE_BYTES: usize = 64 * 1024 * 1024;

/// Bytes copied in one read transaction while the whole chain is checked.
pub const CHECK_READ_BYTES: usize = 4 * 1024 * 1024;

const _: () = assert!(BATCH_BYTES_TARGET < BATCH_BYTES_MAX);
const _: () = assert!(BATCH_BYTES_TARGET < COMMIT_BYTES_TARGET);
const _: () = assert!(BATCH_BYTES_MAX < u32::MAX as usize);
const _: () = assert!(BATCH_BYTES_MAX < FEED_BYTES_MAX && COMMIT_BYTES_TARGET < FEED_BYTES_MAX);
const _: () = assert!(TRIM_STEP_PER_APPENDED > 1);
const _: () = assert!(TRIM_STEP_MIN <= TRIM_STEP_MAX);
