//! The reference model, and the simulated world that proves the engine against it.
//!
//! `model` computes the reply to each command, slowly and obviously; `workload` draws commands. `driver` drives a
//! shard alone; `world` runs a whole switch on one thread, simulated disks and a simulated clock, through the
//! happenings of its seed. `shrink` makes failing programs small.

#![expect(missing_docs, reason = "tests read it, and names say what a field is")]
#![expect(clippy::unwrap_used, reason = "a test stops where something is missing")]
#![expect(clippy::panic, reason = "a test says what differs and stops")]
#![expect(clippy::cast_possible_truncation, reason = "numbers here are small")]
#![expect(clippy::cast_sign_loss, reason = "numbers here are not negative")]

pub mod audit;
pub mod campaign;
pub mod disks;
pub mod driver;
pub mod happening;
mod letters;
pub mod marks;
pub mod model;
pub mod names;
mod nodes;
mod notes;
mod notices;
mod rates;
pub mod rng;
pub mod samples;
pub mod shrink;
mod sockets;
mod switch_view;
mod webhooks;
mod window;
pub mod workload;
pub mod world;
