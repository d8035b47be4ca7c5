//! The cards of each member that are not terminated: they are closed when the member leaves.
//!
//! Decisions never read this. It follows from profiles and states, so it is no part of the logical
//! state; a start gathers it when all cards are there.

use std::collections::BTreeSet;

use crate::domain::ids::{CardSlot, MemberSlot};

/// Members with their cards, in the order of their slots.
#[derive(Clone, Debug, Default)]
pub(super) struct HeldCards(BTreeSet<(MemberSlot, CardSlot)>);

impl HeldCards {
    /// Gathers the cards of these members. Cost: sorts them.
    pub(super) fn gather(held: impl Iterator<Item = (MemberSlot, CardSlot)>) -> Self {
        Self(held.collect())
    }

    pub(super) fn insert(&mut self, member: MemberSlot, card: CardSlot) {
        self.0.insert((member, card));
    }

    pub(super) fn remove(&mut self, member: MemberSlot, card: CardSlot) {
        self.0.remove(&(member, card));
    }

    /// The cards of one member, the oldest first.
    pub(super) fn of(&self, member: MemberSlot) -> impl Iterator<Item = CardSlot> {
        let cards = (member, CardSlot(0))..=(member, CardSlot(u32::MAX));
        self.0.range(cards).map(|(_, card)| *card)
    }

    /// Memory taken, about: nodes are two thirds full. Units: bytes.
    pub(super) fn bytes(&self) -> usize {
        self.0.len() * size_of::<(MemberSlot, CardSlot)>() * 3 / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_member_has_its_own_cards() {
        let pairs = [(7, 3), (1, 9), (7, 1), (8, 0), (7, u32::MAX)];
        let pairs = pairs.map(|(member, card)| (MemberSlot(member), CardSlot(card)));
        let mut held = HeldCards::gather(pairs.into_iter());
        let cards = |held: &HeldCards, member| -> Vec<u32> {
            held.of(MemberSlot(member)).map(|card| card.0).collect()
        };
        assert_eq!(cards(&held, 7), [1, 3, u32::MAX]);
        assert_eq!(cards(&held, 2), []);
        held.remove(MemberSlot(7), CardSlot(3));
        held.remove(MemberSlot(2), CardSlot(3));
        held.insert(MemberSlot(8), CardSlot(3));
        assert_eq!((cards(&held, 7), cards(&held, 8)), (vec![1, u32::MAX], vec![0, 3]));
    }
}
