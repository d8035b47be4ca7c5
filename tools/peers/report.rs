//! The contenders, and their figures as the table of `benches/README.md` has them.

use cardswitch_tools::report::{grouped, range, thousands, time};

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
    /// Its name in the table.
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

/// The table: a row for each contender and a column for each window.
#[derive(Debug, Default)]
pub(crate) struct Report {
    rows: Vec<String>,
    /// Medians of redb commits before each contender. Units: microseconds.
    pub(crate) commits_us: Vec<f64>,
}

impl Report {
    /// Begins the row of a contender.
    pub(crate) fn begin(&mut self, contender: Contender) {
        self.rows.push(format!("| {} |", contender.title()));
    }

    /// Adds a cell to the newest row, and prints it with all its figures.
    pub(crate) fn add(&mut self, load: Load, figures: &PeerFigures) {
        let Load { window, connections, .. } = load;
        let rate = thousands(figures.per_second());
        let [p50, p99] = [50.0, 99.0].map(|percent| time(figures.latencies.percentile_us(percent)));
        if let Some(row) = self.rows.last_mut() {
            println!(
                "CELL {row} {window} in flight on {connections} connection(s): {rate} \
                 authorizations/s, p50 {p50}, p99 {p99}"
            );
            *row += &format!(" {rate} ({p50}) |");
        }
    }

    /// The whole table.
    pub(crate) fn to_markdown(&self, cards: u64, windows: &[usize]) -> String {
        let heads =
            windows.iter().map(|window| format!(" {} in flight |", grouped(*window as f64)));
        format!(
            "{} cards; a redb commit of 100 bytes took {}\n\n| authorizations/s (p50) |{}\n|---|{}\n{}",
            grouped(cards as f64),
            range(self.commits_us.iter().copied(), time),
            heads.collect::<String>(),
            "---:|".repeat(windows.len()),
            self.rows.join("\n"),
        )
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_table_has_a_column_for_each_window() {
        let mut report = Report { commits_us: vec![200.0, 150.0], ..Report::default() };
        for contender in [Contender::Cardswitch, Contender::Redis] {
            report.begin(contender);
            for window in [1, 64] {
                let duration = Duration::from_secs(1);
                let mut figures = PeerFigures { elapsed: duration, ..PeerFigures::default() };
                (0..window * 1_000).for_each(|_| figures.tally.note(true, 1));
                figures.latencies.note(Duration::from_micros(250));
                report.add(Load { window, connections: 1, duration }, &figures);
            }
        }
        let table = report.to_markdown(10_000, &[1, 64]);
        let rows: Vec<&str> = table.lines().collect();
        assert_eq!(rows[0], "10,000 cards; a redb commit of 100 bytes took 150 us to 200 us");
        assert_eq!(rows[2], "| authorizations/s (p50) | 1 in flight | 64 in flight |");
        assert_eq!(rows[4], "| cardswitch, in process | 1,000 (250 us) | 64,000 (250 us) |");
        assert!(rows[5].starts_with("| Redis 7, appendfsync always | 1,000 "), "{table}");
        assert_eq!(rows.len(), 6, "{table}");
    }
}
