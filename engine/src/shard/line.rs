//! Compares the eight entries of an index line at once.
//!
//! Results are the same on any processor. The instructions used here are part of every x86-64;
//! others go from entry to entry.

#![expect(unsafe_code, reason = "vector instructions have no safe form")]

use super::index::LINE_LEN;

/// The places of a line whose entries have `head` in their upper half, but for its `unknown_bits`
/// lowest bits: one bit each.
#[inline]
pub(super) fn places_with_head(line: &[u64; LINE_LEN], head: u32, unknown_bits: u32) -> u32 {
    let known = u32::MAX << unknown_bits;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE2 is part of every x86-64 processor; no memory is touched but the line's.
    let places = unsafe { compare_at_once(line, head & known, known) };
    #[cfg(not(target_arch = "x86_64"))]
    let places = compare_each(line, head & known, known);
    places
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse2")]
#[inline]
fn compare_at_once(line: &[u64; LINE_LEN], head: u32, known: u32) -> u32 {
    use std::arch::x86_64::{
        _mm_and_si128, _mm_castps_si128, _mm_castsi128_ps, _mm_cmpeq_epi32, _mm_movemask_epi8,
        _mm_packs_epi16, _mm_packs_epi32, _mm_set_epi64x, _mm_set1_epi32, _mm_setzero_si128,
        _mm_shuffle_ps,
    };
    let (head, known) = (_mm_set1_epi32(head.cast_signed()), _mm_set1_epi32(known.cast_signed()));
    let two = |at: usize| {
        let [first, second] = [line[at].cast_signed(), line[at + 1].cast_signed()];
        _mm_castsi128_ps(_mm_set_epi64x(second, first))
    };
    let four_are = |at: usize| {
        let heads = _mm_castps_si128(_mm_shuffle_ps::<0b11_01_11_01>(two(at), two(at + 2)));
        _mm_cmpeq_epi32(_mm_and_si128(heads, known), head)
    };
    let eight_are = _mm_packs_epi32(four_are(0), four_are(4));
    _mm_movemask_epi8(_mm_packs_epi16(eight_are, _mm_setzero_si128())).cast_unsigned()
}

#[cfg(any(test, not(target_arch = "x86_64")))]
fn compare_each(line: &[u64; LINE_LEN], head: u32, known: u32) -> u32 {
    let is_it = |place: usize| u32::from((line[place] >> 32) as u32 & known == head) << place;
    (0..LINE_LEN).fold(0, |places, place| places | is_it(place))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::testing::next_random;

    #[test]
    fn a_line_compared_at_once_is_as_compared_entry_by_entry() {
        let mut random = 5;
        for round in 0..20_000_u32 {
            let unknown_bits = round % 30;
            // Few different heads, so that many places are alike.
            let mut word = || next_random(&mut random);
            let heads = [word(), word(), word() >> 60 << 32, 0];
            let line: [u64; LINE_LEN] = std::array::from_fn(|_| {
                heads[(word() % 4) as usize] ^ (word() >> 32 & 0x1_0000_0001)
            });
            let head = (heads[(word() % 4) as usize] >> 32) as u32;
            let known = u32::MAX << unknown_bits;
            assert_eq!(
                places_with_head(&line, head, unknown_bits),
                compare_each(&line, head & known, known),
                "{line:x?} {head:x} {unknown_bits}"
            );
        }
    }
}
