//! A load: authorizations as fast as they are answered, or at a rate whatever becomes of them, and how
//! long each answer took.
//!
//! | file | what |
//! |---|---|
//! | `schedule`, `clock` | when each message is meant to be sent |
//! | `wire`, `iso`, `cards` | requests and answers as bytes |
//! | `client`, `connection`, `slots` | one thread with its connections; what waits for an answer |
//! | `tally` | what came of it |
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
pub mod iso;
pub mod schedule;
mod slots;
pub mod tally;
pub mod wire;

/// Why a load did not work, which nobody tells apart by kind.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
