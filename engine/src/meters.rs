//! The engine's counters and timers for operators; no decision reads them.
//!
//! Stages are timed once for each batch that passes them and counted for each command in it, so
//! that a busy engine spends a few clock readings on hundreds of commands. Readers see each figure
//! as it is at that moment; figures of one moment need not fit each other to the last command.
//!
//! INVARIANT: counts only rise while the process lives.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use crate::command::reply::{NetworkReply, PostingOutcome, Reply, ReversalOutcome};
use crate::domain::response_code::ResponseCode;

/// The upper bound of the first bucket is 2 to this power: about a microsecond. Units: nanoseconds.
const FIRST_BOUND_LOG2: u32 = 10;
/// The number of buckets with a bound, each twice the one before it: the last is about 17 seconds.
pub const BOUNDED_BUCKETS: usize = 25;

/// A count of what has happened.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds to it; returns the sum.
    pub fn add(&self, more: u64) -> u64 {
        self.0.fetch_add(more, Ordering::Relaxed) + more
    }

    /// The count now.
    pub fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How many there are of something now.
#[derive(Debug, Default)]
pub struct Level(Arc<AtomicU64>);

impl Level {
    /// Counts one more, until the guard is dropped.
    pub fn enter(&self) -> LevelGuard {
        self.0.fetch_add(1, Ordering::Relaxed);
        LevelGuard(Arc::clone(&self.0))
    }

    /// How many there are.
    pub fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A counted unit of a level.
#[derive(Debug)]
#[must_use = "it counts while it is held"]
pub struct LevelGuard(Arc<AtomicU64>);

impl Drop for LevelGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The distribution of durations.
#[derive(Debug, Default)]
pub struct Histogram {
    /// The last bucket takes durations beyond all bounds.
    buckets: [AtomicU64; BOUNDED_BUCKETS + 1],
    sum_ns: AtomicU64,
}

/// A histogram at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistogramSnapshot {
    /// The number of durations in each bucket alone, not summed over lower ones.
    pub buckets: [u64; BOUNDED_BUCKETS + 1],
    /// The sum of all durations. Units: nanoseconds.
    pub sum_ns: u64,
}

impl Histogram {
    /// The upper bound of a bucket, itself included. Units: nanoseconds.
    pub const fn bound_ns(bucket: usize) -> u64 {
        1 << (bucket + FIRST_BOUND_LOG2 as usize)
    }

    /// Counts one duration.
    pub fn record(&self, took: Duration) {
        self.record_many(took, 1);
    }

    /// Counts several equal durations.
    /// Cost: two atomic additions.
    pub fn record_many(&self, took: Duration, count: u64) {
        if count == 0 {
            return;
        }
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.buckets[bucket_of(took_ns)].fetch_add(count, Ordering::Relaxed);
        self.sum_ns.fetch_add(took_ns.saturating_mul(count), Ordering::Relaxed);
    }

    /// The figures now.
    pub fn now(&self) -> HistogramSnapshot {
        let mut buckets = [0; BOUNDED_BUCKETS + 1];
        for (figure, bucket) in buckets.iter_mut().zip(&self.buckets) {
            *figure = bucket.load(Ordering::Relaxed);
        }
        HistogramSnapshot { buckets, sum_ns: self.sum_ns.load(Ordering::Relaxed) }
    }
}

