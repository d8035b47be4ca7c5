//! Sorts the entries of one commit, by keys half as long as they are.

use super::Entry;

/// Bits of a key for the place of its entry; above are the highest bits of its major.
const PLACE_BITS: u32 = 20;
const PLACE_MASK: u64 = (1 << PLACE_BITS) - 1;

/// Sorts entries. Those of one major come in the order of their minors, nearly always, so that
/// majors and places tell the order of all; where they do not, the entries themselves are compared.
/// Cost: O(n log n).
pub(super) fn sort(entries: &mut Vec<Entry>) {
    if entries.len() >> PLACE_BITS == 0 {
        *entries = by_places(entries);
    }
    if !entries.is_sorted() {
        entries.sort_unstable();
    }
}

fn by_places(entries: &[Entry]) -> Vec<Entry> {
    let majors = entries.iter().fold(0, |bits, entry| bits | entry.major());
    let shift = (u64::BITS - majors.leading_zeros()).saturating_sub(u64::BITS - PLACE_BITS);
    let key_of = |(place, entry): (u64, &Entry)| entry.major() >> shift << PLACE_BITS | place;
    let mut keys: Vec<u64> = (0..).zip(entries).map(key_of).collect();
    keys.sort_unstable();
    let place_of = |key: &u64| usize::try_from(key & PLACE_MASK).ok();
    keys.iter().filter_map(|key| entries.get(place_of(key)?).copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::testing::next_random;

    #[test]
    fn entries_of_any_majors_and_any_order_are_sorted() {
        for seed in 0..60_u64 {
            println!("seed {seed}");
            let mut random = seed;
            let mut next = |bits: u64| next_random(&mut random) >> (64 - bits);
            // From one list to whole hashes, and hashes that differ in their lowest bits only.
            let major_bits = 1 + seed % 64;
            let above = if seed % 3 == 0 { 1 << 63 } else { 0 };
            let count = next(11);
            let is_in_order = seed % 2 == 0;
            let mut entries: Vec<_> = (0..count)
                .map(|place| {
                    Entry::new(above | next(major_bits), if is_in_order { place } else { next(4) })
                })
                .collect();
            let mut expected = entries.clone();
            expected.sort();
            sort(&mut entries);
            assert_eq!(entries, expected);
        }
    }
}
