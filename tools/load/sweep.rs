//! One rate after the other until the switch does not keep up, then closer around the knee: the
//! greatest rate at which nearly everything is answered and p99 stays below a bound.

use serde::Serialize;

use crate::report::Report;
use cardswitch_load::Failure;

/// Of what is offered so much must be achieved.
const KEPT_SHARE: f64 = 0.99;
/// After so many rates in a row that were not kept, greater ones are not tried.
const NOT_KEPT_MAX: usize = 2;

/// The rates to try, and the demands on them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    /// Units: messages a second.
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) steps: u32,
    pub(crate) refine: u32,
    /// Units: microseconds.
    pub(crate) bound_us: f64,
}

/// The runs of a sweep in order of their rates, and the knee.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Sweep {
    /// Units: microseconds.
    pub(crate) bound_us: f64,
    /// None where no rate was kept. Units: messages a second.
    pub(crate) knee: Option<u64>,
    pub(crate) runs: Vec<Report>,
}

impl Plan {
    /// The rates, each the same factor above the one before.
    pub(crate) fn rates(&self) -> Vec<u64> {
        let (from, to) = (self.from.max(1) as f64, self.to.max(1) as f64);
        let last = f64::from(self.steps.max(2) - 1);
        (0..self.steps.max(2))
            .map(|step| rounded(from * (to / from).powf(f64::from(step) / last)))
            .collect()
    }

    fn is_kept(&self, run: &Report) -> bool {
        let rate = run.rate.unwrap_or_default() as f64;
        run.achieved_rate >= KEPT_SHARE * rate && run.latency_us.p99 < self.bound_us
    }

    fn knee(&self, runs: &[Report]) -> Option<u64> {
        runs.iter().filter(|run| self.is_kept(run)).filter_map(|run| run.rate).max()
    }

    /// The rate to try next between the knee and the next greater one that was tried.
    fn rate_between(&self, runs: &[Report]) -> Option<u64> {
        let knee = self.knee(runs)?;
        let beyond = runs.iter().filter_map(|run| run.rate).filter(|rate| *rate > knee).min()?;
        let between = rounded((knee as f64 * beyond as f64).sqrt());
        (between > knee && between < beyond).then_some(between)
    }

    /// Runs the sweep. `run` carries out one rate and `tell` hears of it at once.
    /// Errors: those of `run`.
    pub(crate) fn carry_out(
        &self,
        mut run: impl FnMut(u64) -> Result<Report, Failure>,
        mut tell: impl FnMut(&Report, bool),
    ) -> Result<Sweep, Failure> {
        let mut runs: Vec<Report> = Vec::new();
        let mut not_kept_in_a_row = 0;
        let mut try_rate = |rate, runs: &mut Vec<Report>| -> Result<bool, Failure> {
            let report = run(rate)?;
            let is_kept = self.is_kept(&report);
            tell(&report, is_kept);
            runs.push(report);
            Ok(is_kept)
        };
        for rate in self.rates() {
            let is_kept = try_rate(rate, &mut runs)?;
            not_kept_in_a_row = if is_kept { 0 } else { not_kept_in_a_row + 1 };
            if not_kept_in_a_row == NOT_KEPT_MAX {
                break;
            }
        }
        for _ in 0..self.refine {
            let Some(rate) = self.rate_between(&runs) else { break };
            try_rate(rate, &mut runs)?;
        }
        runs.sort_by_key(|run| run.rate);
        Ok(Sweep { bound_us: self.bound_us, knee: self.knee(&runs), runs })
    }
}

/// A rate in whole messages a second.
#[expect(clippy::cast_possible_truncation, reason = "rates are far below what a u64 holds")]
#[expect(clippy::cast_sign_loss, reason = "rates are positive")]
fn rounded(rate: f64) -> u64 {
    rate.round() as u64
}

/// The head of a table of runs.
pub(crate) const TABLE_HEAD: &str =
    "   rate/s  answered/s     p50 us     p90 us     p99 us   p99.9 us     max us  kept  client us";

/// One run as a line of the table.
pub(crate) fn table_line(run: &Report, is_kept: bool) -> String {
    let latency = &run.latency_us;
    format!(
        "{:>9}  {:>10.0} {:>10.0} {:>10.0} {:>10.0} {:>10.0} {:>10.0}  {:<4}  {:>9.2}",
        run.rate.unwrap_or_default(),
        run.achieved_rate,
        latency.p50,
        latency.p90,
        latency.p99,
        latency.p999,
        latency.max,
        if is_kept { "yes" } else { "no" },
        run.client_cpu_us
    )
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::arguments::Door;
    use crate::report::Latency;
    use cardswitch_load::tally::Counts;

    const PLAN: Plan = Plan { from: 1_000, to: 64_000, steps: 7, refine: 3, bound_us: 5_000.0 };

    /// A run at a rate, as a switch would answer that keeps up to `capacity`.
    pub(crate) fn run_at(rate: u64, capacity: u64) -> Report {
        let p99 = if rate <= capacity { 300.0 } else { 2_000_000.0 };
        Report {
            door: Door::Iso,
            rate: Some(rate),
            seconds: 1.0,
            connections: 1,
            processes: 1,
            offered: rate,
            achieved_rate: rate.min(capacity) as f64,
            approved: rate,
            counts: Counts::default(),
            latency_us: Latency { p50: 100.0, p90: 200.0, p99, p999: p99 * 2.0, max: p99 * 3.0 },
            client_cpu_us: 1.0,
        }
    }

    #[test]
    fn rates_rise_by_one_factor() {
        assert_eq!(PLAN.rates(), [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000]);
    }

    #[test]
    fn the_knee_is_narrowed_down_and_greater_rates_are_left_out() {
        let mut tried = Vec::new();
        let run = |rate| {
            tried.push(rate);
            Ok(run_at(rate, 10_000))
        };
        let sweep = PLAN.carry_out(run, |_, _| {}).unwrap();
        assert_eq!(tried, [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 11_314, 9_514, 10_375]);
        assert_eq!(sweep.knee, Some(9_514));
        assert!(sweep.runs.is_sorted_by_key(|run| run.rate));
    }

    #[test]
    fn a_rate_is_kept_only_if_both_throughput_and_latency_are() {
        for (achieved, p99, is_kept) in [
            (1.0, 4_999.0, true),
            (0.99, 4_999.0, true),
            (0.98, 100.0, false),
            (1.0, 5_000.0, false),
        ] {
            let mut run = run_at(1_000, 1_000);
            run.achieved_rate = 1_000.0 * achieved;
            run.latency_us.p99 = p99;
            assert_eq!(PLAN.is_kept(&run), is_kept, "{achieved} {p99}");
        }
    }

    #[test]
    fn a_switch_that_keeps_nothing_has_no_knee() {
        let sweep = PLAN.carry_out(|rate| Ok(run_at(rate, 10)), |_, _| {}).unwrap();
        assert_eq!((sweep.knee, sweep.runs.len()), (None, 2));
    }
}
