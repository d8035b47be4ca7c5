//! The results of a run: counts by outcome and code, latency, differences; for people and as the
//! one JSON line that scripts read.
//!
//! Latency runs from the moment a message was meant to be sent, so that a switch that holds
//! the feed up cannot hide it.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::json;

use super::books::Difference;
use super::hostile::Mishap;
use super::scenario::Story;

/// The longest latency that is told apart: one minute. Units: microseconds.
const LATENCY_MAX_US: u64 = 60_000_000;

/// The number of newest purchases that are kept for a live screen.
const RECENT_MAX: usize = 12;

/// The number of differences that are printed in full.
const DIFFERENCES_SHOWN_MAX: usize = 20;

/// Running counts, as scripts read them. Repeats and duplicates count as such only.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TrafficCounts {
    /// Purchases that were sent: 0100, 0120 and 0200, each once.
    pub authorizations: u64,
    /// Purchases that were approved, in part or in full.
    pub approved: u64,
    /// Purchases that were approved in part.
    pub approved_in_part: u64,
    /// Purchases that were declined, by exact response code.
    pub declined: BTreeMap<u16, u64>,
    /// Purchases whose outcome the answer left open (91, 96).
    pub unknown: u64,
    /// Increments that the switch approved.
    pub increments: u64,
    /// Completions of a pump's hold that the switch accepted.
    pub completions: u64,
    /// Full and partial reversals that the switch accepted, those of refunds among them.
    pub reversed: u64,
    /// Presentments that the switch accepted.
    pub presentments: u64,
    /// Refunds of purchases that the switch accepted.
    pub refunds: u64,
    /// Messages sent again, identical or marked as repeats.
    pub duplicates: u64,
    /// Messages without an answer.
    pub unanswered: u64,
    /// Balance inquiries that were answered, in the traffic.
    #[serde(skip)]
    pub balance_inquiries: u64,
    /// Later messages (increments, completions, reversals, presentments) that were refused, by DE39.
    #[serde(skip)]
    pub refused: BTreeMap<String, u64>,
}

/// A purchase, for a live screen. Holds no card data.
#[derive(Debug, Clone)]
pub struct RecentPurchase {
    /// Name and city of the merchant.
    pub merchant: String,
    /// Units: minor units of the account's currency.
    pub billing_minor: u64,
    /// Exact response code; 0 is an approval.
    pub response_code: u16,
}

/// A look at a run under way.
#[derive(Debug, Clone, Default)]
pub struct ProgressSnapshot {
    /// Time of the run so far, virtual in a run on virtual time. Units: microseconds.
    pub elapsed_us: u64,
    /// Messages that wait for their answers.
    pub in_flight: usize,
    /// Counts so far.
    pub counts: TrafficCounts,
    /// Median latency so far. Units: microseconds.
    pub p50_us: u64,
    /// 99th percentile so far. Units: microseconds.
    pub p99_us: u64,
    /// The newest purchases, newest last.
    pub recent: VecDeque<RecentPurchase>,
}

/// The view of a run that is shared with its watchers, and its stop.
#[derive(Debug, Default)]
pub struct Progress {
    snapshot: Mutex<ProgressSnapshot>,
    stop: AtomicBool,
}

impl Progress {
    /// The newest look, at most a tenth of a second old.
    pub fn snapshot(&self) -> ProgressSnapshot {
        self.snapshot.lock().clone()
    }

    /// Asks the run to end: nothing new is sent, answers under way are awaited, books compared.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Tells whether the run was asked to end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(super) fn show(&self, snapshot: ProgressSnapshot) {
        *self.snapshot.lock() = snapshot;
    }
}

/// Counts and latencies of a run, as they come in.
pub(super) struct RunTally {
    pub(super) counts: TrafficCounts,
    pub(super) recent: VecDeque<RecentPurchase>,
    latency_us: Histogram<u64>,
}

impl RunTally {
    /// Opens an empty tally.
    pub(super) fn new() -> Self {
        let latency_us = Histogram::new_with_bounds(1, LATENCY_MAX_US, 3)
            .expect("1 to 60,000,000 at three digits is a valid range");
        Self { counts: TrafficCounts::default(), recent: VecDeque::new(), latency_us }
    }

