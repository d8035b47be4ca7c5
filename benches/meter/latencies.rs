//! Latencies of single requests.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::Must;

/// Longest latency a histogram tells apart. Units: nanoseconds.
const LATENCY_NS_MAX: u64 = 60_000_000_000;

/// A histogram of latencies, three digits exact.
#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        Self(Histogram::new_with_bounds(100, LATENCY_NS_MAX, 3).must("bound a histogram"))
    }
}

impl Latencies {
    /// Notes one latency.
    pub fn note(&mut self, latency: Duration) {
        self.0.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(LATENCY_NS_MAX));
    }

    /// Adds those of another.
    pub fn add(&mut self, other: &Self) {
        self.0.add(&other.0).must("add histograms of the same bounds");
    }

    /// The latency that so many per cent do not pass. Units: microseconds.
    #[must_use]
    pub fn percentile_us(&self, percent: f64) -> f64 {
        self.0.value_at_percentile(percent) as f64 / 1e3
    }

    /// The longest. Units: microseconds.
    #[must_use]
    pub fn max_us(&self) -> f64 {
        self.0.max() as f64 / 1e3
    }

    /// How many were noted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }
}

impl std::fmt::Display for Latencies {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (p50, p99) = (self.percentile_us(50.0), self.percentile_us(99.0));
        write!(formatter, "p50 {p50:.1} us, p99 {p99:.1} us, of {}", self.count())
    }
}
