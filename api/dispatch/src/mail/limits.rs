//! The bounds of waiting mail.

use std::time::Duration;

/// How many letters wait at most; beyond, further ones are not taken.
pub const QUEUE_LETTERS_MAX: usize = 50_000;
/// Beyond so many, only those are taken that go first: bulk never takes the last room.
pub const QUEUE_IN_TURN_MAX: usize = 45_000;
const _: () = assert!(QUEUE_IN_TURN_MAX < QUEUE_LETTERS_MAX);
/// The longest file of the queue. Units: bytes.
pub const FILE_BYTES_MAX: u64 = 256 << 10;

/// How long a letter is tried for.
pub const AGE_MAX: Duration = Duration::from_secs(3 * 24 * 60 * 60);
/// The longest wait between two tries of one letter.
pub const RETRY_WAIT_MAX: Duration = Duration::from_secs(4 * 60 * 60);
/// How often a letter is refused for good before that is believed: a server that is set up wrong
/// says so of every letter.
pub const REFUSALS_MAX: u32 = 3;
/// The first wait after a server was not reached; each further one is twice as long.
pub const SERVER_WAIT_MIN: Duration = Duration::from_secs(1);
/// The longest wait for a server that is not reached.
pub const SERVER_WAIT_MAX: Duration = Duration::from_secs(2 * 60);
