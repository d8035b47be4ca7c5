//! The tables of resources: of each one its rows by slot and the entries of its indexes. All of it
//! follows from `each_resource!` and from what a row says of itself. Rows that are found by secrets have
//! the same tables, by digest.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use redb::{Key, ReadableTable, ReadableTableMetadata, TableDefinition, Value, WriteTransaction};

use super::audit::AuditFigure;
use super::error::StoreError;
use super::project::{stored_row, write_table};
use super::query::Snapshot;
use super::tables::RowTable;
use crate::directory::entry::{EntryBytes, digest_of, slot_of};
use crate::directory::row::{IndexedRow, Row, by_end, entries_of};
use crate::directory::{DirectoryRow, each_resource};
use crate::domain::ids::Timestamp;

/// A table of index entries; an entry leads to a slot by itself.
pub(super) type EntryTable = TableDefinition<'static, &'static [u8], ()>;

/// A table of rows by slot.
pub(super) type SlotTable = TableDefinition<'static, u32, &'static [u8]>;

/// A table of rows by the digests of their secrets.
pub(super) type SecretTable = TableDefinition<'static, [u8; 32], &'static [u8]>;

/// Rows with their tables.
pub(super) trait StoredRow: Row {
    /// The key of a row: its slot, or the digest of its secret.
    type Key: Key
        + for<'a> Value<SelfType<'a> = Self::Key>
        + Copy
        + Ord
        + Debug
        + Send
        + Sync
        + 'static;

    const ROWS: RowTable<Self::Key, Self>;
    /// The table of their index entries.
    const ENTRIES: EntryTable;

    fn key(&self) -> Self::Key;

    /// The key that an entry leads to; none of bytes that are no entry.
    fn key_of(entry: &[u8]) -> Option<Self::Key>;
}

macro_rules! define_tables {
    (
        $($rows:ident: $file:ident::$row:ident($($_:ident),*) $(of $id:ident)?,)*;
        $($secrets:ident: $secret_file:ident::$secret:ident($__:ident),)*
    ) => {
        $(use crate::directory::$file::$row;)*
        $(use crate::directory::$secret_file::$secret;)*

        $(define_tables!($rows: $row, u32, slot_of, slot.0);)*
        $(define_tables!($secrets: $secret, [u8; 32], digest_of, digest);)*

        /// The two tables of each resource.
        pub(super) const RESOURCE_TABLES: &[(SlotTable, EntryTable)] =
            &[$(($row::ROWS.definition(), $row::ENTRIES),)*];

        /// The same of the resources that are found by secrets.
        pub(super) const SECRET_TABLES: &[(SecretTable, EntryTable)] =
            &[$(($secret::ROWS.definition(), $secret::ENTRIES),)*];

        /// Lets go of the rows that are forgotten by `at`.
        fn forget_ended(write_txn: &WriteTransaction, at: Timestamp) -> Result<(), StoreError> {
            $(forget_rows::<$secret>(write_txn, at)?;)*
            Ok(())
        }

        define_tables!(all: $($rows: $row,)* $($secrets: $secret,)*);
    };
    ($rows:ident: $row:ident, $key:ty, $key_of:ident, $($field:tt)+) => {
        impl StoredRow for $row {
            type Key = $key;

            const ROWS: RowTable<$key, Self> = RowTable::new(<Self as Row>::NAME);
            const ENTRIES: EntryTable =
                TableDefinition::new(concat!(stringify!($rows), "_entries"));

            fn key(&self) -> $key {
                self.$($field)+
            }

            fn key_of(entry: &[u8]) -> Option<$key> {
                $key_of(entry)
            }
        }
    };
    (all: $($rows:ident: $row:ident,)*) => {
        /// The newest rows of what a run of records changes.
        #[derive(Debug, Default)]
        pub(super) struct DirectoryChanges {
            $($rows: BTreeMap<<$row as StoredRow>::Key, $row>,)*
        }

        impl DirectoryChanges {
            /// Takes a row, which stands for all before it under its key.
            pub(super) fn take(&mut self, row: DirectoryRow) {
                match row {
                    $(DirectoryRow::$row(row) => {
                        self.$rows.insert(row.key(), *row);
                    })*
                }
            }

            /// Whether who may see what may have changed.
            pub(super) fn changes_access(&self) -> bool {
                $(($row::CHANGES_ACCESS && !self.$rows.is_empty()))||*
            }

            /// Writes the rows and the difference of their entries. Lets go of those that are forgotten by
            /// `at`, the instant of the newest record.
            pub(super) fn write(
                &self,
                write_txn: &WriteTransaction,
                at: Timestamp,
            ) -> Result<(), StoreError> {
                $(write_rows(write_txn, &self.$rows)?;)*
                forget_ended(write_txn, at)
            }
        }

        impl Snapshot {
            /// Hands every row of every resource that rules ask for to `visit`, in the order of their
            /// keys.
            pub(super) fn each_directory_row(
                &self,
                visit: &mut dyn FnMut(DirectoryRow),
            ) -> Result<(), StoreError> {
                $(self.each(&$row::ROWS, |_, row| {
                    if row.is_remembered() {
                        visit(row.into());
                    }
                })?;)*
                Ok(())
            }

            /// Compares the entries of every resource with its rows.
            pub(super) fn audit_directory(&self) -> Result<Vec<AuditFigure>, StoreError> {
                Ok(vec![$(self.audit_entries::<$row>()?,)*])
            }
        }
    };
}
each_resource!(define_tables);

