//! The bounds of waiting mail, and of letters about declines.

use std::time::Duration;

/// How many letters wait at most; beyond, further ones are not taken.
pub const QUEUE_LETTERS_MAX: usize = 50_000;
/// Beyond so many, only those are taken that go first: bulk never takes the last room.
pub const QUEUE_IN_TURN_MAX: usize = 45_000;
const _: () = assert!(QUEUE_IN_TURN_MAX < QUEUE_LETTERS_MAX);
/// Beyond so many, notices of declines wait where they come from: links are worth more.
pub const QUEUE_NOTICES_MAX: usize = QUEUE_LETTERS_MAX / 2;
const _: () = assert!(QUEUE_NOTICES_MAX < QUEUE_IN_TURN_MAX);
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

/// How many letters about declines a cardholder gets in an hour, before one that there are more.
pub const DECLINES_PER_HOUR_MAX: u32 = 10;
/// So many wrong credentials of one card in an hour are suspicious.
pub const WRONG_CREDENTIALS_MAX: u32 = 3;
/// How many cardholders, and how many cards, are remembered.
pub const CARDHOLDERS_MAX: usize = 10_000;
/// How many transactions are read before other work may go on.
pub const DECLINES_SCAN_MAX: u64 = 20_000;
/// How often the cursor is written while no decline is found.
pub const CURSOR_INTERVAL: Duration = Duration::from_secs(60);
