//! The text format of Prometheus, version 0.0.4: help, type, then one line a figure.
//!
//! Durations are kept in nanoseconds and shown in seconds, exactly: as decimals, not through binary
//! floating point.

use std::fmt::{Display, Write};

use cardswitch_engine::meters::{BOUNDED_BUCKETS, Histogram, HistogramSnapshot};

pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Labels of a figure: names and values.
pub(super) type Labels<'a> = &'a [(&'a str, &'a str)];

/// The kind of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only rises.
    Counter,
    /// It goes up and down.
    Gauge,
}

impl Kind {
    const fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
        }
    }
}

/// Text under construction.
#[derive(Debug, Default)]
pub(super) struct Exposition(String);

impl Exposition {
    /// Begins a family of counters or gauges.
    pub(super) fn family(&mut self, name: &str, kind: Kind, help: &str) {
        self.head(name, kind.word(), help);
    }

    /// A figure of the family that was begun last.
    pub(super) fn figure(&mut self, name: &str, labels: Labels<'_>, value: impl Display) {
        self.0.push_str(name);
        self.labels(labels, None);
        let _ = writeln!(self.0, " {value}");
    }

    /// A family of one figure without labels.
    pub(super) fn single(&mut self, name: &str, kind: Kind, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.figure(name, &[], value);
    }

    /// Begins a family of histograms.
    pub(super) fn histogram_family(&mut self, name: &str, help: &str) {
        self.head(name, "histogram", help);
    }

    /// A histogram of the family that was begun last.
    pub(super) fn histogram(&mut self, name: &str, labels: Labels<'_>, now: &HistogramSnapshot) {
        let mut count = 0;
        for (bucket, more) in now.buckets.iter().enumerate() {
            count += more;
            let bound = match bucket {
                bounded if bounded < BOUNDED_BUCKETS => seconds(Histogram::bound_ns(bounded)),
                _ => "+Inf".to_owned(),
            };
            let _ = write!(self.0, "{name}_bucket");
            self.labels(labels, Some(("le", &bound)));
            let _ = writeln!(self.0, " {count}");
        }
        self.figure(&format!("{name}_sum"), labels, seconds(now.sum_ns));
        self.figure(&format!("{name}_count"), labels, count);
    }

    /// The whole text.
    pub(super) fn finish(self) -> String {
        self.0
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        // Writing to text does not fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn labels(&mut self, labels: Labels<'_>, last: Option<(&str, &str)>) {
        let mut separator = '{';
        for (name, value) in labels.iter().copied().chain(last) {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{separator}{name}=\"{value}\"");
            separator = ',';
        }
        if separator == ',' {
            self.0.push('}');
        }
    }
}

/// Nanoseconds as seconds, to the last digit and without zeros at the end.
pub(super) fn seconds(ns: u64) -> String {
    const NS_PER_S: u64 = 1_000_000_000;
    let text = format!("{}.{:09}", ns / NS_PER_S, ns % NS_PER_S);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn seconds_are_exact() {
        let rows = [
            (0, "0"),
            (1, "0.000000001"),
            (1_024, "0.000001024"),
            (1_500_000_000, "1.5"),
            (17_179_869_184, "17.179869184"),
            (u64::MAX, "18446744073.709551615"),
        ];
        for (ns, text) in rows {
            assert_eq!(seconds(ns), text);
        }
    }

    #[test]
    fn figures_have_help_type_and_escaped_labels() {
        let mut text = Exposition::default();
        text.single("things", Kind::Gauge, "Things\\ of\nall kinds.", 3);
        text.family("more_total", Kind::Counter, "More.");
        text.figure("more_total", &[("what", "a\"b\\c\nd"), ("code", "1")], 7);
        let expected = "# HELP things Things\\\\ of\\nall kinds.\n# TYPE things gauge\nthings 3\n\
                        # HELP more_total More.\n# TYPE more_total counter\n\
                        more_total{what=\"a\\\"b\\\\c\\nd\",code=\"1\"} 7\n";
        assert_eq!(text.finish(), expected);
    }

    #[test]
    fn buckets_of_a_histogram_add_up() {
        let histogram = Histogram::default();
        histogram.record_many(Duration::from_nanos(2_000), 3);
        histogram.record(Duration::from_secs(100));
        let mut text = Exposition::default();
        text.histogram("waits_seconds", &[("stage", "queue")], &histogram.now());
        let text = text.finish();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), BOUNDED_BUCKETS + 3);
        assert_eq!(lines[0], "waits_seconds_bucket{stage=\"queue\",le=\"0.000001024\"} 0");
        assert_eq!(lines[1], "waits_seconds_bucket{stage=\"queue\",le=\"0.000002048\"} 3");
        assert_eq!(lines[BOUNDED_BUCKETS], "waits_seconds_bucket{stage=\"queue\",le=\"+Inf\"} 4");
        assert_eq!(lines[BOUNDED_BUCKETS + 1], "waits_seconds_sum{stage=\"queue\"} 100.000006");
        assert_eq!(lines[BOUNDED_BUCKETS + 2], "waits_seconds_count{stage=\"queue\"} 4");
    }
}
