//! How a node stands in its cluster, for whoever looks on.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use cardswitch_engine::clock::Stopwatch;
use cardswitch_engine::journal::window::WindowTip;
use parking_lot::Mutex;

use crate::members::NodeRecord;

/// How etcd is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EtcdView {
    /// Members that answer: each has the window.
    pub answering: u64,
    /// All members.
    pub members: u64,
    /// What the largest database takes. Units: bytes.
    pub bytes: u64,
    /// A member takes nothing more.
    pub is_full: bool,
    /// Batches in the window.
    pub window_batches: u64,
}

/// How a node stands; written by the thread that follows or beats.
#[derive(Debug)]
pub struct NodeStatus {
    leads: AtomicBool,
    epoch: AtomicU64,
    chain_record: AtomicU64,
    etcd: Mutex<EtcdView>,
    answered: Mutex<Stopwatch>,
    nodes: Mutex<Vec<NodeRecord>>,
}

impl Default for NodeStatus {
    fn default() -> Self {
        Self {
            leads: AtomicBool::new(false),
            epoch: AtomicU64::new(0),
            chain_record: AtomicU64::new(0),
            etcd: Mutex::default(),
            answered: Mutex::new(Stopwatch::start()),
            nodes: Mutex::default(),
        }
    }
}

impl NodeStatus {
    /// Whether this node leads.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.leads.load(Ordering::Relaxed)
    }

    /// The epoch of the chain.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// The newest record of the chain.
    #[must_use]
    pub fn chain_record(&self) -> u64 {
        self.chain_record.load(Ordering::Relaxed)
    }

    /// How etcd is, as it was seen last.
    #[must_use]
    pub fn etcd(&self) -> EtcdView {
        self.etcd.lock().clone()
    }

    /// How long etcd has not answered.
    #[must_use]
    pub fn silence(&self) -> Duration {
        self.answered.lock().elapsed()
    }

    /// The newest record of each node of the cluster.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeRecord> {
        self.nodes.lock().clone()
    }

    pub(crate) fn note_nodes(&self, nodes: Vec<NodeRecord>) {
        *self.nodes.lock() = nodes;
    }

    pub(crate) fn note_leads(&self) {
        self.leads.store(true, Ordering::Relaxed);
    }

    pub(crate) fn note_tip(&self, tip: &WindowTip) {
        self.epoch.store(tip.position.epoch.0, Ordering::Relaxed);
        self.chain_record.store(tip.position.last_seq, Ordering::Relaxed);
        *self.answered.lock() = Stopwatch::start();
    }

    pub(crate) fn note_etcd(&self, seen: EtcdView) {
        *self.etcd.lock() = seen;
    }
}
