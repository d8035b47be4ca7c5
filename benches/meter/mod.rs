//! Takes medians beside criterion's own, so that a bench can print a ratio; and the control that
//! tells whether the machine was quiet.
//!
//! A figure means something only beside its yardstick, from the same run on the same machine.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::Bencher;
use hdrhistogram::Histogram;

/// Longest latency a histogram tells apart. Units: nanoseconds.
const LATENCY_NS_MAX: u64 = 60_000_000_000;

/// Collects samples of one measurement. Units: nanoseconds an element.
#[derive(Debug, Default)]
pub struct Meter {
    samples: Vec<f64>,
}

impl Meter {
    /// Measures `work`, which handles `elements` at each call.
    pub fn measure<R>(
        &mut self,
        bencher: &mut Bencher<'_>,
        elements: u64,
        mut work: impl FnMut() -> R,
    ) {
        self.measure_timed(bencher, elements, |iterations| {
            let start = Instant::now();
            for _ in 0..iterations {
                black_box(work());
            }
            start.elapsed()
        });
    }

    /// As `measure`, where `run` makes the iterations and tells how long they took.
    pub fn measure_timed(
        &mut self,
        bencher: &mut Bencher<'_>,
        elements: u64,
        mut run: impl FnMut(u64) -> Duration,
    ) {
        bencher.iter_custom(|iterations| {
            let elapsed = run(iterations);
            let count = iterations.max(1) * elements;
            self.samples.push(elapsed.as_secs_f64() * 1e9 / count as f64);
            elapsed
        });
    }

    /// The median sample; none where criterion was told to leave the measurement out.
    #[must_use]
    pub fn median_ns(&self) -> Option<f64> {
        let mut samples = self.samples.clone();
        samples.sort_by(f64::total_cmp);
        samples.get(samples.len() / 2).copied()
    }
}

/// Prints how two measurements of one run compare.
pub fn print_ratio(what: &str, measured: &Meter, yardstick_name: &str, yardstick: &Meter) {
    if let (Some(measured), Some(yardstick)) = (measured.median_ns(), yardstick.median_ns()) {
        println!(
            "RATIO {what}: {measured:.1} ns, {:.2} times {yardstick_name} ({yardstick:.1} ns)",
            measured / yardstick
        );
    }
}

/// Latencies of single requests.
#[derive(Debug)]
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        // INVARIANT: the bounds are constants that the histogram takes.
        #[expect(clippy::expect_used, reason = "constant bounds")]
        Self(Histogram::new_with_bounds(100, LATENCY_NS_MAX, 3).expect("the bounds are in order"))
    }
}

impl Latencies {
    /// Notes one latency.
    pub fn note(&mut self, latency: Duration) {
        self.0.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(LATENCY_NS_MAX));
    }

    /// The latency that so many per cent do not pass. Units: microseconds.
    #[must_use]
    pub fn percentile_us(&self, percent: f64) -> f64 {
        self.0.value_at_percentile(percent) as f64 / 1e3
    }

    /// How many were noted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }
}

/// Dependent steps of one control sample: about a millisecond.
const CONTROL_STEPS: u64 = 300_000;
const CONTROL_SAMPLES: usize = 200;

/// The control: work that touches no memory, no disk and no other thread, so whatever moves it is
/// the machine. Prints its median and how far the slowest twentieth is from the fastest sample.
pub fn print_control(when: &str) {
    let mut samples: Vec<f64> = (0..CONTROL_SAMPLES).map(|_| control_sample()).collect();
    samples.sort_by(f64::total_cmp);
    let (fastest, median) = (samples[0], samples[CONTROL_SAMPLES / 2]);
    let slow = samples[CONTROL_SAMPLES * 19 / 20];
    println!("CONTROL {when}: {median:.3} ns a step, p95 {:.2} times the best", slow / fastest);
}

/// Units: nanoseconds a step.
fn control_sample() -> f64 {
    let mut value = black_box(1u64);
    let start = Instant::now();
    for _ in 0..CONTROL_STEPS {
        value = value.wrapping_mul(6_364_136_223_846_793_005).rotate_left(17) ^ 0x55;
    }
    let elapsed = start.elapsed();
    black_box(value);
    elapsed.as_secs_f64() * 1e9 / CONTROL_STEPS as f64
}
