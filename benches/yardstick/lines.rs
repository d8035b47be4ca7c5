//! The memory that a decision has to read, and nothing else: the same number of cache lines, in
//! arrays of the same size on huge pages, found in the same stages over the same batch.
//!
//! A line of the index tells the card's slot, the first line of the card tells the account. Within
//! a stage the reads do not wait for each other, so the processor overlaps as many as it can: no
//! implementation with these arrays can be faster.

use memmap2::{Advice, MmapMut, MmapOptions};

use crate::program::Random;

const LINE_BYTES: usize = 64;
const CARD_BYTES: usize = 2 * LINE_BYTES;
const INDEX_ENTRY_BYTES: usize = 8;
/// Entries of an index that is filled by a half to three quarters.
const INDEX_FILL_NUMERATOR: u64 = 3;
const INDEX_FILL_DENOMINATOR: u64 = 4;
/// The order in which cards are met comes round after so many.
const ORDER_LEN: usize = 1 << 20;

/// Arrays as large as those of a shard with so many cards and accounts.
#[derive(Debug)]
pub struct CardLines {
    index: HugeArray,
    cards: HugeArray,
    accounts: HugeArray,
    index_mask: usize,
}

impl CardLines {
    /// Makes and fills them.
    pub fn new(cards: u64, accounts: u64) -> Self {
        let entries = (cards * INDEX_FILL_DENOMINATOR / INDEX_FILL_NUMERATOR).next_power_of_two();
        let entries = usize::try_from(entries).expect("address the index");
        let card_count = usize::try_from(cards).expect("address the cards");
        let account_count = usize::try_from(accounts).expect("address the accounts");
        let mut lines = Self {
            index: HugeArray::new(entries * INDEX_ENTRY_BYTES),
            cards: HugeArray::new(card_count * CARD_BYTES),
            accounts: HugeArray::new(account_count * LINE_BYTES),
            index_mask: entries - 1,
        };
        let mut random = Random::new(17);
        for entry in 0..entries {
            lines.index.set(entry * INDEX_ENTRY_BYTES, random.below(cards));
        }
        for card in 0..card_count {
            lines.cards.set(card * CARD_BYTES, random.below(accounts));
            lines.cards.set(card * CARD_BYTES + LINE_BYTES, random.next());
        }
        lines
    }

    /// Reads the lines of one batch of decisions, stage by stage.
    pub fn read_batch(&self, hashes: &[u64], slots: &mut Vec<usize>) -> u64 {
        slots.clear();
        slots.extend(hashes.iter().map(|hash| self.slot_of(*hash)));
        let mut sum = 0;
        for slot in slots.iter_mut() {
            let (account, terms) = self.card(*slot);
            sum ^= terms;
            *slot = account;
        }
        slots.iter().fold(sum, |sum, account| sum ^ self.accounts.get(account * LINE_BYTES))
    }

    fn slot_of(&self, hash: u64) -> usize {
        let entry = as_index(hash) & self.index_mask;
        as_index(self.index.get(entry * INDEX_ENTRY_BYTES))
    }

    /// A word of each of a card's two lines: the place of its account, and its spending limit.
    fn card(&self, slot: usize) -> (usize, u64) {
        let first = slot * CARD_BYTES;
        (as_index(self.cards.get(first)), self.cards.get(first + LINE_BYTES))
    }
}

fn as_index(word: u64) -> usize {
    usize::try_from(word).unwrap_or(usize::MAX)
}

/// The order in which a bench meets cards: the same for a measurement and its yardstick.
#[derive(Clone, Debug)]
pub struct LineOrder {
    cards: Vec<u64>,
    at: usize,
}

impl LineOrder {
    /// Random cards of so many.
    pub fn new(cards: u64) -> Self {
        let mut random = Random::new(11);
        Self { cards: (0..ORDER_LEN).map(|_| random.below(cards)).collect(), at: 0 }
    }

    /// The same order with each card turned into something else, such as its hash.
    pub fn map<T>(&self, turn: impl Fn(u64) -> T) -> Vec<T> {
        self.cards.iter().map(|card| turn(*card)).collect()
    }

    /// The place of the next `count` cards in the order, which comes round.
    pub fn next_range(&mut self, count: usize) -> std::ops::Range<usize> {
        if self.at + count > ORDER_LEN {
            self.at = 0;
        }
        let start = self.at;
        self.at += count;
        start..self.at
    }
}

/// Zeroed memory on huge pages, read and written a word at a time.
#[derive(Debug)]
struct HugeArray(MmapMut);

impl HugeArray {
    fn new(bytes: usize) -> Self {
        let map = MmapOptions::new().len(bytes).map_anon().expect("map memory");
        // Without huge pages of the system the yardstick is slower, and so is the shard.
        drop(map.advise(Advice::HugePage));
        Self(map)
    }

    fn get(&self, at: usize) -> u64 {
        let word = self.0.get(at..).and_then(|bytes| bytes.first_chunk());
        word.map_or(0, |word| u64::from_le_bytes(*word))
    }

    fn set(&mut self, at: usize, word: u64) {
        let target = self.0.get_mut(at..).and_then(|bytes| bytes.first_chunk_mut());
        *target.expect("stay inside the array") = word.to_le_bytes();
    }
}
