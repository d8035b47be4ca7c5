//! The control that tells whether the machine was quiet.

use std::hint::black_box;
use std::time::Instant;

/// Dependent steps of one sample: about a millisecond.
const STEPS: u64 = 300_000;
const SAMPLES: usize = 200;

/// Work that touches no memory, no disk and no other thread, so whatever moves it is the machine.
/// Prints its median and how far the slowest twentieth is from the fastest sample.
pub fn print_control(when: &str) {
    let mut samples: Vec<f64> = (0..SAMPLES).map(|_| sample()).collect();
    samples.sort_by(f64::total_cmp);
    let (fastest, median) = (samples[0], samples[SAMPLES / 2]);
    let slow = samples[SAMPLES * 19 / 20];
    println!("CONTROL {when}: {median:.3} ns a step, p95 {:.2} times the best", slow / fastest);
}

/// Units: nanoseconds a step.
fn sample() -> f64 {
    let mut value = black_box(1u64);
    let start = Instant::now();
    for _ in 0..STEPS {
        value = value.wrapping_mul(6_364_136_223_846_793_005).rotate_left(17) ^ 0x55;
    }
    let elapsed = start.elapsed();
    black_box(value);
    elapsed.as_secs_f64() * 1e9 / STEPS as f64
}
