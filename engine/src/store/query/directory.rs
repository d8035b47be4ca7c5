//! Rows of resources, by slot, by id and by index.
//!
//! These lists are as long as people make them by hand, so a list is read whole: exact counts under
//! any filter. Cost of each: O(rows of the list).

use std::ops::RangeBounds;

use redb::ReadOnlyTable;
use uuid::Uuid;

use super::list::{self, ListPage, Page};
use crate::directory::dimension::Dimension;
use crate::directory::entry::{EntryBytes, Index, IndexKey};
use crate::directory::member::Member;
use crate::directory::row::{CompanyRow, IndexedRow as _, SlotRow, by_id};
use crate::domain::ids::{CompanySlot, DimensionId, MemberId, Slot as _};
use crate::store::directory::{StoredRow, missing_row};
use crate::store::error::StoreError;
use crate::store::project::stored_row;
use crate::store::query::Snapshot;

impl Snapshot {
    /// Finds a row of a company by its id, not one that is gone.
    #[expect(private_bounds, reason = "where rows are kept is the store's to know")]
    pub fn own<R: CompanyRow + StoredRow>(
        &self,
        company: CompanySlot,
        id: R::Id,
    ) -> Result<Option<R>, StoreError> {
        let row: Option<R> = self.row_by_id(id.into())?;
        Ok(row.filter(|row| row.is_own(company)))
    }

    /// Lists the rows of a company, without those that are gone.
    #[expect(private_bounds, reason = "where rows are kept is the store's to know")]
    pub fn list_own<R: CompanyRow + StoredRow>(
        &self,
        company: CompanySlot,
        page: &Page,
    ) -> Result<ListPage<R>, StoreError> {
        self.list_rows(&R::OF_COMPANY, &company, page, |_| true)
    }

    /// Finds a member of a company by its id, also a deleted one.
    pub fn member_by_id(
        &self,
        company: CompanySlot,
        id: MemberId,
    ) -> Result<Option<Member>, StoreError> {
        let row: Option<Member> = self.row_by_id(id.0)?;
        Ok(row.filter(|row| row.company == company))
    }

    /// Finds a dimension of a company by its id, not a deleted one.
    pub fn dimension_by_id(
        &self,
        company: CompanySlot,
        id: DimensionId,
    ) -> Result<Option<Dimension>, StoreError> {
        let row: Option<Dimension> = self.row_by_id(id.0)?;
        Ok(row.filter(|row| row.company == company && row.is_found()))
    }

    /// Finds a row by its slot, also a deleted one.
    #[expect(private_bounds, reason = "where rows are kept is the store's to know")]
    pub fn row<R>(&self, slot: R::Slot) -> Result<Option<R>, StoreError>
    where
        R: StoredRow<Key = u32> + SlotRow,
    {
        self.find(&R::ROWS, slot.number())
    }

    pub(in crate::store) fn row_by_id<R: StoredRow>(
        &self,
        id: Uuid,
    ) -> Result<Option<R>, StoreError> {
        self.first_row(&by_id(), &id)
    }

    /// The oldest row under a key: the only one, where a rule keeps it so.
    pub(in crate::store) fn first_row<R: StoredRow, K: IndexKey>(
        &self,
        index: &Index<R, K>,
        key: &K,
    ) -> Result<Option<R>, StoreError> {
        self.rows_within(index.range(key))?.next().transpose()
    }

    /// The newest row under a key that `accepts`. Cost: O(rows from the newest to that one).
    pub(in crate::store) fn last_row<R: StoredRow, K: IndexKey>(
        &self,
        index: &Index<R, K>,
        key: &K,
        accepts: impl Fn(&R) -> bool,
    ) -> Result<Option<R>, StoreError> {
        let mut rows = self.rows_within(index.range(key))?.rev();
        rows.find(|row| row.as_ref().map_or(true, &accepts)).transpose()
    }

    /// The rows under a key, the oldest first.
    pub(in crate::store) fn rows_under<R: StoredRow, K: IndexKey>(
        &self,
        index: &Index<R, K>,
        key: &K,
    ) -> Result<Vec<R>, StoreError> {
        self.rows_within(index.range(key))?.collect()
    }

    /// The rows that these entries lead to, each read when its turn comes.
    pub(super) fn rows_within<R: StoredRow, E: RangeBounds<EntryBytes>>(
        &self,
        entries: E,
    ) -> Result<impl DoubleEndedIterator<Item = Result<R, StoreError>> + use<R, E>, StoreError>
    {
        let rows = self.table(R::ROWS.definition())?;
        let bounds = (entries.start_bound(), entries.end_bound());
        let bounds = (bounds.0.map(EntryBytes::as_slice), bounds.1.map(EntryBytes::as_slice));
        let entries = self.table(R::ENTRIES)?.range::<&[u8]>(bounds)?;
        Ok(entries.map(move |entry| row_of(&rows, entry?.0.value())))
    }

    /// A page of the rows under a key that `accepts`.
    pub(in crate::store) fn list_rows<R: StoredRow, K: IndexKey>(
        &self,
        index: &Index<R, K>,
        key: &K,
        page: &Page,
        accepts: impl Fn(&R) -> bool,
    ) -> Result<ListPage<R>, StoreError> {
        let range = index.range(key);
        let rows = self.table(R::ROWS.definition())?;
        let entries = self.table(R::ENTRIES)?;
        let keys = entries.range(range.start().as_slice()..=range.end().as_slice())?;
        list::filter_page(self, keys, page, |entry: &[u8]| {
            let row: R = row_of(&rows, entry)?;
            let made_at = row.created_at();
            let is_within = page.created_after.is_none_or(|after| made_at >= after)
                && page.created_before.is_none_or(|before| made_at < before);
            Ok((is_within && accepts(&row)).then_some(row))
        })
    }
}

/// The row that an entry leads to.
fn row_of<R: StoredRow>(
    rows: &ReadOnlyTable<R::Key, &'static [u8]>,
    entry: &[u8],
) -> Result<R, StoreError> {
    let key = R::key_of(entry);
    let row = key.map_or(Ok(None), |key| stored_row(&R::ROWS, rows, key))?;
    row.ok_or_else(|| missing_row::<R>(key))
}