impl HistogramSnapshot {
    /// The number of durations.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

fn bucket_of(took_ns: u64) -> usize {
    // The power of two that is not less; a bound belongs to the bucket below it.
    let log2 = u64::BITS - took_ns.saturating_sub(1).leading_zeros();
    let bucket = log2.saturating_sub(FIRST_BOUND_LOG2);
    usize::try_from(bucket).unwrap_or(BOUNDED_BUCKETS).min(BOUNDED_BUCKETS)
}

/// The meters of the engine.
#[derive(Debug, Default)]
pub struct Meters {
    /// The time that commands waited for the shard.
    pub queue: Histogram,
    /// The time that the shard took for the batch of a command: rules, changes, records.
    pub decide: Histogram,
    /// The time from there until replies were durable and released.
    pub journal: Histogram,
    /// The duration of each durable commit of the journal.
    pub commit: Histogram,
    /// The counts of replies.
    pub answers: AnswerCounts,
    /// Commands that were refused because too many were waiting.
    pub overloaded: Count,
    /// The newest instant given to a command or a timer. Units: microseconds since 1970.
    pub newest_instant: AtomicI64,
}

/// Replies other than decisions, reversals and postings: kind and outcome, in the order of their counts.
const OTHER_ANSWERS: [(&str, &str); 9] = [
    ("balance", "approved"),
    ("balance", "declined"),
    ("transfer", "answered"),
    ("any", "conflict"),
    ("any", "format_error"),
    ("change", "done"),
    ("change", "rejected"),
    ("clock", "moved"),
    ("any", "outcome_unknown"),
];
/// The place of the first posting, behind the reversals, and that of `OTHER_ANSWERS`.
const POSTINGS: usize = ReversalOutcome::ALL.len();
const OTHERS: usize = POSTINGS + PostingOutcome::ALL.len();
/// The number of places.
const PLACES: usize = OTHERS + OTHER_ANSWERS.len();

/// The counts of each reply, repeats included.
#[derive(Debug, Default)]
pub struct AnswerCounts {
    decisions: [AtomicU64; ResponseCode::ALL.len()],
    others: [AtomicU64; PLACES],
}

impl AnswerCounts {
    /// The number of replies to purchases and advices, by response code.
    pub fn decisions(&self) -> impl Iterator<Item = (ResponseCode, u64)> {
        let counts = self.decisions.iter().map(|count| count.load(Ordering::Relaxed));
        ResponseCode::ALL.into_iter().zip(counts)
    }

    /// The numbers of other replies: kind, outcome, count.
    pub fn others(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let counts = self.others.iter().map(|count| count.load(Ordering::Relaxed));
        let reversals = ReversalOutcome::WORDS.map(|outcome| ("reversal", outcome));
        let postings = PostingOutcome::WORDS.map(|outcome| ("posting", outcome));
        let answers = reversals.into_iter().chain(postings).chain(OTHER_ANSWERS);
        answers.zip(counts).map(|((kind, outcome), count)| (kind, outcome, count))
    }

    fn add(&self, tally: &Tally) {
        for (total, more) in self.decisions.iter().zip(tally.decisions) {
            add_some(total, more);
        }
        for (total, more) in self.others.iter().zip(tally.others) {
            add_some(total, more);
        }
    }
}

fn add_some(total: &AtomicU64, more: u64) {
    if more > 0 {
        total.fetch_add(more, Ordering::Relaxed);
    }
}

/// The replies of one commit, counted apart so that each total is touched once.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    decisions: [u64; ResponseCode::ALL.len()],
    others: [u64; PLACES],
}

impl Tally {
    /// Counts a reply.
    pub(crate) fn note(&mut self, reply: &Reply) {
        match place_of(reply) {
            MeterSlot::Decision(place) => self.decisions[place] += 1,
            MeterSlot::Other(place) => self.others[place] += 1,
        }
    }

    /// Adds the counts to the totals.
    pub(crate) fn add_to(&self, meters: &Meters) {
        meters.answers.add(self);
    }
}

enum MeterSlot {
    Decision(usize),
    Other(usize),
}

fn place_of(reply: &Reply) -> MeterSlot {
    MeterSlot::Other(match reply {
        Reply::Network(reply) => match reply {
            NetworkReply::Authorization(reply) => {
                return MeterSlot::Decision(decision_place(reply.response_code));
            }
            NetworkReply::Reversal(reply) => reply.outcome as usize,
            NetworkReply::Posting(reply) => POSTINGS + reply.outcome as usize,
            NetworkReply::Balance(reply) if reply.response_code.is_approved() => OTHERS,
            NetworkReply::Balance(_) => OTHERS + 1,
            NetworkReply::Transfer(_) => OTHERS + 2,
            NetworkReply::Conflict => OTHERS + 3,
            NetworkReply::FormatError(_) => OTHERS + 4,
        },
        Reply::Done(_) => OTHERS + 5,
        Reply::Rejected(_) => OTHERS + 6,
        Reply::Ticked => OTHERS + 7,
        Reply::OutcomeUnknown => OTHERS + 8,
    })
}

