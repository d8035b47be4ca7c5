//! The transactions in memory: the newest ones in a ring by sequence number, and older ones that a
//! command needed again in a bounded cache beside it.
//!
//! Without limits the ring keeps everything. With limits, transactions older than the ring go once
//! the tables have them.
//!
//! INVARIANT: transactions that the tables do not have yet are in memory. So those that are not in
//! memory can be read from the tables, and those in memory are never older than the tables'.

use std::collections::{HashMap, VecDeque};

use super::index::{Growth, HashIndex, Values, spread};
use super::memory::{Pieces, with_huge_capacity};
use super::open_transaction::OpenTransaction;
use crate::domain::ids::{RecordSeq, TransactionSeq};
use crate::domain::network_key::{OriginalKey, RetrievalKey};
pub use crate::store::query::PurchaseKey;

/// The part of the past that is kept in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLimits {
    /// The newest transactions.
    pub recent_transactions: usize,
    /// Older ones that were needed again; at least `LOADED_MIN`.
    pub loaded_transactions: usize,
    /// Answers that belong to no transaction.
    pub answers: usize,
    /// Keys of messages; where more come within a day, each new message is compared with the
    /// tables, too.
    pub message_keys: usize,
    /// Changes of older transactions that a follower keeps before it looks which of them the tables have.
    pub unseen_changes: usize,
}

impl CacheLimits {
    /// The most transactions that one command, or one run of timers, may need at a time.
    pub const LOADED_MIN: usize = 16;
}

/// About 250 MB in all when full: the last minutes of a busy day, and the message keys of a quiet one.
impl Default for CacheLimits {
    fn default() -> Self {
        Self {
            recent_transactions: 1 << 18,
            loaded_transactions: 1 << 14,
            answers: 1 << 15,
            message_keys: 1 << 27,
            unseen_changes: 64,
        }
    }
}

/// Memory for the transactions that a start replays, made ready beside the state they are for.
#[derive(Debug)]
pub struct TransactionRoom {
    ring: Vec<Option<OpenTransaction>>,
    by_original: HashIndex,
    by_retrieval: HashIndex,
    /// The present pieces of the ring and of the two indexes.
    present: [Pieces; 3],
}

impl TransactionRoom {
    /// Room for the transactions of so many records behind those that are `restored`.
    pub fn for_records(records: usize, restored: usize) -> Self {
        let ring = with_huge_capacity(records.saturating_add(restored));
        let index = || HashIndex::with_capacity(Growth::ByQuarters, ring.capacity());
        let (by_original, by_retrieval) = (index(), index());
        Self { ring, by_original, by_retrieval, present: Default::default() }
    }

    /// Makes its pages present, so that filling it waits for none. Threads that do this at the same
    /// time share the work.
    pub fn make_present(&self) {
        let [ring, by_original, by_retrieval] = &self.present;
        ring.make_present(&self.ring);
        self.by_original.make_present(by_original);
        self.by_retrieval.make_present(by_retrieval);
    }
}

/// Every transaction in memory.
#[derive(Clone, Debug)]
pub(super) struct Transactions {
    /// The sequence number of the ring's first place.
    first: u64,
    /// Places of transactions that were never brought in are empty.
    ring: VecDeque<Option<OpenTransaction>>,
    loaded: HashMap<TransactionSeq, OpenTransaction>,
    /// In the order of loading.
    loaded_order: VecDeque<TransactionSeq>,
    by_original: HashIndex,
    by_retrieval: HashIndex,
}

impl Default for Transactions {
    fn default() -> Self {
        Self {
            first: 1,
            ring: VecDeque::new(),
            loaded: HashMap::new(),
            loaded_order: VecDeque::new(),
            by_original: HashIndex::with_capacity(Growth::ByQuarters, 0),
            by_retrieval: HashIndex::with_capacity(Growth::ByQuarters, 0),
        }
    }
}

/// Tells the keys of the ring's transactions again, and which of them have left it.
struct RingKeys<'a, K> {
    first: u64,
    ring: &'a VecDeque<Option<OpenTransaction>>,
    key_of: K,
}

impl<K: Fn(&OpenTransaction) -> Option<u64>> RingKeys<'_, K> {
    fn position(&self, value: u32) -> Option<usize> {
        position_in(self.first, self.ring.len(), value)
    }
}

impl<K: Fn(&OpenTransaction) -> Option<u64>> Values for RingKeys<'_, K> {
    fn has_dead(&self) -> bool {
        self.first > 1
    }

    fn is_dead(&self, value: u32) -> bool {
        self.position(value).is_none()
    }

    fn hash_of(&self, value: u32, known: u64) -> u64 {
        let entry = self.position(value).and_then(|at| self.ring[at].as_ref());
        entry.and_then(&self.key_of).map_or(known, spread)
    }
}

