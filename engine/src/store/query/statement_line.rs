//! Statement lines of an account.

use std::ops::Range;

use redb::ReadOnlyTable;

use super::Snapshot;
use super::list::{self, Listed, Order, Page};
use crate::domain::business_date::BusinessDate;
use crate::domain::ids::AccountSlot;
use crate::domain::posting::StatementLine;
use crate::packed::parse_line;
use crate::store::blocks::BlockReader;
use crate::store::error::StoreError;
use crate::store::runs::{ChunkKey, RunKind, RunReader};
use crate::store::tables::LINE_BLOCKS;

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
        let runs = self.runs()?;
        let mut lines = AccountLines {
            account,
            numbers: runs.reader(RunKind::AccountLines)?,
            lines: self.blocks(LINE_BLOCKS)?,
        };
        let numbers = lines.numbers_within(filter, page)?;
        if numbers.is_empty() {
            return Ok(Listed::EMPTY);
        }
        lines.take_page(numbers, page)
    }
}

type LineRuns<'r> = RunReader<'r, ReadOnlyTable<ChunkKey, &'static [u8]>>;

/// An account's lines. The n-th of its list has the number n, since numbers have no gaps.
struct AccountLines<'r> {
    account: AccountSlot,
    numbers: LineRuns<'r>,
    lines: BlockReader,
}

impl AccountLines<'_> {
    fn take_page(
        &mut self,
        numbers: Range<u64>,
        page: &Page,
    ) -> Result<Listed<StatementLine>, StoreError> {
        let count = numbers.end - numbers.start;
        let before = match page.order {
            Order::OldestFirst => numbers.start - 1,
            Order::NewestFirst => self.count()? + 1 - numbers.end,
        };
        let offset = (page.offset as u64).min(count);
        let mut hits = self.numbers.scan(u64::from(self.account.0), 0..u64::MAX, page.order);
        hits.leave_out(before + offset)?;
        let limit = usize::try_from(count - offset).unwrap_or(usize::MAX).min(page.limit);
        let hits = hits.take(limit).collect::<Result<Vec<_>, _>>()?;
        Listed { count, rows: hits }.load(|seq| line_at(&mut self.lines, seq))
    }

    fn count(&self) -> Result<u64, StoreError> {
        self.numbers.count(u64::from(self.account.0), 0..u64::MAX)
    }

    /// The numbers that fit. Numbers have no gaps and rise with time, so they are a range.
    fn numbers_within(
        &mut self,
        filter: &LineFilter,
        page: &Page,
    ) -> Result<Range<u64>, StoreError> {
        let mut range = 1..self.count()? + 1;
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
        &mut self,
        range: &Range<u64>,
        is_before: impl Fn(&StatementLine) -> bool,
    ) -> Result<u64, StoreError> {
        list::partition_point(range.start, range.end, |number| Ok(is_before(&self.line(number)?)))
    }

    fn line(&mut self, number: u64) -> Result<StatementLine, StoreError> {
        let account = self.account.0;
        let mut hits = self.numbers.scan(u64::from(account), 0..u64::MAX, Order::OldestFirst);
        hits.leave_out(number - 1)?;
        let Some(seq) = hits.next().transpose()? else {
            return Err(StoreError::Inconsistent {
                what: format!("account {account} has no line {number}"),
            });
        };
        line_at(&mut self.lines, seq)
    }
}

fn line_at(lines: &mut BlockReader, seq: u64) -> Result<StatementLine, StoreError> {
    let Some(row) = lines.row(seq)? else {
        let what = format!("a list names statement line {seq}, and there is none");
        return Err(StoreError::Inconsistent { what });
    };
    parse_line(row.bytes).map_err(|source| StoreError::Row { table: "line_blocks", source })
}

fn narrow(range: &mut Range<u64>, bounds: Range<u64>) {
    range.start = range.start.max(bounds.start);
    range.end = range.end.min(bounds.end).max(range.start);
}
