//! Draws a report: throughput and latency side by side, a row for each contender in each window. Both
//! scales are logarithmic, as the figures span three orders of magnitude; each mark carries its figure.

use std::ops::Range;

use cardswitch_tools::Outcome;
use cardswitch_tools::report::{grouped, thousands, time};
use clap::ValueEnum;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::report::{Cell, Contender, Report};

const WIDTH: u32 = 960;
const ROW: u32 = 22;
/// Title and axis.
const FRAME: u32 = 90;
/// The names of the contenders, and the throughput beside them.
const LEFT: u32 = 500;
const NAMES: u32 = 190;
/// The space behind a mark, for its figure.
const FIGURE: u32 = 80;
const TITLE: (&str, u32) = ("sans-serif", 15);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws the report as one SVG document.
/// Errors: nothing was measured.
pub(crate) fn draw(report: &Report) -> Outcome<String> {
    let heads = report.windows().len();
    let height = FRAME + ROW * u32::try_from(heads + report.cells.len())?;
    let mut out = String::new();
    let root = SVGBackend::with_string(&mut out, (WIDTH, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let (left, right) = root.split_horizontally(LEFT);
    draw_rates(&left, report)?;
    draw_latencies(&right, report)?;
    root.present()?;
    drop((left, right, root));
    Ok(out)
}

/// The rows from the top: their places, and their cells; none in the head of a window.
fn rows(report: &Report) -> Vec<(f64, usize, Option<&Cell>)> {
    let cells = report.windows().into_iter().flat_map(|window| {
        let cells =
            Contender::value_variants().iter().filter_map(move |one| report.find(*one, window));
        [(window, None)].into_iter().chain(cells.map(move |cell| (window, Some(cell))))
    });
    let places = (0..report.windows().len() + report.cells.len()).rev();
    places.zip(cells).map(|(place, (window, cell))| (place as f64 + 0.5, window, cell)).collect()
}

fn draw_rates(area: &Area<'_>, report: &Report) -> Outcome<()> {
    let rows = rows(report);
    let scale = decades(report.cells.iter().map(|cell| cell.per_second));
    let least = scale.start;
    let mut chart = ChartBuilder::on(area)
        .caption("Durable authorizations a second", TITLE)
        .margin_left(NAMES)
        .margin_right(FIGURE)
        .x_label_area_size(30)
        .build_cartesian_2d(scale.log_scale(), 0.0..rows.len() as f64)?;
    let label = |value: &f64| thousands(*value);
    chart.configure_mesh().disable_y_mesh().disable_y_axis().x_label_formatter(&label).draw()?;
    for (y, window, cell) in rows {
        let Some(cell) = cell else {
            let head = format!("{} in flight", grouped(window as f64));
            let style = text(HPos::Right);
            chart.draw_series([EmptyElement::at((least, y)) + Text::new(head, (-8, 0), style)])?;
            continue;
        };
        let bar = [(least, y - 0.3), (cell.per_second, y + 0.3)];
        chart.draw_series([Rectangle::new(bar, colour(cell.contender).filled())])?;
        let name = Text::new(cell.contender.title(), (-8, 0), text(HPos::Right));
        chart.draw_series([EmptyElement::at((least, y)) + name])?;
        let figure = Text::new(thousands(cell.per_second), (6, 0), text(HPos::Left));
        chart.draw_series([EmptyElement::at((cell.per_second, y)) + figure])?;
    }
    Ok(())
}

fn draw_latencies(area: &Area<'_>, report: &Report) -> Outcome<()> {
    let rows = rows(report);
    let scale = decades(report.cells.iter().flat_map(|cell| [cell.p50_us, cell.p99_us]));
    let mut chart = ChartBuilder::on(area)
        .caption("Latency, p50 (dot) to p99 (end)", TITLE)
        .margin_left(FIGURE)
        .margin_right(FIGURE)
        .x_label_area_size(30)
        .build_cartesian_2d(scale.log_scale(), 0.0..rows.len() as f64)?;
    let label = |value: &f64| time(*value);
    chart.configure_mesh().disable_y_mesh().disable_y_axis().x_label_formatter(&label).draw()?;
    for (y, _, cell) in rows {
        let Some(cell) = cell else { continue };
        let (p50, p99, colour) = ((cell.p50_us, y), (cell.p99_us, y), colour(cell.contender));
        chart.draw_series(LineSeries::new([p50, p99], colour.stroke_width(3)))?;
        let figure = Text::new(time(cell.p50_us), (-8, 0), text(HPos::Right));
        chart.draw_series([EmptyElement::at(p50)
            + Circle::new((0, 0), 4, colour.filled())
            + figure])?;
        let figure = Text::new(time(cell.p99_us), (6, 0), text(HPos::Left));
        chart.draw_series([EmptyElement::at(p99) + figure])?;
    }
    Ok(())
}

fn text(side: HPos) -> TextStyle<'static> {
    ("sans-serif", 12).into_font().color(&BLACK).pos(Pos::new(side, VPos::Center))
}

const fn colour(contender: Contender) -> RGBColor {
    match contender {
        Contender::Cardswitch | Contender::Iso8583 => RGBColor(9, 105, 218),
        Contender::Postgresql | Contender::PostgresqlOneEach => RGBColor(130, 80, 223),
        Contender::Redis => RGBColor(207, 34, 46),
        Contender::Tigerbeetle => RGBColor(191, 135, 0),
    }
}

/// The powers of ten around these values.
fn decades(values: impl Iterator<Item = f64>) -> Range<f64> {
    let bounds = values
        .fold((f64::INFINITY, 1.0_f64), |(least, most), value| (least.min(value), most.max(value)));
    let least = bounds.0.min(bounds.1).max(1.0);
    10_f64.powf(least.log10().floor())..10_f64.powf(bounds.1.log10().floor() + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::report::tests::report;

    #[test]
    fn every_cell_is_drawn_with_its_figures() {
        let svg = draw(&report()).unwrap();
        assert_eq!(svg.matches("<circle").count(), report().cells.len());
        for text in ["100,000", "25,000", "1 in flight", "64 in flight", "640 us", "1.92 ms"] {
            assert!(svg.contains(text), "{text} in {svg}");
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn a_scale_ends_at_powers_of_ten() {
        assert_eq!(decades([120.0, 9_000.0].into_iter()), 100.0..10_000.0);
    }
}
