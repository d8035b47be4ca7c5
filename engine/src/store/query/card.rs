//! Cards, put together from the parts that change on their own.

use std::ops::RangeInclusive;

use redb::{ReadOnlyTable, ReadableTable};

use super::list::{self, Listed, Page};
use super::{Snapshot, find, required};
use crate::domain::card::{CardProfile, CardRecord, CardState, Dimensions, PanHash, SealedPan};
use crate::domain::ids::{AllowanceId, CardId, CardSlot, CompanySlot, MemberSlot, Timestamp};
use crate::store::error::StoreError;
use crate::store::rows::CardParts;
use crate::store::tables::{
    ALLOWANCE_IDS, ALLOWANCE_TERMS, CARD_BASES, CARD_IDS, CARD_MARKS, CARD_PINS, CARD_PROFILES,
    CARD_USAGES, CARD_ZIPS, COMPANY_CARDS, CardMarkKey, ListKey, PAN_HASHES,
};

type RowsBySlot = ReadOnlyTable<u32, &'static [u8]>;

/// A card as it stands. Its usage is as of its last change: past periods are not left behind yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardRow {
    /// What people know of it.
    pub profile: CardProfile,
    /// What decisions read of it.
    pub record: CardRecord,
    /// Its number.
    pub sealed_pan: SealedPan,
}

/// Which cards of a company to list; every part that is set has to fit.
/// Source: spec "Cards", filters.
#[derive(Clone, Debug, Default)]
pub struct CardFilter {
    /// Held by this member.
    pub assigned_to: Option<MemberSlot>,
    /// With these dimensions.
    pub dimensions: Dimensions,
    /// In one of these states; in any where empty.
    pub states: Vec<CardState>,
    /// With this in its description, in any case.
    pub description_contains: Option<String>,
}

impl CardFilter {
    fn marks(&self) -> Vec<ListKey> {
        let member = self.assigned_to.map(ListKey::member);
        member.into_iter().chain(ListKey::dimensions(&self.dimensions)).collect()
    }

    /// Whether the rows, not the keys alone, decide.
    fn reads_rows(&self) -> bool {
        !self.states.is_empty() || self.description_contains.is_some()
    }

    fn accepts(&self, card: &CardRow, lowered: Option<&str>) -> bool {
        let has_state = self.states.is_empty() || self.states.contains(&card.record.usage.state);
        has_state
            && lowered.is_none_or(|part| card.profile.description.to_lowercase().contains(part))
    }
}

impl Snapshot {
    /// Finds a card.
    pub fn card(&self, slot: CardSlot) -> Result<Option<CardRow>, StoreError> {
        self.card_tables()?.find(slot)
    }

    /// Finds a card of a company by its id.
    pub fn card_by_id(
        &self,
        company: CompanySlot,
        id: CardId,
    ) -> Result<Option<CardRow>, StoreError> {
        Ok(self.card_by_any_company(id)?.filter(|card| card.profile.company == company))
    }

    /// Finds a card by its id, whosever it is.
    pub fn card_by_any_company(&self, id: CardId) -> Result<Option<CardRow>, StoreError> {
        let slot = self.table(CARD_IDS)?.get(id.0.as_u128())?.map(|slot| slot.value());
        slot.map_or(Ok(None), |slot| self.card(CardSlot(slot)))
    }

    /// Finds a card of a company by the id of its allowance.
    pub fn card_by_allowance_id(
        &self,
        company: CompanySlot,
        id: AllowanceId,
    ) -> Result<Option<CardRow>, StoreError> {
        let slot = self.table(ALLOWANCE_IDS)?.get(id.0.as_u128())?.map(|slot| slot.value());
        let card = slot.map_or(Ok(None), |slot| self.card(CardSlot(slot)))?;
        Ok(card.filter(|card| card.profile.company == company))
    }

    /// Finds a card by the hash of its number.
    pub fn card_by_pan_hash(&self, pan_hash: PanHash) -> Result<Option<CardRow>, StoreError> {
        let slot = self.table(PAN_HASHES)?.get(pan_hash.0)?.map(|slot| slot.value());
        slot.map_or(Ok(None), |slot| self.card(CardSlot(slot)))
    }

    /// Lists cards of a company.
    /// Cost: O(offset + limit) without a filter, else O(cards of the first filter set).
    pub fn list_cards(
        &self,
        company: CompanySlot,
        filter: &CardFilter,
        page: &Page,
    ) -> Result<Listed<CardRow>, StoreError> {
        let cards = self.card_tables()?;
        let Some(slots) = cards.created_within(page)? else { return Ok(Listed::EMPTY) };
        let of_company = self.table(COMPANY_CARDS)?;
        let marks = filter.marks();
        let Some((first, others)) = marks.split_first() else {
            let range = (company.0, *slots.start())..=(company.0, *slots.end());
            if filter.reads_rows() {
                let keys = of_company.range(range)?;
                let lowered = filter.description_contains.as_ref().map(|part| part.to_lowercase());
                return list::filter_page(keys, page, |(_, slot)| {
                    let card = cards.card(CardSlot(slot))?;
                    Ok(filter.accepts(&card, lowered.as_deref()).then_some(card))
                });
            }
            return list_all(&of_company, range, page)?.load(|slot| cards.card(CardSlot(slot)));
        };
        let marked = self.table(CARD_MARKS)?;
        let lowered = filter.description_contains.as_ref().map(|part| part.to_lowercase());
        let range = mark_key(*first, *slots.start())..=mark_key(*first, *slots.end());
        list::filter_page(marked.range(range)?, page, |(_, _, slot)| {
            if of_company.get((company.0, slot))?.is_none() {
                return Ok(None);
            }
            for other in others {
                if marked.get(mark_key(*other, slot))?.is_none() {
                    return Ok(None);
                }
            }
            let card = cards.card(CardSlot(slot))?;
            Ok(filter.accepts(&card, lowered.as_deref()).then_some(card))
        })
    }

