//! Latencies of single requests.

use std::time::Duration;

use hdrhistogram::Histogram;

/// The shortest latency that is told apart. Units: nanoseconds.
const LATENCY_NS_MIN: u64 = 100;
/// The longest latency that is told apart. Units: nanoseconds.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// A histogram of latencies, three digits exact.
#[derive(Debug, Clone)]
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    #[expect(clippy::expect_used, reason = "constant bounds, in order")]
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(LATENCY_NS_MIN, LATENCY_NS_MAX, 3);
        Self(histogram.expect("the bounds are in order"))
    }
}

impl Latencies {
    /// Notes one latency.
    pub fn note(&mut self, latency: Duration) {
        self.note_ns(u64::try_from(latency.as_nanos()).unwrap_or(LATENCY_NS_MAX));
    }

    /// Notes one latency. Units: nanoseconds.
    pub fn note_ns(&mut self, latency_ns: u64) {
        self.0.saturating_record(latency_ns);
    }

    /// Adds those of another.
    #[expect(clippy::expect_used, reason = "all histograms have the same bounds")]
    pub fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("the bounds are the same");
    }

    /// The latency that so many per cent do not pass. Units: microseconds.
    pub fn percentile_us(&self, percent: f64) -> f64 {
        self.0.value_at_percentile(percent) as f64 / 1e3
    }

    /// The longest. Units: microseconds.
    pub fn max_us(&self) -> f64 {
        self.0.max() as f64 / 1e3
    }

    /// How many were noted.
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
