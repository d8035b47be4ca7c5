//! The conversation with acquirers over ISO 8583, as steps: bytes to commands, replies to bytes.
//!
//! | file | content |
//! |---|---|
//! | `connection` | a peer's connection: what is read, taken, answered and written at a step |
//! | `door_parts` | the parts that all connections of a door share |
//! | `session` | the conversation on it: messages to commands, answers to frames |
//! | `submit` | the way into the engine |
//! | `frame_buffer`, `in_flight` | a connection's bytes not yet read, its requests not yet answered |
//! | `buffers` | the memory that connections lend each other |
//! | `mapping`, `presented_card`, `fingerprint` | from a message to a command for the engine |
//! | `mapping_answer`, `de39` | from the engine's reply to an answer |
//! | `zone`, `replaced_key` | the security of a door's messages: codes, PINs, chips, new keys |
//! | `zone_port` | clocks and randomness for the exchange of keys |
//! | `marks`, `local_naming` | the keys by which messages are named, the same for both doors |
//! | `fault_plan`, `answer_faults` | answers that come late, twice or not at all, for clients under test |
//! | `advice` | the dialect that an unreadable peer seems to speak |
//! | `advice_texts` | characters that steer in messages that must not be lost |
//! | `limits`, `slow_bytes` | bounds of one connection; of the bytes that all keep for slow peers |
//! | `peer_board`, `counters` | peers and their faults; counts |
//! | `address_counts` | how many of something each address has |
//!
//! INVARIANT: nothing here waits, sleeps or holds a socket, and nothing reads a clock or draws: time and randomness are
//! given. A running switch drives a connection by a task (`connection.rs` of `network`), the simulator by its own time
//! and streams. Stopwatches only measure.

pub mod address_counts;
pub mod advice;
pub mod advice_texts;
mod answer_faults;
mod buffers;
pub mod connection;
pub mod counters;
pub mod de39;
pub mod door_parts;
pub mod fault_plan;
mod fingerprint;
pub mod frame_buffer;
mod in_flight;
pub mod limits;
mod local_naming;
pub mod mapping;
pub mod mapping_answer;
pub mod marks;
pub mod peer_board;
pub mod presented_card;
pub mod replaced_key;
mod session;
pub mod slow_bytes;
pub mod submit;
pub mod zone;
pub mod zone_port;
