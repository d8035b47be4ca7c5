//! Cards, put together from the parts that change on their own.

use std::ops::RangeInclusive;
use std::sync::Arc;

use redb::{ReadOnlyTable, ReadableTable, ReadableTableMetadata};

use super::hits::Hits;
use super::list::{self, ListPage, Page};
use super::{SharedTable, Snapshot};
use crate::command::effect::IssuedCard;
use crate::domain::card::{
    CardProfile, CardRecord, CardState, CardTexts, Dimensions, PanHash, SealedPan,
};
use crate::domain::ids::{AllowanceId, CardId, CardSlot, CompanySlot, MemberSlot, Timestamp};
use crate::domain::money::Minor;
use crate::domain::search_key::search_key;
use crate::packed::{PackedCard, parse_card};
use crate::store::error::StoreError;
use crate::store::numbers::{CardNumbers, CardNumbersReader};
use crate::store::rows;
use crate::store::sets::Classes;
use crate::store::tables::{
    ALLOWANCE_IDS, CARD_IDS, CARD_MARKS, CARD_USAGES, CARDS, COMPANY_CARDS, CardMark, CardMarkKey,
    PAN_HASHES,
};

/// A card as it stands. Its usage is as of its last change: past periods are not left behind yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardRow {
    /// The part that people set and see.
    pub profile: CardProfile,
    /// The part that decisions read.
    pub record: CardRecord,
    /// The sum of its purchases' holds, those that were settled in part among them.
    pub held: Minor,
    /// Its number.
    pub sealed_pan: SealedPan,
}

/// A card's number, sealed, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedNumber {
    /// The slot of the card.
    pub slot: CardSlot,
    /// The id of the card.
    pub card: CardId,
    /// The number.
    pub sealed_pan: SealedPan,
}

/// A filter for the cards of a company; every part that is set has to fit.
/// Source: spec "Cards", filters.
#[derive(Clone, Debug, Default)]
pub struct CardFilter {
    /// Held by this member.
    pub assigned_to: Option<MemberSlot>,
    /// With these dimensions.
    pub dimensions: Dimensions,
    /// In one of these states; in any where empty.
    pub states: Vec<CardState>,
    /// With a number that ends in these digits, in ASCII.
    pub last_four: Option<[u8; 4]>,
    /// With these in its texts, in any case and composition.
    pub contains: CardTexts<Option<String>>,
}

impl CardFilter {
    /// The marks that a company's cards have to carry; that with the fewest cards comes first.
    fn marks(&self, company: CompanySlot) -> Vec<CardMark> {
        let digits = self.last_four.map(|digits| CardMark::last_four(company, digits));
        let member = self.assigned_to.map(CardMark::member);
        let marks = digits.into_iter().chain(member);
        marks.chain(CardMark::dimensions(&self.dimensions)).collect()
    }

    /// Whether the rows, not the keys alone, decide.
    fn reads_rows(&self) -> bool {
        !self.states.is_empty() || self.reads_texts()
    }

    fn reads_texts(&self) -> bool {
        self.contains.named().iter().any(|(_, part)| part.is_some())
    }

    /// Whether a card fits the part of the filter that rows decide; its texts are as searches compare them.
    fn accepts(&self, card: &CardRow) -> bool {
        let has_state = self.states.is_empty() || self.states.contains(&card.record.usage.state);
        let has_part = |part: &Option<String>, text: &String| {
            part.as_ref().is_none_or(|part| search_key(text).contains(part))
        };
        let has_parts = self.contains.zip(&card.profile.texts, has_part);
        has_state && has_parts.named().iter().all(|(_, has_part)| **has_part)
    }

    /// The same filter, its texts as searches compare them.
    fn compared(&self) -> Self {
        let key = |part: &Option<String>| part.as_deref().map(search_key);
        Self { contains: self.contains.map(key), ..self.clone() }
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
        self.indexed_card(slot, |card| card.profile.id == id)
    }

    /// Finds a card of a company by the id of its allowance.
    pub fn card_by_allowance_id(
        &self,
        company: CompanySlot,
        id: AllowanceId,
    ) -> Result<Option<CardRow>, StoreError> {
        let slot = self.table(ALLOWANCE_IDS)?.get(id.0.as_u128())?.map(|slot| slot.value());
        let card = self.indexed_card(slot, |card| card.profile.allowance_id == id)?;
        Ok(card.filter(|card| card.profile.company == company))
    }

    /// Finds a card by the hash of its number.
    pub fn card_by_pan_hash(&self, pan_hash: PanHash) -> Result<Option<CardRow>, StoreError> {
        let slot = self.table(PAN_HASHES)?.get(pan_hash.0)?.map(|slot| slot.value());
        self.indexed_card(slot, |card| card.record.pan_hash == pan_hash)
    }

