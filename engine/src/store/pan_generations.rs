//! Cards by the generation of the key that their numbers are sealed under: the keys that a directory needs.

use std::collections::{BTreeMap, BTreeSet};

use super::{Store, StoreError};
use crate::domain::ids::CardSlot;
use crate::domain::pan_key::PanGeneration;

/// The number of cards that are read in one view of the tables.
const READ_LEN_MAX: usize = 1_000;

impl Store {
    /// How many cards are sealed under each generation.
    /// Cost: O(cards).
    pub fn cards_by_pan_generation(&self) -> Result<BTreeMap<PanGeneration, u64>, StoreError> {
        let (mut counts, mut first) = (BTreeMap::new(), CardSlot::default());
        loop {
            // A view for each piece: a view held for long makes the file grow.
            let found = self.read()?.sealed_numbers(first, READ_LEN_MAX)?;
            for number in &found {
                *counts.entry(number.sealed_pan.generation()).or_insert(0) += 1;
            }
            match found.last() {
                Some(last) if found.len() == READ_LEN_MAX => {
                    first = CardSlot(last.slot.0.saturating_add(1));
                }
                _ => return Ok(counts),
            }
        }
    }

    /// The generations that the tables need: those that cards are sealed under, the oldest that a card may come
    /// under, and the newest.
    /// Cost: O(cards).
    pub fn needed_pan_generations(&self) -> Result<BTreeSet<PanGeneration>, StoreError> {
        // Read first: no card comes under one before the oldest any more.
        let used = self.read()?.pan_generations()?;
        let sealed = self.cards_by_pan_generation()?.into_keys();
        Ok(sealed.chain([used.oldest, used.newest]).collect())
    }
}