/// Lets go of the rows that are forgotten by `at`.
/// INVARIANT: the shard forgets by the same rule.
fn forget_rows<R: StoredRow>(
    write_txn: &WriteTransaction,
    at: Timestamp,
) -> Result<(), StoreError> {
    let ends = by_end::<R>().upto(at);
    let ends = ends.start().as_slice()..=ends.end().as_slice();
    let mut entries = write_txn.open_table(R::ENTRIES)?;
    let mut ended = Vec::new();
    for entry in entries.range(ends)? {
        ended.extend(R::key_of(entry?.0.value()));
    }
    if ended.is_empty() {
        return Ok(());
    }
    let mut rows = write_txn.open_table(R::ROWS.definition())?;
    for key in ended {
        for entry in stored_row(&R::ROWS, &rows, key)?.iter().flat_map(entries_of) {
            entries.remove(entry.as_slice())?;
        }
        rows.remove(key)?;
    }
    Ok(())
}

/// Writes rows and the difference of their entries.
fn write_rows<R: StoredRow>(
    write_txn: &WriteTransaction,
    rows: &BTreeMap<R::Key, R>,
) -> Result<(), StoreError> {
    if rows.is_empty() {
        return Ok(());
    }
    {
        let stored = write_txn.open_table(R::ROWS.definition())?;
        let mut entries = write_txn.open_table(R::ENTRIES)?;
        for (key, row) in rows {
            let before = stored_row(&R::ROWS, &stored, *key)?;
            let before: BTreeSet<_> = before.iter().flat_map(entries_of).collect();
            let now: BTreeSet<_> = entries_of(row).into_iter().collect();
            for entry in before.difference(&now) {
                entries.remove(entry.as_slice())?;
            }
            for entry in now.difference(&before) {
                entries.insert(entry.as_slice(), ())?;
            }
        }
    }
    write_table(write_txn, &R::ROWS, rows)
}

impl Snapshot {
    /// Counts of the entries that the rows of a resource imply and of those that are there. Entries
    /// beyond them count too, once all of them are there.
    fn audit_entries<R: StoredRow>(&self) -> Result<AuditFigure, StoreError> {
        let entries = self.table(R::ENTRIES)?;
        let mut expected: Vec<EntryBytes> = Vec::new();
        self.each(&R::ROWS, |_, row: R| expected.extend(entries_of(&row)))?;
        let mut found = 0;
        for entry in &expected {
            found += u64::from(entries.get(entry.as_slice())?.is_some());
        }
        if found == expected.len() as u64 {
            found = entries.len()?;
        }
        let name = format!("entries of the indexes of {}", R::NAME);
        Ok(AuditFigure::new(name, expected.len(), found))
    }
}

/// The error for an entry that leads to no row.
pub(super) fn missing_row<R: StoredRow>(key: Option<R::Key>) -> StoreError {
    StoreError::Inconsistent { what: format!("{} has no row {key:?}", R::NAME) }
}
