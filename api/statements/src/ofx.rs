//! A statement as OFX 2.2, the format that accounting programs import.
//! Source: OFX 2.2, sections 2.2 (headers), 11.4.2 (statement response).
//!
//! FITID is the id of the statement line, so the same line imported twice is recognized. Amounts
//! have the account's sign. LEDGERBAL is the closing balance at the end of the period, AVAILBAL
//! what is available now; BALLIST names both ends, so that opening and lines make closing.

use std::io;

use bytes::Bytes;
use cardswitch_engine::domain::business_date::{BusinessDate, date_at, start_of_date};
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::domain::money::{CurrencyCode, Minor};
use cardswitch_engine::domain::posting::StatementLine;
use cardswitch_engine::domain::transaction::{TransactionKind, TransactionRecord};
use cardswitch_engine::store::Snapshot;
use cardswitch_wire::amount::Amount;
use cardswitch_wire::currency::render_currency;
use chrono::DateTime;
use chrono_tz::Tz;
use quick_xml::Writer;
use quick_xml::escape::partial_escape;
use quick_xml::events::{BytesDecl, BytesEnd, BytesPI, BytesStart, BytesText, Event};

use super::export::{Background, Entry, Export, movement};
use super::{StatementError, StatementWriter};

/// The longest texts. Source: OFX 2.2, section 11.4.3. Units: characters.
const NAME_CHARS_MAX: usize = 32;
const MEMO_CHARS_MAX: usize = 255;
/// CHOICE: the account has no routing number; readers want nine digits there.
const BANK_ID: &str = "000000000";
/// Source: OFX 2.2, section 2.2.2.
const HEADER: &str = "OFX OFXHEADER=\"200\" VERSION=\"220\" SECURITY=\"NONE\" OLDFILEUID=\"NONE\" NEWFILEUID=\"NONE\"";
/// The elements around the lines, from the outside in.
const AROUND_STATEMENT: [&str; 3] = ["BANKMSGSRSV1", "STMTTRNRS", "STMTRS"];

/// How far the file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OfxPart {
    Head,
    Lines,
    End,
}

/// Writes the file.
#[derive(Debug)]
pub struct OfxStatement {
    export: Export,
    part: OfxPart,
}

impl OfxStatement {
    /// The file of these lines.
    pub const fn new(export: Export) -> Self {
        Self { export, part: OfxPart::Head }
    }
}

impl StatementWriter for OfxStatement {
    fn next_piece(&mut self) -> Result<Option<Bytes>, StatementError> {
        if self.part == OfxPart::End {
            return Ok(None);
        }
        if self.part == OfxPart::Head {
            self.part = OfxPart::Lines;
            return write_head(&self.export).map(Some).map_err(StatementError::Xml);
        }
        let (currency, zone) = (self.export.account.currency, self.export.company.zone);
        let lines = self.export.next_page(|snapshot, entries| {
            let mut elements = OfxElements::new(currency, zone);
            for entry in entries {
                let origin = origin_of(snapshot, entry)?;
                elements.line(entry, &origin).map_err(StatementError::Xml)?;
            }
            Ok::<_, StatementError>(elements.finish())
        })?;
        if lines.is_none() {
            self.part = OfxPart::End;
            return write_end(&self.export).map(Some).map_err(StatementError::Xml);
        }
        Ok(lines)
    }
}

fn origin_of(snapshot: &Snapshot, entry: &Entry) -> Result<TransactionRecord, StatementError> {
    let background = Background::read(snapshot, &entry.line)?;
    Ok(*background.origin.record)
}

