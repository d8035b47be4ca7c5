//! Reversals whose message has not been seen. When it comes, a request is declined; what posts or
//! holds without asking gives back at once what the reversal says. Of several that name one message
//! the newest counts.
//!
//! A reversal is forgotten as soon as a record is applied at or after its end, as the projection
//! does, or where there are too many: one more of a card, or of all, forgets the oldest of them.
//!
//! INVARIANT: what is remembered follows from the reversals that have not ended, in their order. So
//! a restart, which takes all of those in again, remembers the same.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::command::effect::EarlyReversal;
use crate::command::network::ReversalAmount;
use crate::domain::ids::{CardSlot, Timestamp};
use crate::domain::network_key::{MessageClass, NetworkTrace, OriginalKey, RetrievalKey};
use crate::limits;

/// How many reversals are remembered.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    of_card: usize,
    of_all: usize,
}

const BOUNDS: Bounds =
    Bounds { of_card: limits::EARLY_REVERSALS_OF_CARD_MAX, of_all: limits::EARLY_REVERSALS_MAX };

/// The newest reversal of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NewestReversal {
    expires_at: Timestamp,
    amount: ReversalAmount,
}

/// The own original key of a message, and the retrieval key of its purchase.
pub(super) type MessageMarks = (Option<OriginalKey>, Option<RetrievalKey>);

fn newest_of<'a>(
    reversals: impl Iterator<Item = &'a NewestReversal>,
    at: Timestamp,
) -> Option<ReversalAmount> {
    // Ends rise, so the one that ends last came last.
    let newest = reversals.max_by_key(|kept| kept.expires_at);
    newest.filter(|kept| kept.expires_at > at).map(|kept| kept.amount)
}

/// The reversals that are remembered.
#[derive(Clone, Debug, Default)]
pub(super) struct EarlyReversals {
    by_original: HashMap<OriginalKey, NewestReversal>,
    /// By the reference of a purchase; with a vague name of one of its messages, where that is told.
    by_retrieval: HashMap<(RetrievalKey, Option<OriginalKey>), NewestReversal>,
    /// By their numbers, which rise; so do their ends.
    kept: BTreeMap<u64, EarlyReversal>,
    /// The numbers of those that name a card, the oldest first.
    of_card: HashMap<CardSlot, VecDeque<u64>>,
    next_number: u64,
}

impl EarlyReversals {
    /// The amount of an early reversal of the purchase that a message of this class and these marks makes.
    pub(super) fn of_purchase(
        &self,
        trace: &NetworkTrace,
        class: MessageClass,
        at: Timestamp,
    ) -> Option<ReversalAmount> {
        // Nearly always there is none.
        if self.kept.is_empty() {
            return None;
        }
        let marks = (trace.original_key, trace.retrieval_key);
        let by_retrieval = trace.retrieval_key.and_then(|key| self.by_retrieval.get(&(key, None)));
        newest_of(self.of_marks(marks, class).chain(by_retrieval), at)
    }

    /// The amount of an early reversal of the very message of this class and these marks: all messages
    /// of a purchase share its retrieval reference, so that alone says nothing of one of them.
    pub(super) fn of_message(
        &self,
        marks: MessageMarks,
        class: MessageClass,
        at: Timestamp,
    ) -> Option<ReversalAmount> {
        newest_of(self.of_marks(marks, class), at)
    }

    /// Those that name the message itself, some with its class and some without.
    fn of_marks(
        &self,
        (key, retrieval): MessageMarks,
        class: MessageClass,
    ) -> impl Iterator<Item = &NewestReversal> {
        let exact = key
            .into_iter()
            .flat_map(move |key| [Some(class), None].map(|class| key.in_class(class)));
        let vague = key.zip(retrieval).filter(|_| !self.by_retrieval.is_empty());
        let vague = vague.into_iter().flat_map(move |(key, retrieval)| {
            key.vague_names(class).map(move |name| (retrieval, Some(name)))
        });
        let exact = exact.filter_map(|name| self.by_original.get(&name));
        exact.chain(vague.filter_map(|name| self.by_retrieval.get(&name)))
    }

