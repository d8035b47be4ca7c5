//! Takes medians beside criterion's own, so that a bench can print a ratio.
//!
//! A figure means something only beside its yardstick, from the same run on the same machine.

mod bench;
mod control;
mod memory;
mod process;

use std::time::Duration;

pub use bench::{Bench, SamplingPlan};
pub use cardswitch_load::latencies::Latencies;
pub use control::print_control;
pub use memory::{bytes_read, number_in, resident_bytes};
pub use process::{Process, task};

/// The samples of one measurement. Units: nanoseconds an element.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    samples: Vec<f64>,
}

impl Meter {
    /// Notes how long so many elements took.
    pub fn note(&mut self, elements: u64, elapsed: Duration) {
        self.samples.push(elapsed.as_secs_f64() * 1e9 / elements.max(1) as f64);
    }

    /// Forgets all but the last `count` samples.
    fn keep_last(&mut self, count: usize) {
        let others = self.samples.len().saturating_sub(count);
        self.samples.drain(..others);
    }

    /// The median sample; none where the measurement was left out.
    pub fn median_ns(&self) -> Option<f64> {
        let mut samples = self.samples.clone();
        samples.sort_by(f64::total_cmp);
        samples.get(samples.len() / 2).copied()
    }

    /// Elements a second.
    pub fn rate(&self) -> Option<f64> {
        self.median_ns().map(|each| 1e9 / each)
    }
}

/// The result of a closed loop: its rate, and the wait of each request.
#[derive(Debug, Default)]
pub struct LoopFigures {
    /// Time an element.
    pub meter: Meter,
    /// Single requests.
    pub latencies: Latencies,
}

impl LoopFigures {
    /// Prints its rate and latencies, and its time as so many times that of a yardstick.
    pub fn print_beside(&self, name: &str, things: &str, yardstick: &Meter, yardstick_name: &str) {
        let (each, least) = (self.meter.median_ns(), yardstick.median_ns());
        if let (Some(each), Some(least)) = (each, least) {
            println!(
                "RATIO {name}: {:.0} {things}/s, {:.2} times {yardstick_name}; {}",
                1e9 / each,
                each / least,
                self.latencies
            );
        }
    }
}

/// Prints how a measurement compares with others of the same run, each with its name.
pub fn print_ratio(what: &str, measured: &Meter, yardsticks: &[(&str, &Meter)]) {
    let Some(measured) = measured.median_ns() else { return };
    let compared = yardsticks.iter().filter_map(|(name, yardstick)| {
        let least = yardstick.median_ns()?;
        Some(format!(", {:.2} times {name} ({})", measured / least, shown(least)))
    });
    println!("RATIO {what}: {}{}", shown(measured), compared.collect::<String>());
}

/// A time with the unit that suits it. Units: nanoseconds.
pub fn shown(nanoseconds: f64) -> String {
    match nanoseconds {
        short if short < 1e4 => format!("{short:.1} ns"),
        middle if middle < 1e7 => format!("{:.1} us", middle / 1e3),
        long if long < 1e10 => format!("{:.1} ms", long / 1e6),
        longest => format!("{:.2} s", longest / 1e9),
    }
}