    /// Gets the card an index leads to. Indexes carry no sums of their own: the row tells whether it
    /// is the right one.
    fn indexed_card(
        &self,
        slot: Option<u32>,
        is_right: impl FnOnce(&CardRow) -> bool,
    ) -> Result<Option<CardRow>, StoreError> {
        let Some(slot) = slot else { return Ok(None) };
        let card = self.card_tables()?.card(CardSlot(slot))?;
        if is_right(&card) {
            return Ok(Some(card));
        }
        Err(StoreError::Inconsistent { what: format!("an index leads to another card, {slot}") })
    }

    /// Lists cards of a company.
    /// Cost: O(log n) and O(limit) rows by state alone, O(offset + limit) without a filter, else
    /// O(cards of the first filter set); texts are compared with every card left.
    pub fn list_cards(
        &self,
        company: CompanySlot,
        filter: &CardFilter,
        page: &Page,
    ) -> Result<ListPage<CardRow>, StoreError> {
        let filter = &filter.compared();
        let mut cards = self.card_tables()?;
        let Some(slots) = cards.created_within(page)? else { return Ok(ListPage::EMPTY) };
        let of_company = self.table(COMPANY_CARDS)?;
        let marks = filter.marks(company);
        let Some((first, others)) = marks.split_first() else {
            if !filter.states.is_empty() {
                return self.list_cards_by_state(&mut cards, (company, filter), slots, page);
            }
            let range = (company.0, *slots.start())..=(company.0, *slots.end());
            if filter.reads_rows() {
                let keys = of_company.range(range)?;
                return list::filter_page(self, keys, page, |(_, slot)| {
                    let card = cards.card(CardSlot(slot))?;
                    Ok(filter.accepts(&card).then_some(card))
                });
            }
            return list_all(&of_company, range, page)?.load(|slot| cards.card(CardSlot(slot)));
        };
        let marked = self.table(CARD_MARKS)?;
        let range = mark_key(*first, *slots.start())..=mark_key(*first, *slots.end());
        list::filter_page(self, marked.range(range)?, page, |(_, _, slot)| {
            if of_company.get((company.0, slot))?.is_none() {
                return Ok(None);
            }
            for other in others {
                if marked.get(mark_key(*other, slot))?.is_none() {
                    return Ok(None);
                }
            }
            let card = cards.card(CardSlot(slot))?;
            Ok(filter.accepts(&card).then_some(card))
        })
    }

    /// Lists cards of a company that are in some states.
    fn list_cards_by_state(
        &self,
        cards: &mut CardTables,
        (company, filter): (CompanySlot, &CardFilter),
        slots: RangeInclusive<u32>,
        page: &Page,
    ) -> Result<ListPage<CardRow>, StoreError> {
        let sets = self.sets()?;
        let classes = Classes::of_cards(&filter.states);
        let hits = Hits::Classes { sets: &sets, company, classes };
        let slots = u64::from(*slots.start())..u64::from(*slots.end()) + 1;
        if !filter.reads_texts() {
            return hits.list(slots, page)?.load(|slot| cards.card(slot_of(slot)?));
        }
        let mut listed = ListPage::EMPTY;
        for slot in hits.scan(slots, page.order) {
            self.look_at_row()?;
            let card = cards.card(slot_of(slot?)?)?;
            if filter.accepts(&card) {
                listed.add(page, card);
            }
        }
        Ok(listed)
    }

    /// The numbers of cards from `first` on, in the order of their slots, at most `limit`.
    /// Cost: O(log n + limit) rows.
    pub fn sealed_numbers(
        &self,
        first: CardSlot,
        limit: usize,
    ) -> Result<Vec<SealedNumber>, StoreError> {
        let cards = self.table(CARDS.definition())?;
        let rows = cards.range(first.0..)?.take(limit);
        rows.map(|entry| {
            let (slot, row) = entry?;
            let IssuedCard { profile, sealed_pan, .. } = parse(row.value())?;
            Ok(SealedNumber { slot: CardSlot(slot.value()), card: profile.id, sealed_pan })
        })
        .collect()
    }

    /// The number of cards.
    pub fn card_count(&self) -> Result<u64, StoreError> {
        Ok(self.table(CARDS.definition())?.len()?)
    }

    /// Opens everything a card is put together from.
    pub fn card_tables(&self) -> Result<CardTables, StoreError> {
        let usages = self.table(CARD_USAGES.definition())?;
        Ok(CardTables {
            cards: self.table(CARDS.definition())?,
            numbers: CardNumbersReader::new(usages, Arc::clone(&self.tables.numbers)),
        })
    }
}

