//! Brings sets up to date with the rows of a commit.

use std::collections::BTreeMap;

use redb::{ReadableTable, Table, WriteTransaction};

use super::page::{Counts, Members, PAGE_LEN};
use super::{Class, PageKey, STATE_PAGES, SetKey};
use crate::domain::ids::CompanySlot;
use crate::store::error::StoreError;

/// A commit's changes of the sets, page by page.
#[derive(Debug, Default)]
pub(in crate::store) struct SetChanges(BTreeMap<PageKey, PageChange>);

#[derive(Debug, Default)]
struct PageChange {
    joined: Vec<u64>,
    left: Vec<u64>,
}

impl SetChanges {
    /// A new number is of this class.
    pub(in crate::store) fn join(&mut self, company: CompanySlot, class: Class, number: u64) {
        let page = self.0.entry(PageKey::of(company.0, class, number)).or_default();
        page.joined.push(number);
    }

    /// A number goes from one class to another.
    pub(in crate::store) fn go(
        &mut self,
        company: CompanySlot,
        (from, to): (Class, Class),
        number: u64,
    ) {
        if from == to {
            return;
        }
        self.join(company, to, number);
        let page = self.0.entry(PageKey::of(company.0, from, number)).or_default();
        page.left.push(number);
    }

    /// Puts a card in this class, from any other.
    pub(in crate::store) fn set_card(
        &mut self,
        pages: &impl ReadableTable<SetKey, &'static [u8]>,
        company: CompanySlot,
        class: Class,
        slot: u64,
    ) -> Result<(), StoreError> {
        for before in Class::CARDS {
            let key = PageKey::of(company.0, before, slot).key();
            let Some(bytes) = pages.get(key)? else { continue };
            if Members::parse(key, bytes.value())?.contains(slot % PAGE_LEN) {
                self.go(company, (before, class), slot);
                return Ok(());
            }
        }
        self.join(company, class, slot);
        Ok(())
    }

    /// Writes the changed pages and the sums over them.
    /// Errors: `Inconsistent` if a number is not where it leaves, or is already where it comes.
    /// Cost: one page and one sum for each company and class in each 8,192 sequence numbers.
    pub(in crate::store) fn write(&self, write_txn: &WriteTransaction) -> Result<(), StoreError> {
        if self.0.is_empty() {
            return Ok(());
        }
        let mut pages = write_txn.open_table(STATE_PAGES)?;
        let mut counted: BTreeMap<SetKey, Vec<(u64, usize)>> = BTreeMap::new();
        for (page, change) in &self.0 {
            let count = change.write(&mut pages, page.key())?;
            let (sum, place) = page.sum();
            counted.entry(sum).or_default().push((place, count));
        }
        for (key, changed) in counted {
            let stored = pages.get(key)?.map(|bytes| Counts::parse(key, bytes.value()));
            let mut counts = stored.transpose()?.unwrap_or(Counts::NONE);
            changed.iter().for_each(|(place, count)| counts.set(*place, *count));
            if counts.is_empty() {
                pages.remove(key)?;
            } else {
                pages.insert(key, counts.to_bytes(key).as_slice())?;
            }
        }
        Ok(())
    }
}

impl PageChange {
    /// Writes one page; returns how many members it has now.
    fn write(
        &self,
        pages: &mut Table<'_, SetKey, &'static [u8]>,
        key: SetKey,
    ) -> Result<usize, StoreError> {
        let stored = pages.get(key)?.map(|bytes| Members::parse(key, bytes.value()));
        let mut members = stored.transpose()?.unwrap_or(Members::NONE);
        for number in &self.left {
            let was_there = members.remove(number % PAGE_LEN);
            check(was_there, key, *number, "is not in the set of its state")?;
        }
        for number in &self.joined {
            let is_new = members.insert(number % PAGE_LEN);
            check(is_new, key, *number, "is in the set of its next state already")?;
        }
        let count = members.count();
        if count == 0 {
            pages.remove(key)?;
        } else {
            pages.insert(key, members.to_bytes(key).as_slice())?;
        }
        Ok(count)
    }
}

fn check(is_right: bool, key: SetKey, number: u64, what: &str) -> Result<(), StoreError> {
    if is_right {
        return Ok(());
    }
    let (company, class, ..) = key;
    let what = format!("number {number} of company {company} {what}, class {class}");
    Err(StoreError::Inconsistent { what })
}