    /// Opens everything a card is put together from.
    pub(in crate::store) fn card_tables(&self) -> Result<CardTables, StoreError> {
        Ok(CardTables {
            profiles: self.table(CARD_PROFILES.definition())?,
            bases: self.table(CARD_BASES.definition())?,
            pins: self.table(CARD_PINS.definition())?,
            zips: self.table(CARD_ZIPS.definition())?,
            usages: self.table(CARD_USAGES.definition())?,
            terms: self.table(ALLOWANCE_TERMS.definition())?,
        })
    }
}

fn mark_key(mark: ListKey, slot: u32) -> CardMarkKey {
    (mark.kind, mark.owner, slot)
}

/// A page of all cards of a company: the places of the first and the last tell how many.
fn list_all(
    of_company: &ReadOnlyTable<(u32, u32), u64>,
    range: RangeInclusive<(u32, u32)>,
    page: &Page,
) -> Result<Listed<u32>, StoreError> {
    let first = of_company.range(range.clone())?.next().transpose()?;
    let last = of_company.range(range.clone())?.next_back().transpose()?;
    let (Some((_, first)), Some((_, last))) = (first, last) else { return Ok(Listed::EMPTY) };
    let count = last.value() - first.value() + 1;
    list::take_page(of_company.range(range)?, page, count)?.load(|(key, _)| Ok(key.value().1))
}

/// Everything a card is put together from.
pub(in crate::store) struct CardTables {
    profiles: RowsBySlot,
    bases: RowsBySlot,
    pins: RowsBySlot,
    zips: RowsBySlot,
    usages: RowsBySlot,
    terms: RowsBySlot,
}

impl CardTables {
    /// Gets a card that an index or another row names.
    pub(in crate::store) fn card(&self, slot: CardSlot) -> Result<CardRow, StoreError> {
        self.with_profile(slot, required(&CARD_PROFILES, &self.profiles, slot.0)?)
    }

    fn find(&self, slot: CardSlot) -> Result<Option<CardRow>, StoreError> {
        let profile = find(&CARD_PROFILES, &self.profiles, slot.0)?;
        profile.map(|profile| self.with_profile(slot, profile)).transpose()
    }

    fn with_profile(&self, slot: CardSlot, profile: CardProfile) -> Result<CardRow, StoreError> {
        let base = required(&CARD_BASES, &self.bases, slot.0)?;
        let parts = CardParts {
            pin: required(&CARD_PINS, &self.pins, slot.0)?,
            zip: required(&CARD_ZIPS, &self.zips, slot.0)?,
            usage: required(&CARD_USAGES, &self.usages, slot.0)?,
            terms: required(&ALLOWANCE_TERMS, &self.terms, slot.0)?,
        };
        let record = base.record(parts);
        Ok(CardRow { profile, record, sealed_pan: base.sealed_pan })
    }

    /// The slots of the cards made within the page's time; none where there are no such cards.
    fn created_within(&self, page: &Page) -> Result<Option<RangeInclusive<u32>>, StoreError> {
        let Some(last) = self.profiles.last()? else { return Ok(None) };
        let end = u64::from(last.0.value()) + 1;
        let slot_at = |bound: Option<Timestamp>, unbounded: u64| match bound {
            None => Ok(unbounded),
            Some(at) => list::partition_point(0, end, |slot| self.is_made_before(slot, at)),
        };
        let low = slot_at(page.created_after, 0)?;
        let high = slot_at(page.created_before, end)?;
        let bounds = (u32::try_from(low).ok(), high.checked_sub(1).map(u32::try_from));
        Ok(match bounds {
            (Some(low), Some(Ok(high))) if low <= high => Some(low..=high),
            _ => None,
        })
    }

    /// Whether the first card from `slot` on was made before `at`.
    fn is_made_before(&self, slot: u64, at: Timestamp) -> Result<bool, StoreError> {
        let Ok(slot) = u32::try_from(slot) else { return Ok(false) };
        let Some(entry) = self.profiles.range(slot..)?.next() else { return Ok(false) };
        let (_, row) = entry?;
        let profile: CardProfile = crate::store::rows::decode(CARD_PROFILES.name(), row.value())?;
        Ok(profile.created_at < at)
    }
}
