//! Watches an engine from beside: how old is what the query tables do not show yet, and how much
//! memory does the process have.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cardswitch_engine::engine::Engine;

use crate::Must;
use crate::meter::resident_bytes;

/// How often it looks: the lag is known so exactly.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How often it asks for the memory, in looks.
const MEMORY_EVERY: u64 = 20;

/// The observed figures.
#[derive(Clone, Copy, Debug, Default)]
pub struct MonitorFigures {
    /// The longest that a durable record waited to be in the tables.
    pub lag_max: Duration,
    /// The most records that waited at one time.
    pub behind_max: u64,
    /// Resident bytes when it began.
    pub resident_at_first: u64,
    /// The most resident bytes.
    pub resident_max: u64,
}

impl std::fmt::Display for MonitorFigures {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "projection at most {:.0} ms and {} records behind; resident {} MiB at first, {} MiB at most",
            self.lag_max.as_secs_f64() * 1e3,
            self.behind_max,
            self.resident_at_first >> 20,
            self.resident_max >> 20
        )
    }
}

/// A thread that watches.
#[derive(Debug)]
pub struct Monitor {
    stop: Sender<()>,
    thread: JoinHandle<MonitorFigures>,
}

impl Monitor {
    /// Begins to watch.
    #[must_use]
    pub fn watch(engine: &Arc<Engine>) -> Self {
        let (stop, stopped) = channel();
        let mut watch = Watch::begin(Arc::clone(engine));
        let thread = std::thread::spawn(move || {
            while stopped.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                watch.look();
            }
            watch.observed
        });
        Self { stop, thread }
    }

    /// Ends, and tells what was seen.
    #[must_use]
    pub fn finish(self) -> MonitorFigures {
        drop(self.stop);
        self.thread.join().must("watch to the end")
    }
}

struct Watch {
    engine: Arc<Engine>,
    /// Records that were durable at some instant and are not in the tables yet.
    waiting: VecDeque<(Instant, u64)>,
    looks: u64,
    observed: MonitorFigures,
}

impl Watch {
    fn begin(engine: Arc<Engine>) -> Self {
        let resident = resident_bytes();
        let observed = MonitorFigures {
            resident_at_first: resident,
            resident_max: resident,
            ..MonitorFigures::default()
        };
        Self { engine, waiting: VecDeque::new(), looks: 0, observed }
    }

    fn look(&mut self) {
        // In this order, or a record could be in the tables before it is durable.
        let applied = self.engine.watermark().applied().0;
        let durable = self.engine.durable_seq().0;
        let now = Instant::now();
        if self.waiting.back().is_none_or(|(_, newest)| *newest < durable) {
            self.waiting.push_back((now, durable));
        }
        if let Some((since, _)) = self.waiting.front() {
            self.observed.lag_max = self.observed.lag_max.max(now - *since);
        }
        while self.waiting.front().is_some_and(|(_, seq)| *seq <= applied) {
            self.waiting.pop_front();
        }
        self.observed.behind_max = self.observed.behind_max.max(durable.saturating_sub(applied));
        if self.looks.is_multiple_of(MEMORY_EVERY) {
            self.observed.resident_max = self.observed.resident_max.max(resident_bytes());
        }
        self.looks += 1;
    }
}
