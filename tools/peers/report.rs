//! The figures of a run: as a table to read, and as JSON to keep.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::closed_loop::PeerFigures;
use crate::peer::Load;
use crate::yardsticks::Yardsticks;

/// A measured contender.
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
    /// Everybody, in the order of the table.
    pub(crate) const ALL: [Self; 6] = [
        Self::Cardswitch,
        Self::Iso8583,
        Self::Postgresql,
        Self::PostgresqlOneEach,
        Self::Redis,
        Self::Tigerbeetle,
    ];

    /// Its name in the table and the plot.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Cardswitch => "cardswitch, in process",
            Self::Iso8583 => "cardswitch, over ISO 8583",
            Self::Postgresql => "PostgreSQL 15, batched",
            Self::PostgresqlOneEach => "PostgreSQL 15, one each",
            Self::Redis => "Redis 7, batched",
            Self::Tigerbeetle => "TigerBeetle 0.17, holds only",
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Cardswitch => "cardswitch",
            Self::Iso8583 => "cardswitch_iso8583",
            Self::Postgresql => "postgresql",
            Self::PostgresqlOneEach => "postgresql_one_each",
            Self::Redis => "redis",
            Self::Tigerbeetle => "tigerbeetle",
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
    pub(crate) answers: u64,
    /// The time of a redb commit just before the contender. Units: microseconds.
    pub(crate) redb_commit_us: f64,
}

impl Cell {
    pub(crate) fn new(
        contender: Contender,
        load: Load,
        measured: &PeerFigures,
        yardsticks: Yardsticks,
    ) -> Self {
        Self {
            contender,
            window: load.window,
            connections: load.connections,
            per_second: measured.per_second(),
            p50_us: measured.latencies.percentile_us(50.0),
            p99_us: measured.latencies.percentile_us(99.0),
            answers: measured.tally.answers,
            redb_commit_us: yardsticks.redb_commit_us,
        }
    }

    /// Its median beside a redb commit of the same minutes.
    fn p50_in_commits(&self) -> f64 {
        self.p50_us / self.redb_commit_us
    }
}

impl std::fmt::Display for Cell {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "{}, {} in flight on {} connection(s): {} authorizations/s, p50 {}, p99 {}, of {}",
            self.contender.title(),
            self.window,
            self.connections,
            thousands(self.per_second),
            time(self.p50_us),
            time(self.p99_us),
            self.answers,
        )
    }
}

/// Everything a run has found.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) cells: Vec<Cell>,
    pub(crate) yardsticks: Yardsticks,
    pub(crate) machine: String,
    pub(crate) date: String,
    pub(crate) cards: u64,
    pub(crate) seconds: u64,
    /// The skew of the cards' popularity; none where all are alike.
    pub(crate) zipf: Option<f64>,
    /// The peers' descriptions of themselves.
    pub(crate) servers: Vec<String>,
    /// Peers that are not on this machine, and how they would be.
    pub(crate) left_out: Vec<String>,
}

impl Report {
    /// The windows that were measured, in order.
    pub(crate) fn windows(&self) -> Vec<usize> {
        let mut windows: Vec<usize> = self.cells.iter().map(|cell| cell.window).collect();
        windows.sort_unstable();
        windows.dedup();
        windows
    }

    /// The cells of one window, in the table's order.
    pub(crate) fn cells_of(&self, window: usize) -> impl Iterator<Item = &Cell> {
        Contender::ALL.into_iter().filter_map(move |contender| self.find(contender, window))
    }