fn write_head(export: &Export) -> io::Result<Bytes> {
    let mut elements = OfxElements::of(export);
    elements.declare()?;
    elements.open("OFX")?;
    elements.open("SIGNONMSGSRSV1")?;
    elements.open("SONRS")?;
    elements.status()?;
    elements.text("DTSERVER", &render_instant(export.drawn_at))?;
    elements.text("LANGUAGE", "ENG")?;
    elements.close("SONRS")?;
    elements.close("SIGNONMSGSRSV1")?;
    elements.open("BANKMSGSRSV1")?;
    elements.open("STMTTRNRS")?;
    elements.text("TRNUID", "0")?;
    elements.status()?;
    elements.open("STMTRS")?;
    elements.text("CURDEF", &render_currency(export.account.currency))?;
    elements.open("BANKACCTFROM")?;
    elements.text("BANKID", BANK_ID)?;
    elements.text("ACCTID", &export.account.number)?;
    elements.text("ACCTTYPE", "CHECKING")?;
    elements.close("BANKACCTFROM")?;
    elements.open("BANKTRANLIST")?;
    elements.text("DTSTART", &elements.day(export.period.start))?;
    elements.text("DTEND", &elements.day(export.period.end))?;
    Ok(elements.finish())
}

fn write_end(export: &Export) -> io::Result<Bytes> {
    let mut elements = OfxElements::of(export);
    let today = date_at(export.company.zone, export.drawn_at);
    let closed_at = elements.day(export.closed_on(today));
    elements.break_line()?;
    elements.close("BANKTRANLIST")?;
    elements.balance("LEDGERBAL", export.balance, &closed_at)?;
    elements.balance("AVAILBAL", export.available_balance, &render_instant(export.drawn_at))?;
    elements.open("BALLIST")?;
    let opened_at = elements.day(export.period.start);
    elements.named_balance("Opening balance", export.opening, &opened_at)?;
    elements.named_balance("Closing balance", export.balance, &closed_at)?;
    elements.close("BALLIST")?;
    for name in AROUND_STATEMENT.into_iter().rev() {
        elements.close(name)?;
    }
    elements.close("OFX")?;
    elements.break_line()?;
    Ok(elements.finish())
}

/// Elements of the file, written one after the other.
struct OfxElements {
    writer: Writer<Vec<u8>>,
    currency: CurrencyCode,
    zone: Tz,
}

impl OfxElements {
    fn new(currency: CurrencyCode, zone: Tz) -> Self {
        Self { writer: Writer::new(Vec::new()), currency, zone }
    }

    fn of(export: &Export) -> Self {
        Self::new(export.account.currency, export.company.zone)
    }

    fn finish(self) -> Bytes {
        self.writer.into_inner().into()
    }

    fn declare(&mut self) -> io::Result<()> {
        let declaration = BytesDecl::new("1.0", Some("UTF-8"), Some("no"));
        self.writer.write_event(Event::Decl(declaration))?;
        self.break_line()?;
        self.writer.write_event(Event::PI(BytesPI::new(HEADER)))?;
        self.break_line()
    }

    /// Between elements, for those who look at the file.
    fn break_line(&mut self) -> io::Result<()> {
        self.writer.write_event(Event::Text(BytesText::from_escaped("\n")))
    }

    fn open(&mut self, name: &str) -> io::Result<()> {
        self.writer.write_event(Event::Start(BytesStart::new(name)))
    }

    fn close(&mut self, name: &str) -> io::Result<()> {
        self.writer.write_event(Event::End(BytesEnd::new(name)))
    }

    /// An element with a text. Only what would be markup is escaped: readers from the days of SGML
    /// know no other references, and take the rest as it stands. Source: OFX 2.2, section 2.3.2.1.
    fn text(&mut self, name: &str, text: &str) -> io::Result<()> {
        self.open(name)?;
        self.writer.write_event(Event::Text(BytesText::from_escaped(partial_escape(text))))?;
        self.close(name)
    }

    fn status(&mut self) -> io::Result<()> {
        self.open("STATUS")?;
        self.text("CODE", "0")?;
        self.text("SEVERITY", "INFO")?;
        self.close("STATUS")
    }

    fn balance(&mut self, name: &str, balance: Minor, at: &str) -> io::Result<()> {
        self.open(name)?;
        self.text("BALAMT", &self.amount(balance))?;
        self.text("DTASOF", at)?;
        self.close(name)
    }

