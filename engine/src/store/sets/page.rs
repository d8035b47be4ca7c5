//! Pages and sums as bytes.
//!
//! | bytes | content |
//! |---|---|
//! | 0..4 | CRC32C over the key and all that follows |
//! | 4 | format version, 1 |
//! | 5 | form: 0 the places of the members, 1 a bit for every place, 2 a sum |
//! | 6..8 | how many members the page has; how many pages the sum names |
//! | 8.. | places of two bytes each, rising; or 1,024 bytes of bits; or place and count of each page, two bytes each |
//!
//! A page has the shorter of its two forms, so equal sets are equal bytes.

use std::ops::Range;

use super::{SUM_PAGES, SetKey, damaged};
use crate::store::error::StoreError;

/// Sequence numbers in a page.
pub(super) const PAGE_LEN: u64 = 8_192;
const WORD_BITS: u64 = 64;
const WORDS: usize = 128;
const BITMAP_BYTES: usize = WORDS * 8;
const HEAD_BYTES: usize = 8;
const SUM_BYTES: usize = 4;
const FORMAT: u8 = 1;
const LIST: u8 = 0;
const BITMAP: u8 = 1;
const COUNTS: u8 = 2;
/// The most members that a list holds in no more bytes than a bitmap.
const LISTED_MAX: usize = BITMAP_BYTES / 2;
/// Pages under a sum.
const SUM_PLACES: usize = 256;

const _: () = assert!(WORDS as u64 * WORD_BITS == PAGE_LEN);
const _: () = assert!(SUM_PLACES as u64 == SUM_PAGES);

/// The members of a page, a bit for each of its places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Members([u64; WORDS]);

impl Members {
    /// A page without members.
    pub(super) const NONE: Self = Self([0; WORDS]);

    /// Reads a page.
    /// Errors: `Damaged` if it is not as it was written, or belongs elsewhere.
    pub(super) fn parse(key: SetKey, bytes: &[u8]) -> Result<Self, StoreError> {
        let (form, count, body) = checked(key, bytes)?;
        let mut members = Self::NONE;
        match form {
            LIST => {
                let (places, _) = body.as_chunks();
                for place in places {
                    let place = u64::from(u16::from_le_bytes(*place));
                    if place >= PAGE_LEN {
                        return Err(damaged(key, "a place is beyond it"));
                    }
                    members.insert(place);
                }
            }
            BITMAP if body.len() == BITMAP_BYTES => {
                let (words, _) = body.as_chunks();
                for (word, bytes) in members.0.iter_mut().zip(words) {
                    *word = u64::from_le_bytes(*bytes);
                }
            }
            _ => return Err(damaged(key, "not a page")),
        }
        if members.count() == usize::from(count) {
            Ok(members)
        } else {
            Err(damaged(key, "its members are not as many as it says"))
        }
    }

    /// The page's bytes. It has a member.
    pub(super) fn to_bytes(&self, key: SetKey) -> Vec<u8> {
        let count = self.count();
        assert!(count > 0, "a page has a member");
        if count <= LISTED_MAX {
            let places = self.places().flat_map(|place| short(place).to_le_bytes());
            return sealed(key, LIST, count, places);
        }
        sealed(key, BITMAP, count, self.0.into_iter().flat_map(u64::to_le_bytes))
    }

    /// Takes a member; false if it is one already.
    pub(super) fn insert(&mut self, place: u64) -> bool {
        let (word, bit) = word_of(place);
        let is_new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        is_new
    }

    /// Lets go of a member; false if it is none.
    pub(super) fn remove(&mut self, place: u64) -> bool {
        let (word, bit) = word_of(place);
        let is_there = self.0[word] & bit != 0;
        self.0[word] &= !bit;
        is_there
    }

    pub(super) fn contains(&self, place: u64) -> bool {
        let (word, bit) = word_of(place);
        self.0[word] & bit != 0
    }

    pub(super) fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Takes the members of another page.
    pub(super) fn unite(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word |= other);
    }

    /// The number of members that both have.
    pub(super) fn count_common(&self, other: &Self) -> usize {
        self.0.iter().zip(other.0).map(|(one, other)| (one & other).count_ones() as usize).sum()
    }

    /// Lets go of all members outside these places.
    pub(super) fn keep(&mut self, places: Range<u64>) {
        for (word, number) in self.0.iter_mut().zip(0..) {
            let first = number * WORD_BITS;
            let behind = ones_below(places.end.saturating_sub(first));
            let before = ones_below(places.start.saturating_sub(first));
            *word &= behind & !before;
        }
    }

    /// Takes out the least member at or behind word `at`, which moves on with it.
    pub(super) fn take_first(&mut self, at: &mut usize) -> Option<u64> {
        while let Some(word) = self.0.get_mut(*at) {
            if *word != 0 {
                let bit = u64::from(word.trailing_zeros());
                *word &= *word - 1;
                return Some(*at as u64 * WORD_BITS + bit);
            }
            *at += 1;
        }
        None
    }

    /// Takes out the greatest member in the words before `end`, which moves on with it.
    pub(super) fn take_last(&mut self, end: &mut usize) -> Option<u64> {
        while *end > 0 {
            let word = &mut self.0[*end - 1];
            if *word != 0 {
                let bit = u64::from(word.ilog2());
                *word &= !(1 << bit);
                return Some((*end as u64 - 1) * WORD_BITS + bit);
            }
            *end -= 1;
        }
        None
    }

    /// The number of words: behind the last for `take_last`.
    pub(super) const fn words() -> usize {
        WORDS
    }

    /// The members' places, rising.
    fn places(&self) -> impl Iterator<Item = u64> {
        let mut rest = self.clone();
        let mut at = 0;
        std::iter::from_fn(move || rest.take_first(&mut at))
    }
}

