//! Latency against rate as an SVG: both axes logarithmic, a line for each percentile, the knee and
//! the bound. It stands on its own and reads on light and on dark pages.

use std::fmt::Write;

use crate::report::{Latency, Report};
use crate::sweep::Sweep;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 500.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 90.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 60.0;

/// A percentile's name, its colour, and how it is read.
type Line = (&'static str, &'static str, fn(&Latency) -> f64);

const LINES: [Line; 4] = [
    ("p50", "#1b9e77", |latency| latency.p50),
    ("p90", "#7570b3", |latency| latency.p90),
    ("p99", "#d95f02", |latency| latency.p99),
    ("p99.9", "#e7298a", |latency| latency.p999),
];

/// A horizontal line to compare with.
#[derive(Debug, Clone)]
pub(crate) struct Mark {
    pub(crate) label: String,
    /// Units: microseconds.
    pub(crate) us: f64,
}

/// Draws a sweep, with marks beside its bound.
pub(crate) fn draw(sweep: &Sweep, title: &str, marks: &[Mark]) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = Chart::new(&sweep.runs, marks).write(&mut out, sweep, title, marks);
    out
}

/// The axes on which a rate and a latency lie.
struct Chart {
    rates: Axis,
    latencies: Axis,
}

/// A logarithmic axis from one value to another, on so many places from the first.
struct Axis {
    from: f64,
    to: f64,
    first: f64,
    last: f64,
}

impl Axis {
    fn at(&self, value: f64) -> f64 {
        let share = (value.max(self.from) / self.from).ln() / (self.to / self.from).ln();
        self.first + (self.last - self.first) * share.min(1.0)
    }

    /// Round values of the axis: 1, 2 and 5 in each decade.
    fn ticks(&self) -> Vec<f64> {
        let decades = (0..12).map(|decade| 10_f64.powi(decade));
        let ticks = decades.flat_map(|decade| [1.0, 2.0, 5.0].map(|digit| digit * decade));
        ticks.filter(|tick| (self.from..=self.to).contains(tick)).collect()
    }
}

impl Chart {
    fn new(runs: &[Report], marks: &[Mark]) -> Self {
        let rates = || runs.iter().map(|run| run.rate.unwrap_or(1) as f64);
        let drawn = runs.iter().flat_map(|run| LINES.map(|(.., read)| read(&run.latency_us)));
        let drawn: Vec<f64> = drawn.chain(marks.iter().map(|mark| mark.us)).collect();
        let least = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::INFINITY, f64::min);
        let most = |values: &mut dyn Iterator<Item = f64>| values.fold(1.0, f64::max);
        let lowest = least(&mut drawn.iter().copied()).clamp(1.0, 1e9);
        let (slowest, fastest) = (least(&mut rates()).clamp(1.0, 1e9), most(&mut rates()));
        Self {
            rates: Axis {
                from: slowest,
                to: fastest.max(slowest * 1.01),
                first: LEFT,
                last: WIDTH - RIGHT,
            },
            latencies: Axis {
                from: lowest * 0.8,
                to: most(&mut drawn.iter().copied()).max(lowest) * 1.25,
                first: HEIGHT - BOTTOM,
                last: TOP,
            },
        }
    }

    fn write(
        &self,
        out: &mut String,
        sweep: &Sweep,
        title: &str,
        marks: &[Mark],
    ) -> std::fmt::Result {
        writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
             <text x=\"{LEFT}\" y=\"24\" font-size=\"15\">{}</text>",
            escaped(title)
        )?;
        self.write_axes(out)?;
        for mark in marks {
            self.write_mark(out, mark, "#888888")?;
        }
        let bound = Mark { label: "bound of p99".to_owned(), us: sweep.bound_us };
        if (self.latencies.from..self.latencies.to).contains(&bound.us) {
            self.write_mark(out, &bound, "#d95f02")?;
        }
        for line in LINES {
            self.write_line(out, line, &sweep.runs)?;
        }
        self.write_names(out)?;
        if let Some(knee) = sweep.knee {
            self.write_knee(out, knee)?;
        }
        writeln!(out, "</svg>")
    }

    fn write_axes(&self, out: &mut String) -> std::fmt::Result {
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        for tick in self.latencies.ticks() {
            let y = self.latencies.at(tick);
            writeln!(
                out,
                "<path d=\"M{LEFT} {y:.1}H{right}\" stroke=\"#e0e0e0\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                y + 4.0,
                duration(tick)
            )?;
        }
        for tick in self.rates.ticks() {
            let x = self.rates.at(tick);
            writeln!(
                out,
                "<path d=\"M{x:.1} {TOP}V{bottom}\" stroke=\"#e0e0e0\"/>\
                 <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                bottom + 18.0,
                count(tick)
            )?;
        }
        writeln!(
            out,
            "<path d=\"M{LEFT} {TOP}V{bottom}H{right}\" fill=\"none\" stroke=\"#444444\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">messages a second</text>",
            (LEFT + right) / 2.0,
            HEIGHT - 16.0
        )
    }

    fn write_mark(&self, out: &mut String, mark: &Mark, colour: &str) -> std::fmt::Result {
        let y = self.latencies.at(mark.us);
        writeln!(
            out,
            "<path d=\"M{LEFT} {y:.1}H{:.1}\" stroke=\"{colour}\" stroke-dasharray=\"2 4\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" fill=\"{colour}\" font-size=\"10\">{}</text>",
            WIDTH - RIGHT,
            LEFT + 4.0,
            y - 3.0,
            escaped(&mark.label)
        )
    }

    fn write_line(
        &self,
        out: &mut String,
        (_, colour, read): Line,
        runs: &[Report],
    ) -> std::fmt::Result {
        let points: Vec<(f64, f64)> = runs
            .iter()
            .map(|run| {
                let rate = run.rate.unwrap_or(1) as f64;
                (self.rates.at(rate), self.latencies.at(read(&run.latency_us)))
            })
            .collect();
        write!(out, "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"")?;
        for (x, y) in &points {
            write!(out, "{x:.1},{y:.1} ")?;
        }
        writeln!(out, "\"/>")?;
        for (x, y) in &points {
            writeln!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>")?;
        }
        Ok(())
    }

    /// Names the lines beside the chart, the slowest on top as they lie.
    fn write_names(&self, out: &mut String) -> std::fmt::Result {
        let mut y = TOP + 12.0;
        for (name, colour, _) in LINES.iter().rev() {
            let x = WIDTH - RIGHT + 14.0;
            writeln!(out, "<text x=\"{x}\" y=\"{y}\" fill=\"{colour}\">{name}</text>")?;
            y += 20.0;
        }
        Ok(())
    }

    fn write_knee(&self, out: &mut String, knee: u64) -> std::fmt::Result {
        let x = self.rates.at(knee as f64);
        writeln!(
            out,
            "<path d=\"M{x:.1} {TOP}V{:.1}\" stroke=\"#222222\" stroke-dasharray=\"6 3\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">knee {}/s</text>",
            HEIGHT - BOTTOM,
            TOP - 6.0,
            count(knee as f64)
        )
    }
}

