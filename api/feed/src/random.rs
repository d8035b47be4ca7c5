//! The feed's random stream: seeded, portable, the same on every machine.
//!
//! Integers only. A logarithm or a power may differ in its last bit between machines, so the
//! waiting times come from comparisons (von Neumann's method) and the amounts from a table.
//!
//! INVARIANT: purchase number `n` draws from a stream of its own, so what it is does not depend
//! on what was answered to the purchases before it.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// A seeded stream of draws.
pub(super) struct Draws(ChaCha8Rng);

impl Draws {
    /// Opens one of the streams of a seed.
    pub(super) fn new(seed: u64, stream: u64) -> Self {
        let mut source = ChaCha8Rng::seed_from_u64(seed);
        source.set_stream(stream);
        Self(source)
    }

    /// A number below `limit`; zero where the limit is zero.
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        let wide = u128::from(self.0.next_u64()) * u128::from(limit);
        u64::try_from(wide >> 64).unwrap_or(u64::MAX)
    }

    /// A number between two, both included.
    pub(super) fn between(&mut self, least: u64, greatest: u64) -> u64 {
        least + self.below(greatest.saturating_sub(least).saturating_add(1))
    }

    /// True so many times in a thousand.
    pub(super) fn per_mille(&mut self, chance: u64) -> bool {
        self.below(1000) < chance
    }

    /// A random item; `None` of none.
    pub(super) fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(usize::try_from(self.below(items.len() as u64)).ok()?)
    }

    /// The first index whose running total of weights exceeds a draw. Totals ascend.
    pub(super) fn weighted(&mut self, totals: &[u64]) -> usize {
        let draw = self.below(totals.last().copied().unwrap_or(0));
        totals.partition_point(|total| *total <= draw).min(totals.len().saturating_sub(1))
    }

    /// An exponentially distributed number with mean one. Units: 2^-32.
    pub(super) fn exponential_q32(&mut self) -> u64 {
        let mut whole = 0_u64;
        loop {
            let first = self.0.next_u32();
            let (mut last, mut run) = (first, 1_u32);
            loop {
                let next = self.0.next_u32();
                if next >= last {
                    break;
                }
                last = next;
                run += 1;
            }
            if run % 2 == 1 {
                return (whole << 32) | u64::from(first);
            }
            whole += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_times_have_mean_one_and_the_right_tail() {
        let mut draws = Draws::new(7, 0);
        let count = 100_000_u64;
        let (mut sum, mut beyond_two) = (0_u128, 0_u64);
        for _ in 0..count {
            let wait = draws.exponential_q32();
            sum += u128::from(wait);
            beyond_two += u64::from(wait > 2 << 32);
        }
        let mean_mille = (sum * 1000 / u128::from(count)) >> 32;
        assert!((985..=1015).contains(&mean_mille), "seed 7: mean {mean_mille}");
        // e^-2 is 135.3 in a thousand.
        assert!((131_000..=140_000).contains(&(beyond_two * 1_000_000 / count)), "{beyond_two}");
    }

    #[test]
    fn streams_differ_and_repeat() {
        assert_eq!(numbers(1, 5), numbers(1, 5));
        assert_ne!(numbers(1, 5), numbers(1, 6));
        assert_ne!(numbers(1, 5), numbers(2, 5));
    }

    fn numbers(seed: u64, stream: u64) -> Vec<u64> {
        let mut draws = Draws::new(seed, stream);
        (0..8).map(|_| draws.below(1 << 40)).collect()
    }

    #[test]
    fn weights_are_kept() {
        let mut draws = Draws::new(3, 0);
        let mut hits = [0_u32; 3];
        for _ in 0..10_000 {
            hits[draws.weighted(&[10, 10, 100])] += 1;
        }
        assert_eq!(hits[1], 0);
        assert!((850..1150).contains(&hits[0]), "{hits:?}");
    }
}
