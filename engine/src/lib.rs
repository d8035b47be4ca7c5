//! The authorization engine of cardswitch: decision, shard, journal, projection and query tables.
//!
//! Start at `engine/wiring.rs`, which wires every thread; `DESIGN.md` beside this crate gives
//! layouts, invariants and the crash matrix. Nothing here knows of sockets, JSON or decimals.

pub mod backup;
pub mod clock;
pub mod codec;
pub mod command;
pub mod data_directory;
pub mod decision;
pub mod directory;
pub mod disk;
pub mod domain;
pub mod engine;
pub mod inbox;
pub mod inspection;
pub mod journal;
pub mod layouts;
pub mod limits;
pub mod loader;
pub mod meters;
pub mod opaque;
pub mod packed;
mod recovery;
pub mod recovery_progress;
pub mod shard;
pub mod steps;
pub mod store;
pub mod submission;
pub mod verify;
