//! What is due when: holds that end by time, and allowances whose end_time passes.
//!
//! Timers are derived from the state, never stored: `apply` sets and clears them with what they
//! stand for, so that a recovered shard has the same ones.

use std::collections::BTreeSet;

use crate::domain::ids::{CardSlot, Timestamp, TransactionSeq};

/// What happens when a timer is due. The order of the variants is the order at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TimerKind {
    /// A card's allowance has ended.
    AllowanceEnd(CardSlot),
    /// A hold ends.
    HoldExpiry(TransactionSeq),
}

/// Something that is due at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timer {
    /// When.
    pub due: Timestamp,
    /// What.
    pub kind: TimerKind,
}

/// All timers, the next one first.
#[derive(Clone, Debug, Default)]
pub(super) struct Timers(BTreeSet<Timer>);

impl Timers {
    pub(super) fn first(&self) -> Option<Timer> {
        self.0.first().copied()
    }

    /// Moves the timer of one kind from one instant to another; `Timestamp::MAX` is none.
    pub(super) fn reschedule(&mut self, kind: TimerKind, from: Timestamp, to: Timestamp) {
        if from == to {
            return;
        }
        if from != Timestamp::MAX {
            self.0.remove(&Timer { due: from, kind });
        }
        if to != Timestamp::MAX {
            self.0.insert(Timer { due: to, kind });
        }
    }
}