/// The slot that a set names.
fn slot_of(number: u64) -> Result<CardSlot, StoreError> {
    u32::try_from(number).map(CardSlot).map_err(|_| StoreError::Inconsistent {
        what: format!("a set names card {number}, and there is none"),
    })
}

fn mark_key(mark: CardMark, slot: u32) -> CardMarkKey {
    (mark.kind, mark.owner, slot)
}

/// A page of all cards of a company: the places of the first and the last tell how many.
fn list_all(
    of_company: &ReadOnlyTable<(u32, u32), u64>,
    range: RangeInclusive<(u32, u32)>,
    page: &Page,
) -> Result<ListPage<u32>, StoreError> {
    let first = of_company.range(range.clone())?.next().transpose()?;
    let last = of_company.range(range.clone())?.next_back().transpose()?;
    let (Some((_, first)), Some((_, last))) = (first, last) else { return Ok(ListPage::EMPTY) };
    let count = last.value() - first.value() + 1;
    list::take_page(of_company.range(range)?, page, count)?.load(|(key, _)| Ok(key.value().1))
}

/// Everything a card is put together from.
pub struct CardTables {
    cards: SharedTable<u32, &'static [u8]>,
    numbers: CardNumbersReader,
}

crate::opaque!(CardTables);

impl CardTables {
    /// Hands a card to `look` in place. Cost: no memory of its own.
    pub fn look_at<T>(
        &mut self,
        slot: CardSlot,
        look: impl FnOnce(&PackedCard<'_>) -> T,
    ) -> Result<Option<T>, StoreError> {
        let Some(row) = self.cards.get(slot.0)? else { return Ok(None) };
        let card = view(row.value(), self.numbers.of(slot)?)?;
        Ok(Some(look(&card)))
    }

    /// Gets a card that an index or another row names.
    pub(in crate::store) fn card(&mut self, slot: CardSlot) -> Result<CardRow, StoreError> {
        self.find(slot)?.ok_or_else(|| StoreError::Inconsistent {
            what: format!("{} has no row {}", CARDS.name(), slot.0),
        })
    }

    /// Hands every card to `visit`, in the order of their slots.
    pub(in crate::store) fn each(
        &mut self,
        mut visit: impl FnMut(CardRow),
    ) -> Result<(), StoreError> {
        for entry in self.cards.iter()? {
            let (slot, row) = entry?;
            let card = parse(row.value())?;
            visit(with_numbers(card, self.numbers.of(CardSlot(slot.value()))?));
        }
        Ok(())
    }

    /// Hands every card to `visit`, in the order of their slots.
    /// Cost: reads them in place, without memory for any.
    pub(in crate::store) fn each_in_place(
        &mut self,
        mut visit: impl FnMut(PackedCard<'_>),
    ) -> Result<(), StoreError> {
        for entry in self.cards.iter()? {
            let (slot, row) = entry?;
            visit(view(row.value(), self.numbers.of(CardSlot(slot.value()))?)?);
        }
        Ok(())
    }

    fn find(&mut self, slot: CardSlot) -> Result<Option<CardRow>, StoreError> {
        let Some(row) = self.cards.get(slot.0)? else { return Ok(None) };
        let card = parse(row.value())?;
        Ok(Some(with_numbers(card, self.numbers.of(slot)?)))
    }

    /// The slots of the cards made within the page's time; none where there are no such cards.
    fn created_within(&self, page: &Page) -> Result<Option<RangeInclusive<u32>>, StoreError> {
        let Some(last) = self.cards.last()? else { return Ok(None) };
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
        let Some(entry) = self.cards.range(slot..)?.next() else { return Ok(false) };
        let (_, row) = entry?;
        Ok(parse(row.value())?.profile.created_at < at)
    }
}

fn parse(row: &[u8]) -> Result<IssuedCard, StoreError> {
    rows::unpack(CARDS.name(), row, parse_card)
}

/// The card of a row, in place.
fn view(row: &[u8], numbers: CardNumbers) -> Result<PackedCard<'_>, StoreError> {
    let mut card = rows::unpack(CARDS.name(), row, PackedCard::parse)?;
    card.record.usage = numbers.usage;
    Ok(card)
}

fn with_numbers(card: IssuedCard, CardNumbers { usage, held }: CardNumbers) -> CardRow {
    let IssuedCard { profile, record, sealed_pan } = card;
    CardRow { profile, record: CardRecord { usage, ..record }, held, sealed_pan }
}
