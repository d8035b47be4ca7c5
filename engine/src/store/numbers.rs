//! Hot numbers: the usage of cards, the balances of accounts and the figures of decisions
//! (`figures`), each of the newest commit.
//!
//! Nearly every record changes one of each, so a visible commit does not write them: the changes
//! since the last checkpoint stand here, in memory, and the next checkpoint writes them. A snapshot
//! reads through the changes that belong to its commit. Usages and balances are after-images; the
//! holds of a card are a sum, to which each change adds.
//!
//! | table | key | value |
//! |---|---|---|
//! | card_usages | card slot / 90 | format version, 3 zero; of 90 cards the usage, 32 bytes, what is held, 8, and CRC32C over slot and both, 4; all zero where there is no card |
//! | account_balances | account slot | row |
//!
//! INVARIANT: on disk they are as of `META_NUMBERS`, which is the record of the last checkpoint. Tables
//! at another record are refused when they are opened.

use std::sync::Arc;

use redb::{AccessGuard, ReadableTable, WriteTransaction};

use super::error::StoreError;
use super::figures::{self, AddedFigures, NewFigures};
use super::layers::{LayerChange, Layers};
use super::project::Projection;
use super::query::SharedTable;
use super::rows;
use super::tables::{ACCOUNT_BALANCES, CARD_USAGES};
use crate::codec::CodecError;
use crate::domain::account::AccountBalances;
use crate::domain::allowance::CardUsage;
use crate::domain::ids::CardSlot;
use crate::domain::money::Minor;
use crate::packed::{USAGE_BYTES, pack_usage, parse_usage};

/// Cards in a page: as many as keep it a little under 4 KiB, a page of redb's.
const PAGE_CARDS: u32 = 90;
const PAGE_HEAD: [u8; 4] = [1, 0, 0, 0];
const SUM_AT: usize = USAGE_BYTES + 8;
const CARD_BYTES: usize = SUM_AT + 4;
const PAGE_BYTES: usize = PAGE_HEAD.len() + PAGE_CARDS as usize * CARD_BYTES;

const _: () = assert!(PAGE_BYTES < 4 * 1024 - 64);

impl LayerChange for AccountBalances {
    fn after(self, _earlier: Self) -> Self {
        self
    }
}

/// The newest usage of a card, and what was added to its holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CardChange {
    pub(super) usage: Option<CardUsage>,
    pub(super) held: Minor,
}

impl LayerChange for CardChange {
    fn after(self, earlier: Self) -> Self {
        Self { usage: self.usage.or(earlier.usage), held: earlier.held + self.held }
    }
}

/// The changes of each slot as one, in the order of slots. Slots are sorted, not changes, which are
/// ten times as long.
fn one_a_slot<T: LayerChange>(changes: &[(u32, T)]) -> Vec<(u32, T)> {
    let mut order: Vec<u64> =
        (0..).zip(changes).map(|(place, (slot, _))| u64::from(*slot) << 32 | place).collect();
    order.sort_unstable();
    // INVARIANT: a run has fewer than 2^32 changes, since its records fill far fewer bytes.
    let place_of = |key: &u64| usize::try_from(key & u64::from(u32::MAX)).ok();
    let change_at = |key| changes.get(place_of(key)?).copied();
    let of_each = order.chunk_by(|one, other| one >> 32 == other >> 32);
    let as_one = |earlier: (u32, T), (slot, change): (u32, T)| (slot, change.after(earlier.1));
    of_each.filter_map(|keys| keys.iter().filter_map(change_at).reduce(as_one)).collect()
}

/// The changes since the last checkpoint, as of one commit.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers {
    /// The commit they belong to.
    pub(super) commit: u64,
    cards: Layers<u32, CardChange>,
    balances: Layers<u32, AccountBalances>,
    /// Figures of decisions added since the last checkpoint.
    pub(super) figures: AddedFigures,
}

impl Numbers {
    /// Numbers without a change since the last checkpoint, of this commit.
    pub(super) fn none_at(commit: u64) -> Self {
        Self { commit, ..Self::default() }
    }

