//! The rows on each sheet of a statement, and their totals.

use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::domain::posting::StatementLine;
use cardswitch_engine::store::{Snapshot, StoreError};
use cardswitch_wire::time::render_date;

use super::fonts::Fonts;
use crate::StatementError;
use crate::export::{Background, Entry, Export, movement};

/// Units: points, from the upper edge of the sheet.
pub(super) const SHEET_WIDTH: f32 = 612.0;
pub(super) const SHEET_HEIGHT: f32 = 792.0;
pub(super) const FIRST_ROWS_TOP: f32 = 232.0;
pub(super) const ROWS_TOP: f32 = 88.0;
const ROWS_BOTTOM: f32 = 738.0;
pub(super) const ROW_LEADING: f32 = 11.5;
const ROW_GAP: f32 = 4.0;
const END_HEIGHT: f32 = 3.0 * (ROW_LEADING + ROW_GAP) + 8.0;
/// The column of descriptions. Units: points.
pub(super) const DESCRIPTION_WIDTH: f32 = 216.0;
pub(super) const ROW_SIZE: f32 = 8.5;
/// A description that needs more is cut.
const DESCRIPTION_LINES_MAX: usize = 3;

/// A row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Row {
    /// The balance before the first line of the statement.
    Opening(Minor),
    /// The balance at the foot of the sheet before.
    Forward(Minor),
    /// A line.
    Line(LineRow),
    /// In place of lines, where there are none.
    Nothing,
    /// Totals, and the balance after the last line.
    End,
}

/// A line as it is printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LineRow {
    pub(super) date: String,
    pub(super) number: u64,
    pub(super) description: Vec<String>,
    pub(super) amount: Minor,
    pub(super) balance: Minor,
}

#[derive(Debug)]
pub(super) struct Sheet {
    pub(super) rows: Vec<Row>,
    /// How much room is left under them. Units: points.
    room: f32,
}

/// The totals of the lines. Balances stay in bounds; what came and what went may each be far more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) opening: Minor,
    pub(super) credits: i128,
    pub(super) credit_count: u64,
    /// Below zero.
    pub(super) debits: i128,
    pub(super) debit_count: u64,
    pub(super) closing: Minor,
}

/// Fills sheet after sheet and hands each over once it is full; the same lines always give the same
/// sheets.
/// Errors: the tables cannot be read.
pub(super) fn lay_out(
    fonts: &Fonts,
    mut export: Export,
    mut take: impl FnMut(Sheet),
) -> Result<Totals, StatementError> {
    let mut totals = Totals::from(export.opening);
    let mut sheet = Sheet::first(export.opening);
    while let Some(rows) = next_rows(fonts, &mut export)? {
        for row in rows {
            let balance = totals.closing;
            totals.add(row.amount);
            if let Some(full) = sheet.push(Row::Line(row), balance) {
                take(full);
            }
        }
    }
    let nothing = (totals.credit_count + totals.debit_count == 0).then_some(Row::Nothing);
    for row in nothing.into_iter().chain([Row::End]) {
        if let Some(full) = sheet.push(row, totals.closing) {
            take(full);
        }
    }
    take(sheet);
    // INVARIANT: opening and lines make closing, as the reader of the lines has counted it.
    assert_eq!(totals.closing, export.balance);
    Ok(totals)
}

fn next_rows(fonts: &Fonts, export: &mut Export) -> Result<Option<Vec<LineRow>>, StatementError> {
    export.next_page(|snapshot, entries| {
        let rows = entries.iter().map(|entry| LineRow::new(fonts, snapshot, entry));
        Ok(rows.collect::<Result<_, StoreError>>()?)
    })
}

impl LineRow {
    fn new(fonts: &Fonts, snapshot: &Snapshot, entry: &Entry) -> Result<Self, StoreError> {
        let line = &entry.line;
        let width = DESCRIPTION_WIDTH / ROW_SIZE;
        let mut description = fonts.wrap(&line.description, width, DESCRIPTION_LINES_MAX);
        if description.is_empty() {
            description = fonts.wrap(&far_end(snapshot, line)?, width, DESCRIPTION_LINES_MAX);
        }
        Ok(Self {
            date: render_date(line.posted_on),
            number: line.number,
            description,
            amount: line.amount,
            balance: entry.balance,
        })
    }
}

