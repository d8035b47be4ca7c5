//! When a command is executed, and how its new ids are made.

use crate::domain::ids::Timestamp;
use crate::domain::public_id::IdMint;

/// See the head of this file.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// When it was accepted.
    pub at: Timestamp,
    /// Mints public ids.
    pub ids: &'a IdMint,
}
