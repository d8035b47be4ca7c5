//! The system's figures of this process, under the names that dashboards know from everywhere.
//! Source: /proc, so Linux only; elsewhere these figures are absent.

use std::fs;

use super::exposition::{Exposition, Kind};

/// How the system counts processor time. Units: ticks a second, on every Linux there is.
const TICKS_PER_S: u64 = 100;

/// Adds the figures that can be had.
pub(super) fn expose(text: &mut Exposition) {
    if let Some(bytes) = resident_bytes() {
        let help = "Resident memory of the process.";
        text.single("process_resident_memory_bytes", Kind::Gauge, help, bytes);
    }
    if let Some(ticks) = cpu_ticks() {
        let help = "Processor time of the process, user and system.";
        let centiseconds = ticks * 100 / TICKS_PER_S;
        let seconds = format!("{}.{:02}", centiseconds / 100, centiseconds % 100);
        text.single("process_cpu_seconds_total", Kind::Counter, help, seconds);
    }
    if let Ok(entries) = fs::read_dir("/proc/self/fd") {
        let help = "Open file descriptors.";
        text.single("process_open_fds", Kind::Gauge, help, entries.count());
    }
    if let Some(max) = fds_max() {
        text.single("process_max_fds", Kind::Gauge, "Limit of open file descriptors.", max);
    }
}

fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kibibytes| kibibytes * 1_024)
}

fn cpu_ticks() -> Option<u64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the process, in parentheses, may hold anything.
    let rest = &stat[stat.rfind(')')? + 1..];
    let mut fields = rest.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

fn fds_max() -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}