    /// Enters the time an answer took since its message was due.
    pub(super) fn record_latency(&mut self, latency_us: u64) {
        self.latency_us.saturating_record(latency_us.max(1));
    }

    /// Enters a purchase with its exact response code.
    pub(super) fn record_purchase(&mut self, purchase: RecentPurchase) {
        if purchase.response_code == 0 {
            self.counts.approved += 1;
        } else {
            *self.counts.declined.entry(purchase.response_code).or_default() += 1;
        }
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(purchase);
    }

    /// Takes the count of a first answer back that left the outcome open, now that a duplicate
    /// was answered.
    pub(super) fn take_unknown_back(&mut self) {
        self.counts.unknown = self.counts.unknown.saturating_sub(1);
    }

    pub(super) fn snapshot(&self, elapsed_us: u64, in_flight: usize) -> ProgressSnapshot {
        let latency = self.latency();
        ProgressSnapshot {
            elapsed_us,
            in_flight,
            counts: self.counts.clone(),
            p50_us: latency.p50_us,
            p99_us: latency.p99_us,
            recent: self.recent.clone(),
        }
    }

    pub(super) fn latency(&self) -> LatencyPercentiles {
        let at = |quantile| self.latency_us.value_at_quantile(quantile);
        LatencyPercentiles {
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: self.latency_us.max(),
        }
    }
}

/// Percentiles of the time from intended sending to answer. Units: microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LatencyPercentiles {
    /// Median.
    pub p50_us: u64,
    /// 90th percentile.
    pub p90_us: u64,
    /// 99th percentile.
    pub p99_us: u64,
    /// 99.9th percentile.
    pub p999_us: u64,
    /// The longest.
    pub max_us: u64,
}

/// The comparison of the books with the switch's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Comparison {
    /// The part of the books that was compared.
    pub compared: ComparedBooks,
    /// The number of cards whose books were compared.
    pub cards: usize,
    /// The number of used cards whose books could not be compared.
    pub unchecked: usize,
}

/// A part of the books.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ComparedBooks {
    /// Every transaction, over HTTP.
    Transactions,
    /// The allowance balances, by balance inquiries before and after.
    Balances,
    /// Nothing.
    #[default]
    Nothing,
}

/// The results of a run.
#[derive(Debug, Clone)]
pub struct FeedReport {
    /// The seed of the run.
    pub seed: u64,
    /// The time in which purchases arrived; virtual in a run on virtual time.
    pub duration: Duration,
    /// The duration of that by the clock on the wall.
    pub elapsed: Duration,
    /// Counts.
    pub counts: TrafficCounts,
    /// Latency.
    pub latency: LatencyPercentiles,
    /// The way the books were compared.
    pub comparison: Comparison,
    /// The differences between the feed's books and the switch's.
    pub differences: Vec<Difference>,
    /// The shortest story behind one of them, on a hostile wire.
    pub story: Option<Story>,
    /// The number of times that each mishap of a hostile wire happened; empty without one.
    pub mishaps: Vec<(Mishap, u64)>,
    /// Whether it was told to stop before its time.
    pub was_stopped: bool,
    /// The reason why the run ended before its time by itself, if it did.
    pub ended_early: Option<String>,
}

impl FeedReport {
    /// Purchases in each second of wall time while they arrived.
    pub fn authorizations_per_s(&self) -> u64 {
        let elapsed_ms = self.elapsed.as_millis().max(1);
        u64::try_from(u128::from(self.counts.authorizations) * 1000 / elapsed_ms)
            .unwrap_or(u64::MAX)
    }

