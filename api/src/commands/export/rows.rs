//! Events with their transactions as rows of `cardswitch.transactions`, in the text format of COPY.
//! Source: PostgreSQL, COPY, "Text Format".

use std::borrow::Cow;
use std::collections::HashSet;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The event that is a transaction's first.
const CREATED: &str = "transaction.created";

/// A text, copied only where JSON escapes some of it.
type Text<'a> = Cow<'a, str>;

/// An event of a page.
#[derive(Debug, Deserialize)]
pub(super) struct ExportedEvent<'a> {
    #[serde(borrow)]
    event: Text<'a>,
    sequence: i64,
    #[serde(borrow)]
    company: ObjectRef<'a>,
    #[serde(borrow)]
    transaction: ExportedTransaction<'a>,
    pub(super) created_at: String,
}

/// An object by its id.
#[derive(Debug, Deserialize)]
struct ObjectRef<'a> {
    #[serde(borrow)]
    id: Text<'a>,
}

#[derive(Debug, Deserialize)]
struct ExportedMerchant<'a> {
    mid: u64,
    mcc: Option<u16>,
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    city: Text<'a>,
    #[serde(borrow)]
    state: Text<'a>,
    #[serde(borrow)]
    zip: Text<'a>,
    #[serde(borrow)]
    country: Text<'a>,
}

#[derive(Debug, Deserialize)]
struct ExportedReceipt {
    is_lost: Option<bool>,
}

/// A transaction, as far as it has columns. Amounts stay as they are written.
#[derive(Debug, Deserialize)]
struct ExportedTransaction<'a> {
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(borrow)]
    state: Text<'a>,
    #[serde(borrow)]
    kind: Text<'a>,
    #[serde(borrow)]
    amount: &'a RawValue,
    #[serde(borrow)]
    foreign_amount: Option<&'a RawValue>,
    foreign_currency_code: Option<String>,
    response_code: Option<u16>,
    #[serde(default)]
    failed_rules: Vec<String>,
    #[serde(default)]
    flags: Vec<String>,
    #[serde(borrow)]
    card: Option<ObjectRef<'a>>,
    #[serde(borrow)]
    member: Option<ObjectRef<'a>>,
    #[serde(borrow)]
    category: Option<ObjectRef<'a>>,
    #[serde(borrow)]
    department: Option<ObjectRef<'a>>,
    #[serde(borrow)]
    label: Option<ObjectRef<'a>>,
    #[serde(borrow)]
    location: Option<ObjectRef<'a>>,
    #[serde(borrow)]
    requisition: Option<ObjectRef<'a>>,
    #[serde(borrow)]
    refund_of: Option<ObjectRef<'a>>,
    receipt: Option<ExportedReceipt>,
    #[serde(borrow)]
    note: Text<'a>,
    #[serde(borrow)]
    merchant: Option<ExportedMerchant<'a>>,
    #[serde(borrow)]
    time: Text<'a>,
    #[serde(borrow)]
    posted_at: Option<Text<'a>>,
}

impl ExportedTransaction<'_> {
    fn has_receipt(&self) -> bool {
        self.receipt.as_ref().is_some_and(|receipt| receipt.is_lost.is_none())
    }
}

/// The rows of a page, one for each transaction, as its last event has it.
#[derive(Debug, Default)]
pub(super) struct PageRows {
    /// The rows of transactions that the page itself makes.
    pub(super) made: Bytes,
    /// The rows of other transactions, which have rows already.
    pub(super) changed: Bytes,
}

impl PageRows {
    pub(super) fn of(events: &[ExportedEvent<'_>]) -> Self {
        let made = events.iter().filter(|event| event.event == CREATED);
        let made: HashSet<_> = made.map(|event| &event.transaction.id).collect();
        let (mut made_rows, mut changed_rows) = (Rows(Vec::new()), Rows(Vec::new()));
        let mut seen = HashSet::with_capacity(events.len());
        for event in events.iter().rev() {
            let id = &event.transaction.id;
            if seen.insert(id) {
                let rows = if made.contains(id) { &mut made_rows } else { &mut changed_rows };
                rows.push(event);
            }
        }
        Self { made: made_rows.0.into(), changed: changed_rows.0.into() }
    }

    /// The same, where rows may be there already.
    pub(super) fn as_changed(&self) -> Self {
        Self { made: Bytes::new(), changed: [&self.changed[..], &self.made].concat().into() }
    }
}

/// Rows as they are put together.
struct Rows(Vec<u8>);

impl Rows {
    fn push(&mut self, event: &ExportedEvent<'_>) {
        for (_, cell) in COLUMNS {
            self.cell(cell(event, &event.transaction).as_deref());
        }
        if let Some(last) = self.0.last_mut() {
            *last = b'\n';
        }
    }

