//! A run's changes of cards, and the row and index entries that follow.
//!
//! A card's row holds all parts but its usage; effects replace one part at a time.

use std::collections::{BTreeMap, BTreeSet};

use redb::{ReadableTable, WriteTransaction};

use super::indexes::check_order;
use crate::command::effect::IssuedCard;
use crate::domain::allowance::AllowanceTerms;
use crate::domain::card::{CardProfile, CardState, SealedPan};
use crate::domain::credential::{PackedZip, PinVerifier};
use crate::domain::ids::CompanySlot;
use crate::packed::{append_card, parse_card};
use crate::store::error::StoreError;
use crate::store::rows;
use crate::store::sets::{Class, SetChanges};
use crate::store::tables::{
    ALLOWANCE_IDS, CARD_IDS, CARD_MARKS, CARDS, COMPANY_CARDS, CardMark, PAN_HASHES, STATE_PAGES,
};

/// The newest images of a card's parts.
#[derive(Debug, Default)]
pub(super) struct CardImages {
    issued: Option<Box<IssuedCard>>,
    pub(super) profile: Option<CardProfile>,
    pub(super) pin: Option<PinVerifier>,
    pub(super) zip: Option<PackedZip>,
    pub(super) terms: Option<AllowanceTerms>,
    pub(super) sealed_pan: Option<SealedPan>,
}

impl CardImages {
    /// The card was made, with all its parts.
    pub(super) fn issue(&mut self, issued: IssuedCard) {
        *self = Self { issued: Some(Box::new(issued)), ..Self::default() };
    }

    /// The card after these changes; none where there is nothing to change.
    fn card(&self, stored: Option<IssuedCard>) -> Option<IssuedCard> {
        let mut card = self.issued.as_deref().cloned().or(stored)?;
        if let Some(profile) = &self.profile {
            card.profile = profile.clone();
        }
        if let Some(sealed_pan) = &self.sealed_pan {
            card.sealed_pan.clone_from(sealed_pan);
        }
        card.record.pin = self.pin.unwrap_or(card.record.pin);
        card.record.zip = self.zip.unwrap_or(card.record.zip);
        card.record.terms = self.terms.unwrap_or(card.record.terms);
        Some(card)
    }
}

/// Writes cards with what they are found by.
pub(super) fn write_cards(
    write_txn: &WriteTransaction,
    changes: &BTreeMap<u32, CardImages>,
) -> Result<(), StoreError> {
    if changes.is_empty() {
        return Ok(());
    }
    let mut cards = write_txn.open_table(CARDS.definition())?;
    let mut made = Vec::new();
    let mut marks = write_txn.open_table(CARD_MARKS)?;
    for (slot, changes) in changes {
        let stored = cards.get(slot)?;
        let stored = stored.map(|row| rows::unpack(CARDS.name(), row.value(), parse_card));
        let stored = stored.transpose()?;
        let before = stored.as_ref().map(|card| marks_of(&card.profile)).unwrap_or_default();
        let is_new = stored.is_none();
        let Some(card) = changes.card(stored) else {
            return Err(no_such_card(*slot));
        };
        let after = marks_of(&card.profile);
        for gone in before.difference(&after) {
            marks.remove((gone.kind, gone.owner, *slot))?;
        }
        for new in after.difference(&before) {
            marks.insert((new.kind, new.owner, *slot), ())?;
        }
        cards.insert(*slot, rows::pack(|bytes| append_card(bytes, &card)).as_slice())?;
        if is_new {
            made.push(card);
        }
    }
    index_new_cards(write_txn, &made)
}

/// Notes which cards are in another set now. Comes behind the rows of new cards.
pub(super) fn note_states(
    write_txn: &WriteTransaction,
    states: &BTreeMap<u32, CardState>,
    sets: &mut SetChanges,
) -> Result<(), StoreError> {
    if states.is_empty() {
        return Ok(());
    }
    let cards = write_txn.open_table(CARDS.definition())?;
    let pages = write_txn.open_table(STATE_PAGES)?;
    for (slot, state) in states {
        let Some(row) = cards.get(slot)? else { return Err(no_such_card(*slot)) };
        let card = rows::unpack(CARDS.name(), row.value(), parse_card)?;
        let class = Class::of_card(*state);
        sets.set_card(&pages, card.profile.company, class, u64::from(*slot))?;
    }
    Ok(())
}

fn no_such_card(slot: u32) -> StoreError {
    StoreError::Inconsistent { what: format!("there is no card {slot}") }
}

/// The index marks of a card: its last digits, its holder and its dimensions.
pub(in crate::store) fn marks_of(profile: &CardProfile) -> BTreeSet<CardMark> {
    let digits = CardMark::last_four(profile.company, profile.last_four);
    let member = profile.assigned_to.map(CardMark::member);
    let marks = std::iter::once(digits).chain(member);
    marks.chain(CardMark::dimensions(&profile.dimensions)).collect()
}

fn index_new_cards(write_txn: &WriteTransaction, made: &[IssuedCard]) -> Result<(), StoreError> {
    if made.is_empty() {
        return Ok(());
    }
    let mut pan_hashes = write_txn.open_table(PAN_HASHES)?;
    let mut ids = write_txn.open_table(CARD_IDS)?;
    let mut allowance_ids = write_txn.open_table(ALLOWANCE_IDS)?;
    let mut by_company: BTreeMap<CompanySlot, Vec<u32>> = BTreeMap::new();
    for IssuedCard { profile, record, .. } in made {
        let slot = profile.slot.0;
        pan_hashes.insert(record.pan_hash.0, slot)?;
        ids.insert(profile.id.0.as_u128(), slot)?;
        allowance_ids.insert(profile.allowance_id.0.as_u128(), slot)?;
        by_company.entry(profile.company).or_default().push(slot);
    }
    append_company_cards(write_txn, &by_company)
}

fn append_company_cards(
    write_txn: &WriteTransaction,
    made: &BTreeMap<CompanySlot, Vec<u32>>,
) -> Result<(), StoreError> {
    let mut cards = write_txn.open_table(COMPANY_CARDS)?;
    for (CompanySlot(company), slots) in made {
        let last = cards.range((*company, 0)..=(*company, u32::MAX))?.next_back().transpose()?;
        let (last_slot, places) =
            last.map_or((None, 0), |(key, place)| (Some(key.value().1), place.value()));
        for (place, slot) in (places + 1..).zip(slots) {
            check_order("company_cards", last_slot < Some(*slot))?;
            cards.insert((*company, *slot), place)?;
        }
    }
    Ok(())
}