    fn find(&self, contender: Contender, window: usize) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.contender == contender && cell.window == window)
    }

    /// How many times this throughput cardswitch has at the same window.
    fn behind_cardswitch(&self, cell: &Cell) -> Option<f64> {
        let ours = self.find(Contender::Cardswitch, cell.window)?;
        Some(ours.per_second / cell.per_second)
    }

    /// A Markdown table, and what it was measured on.
    pub(crate) fn to_markdown(&self) -> String {
        let mut out = String::from(
            "| | in flight | authorizations/s | p50 | p99 | cardswitch is | p50 in redb commits |\n\
             |---|---:|---:|---:|---:|---:|---:|\n",
        );
        for window in self.windows() {
            for cell in self.cells_of(window) {
                let behind = self.behind_cardswitch(cell).map(|times| format!("{times:.2}x"));
                // Writing to a string cannot fail.
                let _ = writeln!(
                    out,
                    "| {} | {} | {} | {} | {} | {} | {:.2} |",
                    cell.contender.title(),
                    grouped(cell.window as f64),
                    thousands(cell.per_second),
                    time(cell.p50_us),
                    time(cell.p99_us),
                    behind.unwrap_or_default(),
                    cell.p50_in_commits(),
                );
            }
        }
        let _ = writeln!(
            out,
            "\n{}; {}; {} cards, {}, {} s a cell. Same run: redb commit of 100 bytes {}, 100 bytes \
             appended with fdatasync {}.",
            self.date,
            self.machine,
            grouped(self.cards as f64),
            self.load(),
            self.seconds,
            time(self.yardsticks.redb_commit_us),
            time(self.yardsticks.append_us),
        );
        for left_out in &self.left_out {
            let _ = writeln!(out, "Left out: {left_out}.");
        }
        out
    }

    /// How the purchases are spread over the cards.
    pub(crate) fn load(&self) -> String {
        self.zipf.map_or_else(|| "uniform".to_owned(), |theta| format!("Zipf {theta}"))
    }

    /// The same figures, unrounded.
    pub(crate) fn to_json(&self) -> Value {
        let cells: Vec<Value> = self
            .cells
            .iter()
            .map(|cell| {
                json!({
                    "contender": cell.contender.name(),
                    "in_flight": cell.window,
                    "connections": cell.connections,
                    "authorizations_per_second": cell.per_second,
                    "p50_us": cell.p50_us,
                    "p99_us": cell.p99_us,
                    "answers": cell.answers,
                    "redb_commit_us": cell.redb_commit_us,
                    "times_to_cardswitch": self.behind_cardswitch(cell),
                    "p50_in_redb_commits": cell.p50_in_commits(),
                })
            })
            .collect();
        json!({
            "date": self.date,
            "machine": self.machine,
            "cards": self.cards,
            "seconds": self.seconds,
            "zipf": self.zipf,
            "servers": self.servers,
            "left_out": self.left_out,
            "redb_commit_us": self.yardsticks.redb_commit_us,
            "append_fdatasync_us": self.yardsticks.append_us,
            "cells": cells,
        })
    }
}

/// A count to three figures, with separators.
pub(crate) fn thousands(count: f64) -> String {
    let step = 10_f64.powf(count.max(1.0).log10().floor() - 2.0).max(1.0);
    grouped((count / step).round() * step)
}

/// A whole count with separators.
pub(crate) fn grouped(count: f64) -> String {
    let digits = format!("{count:.0}");
    let (head, tail) = digits.split_at(digits.len() % 3);
    let mut groups: Vec<&str> = Vec::from([head]);
    groups.extend(tail.as_bytes().chunks(3).filter_map(|group| str::from_utf8(group).ok()));
    groups.retain(|group| !group.is_empty());
    groups.join(",")
}

/// A time in the unit that suits it. Units: of `us`, microseconds.
pub(crate) fn time(us: f64) -> String {
    match us {
        ..10.0 => format!("{us:.1} us"),
        ..1_000.0 => format!("{us:.0} us"),
        ..10_000.0 => format!("{:.2} ms", us / 1e3),
        ..100_000.0 => format!("{:.1} ms", us / 1e3),
        _ => format!("{:.0} ms", us / 1e3),
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
            answers: 1_000,
            redb_commit_us: 200.0,
        };
        Report {
            cells: vec![
                cell(Contender::Redis, 64, 25_000.0),
                cell(Contender::Cardswitch, 64, 100_000.0),
                cell(Contender::Redis, 1, 2_000.0),
            ],
            yardsticks: Yardsticks { redb_commit_us: 200.0, append_us: 150.0 },
            machine: "2 cores".to_owned(),
            date: "2026-01-02".to_owned(),
            cards: 10_000,
            seconds: 10,
            zipf: None,
            servers: Vec::new(),
            left_out: vec!["TigerBeetle".to_owned()],
        }
    }

    #[test]
    fn the_table_compares_within_a_window() {
        let table = report().to_markdown();
        let rows: Vec<&str> = table.lines().skip(2).take(3).collect();
        assert_eq!(rows[0], "| Redis 7, batched | 1 | 2,000 | 500 us | 1.50 ms |  | 2.50 |");
        assert!(rows[1].starts_with("| cardswitch, in process | 64 | 100,000 |"), "{table}");
        assert!(rows[2].contains("| 4.00x |"), "{table}");
        assert!(table.contains("10,000 cards, uniform,"), "{table}");
        assert!(table.ends_with("Left out: TigerBeetle.\n"), "{table}");
    }

    #[test]
    fn json_keeps_what_was_not_compared_as_null() {
        let json = report().to_json();
        assert_eq!(json["cells"][0]["times_to_cardswitch"], 4.0);
        assert!(json["cells"][2]["times_to_cardswitch"].is_null());
        assert_eq!(json["cells"][2]["p50_in_redb_commits"], 2.5);
    }

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
}