    fn named_balance(&mut self, name: &str, balance: Minor, at: &str) -> io::Result<()> {
        self.open("BAL")?;
        self.text("NAME", name)?;
        self.text("DESC", name)?;
        self.text("BALTYPE", "DOLLAR")?;
        self.text("VALUE", &self.amount(balance))?;
        self.text("DTASOF", at)?;
        self.close("BAL")
    }

    /// One STMTTRN. Source: OFX 2.2, section 11.4.4.1; its order is prescribed.
    fn line(&mut self, entry: &Entry, origin: &TransactionRecord) -> io::Result<()> {
        let line = &entry.line;
        self.break_line()?;
        self.open("STMTTRN")?;
        self.text("TRNTYPE", type_of(origin.kind, line.amount))?;
        self.text("DTPOSTED", &self.day(line.posted_on))?;
        self.text("DTUSER", &render_instant(origin.authorized_at))?;
        self.text("TRNAMT", &self.amount(line.amount))?;
        self.text("FITID", &line.id.0.to_string())?;
        self.text("REFNUM", &origin.id.0.simple().to_string())?;
        let merchant = line.merchant_or(origin.merchant.as_ref());
        if let Some(mcc) = merchant.and_then(|merchant| merchant.mcc) {
            self.text("SIC", &format!("{:04}", mcc.0))?;
        }
        self.text("NAME", &name_of(origin, line))?;
        let memo = cut(&line.description, MEMO_CHARS_MAX);
        if !memo.is_empty() {
            self.text("MEMO", &memo)?;
        }
        self.close("STMTTRN")
    }

    fn day(&self, date: BusinessDate) -> String {
        render_instant(instant_of(self.zone, date))
    }

    fn amount(&self, minor: Minor) -> String {
        Amount::new(minor, self.currency).to_string()
    }
}

/// Source: OFX 2.2, section 11.4.4.3.
const fn type_of(kind: TransactionKind, amount: Minor) -> &'static str {
    match (kind, amount.0 < 0) {
        (TransactionKind::BankTransfer | TransactionKind::BankWithdrawal, _) => "XFER",
        (TransactionKind::Cash, true) => "ATM",
        (TransactionKind::Refund, true) => "DEBIT",
        (
            TransactionKind::Purchase
            | TransactionKind::SingleMessagePurchase
            | TransactionKind::Verification,
            true,
        ) => "POS",
        (_, false) => "CREDIT",
    }
}

fn name_of(origin: &TransactionRecord, line: &StatementLine) -> String {
    let merchant = line.merchant_or(origin.merchant.as_ref());
    let merchant = merchant.map_or("", |merchant| &merchant.name);
    let bank_account = origin.bank_account.as_ref().map_or("", |account| &account.name);
    let names = [merchant, bank_account, &line.description, movement(origin.kind, line.amount)];
    let names = names.into_iter().map(|name| cut(name, NAME_CHARS_MAX));
    names.into_iter().find(|name| !name.is_empty()).unwrap_or_default()
}

/// The first characters of a text, in one line, without what XML cannot hold.
/// Source: XML 1.0, production 2.
fn cut(text: &str, chars_max: usize) -> String {
    let is_kept = |char: &char| !matches!(char, '\u{fffe}' | '\u{ffff}');
    let plain = text.chars().filter(is_kept).map(|char| if char.is_control() { ' ' } else { char });
    let plain: String = plain.collect();
    let cut: String = plain.trim().chars().take(chars_max).collect();
    cut.trim_end().to_owned()
}

/// An instant for a day of the company. Some readers show its day in Greenwich, some its day in
/// their own zone: it is that day in Greenwich and in the company's zone.
fn instant_of(zone: Tz, date: BusinessDate) -> Timestamp {
    let noon = start_of_date(Tz::UTC, date).plus(12 * Timestamp::HOUR);
    let next_day = start_of_date(zone, BusinessDate(date.0 + 1));
    noon.min(next_day.plus(-Timestamp::HOUR))
}

