//! The state that the committer publishes and the requests made of it, without locks on its way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::BatchNumber;
use crate::inbox::Doorbell;

/// The newest record that is durable.
///
/// INVARIANT: it only rises, and never names a record whose commit is not certain.
#[derive(Debug, Default)]
pub struct DurablePosition(AtomicU64);

impl DurablePosition {
    /// Starts with the newest record found when the journal was opened.
    pub fn new(durable_seq: u64) -> Self {
        Self(AtomicU64::new(durable_seq))
    }

    /// Returns the newest durable record.
    pub fn durable_seq(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    pub(crate) fn publish(&self, durable_seq: u64) {
        let before = self.0.swap(durable_seq, Ordering::AcqRel);
        assert!(before <= durable_seq, "durable records stay durable");
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
