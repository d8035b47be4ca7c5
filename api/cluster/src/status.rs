//! How a node stands in its cluster, for whoever looks on.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use cardswitch_engine::clock::Stopwatch;
use cardswitch_engine::journal::window::WindowTip;
use parking_lot::Mutex;

/// How a node stands; written by the thread that follows or beats.
#[derive(Debug)]
pub struct NodeStatus {
    leads: AtomicBool,
    epoch: AtomicU64,
    chain_record: AtomicU64,
    etcd_bytes: AtomicU64,
    answered: Mutex<Stopwatch>,
}

impl Default for NodeStatus {
    fn default() -> Self {
        Self {
            leads: AtomicBool::new(false),
            epoch: AtomicU64::new(0),
            chain_record: AtomicU64::new(0),
            etcd_bytes: AtomicU64::new(0),
            answered: Mutex::new(Stopwatch::start()),
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

    /// What etcd's database takes. Units: bytes.
    #[must_use]
    pub fn etcd_bytes(&self) -> u64 {
        self.etcd_bytes.load(Ordering::Relaxed)
    }

    /// How long etcd has not answered.
    #[must_use]
    pub fn silence(&self) -> Duration {
        self.answered.lock().elapsed()
    }

    pub(crate) fn note_leads(&self) {
        self.leads.store(true, Ordering::Relaxed);
    }

    pub(crate) fn note_tip(&self, tip: &WindowTip) {
        self.epoch.store(tip.position.epoch.0, Ordering::Relaxed);
        self.chain_record.store(tip.position.last_seq, Ordering::Relaxed);
        *self.answered.lock() = Stopwatch::start();
    }

    pub(crate) fn note_etcd_bytes(&self, bytes: u64) {
        self.etcd_bytes.store(bytes, Ordering::Relaxed);
    }
}
