//! The cards: dense records that decisions read, and the rest of each card beside them.
//!
//! | for each card | bytes | read by |
//! |---|---|---|
//! | `CardRecord` | 128, two cache lines | every decision |
//! | `CardHead` | 64, one cache line | every purchase: whose card it is |
//! | texts, packed | as long as they are | admin changes and statement lines |
//! | three index entries | 10 to 12 each | look-ups by card number, card id, allowance id |
//! | an entry under its holder | about 12 | admin changes: what a member holds |
//!
//! Nothing here decides anything; only `apply.rs` changes it.

use super::chunks::Chunks;
use super::held_cards::HeldCards;
use super::index::{Growth, HashIndex, Values, spread};
use super::memory::prefetch;
use super::texts::{TextRef, Texts};
use crate::domain::card::{CardProfile, CardRecord, CardState, Dimensions, PanHash};
use crate::domain::ids::{
    AllowanceId, CardId, CardSlot, CompanySlot, MemberSlot, Slot as _, Timestamp,
};
use crate::packed::{PackedProfile, ProfileTexts};
use uuid::Uuid;

/// Cards that are prefetched at a time: larger groups overlap less of one group's computing with
/// the next group's memory accesses.
const GROUP_LEN: usize = 16;

/// The facts of a card that a purchase needs beside its record, and the place of its texts.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct CardHead {
    id: CardId,
    allowance_id: AllowanceId,
    texts: TextRef,
    created_at: Timestamp,
    pub(super) company: CompanySlot,
    /// A slot, or `NOBODY`.
    assigned_to: u32,
    last_four: [u8; 4],
    /// The marks of its texts.
    marks: u8,
}

const _: () = assert!(size_of::<CardHead>() == 64);

/// Stands for no member.
const NOBODY: u32 = u32::MAX;

impl CardHead {
    /// The holder of the card.
    pub(super) fn assigned_to(&self) -> Option<MemberSlot> {
        (self.assigned_to != NOBODY).then_some(MemberSlot(self.assigned_to))
    }
}

/// Every card of the shard.
#[derive(Clone, Debug)]
pub struct Cards {
    records: Chunks<CardRecord>,
    heads: Chunks<CardHead>,
    texts: Texts,
    /// A buffer in which texts are packed before they are kept.
    packed: Vec<u8>,
    by_pan: HashIndex,
    by_id: HashIndex,
    by_allowance: HashIndex,
    held: HeldCards,
    /// While a start brings cards in, they are entered in no index: see `index_restored`.
    is_restoring: bool,
}

impl Default for Cards {
    fn default() -> Self {
        let index = || HashIndex::with_capacity(Growth::ByQuarters, 0);
        Self {
            records: Chunks::default(),
            heads: Chunks::default(),
            texts: Texts::default(),
            packed: Vec::new(),
            by_pan: index(),
            by_id: index(),
            by_allowance: index(),
            held: HeldCards::default(),
            is_restoring: false,
        }
    }
}

/// Tells the hashes of cards again while their index grows.
struct PanHashes<'a>(&'a Chunks<CardRecord>);
struct IdHashes<'a>(&'a Chunks<CardHead>);
struct AllowanceHashes<'a>(&'a Chunks<CardHead>);

impl Values for PanHashes<'_> {
    fn hash_of(&self, value: u32, known: u64) -> u64 {
        self.0.get(CardSlot(value)).map_or(known, |record| spread(record.pan_hash.0))
    }
}

impl Values for IdHashes<'_> {
    fn hash_of(&self, value: u32, known: u64) -> u64 {
        self.0.get(CardSlot(value)).map_or(known, |head| hash_of_id(head.id.0))
    }
}

impl Values for AllowanceHashes<'_> {
    fn hash_of(&self, value: u32, known: u64) -> u64 {
        self.0.get(CardSlot(value)).map_or(known, |head| hash_of_id(head.allowance_id.0))
    }
}

fn hash_of_id(id: Uuid) -> u64 {
    let (high, low) = id.as_u64_pair();
    spread(spread(high) ^ low)
}

// Enter a card into an index; the newest card has a number or an id that comes twice.

