//! The system's figures of this process's memory and of the bytes it has read.

use std::fs::read_to_string;

/// Bytes resident now; 0 where the system does not say.
pub fn resident_bytes() -> u64 {
    number_in("/proc/self/status", "VmRSS:") << 10
}

/// The bytes that this process has asked of files so far, cached or not.
pub fn bytes_read() -> u64 {
    number_in("/proc/self/io", "rchar:")
}

/// The number behind a name in a file of figures; 0 where there is none.
pub fn number_in(file: &str, name: &str) -> u64 {
    let text = read_to_string(file).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
