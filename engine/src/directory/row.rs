//! What a resource says of its row.

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::entry::{Entries, EntryBytes, Index};
use crate::domain::ids::{CompanySlot, Slot, Timestamp};

/// What each resource says for itself.
pub trait Indexed {
    /// Whether a change of a row may change who may see what.
    const CHANGES_ACCESS: bool;

    /// Whether anything finds it but its id.
    fn is_found(&self) -> bool;

    /// Adds what a row is found by besides its id and its end, as it stands.
    fn index(&self, entries: &mut Entries);

    /// From when on it is forgotten, where it is.
    fn forgotten_at(&self) -> Timestamp {
        Timestamp::MAX
    }

    /// Whether rules ask for it as it stands: if not, only the tables keep it.
    fn is_remembered(&self) -> bool {
        true
    }
}

/// Declares what the rows of a resource are found by: each index with its number, which no other of the
/// resource has, and the key of a row, which may be none. Behind `and` stand
/// other functions of `Indexed`.
///
/// ```text
/// indexes! {
///     App(app), CHANGES_ACCESS: true, found if !app.is_deleted;
///     /// Those that a company has registered and not deleted.
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

        impl $crate::directory::row::Indexed for $row {
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

/// A row that is found by indexes. Everything that is not particular to it follows from this.
pub trait Row: Indexed + Clone + Debug + Serialize + DeserializeOwned + 'static {
    /// What the rows are called in tables and reports.
    const NAME: &'static str;

    /// Appends what its entries end in: where it stands, in the order in which rows were made.
    fn append_place(&self, entry: &mut EntryBytes);

    /// Its public id. No two rows have the same, whatever becomes of them.
    fn id(&self) -> Uuid;

    /// When it was made.
    fn created_at(&self) -> Timestamp;
}

/// A row of a resource. `each_resource!` implements it.
pub trait SlotRow: Row {
    /// Where a row stands. Slots are given out once, one after the other.
    type Slot: Slot;

    /// Where it stands.
    fn slot(&self) -> Self::Slot;
}

/// A row that a company's callers name by its id. `each_resource!` implements it.
pub trait CompanyRow: SlotRow {
    /// The type of its id.
    type Id: Into<Uuid>;

    /// Those of a company.
    const OF_COMPANY: Index<Self, CompanySlot>;

    /// Its company.
    fn company(&self) -> CompanySlot;

    /// Whether it is the company's and not gone.
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
#[must_use]
pub const fn by_id<R: Row>() -> Index<R, Uuid> {
    Index::new(0)
}

/// The index by the instant from which on rows are forgotten, which those have that are.
#[must_use]
pub const fn by_end<R: Row>() -> Index<R, Timestamp> {
    Index::new(u8::MAX - 1)
}

/// All that a row is found by.
#[must_use]
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
