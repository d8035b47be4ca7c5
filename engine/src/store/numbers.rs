//! Hot numbers: what cards have used, what accounts hold and what was decided (`figures`), as of the
//! newest commit.
//!
//! Nearly every record changes one of each, so a visible commit does not write them: the
//! after-images since the last checkpoint stand here, in memory, and the next checkpoint writes
//! them. A snapshot reads through the images that belong to its commit.
//!
//! | table | key | value |
//! |---|---|---|
//! | card_usages | card slot / 500 | CRC32C, format version, 3 zero, 500 usages of 32 bytes |
//! | account_balances | account slot | row |
//!
//! INVARIANT: on disk they are as of `META_NUMBERS`, which is the record of the last checkpoint. Tables
//! at another record are refused when they are opened.

use std::sync::Arc;

use redb::{ReadOnlyTable, ReadableTable, WriteTransaction};

use super::error::StoreError;
use super::figures::{AddedFigures, NewFigures};
use super::project::Projection;
use super::rows;
use super::tables::{ACCOUNT_BALANCES, CARD_USAGES};
use crate::codec::CodecError;
use crate::domain::account::AccountBalances;
use crate::domain::allowance::CardUsage;
use crate::domain::ids::CardSlot;
use crate::packed::{USAGE_BYTES, pack_usage, parse_usage};

/// How many usages are in a page: as many as keep it a little under 16 KiB.
const PAGE_USAGES: u32 = 500;
const PAGE_HEAD_BYTES: usize = 8;
const PAGE_BYTES: usize = PAGE_HEAD_BYTES + PAGE_USAGES as usize * USAGE_BYTES;
const PAGE_FORMAT: u8 = 1;

const _: () = assert!(PAGE_BYTES < 16 * 1024 - 64);

/// After-images of one kind, newest layer last. A layer is half as long as the one before it, or
/// shorter, so there are few of them.
#[derive(Clone, Debug)]
struct Layers<T>(Vec<Arc<[(u32, T)]>>);

impl<T> Default for Layers<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Copy> Layers<T> {
    /// The newest image of a slot.
    fn get(&self, slot: u32) -> Option<T> {
        self.0.iter().rev().find_map(|layer| {
            let place = layer.binary_search_by_key(&slot, |(slot, _)| *slot).ok()?;
            Some(layer[place].1)
        })
    }

    /// Puts the images of one commit on top; they come in the order of their records.
    fn push(&mut self, images: &[(u32, T)]) {
        if images.is_empty() {
            return;
        }
        let mut images = newest_in_order(images);
        while let Some(below) = self.0.pop_if(|below| below.len() <= 2 * images.len()) {
            images = merged(&below, &images);
        }
        self.0.push(images.into());
    }

    /// Every slot's newest image.
    fn newest(&self) -> Vec<(u32, T)> {
        let layers = self.0.iter();
        layers.fold(Vec::new(), |below, layer| merged(&below, layer))
    }
}

/// The last image of each slot, in the order of slots. Slots are sorted, not images, which are ten
/// times as long.
fn newest_in_order<T: Copy>(images: &[(u32, T)]) -> Vec<(u32, T)> {
    let mut order: Vec<u64> =
        (0..).zip(images).map(|(place, (slot, _))| u64::from(*slot) << 32 | place).collect();
    order.sort_unstable();
    let place_of = |key: u64| usize::try_from(key & u64::from(u32::MAX));
    let last_of_each = order.chunk_by(|one, other| one >> 32 == other >> 32);
    let last_of_each = last_of_each.filter_map(|places| places.last());
    // INVARIANT: a run has fewer than 2^32 images, since its records fill far fewer bytes.
    last_of_each.filter_map(|key| images.get(place_of(*key).ok()?).copied()).collect()
}

/// Two layers as one; where both have a slot, `above` counts.
fn merged<T: Copy>(below: &[(u32, T)], above: &[(u32, T)]) -> Vec<(u32, T)> {
    let mut images = Vec::with_capacity(below.len() + above.len());
    let mut below = below.iter().peekable();
    for image in above {
        while let Some(older) = below.next_if(|older| older.0 < image.0) {
            images.push(*older);
        }
        below.next_if(|older| older.0 == image.0);
        images.push(*image);
    }
    images.extend(below);
    images
}

/// The after-images since the last checkpoint, as of one commit.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers {
    /// The commit they belong to.
    pub(super) commit: u64,
    usages: Layers<CardUsage>,
    balances: Layers<AccountBalances>,
    figures: AddedFigures,
}

impl Numbers {
    /// Nothing changed since the last checkpoint, as of this commit.
    pub(super) fn none_at(commit: u64) -> Self {
        Self { commit, ..Self::default() }
    }

    /// These numbers with the images of one more run, and what it adds to the figures.
    pub(super) fn with(mut self, run: &Projection, figures: NewFigures) -> Self {
        self.usages.push(run.usages());
        self.balances.push(run.balances());
        self.figures.push(figures);
        self
    }

    /// The usage of a card, where it changed since the last checkpoint.
    pub(super) fn usage(&self, slot: u32) -> Option<CardUsage> {
        self.usages.get(slot)
    }

    /// The balances of an account, where they changed since the last checkpoint.
    pub(super) fn balances(&self, slot: u32) -> Option<AccountBalances> {
        self.balances.get(slot)
    }

