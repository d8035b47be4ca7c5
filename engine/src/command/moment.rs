//! The moment of a command: the time of its execution, and the mint of its new ids.

use crate::domain::ids::Timestamp;
use crate::domain::public_id::IdMint;

/// See the head of this file.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// The time of acceptance.
    pub at: Timestamp,
    /// The mint of public ids.
    pub ids: &'a IdMint,
}