const fn decision_place(code: ResponseCode) -> usize {
    match code {
        ResponseCode::Approved => 0,
        ResponseCode::Declined => 1,
        ResponseCode::InsufficientFunds => 2,
        ResponseCode::CardUnactivated => 3,
        ResponseCode::CardSuspended => 4,
        ResponseCode::CardExpired => 5,
        ResponseCode::InvalidExpiration => 6,
        ResponseCode::InvalidPin => 7,
        ResponseCode::InvalidCvv => 8,
        ResponseCode::InvalidZip => 9,
        ResponseCode::AllowanceConstraints => 10,
        ResponseCode::AllowanceExceeded => 11,
        ResponseCode::TransactionLimitExceeded => 12,
        ResponseCode::Risk => 13,
        ResponseCode::CashDenied => 14,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::RecordSeq;
    use crate::domain::response_code::SubReason;

    #[test]
    fn each_bound_belongs_to_its_own_bucket_and_what_is_beyond_to_the_next() {
        for bucket in 0..BOUNDED_BUCKETS {
            let bound = Histogram::bound_ns(bucket);
            assert_eq!(bucket_of(bound), bucket, "{bound} ns");
            assert_eq!(bucket_of(bound + 1), bucket + 1, "{bound} ns and one");
        }
        assert_eq!((bucket_of(0), bucket_of(1), bucket_of(u64::MAX)), (0, 0, BOUNDED_BUCKETS));
    }

    #[test]
    fn a_histogram_counts_each_and_sums_all() {
        let histogram = Histogram::default();
        histogram.record(Duration::from_nanos(3_000));
        histogram.record_many(Duration::from_nanos(500), 4);
        histogram.record_many(Duration::from_secs(3_600), 0);
        histogram.record(Duration::from_secs(3_600));
        let now = histogram.now();
        assert_eq!((now.count(), now.sum_ns), (6, 5_000 + 3_600_000_000_000));
        let filled: Vec<_> =
            now.buckets.iter().enumerate().filter(|(_, count)| **count > 0).collect();
        assert_eq!(filled, [(0, &4), (2, &1), (BOUNDED_BUCKETS, &1)]);
    }

    #[test]
    fn each_response_code_has_its_own_count() {
        for (place, code) in ResponseCode::ALL.into_iter().enumerate() {
            assert_eq!(decision_place(code), place, "{code:?}");
        }
    }

    #[test]
    fn answers_are_counted_by_kind_and_outcome() {
        let meters = Meters::default();
        let mut tally = Tally::default();
        let replies = [
            Reply::Done(RecordSeq(1)),
            Reply::Done(RecordSeq(2)),
            Reply::Network(NetworkReply::Conflict),
            Reply::Network(NetworkReply::FormatError(SubReason::None)),
            Reply::OutcomeUnknown,
        ];
        replies.iter().for_each(|reply| tally.note(reply));
        tally.add_to(&meters);
        let counted: Vec<_> = meters.answers.others().filter(|(.., count)| *count > 0).collect();
        let expected = [
            ("any", "conflict", 1),
            ("any", "format_error", 1),
            ("change", "done", 2),
            ("any", "outcome_unknown", 1),
        ];
        assert_eq!(counted, expected);
        assert_eq!(meters.answers.decisions().map(|(_, count)| count).sum::<u64>(), 0);
    }

    #[test]
    fn each_outcome_has_its_own_count() {
        let names: Vec<_> =
            AnswerCounts::default().others().map(|(kind, outcome, _)| (kind, outcome)).collect();
        assert_eq!(names.len(), PLACES);
        for outcome in ReversalOutcome::ALL {
            assert_eq!(names[outcome as usize], ("reversal", outcome.word()));
        }
        for outcome in PostingOutcome::ALL {
            assert_eq!(names[POSTINGS + outcome as usize], ("posting", outcome.word()));
        }
    }
}
