//! The card network's doors: ISO 8583 over TCP and JSON over HTTP, with one core behind both.
//!
//! | file | content |
//! |---|---|
//! | `listener`, `connection` | the ISO 8583 door: its allowed peers, one task for each |
//! | `session` | the conversation on a connection: messages to commands, answers to frames |
//! | `frame_buffer`, `in_flight` | a connection's bytes not yet read, its requests not yet answered |
//! | `buffers` | the memory that connections lend each other |
//! | `mapping`, `presented_card`, `fingerprint` | from a message to a command for the engine |
//! | `mapping_answer`, `de39` | from the engine's reply to an answer |
//! | `zone`, `replaced_key` | the security of a door's messages: codes, PINs, chips, new keys |
//! | `marks`, `local_naming` | the keys by which messages are named, the same for both doors |
//! | `answer_faults` | answers that come late, twice or not at all, for clients under test |
//! | `advice` | the dialect that an unreadable peer seems to speak |
//! | `advice_texts` | characters that steer in messages that must not be lost |
//! | `http` | the HTTP door |
//! | `limits`, `slow_bytes` | bounds of one connection; of the bytes that all keep for slow peers |
//! | `peer_board`, `counters` | peers and their faults; counts |

pub mod advice;
mod advice_texts;
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
mod presented_card;
pub mod replaced_key;
mod session;
mod slow_bytes;
pub mod zone;