fn enter_pan(index: &mut HashIndex, records: &Chunks<CardRecord>, slot: CardSlot) {
    let pan = records.at(slot).pan_hash;
    let hash = spread(pan.0);
    if !index.replace(hash, slot.0, |known| records.at(CardSlot(known)).pan_hash == pan) {
        index.insert(hash, slot.0, &PanHashes(records));
    }
}

fn enter_id(index: &mut HashIndex, heads: &Chunks<CardHead>, slot: CardSlot) {
    let id = heads.at(slot).id;
    let hash = hash_of_id(id.0);
    if !index.replace(hash, slot.0, |known| heads.at(CardSlot(known)).id == id) {
        index.insert(hash, slot.0, &IdHashes(heads));
    }
}

fn enter_allowance(index: &mut HashIndex, heads: &Chunks<CardHead>, slot: CardSlot) {
    let id = heads.at(slot).allowance_id;
    let hash = hash_of_id(id.0);
    if !index.replace(hash, slot.0, |known| heads.at(CardSlot(known)).allowance_id == id) {
        index.insert(hash, slot.0, &AllowanceHashes(heads));
    }
}

/// Enters every card into one index; its lines are asked for by groups.
fn index_all(
    index: &mut HashIndex,
    len: usize,
    hash_of: impl Fn(CardSlot) -> u64,
    enter: impl Fn(&mut HashIndex, CardSlot),
) {
    // INVARIANT: there are fewer cards than a slot can number.
    let len = u32::try_from(len).unwrap_or(u32::MAX);
    for start in (0..len).step_by(GROUP_LEN) {
        let group = (start..len).take(GROUP_LEN).map(CardSlot);
        group.clone().for_each(|slot| index.prefetch(hash_of(slot)));
        group.for_each(|slot| enter(index, slot));
    }
}

impl Cards {
    /// The number of cards.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there is no card.
    pub fn is_empty(&self) -> bool {
        self.records.len() == 0
    }

    /// Adds a card that is made, behind all others.
    pub fn issue(&mut self, profile: &CardProfile, record: CardRecord) {
        let mut packed = std::mem::take(&mut self.packed);
        packed.clear();
        self.push(&PackedProfile::pack(profile, &mut packed), record);
        self.packed = packed;
    }

    /// Adds a card behind all others.
    pub fn push(&mut self, profile: &PackedProfile<'_>, record: CardRecord) {
        let slot = profile.slot;
        assert!(slot.index() == self.len(), "cards are issued slot after slot");
        let head = self.head_of(profile, None);
        self.records.push(record);
        self.heads.push(head);
        if !self.is_restoring {
            let (records, heads) = (&self.records, &self.heads);
            enter_pan(&mut self.by_pan, records, slot);
            enter_id(&mut self.by_id, heads, slot);
            enter_allowance(&mut self.by_allowance, heads, slot);
            self.hold(slot);
        }
    }

    /// Makes room in empty indexes for so many cards, so that a restart grows none of them, and leaves
    /// the cards that come out of them until `index_restored`.
    pub fn begin_restore(&mut self, cards: usize) {
        assert!(self.is_empty(), "a restart begins with no cards");
        for index in [&mut self.by_pan, &mut self.by_id, &mut self.by_allowance] {
            *index = HashIndex::with_capacity(Growth::ByQuarters, cards);
        }
        self.is_restoring = true;
    }

    /// Enters all cards that a restart has brought in into the indexes, each on a thread of its own.
    pub fn index_restored(&mut self) {
        let Self { records, heads, by_pan, by_id, by_allowance, held, .. } = self;
        let (records, heads) = (&*records, &*heads);
        std::thread::scope(|scope| {
            let hash_of = |slot| spread(records.at(slot).pan_hash.0);
            scope.spawn(move || {
                index_all(by_pan, records.len(), hash_of, |index, slot| {
                    enter_pan(index, records, slot);
                });
            });
            let hash_of = |slot| hash_of_id(heads.at(slot).id.0);
            scope.spawn(move || {
                index_all(by_id, heads.len(), hash_of, |index, slot| enter_id(index, heads, slot));
                *held = HeldCards::gather(all_held(records, heads));
            });
            let hash_of = |slot| hash_of_id(heads.at(slot).allowance_id.0);
            index_all(by_allowance, heads.len(), hash_of, |index, slot| {
                enter_allowance(index, heads, slot);
            });
        });
        self.is_restoring = false;
    }

