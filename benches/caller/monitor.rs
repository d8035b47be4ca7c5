//! Watches an engine from beside: how old is what the query tables do not show yet?

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use cardswitch_engine::engine::Engine;

use super::Companion;

/// How often it looks: the lag is known so exactly.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Watches until it is finished; returns the longest that a durable record waited to be in the tables.
pub fn watch_lag(engine: &Arc<Engine>) -> Companion<Duration> {
    let engine = Arc::clone(engine);
    Companion::start(|stopped| {
        let mut watch = Watch { engine, waiting: VecDeque::new(), lag_max: Duration::ZERO };
        while stopped.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
            watch.look();
        }
        watch.lag_max
    })
}

struct Watch {
    engine: Arc<Engine>,
    /// Records that were durable at some instant and are not in the tables yet.
    waiting: VecDeque<(Instant, u64)>,
    lag_max: Duration,
}

impl Watch {
    fn look(&mut self) {
        // In this order, or a record could be in the tables before it is durable.
        let applied = self.engine.watermark().applied().0;
        let durable = self.engine.durable_seq().0;
        let now = Instant::now();
        if self.waiting.back().is_none_or(|(_, newest)| *newest < durable) {
            self.waiting.push_back((now, durable));
        }
        if let Some((since, _)) = self.waiting.front() {
            self.lag_max = self.lag_max.max(now - *since);
        }
        while self.waiting.front().is_some_and(|(_, seq)| *seq <= applied) {
            self.waiting.pop_front();
        }
    }
}