    pub(super) fn insert(&mut self, reversal: EarlyReversal) {
        self.insert_within(BOUNDS, reversal);
    }

    fn insert_within(&mut self, bounds: Bounds, reversal: EarlyReversal) {
        let number = self.next_number;
        self.next_number += 1;
        let EarlyReversal { expires_at, amount, .. } = reversal;
        let newest = NewestReversal { expires_at, amount };
        match (reversal.original_key, reversal.retrieval_key) {
            (name, Some(key)) => self.by_retrieval.insert((key, name), newest),
            (Some(key), None) => self.by_original.insert(key, newest),
            (None, None) => None,
        };
        self.kept.insert(number, reversal);
        if let Some(card) = reversal.card {
            let numbers = self.of_card.entry(card).or_default();
            numbers.push_back(number);
            if numbers.len() > bounds.of_card
                && let Some(oldest) = numbers.front().copied()
            {
                self.forget(oldest);
            }
        }
        if self.kept.len() > bounds.of_all
            && let Some((oldest, _)) = self.kept.first_key_value()
        {
            self.forget(*oldest);
        }
    }

    pub(super) fn forget_expired(&mut self, at: Timestamp) {
        while let Some((number, oldest)) = self.kept.first_key_value()
            && oldest.expires_at <= at
        {
            self.forget(*number);
        }
    }

    /// Forgets the oldest of its card. Keys that a later one has, too, stay.
    fn forget(&mut self, number: u64) {
        let Some(gone) = self.kept.remove(&number) else { return };
        let is_last = |newest: Option<&NewestReversal>| {
            newest.is_some_and(|newest| newest.expires_at == gone.expires_at)
        };
        match (gone.original_key, gone.retrieval_key) {
            (name, Some(key)) if is_last(self.by_retrieval.get(&(key, name))) => {
                self.by_retrieval.remove(&(key, name));
            }
            (Some(key), None) if is_last(self.by_original.get(&key)) => {
                self.by_original.remove(&key);
            }
            _ => {}
        }
        if let Some(card) = gone.card
            && let Some(numbers) = self.of_card.get_mut(&card)
        {
            let oldest = numbers.pop_front();
            assert!(oldest == Some(number), "the oldest of a card goes first");
            if numbers.is_empty() {
                self.of_card.remove(&card);
            }
        }
    }

