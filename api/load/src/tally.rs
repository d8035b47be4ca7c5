//! The results of a run: counts, latencies, costs.
//!
//! INVARIANT: every message that was meant to be sent is in the histogram, also one that was never
//! answered or never sent: with the time it has waited in vain, so that no percentile gets better
//! because answers failed to come.

use serde::Serialize;

use crate::latencies::Latencies;
use crate::wire::AnswerCode;

/// The counts of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
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
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// The counts.
    pub counts: Counts,
    codes: Vec<(AnswerCode, u64)>,
    /// The latencies of everything that was meant to be sent.
    pub latencies: Latencies,
}

impl Tally {
    /// Notes an answer.
    pub fn note_answer(&mut self, code: AnswerCode, latency_ns: u64) {
        self.counts.answered += 1;
        self.latencies.note_ns(latency_ns);
        match self.codes.iter_mut().find(|(known, _)| *known == code) {
            Some((_, count)) => *count += 1,
            None => self.codes.push((code, 1)),
        }
    }

    /// Notes a message that was sent and has waited so long without an answer.
    pub fn note_unanswered(&mut self, waited_ns: u64) {
        self.counts.unanswered += 1;
        self.latencies.note_ns(waited_ns);
    }

    /// Notes a message that should have been sent so long ago.
    pub fn note_unsent(&mut self, waited_ns: u64) {
        self.counts.unsent += 1;
        self.latencies.note_ns(waited_ns);
    }

    /// Ends the notes: codes become text, in order.
    pub fn finish(mut self) -> Self {
        self.counts.codes =
            self.codes.drain(..).map(|(code, count)| (code.text(), count)).collect();
        self.counts.codes.sort();
        self
    }

    /// Answers a second, over the time until the last of them.
    pub fn per_second(&self) -> f64 {
        self.counts.answered as f64 * 1e9 / self.counts.elapsed_ns.max(1) as f64
    }

    /// The number of answers that approve: DE39, or `response_code`.
    pub fn approved(&self) -> u64 {
        let codes = self.counts.codes.iter();
        codes.filter(|(code, _)| code == "00" || code == "0").map(|(_, count)| count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_answered_is_in_the_percentiles() {
        let mut tally = Tally::default();
        (1..500_u64).for_each(|us| tally.note_answer(AnswerCode::new(b"00"), us * 1_000));
        tally.note_answer(AnswerCode::new(b"61"), 500_000);
        tally.note_unanswered(1_000_000);
        tally.counts.elapsed_ns = 1_000_000_000;
        let tally = tally.finish();
        assert_eq!(tally.counts.codes, [("00".to_owned(), 499), ("61".to_owned(), 1)]);
        assert_eq!((tally.counts.answered, tally.approved()), (500, 499));
        assert!((tally.per_second() - 500.0).abs() < 1e-6);
        let latencies = &tally.latencies;
        assert!((latencies.percentile_us(50.0) - 251.0).abs() < 1.0, "{latencies}");
        assert!((latencies.max_us() - 1_000.0).abs() < 1.0, "{latencies}");
    }
}
