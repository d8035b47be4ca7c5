//! Counts of a listener since it started, for reports and alarms.

use std::collections::BTreeMap;

use cardswitch_engine::meters::{Count, Histogram};
use parking_lot::Mutex;

use super::advice::{Advice, ForeignDialect};

/// Counts that only rise, and how long things took.
#[derive(Debug, Default)]
pub struct Counters {
    /// Messages handed to the engine.
    pub messages: Count,
    /// Messages and frames that could not be carried out as they were.
    pub bad_messages: Count,
    /// Bad messages whose code, or whose new key, is wrong or missing; answered 63.
    pub insecure: Count,
    /// Messages the engine did not take; answered 91.
    pub not_taken: Count,
    /// Messages whose outcome is unknown; answered 96.
    pub outcome_unknown: Count,
    /// Connections accepted.
    pub connections: Count,
    /// Connections closed at once: of a peer not allowed, or one too many.
    pub connections_refused: Count,
    /// Accepted connections that are over.
    pub connections_closed: Count,
    connections_cut: Mutex<BTreeMap<&'static str, u64>>,
    foreign: Mutex<BTreeMap<ForeignDialect, u64>>,
    /// The time of messages from bytes to commands, with all that came together.
    pub decode: Histogram,
    /// The time of answers from the engine to the peer's socket.
    pub reply: Histogram,
    /// The time of messages from their bytes to those of their answers.
    pub answered: Histogram,
}

impl Counters {
    /// Connections closed for what their peers did: sent what is no frame, took too few answers.
    pub fn connections_cut(&self) -> u64 {
        self.connections_cut.lock().values().sum()
    }

    /// Unreadable messages that seem to be of another dialect than the door's, by the dialect that
    /// would read them.
    pub fn foreign(&self) -> BTreeMap<ForeignDialect, u64> {
        self.foreign.lock().clone()
    }

    /// Returns how many have seemed to be of that dialect, this one among them; none where it is of none.
    pub(crate) fn add_foreign(&self, advice: &Advice) -> Option<u64> {
        let mut foreign = self.foreign.lock();
        let count = foreign.entry(advice.foreign()?).or_default();
        *count += 1;
        Some(*count)
    }

    /// Returns how many have been cut for this reason, this one among them.
    pub fn add_cut_connection(&self, reason: &'static str) -> u64 {
        let mut cut = self.connections_cut.lock();
        let count = cut.entry(reason).or_default();
        *count += 1;
        *count
    }
}
