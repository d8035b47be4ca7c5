//! Statement lines of an account.

use std::ops::Range;

use redb::ReadOnlyTable;

use super::Snapshot;
use super::list::{self, ListPage, Order, Page};
use crate::domain::business_date::BusinessDate;
use crate::domain::ids::{AccountSlot, LineSeq};
use crate::domain::posting::StatementLine;
use crate::packed::parse_line;
use crate::store::blocks::{BlockReader, BlockRow};
use crate::store::error::StoreError;
use crate::store::runs::{ChunkKey, RunKind, RunReader, RunTables};
use crate::store::tables::LINE_BLOCKS;

/// A filter for the lines of an account; every part that is set has to fit.
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

/// Lines of an account with consecutive numbers, and how far they were read. Lines never change,
/// so a span may be read on over several snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineSpan {
    account: AccountSlot,
    numbers: Range<u64>,
    /// Behind the line that was read last.
    next_seq: Option<LineSeq>,
}

impl LineSpan {
    /// The lines of an account with these numbers.
    pub fn new(account: AccountSlot, numbers: Range<u64>) -> Self {
        Self { account, numbers, next_seq: None }
    }

    /// The numbers that were not read yet.
    pub fn numbers(&self) -> Range<u64> {
        self.numbers.clone()
    }
}

impl Snapshot {
    /// Finds a line.
    pub fn statement_line(&self, seq: LineSeq) -> Result<Option<StatementLine>, StoreError> {
        let mut lines = self.blocks(LINE_BLOCKS)?;
        lines.row(seq.0)?.as_ref().map(parse_line_row).transpose()
    }

    /// The lines of an account that fit, for reading them from the first to the last.
    /// Cost: O(log lines) rows.
    pub fn line_span(
        &self,
        account: AccountSlot,
        filter: &LineFilter,
    ) -> Result<LineSpan, StoreError> {
        let runs = self.runs()?;
        let mut lines = AccountLines::open(self, &runs, account)?;
        Ok(LineSpan::new(account, lines.numbers_within(filter, &Page::first(0))?))
    }

    /// Reads on in a span; nothing once it is read.
    /// Cost: O(limit) rows, and O(lines before) keys the first time.
    pub fn next_lines(
        &self,
        span: &mut LineSpan,
        limit: usize,
    ) -> Result<Vec<StatementLine>, StoreError> {
        let runs = self.runs()?;
        let lines = AccountLines::open(self, &runs, span.account)?.read_on(span, limit)?;
        if let Some(last) = lines.last() {
            span.numbers.start = last.number + 1;
            span.next_seq = Some(last.seq.next());
        }
        Ok(lines)
    }

    /// Lists an account's lines; newest first is the highest number first.
    /// Cost: O(offset + limit) keys.
    pub fn list_statement_lines(
        &self,
        account: AccountSlot,
        filter: &LineFilter,
        page: &Page,
    ) -> Result<ListPage<StatementLine>, StoreError> {
        let runs = self.runs()?;
        let mut lines = AccountLines::open(self, &runs, account)?;
        let numbers = lines.numbers_within(filter, page)?;
        if numbers.is_empty() {
            return Ok(ListPage::EMPTY);
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

impl<'r> AccountLines<'r> {
    fn open(
        snapshot: &Snapshot,
        runs: &'r RunTables,
        account: AccountSlot,
    ) -> Result<Self, StoreError> {
        let numbers = runs.reader(RunKind::AccountLines)?;
        Ok(Self { account, numbers, lines: snapshot.blocks(LINE_BLOCKS)? })
    }

    fn read_on(&mut self, span: &LineSpan, limit: usize) -> Result<Vec<StatementLine>, StoreError> {
        let numbers = span.numbers();
        let left = numbers.end.saturating_sub(numbers.start);
        let limit = usize::try_from(left).unwrap_or(usize::MAX).min(limit);
        let from = span.next_seq.map_or(0, |seq| seq.0);
        let mut hits =
            self.numbers.scan(u64::from(self.account.0), from..u64::MAX, Order::OldestFirst);
        if span.next_seq.is_none() {
            hits.leave_out(numbers.start.saturating_sub(1))?;
        }
        let mut read = Vec::with_capacity(limit);
        for (number, seq) in (numbers.start..).zip(hits.take(limit)) {
            let line = line_at(&mut self.lines, seq?)?;
            if line.number != number {
                return Err(no_line(self.account, number));
            }
            read.push(line);
        }
        if read.len() < limit {
            return Err(no_line(self.account, numbers.start + read.len() as u64));
        }
        Ok(read)
    }

    fn take_page(
        &mut self,
        numbers: Range<u64>,
        page: &Page,
    ) -> Result<ListPage<StatementLine>, StoreError> {
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
        ListPage { count, rows: hits }.load(|seq| line_at(&mut self.lines, seq))
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
            return Err(no_line(self.account, number));
        };
        line_at(&mut self.lines, seq)
    }
}

fn no_line(account: AccountSlot, number: u64) -> StoreError {
    StoreError::Inconsistent { what: format!("account {} has no line {number}", account.0) }
}

fn line_at(lines: &mut BlockReader, seq: u64) -> Result<StatementLine, StoreError> {
    let Some(row) = lines.row(seq)? else {
        let what = format!("a list names statement line {seq}, and there is none");
        return Err(StoreError::Inconsistent { what });
    };
    parse_line_row(&row)
}

pub(in crate::store) fn parse_line_row(row: &BlockRow<'_>) -> Result<StatementLine, StoreError> {
    parse_line(row.bytes).map_err(|source| StoreError::Row { table: "line_blocks", source })
}

fn narrow(range: &mut Range<u64>, bounds: Range<u64>) {
    range.start = range.start.max(bounds.start);
    range.end = range.end.min(bounds.end).max(range.start);
}
