//! The standing of a node in its cluster, for telemetry and operators.

use std::collections::VecDeque;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use cardswitch_engine::clock::Stopwatch;
use cardswitch_engine::journal::window::WindowTip;
use parking_lot::Mutex;

use crate::clocks::{ClockStanding, Clocks, standing_of};
use crate::members::NodeRecord;

/// The time for which the newest records are remembered; one is noted some 40 times a second.
const TIPS_KEPT_FOR: Duration = Duration::from_secs(2);

/// How long a node that has just come waits to learn other clocks: those nodes may be gone, or start, too.
const CLOCK_CHECK_WAIT: Duration = Duration::from_secs(3);

/// The state of etcd.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EtcdView {
    /// Members that answer: each has the window.
    pub answering: u64,
    /// All members.
    pub members: u64,
    /// The size of the largest database. Units: bytes.
    pub bytes: u64,
    /// A member takes nothing more.
    pub is_full: bool,
    /// Batches in the window.
    pub window_batches: u64,
}

/// The standing of a node; written by the thread that follows or beats.
#[derive(Debug)]
pub struct NodeStatus {
    leads: AtomicBool,
    epoch: AtomicU64,
    chain_record: AtomicU64,
    etcd: Mutex<EtcdView>,
    answered: Mutex<Stopwatch>,
    /// The chain's newest record at each of the last moments, the oldest first.
    /// INVARIANT: no later record was in the chain before the moment: a node that shows this one shows the state of
    /// that moment.
    tips: Mutex<VecDeque<(Stopwatch, u64)>>,
    nodes: Mutex<Vec<NodeRecord>>,
    clocks: Mutex<Clocks>,
    /// Since when it hears the chain.
    since: OnceLock<Stopwatch>,
}

impl Default for NodeStatus {
    fn default() -> Self {
        Self {
            leads: AtomicBool::new(false),
            epoch: AtomicU64::new(0),
            chain_record: AtomicU64::new(0),
            etcd: Mutex::default(),
            answered: Mutex::new(Stopwatch::start()),
            tips: Mutex::default(),
            nodes: Mutex::default(),
            clocks: Mutex::default(),
            since: OnceLock::new(),
        }
    }
}

impl NodeStatus {
    /// Whether this node leads.
    pub fn leads(&self) -> bool {
        self.leads.load(Ordering::Relaxed)
    }

    /// The epoch of the chain.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// The newest record of the chain.
    pub fn chain_record(&self) -> u64 {
        self.chain_record.load(Ordering::Relaxed)
    }

    /// How etcd is, as it was seen last.
    pub fn etcd(&self) -> EtcdView {
        self.etcd.lock().clone()
    }

    /// How long etcd has not answered.
    pub fn silence(&self) -> Duration {
        self.answered.lock().elapsed()
    }

    /// Whether `record` was the chain's newest one, or a later one than that, at a moment since `within`.
    pub fn was_newest(&self, record: u64, within: Duration) -> bool {
        let tips = self.tips.lock();
        tips.iter().any(|(seen, newest)| *newest <= record && seen.elapsed() <= within)
    }

    /// The newest record of each node of the cluster.
    pub fn nodes(&self) -> Vec<NodeRecord> {
        self.nodes.lock().clone()
    }

    /// The clock of this node compared with those of the others.
    pub fn clock(&self) -> ClockStanding {
        match standing_of(&self.clocks_ahead()) {
            ClockStanding::Level if !self.is_clock_checked() => ClockStanding::Unchecked,
            standing => standing,
        }
    }

    /// Whether the clocks of half of the other nodes are known, or were waited for long enough.
    fn is_clock_checked(&self) -> bool {
        let is_known = match self.nodes.lock().len() {
            0 => false,
            nodes => 2 * self.clocks_ahead().len() + 1 >= nodes,
        };
        is_known || self.since.get().is_some_and(|since| since.elapsed() > CLOCK_CHECK_WAIT)
    }

    /// How far the clock of each other node is ahead of this one's. Units: microseconds.
    pub fn clocks_ahead(&self) -> Vec<(String, i64)> {
        self.clocks.lock().ahead()
    }

    /// Notes that the clock of another node is ahead of this one's. Units: microseconds.
    pub fn note_clock(&self, node: String, ahead_us: i64) {
        self.clocks.lock().note(node, ahead_us);
    }

    pub(crate) fn note_nodes(&self, nodes: Vec<NodeRecord>) {
        *self.nodes.lock() = nodes;
    }

    pub(crate) fn note_leads(&self) {
        self.leads.store(true, Ordering::Relaxed);
    }

    /// Notes the tip that etcd told after it was `asked`. The chain may have grown since.
    pub(crate) fn note_tip(&self, tip: &WindowTip, asked: Stopwatch) {
        self.epoch.store(tip.position.epoch.0, Ordering::Relaxed);
        self.chain_record.store(tip.position.last_seq, Ordering::Relaxed);
        *self.answered.lock() = Stopwatch::start();
        self.since.get_or_init(Stopwatch::start);
        let mut tips = self.tips.lock();
        while tips.front().is_some_and(|(seen, _)| seen.elapsed() > TIPS_KEPT_FOR) {
            tips.pop_front();
        }
        tips.push_back((asked, tip.position.last_seq));
    }

    pub(crate) fn note_etcd(&self, seen: EtcdView) {
        *self.etcd.lock() = seen;
    }
}

#[cfg(test)]
mod tests {
    use cardswitch_engine::journal::window::WriterId;
    use cardswitch_engine::journal::{BatchNumber, ChainHash, ChainPosition, Epoch};

    use super::*;
    use crate::members::tests::node;

    /// Once, a node led by a clock that it had compared with no other.
    #[test]
    fn a_clock_is_checked_once_half_of_the_others_are_known() {
        let writer = WriterId(1);
        for (nodes, known, expected) in [
            (0, 0, ClockStanding::Unchecked),
            (1, 0, ClockStanding::Level),
            (2, 0, ClockStanding::Unchecked),
            (2, 1, ClockStanding::Level),
            (3, 0, ClockStanding::Unchecked),
            (3, 1, ClockStanding::Level),
            (5, 1, ClockStanding::Unchecked),
            (5, 2, ClockStanding::Level),
        ] {
            let status = NodeStatus::default();
            status.note_nodes((0..nodes).map(|name| node(&format!("{name}"), writer)).collect());
            (0..known).for_each(|name| status.note_clock(format!("{name}"), 0));
            assert_eq!(status.clock(), expected, "{known} of {nodes}");
        }
    }

    /// Once, a tip counted from when the node had caught up with it: after a long restart, reads showed the state of
    /// its beginning as that of now, and a token that was revoked meanwhile still opened.
    #[test]
    fn a_tip_is_as_old_as_the_question_for_it() {
        let (epoch, number, hash) = (Epoch(1), BatchNumber(1), ChainHash([0; 32]));
        let position = ChainPosition { epoch, number, hash, last_seq: 7 };
        let tip = WindowTip { position, writer: WriterId(1) };
        let status = NodeStatus::default();
        let asked = Stopwatch::start();
        std::thread::sleep(Duration::from_millis(20));
        status.note_tip(&tip, asked);
        assert!(!status.was_newest(7, Duration::from_millis(10)), "the chain may have grown");
        assert!(status.was_newest(7, Duration::MAX));
        assert!(!status.was_newest(6, Duration::MAX), "it lacks a record");
    }
}
