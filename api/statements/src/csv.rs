//! A statement as CSV: a header row, then one row a line, oldest first.
//! Source: RFC 4180; UTF-8 without a byte order mark.
//!
//! There are no rows but lines: the balance before the first row is its `balance` less its
//! `amount`, and the last row's `balance` is the closing one.

use std::borrow::Cow;

use bytes::Bytes;
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::store::Snapshot;
use cardswitch_wire::amount::Amount;
use cardswitch_wire::currency::render_currency;
use cardswitch_wire::reference::render_last_four;
use cardswitch_wire::time::{render_date, render_time};
use csv::{Terminator, Writer, WriterBuilder};

use super::export::{Background, Entry, Export};
use super::{StatementError, StatementWriter};

const COLUMNS: [&str; 15] = [
    "date",
    "number",
    "description",
    "amount",
    "balance",
    "currency",
    "merchant",
    "mcc",
    "card",
    "last_four",
    "member",
    "bank_account",
    "time",
    "transaction_id",
    "id",
];

/// Writes the file.
#[derive(Debug)]
pub struct CsvStatement {
    export: Export,
    currency: String,
    has_header: bool,
}

impl CsvStatement {
    /// The file of these lines.
    pub fn new(export: Export) -> Self {
        let currency = render_currency(export.account.currency);
        Self { export, currency, has_header: false }
    }
}

impl StatementWriter for CsvStatement {
    fn next_piece(&mut self) -> Result<Option<Bytes>, StatementError> {
        if !std::mem::replace(&mut self.has_header, true) {
            let mut rows = rows();
            rows.write_record(COLUMNS)?;
            return finish(rows).map(Some);
        }
        let code = self.export.account.currency;
        let currency = &self.currency;
        let amount = |minor: Minor| Amount::new(minor, code).to_string();
        self.export.next_page(|snapshot, entries| {
            let mut rows = rows();
            for entry in entries {
                write_entry(&mut rows, snapshot, entry, currency, &amount)?;
            }
            finish(rows)
        })
    }
}

fn rows() -> Writer<Vec<u8>> {
    WriterBuilder::new().terminator(Terminator::CRLF).from_writer(Vec::new())
}

fn finish(rows: Writer<Vec<u8>>) -> Result<Bytes, StatementError> {
    rows.into_inner()
        .map(Bytes::from)
        .map_err(|error| StatementError::Csv(error.into_error().into()))
}

fn write_entry(
    rows: &mut Writer<Vec<u8>>,
    snapshot: &Snapshot,
    entry: &Entry,
    currency: &str,
    amount: &impl Fn(Minor) -> String,
) -> Result<(), StatementError> {
    let line = &entry.line;
    let Background { origin, card, member } = Background::read(snapshot, line)?;
    let merchant = line.merchant_or(origin.record.merchant.as_ref());
    let mcc = merchant.and_then(|merchant| merchant.mcc).map(|mcc| format!("{:04}", mcc.0));
    let member = member.map(|member| format!("{} {}", member.first_name, member.last_name));
    let bank_account = origin.record.bank_account.as_ref();
    rows.write_record([
        &render_date(line.posted_on),
        &line.number.to_string(),
        &*text(&line.description),
        &amount(line.amount),
        &amount(entry.balance),
        currency,
        &text(merchant.map_or("", |merchant| &merchant.name)),
        mcc.as_deref().unwrap_or_default(),
        &text(card.as_ref().map_or("", |card| &card.texts.description)),
        &card.as_ref().map(|card| render_last_four(card.last_four)).unwrap_or_default(),
        &text(member.as_deref().unwrap_or_default()),
        &text(bank_account.map_or("", |bank| &bank.name)),
        &render_time(line.posted_at),
        &origin.record.id.0.to_string(),
        &line.id.0.to_string(),
    ])?;
    Ok(())
}

/// A text that no spreadsheet takes for a formula: an apostrophe before it keeps it a text.
/// Source: the advice of OWASP on CSV injection.
fn text(plain: &str) -> Cow<'_, str> {
    if plain.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']) {
        Cow::Owned(format!("'{plain}"))
    } else {
        Cow::Borrowed(plain)
    }
}

impl From<csv::Error> for StatementError {
    fn from(error: csv::Error) -> Self {
        Self::Csv(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_look_like_formulas_are_kept_texts() {
        let rows = [
            ("=1+1", "'=1+1"),
            ("+49 30 1234", "'+49 30 1234"),
            ("-5", "'-5"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\t=1", "'\t=1"),
            ("7-ELEVEN", "7-ELEVEN"),
            ("a=b", "a=b"),
            ("'=1", "'=1"),
            ("", ""),
        ];
        for (plain, expected) in rows {
            assert_eq!(text(plain), expected, "{plain:?}");
        }
    }

    #[test]
    fn cells_with_commas_quotes_and_breaks_are_quoted() {
        let mut rows = rows();
        rows.write_record(["a,b", "say \"so\"", "two\nlines", "plain"]).unwrap();
        let written = finish(rows).unwrap();
        assert_eq!(written, "\"a,b\",\"say \"\"so\"\"\",\"two\nlines\",plain\r\n");
    }
}
