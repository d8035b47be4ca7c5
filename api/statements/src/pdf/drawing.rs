//! Puts the sheets of a statement on paper: letterhead, table, foot.

use cardswitch_engine::domain::money::{CurrencyCode, Minor};
use cardswitch_wire::amount::write_sum;

use super::file::PdfFile;
use super::fonts::{Fonts, Weight};
use super::head::Head;
use super::layout::{
    DESCRIPTION_WIDTH, FIRST_ROWS_TOP, LineRow, ROW_LEADING, ROW_SIZE, ROWS_TOP, Row, SHEET_HEIGHT,
    SHEET_WIDTH, Sheet, Totals,
};
use super::text::SetText;
use crate::StatementError;
use crate::export::Export;

/// Edges of the columns. Units: points from the left edge.
const LEFT: f32 = 54.0;
const RIGHT: f32 = SHEET_WIDTH - LEFT;
const NUMBER_RIGHT: f32 = 150.0;
const DESCRIPTION_LEFT: f32 = 162.0;
const AMOUNT_RIGHT: f32 = 470.0;
const SUMMARY_LEFT: f32 = 340.0;
const VALUE_LEFT: f32 = 122.0;
/// The widest amount that leaves its neighbours alone; wider ones are set smaller.
const AMOUNT_WIDTH: f32 = 84.0;
const _: () = assert!(DESCRIPTION_LEFT + DESCRIPTION_WIDTH <= AMOUNT_RIGHT - AMOUNT_WIDTH + 8.0);
/// How far the letters of a row stand below its upper edge.
const ROW_ASCENT: f32 = 9.0;
const FOOT: f32 = SHEET_HEIGHT - 34.0;
const HAIRLINE: f32 = 0.5;

/// The document as far as it is drawn.
pub(super) struct Drawing<'f> {
    file: PdfFile<'f>,
    fonts: &'f Fonts,
    head: Head,
    amounts: AmountFormat,
    totals: Totals,
    sheets: usize,
    sheets_drawn: usize,
}

/// How amounts are printed.
#[derive(Clone, Copy, Debug)]
struct AmountFormat(CurrencyCode);

/// A shade of grey to black.
#[derive(Clone, Copy, Debug)]
enum Ink {
    Black,
    Grey,
    Pale,
}

/// How a text looks.
#[derive(Clone, Copy, Debug)]
struct Style {
    weight: Weight,
    size: f32,
    ink: Ink,
}

const TITLE: Style = Style { weight: Weight::Bold, size: 17.0, ink: Ink::Black };
const SUBTITLE: Style = Style { weight: Weight::Regular, size: 13.0, ink: Ink::Grey };
const PLAIN: Style = Style { weight: Weight::Regular, size: ROW_SIZE, ink: Ink::Black };
const QUIET: Style = Style { weight: Weight::Regular, size: ROW_SIZE, ink: Ink::Grey };
const STRONG: Style = Style { weight: Weight::Bold, size: ROW_SIZE, ink: Ink::Black };

impl<'f> Drawing<'f> {
    /// An empty document that will have so many sheets.
    pub(super) fn new(fonts: &'f Fonts, export: &Export, totals: Totals, sheets: usize) -> Self {
        let (file, head) = (PdfFile::new(fonts), Head::new(export));
        let amounts = AmountFormat(export.account.currency);
        Self { file, fonts, head, amounts, totals, sheets, sheets_drawn: 0 }
    }

    /// Draws the next sheet.
    pub(super) fn add(&mut self, sheet: &Sheet) {
        let is_first = self.sheets_drawn == 0;
        self.sheets_drawn += 1;
        let mut pen = Pen { file: &mut self.file, fonts: self.fonts, amounts: self.amounts };
        if is_first {
            pen.letterhead(&self.head, &self.totals);
        } else {
            pen.running_head(&self.head);
        }
        let mut top = if is_first { FIRST_ROWS_TOP } else { ROWS_TOP };
        pen.column_heads(top - 12.0);
        for row in &sheet.rows {
            pen.row(row, top, &self.totals);
            top += row.height();
        }
        pen.foot(&self.head, self.sheets_drawn, self.sheets);
        self.file.end_page();
    }

