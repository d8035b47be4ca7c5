//! The traits of a resource's row: its indexes, its slot or secret, its company.

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::entry::{Entries, EntryBytes, Index};
use crate::domain::ids::{CompanySlot, Slot, Timestamp};

/// The properties that each resource declares of its row.
pub trait IndexedRow {
    /// Whether a change of a row may change access rights.
    const CHANGES_ACCESS: bool;

    /// Whether lookups other than that by id find the row.
    fn is_found(&self) -> bool;

    /// Adds the row's current index entries, besides those of its id and its end.
    fn index(&self, entries: &mut Entries);

    /// The time at which the row is forgotten; `Timestamp::MAX` for a row that is kept.
    fn forgotten_at(&self) -> Timestamp {
        Timestamp::MAX
    }

    /// Whether memory keeps the row: if not, only the tables do.
    fn is_remembered(&self) -> bool {
        true
    }
}

/// Declares the indexes of a resource's rows. Each index has a number that is unique within the
/// resource, and the key of a row, which may be none. Other functions of `IndexedRow` stand behind
/// `and`.
///
/// ```text
/// indexes! {
///     App(app), CHANGES_ACCESS: true, found if !app.is_deleted;
///     /// The apps that a company has registered and not deleted.
///     OF_COMPANY = 1: CompanySlot => app.company;
/// }
/// ```
macro_rules! indexes {
    (
        $row:ident($this:ident), CHANGES_ACCESS: $changes_access:literal, found if $is_found:expr;
        $($(#[$about:meta])+ $index:ident = $number:literal: $key:ty => $value:expr;)+
        $(and { $($other:item)+ })?
    ) => {
        impl $row {
            $($(#[$about])+
            pub const $index: $crate::directory::entry::Index<Self, $key> =
                $crate::directory::entry::Index::new($number);)+
        }

        impl $crate::directory::row::IndexedRow for $row {
            const CHANGES_ACCESS: bool = $changes_access;

            fn is_found(&self) -> bool {
                let $this = self;
                let _ = $this;
                $is_found
            }

            fn index(&self, entries: &mut $crate::directory::entry::Entries) {
                let $this = self;
                if self.is_found() {
                    $(entries.add(&Self::$index, $value);)+
                }
            }

            $($($other)+)?
        }
    };
}
pub(crate) use indexes;

/// A row that is found by indexes. Generic code derives the rest from this.
pub trait Row: IndexedRow + Clone + Debug + Serialize + DeserializeOwned + 'static {
    /// The name of the rows in tables and reports.
    const NAME: &'static str;

    /// Appends the end of its entries: its slot, or its time of creation and digest, which order
    /// rows by creation.
    fn append_place(&self, entry: &mut EntryBytes);

    /// Its public id, which no other row ever has.
    fn id(&self) -> Uuid;

    /// The time of creation.
    fn created_at(&self) -> Timestamp;
}

/// A row of a resource. `each_resource!` implements it.
pub trait SlotRow: Row {
    /// The type of a row's slot. Slots are given out once, one after the other.
    type Slot: Slot;

    /// The row's slot.
    fn slot(&self) -> Self::Slot;
}

/// A row that a company's callers name by its id. `each_resource!` implements it.
pub trait CompanyRow: SlotRow {
    /// The type of its id.
    type Id: Into<Uuid>;

    /// The index of rows by company.
    const OF_COMPANY: Index<Self, CompanySlot>;

    /// Its company.
    fn company(&self) -> CompanySlot;

    /// Whether the row belongs to the company and is not deleted.
    fn is_own(&self, company: CompanySlot) -> bool {
        self.company() == company && self.is_found()
    }
}

/// A row that is found by the digest of a secret. `each_resource!` implements it.
pub trait SecretRow: Row {
    /// The SHA-256 of its secret.
    fn digest(&self) -> [u8; 32];
}

/// The index by id, which every row has.
pub const fn by_id<R: Row>() -> Index<R, Uuid> {
    Index::new(0)
}

/// The index by the time at which rows are forgotten; rows that are kept have no entry in it.
pub const fn by_end<R: Row>() -> Index<R, Timestamp> {
    Index::new(u8::MAX - 1)
}

/// All index entries of a row.
pub fn entries_of<R: Row>(row: &R) -> Vec<EntryBytes> {
    let mut place = EntryBytes::new();
    row.append_place(&mut place);
    let mut entries = Entries::new(place);
    entries.add(&by_id::<R>(), row.id());
    let end = Some(row.forgotten_at()).filter(|end| *end < Timestamp::MAX);
    entries.add(&by_end::<R>(), end);
    row.index(&mut entries);
    entries.into_vec()
}
