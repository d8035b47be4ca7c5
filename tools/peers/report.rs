//! The figures of a run, as the table of `benches/README.md` has them.

use std::fmt::Write as _;

use cardswitch_tools::report::{grouped, range, thousands, time};
use clap::ValueEnum;

use super::closed_loop::PeerFigures;
use super::peer::Load;

/// The contenders, in the order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Contender {
    /// The engine, called in process.
    Cardswitch,
    /// The whole switch behind its ISO 8583 door.
    Iso8583,
    /// PostgreSQL, what waits goes in one transaction.
    Postgresql,
    /// PostgreSQL, each purchase a transaction of its own.
    PostgresqlOneEach,
    /// Redis, what waits goes in one script call.
    Redis,
    /// TigerBeetle, what waits goes in one request.
    Tigerbeetle,
}

impl Contender {
    /// Its name in the table and the picture.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Cardswitch => "cardswitch, in process",
            Self::Iso8583 => "cardswitch, over ISO 8583",
            Self::Postgresql => "PostgreSQL 15, batched",
            Self::PostgresqlOneEach => "PostgreSQL 15, one each",
            Self::Redis => "Redis 7, appendfsync always",
            Self::Tigerbeetle => "TigerBeetle 0.17, holds only",
        }
    }
}

/// The result of one contender with so many purchases in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(crate) contender: Contender,
    pub(crate) window: usize,
    pub(crate) connections: usize,
    pub(crate) per_second: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
}

impl Cell {
    pub(crate) fn new(contender: Contender, load: Load, measured: &PeerFigures) -> Self {
        Self {
            contender,
            window: load.window,
            connections: load.connections,
            per_second: measured.per_second(),
            p50_us: measured.latencies.percentile_us(50.0),
            p99_us: measured.latencies.percentile_us(99.0),
        }
    }
}

impl std::fmt::Display for Cell {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "{}, {} in flight on {} connection(s): {} authorizations/s, p50 {}, p99 {}",
            self.contender.title(),
            self.window,
            self.connections,
            thousands(self.per_second),
            time(self.p50_us),
            time(self.p99_us),
        )
    }
}

/// Everything that a run has measured.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) cells: Vec<Cell>,
    /// Medians of redb commits before each contender. Units: microseconds.
    pub(crate) commits_us: Vec<f64>,
    pub(crate) cards: u64,
}

impl Report {
    /// The windows that were measured, in order.
    pub(crate) fn windows(&self) -> Vec<usize> {
        let mut windows: Vec<usize> = self.cells.iter().map(|cell| cell.window).collect();
        windows.sort_unstable();
        windows.dedup();
        windows
    }

    pub(crate) fn find(&self, contender: Contender, window: usize) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.contender == contender && cell.window == window)
    }

    /// The table, a row for each contender and a column for each window.
    pub(crate) fn to_markdown(&self) -> String {
        let windows = self.windows();
        let heads: Vec<String> =
            windows.iter().map(|window| format!("{} in flight", grouped(*window as f64))).collect();
        let mut out = format!(
            "{} cards; a redb commit of 100 bytes took {}\n\n| authorizations/s (p50) | {} |\n|---|{}\n",
            grouped(self.cards as f64),
            range(self.commits_us.iter().copied(), time),
            heads.join(" | "),
            "---:|".repeat(windows.len()),
        );
        for contender in Contender::value_variants() {
            let cells: Vec<String> = windows
                .iter()
                .filter_map(|window| self.find(*contender, *window))
                .map(|cell| format!("{} ({})", thousands(cell.per_second), time(cell.p50_us)))
                .collect();
            if !cells.is_empty() {
                // Writing to a string cannot fail.
                let _ = writeln!(out, "| {} | {} |", contender.title(), cells.join(" | "));
            }
        }
        out
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn report() -> Report {
        let cell = |contender, window, per_second| Cell {
            contender,
            window,
            connections: 1,
            per_second,
            p50_us: 1e6 * window as f64 / per_second,
            p99_us: 3e6 * window as f64 / per_second,
        };
        Report {
            cells: vec![
                cell(Contender::Redis, 64, 25_000.0),
                cell(Contender::Cardswitch, 64, 100_000.0),
                cell(Contender::Redis, 1, 2_000.0),
                cell(Contender::Cardswitch, 1, 4_000.0),
            ],
            commits_us: vec![200.0, 150.0],
            cards: 10_000,
        }
    }

    #[test]
    fn the_table_has_a_column_for_each_window() {
        let table = report().to_markdown();
        let rows: Vec<&str> = table.lines().collect();
        assert_eq!(rows[0], "10,000 cards; a redb commit of 100 bytes took 150 us to 200 us");
        assert_eq!(rows[2], "| authorizations/s (p50) | 1 in flight | 64 in flight |");
        assert_eq!(rows[4], "| cardswitch, in process | 4,000 (250 us) | 100,000 (640 us) |");
        assert!(rows[5].starts_with("| Redis 7, appendfsync always | 2,000 (500 us) |"), "{table}");
        assert_eq!(rows.len(), 6, "{table}");
    }
}