fn render_instant(at: Timestamp) -> String {
    let utc = DateTime::from_timestamp_micros(at.0).unwrap_or(DateTime::UNIX_EPOCH);
    utc.format("%Y%m%d%H%M%S%.3f[0:GMT]").to_string()
}

#[cfg(any(test, fuzzing))]
#[path = "ofx_properties.rs"]
pub mod properties;
#[cfg(test)]
mod tests {
    use cardswitch_wire::time::{parse_date, parse_time};

    use super::*;

    #[test]
    fn a_day_is_that_day_in_greenwich_and_in_the_company() {
        let zones = [
            "Pacific/Pago_Pago",
            "America/Los_Angeles",
            "UTC",
            "Asia/Kolkata",
            "Asia/Tokyo",
            "Pacific/Fiji",
            "Pacific/Auckland",
            "Pacific/Chatham",
            "Pacific/Tongatapu",
            "Pacific/Kiritimati",
        ];
        // The second and the third are those on which clocks go back and forward in Auckland.
        for date in ["2026-01-15", "2026-04-05", "2026-09-27", "2026-12-31"] {
            let date = parse_date(date).unwrap();
            for zone in zones {
                let zone: Tz = zone.parse().unwrap();
                let at = instant_of(zone, date);
                assert_eq!([date_at(Tz::UTC, at), date_at(zone, at)], [date; 2], "{zone}");
            }
        }
    }

    #[test]
    fn days_and_instants_are_those_of_ofx() {
        let day = |zone| render_instant(instant_of(zone, parse_date("2026-03-01").unwrap()));
        assert_eq!(day(Tz::America__Los_Angeles), "20260301120000.000[0:GMT]");
        assert_eq!(day(Tz::Pacific__Kiritimati), "20260301090000.000[0:GMT]");
        let at = parse_time("2026-03-01T23:59:59.987654Z").unwrap();
        assert_eq!(render_instant(at), "20260301235959.987[0:GMT]");
    }

    #[test]
    fn names_are_cut_at_characters_and_hold_nothing_xml_refuses() {
        let rows = [
            ("Café", 3, "Caf"),
            ("Café", 4, "Café"),
            ("日本語", 2, "日本"),
            ("a\u{0}b\nc\u{ffff}", 9, "a b c"),
            ("  x  ", 9, "x"),
            ("ab  cd", 3, "ab"),
            ("", 9, ""),
        ];
        for (text, chars_max, expected) in rows {
            assert_eq!(cut(text, chars_max), expected, "{text:?}");
        }
    }

    #[test]
    fn types_follow_kind_and_direction() {
        let rows = [
            (TransactionKind::Purchase, -1, "POS"),
            (TransactionKind::SingleMessagePurchase, -1, "POS"),
            (TransactionKind::SingleMessagePurchase, 1, "CREDIT"),
            (TransactionKind::Refund, 1, "CREDIT"),
            (TransactionKind::Refund, -1, "DEBIT"),
            (TransactionKind::Cash, -1, "ATM"),
            (TransactionKind::BankTransfer, 1, "XFER"),
            (TransactionKind::BankTransfer, -1, "XFER"),
            (TransactionKind::BankWithdrawal, -1, "XFER"),
            (TransactionKind::BankWithdrawal, 1, "XFER"),
        ];
        for (kind, amount, expected) in rows {
            assert_eq!(type_of(kind, Minor(amount)), expected, "{kind:?} {amount}");
        }
    }

    #[test]
    fn markup_in_texts_is_escaped_and_nothing_else() {
        let mut elements = OfxElements::new(CurrencyCode(840), Tz::UTC);
        elements.text("NAME", "A&B <C> \"d\" 'e' é山").unwrap();
        let expected = "<NAME>A&amp;B &lt;C&gt; \"d\" 'e' é山</NAME>";
        assert_eq!(elements.finish(), expected);
    }
}
