//! A cache of facts that never change in the tables, so that the network's requests need not read
//! them again: the currency of a card's account, by the card's number or with the number's hash by
//! its id, and the network key of one view of the tables.
//!
//! INVARIANT: only what is there is remembered. A card keeps its id, number and account for ever and
//! an account its currency; that a card is not there is asked again each time.

use std::sync::atomic::{AtomicU64, Ordering};

use cardswitch_engine::domain::card::PanHash;
use cardswitch_engine::domain::ids::{CardId, CardSlot, RecordSeq};
use cardswitch_engine::domain::money::CurrencyCode;
use parking_lot::Mutex;

/// How many cards are remembered at most, in eight bytes each; one that is met later takes the
/// place of another.
const CARDS_MAX: usize = 1 << 18;
/// The bits of a hash that its place does not say already have room above the currency.
const CURRENCY_BITS: u32 = 16;
const _: () = assert!(CARDS_MAX >= 1 << CURRENCY_BITS && CARDS_MAX.is_power_of_two());
/// The same of those named by their id, in 64 bytes each.
const NAMED_CARDS_MAX: usize = 1 << 16;

/// The facts of a card that never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardFacts {
    /// Its public id.
    pub id: CardId,
    /// Its place.
    pub slot: CardSlot,
    /// The hash of its number.
    pub pan_hash: PanHash,
    /// The last four digits of its number.
    pub last_four: [u8; 4],
    /// The currency of the account that pays.
    pub currency: CurrencyCode,
}

/// The remembered facts.
pub(crate) struct NetworkFacts {
    /// At the low bits of a card's hash: the others, and the currency in their stead; zero for none.
    currencies: Box<[AtomicU64]>,
    /// At the low bits of a card's id.
    named: Box<[Mutex<Option<CardFacts>>]>,
    network_key: Mutex<Option<DatedKey>>,
}

/// The digest of the network key in tables that had come so far.
#[derive(Clone, Copy)]
struct DatedKey {
    applied: RecordSeq,
    digest: Option<[u8; 32]>,
}

impl Default for NetworkFacts {
    fn default() -> Self {
        let currencies = std::iter::repeat_with(AtomicU64::default).take(CARDS_MAX).collect();
        let named = std::iter::repeat_with(Mutex::default).take(NAMED_CARDS_MAX).collect();
        Self { currencies, named, network_key: Mutex::new(None) }
    }
}

cardswitch_engine::opaque!(NetworkFacts);

impl NetworkFacts {
    /// The currency of the account that pays for a card.
    pub(crate) fn currency(&self, card: PanHash) -> Option<CurrencyCode> {
        let entry = self.place(card)?.load(Ordering::Relaxed);
        let is_card = entry >> CURRENCY_BITS == card.0 >> CURRENCY_BITS;
        let currency = u16::try_from(entry & u64::from(u16::MAX)).ok().filter(|code| *code != 0)?;
        is_card.then_some(CurrencyCode(currency))
    }

    /// Remembers the currency of the account that pays for a card.
    pub(crate) fn remember_currency(&self, card: PanHash, currency: CurrencyCode) {
        let entry = card.0 >> CURRENCY_BITS << CURRENCY_BITS | u64::from(currency.0);
        if let Some(place) = self.place(card) {
            place.store(entry, Ordering::Relaxed);
        }
    }

    pub(crate) fn card(&self, id: CardId) -> Option<CardFacts> {
        let known = *self.named_place(id)?.lock();
        known.filter(|card| card.id == id)
    }

    pub(crate) fn remember_card(&self, card: CardFacts) {
        if let Some(place) = self.named_place(card.id) {
            *place.lock() = Some(card);
        }
    }

    fn named_place(&self, id: CardId) -> Option<&Mutex<Option<CardFacts>>> {
        // The last bits of an id are random.
        let place = id.0.as_u128() % self.named.len() as u128;
        self.named.get(usize::try_from(place).ok()?)
    }

    /// The network key in tables that have come this far, `read` from them where it is not known.
    /// `applied` is the progress of the tables before the call: a key read may be newer, never
    /// older.
    /// Errors: those of `read`.
    pub(crate) fn network_key<E>(
        &self,
        applied: RecordSeq,
        read: impl FnOnce() -> Result<Option<[u8; 32]>, E>,
    ) -> Result<Option<[u8; 32]>, E> {
        let known = *self.network_key.lock();
        if let Some(known) = known.filter(|known| known.applied == applied) {
            return Ok(known.digest);
        }
        let digest = read()?;
        *self.network_key.lock() = Some(DatedKey { applied, digest });
        Ok(digest)
    }

    fn place(&self, card: PanHash) -> Option<&AtomicU64> {
        let place = card.0 % self.currencies.len() as u64;
        self.currencies.get(usize::try_from(place).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn cards_have_the_currency_last_remembered_or_none() {
        let known = NetworkFacts::default();
        let (usd, eur) = (CurrencyCode(840), CurrencyCode(978));
        let cards = [0, 1, u64::MAX, 0x1234_5678_9abc_def0].map(PanHash);
        for card in cards {
            assert_eq!(known.currency(card), None);
            known.remember_currency(card, usd);
        }
        known.remember_currency(cards[1], eur);
        let currencies = cards.map(|card| known.currency(card));
        assert_eq!(currencies, [Some(usd), Some(eur), Some(usd), Some(usd)]);
    }

    #[test]
    fn hashes_that_differ_in_one_bit_are_two_cards() {
        let (known, card) = (NetworkFacts::default(), 0x1234_5678_9abc_def0);
        known.remember_currency(PanHash(card), CurrencyCode(840));
        for bit in 0..u64::BITS {
            assert_eq!(known.currency(PanHash(card ^ 1 << bit)), None, "bit {bit}");
        }
        known.remember_currency(PanHash(card ^ 1 << 40), CurrencyCode(978));
        assert_eq!(known.currency(PanHash(card)), None, "the place was taken");
    }

    #[test]
    fn of_two_cards_of_one_place_the_later_is_known_by_its_id() {
        let known = NetworkFacts::default();
        let ids = [7, 7 + NAMED_CARDS_MAX as u128, 8].map(|id| CardId(Uuid::from_u128(id)));
        let facts = ids.map(|id| CardFacts {
            id,
            slot: CardSlot(1),
            pan_hash: PanHash(2),
            last_four: *b"1234",
            currency: CurrencyCode(840),
        });
        facts.iter().for_each(|facts| known.remember_card(*facts));
        assert_eq!(ids.map(|id| known.card(id)), [None, Some(facts[1]), Some(facts[2])]);
    }

    #[test]
    fn the_network_key_is_read_again_when_the_tables_have_moved() {
        let known = NetworkFacts::default();
        let key = |applied, digest: Option<[u8; 32]>| {
            known.network_key(RecordSeq(applied), || Ok::<_, ()>(digest)).unwrap()
        };
        assert_eq!(key(1, None), None);
        assert_eq!(key(1, Some([1; 32])), None);
        assert_eq!(key(2, Some([1; 32])), Some([1; 32]));
        assert_eq!(key(2, Some([2; 32])), Some([1; 32]));
        assert_eq!(known.network_key(RecordSeq(3), || Err("broken")), Err("broken"));
        assert_eq!(key(4, Some([2; 32])), Some([2; 32]));
    }
}
