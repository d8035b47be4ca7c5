//! Draws a report: throughput and latency side by side, a block of bars for each window.
//!
//! An SVG by hand. Both scales are logarithmic, as the figures span three orders of magnitude; each
//! bar carries its figure, so that nobody has to measure. Colours follow the reader's scheme.

use std::fmt::Write as _;

use crate::report::{Cell, Contender, Report, grouped, thousands, time};

const WIDTH: f64 = 960.0;
const TOP: f64 = 64.0;
const ROW: f64 = 22.0;
const BLOCK_HEAD: f64 = 26.0;
const BLOCK_GAP: f64 = 10.0;
const FOOT: f64 = 50.0;
const LABELS: f64 = 190.0;

const STYLE: &str = "\
    text{font:12px system-ui,sans-serif;fill:#1f2328}\
    .title{font-size:15px;font-weight:600}.head{font-weight:600}.faint{fill:#656d76}\
    .end{text-anchor:end}.mid{text-anchor:middle}\
    .grid{stroke:#d0d7de;stroke-width:1}.mark{stroke:#656d76;stroke-dasharray:4 3}\
    .ours{fill:#0969da;stroke:#0969da}.elephant{fill:#8250df;stroke:#8250df}\
    .redis{fill:#cf222e;stroke:#cf222e}.beetle{fill:#bf8700;stroke:#bf8700}.back{fill:#ffffff}\
    @media(prefers-color-scheme:dark){text{fill:#e6edf3}.faint{fill:#8d96a0}.grid{stroke:#30363d}\
    .mark{stroke:#8d96a0}.ours{fill:#4493f8;stroke:#4493f8}.elephant{fill:#ab7df8;stroke:#ab7df8}\
    .redis{fill:#f85149;stroke:#f85149}.beetle{fill:#d29922;stroke:#d29922}.back{fill:#0d1117}}";

/// A logarithmic scale over a stretch of the page.
#[derive(Clone, Copy, Debug)]
struct Scale {
    from: f64,
    to: f64,
    least: f64,
    most: f64,
}

impl Scale {
    /// A scale whose ends are powers of ten around these values.
    fn around(from: f64, to: f64, values: impl Iterator<Item = f64> + Clone) -> Self {
        let least = values.clone().fold(f64::INFINITY, f64::min).max(1e-3);
        let most = values.fold(least, f64::max);
        let (least, most) = (10_f64.powf(least.log10().floor()), 10_f64.powf(most.log10().ceil()));
        Self { from, to, least, most: most.max(least * 10.0) }
    }

    fn x(&self, value: f64) -> f64 {
        let share = (value / self.least).log10() / (self.most / self.least).log10();
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// The powers of ten on it.
    fn ticks(&self) -> Vec<f64> {
        let mut ticks = vec![self.least];
        let mut tick = self.least * 10.0;
        while tick <= self.most * 1.001 {
            ticks.push(tick);
            tick *= 10.0;
        }
        ticks
    }
}

/// Draws the report as one SVG document.
pub(crate) fn draw(report: &Report) -> String {
    let blocks: f64 = report
        .windows()
        .into_iter()
        .map(|window| BLOCK_HEAD + ROW * report.cells_of(window).count() as f64 + BLOCK_GAP)
        .sum();
    let height = TOP + blocks + FOOT;
    let rates = report.cells.iter().map(|cell| cell.per_second);
    let rate = Scale::around(LABELS, LABELS + 310.0, rates);
    let latencies = report.cells.iter().flat_map(|cell| [cell.p50_us, cell.p99_us]);
    let latency = Scale::around(LABELS + 400.0, WIDTH - 80.0, latencies);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\" role=\"img\" aria-label=\"Durable authorizations a \
         second, and their latency\"><style>{STYLE}</style>\
         <rect class=\"back\" width=\"{WIDTH}\" height=\"{height}\" rx=\"6\"/>\n"
    );
    write_axis(&mut out, &rate, "Durable authorizations a second", height, thousands);
    write_axis(&mut out, &latency, "Latency, p50 (dot) to p99 (end)", height, axis_time);
    write_yardstick(&mut out, &latency, report.yardsticks.redb_commit_us, height);
    let mut y = TOP;
    for window in report.windows() {
        y += BLOCK_HEAD;
        let title = format!("{} in flight", grouped(window as f64));
        write_text(&mut out, 16.0, y - 8.0, "head", &title);
        for cell in report.cells_of(window) {
            write_cell(&mut out, cell, y, &rate, &latency);
            y += ROW;
        }
        y += BLOCK_GAP;
    }
    let Report { machine, date, .. } = report;
    let foot = format!("Scales are logarithmic. {machine}, {date}, {} load", report.load());
    write_text(&mut out, 16.0, height - 12.0, "faint", &foot);
    out += "</svg>\n";
    out
}

