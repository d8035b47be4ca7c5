//! How long the switch takes for a command, over the last minute: from the queue to the durable answer.
//!
//! The engine counts since its start; differences of its counts are kept for a minute, a sample a
//! second at most, taken whenever an overview is made. Figures are the switch's, not a company's.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use cardswitch_engine::meters::{BOUNDED_BUCKETS, Histogram, HistogramSnapshot, Meters};

/// How far back the figures reach.
const WINDOW: Duration = Duration::from_secs(60);
/// The least time between two samples.
const PACE: Duration = Duration::from_secs(1);

/// The stages of a command, the durable one last.
type Stages = [HistogramSnapshot; 3];

/// Samples of the last minute, the oldest first.
#[derive(Debug, Default)]
pub(super) struct LatencySamples(VecDeque<(Instant, Stages)>);

/// How long commands took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Latency {
    /// From the queue to the durable answer, on average. Units: nanoseconds.
    pub(super) mean_ns: u64,
    /// The time within which 99 of 100 were durable, to a power of two. Units: nanoseconds.
    pub(super) durable_p99_ns: u64,
}

impl LatencySamples {
    /// The figures at `now`; none where no command has come yet.
    pub(super) fn take(&mut self, meters: &Meters, now: Instant) -> Option<Latency> {
        let stages = [meters.queue.now(), meters.decide.now(), meters.journal.now()];
        while self.0.front().is_some_and(|(at, _)| now.duration_since(*at) > WINDOW) {
            self.0.pop_front();
        }
        let before = self.0.front().map(|(_, stages)| *stages);
        if self.0.back().is_none_or(|(at, _)| now.duration_since(*at) >= PACE) {
            self.0.push_back((now, stages));
        }
        // The figures are those since the start if nothing happened for a minute.
        before
            .and_then(|before| latency(&before, &stages))
            .or_else(|| latency(&[NOTHING; 3], &stages))
    }
}

const NOTHING: HistogramSnapshot =
    HistogramSnapshot { buckets: [0; BOUNDED_BUCKETS + 1], sum_ns: 0 };

fn latency(before: &Stages, now: &Stages) -> Option<Latency> {
    let more = |stage: usize| {
        let (before, now) = (&before[stage], &now[stage]);
        let count = now.count().saturating_sub(before.count());
        now.sum_ns.saturating_sub(before.sum_ns).checked_div(count)
    };
    let mean_ns = more(0)? + more(1)? + more(2)?;
    Some(Latency { mean_ns, durable_p99_ns: bound_of(&before[2], &now[2], 99) })
}

/// The bound below which so many of a hundred are.
fn bound_of(before: &HistogramSnapshot, now: &HistogramSnapshot, percent: u64) -> u64 {
    let buckets = now.buckets.iter().zip(before.buckets);
    let counts: Vec<_> = buckets.map(|(now, before)| now.saturating_sub(before)).collect();
    let wanted = (counts.iter().sum::<u64>() * percent).div_ceil(100);
    let mut seen = 0;
    for (bucket, count) in counts.into_iter().enumerate() {
        seen += count;
        if seen >= wanted {
            return Histogram::bound_ns(bucket.min(BOUNDED_BUCKETS - 1));
        }
    }
    Histogram::bound_ns(BOUNDED_BUCKETS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(meters: &Meters, took_ms: u64, count: u64) {
        meters.queue.record_many(Duration::ZERO, count);
        meters.decide.record_many(Duration::ZERO, count);
        meters.journal.record_many(Duration::from_millis(took_ms), count);
    }

    #[test]
    fn figures_are_of_the_last_minute() {
        let (meters, mut samples) = (Meters::default(), LatencySamples::default());
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(samples.take(&meters, at(0)), None);
        record(&meters, 1, 100);
        let first = samples.take(&meters, at(30)).unwrap();
        assert_eq!((first.mean_ns, first.durable_p99_ns), (1_000_000, 1 << 20));
        record(&meters, 5, 100);
        let both = samples.take(&meters, at(59)).unwrap();
        assert_eq!((both.mean_ns, both.durable_p99_ns), (3_000_000, 1 << 23));
        let second = samples.take(&meters, at(89)).unwrap();
        assert_eq!(second.mean_ns, 5_000_000, "what is older than a minute is left behind");
        let idle = samples.take(&meters, at(300)).unwrap();
        assert_eq!(idle.mean_ns, 3_000_000, "all since the start");
    }
}
