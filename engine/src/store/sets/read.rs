//! Asks sets: counts, lists, single members.

use std::ops::Range;

use super::page::{Counts, Members, PAGE_LEN};
use super::{Class, Classes, PAGES, PageKey, SUMS};
use crate::domain::ids::CompanySlot;
use crate::store::error::StoreError;
use crate::store::query::{Order, SharedTable};

/// The sets in one view of the tables.
#[derive(Debug)]
pub(in crate::store) struct SetReader {
    pages: SharedTable<super::SetKey, &'static [u8]>,
}

impl SetReader {
    pub(in crate::store) const fn new(pages: SharedTable<super::SetKey, &'static [u8]>) -> Self {
        Self { pages }
    }

    /// The number of a company's members of these classes within these numbers.
    /// Cost: for each class a page and a sum at either end, and a sum for each two million numbers.
    pub(in crate::store) fn count(
        &self,
        company: CompanySlot,
        classes: Classes,
        seqs: Range<u64>,
    ) -> Result<u64, StoreError> {
        let mut count = 0;
        for class in classes.each() {
            let high = self.count_before(PageKey::of(company.0, class, seqs.end), seqs.end)?;
            let low = self.count_before(PageKey::of(company.0, class, seqs.start), seqs.start)?;
            count += high.saturating_sub(low);
        }
        Ok(count)
    }

    /// The company's members of these classes within these numbers.
    /// Cost: for each class a page for every page that has one.
    pub(in crate::store) fn scan(
        &self,
        company: CompanySlot,
        classes: Classes,
        seqs: Range<u64>,
        order: Order,
    ) -> SetScan<'_> {
        let members = Members::NONE;
        SetScan { reader: self, company, classes, seqs, order, page: 0, members, at: 0 }
    }

    /// The number of members of `page`'s set below `seq`, which is in that page.
    fn count_before(&self, page: PageKey, seq: u64) -> Result<u64, StoreError> {
        if seq == 0 {
            return Ok(0);
        }
        let (sum_key, place) = page.sum();
        let (company, class, _, last) = sum_key;
        let mut count = 0;
        for entry in self.pages.range((company, class, SUMS, 0)..=(company, class, SUMS, last))? {
            let (key, bytes) = entry?;
            let key = key.value();
            let counts = Counts::parse(key, bytes.value())?;
            count += if key == sum_key { counts.before(place) } else { counts.total() };
        }
        if let Some(mut members) = self.page(page)? {
            members.keep(0..seq % PAGE_LEN);
            count += members.count() as u64;
        }
        Ok(count)
    }

    fn page(&self, page: PageKey) -> Result<Option<Members>, StoreError> {
        let key = page.key();
        self.pages.get(key)?.map(|bytes| Members::parse(key, bytes.value())).transpose()
    }

    /// The members of any of these classes in one page.
    fn united(
        &self,
        company: CompanySlot,
        classes: Classes,
        page: u64,
    ) -> Result<Members, StoreError> {
        let mut united = Members::NONE;
        for class in classes.each() {
            if let Some(members) = self.page(PageKey { company: company.0, class, page })? {
                united.unite(&members);
            }
        }
        Ok(united)
    }

    /// The page at this end of `pages` in which any of these classes has members.
    fn next_page(
        &self,
        company: CompanySlot,
        classes: Classes,
        pages: &Range<u64>,
        order: Order,
    ) -> Result<Option<u64>, StoreError> {
        let mut found: Option<u64> = None;
        for class in classes.each() {
            let next = self.next_page_of(company, class, pages, order)?;
            found = match order {
                Order::NewestFirst => found.max(next),
                Order::OldestFirst => found.into_iter().chain(next).min(),
            };
        }
        Ok(found)
    }

    fn next_page_of(
        &self,
        company: CompanySlot,
        class: Class,
        pages: &Range<u64>,
        order: Order,
    ) -> Result<Option<u64>, StoreError> {
        let key = |page| (company.0, class.number(), PAGES, page);
        let mut keys = self.pages.range(key(pages.start)..key(pages.end))?;
        let entry = match order {
            Order::NewestFirst => keys.next_back(),
            Order::OldestFirst => keys.next(),
        };
        Ok(entry.transpose()?.map(|(key, _)| key.value().3))
    }
}

/// The members of some sets, page by page.
pub(in crate::store) struct SetScan<'r> {
    reader: &'r SetReader,
    company: CompanySlot,
    classes: Classes,
    /// The numbers that are still to be looked at, but those at hand.
    seqs: Range<u64>,
    order: Order,
    /// The page at hand, and the word of it that comes next.
    page: u64,
    members: Members,
    at: usize,
}

impl SetScan<'_> {
    /// Takes the next page that has members; false at the end.
    fn load(&mut self) -> Result<bool, StoreError> {
        if self.seqs.is_empty() {
            return Ok(false);
        }
        let pages = self.seqs.start / PAGE_LEN..(self.seqs.end - 1) / PAGE_LEN + 1;
        let next = self.reader.next_page(self.company, self.classes, &pages, self.order)?;
        let Some(page) = next else {
            self.seqs = 0..0;
            return Ok(false);
        };
        let first = page * PAGE_LEN;
        self.page = page;
        self.members = self.reader.united(self.company, self.classes, page)?;
        self.members.keep(self.seqs.start.saturating_sub(first)..self.seqs.end - first);
        match self.order {
            Order::NewestFirst => (self.seqs.end, self.at) = (first, Members::words()),
            Order::OldestFirst => (self.seqs.start, self.at) = (first + PAGE_LEN, 0),
        }
        Ok(true)
    }
}

impl Iterator for SetScan<'_> {
    type Item = Result<u64, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let place = match self.order {
                Order::NewestFirst => self.members.take_last(&mut self.at),
                Order::OldestFirst => self.members.take_first(&mut self.at),
            };
            if let Some(place) = place {
                return Some(Ok(self.page * PAGE_LEN + place));
            }
            match self.load() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    self.seqs = 0..0;
                    return Some(Err(error));
                }
            }
        }
    }
}

/// Tells of one number after the other whether it is of some classes; neighbours cost one read.
#[derive(Debug)]
pub(in crate::store) struct ClassFilter<'r> {
    reader: &'r SetReader,
    company: CompanySlot,
    classes: Classes,
    at_hand: Option<(u64, Members)>,
}

impl<'r> ClassFilter<'r> {
    /// A company's members of these classes.
    pub(in crate::store) const fn new(
        reader: &'r SetReader,
        company: CompanySlot,
        classes: Classes,
    ) -> Self {
        Self { reader, company, classes, at_hand: None }
    }

    /// Whether this number is of the company and of one of the classes.
    pub(in crate::store) fn accepts(&mut self, seq: u64) -> Result<bool, StoreError> {
        let page = seq / PAGE_LEN;
        if let Some((_, members)) = self.at_hand.as_ref().filter(|(at_hand, _)| *at_hand == page) {
            return Ok(members.contains(seq % PAGE_LEN));
        }
        let members = self.reader.united(self.company, self.classes, page)?;
        let is_member = members.contains(seq % PAGE_LEN);
        self.at_hand = Some((page, members));
        Ok(is_member)
    }
}