    /// The object that scripts read: one line of JSON.
    pub fn to_json(&self) -> serde_json::Value {
        let mishaps = self.mishaps.iter().map(|(mishap, count)| (mishap.name(), *count));
        let mishaps: serde_json::Value = mishaps.collect();
        let run = json!({
            "seed": self.seed,
            "duration_s": seconds(self.duration),
            "stopped": self.was_stopped,
        });
        let rest = json!({
            "mishaps": mishaps,
            "book_differences": self.differences.len(),
            "cards_compared": self.comparison.cards,
            "cards_unchecked": self.comparison.unchecked,
            "p50_us": self.latency.p50_us,
            "p99_us": self.latency.p99_us,
            "authorizations_per_s": self.authorizations_per_s(),
        });
        let parts = [run, json!(self.counts), rest];
        let entries = parts.into_iter().filter_map(|part| match part {
            serde_json::Value::Object(entries) => Some(entries),
            _ => None,
        });
        entries.flatten().collect()
    }

    /// The report for people.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_text(&mut text);
        text
    }

    fn write_text(&self, text: &mut String) -> std::fmt::Result {
        let counts = &self.counts;
        let row =
            |text: &mut String, name: &str, value: u64| writeln!(text, "{name:<44}{value:>12}");
        row(text, "purchases", counts.authorizations)?;
        row(text, "  approved", counts.approved)?;
        row(text, "    in part", counts.approved_in_part)?;
        for (code, count) in &counts.declined {
            row(text, &format!("  declined {code} {}", code_name(*code)), *count)?;
        }
        row(text, "  outcome unknown", counts.unknown)?;
        row(text, "increments", counts.increments)?;
        row(text, "completions", counts.completions)?;
        row(text, "reversals", counts.reversed)?;
        row(text, "presentments", counts.presentments)?;
        row(text, "refunds of purchases", counts.refunds)?;
        for (de39, count) in &counts.refused {
            row(text, &format!("  refused with {de39}"), *count)?;
        }
        row(text, "sent again", counts.duplicates)?;
        row(text, "unanswered", counts.unanswered)?;
        for (mishap, count) in &self.mishaps {
            row(text, &format!("  {mishap} on the wire"), *count)?;
        }
        row(text, "purchases/s", self.authorizations_per_s())?;
        let latency = &self.latency;
        writeln!(
            text,
            "latency ms: p50 {}, p90 {}, p99 {}, p99.9 {}, max {}",
            ms(latency.p50_us),
            ms(latency.p90_us),
            ms(latency.p99_us),
            ms(latency.p999_us),
            ms(latency.max_us)
        )?;
        self.write_books(text)
    }

    fn write_books(&self, text: &mut String) -> std::fmt::Result {
        let differences = self.differences.len();
        let Comparison { compared, cards, unchecked } = self.comparison;
        let (what, why) = match compared {
            ComparedBooks::Transactions => ("every transaction", "the switch knows none such"),
            _ => ("allowances", "the switch tells no balance of theirs"),
        };
        match compared {
            ComparedBooks::Nothing => writeln!(text, "books: not compared")?,
            // A figure about no card would read as if something had been found right.
            _ if cards == 0 && unchecked > 0 => writeln!(text, "books: NOT CHECKED")?,
            _ => writeln!(text, "books: {what} of {cards} cards, {differences} differences")?,
        }
        if unchecked > 0 {
            writeln!(text, "  {unchecked} cards could not be checked: {why}")?;
        }
        for difference in self.differences.iter().take(DIFFERENCES_SHOWN_MAX) {
            let rrn = difference.rrn.as_deref().unwrap_or("-");
            writeln!(
                text,
                "  card {} rrn {rrn}: expected {}, found {}",
                difference.card_id, difference.expected, difference.found
            )?;
        }
        if differences > DIFFERENCES_SHOWN_MAX {
            writeln!(text, "  and {} more", differences - DIFFERENCES_SHOWN_MAX)?;
        }
        if self.was_stopped {
            writeln!(text, "stopped before its time")?;
        }
        self.ended_early.iter().try_for_each(|why| writeln!(text, "ended early: {why}"))
    }
}

/// A number of seconds, whole where it is.
fn seconds(duration: Duration) -> serde_json::Value {
    if duration.subsec_nanos() == 0 {
        duration.as_secs().into()
    } else {
        duration.as_secs_f64().into()
    }
}

/// A word for each response code. Source: spec "Response codes".
/// Microseconds as milliseconds, to the hundredth.
pub fn ms(micros: u64) -> String {
    format!("{}.{:02}", micros / 1_000, micros / 10 % 100)
}

