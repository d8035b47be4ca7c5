//! Index entries: the number of the index, the key that a row is found by, the row's slot.
//!
//! | at | bytes | content |
//! |---|---|---|
//! | 0 | 1 | number of the index within its resource; 0 is the index by id |
//! | 1 | | the key, big-endian; a text with its length (u32) before it |
//! | | 4 | slot, big-endian |
//!
//! Entries of one key stand in the order of their slots, which is the order in which rows were made.

use std::marker::PhantomData;
use std::ops::{Range, RangeInclusive};

use smallvec::SmallVec;
use uuid::Uuid;

use crate::domain::card::DimensionKind;
use crate::domain::ids::Slot;

/// An entry, or the part of it before the slot.
pub type EntryBytes = SmallVec<[u8; 32]>;

const SLOT_BYTES: usize = 4;

/// An index of the rows `R` by a key `K`.
#[derive(Debug)]
pub struct Index<R, K> {
    number: u8,
    of: PhantomData<fn(K) -> R>,
}

impl<R, K: IndexKey> Index<R, K> {
    /// The index of this number, which no other index of the resource has.
    #[must_use]
    pub const fn new(number: u8) -> Self {
        Self { number, of: PhantomData }
    }

    /// The entries of every row under `key`.
    #[must_use]
    pub fn range(&self, key: &K) -> RangeInclusive<EntryBytes> {
        self.entry(key, 0)..=self.entry(key, u32::MAX)
    }

    /// The entries of every row under any key.
    #[must_use]
    pub fn whole(&self) -> Range<EntryBytes> {
        EntryBytes::from_slice(&[self.number])..EntryBytes::from_slice(&[self.number + 1])
    }

    fn entry(&self, key: &K, slot: u32) -> EntryBytes {
        let mut bytes = EntryBytes::new();
        bytes.push(self.number);
        key.append(&mut bytes);
        bytes.extend_from_slice(&slot.to_be_bytes());
        bytes
    }
}

/// The slot that an entry leads to; none of bytes that are no entry.
#[must_use]
pub fn slot_of(entry: &[u8]) -> Option<u32> {
    entry.last_chunk::<SLOT_BYTES>().map(|slot| u32::from_be_bytes(*slot))
}

/// The entries of one row.
#[derive(Debug)]
pub struct Entries {
    slot: u32,
    entries: Vec<EntryBytes>,
}

impl Entries {
    pub(super) const fn new(slot: u32) -> Self {
        Self { slot, entries: Vec::new() }
    }

    /// Lets the row be found under `key`.
    pub fn add<R, K: IndexKey>(&mut self, index: &Index<R, K>, key: &K) {
        self.entries.push(index.entry(key, self.slot));
    }

    pub(super) fn into_vec(self) -> Vec<EntryBytes> {
        self.entries
    }
}

/// A key of an index.
pub trait IndexKey {
    /// Appends bytes that order as keys do, and of which none begin another key's.
    fn append(&self, bytes: &mut EntryBytes);
}

impl<S: Slot> IndexKey for S {
    fn append(&self, bytes: &mut EntryBytes) {
        bytes.extend_from_slice(&self.number().to_be_bytes());
    }
}

impl IndexKey for Uuid {
    fn append(&self, bytes: &mut EntryBytes) {
        bytes.extend_from_slice(self.as_bytes());
    }
}

impl<const N: usize> IndexKey for [u8; N] {
    fn append(&self, bytes: &mut EntryBytes) {
        bytes.extend_from_slice(self);
    }
}

impl IndexKey for String {
    fn append(&self, bytes: &mut EntryBytes) {
        // No row is as long as that.
        let len = u32::try_from(self.len()).unwrap_or(u32::MAX);
        bytes.extend_from_slice(&len.to_be_bytes());
        bytes.extend_from_slice(self.as_bytes());
    }
}

impl IndexKey for DimensionKind {
    fn append(&self, bytes: &mut EntryBytes) {
        bytes.push(match self {
            Self::Category => 0,
            Self::Department => 1,
            Self::Label => 2,
            Self::Location => 3,
        });
    }
}

impl<A: IndexKey, B: IndexKey> IndexKey for (A, B) {
    fn append(&self, bytes: &mut EntryBytes) {
        self.0.append(bytes);
        self.1.append(bytes);
    }
}

impl<A: IndexKey, B: IndexKey, C: IndexKey> IndexKey for (A, B, C) {
    fn append(&self, bytes: &mut EntryBytes) {
        self.0.append(bytes);
        self.1.append(bytes);
        self.2.append(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::CompanySlot;

    #[test]
    fn entries_are_ordered_by_key_then_slot_and_no_key_begins_another() {
        const BY_CODE: Index<(), (CompanySlot, String)> = Index::new(3);
        let entry = |company, code: &str, slot| {
            BY_CODE.entry(&(CompanySlot(company), code.to_owned()), slot)
        };
        let rows = [
            entry(0, "7", 1),
            entry(0, "7", 256),
            entry(0, "70", 0),
            entry(1, "", 0),
            entry(256, "7", 0),
        ];
        assert!(rows.is_sorted(), "{rows:?}");
        let range = BY_CODE.range(&(CompanySlot(0), "7".to_owned()));
        let found: Vec<_> = rows.iter().filter(|entry| range.contains(*entry)).collect();
        assert_eq!(found, [&rows[0], &rows[1]]);
        let whole = BY_CODE.whole();
        let next: Index<(), CompanySlot> = Index::new(4);
        assert!(rows.iter().all(|entry| whole.contains(entry)));
        assert!(!whole.contains(&next.entry(&CompanySlot(0), 0)));
        assert_eq!(slot_of(&rows[1]), Some(256));
        assert_eq!(slot_of(&[1, 2]), None);
    }
}
