//! The clocks as numbers, and the processor time of a thread.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds in a second.
pub const SECOND_NS: u64 = 1_000_000_000;

/// The monotonic clock. Units: nanoseconds.
pub fn now_ns() -> u64 {
    read(ClockId::Monotonic)
}

/// The wall clock. Units: nanoseconds since the Unix epoch.
pub fn unix_ns() -> u64 {
    read(ClockId::Realtime)
}

/// The processor time of this thread so far, the kernel's work for it included.
/// Units: nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    read(ClockId::ThreadCPUTime)
}

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let part = |value: i64| u64::try_from(value).unwrap_or(0);
    part(time.tv_sec) * SECOND_NS + part(time.tv_nsec)
}
