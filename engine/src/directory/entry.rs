//! Index entries: the number of the index, the lookup key of a row, the row's slot.
//!
//! | at | bytes | content |
//! |---|---|---|
//! | 0 | 1 | number of the index within its resource; 0 is the index by id |
//! | 1 | | the key, big-endian; a text with its length (u32) before it |
//! | | 4 | slot, big-endian; for a row found by a secret: time of creation (8), digest (32) |
//!
//! Entries of one key stand in the order in which rows were made.

use std::marker::PhantomData;
use std::ops::{Range, RangeInclusive};

use smallvec::SmallVec;
use uuid::Uuid;

use crate::domain::card::DimensionKind;
use crate::domain::ids::{Slot, Timestamp};

/// An entry, or a part of it.
pub type EntryBytes = SmallVec<[u8; 32]>;

const SLOT_BYTES: usize = 4;
/// The bytes behind every entry of a key: more than any row adds, keys of a pair among them.
const BEHIND_ALL: [u8; 64] = [u8::MAX; 64];

/// An index of the rows `R` by a key `K`.
#[derive(Debug)]
pub struct Index<R, K> {
    number: u8,
    of: PhantomData<fn(K) -> R>,
}

impl<R, K: IndexKey> Index<R, K> {
    /// The index with this number, which is unique within its resource.
    pub const fn new(number: u8) -> Self {
        Self { number, of: PhantomData }
    }

    /// The entries of every row under `key`.
    pub fn range(&self, key: &K) -> RangeInclusive<EntryBytes> {
        self.entry(key, &[])..=self.entry(key, &BEHIND_ALL)
    }

    /// The entries of every row under any key.
    pub fn whole(&self) -> Range<EntryBytes> {
        EntryBytes::from_slice(&[self.number])..EntryBytes::from_slice(&[self.number + 1])
    }

    fn entry(&self, key: &impl IndexKey, place: &[u8]) -> EntryBytes {
        let mut bytes = EntryBytes::new();
        bytes.push(self.number);
        key.append(&mut bytes);
        bytes.extend_from_slice(place);
        bytes
    }
}

impl<R, A: IndexKey, B: IndexKey> Index<R, (A, B)> {
    /// The entries of every row under the keys that begin with `first`, from `from` on.
    pub fn range_of(&self, first: A, from: B) -> RangeInclusive<EntryBytes> {
        let end = self.entry(&first, &BEHIND_ALL);
        self.entry(&(first, from), &[])..=end
    }
}

impl<R> Index<R, Timestamp> {
    /// The entries of every row under `last` or before it.
    pub fn upto(&self, last: Timestamp) -> RangeInclusive<EntryBytes> {
        self.entry(&Timestamp::MIN, &[])..=self.entry(&last, &BEHIND_ALL)
    }
}

/// The slot that an entry leads to; none if the bytes are no entry.
pub fn slot_of(entry: &[u8]) -> Option<u32> {
    entry.last_chunk::<SLOT_BYTES>().map(|slot| u32::from_be_bytes(*slot))
}

/// The digest that an entry leads to; none if the bytes are no entry.
pub fn digest_of(entry: &[u8]) -> Option<[u8; 32]> {
    entry.last_chunk().copied()
}

/// The entries of one row.
#[derive(Debug)]
pub struct Entries {
    /// The common end of the entries: the row's slot or digest.
    place: EntryBytes,
    entries: Vec<EntryBytes>,
}

impl Entries {
    pub(super) const fn new(place: EntryBytes) -> Self {
        Self { place, entries: Vec::new() }
    }

    /// Adds the entry of a row under its key, if it has one.
    pub fn add<R, K: IndexKey>(&mut self, index: &Index<R, K>, key: impl Into<Option<K>>) {
        self.entries.extend(key.into().map(|key| index.entry(&key, &self.place)));
    }

    pub(super) fn into_vec(self) -> Vec<EntryBytes> {
        self.entries
    }
}

/// A key of an index.
pub trait IndexKey {
    /// Appends bytes that order as keys do and are prefix-free.
    fn append(&self, bytes: &mut EntryBytes);
}

impl<S: Slot> IndexKey for S {
    fn append(&self, bytes: &mut EntryBytes) {
        bytes.extend_from_slice(&self.number().to_be_bytes());
    }
}

/// Encodes instants in chronological order.
impl IndexKey for Timestamp {
    fn append(&self, bytes: &mut EntryBytes) {
        bytes.extend_from_slice(&(self.0 ^ i64::MIN).to_be_bytes());
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
        // The saturation is never reached, since no row is that long.
        let len = u32::try_from(self.len()).unwrap_or(u32::MAX);
        bytes.extend_from_slice(&len.to_be_bytes());
        bytes.extend_from_slice(self.as_bytes());
    }
}

impl IndexKey for DimensionKind {
    fn append(&self, bytes: &mut EntryBytes) {
        bytes.push(*self as u8);
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
        let entry = |company, code: &str, slot: u32| {
            BY_CODE.entry(&(CompanySlot(company), code.to_owned()), &slot.to_be_bytes())
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
        assert!(!whole.contains(&next.entry(&CompanySlot(0), &[0; 4])));
        let of_company = BY_CODE.range_of(CompanySlot(0), String::new());
        assert_eq!(rows.iter().filter(|entry| of_company.contains(*entry)).count(), 3);
        assert_eq!(slot_of(&rows[1]), Some(256));
        assert_eq!((slot_of(&[1, 2]), digest_of(&rows[1])), (None, None));
    }

    #[test]
    fn instants_are_in_the_order_of_time() {
        const BY_END: Index<(), Timestamp> = Index::new(1);
        let ends = [i64::MIN, -1, 0, 1, 256, i64::MAX].map(Timestamp);
        let entries = ends.map(|end| BY_END.entry(&end, &[7; 40]));
        assert!(entries.is_sorted(), "{entries:?}");
        let upto = BY_END.upto(Timestamp(1));
        assert_eq!(entries.iter().filter(|entry| upto.contains(*entry)).count(), 4);
        assert_eq!(digest_of(&entries[0]), Some([7; 32]));
    }
}
