//! The cards that requests are drawn from, packed: a million of them are walked at random, and the
//! client must not be what misses the cache.

use std::path::Path;

use cardswitch_feed::{Card, Portfolio};

use crate::BoxError;

/// The longest card number.
pub const PAN_DIGITS_MAX: usize = 19;

/// The choice of cards of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CardChoice {
    /// The cards that are approved as long as their limits allow.
    Ordinary,
    /// All, also those made to be declined.
    Every,
}

/// Reads the cards that were chosen of a file that `init --cards-out` wrote.
/// Errors: the file is unreadable, or has no such card.
pub fn read_cards(path: &Path, choice: CardChoice) -> Result<Vec<Card>, BoxError> {
    let portfolio = Portfolio::read(path)?;
    let slots: Vec<u32> = match choice {
        CardChoice::Ordinary => portfolio.ordinary.to_vec(),
        CardChoice::Every => (0..).take(portfolio.len()).collect(),
    };
    let cards: Vec<Card> =
        slots.into_iter().filter_map(|slot| portfolio.card(slot)).cloned().collect();
    if cards.is_empty() {
        return Err("no card in the file is ordinary; use `--every-card`".into());
    }
    Ok(cards)
}

/// A small fast stream of random numbers: splitmix64. The same for the same seed.
#[derive(Debug, Clone, Copy)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// The stream of a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below the bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^= word >> 31;
        let scaled = (u128::from(word) * u128::from(bound)) >> 64;
        // INVARIANT: the product's upper half is below the bound.
        u64::try_from(scaled).unwrap_or(0)
    }

    /// A place in a list that is not empty.
    pub fn place(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }
}

/// Fills a place of even width with the last digits of a number, zeros in front.
pub fn patch_digits(place: &mut [u8], number: u64) {
    const PAIRS: &[u8; 200] = b"0001020304050607080910111213141516171819\
2021222324252627282930313233343536373839\
4041424344454647484950515253545556575859\
6061626364656667686970717273747576777879\
8081828384858687888990919293949596979899";
    debug_assert!(place.len().is_multiple_of(2), "digits are written two at a time");
    let mut rest = number;
    for two in place.rchunks_exact_mut(2) {
        let at = usize::try_from(rest % 100).unwrap_or(0) * 2;
        two.copy_from_slice(&PAIRS[at..at + 2]);
        rest /= 100;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_padded_in_front_and_cut_there() {
        for (number, text) in
            [(0, "000000"), (7, "000007"), (123_456, "123456"), (9_990_099, "990099")]
        {
            let mut place = *b"xxxxxx";
            patch_digits(&mut place, number);
            assert_eq!(std::str::from_utf8(&place).unwrap(), text);
        }
    }

    #[test]
    fn draws_stay_below_their_bound_and_reach_every_value() {
        let mut draws = SplitMix64::new(7);
        let mut seen = [0; 10];
        for _ in 0..1_000 {
            seen[draws.place(10)] += 1;
        }
        assert!(seen.iter().all(|count| *count > 50), "seed 7: {seen:?}");
    }
}
