//! The state that the committer publishes and the requests made of it, without locks on its way.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, RwLock};

use super::BatchNumber;
use crate::inbox::Doorbell;

type Listener = Box<dyn Fn(u64) + Send + Sync>;

/// The newest record that is durable, and a way to wait for it.
///
/// INVARIANT: it only rises, and never names a record whose commit is not certain.
#[derive(Default)]
pub struct DurablePosition {
    durable_seq: AtomicU64,
    closed: AtomicBool,
    gate: Mutex<()>,
    moved: Condvar,
    listeners: RwLock<Vec<Listener>>,
}

impl DurablePosition {
    /// Starts with the newest record found when the journal was opened.
    pub fn new(durable_seq: u64) -> Self {
        Self { durable_seq: AtomicU64::new(durable_seq), ..Self::default() }
    }

    /// Returns the newest durable record.
    pub fn durable_seq(&self) -> u64 {
        self.durable_seq.load(Ordering::Acquire)
    }

    /// Tells whether it will never move again: the committer has stopped.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Waits until `seq` is durable, the committer has stopped or the time is up, and returns
    /// the newest durable record then.
    pub fn wait_for(&self, seq: u64, timeout: Duration) -> u64 {
        if self.durable_seq() < seq {
            let mut gate = self.gate.lock();
            let waits = |_: &mut ()| self.durable_seq() < seq && !self.is_closed();
            self.moved.wait_while_for(&mut gate, waits, timeout);
        }
        self.durable_seq()
    }

    /// Has `listener` called with each new position, on the committer's thread, before the
    /// replies leave: it must be quick and must not wait for the committer.
    pub fn on_durable(&self, listener: Box<dyn Fn(u64) + Send + Sync>) {
        self.listeners.write().push(listener);
    }

    pub(crate) fn publish(&self, durable_seq: u64) {
        {
            let _gate = self.gate.lock();
            let before = self.durable_seq.swap(durable_seq, Ordering::AcqRel);
            assert!(before <= durable_seq, "durable records stay durable");
            self.moved.notify_all();
        }
        for listener in self.listeners.read().iter() {
            listener(durable_seq);
        }
    }

    pub(super) fn close(&self) {
        let _gate = self.gate.lock();
        self.closed.store(true, Ordering::Release);
        self.moved.notify_all();
    }
}

impl fmt::Debug for DurablePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DurablePosition")
            .field("durable_seq", &self.durable_seq())
            .field("closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}

/// Whether the journal still takes records. Once failed it stays failed until it is reopened.
#[derive(Default, Debug)]
pub struct JournalHealth {
    failed: AtomicBool,
    failure: Mutex<Option<String>>,
}

impl JournalHealth {
    /// Tells whether a commit has failed. Cost: one load.
    pub fn is_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Returns why it failed, for the log and the operator.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }

    /// The first failure is the cause; later ones are consequences.
    pub(super) fn fail(&self, why: String) {
        self.failure.lock().get_or_insert(why);
        self.failed.store(true, Ordering::Release);
    }
}

/// Asks the committer to drop old batches.
#[derive(Debug, Default)]
pub struct TrimControl {
    before: AtomicU64,
    /// The number of live holds: while there are any, no batch is dropped.
    holds: AtomicU64,
    committer: Arc<Doorbell>,
}

impl TrimControl {
    /// Wakes the committer with the bell of its inbox.
    pub fn ringing(committer: &Arc<Doorbell>) -> Self {
        let (before, holds) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { before, holds, committer: Arc::clone(committer) }
    }

    /// Drops all batches before `number`, with the next commits or when idle.
    /// The caller ensures that the tables have these batches durably.
    pub fn trim_before(&self, number: BatchNumber) {
        self.before.fetch_max(number.0, Ordering::AcqRel);
        self.ring();
    }

    /// Wakes the committer: there is something to do for it beside requests.
    pub(super) fn ring(&self) {
        self.committer.ring();
    }

    /// Returns the batch before which all may go; zero while there is a hold.
    pub fn requested(&self) -> BatchNumber {
        // In this order: a request made under a hold is not seen before the hold is.
        let before = self.before.load(Ordering::Acquire);
        let is_held = self.holds.load(Ordering::Acquire) > 0;
        BatchNumber(if is_held { 0 } else { before })
    }

    /// Keeps every batch for as long as the value lives. A commit that is under
    /// way may still carry out an earlier request.
    pub fn hold(self: &Arc<Self>) -> TrimHold {
        self.holds.fetch_add(1, Ordering::AcqRel);
        TrimHold { control: Arc::clone(self) }
    }
}

/// Keeps the batches of a journal; made by `TrimControl::hold`.
#[derive(Debug)]
pub struct TrimHold {
    control: Arc<TrimControl>,
}

impl Drop for TrimHold {
    fn drop(&mut self) {
        self.control.holds.fetch_sub(1, Ordering::AcqRel);
        self.control.committer.ring();
    }
}