    /// These numbers with one more run: its images, what it adds to the figures, and to holds.
    pub(super) fn with(
        mut self,
        run: &Projection,
        figures: NewFigures,
        held: &[(u32, Minor)],
    ) -> Self {
        let usage_of = |(slot, usage): &(u32, CardUsage)| {
            (*slot, CardChange { usage: Some(*usage), ..CardChange::default() })
        };
        let held_of =
            |(slot, held): &(u32, Minor)| (*slot, CardChange { usage: None, held: *held });
        let usages = run.usages.iter().map(usage_of);
        let cards: Vec<_> = usages.chain(held.iter().map(held_of)).collect();
        self.cards.push(one_a_slot(&cards));
        self.balances.push(one_a_slot(&run.balances));
        self.figures.push(figures.in_order());
        self
    }

    /// The change of a card since the last checkpoint.
    fn card(&self, slot: CardSlot) -> CardChange {
        self.cards.get(slot.0).unwrap_or_default()
    }

    /// The balances of an account, where they changed since the last checkpoint.
    pub(super) fn balances(&self, slot: u32) -> Option<AccountBalances> {
        self.balances.get(slot)
    }

    /// Writes everything to the tables. Cost: at most a page for each slot with a change.
    pub(super) fn write(&self, write_txn: &WriteTransaction) -> Result<(), StoreError> {
        figures::write(&self.figures, write_txn)?;
        let mut balances = write_txn.open_table(ACCOUNT_BALANCES.definition())?;
        for (slot, row) in self.balances.all() {
            balances.insert(slot, rows::encode(ACCOUNT_BALANCES.name(), &row)?.as_slice())?;
        }
        let mut pages = write_txn.open_table(CARD_USAGES.definition())?;
        let cards = self.cards.all();
        for changed in cards.chunk_by(|one, other| page_of(one.0) == page_of(other.0)) {
            let page = page_of(changed[0].0);
            let mut bytes = [0; PAGE_BYTES];
            bytes[..PAGE_HEAD.len()].copy_from_slice(&PAGE_HEAD);
            if let Some(stored) = pages.get(page)? {
                bytes = *whole(page, stored.value())?;
            }
            for (slot, change) in changed {
                let card = &mut bytes[place_of(*slot)];
                let before = stored_card(*slot, card)?;
                let held = before.map_or(Minor::ZERO, held_in);
                if let Some(newest) = &change.usage {
                    card[..USAGE_BYTES].copy_from_slice(&pack_usage(newest));
                }
                card[USAGE_BYTES..SUM_AT].copy_from_slice(&(held + change.held).0.to_le_bytes());
                let sum = sum_of(*slot, &card[..SUM_AT]);
                card[SUM_AT..].copy_from_slice(&sum.to_le_bytes());
            }
            pages.insert(page, bytes.as_slice())?;
        }
        Ok(())
    }
}

/// The usage of a card, and the sum of its purchases' holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CardNumbers {
    pub(super) usage: CardUsage,
    pub(super) held: Minor,
}

/// Numbers of cards in one view of the tables; keeps the page it read last.
pub(super) struct CardNumbersReader {
    pages: SharedTable<u32, &'static [u8]>,
    numbers: Arc<Numbers>,
    at_hand: Option<(u32, AccessGuard<'static, &'static [u8]>)>,
}

impl CardNumbersReader {
    pub(super) fn new(pages: SharedTable<u32, &'static [u8]>, numbers: Arc<Numbers>) -> Self {
        Self { pages, numbers, at_hand: None }
    }

    pub(super) fn of(&mut self, slot: CardSlot) -> Result<CardNumbers, StoreError> {
        let change = self.numbers.card(slot);
        let stored = self.stored(slot, change.usage.is_some())?;
        let held = stored.map_or(Minor::ZERO, held_in);
        let usage = match (change.usage, stored) {
            (Some(usage), _) => usage,
            (None, Some(bytes)) => {
                let mut image = [0; USAGE_BYTES];
                image.copy_from_slice(&bytes[..USAGE_BYTES]);
                parse_usage(&image).map_err(unreadable)?
            }
            (None, None) => unreachable!("what is not new is stored"),
        };
        Ok(CardNumbers { usage, held: held + change.held })
    }