    /// The file.
    /// Errors: a font cannot be embedded.
    pub(super) fn finish(self) -> Result<Vec<u8>, StatementError> {
        assert_eq!(
            self.sheets_drawn, self.sheets,
            "both readings of the lines fill as many sheets"
        );
        self.file.finish(&self.head.file_info())
    }
}

cardswitch_engine::opaque!(Drawing<'_>);

/// Draws on one sheet.
struct Pen<'d, 'f> {
    file: &'d mut PdfFile<'f>,
    fonts: &'f Fonts,
    amounts: AmountFormat,
}

impl Pen<'_, '_> {
    fn letterhead(&mut self, head: &Head, totals: &Totals) {
        self.fitted(&head.company, (LEFT, 60.0), TITLE, 330.0);
        self.right("Account statement", RIGHT, 60.0, SUBTITLE);
        for (line, y) in head.address.iter().zip([76.0, 88.0, 100.0]) {
            self.fitted(line, (LEFT, y), QUIET, RIGHT - LEFT);
        }
        self.rule(LEFT, 114.0, RIGHT - LEFT, Ink::Pale);
        let details = [
            ("Account", &head.account),
            ("Number", &head.number),
            ("Period", &head.period),
            ("Currency", &head.currency),
            ("Issued", &head.drawn_at),
        ];
        for ((name, value), y) in details.into_iter().zip((0..).map(summary_y)) {
            self.left(name, LEFT, y, QUIET);
            self.fitted(value, (VALUE_LEFT, y), PLAIN, SUMMARY_LEFT - VALUE_LEFT - 12.0);
        }
        self.summary(totals);
    }

    fn summary(&mut self, totals: &Totals) {
        let rows = [
            ("Opening balance".to_owned(), i128::from(totals.opening.0), PLAIN),
            (format!("Credits ({})", totals.credit_count), totals.credits, PLAIN),
            (format!("Debits ({})", totals.debit_count), totals.debits, PLAIN),
            ("Closing balance".to_owned(), i128::from(totals.closing.0), STRONG),
        ];
        for ((name, sum, style), y) in rows.into_iter().zip((0..).map(summary_y)) {
            self.left(&name, SUMMARY_LEFT, y, style);
            self.sum(sum, RIGHT, y, style);
        }
        self.rule(SUMMARY_LEFT, summary_y(2) + 4.0, RIGHT - SUMMARY_LEFT, Ink::Grey);
    }

    fn running_head(&mut self, head: &Head) {
        self.fitted(&head.company, (LEFT, 52.0), QUIET, 300.0);
        self.right("Account statement", RIGHT, 52.0, QUIET);
    }

    fn column_heads(&mut self, y: f32) {
        self.left("Date", LEFT, y, STRONG);
        self.right("Number", NUMBER_RIGHT, y, STRONG);
        self.left("Description", DESCRIPTION_LEFT, y, STRONG);
        self.right("Amount", AMOUNT_RIGHT, y, STRONG);
        self.right("Balance", RIGHT, y, STRONG);
        self.rule(LEFT, y + 5.0, RIGHT - LEFT, Ink::Black);
    }

    fn row(&mut self, row: &Row, top: f32, totals: &Totals) {
        let y = top + ROW_ASCENT;
        match row {
            Row::Opening(balance) => self.balance_row("Opening balance", *balance, y),
            Row::Forward(balance) => self.balance_row("Brought forward", *balance, y),
            Row::Line(line) => self.line(line, y),
            Row::Nothing => self.left("No lines in this period", DESCRIPTION_LEFT, y, QUIET),
            Row::End => self.end(totals, y),
        }
    }

    fn balance_row(&mut self, name: &str, balance: Minor, y: f32) {
        self.left(name, DESCRIPTION_LEFT, y, QUIET);
        self.amount(balance, RIGHT, y, QUIET);
    }

    fn line(&mut self, line: &LineRow, y: f32) {
        self.left(&line.date, LEFT, y, PLAIN);
        self.right(&line.number.to_string(), NUMBER_RIGHT, y, PLAIN);
        for (text, place) in line.description.iter().zip(0_u8..) {
            self.left(text, DESCRIPTION_LEFT, y + f32::from(place) * ROW_LEADING, PLAIN);
        }
        self.amount(line.amount, AMOUNT_RIGHT, y, PLAIN);
        self.amount(line.balance, RIGHT, y, PLAIN);
    }

    fn end(&mut self, totals: &Totals, y: f32) {
        self.rule(LEFT, y - ROW_ASCENT + 2.0, RIGHT - LEFT, Ink::Black);
        let step = ROW_LEADING + 2.0;
        let y = y + 5.0;
        self.left("Total credits", DESCRIPTION_LEFT, y, PLAIN);
        self.sum(totals.credits, AMOUNT_RIGHT, y, PLAIN);
        self.left("Total debits", DESCRIPTION_LEFT, y + step, PLAIN);
        self.sum(totals.debits, AMOUNT_RIGHT, y + step, PLAIN);
        self.left("Closing balance", DESCRIPTION_LEFT, y + 2.0 * step, STRONG);
        self.amount(totals.closing, RIGHT, y + 2.0 * step, STRONG);
    }

    fn foot(&mut self, head: &Head, sheet: usize, sheets: usize) {
        let account = format!("Account {}, {}", head.number, head.period);
        self.left(&account, LEFT, FOOT, QUIET);
        self.right(&format!("Page {sheet} of {sheets}"), RIGHT, FOOT, QUIET);
    }

    fn amount(&mut self, minor: Minor, right: f32, y: f32, style: Style) {
        self.sum(i128::from(minor.0), right, y, style);
    }

    fn sum(&mut self, sum: i128, right: f32, y: f32, style: Style) {
        let set = self.fonts.set(&self.amounts.render(sum), style.weight);
        let size = style.size.min(AMOUNT_WIDTH / set.width.max(f32::EPSILON));
        let style = Style { size, ..style };
        self.draw(&set, right - set.width * size, y, style);
    }

    fn left(&mut self, text: &str, x: f32, y: f32, style: Style) {
        let set = self.fonts.set(text, style.weight);
        self.draw(&set, x, y, style);
    }

    fn right(&mut self, text: &str, right: f32, y: f32, style: Style) {
        let set = self.fonts.set(text, style.weight);
        self.draw(&set, right - set.width * style.size, y, style);
    }

    /// One line in the given width, cut where it has to be.
    fn fitted(&mut self, text: &str, (x, y): (f32, f32), style: Style, width: f32) {
        // Letters of the bold font are a tenth wider than those that `wrap` measures.
        let room = if style.weight == Weight::Bold { width / 1.1 } else { width };
        let lines = self.fonts.wrap(text, room / style.size, 1);
        self.left(lines.first().map_or("", String::as_str), x, y, style);
    }

    fn draw(&mut self, set: &SetText, x: f32, y: f32, style: Style) {
        self.file.set_grey(style.ink.shade());
        let mut x = x;
        for run in &set.runs {
            self.file.show(&set.text, run, (x, y), style.size);
            x += run.width * style.size;
        }
    }

    fn rule(&mut self, x: f32, y: f32, width: f32, ink: Ink) {
        self.file.set_grey(ink.shade());
        self.file.fill_rect(x, y, width, HAIRLINE);
    }
}

/// Units: points.
fn summary_y(place: u8) -> f32 {
    132.0 + f32::from(place) * 14.0
}

impl Ink {
    /// Between 0 (black) and 255 (white).
    const fn shade(self) -> u8 {
        match self {
            Self::Black => 0,
            Self::Grey => 96,
            Self::Pale => 190,
        }
    }
}

impl AmountFormat {
    /// With a comma before each three whole digits.
    fn render(self, sum: i128) -> String {
        let mut plain = String::new();
        write_sum(&mut plain, sum, self.0);
        group_digits(&plain)
    }
}

fn group_digits(plain: &str) -> String {
    let (sign, digits) = plain.strip_prefix('-').map_or(("", plain), |digits| ("-", digits));
    let (whole, fraction) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    let mut grouped = sign.to_owned();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped.push_str(fraction);
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_digits_stand_in_threes() {
        let rows = [
            ("0.00", "0.00"),
            ("-5.10", "-5.10"),
            ("999.99", "999.99"),
            ("1000.00", "1,000.00"),
            ("-123456.78", "-123,456.78"),
            ("1234567", "1,234,567"),
            ("-1000000000000.000", "-1,000,000,000,000.000"),
        ];
        for (plain, expected) in rows {
            assert_eq!(group_digits(plain), expected);
        }
    }
}