/// A response code in words; blank where it has none.
pub const fn code_name(code: u16) -> &'static str {
    match code {
        1000 => "declined",
        1101 => "insufficient funds",
        1201 => "unactivated",
        1202 => "suspended",
        1203 => "expired",
        1301 => "wrong expiry",
        1302 => "wrong PIN",
        1303 => "wrong CVV",
        1304 => "wrong ZIP",
        1501 => "merchant not allowed",
        1502 => "over budget",
        1503 => "over per-transaction limit",
        1701 => "too many attempts",
        1702 => "cash not allowed",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> FeedReport {
        let mut tally = RunTally::new();
        for (response_code, latency_us) in [(0, 100), (0, 200), (1502, 300), (1000, 90_000_000)] {
            let merchant = "Alder Bistro, Austin".to_owned();
            tally.counts.authorizations += 1;
            tally.record_purchase(RecentPurchase { merchant, billing_minor: 100, response_code });
            tally.record_latency(latency_us);
        }
        FeedReport {
            seed: 5,
            duration: Duration::from_secs(10),
            elapsed: Duration::from_millis(10_002),
            latency: tally.latency(),
            counts: tally.counts,
            comparison: Comparison { compared: ComparedBooks::Balances, cards: 3, unchecked: 2 },
            differences: vec![Difference {
                card_id: "c1".to_owned(),
                rrn: None,
                expected: "0 to 5".to_owned(),
                found: "6".to_owned(),
            }],
            story: None,
            mishaps: Vec::new(),
            was_stopped: false,
            ended_early: None,
        }
    }

    #[test]
    fn the_json_line_has_the_keys_that_scripts_read() {
        let json = serde_json::to_string(&report().to_json()).unwrap();
        assert!(json.starts_with(
            r#"{"seed":5,"duration_s":10,"stopped":false,"authorizations":4,"approved":2,"approved_in_part":0,"declined":{"1000":1,"1502":1},"unknown":0,"increments":0,"completions":0,"reversed":0,"presentments":0,"refunds":0,"duplicates":0,"unanswered":0,"mishaps":{},"book_differences":1,"cards_compared":3,"cards_unchecked":2,"p50_us":200,"#
        ), "{json}");
        assert!(!json.contains('\n'));
    }

    #[test]
    fn the_text_names_codes_and_differences() {
        let text = report().to_text();
        for part in
            ["declined 1502 over budget", "allowances of 3 cards, 1 differences", "card c1 rrn -"]
        {
            assert!(text.contains(part), "{part} in\n{text}");
        }
    }

    #[test]
    fn what_could_not_be_checked_is_told_and_not_called_right() {
        let told =
            |comparison| FeedReport { comparison, differences: vec![], ..report() }.to_text();
        use ComparedBooks::{Balances, Transactions};
        let rows = [
            ((Balances, 3, 0), "3 cards, 0 differences", None),
            ((Balances, 3, 2), "3 cards, 0 differences", Some("  2 cards could not")),
            ((Balances, 0, 5), "NOT CHECKED", Some("  5 cards could not")),
            ((Transactions, 0, 5), "NOT CHECKED", Some("  5 cards could not")),
            ((Transactions, 1, 5), "1 cards, 0 differences", Some("  5 cards could not")),
        ];
        for ((compared, cards, unchecked), first, second) in rows {
            let comparison = Comparison { compared, cards, unchecked };
            let text = told(comparison);
            assert!(text.contains(first), "{comparison:?}\n{text}");
            let has_second = text.lines().any(|line| line.contains("could not be checked"));
            assert_eq!(has_second, second.is_some(), "{comparison:?}\n{text}");
            assert!(second.is_none_or(|second| text.contains(second)), "{comparison:?}\n{text}");
            if first == "NOT CHECKED" {
                assert!(!text.contains("0 differences"), "{text}");
            }
        }
    }

    #[test]
    fn latency_beyond_the_bound_counts_as_the_bound() {
        let max_us = report().latency.max_us;
        assert!((LATENCY_MAX_US..LATENCY_MAX_US + 100_000).contains(&max_us), "{max_us}");
    }
}
