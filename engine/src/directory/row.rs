//! What a resource says of its row.

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::entry::{Entries, EntryBytes, Index};
use crate::domain::ids::{Slot, Timestamp};

/// What each resource says for itself.
pub trait Indexed {
    /// Whether a change of a row may change who may see what.
    const CHANGES_ACCESS: bool;

    /// Adds what a row is found by besides its id, as it stands.
    fn index(&self, entries: &mut Entries);
}

/// A row of a resource. Everything that is not particular to the resource follows from this.
/// `each_resource!` implements it.
pub trait Row: Indexed + Clone + Debug + Serialize + DeserializeOwned + 'static {
    /// Where a row stands. Slots are given out once, one after the other.
    type Slot: Slot;

    /// What the resource is called in tables and reports.
    const NAME: &'static str;

    /// Where it stands.
    fn slot(&self) -> Self::Slot;

    /// Its public id. No two rows have the same, whatever becomes of them.
    fn id(&self) -> Uuid;

    /// When it was made.
    fn created_at(&self) -> Timestamp;
}

/// The index by id, which every resource has.
#[must_use]
pub const fn by_id<R: Row>() -> Index<R, Uuid> {
    Index::new(0)
}

/// All that a row is found by.
#[must_use]
pub fn entries_of<R: Row>(row: &R) -> Vec<EntryBytes> {
    let mut entries = Entries::new(row.slot().number());
    entries.add(&by_id::<R>(), &row.id());
    row.index(&mut entries);
    entries.into_vec()
}
