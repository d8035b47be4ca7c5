//! The tables of resources: of each one its rows by slot and the entries of its indexes. All of it
//! follows from `each_resource!` and from what a row says of itself.

use std::collections::{BTreeMap, BTreeSet};

use redb::{ReadableTableMetadata, TableDefinition, WriteTransaction};

use super::audit::AuditFigure;
use super::error::StoreError;
use super::project::{stored_row, write_table};
use super::query::Snapshot;
use super::tables::RowTable;
use crate::directory::app::App;
use crate::directory::dimension::Dimension;
use crate::directory::entry::EntryBytes;
use crate::directory::member::Member;
use crate::directory::requisition::Requisition;
use crate::directory::row::{Indexed, Row, entries_of};
use crate::directory::shared_link::SharedLink;
use crate::directory::user::User;
use crate::directory::webhook_endpoint::WebhookEndpoint;
use crate::directory::{DirectoryRow, each_resource};
use crate::domain::ids::Slot;

/// A table of index entries; an entry leads to a slot by itself.
pub(super) type EntryTable = TableDefinition<'static, &'static [u8], ()>;

/// A table of rows by slot.
pub(super) type SlotTable = TableDefinition<'static, u32, &'static [u8]>;

/// A resource with its tables.
pub(super) trait Stored: Row {
    /// Its rows by slot.
    const ROWS: RowTable<u32, Self>;
    /// What they are found by.
    const ENTRIES: EntryTable;
}

macro_rules! define_tables {
    ($($rows:ident: $row:ident($slot:ident),)*) => {
        $(impl Stored for $row {
            const ROWS: RowTable<u32, Self> = RowTable::new(<Self as Row>::NAME);
            const ENTRIES: EntryTable =
                TableDefinition::new(concat!(stringify!($rows), "_entries"));
        })*

        /// The two tables of each resource.
        pub(super) const RESOURCE_TABLES: &[(SlotTable, EntryTable)] =
            &[$(($row::ROWS.definition(), $row::ENTRIES),)*];

        /// The newest rows of what a run of records changes.
        #[derive(Debug, Default)]
        pub(super) struct DirectoryChanges {
            $($rows: BTreeMap<u32, $row>,)*
        }

        impl DirectoryChanges {
            /// Takes a row, which stands for all before it in its slot.
            pub(super) fn take(&mut self, row: DirectoryRow) {
                match row {
                    $(DirectoryRow::$row(row) => {
                        self.$rows.insert(row.slot.0, *row);
                    })*
                }
            }

            /// Whether who may see what may have changed.
            pub(super) fn changes_access(&self) -> bool {
                $(($row::CHANGES_ACCESS && !self.$rows.is_empty()))||*
            }

            /// Writes the rows and the difference of their entries.
            pub(super) fn write(&self, write_txn: &WriteTransaction) -> Result<(), StoreError> {
                $(write_rows(write_txn, &self.$rows)?;)*
                Ok(())
            }
        }

        impl Snapshot {
            /// Hands every row of every resource to `visit`, in slot order.
            pub(super) fn each_directory_row(
                &self,
                visit: &mut dyn FnMut(DirectoryRow),
            ) -> Result<(), StoreError> {
                $(self.each(&$row::ROWS, |_, row| visit(row.into()))?;)*
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

fn write_rows<R: Stored>(
    write_txn: &WriteTransaction,
    rows: &BTreeMap<u32, R>,
) -> Result<(), StoreError> {
    if rows.is_empty() {
        return Ok(());
    }
    {
        let stored = write_txn.open_table(R::ROWS.definition())?;
        let mut entries = write_txn.open_table(R::ENTRIES)?;
        for (slot, row) in rows {
            let before = stored_row(&R::ROWS, &stored, *slot)?;
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
    /// How many entries the rows of a resource have, and how many are there; where each is there, what
    /// there is beyond them counts too.
    fn audit_entries<R: Stored>(&self) -> Result<AuditFigure, StoreError> {
        let entries = self.table(R::ENTRIES)?;
        let mut expected: Vec<EntryBytes> = Vec::new();
        self.each(&R::ROWS, |_, row: R| expected.extend(entries_of(&row)))?;
        let mut found = 0;
        for entry in &expected {
            found += u64::from(redb::ReadableTable::get(&entries, entry.as_slice())?.is_some());
        }
        if found == expected.len() as u64 {
            found = entries.len()?;
        }
        Ok(AuditFigure {
            name: format!("entries of the indexes of {}", R::NAME),
            expected: expected.len() as i128,
            found: i128::from(found),
        })
    }
}

/// What is wrong where an entry leads nowhere.
pub(super) fn missing_row<R: Row>(slot: R::Slot) -> StoreError {
    StoreError::Inconsistent { what: format!("{} has no row {}", R::NAME, slot.number()) }
}
