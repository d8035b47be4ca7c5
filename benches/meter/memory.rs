//! What the system says of this process's memory.

use std::fs::read_to_string;

/// Bytes resident now; 0 where the system does not say.
#[must_use]
pub fn resident_bytes() -> u64 {
    status_bytes("VmRSS:")
}

/// The most bytes that were ever resident.
#[must_use]
pub fn resident_bytes_max() -> u64 {
    status_bytes("VmHWM:")
}

fn status_bytes(name: &str) -> u64 {
    let status = read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) << 10
}