    /// Asks for the record of a card, which is there.
    pub(super) fn prefetch_slot(&self, slot: CardSlot) {
        if let Some(record) = self.records.get(slot) {
            prefetch(&record.usage);
            prefetch(&record.terms);
        }
    }

    /// The part of a card that decisions read. Panics: if there is no such card.
    #[inline]
    pub fn record(&self, slot: CardSlot) -> &CardRecord {
        self.records.at(slot)
    }

    pub(super) fn record_mut(&mut self, slot: CardSlot) -> &mut CardRecord {
        self.records.at_mut(slot)
    }

    /// Every record, slot after slot.
    pub(super) fn records(&self) -> impl Iterator<Item = &CardRecord> {
        self.records.iter()
    }

    #[inline]
    pub(super) fn head(&self, slot: CardSlot) -> &CardHead {
        self.heads.at(slot)
    }

    /// The card with this number.
    #[inline]
    pub fn find_by_pan(&self, pan: PanHash) -> Option<CardSlot> {
        let has_pan = |known| self.records.at(CardSlot(known)).pan_hash == pan;
        self.by_pan.find(spread(pan.0), has_pan).map(CardSlot)
    }

    /// The card with this id.
    pub fn find_by_id(&self, id: CardId) -> Option<CardSlot> {
        let has_id = |known| self.heads.at(CardSlot(known)).id == id;
        self.by_id.find(hash_of_id(id.0), has_id).map(CardSlot)
    }

    /// The card with this allowance.
    pub fn find_by_allowance(&self, id: AllowanceId) -> Option<CardSlot> {
        let has_id = |known| self.heads.at(CardSlot(known)).allowance_id == id;
        self.by_allowance.find(hash_of_id(id.0), has_id).map(CardSlot)
    }

    /// First of two steps ahead of `find_by_pan`: asks for the line of the index.
    #[inline]
    pub fn prefetch_pan(&self, pan: PanHash) {
        self.by_pan.prefetch(spread(pan.0));
    }

    /// Second step: asks for the record that this number most likely leads to, and returns its slot.
    #[inline]
    pub fn prefetch_record(&self, pan: PanHash) -> Option<CardSlot> {
        let slot = CardSlot(self.by_pan.find(spread(pan.0), |_| true)?);
        let record = self.records.at(slot);
        prefetch(&record.pan_hash);
        prefetch(&record.terms);
        Some(slot)
    }

    /// Finds the cards of these numbers, in order; `visit` gets the place in `pans` and the card.
    /// The lines of a group are asked for stage by stage, so that the memory serves many at a time.
    /// Cost: about what reading three lines a card takes that nobody waits for in turn.
    pub fn find_each(&self, pans: &[PanHash], mut visit: impl FnMut(usize, Option<&CardRecord>)) {
        for (group, pans) in pans.chunks(GROUP_LEN).enumerate() {
            pans.iter().for_each(|pan| self.prefetch_pan(*pan));
            let mut likely = [None; GROUP_LEN];
            for (slot, pan) in likely.iter_mut().zip(pans) {
                *slot = self.prefetch_record(*pan);
            }
            for (place, (slot, pan)) in likely.iter().zip(pans).enumerate() {
                visit(group * GROUP_LEN + place, self.record_with(*slot, *pan));
            }
        }
    }

    /// The record of the card with this number, which most likely stands in `likely`.
    fn record_with(&self, likely: Option<CardSlot>, pan: PanHash) -> Option<&CardRecord> {
        likely
            .map(|slot| self.record(slot))
            .filter(|record| record.pan_hash == pan)
            .or_else(|| self.find_by_pan(pan).map(|slot| self.record(slot)))
    }

    /// Asks for the line that says whose card it is.
    #[inline]
    pub(super) fn prefetch_head(&self, slot: CardSlot) {
        prefetch(self.heads.at(slot));
    }

    /// The part of a card that people set and see. Cost: unpacks its texts.
    pub(super) fn profile(&self, slot: CardSlot) -> CardProfile {
        let head = self.heads.at(slot);
        let packed = PackedProfile {
            slot,
            id: head.id,
            allowance_id: head.allowance_id,
            company: head.company,
            last_four: head.last_four,
            assigned_to: head.assigned_to(),
            created_at: head.created_at,
            texts: self.texts_of(slot),
        };
        packed.to_profile()
    }