fn axis_time(us: f64) -> String {
    match us {
        ..1e3 => format!("{us:.0} us"),
        ..1e6 => format!("{:.0} ms", us / 1e3),
        _ => format!("{:.0} s", us / 1e6),
    }
}

fn write_axis(
    out: &mut String,
    scale: &Scale,
    title: &str,
    height: f64,
    label: impl Fn(f64) -> String,
) {
    let bottom = height - FOOT;
    write_text(out, scale.from, 26.0, "title", title);
    for tick in scale.ticks() {
        let x = scale.x(tick);
        write_line(out, "grid", (x, TOP), (x, bottom), 1.0);
        write_text(out, x, TOP - 10.0, "faint mid", &label(tick));
    }
}

/// Draws the least cost of a durable answer on this disk.
fn write_yardstick(out: &mut String, scale: &Scale, commit_us: f64, height: f64) {
    let (x, bottom) = (scale.x(commit_us), height - FOOT);
    write_line(out, "mark", (x, TOP), (x, bottom), 1.5);
    let text = format!("one redb commit, {}", time(commit_us));
    write_text(out, x, bottom + 16.0, "faint mid", &text);
}

fn write_cell(out: &mut String, cell: &Cell, y: f64, rate: &Scale, latency: &Scale) {
    let class = class_of(cell.contender);
    let middle = y + ROW / 2.0;
    write_text(out, LABELS - 8.0, middle + 4.0, "end", cell.contender.title());
    let end = rate.x(cell.per_second);
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "<rect class=\"{class}\" stroke=\"none\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" \
         height=\"{:.1}\" rx=\"2\"/>",
        rate.from,
        y + 4.0,
        (end - rate.from).max(1.0),
        ROW - 8.0
    );
    write_text(out, end + 6.0, middle + 4.0, "", &thousands(cell.per_second));
    let (p50, p99) = (latency.x(cell.p50_us), latency.x(cell.p99_us));
    write_line(out, class, (p50, middle), (p99, middle), 3.0);
    write_line(out, class, (p99, middle - 5.0), (p99, middle + 5.0), 3.0);
    let _ =
        writeln!(out, "<circle class=\"{class}\" cx=\"{p50:.1}\" cy=\"{middle:.1}\" r=\"4.5\"/>");
    write_text(out, p50 - 9.0, middle + 4.0, "end", &time(cell.p50_us));
    write_text(out, p99 + 8.0, middle + 4.0, "", &time(cell.p99_us));
}

const fn class_of(contender: Contender) -> &'static str {
    match contender {
        Contender::Cardswitch | Contender::Iso8583 => "ours",
        Contender::Postgresql | Contender::PostgresqlOneEach => "elephant",
        Contender::Redis => "redis",
        Contender::Tigerbeetle => "beetle",
    }
}

fn write_text(out: &mut String, x: f64, y: f64, class: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\">{text}</text>");
}

fn write_line(out: &mut String, class: &str, from: (f64, f64), to: (f64, f64), width: f64) {
    let _ = writeln!(
        out,
        "<line class=\"{class}\" stroke-width=\"{width}\" x1=\"{:.1}\" y1=\"{:.1}\" \
         x2=\"{:.1}\" y2=\"{:.1}\"/>",
        from.0, from.1, to.0, to.1
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::report;

    #[test]
    fn a_scale_ends_at_powers_of_ten() {
        let scale = Scale::around(100.0, 400.0, [120.0, 9_000.0].into_iter());
        assert_eq!(scale.ticks().len(), 3);
        assert!((scale.x(1_000.0) - 250.0).abs() < 1e-6);
        assert!((scale.x(1.0) - 100.0).abs() < 1e-6, "what is off the scale stays on the page");
    }

    #[test]
    fn every_cell_is_drawn_with_its_figures() {
        let mut report = report();
        report.machine = "a & b <c>".to_owned();
        let svg = draw(&report);
        assert_eq!(svg.matches("<circle").count(), report.cells.len());
        for text in ["100,000", "25,000", "1 in flight", "64 in flight", "one redb commit, 200 us"]
        {
            assert!(svg.contains(text), "{text}");
        }
        assert!(svg.contains("a &amp; b &lt;c>"));
        assert!(svg.ends_with("</svg>\n"));
    }
}
