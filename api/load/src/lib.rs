//! A load: authorizations as fast as they are answered, or at a rate without regard to answers, and
//! the time of each answer.
//!
//! | file | content |
//! |---|---|
//! | `load` | a load: its pace and its time |
//! | `schedule`, `clock` | the instants at which messages are meant to be sent |
//! | `wire`, `iso`, `http`, `cards` | requests and answers as bytes |
//! | `client`, `connection`, `slots` | one thread with its connections; the requests in flight |
//! | `tally`, `latencies` | the results |
//! | `echo`, `blocks` | counterparts that do no work: a server, a file |
//!
//! It measures and proves nothing: whether the books are right is for the feed to say. Linux only; elsewhere
//! this crate is empty.

#![cfg(target_os = "linux")]

pub mod blocks;
pub mod cards;
pub mod client;
pub mod clock;
mod connection;
pub mod echo;
pub mod http;
pub mod iso;
pub mod latencies;
pub mod load;
pub mod schedule;
mod slots;
pub mod tally;
pub mod wire;

/// A failure of a load, in words alone.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