/// The member counts of 256 neighbouring pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Counts([u16; SUM_PLACES]);

impl Counts {
    /// The counts of pages without members.
    pub(super) const NONE: Self = Self([0; SUM_PLACES]);

    /// Reads a sum.
    /// Errors: `Damaged` if it is not as it was written, or belongs elsewhere.
    pub(super) fn parse(key: SetKey, bytes: &[u8]) -> Result<Self, StoreError> {
        let (form, count, body) = checked(key, bytes)?;
        if form != COUNTS || body.len() != usize::from(count) * 4 {
            return Err(damaged(key, "not a sum"));
        }
        let mut counts = Self::NONE;
        let (pairs, _) = body.as_chunks();
        for [first, second, third, fourth] in pairs {
            let place = usize::from(u16::from_le_bytes([*first, *second]));
            let Some(count) = counts.0.get_mut(place) else {
                return Err(damaged(key, "a place is beyond it"));
            };
            *count = u16::from_le_bytes([*third, *fourth]);
        }
        Ok(counts)
    }

    /// The sum's bytes. One of its pages has a member.
    pub(super) fn to_bytes(&self, key: SetKey) -> Vec<u8> {
        let named = || (0_u16..).zip(self.0).filter(|(_, count)| *count > 0);
        assert!(!self.is_empty(), "a sum has a member");
        let pairs = named().flat_map(|(place, count)| {
            let ([first, second], [third, fourth]) = (place.to_le_bytes(), count.to_le_bytes());
            [first, second, third, fourth]
        });
        sealed(key, COUNTS, named().count(), pairs)
    }

    /// Notes how many members the page at `place` has.
    pub(super) fn set(&mut self, place: u64, count: usize) {
        self.0[index(place)] = short(count as u64);
    }

    /// Whether no page has members.
    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|count| *count == 0)
    }

    /// The number of members in the pages before `place`.
    pub(super) fn before(&self, place: u64) -> u64 {
        let pages = self.0.iter().take(index(place));
        pages.map(|count| u64::from(*count)).sum()
    }

    /// The number of members in all pages.
    pub(super) fn total(&self) -> u64 {
        self.0.iter().map(|count| u64::from(*count)).sum()
    }
}

/// The word of a place, and its bit there.
const fn word_of(place: u64) -> (usize, u64) {
    (index(place / WORD_BITS), 1 << (place % WORD_BITS))
}

/// A word whose lowest `count` bits are set.
const fn ones_below(count: u64) -> u64 {
    if count >= WORD_BITS { u64::MAX } else { (1 << count) - 1 }
}

#[expect(clippy::cast_possible_truncation, reason = "places are below 8,192")]
const fn index(place: u64) -> usize {
    place as usize
}

#[expect(clippy::cast_possible_truncation, reason = "places and counts are at most 8,192")]
const fn short(number: u64) -> u16 {
    number as u16
}

/// Puts head and sum before a body.
fn sealed(key: SetKey, form: u8, count: usize, body: impl Iterator<Item = u8>) -> Vec<u8> {
    let mut bytes = vec![0; HEAD_BYTES];
    bytes[4] = FORMAT;
    bytes[5] = form;
    bytes[6..].copy_from_slice(&short(count as u64).to_le_bytes());
    bytes.extend(body);
    let sum = sum_of(key, &bytes);
    bytes[..SUM_BYTES].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// The form, the count and the body of what stands at `key`.
fn checked(key: SetKey, bytes: &[u8]) -> Result<(u8, u16, &[u8]), StoreError> {
    let Some((head, body)) = bytes.split_at_checked(HEAD_BYTES) else {
        return Err(damaged(key, "it is cut short"));
    };
    if head[..SUM_BYTES] != sum_of(key, bytes).to_le_bytes() {
        return Err(damaged(key, "its sum is wrong"));
    }
    if head[4] != FORMAT {
        return Err(damaged(key, "its format is not known"));
    }
    Ok((head[5], u16::from_le_bytes([head[6], head[7]]), body))
}

/// The sum over a key and everything behind the sum.
fn sum_of((company, class, level, index): SetKey, bytes: &[u8]) -> u32 {
    let mut key = [0; 14];
    key[..4].copy_from_slice(&company.to_le_bytes());
    key[4] = class;
    key[5] = level;
    key[6..].copy_from_slice(&index.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c(&key), &bytes[SUM_BYTES..])
}
