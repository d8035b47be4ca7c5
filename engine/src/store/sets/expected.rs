//! The sets as they follow from the rows: to make them where there are none, and to prove those
//! that are there.

use std::collections::BTreeMap;

use redb::{ReadOnlyTable, ReadableTableMetadata, WriteTransaction};

use super::page::{Counts, Members, PAGE_LEN};
use super::{Class, PageKey, STATE_PAGES, SetKey};
use crate::store::error::StoreError;
use crate::store::query::TransactionRows;

/// Makes all sets anew from the rows.
/// Cost: reads every transaction.
pub(in crate::store) fn rebuild(
    write_txn: &WriteTransaction,
    rows: &TransactionRows,
) -> Result<(), StoreError> {
    write_txn.delete_table(STATE_PAGES)?;
    let mut pages = write_txn.open_table(STATE_PAGES)?;
    let sums = each_page(rows, |page, members| {
        pages.insert(page.key(), members.to_bytes(page.key()).as_slice())?;
        Ok(())
    })?;
    for (key, counts) in sums {
        pages.insert(key, counts.to_bytes(key).as_slice())?;
    }
    Ok(())
}

/// How the sets compare with the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::store) struct Compared {
    /// How many transactions there are.
    pub(in crate::store) rows: u64,
    /// How many of them are in the set of their class.
    pub(in crate::store) found: u64,
    /// How many pages and sums differ from what follows from the rows, are missing or too many.
    pub(in crate::store) differing: u64,
}

/// Compares the sets with the rows.
/// Errors: `Damaged` if a page or a sum is not as it was written. Cost: reads every transaction.
pub(in crate::store) fn compare(
    pages: &ReadOnlyTable<SetKey, &'static [u8]>,
    rows: &TransactionRows,
) -> Result<Compared, StoreError> {
    let mut compared = Compared::default();
    let mut expected_rows = 0;
    let mut found_rows = 0;
    let sums = each_page(rows, |page, expected| {
        let key = page.key();
        let stored = pages.get(key)?.map(|bytes| Members::parse(key, bytes.value())).transpose()?;
        let members = stored.as_ref().unwrap_or(&Members::NONE);
        compared.rows += expected.count() as u64;
        compared.found += expected.count_common(members) as u64;
        compared.differing += u64::from(members != expected);
        expected_rows += 1;
        found_rows += u64::from(stored.is_some());
        Ok(())
    })?;
    for (key, expected) in sums {
        let stored = pages.get(key)?.map(|bytes| Counts::parse(key, bytes.value())).transpose()?;
        compared.differing += u64::from(stored.as_ref() != Some(&expected));
        expected_rows += 1;
        found_rows += u64::from(stored.is_some());
    }
    assert!(found_rows <= expected_rows, "only what is expected is looked for");
    compared.differing += pages.len()?.saturating_sub(found_rows);
    Ok(compared)
}

/// Hands every page that has members to `visit`, in the order of their numbers, and returns the sums.
fn each_page(
    rows: &TransactionRows,
    mut visit: impl FnMut(PageKey, &Members) -> Result<(), StoreError>,
) -> Result<BTreeMap<SetKey, Counts>, StoreError> {
    let mut sums: BTreeMap<SetKey, Counts> = BTreeMap::new();
    let mut at_hand: BTreeMap<PageKey, Members> = BTreeMap::new();
    let mut flush = |at_hand: &mut BTreeMap<PageKey, Members>| {
        while let Some((page, members)) = at_hand.pop_first() {
            let (sum, place) = page.sum();
            sums.entry(sum).or_insert(Counts::NONE).set(place, members.count());
            visit(page, &members)?;
        }
        Ok::<_, StoreError>(())
    };
    let mut number = 0;
    rows.each(0..u64::MAX, |row, view, newer| {
        if row.number / PAGE_LEN != number {
            flush(&mut at_hand)?;
            number = row.number / PAGE_LEN;
        }
        let state = newer.map_or_else(|| view.state(), |progress| progress.state);
        let class = Class::of(view.kind(), state);
        let page = PageKey::of(view.company().0, class, row.number);
        at_hand.entry(page).or_insert(Members::NONE).insert(row.number % PAGE_LEN);
        Ok(())
    })?;
    flush(&mut at_hand)?;
    Ok(sums)
}
