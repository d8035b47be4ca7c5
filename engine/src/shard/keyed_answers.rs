//! The answers kept under idempotency keys. Only admin commands read them.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::domain::ids::Timestamp;
use crate::domain::keyed_answer::{KeyedAnswer, KeyedContent, OWNER_BYTES, owner_of};

/// The request that an idempotency key was used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub(super) struct KeyUse {
    pub(super) request: [u8; 32],
    pub(super) expires_at: Timestamp,
    /// Whether the answer is there, and not only where it is found.
    pub(super) is_answered: bool,
}

/// The idempotency keys that have not expired; their answers are in the tables.
/// INVARIANT: the tables forget by the same rule, so both always remember the same.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyedAnswers {
    uses: HashMap<[u8; 32], KeyUse>,
    ends: BTreeSet<(Timestamp, [u8; 32])>,
    /// The number of keys of each company.
    counts: HashMap<[u8; OWNER_BYTES], usize>,
}

impl KeyedAnswers {
    /// The use of a key.
    pub(super) fn get(&self, key: &[u8; 32]) -> Option<&KeyUse> {
        self.uses.get(key)
    }

    /// The number of keys.
    pub(super) fn len(&self) -> usize {
        self.uses.len()
    }

    /// The number of keys of a company.
    pub(super) fn count_of(&self, owner: [u8; OWNER_BYTES]) -> usize {
        self.counts.get(&owner).copied().unwrap_or_default()
    }

    /// The keys that ended at or before `at`.
    pub(super) fn ended_by(&self, at: Timestamp) -> impl Iterator<Item = &[u8; 32]> {
        self.ends.iter().take_while(move |end| end.0 <= at).map(|end| &end.1)
    }

    pub(super) fn insert(&mut self, answer: &KeyedAnswer) {
        let found = KeyUse {
            request: answer.request,
            expires_at: answer.expires_at,
            is_answered: matches!(answer.content, KeyedContent::Body(_)),
        };
        match self.uses.insert(answer.key, found) {
            Some(before) => drop(self.ends.remove(&(before.expires_at, answer.key))),
            None => *self.counts.entry(owner_of(&answer.key)).or_default() += 1,
        }
        self.ends.insert((answer.expires_at, answer.key));
    }

    /// Lets go of what ended at or before `at`.
    #[inline]
    pub(super) fn forget_expired(&mut self, at: Timestamp) {
        while let Some((expires_at, key)) = self.ends.first().copied()
            && expires_at <= at
        {
            self.ends.remove(&(expires_at, key));
            self.uses.remove(&key);
            self.count_less(owner_of(&key));
        }
    }

    fn count_less(&mut self, owner: [u8; OWNER_BYTES]) {
        if let Entry::Occupied(mut count) = self.counts.entry(owner) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    /// The keys in order, with what they were used for.
    pub(super) fn sorted(&self) -> impl Iterator<Item = ([u8; 32], KeyUse)> + '_ {
        let keys: BTreeMap<_, _> = self.uses.iter().map(|(key, found)| (*key, *found)).collect();
        keys.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_remembered_until_they_expire() {
        let answer = |key: u8, until: i64| KeyedAnswer {
            key: [key; 32],
            request: [9; 32],
            made_at: Timestamp(0),
            expires_at: Timestamp(until),
            status: 204,
            content: KeyedContent::Object { path: String::new() },
        };
        let mut answers = KeyedAnswers::default();
        answers.insert(&answer(1, 10));
        answers.insert(&answer(2, 20));
        answers.insert(&answer(1, 30));
        answers.forget_expired(Timestamp(20));
        assert_eq!((answers.len(), answers.get(&[2; 32])), (1, None));
        assert!(answers.get(&[1; 32]).is_some());
        let counts = [1, 2].map(|owner| answers.count_of([owner; OWNER_BYTES]));
        assert_eq!(counts, [1, 0]);
        let ended = [29, 30].map(|at| answers.ended_by(Timestamp(at)).count());
        assert_eq!(ended, [0, 1]);
        answers.forget_expired(Timestamp(30));
        assert!(answers.counts.is_empty());
        assert_eq!(answers.sorted().count(), 0);
    }
}
