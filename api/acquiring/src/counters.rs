//! Counts of a listener since it started, for reports and alarms.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use cardswitch_engine::meters::Histogram;
use parking_lot::Mutex;

use super::advice::{Advice, ForeignDialect};

/// Counts that only rise, and how long things took.
#[derive(Debug, Default)]
pub struct Counters {
    messages: AtomicU64,
    bad_messages: AtomicU64,
    insecure: AtomicU64,
    not_taken: AtomicU64,
    outcome_unknown: AtomicU64,
    connections: AtomicU64,
    connections_refused: AtomicU64,
    connections_cut: Mutex<BTreeMap<&'static str, u64>>,
    connections_closed: AtomicU64,
    foreign: Mutex<BTreeMap<ForeignDialect, u64>>,
    /// The time of messages from bytes to commands, with all that came together.
    pub decode: Histogram,
    /// The time of answers from the engine to the peer's socket.
    pub reply: Histogram,
    /// The time of messages from their bytes to those of their answers.
    pub answered: Histogram,
}

/// The counts at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CountersSnapshot {
    /// Messages handed to the engine.
    pub messages: u64,
    /// Messages and frames that could not be carried out as they were.
    pub bad_messages: u64,
    /// Bad messages whose code, or whose new key, is wrong or missing; answered 63.
    pub insecure: u64,
    /// Messages the engine did not take; answered 91.
    pub not_taken: u64,
    /// Messages whose outcome is unknown; answered 96.
    pub outcome_unknown: u64,
    /// Connections accepted.
    pub connections: u64,
    /// Connections closed at once: of a peer not allowed, or one too many.
    pub connections_refused: u64,
    /// Connections closed for what their peers did: sent what is no frame, took too few answers.
    pub connections_cut: u64,
    /// Connections that are open.
    pub connections_open: u64,
}

impl Counters {
    /// The counts now.
    pub fn now(&self) -> CountersSnapshot {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let connections = read(&self.connections);
        CountersSnapshot {
            messages: read(&self.messages),
            bad_messages: read(&self.bad_messages),
            insecure: read(&self.insecure),
            not_taken: read(&self.not_taken),
            outcome_unknown: read(&self.outcome_unknown),
            connections,
            connections_refused: read(&self.connections_refused),
            connections_cut: self.connections_cut.lock().values().sum(),
            connections_open: connections.saturating_sub(read(&self.connections_closed)),
        }
    }

    pub(crate) fn add_messages(&self, count: usize) {
        self.messages.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(crate) fn add_not_taken(&self, count: usize) {
        self.not_taken.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(crate) fn add_bad_message(&self) {
        self.bad_messages.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add_insecure(&self) {
        self.insecure.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add_outcome_unknown(&self) {
        self.outcome_unknown.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection that was accepted.
    pub fn add_connection(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts that one of them is over.
    pub fn end_connection(&self) {
        self.connections_closed.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how many have been refused, this one among them.
    pub fn add_refused_connection(&self) -> u64 {
        self.connections_refused.fetch_add(1, Ordering::Relaxed) + 1
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
