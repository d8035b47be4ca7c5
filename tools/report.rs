//! Figures as a person reads them: short numbers, and rows as `benches/README.md` has them.

use cardswitch_load::tally::Tally;

use crate::Outcome;

/// Prints a row of a table of figures.
pub fn print_row(measurement: &str, result: &str) {
    println!("| {measurement} | {result} |");
}

/// Each of several values, in their order: `1 / 16 / 64`.
pub fn each<T>(values: &[T], show: impl Fn(&T) -> String) -> String {
    values.iter().map(show).collect::<Vec<_>>().join(" / ")
}

/// The least and the greatest of several values: `0.59 to 0.63`; one where both look alike.
pub fn range(values: impl IntoIterator<Item = f64>, show: impl Fn(f64) -> String) -> String {
    let bounds =
        values.into_iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), at| {
            (least.min(at), most.max(at))
        });
    let (least, most) = (show(bounds.0), show(bounds.1));
    if least == most { least } else { format!("{least} to {most}") }
}

/// The outcome of a load as a line: answers a second, latency, and what stayed without an answer.
pub fn outcome(tally: &Tally) -> String {
    let latencies = &tally.latencies;
    let [p50, p99] = [50.0, 99.0].map(|percent| time(latencies.percentile_us(percent)));
    let mut text = format!("{}/s, p50 {p50}, p99 {p99}", thousands(tally.per_second()));
    let lost = tally.counts.unanswered + tally.counts.unsent;
    for (count, what) in [(lost, "without an answer"), (declined(tally), "declined")] {
        if count > 0 {
            text += &format!("; {count} {what}");
        }
    }
    text
}

/// Carries out loads without and with something beside them in turns, so that what the machine does besides
/// hits both; prints them, and the row that compares them.
/// Errors: those of the loads.
pub fn compare_in_turns(
    measurement: &str,
    rounds: usize,
    without: &dyn Fn() -> Outcome<Tally>,
    with: &dyn Fn() -> Outcome<Tally>,
) -> Outcome<()> {
    let mut loads = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        for ((name, load), kept) in [("without", without), ("with", with)].iter().zip(&mut loads) {
            let tally = load()?;
            println!("{name:<8} {}", outcome(&tally));
            kept.push(tally);
        }
    }
    let cell = |percent| {
        loads.each_ref().map(|loads| range(milliseconds(loads, percent), short)).join(" / ")
    };
    print_row(measurement, &format!("p50 {} ms; p99 {} ms", cell(50.0), cell(99.0)));
    Ok(())
}

fn declined(tally: &Tally) -> u64 {
    tally.counts.answered - tally.approved()
}

/// The latency of each load that so many per cent do not pass. Units: milliseconds.
pub fn milliseconds(loads: &[Tally], percent: f64) -> impl Iterator<Item = f64> {
    loads.iter().map(move |tally| tally.latencies.percentile_us(percent) / 1e3)
}

/// A figure to two digits.
pub fn short(value: f64) -> String {
    match value {
        ..1.0 => format!("{value:.2}"),
        ..10.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// A count to three figures, with separators.
pub fn thousands(count: f64) -> String {
    let step = 10_f64.powf(count.max(1.0).log10().floor() - 2.0).max(1.0);
    grouped((count / step).round() * step)
}

/// A whole count with separators.
pub fn grouped(count: f64) -> String {
    let digits = format!("{count:.0}");
    let (head, tail) = digits.split_at(digits.len() % 3);
    let mut groups: Vec<&str> = Vec::from([head]);
    groups.extend(tail.as_bytes().chunks(3).filter_map(|group| str::from_utf8(group).ok()));
    groups.retain(|group| !group.is_empty());
    groups.join(",")
}

/// A time in the unit that suits it. Units: of `us`, microseconds.
pub fn time(us: f64) -> String {
    match us {
        ..10.0 => format!("{us:.1} us"),
        ..1_000.0 => format!("{us:.0} us"),
        ..10_000.0 => format!("{:.2} ms", us / 1e3),
        ..100_000.0 => format!("{:.1} ms", us / 1e3),
        _ => format!("{:.0} ms", us / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        let counts =
            [(1.0, "1"), (999.6, "1,000"), (14_649.0, "14,600"), (1_234_567.0, "1,230,000")];
        for (count, text) in counts {
            assert_eq!(thousands(count), text);
        }
        let times =
            [(9.94, "9.9 us"), (250.4, "250 us"), (1_234.0, "1.23 ms"), (250_000.0, "250 ms")];
        for (us, text) in times {
            assert_eq!(time(us), text);
        }
    }

    #[test]
    fn values_of_several_runs_stand_together() {
        assert_eq!(each(&[1, 16], ToString::to_string), "1 / 16");
        assert_eq!(range([0.634, 0.588, 0.6], short), "0.59 to 0.63");
        assert_eq!(range([5.04, 5.02], short), "5.0");
    }
}
