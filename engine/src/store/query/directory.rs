//! Rows of resources, by slot, by id and by index.
//!
//! These lists are as long as people make them by hand, so a list is read whole: exact counts under
//! any filter. Cost of each: O(rows of the list).

use uuid::Uuid;

use super::list::{self, Listed, Page};
use crate::directory::entry::{Index, IndexKey, slot_of};
use crate::directory::row::by_id;
use crate::domain::ids::Slot as _;
use crate::store::directory::{Stored, missing_row};
use crate::store::error::StoreError;
use crate::store::query::Snapshot;

impl Snapshot {
    /// The row of a slot.
    pub(in crate::store) fn row<R: Stored>(&self, slot: R::Slot) -> Result<Option<R>, StoreError> {
        self.find(&R::ROWS, slot.number())
    }

    /// The row with an id.
    pub(in crate::store) fn row_by_id<R: Stored>(&self, id: Uuid) -> Result<Option<R>, StoreError> {
        self.first_row(&by_id(), &id)
    }

    /// The oldest row under a key: the only one, where a rule keeps it so.
    pub(in crate::store) fn first_row<R: Stored, K: IndexKey>(
        &self,
        index: &Index<R, K>,
        key: &K,
    ) -> Result<Option<R>, StoreError> {
        let range = index.range(key);
        let entries = self.table(R::ENTRIES)?;
        let first = entries.range(range.start().as_slice()..=range.end().as_slice())?.next();
        let slot = first.transpose()?.and_then(|(entry, _)| slot_of(entry.value()));
        slot.map_or(Ok(None), |slot| self.row(R::Slot::of_number(slot)))
    }

    /// The rows under a key, the oldest first.
    pub(in crate::store) fn rows_under<R: Stored, K: IndexKey>(
        &self,
        index: &Index<R, K>,
        key: &K,
    ) -> Result<Vec<R>, StoreError> {
        let page = Page { order: list::Order::OldestFirst, ..Page::first(usize::MAX) };
        Ok(self.list_rows(index, key, &page, |_| true)?.rows)
    }

    /// A page of the rows under a key that `accepts`.
    pub(in crate::store) fn list_rows<R: Stored, K: IndexKey>(
        &self,
        index: &Index<R, K>,
        key: &K,
        page: &Page,
        accepts: impl Fn(&R) -> bool,
    ) -> Result<Listed<R>, StoreError> {
        let range = index.range(key);
        let rows = self.table(R::ROWS.definition())?;
        let entries = self.table(R::ENTRIES)?;
        let keys = entries.range(range.start().as_slice()..=range.end().as_slice())?;
        list::filter_page(keys, page, |entry: &[u8]| {
            let slot = slot_of(entry).unwrap_or(u32::MAX);
            let row = super::find(&R::ROWS, &rows, slot)?;
            let row = row.ok_or_else(|| missing_row::<R>(R::Slot::of_number(slot)))?;
            let made_at = row.created_at();
            let is_within = page.created_after.is_none_or(|after| made_at >= after)
                && page.created_before.is_none_or(|before| made_at < before);
            Ok((is_within && accepts(&row)).then_some(row))
        })
    }
}
