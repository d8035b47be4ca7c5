//! The results of a run: counts, latencies, costs; of one client, and of many together.
//!
//! INVARIANT: every message that was meant to be sent is in the histogram, also one that was never
//! answered or never sent: with the time it has waited in vain, so that no percentile gets better
//! because answers failed to come.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::Failure;
use crate::wire::Code;

/// The shortest latency that is told apart. Units: nanoseconds.
const LATENCY_NS_MIN: u64 = 100;
/// The longest latency that is told apart. Units: nanoseconds.
const LATENCY_NS_MAX: u64 = 300_000_000_000;

/// The counts of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Messages of the measured time that were answered.
    pub answered: u64,
    /// Sent and not answered.
    pub unanswered: u64,
    /// Meant to be sent, and not sent because the switch took no more.
    pub unsent: u64,
    /// Answers to nothing that was asked.
    pub unmatched: u64,
    /// Connections that broke or sent what is no answer.
    pub broken_connections: u64,
    /// All messages, also those before the measured time.
    pub messages: u64,
    /// Calls of the system to send.
    pub writes: u64,
    /// Calls of the system to receive.
    pub reads: u64,
    /// The processor time of the clients. Units: nanoseconds.
    pub cpu_ns: u64,
    /// The time from the start of the measured time to its last answer. Units: nanoseconds.
    pub elapsed_ns: u64,
    /// Answers by their code.
    pub codes: Vec<(String, u64)>,
}

/// Counts and latencies.
#[derive(Debug, Clone)]
pub struct Tally {
    /// The counts.
    pub counts: Counts,
    codes: Vec<(Code, u64)>,
    latencies: Histogram<u64>,
}

/// An empty tally.
impl Default for Tally {
    #[expect(clippy::expect_used, reason = "constant bounds, in order")]
    fn default() -> Self {
        let latencies = Histogram::new_with_bounds(LATENCY_NS_MIN, LATENCY_NS_MAX, 3);
        let latencies = latencies.expect("the bounds are in order");
        Self { counts: Counts::default(), codes: Vec::new(), latencies }
    }
}

impl Tally {
    /// Notes an answer.
    pub fn note_answer(&mut self, code: Code, latency_ns: u64) {
        self.counts.answered += 1;
        self.latencies.saturating_record(latency_ns);
        match self.codes.iter_mut().find(|(known, _)| *known == code) {
            Some((_, count)) => *count += 1,
            None => self.codes.push((code, 1)),
        }
    }

    /// Notes a message that was sent and has waited so long without an answer.
    pub fn note_unanswered(&mut self, waited_ns: u64) {
        self.counts.unanswered += 1;
        self.latencies.saturating_record(waited_ns);
    }

    /// Notes a message that should have been sent so long ago.
    pub fn note_unsent(&mut self, waited_ns: u64) {
        self.counts.unsent += 1;
        self.latencies.saturating_record(waited_ns);
    }

    /// Ends the notes: codes become text, in order.
    pub fn finish(mut self) -> Self {
        self.counts.codes =
            self.codes.drain(..).map(|(code, count)| (code.text(), count)).collect();
        self.counts.codes.sort();
        self
    }

    /// Adds what another client noted.
    /// Errors: never, as all histograms have the same bounds.
    pub fn add(&mut self, other: &Self) -> Result<(), Failure> {
        let (sum, more) = (&mut self.counts, &other.counts);
        sum.answered += more.answered;
        sum.unanswered += more.unanswered;
        sum.unsent += more.unsent;
        sum.unmatched += more.unmatched;
        sum.broken_connections += more.broken_connections;
        sum.messages += more.messages;
        sum.writes += more.writes;
        sum.reads += more.reads;
        sum.cpu_ns += more.cpu_ns;
        sum.elapsed_ns = sum.elapsed_ns.max(more.elapsed_ns);
        for (code, count) in &more.codes {
            match sum.codes.iter_mut().find(|(known, _)| known == code) {
                Some((_, known)) => *known += count,
                None => sum.codes.push((code.clone(), *count)),
            }
        }
        sum.codes.sort();
        Ok(self.latencies.add(&other.latencies)?)
    }

    /// The latency that so many per cent do not pass. Units: microseconds.
    pub fn percentile_us(&self, percent: f64) -> f64 {
        self.latencies.value_at_percentile(percent) as f64 / 1e3
    }

    /// The longest latency. Units: microseconds.
    pub fn max_us(&self) -> f64 {
        self.latencies.max() as f64 / 1e3
    }

    /// The latencies, for sending them elsewhere.
    #[must_use]
    pub const fn latencies(&self) -> &Histogram<u64> {
        &self.latencies
    }

    /// The tally of a client elsewhere.
    #[must_use]
    pub const fn of(counts: Counts, latencies: Histogram<u64>) -> Self {
        Self { counts, codes: Vec::new(), latencies }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(code: &[u8], latencies_us: std::ops::Range<u64>) -> Tally {
        let mut tally = Tally::default();
        latencies_us.for_each(|us| tally.note_answer(Code::new(code), us * 1_000));
        tally
    }

    #[test]
    fn many_clients_together_are_as_one() {
        let mut first = tally(b"00", 1..501).finish();
        let mut second = tally(b"61", 501..1_000);
        second.note_unanswered(1_000_000);
        second.counts.elapsed_ns = 9;
        first.add(&second.finish()).unwrap();
        assert_eq!(first.counts.codes, [("00".to_owned(), 500), ("61".to_owned(), 499)]);
        assert_eq!((first.counts.answered, first.counts.unanswered), (999, 1));
        assert_eq!(first.counts.elapsed_ns, 9);
        assert!((first.percentile_us(50.0) - 500.0).abs() < 1.0, "{}", first.percentile_us(50.0));
        assert!((first.max_us() - 1_000.0).abs() < 1.0, "what was not answered counts, too");
    }
}
