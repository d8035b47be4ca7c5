//! The sets as they follow from the rows: to make them where there are none, and to prove those
//! that are there.

use std::collections::BTreeMap;

use redb::ReadableTableMetadata;

use super::page::{Counts, Members, PAGE_LEN};
use super::{Class, PageKey, STATE_PAGES, SetKey};
use crate::domain::ids::CompanySlot;
use crate::store::error::StoreError;
use crate::store::query::Snapshot;

/// The result of comparing the sets with the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::store) struct SetComparison {
    /// The number of transactions and cards.
    pub(in crate::store) rows: u64,
    /// The number of those in the set of their class.
    pub(in crate::store) found: u64,
    /// The number of pages and sums that differ from the rows, are missing or too many.
    pub(in crate::store) differing: u64,
}

/// Compares the sets with the rows.
/// Errors: `Damaged` if a page or a sum is not as it was written.
/// Cost: reads every transaction and every card.
pub(in crate::store) fn compare(rows: &Snapshot) -> Result<SetComparison, StoreError> {
    let pages = rows.table(STATE_PAGES)?;
    let mut compared = SetComparison::default();
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

/// Hands every page that has members to `visit`, those of transactions and those of cards each in
/// the order of their numbers, and returns the sums.
fn each_page(
    rows: &Snapshot,
    visit: impl FnMut(PageKey, &Members) -> Result<(), StoreError>,
) -> Result<BTreeMap<SetKey, Counts>, StoreError> {
    let mut pages = Pages { sums: BTreeMap::new(), at_hand: BTreeMap::new(), number: 0, visit };
    rows.transaction_rows()?.each(0..u64::MAX, |row, view, newer| {
        let state = newer.map_or_else(|| view.state(), |progress| progress.state);
        pages.take(view.company(), Class::of(view.kind(), state), row.number)
    })?;
    pages.flush()?;
    let mut taken = Ok(());
    rows.card_tables()?.each(|card| {
        let class = Class::of_card(card.record.usage.state);
        let slot = u64::from(card.profile.slot.0);
        if taken.is_ok() {
            taken = pages.take(card.profile.company, class, slot);
        }
    })?;
    taken?;
    pages.flush()?;
    Ok(pages.sums)
}

/// Pages on their way: those of one number are at hand.
struct Pages<F> {
    sums: BTreeMap<SetKey, Counts>,
    at_hand: BTreeMap<PageKey, Members>,
    number: u64,
    visit: F,
}

impl<F: FnMut(PageKey, &Members) -> Result<(), StoreError>> Pages<F> {
    fn take(&mut self, company: CompanySlot, class: Class, number: u64) -> Result<(), StoreError> {
        let page = PageKey::of(company.0, class, number);
        if page.page != self.number {
            self.flush()?;
            self.number = page.page;
        }
        self.at_hand.entry(page).or_insert(Members::NONE).insert(number % PAGE_LEN);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        while let Some((page, members)) = self.at_hand.pop_first() {
            let (sum, place) = page.sum();
            self.sums.entry(sum).or_insert(Counts::NONE).set(place, members.count());
            (self.visit)(page, &members)?;
        }
        Ok(())
    }
}