/// The position in a ring of the sequence number with these low bits.
#[inline]
fn position_in(first: u64, len: usize, value: u32) -> Option<usize> {
    let end = first + len as u64;
    let back = low_bits(end).wrapping_sub(value);
    let position = len.checked_sub(back as usize)?;
    (back > 0).then_some(position)
}

/// The part of a sequence number that an index keeps.
#[expect(clippy::cast_possible_truncation, reason = "the low half; a ring is shorter than 2^32")]
pub(super) const fn low_bits(seq: u64) -> u32 {
    seq as u32
}

/// The marks under which a transaction is entered. Of a declined one that is the reference alone: it
/// tells a reversal that its purchase has been here, while no message goes on with it.
#[derive(Clone, Copy)]
struct Names {
    original: Option<OriginalKey>,
    retrieval: Option<RetrievalKey>,
    yields: bool,
    is_declined: bool,
}

impl Names {
    fn of(open: &OpenTransaction) -> Self {
        let is_declined = open.is_declined();
        Self {
            original: open.original_key.filter(|_| !is_declined),
            retrieval: open.retrieval_key,
            yields: open.yields_marks() && !is_declined,
            is_declined,
        }
    }
}

fn original_of(open: &OpenTransaction) -> Option<u64> {
    open.original_key.map(|key| key.0)
}

fn retrieval_of(open: &OpenTransaction) -> Option<u64> {
    open.retrieval_key.map(|key| key.0)
}

impl Transactions {
    /// Room for so many without growing.
    pub(super) fn reserve(&mut self, count: usize) {
        self.ring.reserve(count);
        // Live entries fill half of their places, those that left the ring at most a quarter more.
        self.by_original = HashIndex::with_capacity(Growth::ByQuarters, count * 3 / 2);
        self.by_retrieval = HashIndex::with_capacity(Growth::ByQuarters, count * 3 / 2);
    }

    /// Goes on in a larger room: an index that grows reads the keys of the whole ring again each time.
    pub(super) fn move_into(&mut self, room: TransactionRoom) {
        let TransactionRoom { ring, by_original, by_retrieval, .. } = room;
        if ring.capacity() <= self.ring.capacity() {
            return;
        }
        let mut ring = VecDeque::from(ring);
        ring.append(&mut self.ring);
        self.ring = ring;
        (self.by_original, self.by_retrieval) = (by_original, by_retrieval);
        for position in 0..self.ring.len() {
            let Some(names) = self.ring[position].as_ref().map(Names::of) else { continue };
            self.index_by_keys(TransactionSeq(self.first + position as u64), names);
        }
    }

    /// The transaction `seq`, declined or not, where it is in memory.
    #[inline]
    pub(super) fn get(&self, seq: TransactionSeq) -> Option<&OpenTransaction> {
        match seq.0.checked_sub(self.first) {
            Some(position) => self.ring.get(usize::try_from(position).ok()?)?.as_ref(),
            None => self.loaded.get(&seq),
        }
    }

    pub(super) fn get_mut(&mut self, seq: TransactionSeq) -> Option<&mut OpenTransaction> {
        match seq.0.checked_sub(self.first) {
            Some(position) => self.ring.get_mut(usize::try_from(position).ok()?)?.as_mut(),
            None => self.loaded.get_mut(&seq),
        }
    }

    /// Begins the ring behind this transaction, unless a newer one is in memory.
    pub(super) fn begin_after(&mut self, last: TransactionSeq) {
        if self.ring.is_empty() {
            self.first = last.0 + 1;
        }
    }

    /// A transaction that was not declined, where it is in memory.
    pub(super) fn get_open(&self, seq: TransactionSeq) -> Option<&OpenTransaction> {
        self.get(seq).filter(|found| !found.is_declined())
    }

    /// Whether every transaction from the first one on is in memory.
    pub(super) fn is_whole(&self) -> bool {
        self.first <= 1
    }

    /// Whether the transaction is older than the ring.
    pub(super) fn is_before_ring(&self, seq: TransactionSeq) -> bool {
        seq.0 < self.first
    }

    /// Every transaction in memory, in the order of sequence numbers within ring and cache.
    pub(super) fn iter(&self) -> impl Iterator<Item = (TransactionSeq, &OpenTransaction)> {
        let ring = (self.first..).zip(&self.ring);
        let ring = ring.filter_map(|(seq, open)| Some((TransactionSeq(seq), open.as_ref()?)));
        let loaded = self.loaded_order.iter();
        loaded.filter_map(|seq| Some((*seq, self.loaded.get(seq)?))).chain(ring)
    }

    /// Brings in a new transaction, or one of the newest at a restart.
    pub(super) fn push(&mut self, seq: TransactionSeq, open: OpenTransaction) {
        if self.ring.is_empty() {
            self.first = seq.0;
        }
        assert!(seq.0 >= self.first, "transactions come in the order of their numbers");
        let names = Names::of(&open);
        if let Some(known) = self.get_mut(seq) {
            *known = open;
        } else {
            while self.first + (self.ring.len() as u64) < seq.0 {
                self.ring.push_back(None);
            }
            self.ring.push_back(Some(open));
        }
        self.index_by_keys(seq, names);
    }

