//! Classes: state and kind of a transaction, or the state of a card, as one number, and which of
//! them a filter wants.

use crate::domain::card::CardState;
use crate::domain::transaction::{TransactionKind, TransactionState};

/// The number of classes.
const CLASSES: u8 = 12;
/// The state of what was posted.
const COMPLETED: u8 = 1;
/// Set in the class of a verification.
const VERIFICATION: u8 = 1 << 2;

/// The state of a transaction and whether it is a verification, or the state of a card. The numbers
/// are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::store) struct Class(u8);

impl Class {
    /// The classes of cards.
    pub(super) const CARDS: [Self; 4] = [Self(8), Self(9), Self(10), Self(11)];

    /// The class of a transaction of this kind while it is in this state.
    pub(in crate::store) const fn of(kind: TransactionKind, state: TransactionState) -> Self {
        let state = match state {
            TransactionState::Pending => 0,
            TransactionState::Completed => COMPLETED,
            TransactionState::Declined => 2,
            TransactionState::Canceled => 3,
        };
        match kind {
            // One upon which a presentment was posted moved money.
            TransactionKind::Verification if state != COMPLETED => Self(state | VERIFICATION),
            _ => Self(state),
        }
    }

    /// The class of a card while it is in this state.
    pub(in crate::store) const fn of_card(state: CardState) -> Self {
        let [active, unactivated, suspended, terminated] = Self::CARDS;
        match state {
            CardState::Active => active,
            CardState::Unactivated => unactivated,
            CardState::Suspended => suspended,
            CardState::Terminated => terminated,
        }
    }

    /// The number that stands in keys.
    pub(super) const fn number(self) -> u8 {
        self.0
    }

    const fn bit(self) -> u16 {
        1 << self.0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct Classes(u16);

impl Classes {
    pub(in crate::store) fn of_cards(states: &[CardState]) -> Self {
        Self(states.iter().fold(0, |bits, state| bits | Class::of_card(*state).bit()))
    }

    /// Whether a class is among them.
    #[cfg(test)]
    pub(super) const fn contains(self, class: Class) -> bool {
        self.0 & class.bit() != 0
    }

    pub(super) fn each(self) -> impl Iterator<Item = Class> {
        (0..CLASSES).map(Class).filter(move |class| self.0 & class.bit() != 0)
    }
}

impl From<TransactionClasses> for Classes {
    fn from(classes: TransactionClasses) -> Self {
        Self(classes.0)
    }
}

/// Transactions by state and kind: every class that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionClasses(u16);

impl TransactionClasses {
    /// Every transaction.
    pub const ALL: Self = Self(0xff & !(1 << (COMPLETED | VERIFICATION)));

    /// The transactions in one of these states.
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
        // Of its eight classes, the upper four are verifications.
        Self(self.0 & 0x0f)
    }
}

impl Default for TransactionClasses {
    fn default() -> Self {
        Self::ALL
    }
}
