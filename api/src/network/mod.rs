//! The card network's doors: ISO 8583 over TCP and JSON over HTTP, with one core behind both.
//!
//! | file | what |
//! |---|---|
//! | `listener`, `connection` | the ISO 8583 door: who may come in, one task for each peer |
//! | `frame_buffer`, `in_flight` | a connection's bytes not yet read, its requests not yet answered |
//! | `mapping`, `presented`, `fingerprint` | from a message to what is asked of the engine |
//! | `mapping_answer`, `de39` | from the engine's reply to an answer |
//! | `marks` | the keys by which messages are named, the same for both doors |
//! | `limits`, `peers`, `counters` | bounds, the allow-list, what was seen |

mod connection;
pub mod counters;
pub mod de39;
mod fingerprint;
mod frame_buffer;
mod in_flight;
pub mod limits;
pub mod listener;
pub mod mapping;
pub mod mapping_answer;
pub mod marks;
pub mod peers;
mod presented;
