//! Sets of transactions and of cards: which of a company's stand in one state, as pages of bits.
//!
//! A transaction is in one class of its company at a time: its state, and whether it is a
//! verification; a card is in the class of its state. A set is the class's members, cut into pages
//! of 8,192 sequence numbers or slots; above them stand sums, one for each 256 pages, so that a
//! count reads one page and one sum at either end and a sum for each two million numbers between.
//!
//! | `state_pages`, key | value |
//! |---|---|
//! | company, class, 0, number / 8,192 | the page: its members |
//! | company, class, 1, number / 2,097,152 | the sum: how many members each of its pages has |
//!
//! INVARIANT: sets change in the commit that changes the rows they follow from; a page or a sum
//! without members is not there.
//! Out of scope: the classes that a filter wants.

mod class;
mod comparison;
mod page;
mod read;
mod write;

#[cfg(test)]
mod tests;

use super::error::StoreError;
use super::tables::STATE_PAGES;
use page::PAGE_LEN;

pub use class::TransactionClasses;
pub(in crate::store) use class::{Class, Classes};
pub(in crate::store) use comparison::compare;
pub(in crate::store) use read::{ClassFilter, SetReader};
pub(in crate::store) use write::SetChanges;

/// Company, class, level, and the number of the page or sum.
pub(in crate::store) type SetKey = (u32, u8, u8, u64);

const PAGES: u8 = 0;
const SUMS: u8 = 1;
/// Pages under a sum.
const SUM_PAGES: u64 = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PageKey {
    company: u32,
    class: Class,
    page: u64,
}

impl PageKey {
    const fn of(company: u32, class: Class, number: u64) -> Self {
        Self { company, class, page: number / PAGE_LEN }
    }

    const fn key(self) -> SetKey {
        (self.company, self.class.number(), PAGES, self.page)
    }

    /// The key of the sum over it, and its place in that.
    const fn sum(self) -> (SetKey, u64) {
        let key = (self.company, self.class.number(), SUMS, self.page / SUM_PAGES);
        (key, self.page % SUM_PAGES)
    }
}

/// An error that names a page or a sum.
fn damaged((company, class, level, index): SetKey, why: &str) -> StoreError {
    let what = if level == PAGES { "page" } else { "sum" };
    StoreError::Damaged {
        what: format!("table state_pages, company {company}, class {class}, {what} {index}: {why}"),
    }
}
