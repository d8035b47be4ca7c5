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
    Companion::start(move |stopped| {
        // Records that were durable at some instant and are not in the tables yet.
        let mut waiting = VecDeque::<(Instant, u64)>::new();
        let mut lag_max = Duration::ZERO;
        while stopped.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
            // In this order, or a record could be in the tables before it is durable.
            let (applied, durable) = (engine.watermark.applied().0, engine.durable_seq().0);
            let now = Instant::now();
            if waiting.back().is_none_or(|(_, newest)| *newest < durable) {
                waiting.push_back((now, durable));
            }
            if let Some((since, _)) = waiting.front() {
                lag_max = lag_max.max(now - *since);
            }
            while waiting.pop_front_if(|(_, seq)| *seq <= applied).is_some() {}
        }
        lag_max
    })
}
