//! Due actions, in the order of (due time, sequence).

use crate::message::later_message::LaterKind;
use crate::plan::Plan;

/// An action that is due at a time. Ordered by time, then sequence, which is unique.
pub(super) struct DueAction {
    pub(super) due_us: u64,
    pub(super) sequence: u64,
    pub(super) action: Action,
}

pub(super) enum Action {
    Open(Box<Plan>),
    /// The opening message again: byte for byte, or marked as a repeat.
    OpenAgain {
        purchase: u64,
        marked: bool,
    },
    Later {
        purchase: u64,
        kind: LaterKind,
    },
    Repeat {
        purchase: u64,
        later: usize,
    },
}

impl PartialEq for DueAction {
    fn eq(&self, other: &Self) -> bool {
        self.sequence == other.sequence
    }
}

impl Eq for DueAction {}

impl PartialOrd for DueAction {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for DueAction {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due_us, self.sequence).cmp(&(other.due_us, other.sequence))
    }
}