    /// A value, or that there is none, and what separates it from the next.
    fn cell(&mut self, text: Option<&str>) {
        let Some(text) = text else { return self.0.extend_from_slice(b"\\N\t") };
        let is_special = |byte: &u8| matches!(byte, b'\\' | b'\t' | b'\n' | b'\r');
        for run in text.as_bytes().split_inclusive(is_special) {
            self.0.extend_from_slice(run);
            let escape: &[u8] = match run.last() {
                Some(b'\\') => b"\\\\",
                Some(b'\t') => b"\\t",
                Some(b'\n') => b"\\n",
                Some(b'\r') => b"\\r",
                _ => continue,
            };
            self.0.pop();
            self.0.extend_from_slice(escape);
        }
        self.0.push(b'\t');
    }
}

/// How a cell is made of an event and its transaction; none is null.
type Cell = for<'a> fn(&'a ExportedEvent<'_>, &'a ExportedTransaction<'_>) -> Option<Text<'a>>;

/// The columns with their cells, in the order of both. Their types are in `schema.sql`.
const COLUMNS: [(&str, Cell); 30] = [
    ("id", |_, row| text(&row.id)),
    ("company_id", |event, _| text(&event.company.id)),
    ("sequence", |event, _| number(Some(event.sequence))),
    ("state", |_, row| text(&row.state)),
    ("kind", |_, row| text(&row.kind)),
    ("amount", |_, row| text(row.amount.get())),
    ("foreign_amount", |_, row| row.foreign_amount.and_then(|amount| text(amount.get()))),
    ("foreign_currency", |_, row| row.foreign_currency_code.as_deref().and_then(text)),
    ("response_code", |_, row| number(row.response_code)),
    ("failed_rules", |_, row| list(&row.failed_rules)),
    ("flags", |_, row| list(&row.flags)),
    ("card_id", |_, row| id(row.card.as_ref())),
    ("member_id", |_, row| id(row.member.as_ref())),
    ("category_id", |_, row| id(row.category.as_ref())),
    ("department_id", |_, row| id(row.department.as_ref())),
    ("label_id", |_, row| id(row.label.as_ref())),
    ("location_id", |_, row| id(row.location.as_ref())),
    ("requisition_id", |_, row| id(row.requisition.as_ref())),
    ("refund_of", |_, row| id(row.refund_of.as_ref())),
    ("has_receipt", |_, row| text(if row.has_receipt() { "t" } else { "f" })),
    ("note", |_, row| text(&row.note)),
    ("merchant_mid", |_, row| number(row.merchant.as_ref().map(|merchant| merchant.mid))),
    ("mcc", |_, row| number(row.merchant.as_ref().and_then(|merchant| merchant.mcc))),
    ("merchant_name", |_, row| row.merchant.as_ref().and_then(|merchant| text(&merchant.name))),
    ("merchant_city", |_, row| row.merchant.as_ref().and_then(|merchant| text(&merchant.city))),
    ("merchant_state", |_, row| row.merchant.as_ref().and_then(|merchant| text(&merchant.state))),
    ("merchant_zip", |_, row| row.merchant.as_ref().and_then(|merchant| text(&merchant.zip))),
    ("merchant_country", |_, row| {
        row.merchant.as_ref().and_then(|merchant| text(&merchant.country))
    }),
    ("authorized_at", |_, row| text(&row.time)),
    ("posted_at", |_, row| row.posted_at.as_deref().and_then(text)),
];

/// Their names.
pub(super) fn columns() -> [&'static str; COLUMNS.len()] {
    COLUMNS.map(|(name, _)| name)
}

fn text(text: &str) -> Option<Text<'_>> {
    Some(Cow::Borrowed(text))
}

fn number(number: Option<impl ToString>) -> Option<Text<'static>> {
    number.map(|number| Cow::Owned(number.to_string()))
}

/// An array of words, which need no quotes.
fn list(words: &[String]) -> Option<Text<'static>> {
    Some(Cow::Owned(format!("{{{}}}", words.join(","))))
}

fn id<'a>(named: Option<&'a ObjectRef<'_>>) -> Option<Text<'a>> {
    named.and_then(|named| text(&named.id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_is_one_row_of_its_last_event() {
        let event = |sequence: i64, state: &str| {
            let event = if sequence == 1 { CREATED } else { "transaction.updated" };
            format!(
                r#"{{"event": "{event}", "sequence": {sequence}, "company": {{"id": "c"}}, "created_at": "now", "cursor": "x",
                "transaction": {{"id": "t", "state": "{state}", "kind": "purchase", "amount": -1.50,
                "foreign_amount": null, "foreign_currency_code": null, "card": {{"id": "k"}},
                "member": null, "category": null, "department": null, "label": null, "location": null,
                "receipt": {{"id": "r", "is_lost": true}}, "note": "a\tb\\c\n", "flags": [],
                "failed_rules": ["one", "two"], "response_code": 1101,
                "merchant": {{"mid": 7, "mcc": null, "name": "Caf\u00e9", "city": "", "state": "NY",
                "zip": "1", "country": "US"}}, "time": "2026", "posted_at": null}}}}"#
            )
        };
        let page = format!("[{}, {}]", event(1, "pending"), event(2, "declined"));
        let events: Vec<ExportedEvent<'_>> = serde_json::from_str(&page).unwrap();
        let rows = PageRows::of(&events);
        assert!(rows.changed.is_empty() && PageRows::of(&events[1..]).made.is_empty());
        assert_eq!(PageRows::of(&events[1..]).changed, rows.made);
        assert_eq!(rows.as_changed().changed, rows.made);
        let rows = String::from_utf8(rows.made.to_vec()).unwrap();
        let expected = "t\tc\t2\tdeclined\tpurchase\t-1.50\t\\N\t\\N\t1101\t{one,two}\t{}\tk\t\\N\t\\N\t\\N\
            \t\\N\t\\N\t\\N\t\\N\tf\ta\\tb\\\\c\\n\t7\t\\N\tCaf\u{e9}\t\tNY\t1\tUS\t2026\t\\N\n";
        assert_eq!(rows, expected);
        assert_eq!(rows.trim_end().split('\t').count(), COLUMNS.len());
    }
}
