//! The engine's only clock: the system's, or one that stands still until it is moved.
//!
//! No other file reads the time. The shard turns readings into strictly increasing instants, so a
//! clock that goes backwards changes no order.

#![expect(clippy::disallowed_types, reason = "this is the one file that reads the clock")]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::domain::ids::Timestamp;

/// The source of the time.
#[derive(Debug)]
pub enum Clock {
    /// The system's clock.
    System,
    /// A clock that only `advance_to` moves. Units: microseconds since 1970.
    Manual(AtomicI64),
    /// The system's clock under a simulator, which moves it at will; commands do not move it.
    /// Units: microseconds since 1970.
    Simulated(Arc<AtomicI64>),
}

impl Clock {
    /// A manual clock that stands at `at`.
    pub const fn manual(at: Timestamp) -> Self {
        Self::Manual(AtomicI64::new(at.0))
    }

    /// Whether simulations may supply the time.
    pub const fn is_manual(&self) -> bool {
        matches!(self, Self::Manual(_))
    }

    /// The time now.
    pub fn now(&self) -> Timestamp {
        match self {
            Self::System => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Timestamp(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
            }
            Self::Manual(at) => Timestamp(at.load(Ordering::Acquire)),
            Self::Simulated(at) => Timestamp(at.load(Ordering::Acquire)),
        }
    }

    /// Moves a manual clock forward to `at`; it never goes back. Returns the time now.
    pub fn advance_to(&self, at: Timestamp) -> Timestamp {
        if let Self::Manual(now) = self {
            now.fetch_max(at.0, Ordering::AcqRel);
        }
        self.now()
    }
}

/// Measures durations in real time, independent of the clock: for pacing and metrics, never for a
/// decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts to measure.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// The time since the start.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    /// The time from this start to that of `later`; zero if `later` started earlier.
    pub fn until(&self, later: Self) -> Duration {
        later.0.saturating_duration_since(self.0)
    }
}
