//! Statement lines of an account.

use std::ops::Range;

use redb::ReadOnlyTable;

use super::list::{self, Listed, Page};
use super::{Snapshot, required};
use crate::domain::business_date::BusinessDate;
use crate::domain::ids::AccountSlot;
use crate::domain::posting::StatementLine;
use crate::store::error::StoreError;
use crate::store::tables::{ACCOUNT_LINES, STATEMENT_LINES};

/// Which lines of an account to list; every part that is set has to fit.
#[derive(Clone, Copy, Debug, Default)]
pub struct LineFilter {
    /// Posted on this date or later.
    pub from: Option<BusinessDate>,
    /// Posted on this date or earlier.
    pub to: Option<BusinessDate>,
    /// With this number.
    pub number: Option<u64>,
    /// With a number above this one.
    pub number_above: Option<u64>,
    /// With a number below this one.
    pub number_below: Option<u64>,
}

impl Snapshot {
    /// Lists an account's lines; newest first is the highest number first.
    /// Cost: O(offset + limit) keys.
    pub fn list_statement_lines(
        &self,
        account: AccountSlot,
        filter: &LineFilter,
        page: &Page,
    ) -> Result<Listed<StatementLine>, StoreError> {
        let lines = AccountLines {
            account,
            numbers: self.table(ACCOUNT_LINES)?,
            lines: self.table(STATEMENT_LINES.definition())?,
        };
        let numbers = lines.numbers_within(filter, page)?;
        if numbers.is_empty() {
            return Ok(Listed::EMPTY);
        }
        let count = numbers.end - numbers.start;
        let range = (account.0, numbers.start)..(account.0, numbers.end);
        list::take_page(lines.numbers.range(range)?, page, count)?
            .load(|(_, seq)| required(&STATEMENT_LINES, &lines.lines, seq.value()))
    }
}

struct AccountLines {
    account: AccountSlot,
    numbers: ReadOnlyTable<(u32, u64), u64>,
    lines: ReadOnlyTable<u64, &'static [u8]>,
}

impl AccountLines {
    /// The numbers that fit. Numbers have no gaps and rise with time, so they are a range.
    fn numbers_within(&self, filter: &LineFilter, page: &Page) -> Result<Range<u64>, StoreError> {
        let slot = self.account.0;
        let last = self.numbers.range((slot, 0)..=(slot, u64::MAX))?.next_back().transpose()?;
        let mut range = 1..last.map_or(0, |(key, _)| key.value().1) + 1;
        if let Some(number) = filter.number {
            narrow(&mut range, number..number.saturating_add(1));
        }
        if let Some(number) = filter.number_above {
            narrow(&mut range, number.saturating_add(1)..u64::MAX);
        }
        if let Some(number) = filter.number_below {
            narrow(&mut range, 0..number);
        }
        if let Some(from) = filter.from {
            range.start = self.first_not(&range, |line| line.posted_on < from)?;
        }
        if let Some(to) = filter.to {
            range.end = self.first_not(&range, |line| line.posted_on <= to)?;
        }
        if let Some(at) = page.created_after {
            range.start = self.first_not(&range, |line| line.posted_at < at)?;
        }
        if let Some(at) = page.created_before {
            range.end = self.first_not(&range, |line| line.posted_at < at)?;
        }
        Ok(range)
    }

    fn first_not(
        &self,
        range: &Range<u64>,
        is_before: impl Fn(&StatementLine) -> bool,
    ) -> Result<u64, StoreError> {
        list::partition_point(range.start, range.end, |number| Ok(is_before(&self.line(number)?)))
    }

    fn line(&self, number: u64) -> Result<StatementLine, StoreError> {
        let Some(seq) = self.numbers.get((self.account.0, number))? else {
            return Err(StoreError::Inconsistent {
                what: format!("account {} has no line {number}", self.account.0),
            });
        };
        required(&STATEMENT_LINES, &self.lines, seq.value())
    }
}

fn narrow(range: &mut Range<u64>, bounds: Range<u64>) {
    range.start = range.start.max(bounds.start);
    range.end = range.end.min(bounds.end).max(range.start);
}
