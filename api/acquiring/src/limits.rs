//! Every bound of a door's connections. Exceeding one has a defined answer.

use std::time::Duration;

/// The most messages of one connection with the engine; beyond, it is not read from.
pub const IN_FLIGHT_MAX: usize = 4_096;
/// The most bytes of answers that wait for a slow peer; beyond, it is not read from.
pub const OUTBOX_BYTES_MAX: usize = 256 * 1_024;
/// The most bytes that are read from a connection at a time.
pub const READ_BYTES: usize = 32 * 1_024;
/// The rounds of reading and writing of a connection before others of its thread have their turn.
pub const ROUNDS_MAX: usize = 16;
/// The most bytes that wait in all for peers that take no answers or send faster than they are
/// answered; beyond, such a peer's connection is closed.
pub const SLOW_BYTES_MAX_DEFAULT: usize = 64 * 1_024 * 1_024;
/// The most frames of length zero in a row; beyond, the connection is closed.
pub const EMPTY_FRAMES_MAX: usize = 16;
/// The silence that ends such a row: empty frames that keep a connection open come more seldom.
pub const EMPTY_FRAMES_PAUSE: Duration = Duration::from_secs(1);
/// The default time that a connection may be silent, half a message included.
pub const IDLE_LIMIT_DEFAULT: Duration = Duration::from_secs(15 * 60);
/// The time that a stopping door waits for answers and for peers to take them.
pub const DRAIN_WAIT: Duration = Duration::from_secs(3);
/// The most peers that are known at a time, of all doors; beyond, one without a connection is
/// forgotten.
pub const PEERS_MAX: usize = 256;
/// The number of last messages that are known of a peer.
pub const PEER_MESSAGES_MAX: usize = 8;
/// The number of last faults that are known of a peer.
pub const PEER_FAULTS_MAX: usize = 4;
/// The length of one such fault at most. Units: characters.
pub const PEER_FAULT_CHARS_MAX: usize = 300;

const _: () = assert!(IN_FLIGHT_MAX < cardswitch_engine::limits::QUEUED_COMMANDS_MAX);
const _: () = assert!(READ_BYTES >= cardswitch_iso8583::FRAME_BYTES_MAX);
