//! Access that is asked for once and then lasts: that of polls that wait, of streams, of live pages
//! and of files that are written while they are sent. It is asked again after each wait, and its
//! end ends the wait.
//!
//! Access rights are in the tables. They are read again after every change of rights, by anyone.
//! INVARIANT: after the answer to a change that ends access, the former reader gets nothing more:
//! the change wakes the waiting readers before it is answered.

use std::pin::pin;
use std::time::Duration;

use cardswitch_engine::domain::ids::{RecordSeq, Timestamp};
use cardswitch_engine::store::{Snapshot, StoreError};
use tokio::sync::watch;

use crate::switch::Switch;

/// How long the end of an access may be missed where the switch's clock is moved by hand.
const END_CHECK_MAX: Duration = Duration::from_secs(10);

/// Whether the tables give access.
type AccessCheck = Box<dyn Fn(&Snapshot) -> Result<bool, StoreError> + Send + Sync>;

/// See the head of this file.
pub struct LastingAccess {
    switch: Switch,
    /// When it ends by itself.
    ends_at: Option<Timestamp>,
    is_given: AccessCheck,
    changes: watch::Receiver<RecordSeq>,
    has_ended: bool,
}

cardswitch_engine::opaque!(LastingAccess);

impl LastingAccess {
    /// An access that ends at `ends_at`, or as soon as the tables do not give it any more.
    pub fn new(
        switch: &Switch,
        ends_at: Option<Timestamp>,
        is_given: impl Fn(&Snapshot) -> Result<bool, StoreError> + Send + Sync + 'static,
    ) -> Self {
        let mut changes = switch.access_changes();
        // It may have ended since the request was let in.
        changes.mark_changed();
        let is_given = Box::new(is_given);
        Self { switch: switch.clone(), ends_at, is_given, changes, has_ended: false }
    }

    /// Whether it lasts. Cost: a comparison, unless tables may say something else than before.
    pub fn is_open(&mut self) -> bool {
        let is_over = self.time_left().is_some_and(|left| left.is_zero());
        if !self.has_ended && !is_over && self.changes.has_changed().unwrap_or(true) {
            // The mark comes before the read: a later change is looked at next time.
            self.changes.mark_unchanged();
            // Tables that cannot be read give nothing.
            self.has_ended = !self.switch.read_at_once(&self.is_given).unwrap_or(false);
        }
        self.has_ended |= is_over;
        !self.has_ended
    }

    /// Waits for something. Returns nothing as soon as access ends, were it in the same instant.
    pub async fn during<T>(&mut self, wait: impl Future<Output = T>) -> Option<T> {
        let mut wait = pin!(wait);
        while self.is_open() {
            tokio::select! {
                biased;
                () = self.changed() => {}
                outcome = &mut wait => return self.is_open().then_some(outcome),
            }
        }
        None
    }

    /// Waits until it may have ended.
    async fn changed(&mut self) {
        let left = self.time_left().map(|left| left.min(END_CHECK_MAX));
        let end = async {
            match left {
                Some(left) => tokio::time::sleep(left).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // INVARIANT: the switch that is held here holds the other end.
            _ = self.changes.changed() => self.changes.mark_changed(),
            () = end => {}
        }
    }

    /// How long it lasts at most.
    fn time_left(&self) -> Option<Duration> {
        let now = self.switch.engine.now();
        let left_us = |at: Timestamp| u64::try_from(at.0.saturating_sub(now.0)).unwrap_or(0);
        self.ends_at.map(|at| Duration::from_micros(left_us(at)))
    }
}
