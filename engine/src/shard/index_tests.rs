//! The index against a plain map, through every way it grows, and with values that die.

use std::collections::BTreeMap;

use super::*;

/// Values are positions in a list of keys; those below the floor are dead.
#[derive(Default)]
struct Keys {
    keys: Vec<u64>,
    floor: u32,
    /// Whether nobody can tell the key of a value.
    is_forgetful: bool,
}

impl Values for Keys {
    fn has_dead(&self) -> bool {
        self.floor > 0
    }

    fn is_dead(&self, value: u32) -> bool {
        value < self.floor
    }

    fn hash_of(&self, value: u32, known: u64) -> u64 {
        if self.is_forgetful { known } else { spread(self.keys[value as usize]) }
    }
}

fn add(index: &mut HashIndex, keys: &mut Keys, key: u64) {
    let value = u32::try_from(keys.keys.len()).unwrap();
    keys.keys.push(key);
    index.insert(spread(key), value, keys);
}

fn find(index: &HashIndex, keys: &Keys, key: u64) -> Option<u32> {
    index.find(spread(key), |value| value >= keys.floor && keys.keys[value as usize] == key)
}

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    spread(*state)
}

#[test]
fn every_key_is_found_at_every_size_and_no_other() {
    for growth in [Growth::ByQuarters, Growth::Doubling] {
        let mut index = HashIndex::with_capacity(growth, 0);
        let mut keys = Keys { is_forgetful: growth == Growth::Doubling, ..Keys::default() };
        let mut state = 7;
        for count in 0..60_000u32 {
            let key = random(&mut state);
            add(&mut index, &mut keys, key);
            let probe = keys.keys[usize::try_from(key % u64::from(count + 1)).unwrap()];
            assert!(find(&index, &keys, probe).is_some(), "{growth:?} {count}");
            assert_eq!(find(&index, &keys, key ^ 1), None);
        }
        for (value, key) in keys.keys.iter().enumerate() {
            assert_eq!(
                find(&index, &keys, *key),
                Some(u32::try_from(value).unwrap()),
                "{growth:?}"
            );
        }
        let bytes_per_key = index.bytes() / keys.keys.len();
        let most = if growth == Growth::Doubling { 30 } else { 22 };
        assert!(bytes_per_key < most, "{growth:?}: {bytes_per_key} bytes a key");
    }
}

#[test]
fn neighbouring_keys_and_keys_in_high_bits_are_spread() {
    for shift in [0, 20, 44] {
        let mut index = HashIndex::with_capacity(Growth::ByQuarters, 1_000);
        let mut keys = Keys::default();
        for key in 0..50_000u64 {
            add(&mut index, &mut keys, key << shift);
        }
        assert!(index.overflow.is_empty(), "keys crowd into few lines at shift {shift}");
        for key in 0..50_000u64 {
            assert_eq!(find(&index, &keys, key << shift), Some(u32::try_from(key).unwrap()));
        }
    }
}

#[test]
fn what_dies_makes_room_and_the_table_stays_as_it_is() {
    const LIVE: u32 = 4_000;
    for growth in [Growth::ByQuarters, Growth::Doubling] {
        let mut index = HashIndex::with_capacity(growth, 2 * LIVE as usize);
        let mut keys = Keys { is_forgetful: growth == Growth::Doubling, ..Keys::default() };
        let (mut state, bytes) = (99, index.bytes());
        for count in 0..200_000u32 {
            let key = random(&mut state);
            add(&mut index, &mut keys, key);
            keys.floor = count.saturating_sub(LIVE);
            if count.is_multiple_of(97) {
                let oldest = keys.keys[keys.floor as usize];
                assert_eq!(find(&index, &keys, oldest), Some(keys.floor), "{growth:?} {count}");
            }
        }
        assert_eq!(index.bytes(), bytes, "{growth:?}: dead entries make nothing grow");
        for value in keys.floor..u32::try_from(keys.keys.len()).unwrap() {
            assert_eq!(find(&index, &keys, keys.keys[value as usize]), Some(value));
        }
    }
}

#[test]
fn a_value_is_replaced_wherever_it_stands() {
    let mut index = HashIndex::with_capacity(Growth::ByQuarters, 0);
    let mut keys = Keys::default();
    let mut newest = BTreeMap::new();
    let mut state = 3;
    for _ in 0..20_000 {
        let key = random(&mut state) % 5_000;
        let value = u32::try_from(keys.keys.len()).unwrap();
        keys.keys.push(key);
        let is_known = index.replace(spread(key), value, |old| keys.keys[old as usize] == key);
        assert_eq!(is_known, newest.insert(key, value).is_some());
        if !is_known {
            index.insert(spread(key), value, &keys);
        }
    }
    for (key, value) in newest {
        assert_eq!(find(&index, &keys, key), Some(value));
    }
}

/// Entries of some hashes, a hundred times over, leave the lines they belong to and are all found,
/// under their own hash alone.
#[test]
fn many_entries_of_one_hash_are_all_kept() {
    for growth in [Growth::ByQuarters, Growth::Doubling] {
        let mut index = HashIndex::with_capacity(growth, 0);
        let mut keys = Keys { is_forgetful: growth == Growth::Doubling, ..Keys::default() };
        let mut state = 11;
        for count in 0..3_000 {
            let crowded = [42, 7, 1 << 50][count % 3];
            let key = if count < 300 { crowded } else { random(&mut state) };
            add(&mut index, &mut keys, key);
        }
        for key in [42, 7, 1 << 50] {
            let mut found = Vec::new();
            index.find(spread(key), |value| {
                found.push(value);
                false
            });
            found.retain(|value| keys.keys[*value as usize] == key);
            found.sort_unstable();
            let all = (0..3_000).filter(|value| keys.keys[*value as usize] == key);
            assert_eq!(found, all.collect::<Vec<u32>>(), "{growth:?}");
        }
    }
}
