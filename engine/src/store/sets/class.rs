//! Classes: state and kind of a transaction as one number, and which of them a filter wants.

use crate::domain::transaction::{TransactionKind, TransactionState};

/// How many classes there are.
const CLASSES: u8 = 8;
/// Set in the class of a verification.
const VERIFICATION: u8 = 1 << 2;

/// The state of a transaction and whether it is a verification. The numbers are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::store) struct Class(u8);

impl Class {
    /// The class of a transaction of this kind while it is in this state.
    pub(in crate::store) const fn of(kind: TransactionKind, state: TransactionState) -> Self {
        match kind {
            TransactionKind::Verification => Self(state as u8 | VERIFICATION),
            _ => Self(state as u8),
        }
    }

    /// The number that stands in keys.
    pub(super) const fn number(self) -> u8 {
        self.0
    }

    const fn bit(self) -> u8 {
        1 << self.0
    }
}

/// Transactions by state and kind: every class that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionClasses(u8);

impl TransactionClasses {
    /// Every transaction.
    pub const ALL: Self = Self(u8::MAX);

    /// Those that are in one of these states.
    #[must_use]
    pub fn in_states(states: &[TransactionState]) -> Self {
        let kinds = [TransactionKind::Purchase, TransactionKind::Verification];
        let classes = states.iter().flat_map(|state| kinds.map(|kind| Class::of(kind, *state)));
        Self(classes.fold(0, |bits, class| bits | class.bit()))
    }

    /// These, without what was declined.
    #[must_use]
    pub fn without_declines(self) -> Self {
        Self(self.0 & !Self::in_states(&[TransactionState::Declined]).0)
    }

    /// These, without checks of a card that move no money.
    #[must_use]
    pub const fn without_verifications(self) -> Self {
        // The upper half of the classes are verifications.
        Self(self.0 & (u8::MAX >> VERIFICATION))
    }

    /// Whether a class is among them.
    #[cfg(test)]
    pub(in crate::store) const fn contains(self, class: Class) -> bool {
        self.0 & class.bit() != 0
    }

    /// Each of them.
    pub(super) fn each(self) -> impl Iterator<Item = Class> {
        (0..CLASSES).map(Class).filter(move |class| self.0 & class.bit() != 0)
    }
}

impl Default for TransactionClasses {
    fn default() -> Self {
        Self::ALL
    }
}
