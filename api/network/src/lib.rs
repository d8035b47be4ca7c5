//! The card network's doors: ISO 8583 over TCP and JSON over HTTP, with one core behind both.
//!
//! | file | what |
//! |---|---|
//! | `listener`, `connection` | the ISO 8583 door: who may come in, one task for each peer |
//! | `session` | what is said on a connection: messages to commands, answers to frames |
//! | `frame_buffer`, `in_flight` | a connection's bytes not yet read, its requests not yet answered |
//! | `buffers` | the memory that connections lend each other |
//! | `mapping`, `presented`, `fingerprint` | from a message to what is asked of the engine |
//! | `mapping_answer`, `de39` | from the engine's reply to an answer |
//! | `zone`, `replaced_key` | the security of a door's messages: codes, PINs, chips, new keys |
//! | `marks`, `local_naming` | the keys by which messages are named, the same for both doors |
//! | `answer_faults` | answers that come late, twice or not at all, for clients under test |
//! | `advice` | what a peer seems to speak that the door cannot read |
//! | `told_texts` | characters that steer in messages that must not be lost |
//! | `http` | the HTTP door |
//! | `limits`, `slow_bytes` | bounds of one connection; of what all keep for slow peers |
//! | `peer_board`, `counters` | peers and what was wrong with them; counts |

pub mod advice;
mod answer_faults;
mod buffers;
mod connection;
pub mod counters;
pub mod de39;
mod fingerprint;
pub mod frame_buffer;
pub mod http;
mod in_flight;
pub mod limits;
pub mod listener;
mod local_naming;
pub mod mapping;
pub mod mapping_answer;
pub mod marks;
pub mod peer_board;
mod presented;
pub mod replaced_key;
mod session;
mod slow_bytes;
mod told_texts;
pub mod zone;