    /// Whether nothing changed since the last checkpoint.
    pub(super) fn is_empty(&self) -> bool {
        self.usages.0.is_empty() && self.balances.0.is_empty() && self.figures.is_empty()
    }

    /// What was added to the figures of decisions since the last checkpoint.
    pub(super) fn figures(&self) -> &AddedFigures {
        &self.figures
    }

    /// Writes everything to the tables. Cost: a page for every 500 slots with a change, at most one
    /// a change.
    pub(super) fn write(&self, write_txn: &WriteTransaction) -> Result<(), StoreError> {
        self.figures.write(write_txn)?;
        let mut balances = write_txn.open_table(ACCOUNT_BALANCES.definition())?;
        for (slot, row) in self.balances.newest() {
            balances.insert(slot, rows::encode(ACCOUNT_BALANCES.name(), &row)?.as_slice())?;
        }
        let mut pages = write_txn.open_table(CARD_USAGES.definition())?;
        let usages = self.usages.newest();
        for changed in usages.chunk_by(|one, other| page_of(one.0) == page_of(other.0)) {
            let page = page_of(changed[0].0);
            let mut bytes = [0; PAGE_BYTES];
            if let Some(stored) = pages.get(page)? {
                bytes = *checked(page, stored.value())?;
            }
            for (slot, usage) in changed {
                bytes[place_of(*slot)].copy_from_slice(&pack_usage(usage));
            }
            seal(&mut bytes);
            pages.insert(page, bytes.as_slice())?;
        }
        Ok(())
    }
}

/// Usages of cards in one view of the tables; keeps the page it read last.
pub(super) struct UsageReader {
    pages: ReadOnlyTable<u32, &'static [u8]>,
    numbers: Arc<Numbers>,
    at_hand: Option<(u32, Box<[u8; PAGE_BYTES]>)>,
}

impl UsageReader {
    pub(super) fn new(pages: ReadOnlyTable<u32, &'static [u8]>, numbers: Arc<Numbers>) -> Self {
        Self { pages, numbers, at_hand: None }
    }

    /// What a card has used.
    pub(super) fn usage(&mut self, slot: CardSlot) -> Result<CardUsage, StoreError> {
        if let Some(usage) = self.numbers.usage(slot.0) {
            return Ok(usage);
        }
        let page = page_of(slot.0);
        if self.at_hand.as_ref().is_none_or(|at_hand| at_hand.0 != page) {
            let Some(stored) = self.pages.get(page)? else {
                return Err(StoreError::Inconsistent {
                    what: format!("{} has no page {page}", CARD_USAGES.name()),
                });
            };
            self.at_hand = Some((page, Box::new(*checked(page, stored.value())?)));
        }
        let Some((_, bytes)) = &self.at_hand else { unreachable!("a page was just read") };
        let mut image = [0; USAGE_BYTES];
        image.copy_from_slice(&bytes[place_of(slot.0)]);
        parse_usage(&image).map_err(unreadable)
    }
}

const fn page_of(slot: u32) -> u32 {
    slot / PAGE_USAGES
}

/// Where a slot's usage stands in its page.
fn place_of(slot: u32) -> std::ops::Range<usize> {
    let start = PAGE_HEAD_BYTES + (slot % PAGE_USAGES) as usize * USAGE_BYTES;
    start..start + USAGE_BYTES
}

fn seal(bytes: &mut [u8; PAGE_BYTES]) {
    bytes[4] = PAGE_FORMAT;
    let sum = crc32c::crc32c(&bytes[4..]);
    bytes[..4].copy_from_slice(&sum.to_le_bytes());
}

/// A page as it was written. Errors: `Damaged`, naming table and key.
fn checked(page: u32, bytes: &[u8]) -> Result<&[u8; PAGE_BYTES], StoreError> {
    let whole: Option<&[u8; PAGE_BYTES]> = bytes.try_into().ok();
    let is_sound = |bytes: &&[u8; PAGE_BYTES]| {
        bytes[..4] == crc32c::crc32c(&bytes[4..]).to_le_bytes() && bytes[4] == PAGE_FORMAT
    };
    whole.filter(is_sound).ok_or_else(|| StoreError::Damaged {
        what: format!("table {}, key {page}: its sum or its length is wrong", CARD_USAGES.name()),
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
    fn layers_give_the_newest_image_as_of_each_commit() {
        for seed in 0..20 {
            println!("seed {seed}");
            let mut random = seed;
            let mut layers = Layers::default();
            let mut expected = BTreeMap::new();
            let mut kept = Vec::new();
            for commit in 0..60_u64 {
                let count = next_random(&mut random) % 30;
                let image = |place| {
                    let slot = u32::try_from(next_random(&mut random) % 50).unwrap();
                    (slot, commit * 100 + place)
                };
                let images: Vec<_> = (0..count).map(image).collect();
                expected.extend(images.iter().copied());
                layers.push(&images);
                kept.push((layers.clone(), expected.clone()));
                assert!(layers.0.len() <= 8, "{} layers", layers.0.len());
            }
            // Later commits have changed nothing of what an earlier one saw.
            for (layers, expected) in kept {
                for slot in 0..50 {
                    assert_eq!(layers.get(slot), expected.get(&slot).copied(), "slot {slot}");
                }
                assert_eq!(layers.newest(), expected.into_iter().collect::<Vec<_>>());
            }
        }
    }
}