/// A latency in the unit that suits it.
fn duration(us: f64) -> String {
    match us {
        us if us >= 1e6 => format!("{} s", us / 1e6),
        us if us >= 1e3 => format!("{} ms", us / 1e3),
        us => format!("{us} us"),
    }
}

fn count(number: f64) -> String {
    if number >= 1e3 {
        format!("{} k", (number / 100.0).round() / 10.0)
    } else {
        number.to_string()
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::tests::run_at;

    fn sweep(rates: &[u64]) -> Sweep {
        let runs = rates.iter().map(|rate| run_at(*rate, 20_000)).collect();
        Sweep { bound_us: 10_000.0, knee: Some(20_000), runs }
    }

    #[test]
    fn every_run_has_a_point_on_every_line_within_the_frame() {
        let marks = [Mark { label: "commit <p50>".to_owned(), us: 90.0 }];
        let svg = draw(&sweep(&[5_000, 10_000, 20_000, 40_000]), "a & b", &marks);
        assert_eq!(svg.matches("<circle").count(), 4 * LINES.len());
        assert_eq!(svg.matches("<polyline").count(), LINES.len());
        for wanted in ["knee 20 k/s", "bound of p99", "commit &lt;p50&gt;", "a &amp; b", "</svg>"] {
            assert!(svg.contains(wanted), "{wanted} in {svg}");
        }
        for place in svg.split("cy=\"").skip(1) {
            let y: f64 = place.split('"').next().unwrap().parse().unwrap();
            assert!((TOP..=HEIGHT - BOTTOM).contains(&y), "{y}");
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn a_sweep_of_one_rate_or_none_can_be_drawn() {
        for rates in [&[][..], &[7_000]] {
            let svg = draw(&sweep(rates), "few", &[]);
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }

    #[test]
    fn greater_values_lie_further_along_an_axis() {
        let axis = Axis { from: 10.0, to: 1_000.0, first: 0.0, last: 100.0 };
        assert_eq!(
            [10.0, 100.0, 1_000.0, 5_000.0].map(|value| axis.at(value).round()),
            [0.0, 50.0, 100.0, 100.0]
        );
        assert_eq!(axis.ticks(), [10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0]);
    }
}
