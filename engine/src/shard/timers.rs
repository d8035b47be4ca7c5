//! Timers: holds that end by time, and allowances whose end_time passes.
//!
//! Timers are derived from the state, never stored: `apply` sets and clears them with what they
//! stand for, so that a recovered shard has the same ones.

use std::collections::BTreeSet;

use crate::domain::ids::{CardSlot, Timestamp, TransactionSeq};

/// The action of a due timer. The order of the variants is the order at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TimerKind {
    /// A card's allowance has ended.
    AllowanceEnd(CardSlot),
    /// A hold ends.
    HoldExpiry(TransactionSeq),
}

/// An action that is due at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timer {
    /// The instant.
    pub due: Timestamp,
    /// The action.
    pub kind: TimerKind,
}

/// The timers, the next one first. Ends of holds beyond a limit are left out: they are known again
/// when the limit moves.
#[derive(Clone, Debug)]
pub(super) struct Timers {
    timers: BTreeSet<Timer>,
    holds_until: Timestamp,
    /// Timers that cannot run before the next start, which knows them again.
    put_off: BTreeSet<TimerKind>,
}

impl Default for Timers {
    fn default() -> Self {
        Self { timers: BTreeSet::new(), holds_until: Timestamp::MAX, put_off: BTreeSet::new() }
    }
}

impl Timers {
    pub(super) fn first(&self) -> Option<Timer> {
        self.timers.first().copied()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Timer> {
        self.timers.iter()
    }

    /// Until when every timer is here.
    pub(super) const fn known_until(&self) -> Timestamp {
        self.holds_until
    }

    /// Leaves out the ends of holds after `until` from now on.
    pub(super) fn limit_to(&mut self, until: Timestamp) {
        self.holds_until = until;
    }

    /// Puts timers off.
    pub(super) fn put_off(&mut self, kinds: BTreeSet<TimerKind>) {
        self.timers.retain(|timer| !kinds.contains(&timer.kind));
        self.put_off.extend(kinds);
    }

    /// Lets timers that were put off be known again.
    pub(super) fn take_back(&mut self, kinds: impl Iterator<Item = TimerKind>) {
        kinds.for_each(|kind| {
            self.put_off.remove(&kind);
        });
    }

    pub(super) fn iter_put_off(&self) -> impl Iterator<Item = &TimerKind> {
        self.put_off.iter()
    }

    /// Moves the timer of one kind from one instant to another; `Timestamp::MAX` is none.
    pub(super) fn reschedule(&mut self, kind: TimerKind, from: Timestamp, to: Timestamp) {
        if from == to {
            return;
        }
        self.put_off.remove(&kind);
        if self.is_kept(kind, from) {
            self.timers.remove(&Timer { due: from, kind });
        }
        if self.is_kept(kind, to) {
            self.timers.insert(Timer { due: to, kind });
        }
    }

    fn is_kept(&self, kind: TimerKind, due: Timestamp) -> bool {
        due != Timestamp::MAX
            && (due <= self.holds_until || matches!(kind, TimerKind::AllowanceEnd(_)))
    }
}