    /// Every early reversal, in the order of expiry and keys.
    pub(super) fn sorted(&self) -> Vec<EarlyReversal> {
        let mut reversals: Vec<_> = self.kept.values().copied().collect();
        reversals.sort_by_key(|entry| (entry.expires_at, entry.original_key, entry.retrieval_key));
        reversals.dedup();
        reversals
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::money::Minor;
    use crate::journal::testing::next_random;

    fn reversal(card: Option<u32>, key: u64, expires_at: i64) -> EarlyReversal {
        EarlyReversal {
            card: card.map(CardSlot),
            original_key: Some(OriginalKey(key)),
            retrieval_key: None,
            amount: ReversalAmount::GiveBack(Minor(expires_at)),
            expires_at: Timestamp(expires_at),
        }
    }

    fn names(early: &EarlyReversals, key: u64) -> bool {
        let marks = (Some(OriginalKey(key)), None);
        early.of_message(marks, MessageClass::Financial, Timestamp(0)).is_some()
    }

    /// A message that two reversals name is the newer one's, by whichever key, until that ends.
    #[test]
    fn the_newest_reversal_of_a_message_counts() {
        let trace = NetworkTrace {
            original_key: Some(OriginalKey(1)),
            retrieval_key: Some(RetrievalKey(1)),
            ..NetworkTrace::default()
        };
        let by_retrieval = |expires_at| EarlyReversal {
            original_key: None,
            retrieval_key: Some(RetrievalKey(1)),
            ..reversal(None, 0, expires_at)
        };
        let rows = [
            ([reversal(None, 1, 10), reversal(Some(7), 1, 20)], 20, 20),
            ([reversal(Some(7), 1, 10), by_retrieval(20)], 20, 10),
            ([by_retrieval(10), reversal(None, 1, 20)], 20, 20),
        ];
        for (reversals, of_purchase, of_message) in rows {
            let mut early = EarlyReversals::default();
            reversals.into_iter().for_each(|reversal| early.insert(reversal));
            let found = |early: &EarlyReversals, at| {
                let marks = (trace.original_key, trace.retrieval_key);
                let of_message = early.of_message(marks, MessageClass::Financial, Timestamp(at));
                (early.of_purchase(&trace, MessageClass::Financial, Timestamp(at)), of_message)
            };
            let amount = |expires_at| Some(ReversalAmount::GiveBack(Minor(expires_at)));
            assert_eq!(found(&early, 9), (amount(of_purchase), amount(of_message)));
            early.forget_expired(Timestamp(10));
            assert_eq!(found(&early, 10).0, amount(20), "the older one has ended");
            assert_eq!(found(&early, 20), (None, None));
        }
    }

    /// A sender of reversals that name nothing filled the memory for a day.
    #[test]
    fn reversals_of_a_card_and_of_all_are_bounded_and_the_oldest_goes() {
        let mut early = EarlyReversals::default();
        let (of_card, of_all) = (BOUNDS.of_card as u64, BOUNDS.of_all as u64);
        early.insert(reversal(None, u64::MAX, 1));
        for key in 0..of_card + 5 {
            early.insert(reversal(Some(7), key, 2 + key as i64));
        }
        assert!(names(&early, u64::MAX), "another card's is not what goes");
        assert!(!names(&early, 4) && names(&early, 5));
        assert_eq!(early.kept.len() as u64, 1 + of_card);
        for key in 0..of_all {
            let card = (!key.is_multiple_of(9)).then_some(u32::try_from(key / of_card).unwrap());
            early.insert(reversal(card, 1 << 40 | key, 1 << 40 | key as i64));
        }
        assert_eq!(early.kept.len() as u64, of_all);
        assert_eq!(early.by_original.len() as u64, of_all);
        assert!(!names(&early, u64::MAX) && names(&early, 1 << 40));
        early.forget_expired(Timestamp::MAX);
        assert!(early.kept.is_empty() && early.by_original.is_empty() && early.of_card.is_empty());
    }

    /// The tables have those that were too many as well.
    #[test]
    fn a_restart_remembers_the_same() {
        let bounds = Bounds { of_card: 4, of_all: 20 };
        let mut random = 3;
        let (mut early, mut stored, mut forgotten) = (EarlyReversals::default(), Vec::new(), 0);
        for at in 0..4_000 {
            let mut below = |bound: u64| next_random(&mut random) % bound;
            let card = match below(3) {
                0 => None,
                1 => Some(0),
                _ => Some(u32::try_from(1 + below(12)).unwrap()),
            };
            let lifetime = if at < 2_000 { 30 } else { 100 };
            let new = reversal(card, below(40), at + lifetime);
            early.forget_expired(Timestamp(at));
            early.insert_within(bounds, new);
            stored.push(new);
            stored.retain(|known| known.expires_at > Timestamp(at));
            let mut restored = EarlyReversals::default();
            stored.iter().for_each(|known| restored.insert_within(bounds, *known));
            assert_eq!(restored.sorted(), early.sorted(), "at {at}");
            assert_eq!(restored.by_original, early.by_original, "at {at}");
            forgotten += stored.len() - early.kept.len();
        }
        assert!(forgotten > 1_000, "bounds that are not reached prove nothing");
    }
}