    fn texts_of(&self, slot: CardSlot) -> ProfileTexts<'_> {
        let head = self.heads.at(slot);
        ProfileTexts::known(head.marks, self.texts.get(head.texts))
    }

    /// The dimensions a new transaction of the card receives.
    pub(super) fn dimensions(&self, slot: CardSlot) -> Dimensions {
        let has_any = ProfileTexts::has_dimensions(self.heads.at(slot).marks);
        if has_any { self.texts_of(slot).dimensions() } else { Dimensions::default() }
    }

    /// The description of the card.
    pub(super) fn description(&self, slot: CardSlot) -> &str {
        self.texts_of(slot).description()
    }

    /// The cards of a member that are not terminated, the oldest first.
    pub(super) fn held_by(&self, member: MemberSlot) -> impl Iterator<Item = CardSlot> {
        self.held.of(member)
    }

    /// Forgets that somebody holds a card, which is terminated now.
    pub(super) fn let_go(&mut self, slot: CardSlot) {
        if let Some(member) = self.heads.at(slot).assigned_to() {
            self.held.remove(member, slot);
        }
    }

    fn hold(&mut self, slot: CardSlot) {
        if let Some(member) = holder_of(&self.records, &self.heads, slot) {
            self.held.insert(member, slot);
        }
    }

    /// Puts another profile in the place of a card's own.
    pub(super) fn set_profile(&mut self, profile: &CardProfile) {
        let known = *self.heads.at(profile.slot);
        assert!(
            known.id == profile.id && known.allowance_id == profile.allowance_id,
            "a card and its allowance keep their ids"
        );
        let mut packed = std::mem::take(&mut self.packed);
        packed.clear();
        let head = self.head_of(&PackedProfile::pack(profile, &mut packed), Some(known.texts));
        self.packed = packed;
        if head.assigned_to != known.assigned_to {
            self.let_go(profile.slot);
        }
        *self.heads.at_mut(profile.slot) = head;
        self.hold(profile.slot);
        if self.texts.is_wasteful() {
            self.texts.compact(self.heads.iter_mut().map(|head| &mut head.texts));
        }
    }

    fn head_of(&mut self, profile: &PackedProfile<'_>, replaced: Option<TextRef>) -> CardHead {
        CardHead {
            id: profile.id,
            allowance_id: profile.allowance_id,
            texts: self.texts.put(profile.texts.bytes, replaced),
            created_at: profile.created_at,
            company: profile.company,
            assigned_to: profile.assigned_to.map_or(NOBODY, |member| member.0),
            last_four: profile.last_four,
            marks: profile.texts.marks,
        }
    }

    /// Memory taken beside names and addresses themselves. Units: bytes.
    pub fn bytes(&self) -> usize {
        let indexes = [&self.by_pan, &self.by_id, &self.by_allowance];
        self.len() * (size_of::<CardRecord>() + size_of::<CardHead>())
            + indexes.iter().map(|index| index.bytes()).sum::<usize>()
            + self.held.bytes()
            + self.texts.bytes()
    }
}

/// The holder of a card; none if it is terminated.
fn holder_of(
    records: &Chunks<CardRecord>,
    heads: &Chunks<CardHead>,
    slot: CardSlot,
) -> Option<MemberSlot> {
    let is_open = records.at(slot).usage.state != CardState::Terminated;
    heads.at(slot).assigned_to().filter(|_| is_open)
}

