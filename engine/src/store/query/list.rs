//! Pages of lists, and how they are cut out of keys.

use redb::{AccessGuard, Key, StorageError, Value};

use crate::domain::ids::Timestamp;
use crate::store::error::StoreError;
use crate::store::query::Snapshot;

/// The end of a list that comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The newest; for statement lines the highest number.
    #[default]
    NewestFirst,
    /// The oldest.
    OldestFirst,
}

/// The part of a list that is wanted. Source: spec "Limits", pagination parameters.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// The most rows to list; the caller holds it to `limits::PAGE_LEN_MAX`.
    pub limit: usize,
    /// The number of rows to leave out before them.
    pub offset: usize,
    /// Only what was created at this instant or later.
    pub created_after: Option<Timestamp>,
    /// Only what was created before this instant.
    pub created_before: Option<Timestamp>,
    /// The end that comes first.
    pub order: Order,
}

impl Page {
    /// The first `limit` rows, newest first.
    pub const fn first(limit: usize) -> Self {
        Self {
            limit,
            offset: 0,
            created_after: None,
            created_before: None,
            order: Order::NewestFirst,
        }
    }

    /// Whether the row at `place` of the whole list is on this page.
    pub(super) fn holds(&self, place: u64) -> bool {
        let first = self.offset as u64;
        place >= first && place - first < self.limit as u64
    }
}

/// A page of a list, and how long the whole list is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListPage<T> {
    /// The number of rows in the whole list.
    pub count: u64,
    /// The rows of the page, in order.
    pub rows: Vec<T>,
}

impl<T> ListPage<T> {
    /// A list without rows.
    pub const EMPTY: Self = Self { count: 0, rows: Vec::new() };

    /// Counts one that a filter accepts, and takes it if the page holds its place.
    pub(super) fn add(&mut self, page: &Page, row: T) {
        if page.holds(self.count) {
            self.rows.push(row);
        }
        self.count += 1;
    }

    /// Replaces what is listed by what stands behind it.
    ///
    /// Errors: something of it cannot be read.
    pub fn load<U>(
        self,
        row: impl FnMut(T) -> Result<U, StoreError>,
    ) -> Result<ListPage<U>, StoreError> {
        let rows = self.rows.into_iter().map(row).collect::<Result<_, _>>()?;
        Ok(ListPage { count: self.count, rows })
    }
}

/// A key of an index and what it leads to.
pub(super) type IndexHit<'a, K, V> = (AccessGuard<'a, K>, AccessGuard<'a, V>);
type IndexHits<'a, K, V> = Result<IndexHit<'a, K, V>, StorageError>;

/// Takes a page from a list whose length is known. Cost: O(offset + limit) keys.
pub(super) fn take_page<'a, K, V>(
    mut keys: impl DoubleEndedIterator<Item = IndexHits<'a, K, V>>,
    page: &Page,
    count: u64,
) -> Result<ListPage<IndexHit<'a, K, V>>, StoreError>
where
    K: Key + 'static,
    V: Value + 'static,
{
    let mut rows = Vec::new();
    for place in 0..count.min((page.offset as u64).saturating_add(page.limit as u64)) {
        let Some(entry) = next_in(page.order, &mut keys) else { break };
        let entry = entry?;
        if page.holds(place) {
            rows.push(entry);
        }
    }
    Ok(ListPage { count, rows })
}

/// Takes a page of what `accepts`, and counts all of it. Cost: O(keys).
/// Errors: `LongScan`.
pub(super) fn filter_page<'a, K, V, T>(
    snapshot: &Snapshot,
    mut keys: impl DoubleEndedIterator<Item = IndexHits<'a, K, V>>,
    page: &Page,
    mut accepts: impl FnMut(K::SelfType<'_>) -> Result<Option<T>, StoreError>,
) -> Result<ListPage<T>, StoreError>
where
    K: Key + 'static,
    V: Value + 'static,
{
    let mut listed = ListPage::EMPTY;
    while let Some(entry) = next_in(page.order, &mut keys) {
        snapshot.look_at_row()?;
        if let Some(row) = accepts(entry?.0.value())? {
            listed.add(page, row);
        }
    }
    Ok(listed)
}

fn next_in<I: DoubleEndedIterator>(order: Order, keys: &mut I) -> Option<I::Item> {
    match order {
        Order::NewestFirst => keys.next_back(),
        Order::OldestFirst => keys.next(),
    }
}

/// The first key in `low..high` that is not `is_before`, where all that are come first; `high` if
/// all are. Cost: O(log n) questions.
pub(super) fn partition_point(
    mut low: u64,
    mut high: u64,
    mut is_before: impl FnMut(u64) -> Result<bool, StoreError>,
) -> Result<u64, StoreError> {
    while low < high {
        let middle = low + (high - low) / 2;
        if is_before(middle)? {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_partition_point_is_where_the_answer_changes() {
        for bound in 0..=20 {
            let found = partition_point(3, 15, |key| Ok(key < bound)).unwrap();
            assert_eq!(found, bound.clamp(3, 15));
        }
    }
}