    /// A key names the newest transaction that carries it. One that yields its marks never takes a key
    /// over: it goes on naming the purchase. Beside it the newest that was declined is known.
    fn index_by_keys(&mut self, seq: TransactionSeq, names: Names) {
        let Names { original, retrieval, yields, is_declined } = names;
        let (first, ring, value) = (self.first, &self.ring, low_bits(seq.0));
        let enter =
            |index: &mut HashIndex, key: u64, key_of: fn(&OpenTransaction) -> Option<u64>| {
                let keys = RingKeys { first, ring, key_of };
                let has_key = |known: u32| {
                    let open = keys.position(known).and_then(|at| ring[at].as_ref());
                    open.is_some_and(|open| {
                        key_of(open) == Some(key) && open.is_declined() == is_declined
                    })
                };
                let is_known = if yields {
                    index.find(spread(key), has_key).is_some()
                } else {
                    index.replace(spread(key), value, has_key)
                };
                if !is_known {
                    index.insert(spread(key), value, &keys);
                }
            };
        if let Some(OriginalKey(key)) = original {
            enter(&mut self.by_original, key, original_of);
        }
        if let Some(RetrievalKey(key)) = retrieval {
            enter(&mut self.by_retrieval, key, retrieval_of);
        }
    }

    /// The ring's transaction that a key names.
    pub(super) fn find_by_key(
        &self,
        key: PurchaseKey,
    ) -> Option<(TransactionSeq, &OpenTransaction)> {
        self.find_of(key, false)
    }

    /// Whether the ring has a declined transaction of this reference.
    pub(super) fn has_declined(&self, key: RetrievalKey) -> bool {
        self.find_of(PurchaseKey::Retrieval(key), true).is_some()
    }

    /// The ring's transaction of a key, among those that were declined or among the others.
    fn find_of(
        &self,
        key: PurchaseKey,
        is_declined: bool,
    ) -> Option<(TransactionSeq, &OpenTransaction)> {
        let find = |index: &HashIndex, key: u64, key_of: fn(&OpenTransaction) -> Option<u64>| {
            let open_at = |value| {
                let position = position_in(self.first, self.ring.len(), value)?;
                let open = self.ring[position].as_ref()?;
                let seq = TransactionSeq(self.first + position as u64);
                let is_it = key_of(open) == Some(key) && open.is_declined() == is_declined;
                is_it.then_some((seq, open))
            };
            open_at(index.find(spread(key), |value| open_at(value).is_some())?)
        };
        match key {
            PurchaseKey::Original(key) => find(&self.by_original, key.0, original_of),
            PurchaseKey::Retrieval(key) => find(&self.by_retrieval, key.0, retrieval_of),
        }
    }

    /// Asks for the lines that a new transaction with these keys will be entered in.
    pub(super) fn prefetch_keys(
        &self,
        original: Option<OriginalKey>,
        retrieval: Option<RetrievalKey>,
    ) {
        if let Some(key) = original {
            self.by_original.prefetch(spread(key.0));
        }
        if let Some(key) = retrieval {
            self.by_retrieval.prefetch(spread(key.0));
        }
    }

    /// Takes in an older transaction that was read from the tables. Rows in memory are newer.
    pub(super) fn load(&mut self, seq: TransactionSeq, open: OpenTransaction) {
        if self.is_before_ring(seq) && !self.loaded.contains_key(&seq) {
            self.loaded.insert(seq, open);
            self.loaded_order.push_back(seq);
        }
    }

    /// Lets go of what is beyond the limits and unchanged since record `until`, which the tables
    /// have.
    pub(super) fn evict(&mut self, limits: &CacheLimits, until: RecordSeq) {
        while self.ring.len() > limits.recent_transactions {
            let is_kept = |open: &OpenTransaction| open.changed_seq > until;
            if self.ring.front().is_some_and(|open| open.as_ref().is_some_and(is_kept)) {
                break;
            }
            self.ring.pop_front();
            self.first += 1;
        }
        let mut looked_at = 0;
        while self.loaded.len() > limits.loaded_transactions
            && looked_at < limits.loaded_transactions
        {
            looked_at += 1;
            let Some(seq) = self.loaded_order.pop_front() else { break };
            match self.loaded.get(&seq) {
                Some(open) if open.changed_seq > until => self.loaded_order.push_back(seq),
                _ => drop(self.loaded.remove(&seq)),
            }
        }
    }

    /// The number of transactions in memory.
    pub(super) fn len(&self) -> usize {
        self.ring.len() + self.loaded.len()
    }
}