/// The name of a line whose description is blank.
fn far_end(snapshot: &Snapshot, line: &StatementLine) -> Result<String, StoreError> {
    let origin = Background::read(snapshot, line)?.origin.record;
    let bank_account = origin.bank_account.map(|account| account.name);
    let merchant = line.merchant_or(origin.merchant.as_ref()).map(|merchant| merchant.name.clone());
    let name = bank_account.into_iter().chain(merchant).find(|name| !name.trim().is_empty());
    Ok(name.map_or_else(|| movement(origin.kind, line.amount).to_owned(), String::from))
}

impl Row {
    /// Units: points.
    pub(super) fn height(&self) -> f32 {
        match self {
            Self::Line(line) => {
                let lines = line.description.len().max(1);
                lines as f32 * ROW_LEADING + ROW_GAP
            }
            Self::Opening(_) | Self::Forward(_) | Self::Nothing => ROW_LEADING + ROW_GAP,
            Self::End => END_HEIGHT,
        }
    }
}

impl Sheet {
    fn first(opening: Minor) -> Self {
        Self::under(Row::Opening(opening), FIRST_ROWS_TOP)
    }

    fn under(row: Row, top: f32) -> Self {
        Self { room: ROWS_BOTTOM - top - row.height(), rows: vec![row] }
    }

    /// Adds a row, on a sheet of its own where this one has no room; then this one is returned.
    fn push(&mut self, row: Row, balance: Minor) -> Option<Self> {
        let height = row.height();
        let is_full = height > self.room;
        let full =
            is_full.then(|| std::mem::replace(self, Self::under(Row::Forward(balance), ROWS_TOP)));
        self.room -= height;
        self.rows.push(row);
        full
    }
}

impl From<Minor> for Totals {
    fn from(opening: Minor) -> Self {
        Self { opening, credits: 0, credit_count: 0, debits: 0, debit_count: 0, closing: opening }
    }
}

impl Totals {
    fn add(&mut self, amount: Minor) {
        self.closing += amount;
        if amount.0 < 0 {
            self.debits += i128::from(amount.0);
            self.debit_count += 1;
        } else {
            self.credits += i128::from(amount.0);
            self.credit_count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(lines: usize) -> Row {
        let description = vec![String::new(); lines];
        let (amount, balance) = (Minor(1), Minor(1));
        Row::Line(LineRow { date: String::new(), number: 1, description, amount, balance })
    }

    #[test]
    fn rows_never_stand_below_the_foot_of_a_sheet() {
        let mut sheets = Vec::new();
        let mut sheet = Sheet::first(Minor::ZERO);
        for number in 0..500 {
            sheets.extend(sheet.push(line(number % 4), Minor(7)));
        }
        sheets.extend(sheet.push(Row::End, Minor(7)));
        sheets.push(sheet);
        for (place, sheet) in sheets.iter().enumerate() {
            let top = if place == 0 { FIRST_ROWS_TOP } else { ROWS_TOP };
            let height: f32 = sheet.rows.iter().map(Row::height).sum();
            assert!(top + height <= ROWS_BOTTOM + 0.01, "sheet {place}: {height}");
            let head = if place == 0 { Row::Opening(Minor(0)) } else { Row::Forward(Minor(7)) };
            assert_eq!(sheet.rows[0], head);
        }
        let rows: usize = sheets.iter().map(|sheet| sheet.rows.len() - 1).sum();
        assert_eq!(rows, 501, "each row stands on one sheet");
        assert!(sheets.len() > 10);
    }

    #[test]
    fn totals_part_what_came_from_what_went() {
        let mut totals = Totals::from(Minor(100));
        for amount in [50, -30, 0, -1] {
            totals.add(Minor(amount));
        }
        let expected = Totals {
            opening: Minor(100),
            credits: 50,
            credit_count: 2,
            debits: -31,
            debit_count: 2,
            closing: Minor(119),
        };
        assert_eq!(totals, expected);
    }

    #[test]
    fn totals_have_room_for_more_than_a_balance_can_be() {
        let mut totals = Totals::from(Minor::ZERO);
        for _ in 0..1_000 {
            totals.add(Minor::AMOUNT_MAX);
            totals.add(-Minor::AMOUNT_MAX);
        }
        let gross = 1_000 * i128::from(Minor::AMOUNT_MAX.0);
        assert_eq!((totals.credits, totals.debits), (gross, -gross));
        assert_eq!(totals.closing, Minor::ZERO);
    }
}
