//! The authorization engine.

pub mod journal;