/// Every member with every card it holds. Cost: O(cards).
fn all_held(
    records: &Chunks<CardRecord>,
    heads: &Chunks<CardHead>,
) -> impl Iterator<Item = (MemberSlot, CardSlot)> {
    let slots = (0..records.len()).filter_map(CardSlot::next_after);
    slots.filter_map(move |slot| Some((holder_of(records, heads, slot)?, slot)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::account::AccountBalances;
    use crate::domain::allowance::{AllowanceTerms, CardUsage};
    use crate::domain::business_date::BusinessDate;
    use crate::domain::card::CardTexts;
    use crate::domain::company::Address;
    use crate::domain::credential::{PackedZip, PinVerifier};
    use crate::domain::ids::{AccountSlot, DimensionId};
    use crate::domain::money::Minor;

    fn record(number: u32) -> CardRecord {
        CardRecord {
            pan_hash: PanHash(u64::from(number) * 7 + 1),
            pin: PinVerifier::default(),
            zip: PackedZip::default(),
            account: AccountSlot(0),
            expires_on: BusinessDate(30_000),
            usage: CardUsage::default(),
            terms: AllowanceTerms::budget(Minor(1_000)),
        }
    }

    fn profile(number: u32) -> CardProfile {
        let address = |line: &str| Address {
            address_1: line.repeat(40).parse().unwrap(),
            ..Address::default()
        };
        let dimension = DimensionId(Uuid::from_u128(77));
        CardProfile {
            slot: CardSlot(number),
            id: CardId(Uuid::from_u128(u128::from(number) << 64 | 1)),
            allowance_id: AllowanceId(Uuid::from_u128(u128::from(number) << 64 | 2)),
            company: CompanySlot(number % 3),
            texts: CardTexts::from_fn(|name| name.repeat(number as usize % 4)),
            is_virtual: number.is_multiple_of(2),
            last_four: *b"1234",
            assigned_to: number.is_multiple_of(3).then_some(MemberSlot(number)),
            dimensions: [None, number.is_multiple_of(5).then_some(dimension), None, None],
            billing_address: number.is_multiple_of(7).then(|| address("street")),
            shipping_address: number.is_multiple_of(11).then(|| address("road")),
            created_at: Timestamp(i64::from(number)),
        }
    }

    #[test]
    fn cards_are_found_and_their_profiles_are_as_they_were_put() {
        const COUNT: u32 = 5_000;
        let mut cards = Cards::default();
        for number in 0..COUNT {
            cards.issue(&profile(number), record(number));
        }
        let mut changed = profile(77);
        changed.texts.description = "longer than it was".repeat(20);
        changed.assigned_to = None;
        cards.set_profile(&changed);
        for number in 0..COUNT {
            let slot = CardSlot(number);
            let expected = if number == 77 { changed.clone() } else { profile(number) };
            assert_eq!(cards.profile(slot), expected);
            assert_eq!(cards.find_by_pan(record(number).pan_hash), Some(slot));
            assert_eq!(cards.find_by_id(expected.id), Some(slot));
            assert_eq!(cards.find_by_allowance(expected.allowance_id), Some(slot));
            assert_eq!(cards.dimensions(slot), expected.dimensions);
        }
        let pans: Vec<_> = (0..COUNT + 1).map(|number| record(number).pan_hash).collect();
        let mut visited = 0;
        cards.find_each(&pans, |place, found| {
            assert_eq!(
                found.map(|record| record.pan_hash),
                pans.get(place).copied().filter(|_| place < COUNT as usize)
            );
            visited += 1;
        });
        assert_eq!(visited, pans.len());
        assert_eq!(cards.find_by_pan(PanHash(3)), None);
        assert_eq!(cards.clone().profile(CardSlot(77)), changed);
    }

    #[test]
    fn texts_that_change_for_ever_take_no_more_room() {
        let mut cards = Cards::default();
        for number in 0..100 {
            cards.issue(&profile(number), record(number));
        }
        let mut wordy = profile(5);
        for length in 0..100_000 {
            wordy.texts.description = "x".repeat(length % 300);
            cards.set_profile(&wordy);
        }
        assert_eq!(cards.profile(CardSlot(5)), wordy);
        assert_eq!(cards.profile(CardSlot(6)), profile(6));
        assert!(cards.texts.bytes() < 4 << 20);
    }

    #[test]
    fn a_card_takes_no_more_than_it_may_beyond_its_name() {
        const COUNT: u32 = 250_000;
        let mut cards = Cards::default();
        let mut texts = 0;
        for number in 0..COUNT {
            let plain = CardProfile {
                billing_address: None,
                shipping_address: None,
                dimensions: [None; 4],
                ..profile(number)
            };
            texts += plain.texts.named().iter().map(|(_, text)| text.len()).sum::<usize>();
            cards.issue(&plain, record(number));
        }
        let beyond_names = (cards.bytes() - texts) / COUNT as usize;
        println!("{beyond_names} bytes a card");
        assert!(beyond_names + size_of::<AccountBalances>() / 1_000 <= 250, "{beyond_names}");
    }
}