    /// A card as the last checkpoint wrote it; none where it `may_be_new` since then.
    fn stored(&mut self, slot: CardSlot, may_be_new: bool) -> Result<Option<&[u8]>, StoreError> {
        let page = page_of(slot.0);
        if self.at_hand.as_ref().is_none_or(|at_hand| at_hand.0 != page) {
            self.at_hand = self.pages.get(page)?.map(|stored| (page, stored));
        }
        let card = match &self.at_hand {
            Some((_, bytes)) => {
                stored_card(slot.0, &whole(page, bytes.value())?[place_of(slot.0)])?
            }
            None => None,
        };
        if card.is_none() && !may_be_new {
            let what = format!("{} has no card {}", CARD_USAGES.name(), slot.0);
            return Err(StoreError::Inconsistent { what });
        }
        Ok(card)
    }
}

const fn page_of(slot: u32) -> u32 {
    slot / PAGE_CARDS
}

/// The bytes of a card in its page.
fn place_of(slot: u32) -> std::ops::Range<usize> {
    let start = PAGE_HEAD.len() + (slot % PAGE_CARDS) as usize * CARD_BYTES;
    start..start + CARD_BYTES
}

/// The sum of the holds, behind the usage.
fn held_in(card: &[u8]) -> Minor {
    let mut held = [0; 8];
    held.copy_from_slice(&card[USAGE_BYTES..SUM_AT]);
    Minor(i64::from_le_bytes(held))
}

fn sum_of(slot: u32, card: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&slot.to_le_bytes()), card)
}

/// A card as it was written; none where nothing was.
/// Errors: `Damaged`, naming table and slot.
fn stored_card(slot: u32, card: &[u8]) -> Result<Option<&[u8]>, StoreError> {
    if card[SUM_AT..] == sum_of(slot, &card[..SUM_AT]).to_le_bytes() {
        return Ok(Some(card));
    }
    if card.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let what = format!("table {}: the sum of card {slot} is wrong", CARD_USAGES.name());
    Err(StoreError::Damaged { what })
}

/// A page of the right length and format; sums are checked card by card.
/// Errors: `Damaged`, naming table and key.
fn whole(page: u32, bytes: &[u8]) -> Result<&[u8; PAGE_BYTES], StoreError> {
    let whole: Option<&[u8; PAGE_BYTES]> = bytes.try_into().ok();
    whole.filter(|bytes| bytes.starts_with(&PAGE_HEAD)).ok_or_else(|| StoreError::Damaged {
        what: format!("table {}, key {page}: not a page of this format", CARD_USAGES.name()),
    })
}

fn unreadable(source: CodecError) -> StoreError {
    StoreError::Row { table: CARD_USAGES.name(), source }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::journal::testing::next_random;

    #[test]
    fn layers_give_the_newest_usage_and_the_sum_of_holds_as_of_each_commit() {
        for seed in 0..20 {
            println!("seed {seed}");
            let mut random = seed;
            let mut layers = Layers::default();
            let mut expected = BTreeMap::new();
            let mut kept = Vec::new();
            for _ in 0..60 {
                let count = next_random(&mut random) % 30;
                let change = |_| {
                    let slot = u32::try_from(next_random(&mut random) % 50).unwrap();
                    let spent = i64::try_from(next_random(&mut random) % 1_000).unwrap();
                    let usage = CardUsage { spent: Minor(spent), ..CardUsage::default() };
                    let usage = (spent % 3 != 0).then_some(usage);
                    (slot, CardChange { usage, held: Minor(spent - 500) })
                };
                let changes: Vec<_> = (0..count).map(change).collect();
                for (slot, change) in &changes {
                    let all: &mut CardChange = expected.entry(*slot).or_default();
                    all.usage = change.usage.or(all.usage);
                    all.held += change.held;
                }
                layers.push(one_a_slot(&changes));
                kept.push((layers.clone(), expected.clone()));
                assert!(layers.count() <= 8, "{} layers", layers.count());
            }
            // Later commits have changed nothing of what an earlier one saw.
            for (layers, expected) in kept {
                for slot in 0..50 {
                    assert_eq!(layers.get(slot), expected.get(&slot).copied(), "slot {slot}");
                }
                assert_eq!(layers.all(), expected.into_iter().collect::<Vec<_>>());
            }
        }
    }
}
