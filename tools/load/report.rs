//! A run as a person or a program reads it.

use std::fmt::Write;

use serde::Serialize;

use crate::arguments::Door;
use crate::crew::Job;
use cardswitch_load::clock::SECOND_NS;
use cardswitch_load::tally::{Counts, Tally};

/// Codes that say "approved": DE39, and `response_code`.
const APPROVED: [&str; 2] = ["00", "0"];

/// The result of one run.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Report {
    pub(crate) door: Door,
    /// None in a closed loop. Units: messages a second.
    pub(crate) rate: Option<u64>,
    pub(crate) seconds: f64,
    pub(crate) connections: u32,
    pub(crate) processes: u32,
    /// Messages of the measured time.
    pub(crate) offered: u64,
    /// Answers, over the time until the last of them. Units: messages a second.
    pub(crate) achieved_rate: f64,
    pub(crate) approved: u64,
    #[serde(flatten)]
    pub(crate) counts: Counts,
    pub(crate) latency_us: Latency,
    /// Units: microseconds of a processor for each message.
    pub(crate) client_cpu_us: f64,
}

/// Latency from the intended send. Units: microseconds.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Latency {
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    #[serde(rename = "p99.9")]
    pub(crate) p999: f64,
    pub(crate) max: f64,
}

impl Latency {
    /// The percentiles of what was noted.
    pub(crate) fn of(tally: &Tally) -> Self {
        Self {
            p50: tally.percentile_us(50.0),
            p90: tally.percentile_us(90.0),
            p99: tally.percentile_us(99.0),
            p999: tally.percentile_us(99.9),
            max: tally.max_us(),
        }
    }

    /// As a part of a line.
    pub(crate) fn text(&self) -> String {
        let Self { p50, p90, p99, p999, max } = self;
        format!("p50 {p50:.0}, p90 {p90:.0}, p99 {p99:.0}, p99.9 {p999:.0}, max {max:.0}")
    }
}

impl Report {
    /// The result of a job.
    pub(crate) fn new(job: &Job, tally: &Tally) -> Self {
        let counts = tally.counts.clone();
        let is_approved = |(code, _): &&(String, u64)| APPROVED.contains(&code.as_str());
        let elapsed_ns = counts.elapsed_ns.max(job.measured_ns);
        Self {
            door: job.door,
            rate: job.rate,
            seconds: job.measured_ns as f64 / SECOND_NS as f64,
            connections: job.connections,
            processes: job.processes,
            offered: counts.answered + counts.unanswered + counts.unsent,
            achieved_rate: counts.answered as f64 * SECOND_NS as f64 / elapsed_ns as f64,
            approved: counts.codes.iter().filter(is_approved).map(|(_, count)| count).sum(),
            latency_us: Latency::of(tally),
            client_cpu_us: counts.cpu_ns as f64 / 1e3 / counts.messages.max(1) as f64,
            counts,
        }
    }

    /// As lines for a person.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_text(&mut text);
        text
    }

    fn write_text(&self, out: &mut String) -> std::fmt::Result {
        let Self { counts, offered, achieved_rate, .. } = self;
        let door = match self.door {
            Door::Iso => "ISO 8583",
            Door::Http => "HTTP",
        };
        let mode = match self.rate {
            Some(rate) => format!("{rate}/s"),
            None => "closed loop".to_owned(),
        };
        let (seconds, connections, processes) = (self.seconds, self.connections, self.processes);
        writeln!(
            out,
            "{door}, {mode} for {seconds} s, connections {connections}, processes {processes}"
        )?;
        writeln!(out, "offered     {offered}")?;
        writeln!(out, "answered    {} ({achieved_rate:.0}/s)", counts.answered)?;
        writeln!(out, "  approved  {}", self.approved)?;
        for (code, count) in &counts.codes {
            if !APPROVED.contains(&code.as_str()) {
                writeln!(out, "  code {code:<4} {count}")?;
            }
        }
        writeln!(out, "unanswered  {}, unsent {}", counts.unanswered, counts.unsent)?;
        let (unmatched, broken) = (counts.unmatched, counts.broken_connections);
        writeln!(out, "errors      answers to nothing {unmatched}, broken connections {broken}")?;
        let from = if self.rate.is_some() { "from the intended send" } else { "from the send" };
        writeln!(out, "latency us  {} ({from})", self.latency_us.text())?;
        let each = |calls: u64| counts.messages as f64 / calls.max(1) as f64;
        writeln!(
            out,
            "client      {:.2} us of a processor a message, {:.1} messages a write, {:.1} a read",
            self.client_cpu_us,
            each(counts.writes),
            each(counts.reads)
        )
    }
}
