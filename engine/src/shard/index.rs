//! The index of the hot state: from a hash to the positions that may have it, in 8 bytes each.
//!
//! | bits of an entry | content |
//! |---|---|
//! | 0..32 | value: a position or the low part of a sequence number |
//! | 32..61 | tag: the bits of the hash that follow those of its line |
//! | 61..64 | distance from its own line, plus 1; an entry of zero is empty |
//!
//! A line has eight entries. An entry stands in its own line or, where that is full, in one of the
//! six behind it: nearly every look-up reads one cache line. A hit may have the hash and is
//! compared with the truth by the caller. Entries are never removed one by one: they die by their
//! value, and the dead are swept out a line at a time.
//!
//! Many entries of one hash find no place within reach. They wait beside the table in the order of
//! their hashes, so that look-ups of others pass them by.
//!
//! The table grows a few lines at each insertion, so no insertion waits for all of it.
//!
//! INVARIANT: no line between an entry's own and the one it stands in has an empty place, so a
//! look-up ends at the first line with one.

use super::line::places_with_head;
use super::memory::{Pieces, prefetch, zeroed_words};

pub(super) const LINE_LEN: usize = 8;
/// Lines that an entry may be in, its own included.
const REACH: usize = 7;
const TAG_BITS: u32 = 29;
const TAG_MASK: u32 = (1 << TAG_BITS) - 1;
/// A table of this many lines is the smallest.
const LINES_MIN: usize = 8;
/// Lines swept at a time, and insertions between two times: in steady state a table of which half
/// is live has at most a quarter dead.
const LINES_SWEPT: usize = 4;
const INSERTIONS_PER_SWEEP: usize = 8;
/// A table of fewer lines doubles, whatever its growth: below a megabyte moving costs more than memory.
const LINES_SMALL: usize = 1 << 14;
/// Lines moved into a growing table at each insertion: few where authorizations insert, more where
/// cards do, so that two tables stand side by side for a short time only.
const LINES_MOVED_DOUBLING: usize = 4;
const LINES_MOVED_BY_QUARTERS: usize = 16;
/// Entries without a place for which a table grows before it is full.
const OVERFLOW_MAX: usize = 64;

/// Questions of an index about its values.
pub trait Values {
    /// Whether any value can be dead.
    fn has_dead(&self) -> bool {
        false
    }

    /// Whether nothing has this value any more.
    fn is_dead(&self, _value: u32) -> bool {
        false
    }

    /// The hash under which a value was inserted; `known` has as many of its first bits as the
    /// table keeps, which is what is left where nobody can tell.
    fn hash_of(&self, _value: u32, known: u64) -> u64 {
        known
    }
}

/// The way a table grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// To five fourths, unless it is small: the hash of every value can be told again.
    ByQuarters,
    /// Twofold: the next bit of its tag gives an entry its line.
    Doubling,
}

/// An index of values by hash.
#[derive(Clone, Debug)]
pub struct HashIndex {
    table: Table,
    growth: Growth,
    /// The table before it grew, as far as it was not moved yet.
    old: Option<TableMigration>,
    /// Entries that found no place, in the order of their hashes; nearly always none.
    overflow: Vec<(u64, u32)>,
    /// The next line to be swept.
    swept: usize,
    insertions: usize,
    /// The lowest bits of the tags that doubling has left unknown.
    unknown_bits: u32,
}

#[derive(Clone, Debug)]
struct TableMigration {
    table: Table,
    /// Lines before this one are empty.
    next_line: usize,
}

impl HashIndex {
    /// An index with room for so many entries before it grows. They fill two thirds of it: in a
    /// fuller table of a million, a few entries find no place within reach, and it grows for those.
    pub fn with_capacity(growth: Growth, entries: usize) -> Self {
        let lines = (entries.saturating_mul(3) / (2 * LINE_LEN)).max(LINES_MIN);
        let lines = if growth == Growth::Doubling { lines.next_power_of_two() } else { lines };
        Self {
            table: Table::new(lines),
            growth,
            old: None,
            overflow: Vec::new(),
            swept: 0,
            insertions: 0,
            unknown_bits: 0,
        }
    }

    /// Lets all memory under it be there before it is used.
    pub(super) fn make_present(&self, pieces: &Pieces) {
        pieces.make_present(&self.table.words);
    }

    /// Asks for the line of a hash ahead of its use.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        self.table.prefetch(hash);
    }

    /// The first value under this hash that `is_it` takes. Cost: one cache line, nearly always.
    #[inline]
    pub fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        self.place_of(hash, &mut is_it).map(|(_, value)| value)
    }

    /// Puts another value where `is_it` finds one under this hash. Returns whether there was one.
    pub fn replace(&mut self, hash: u64, value: u32, mut is_it: impl FnMut(u32) -> bool) -> bool {
        match self.place_of(hash, &mut is_it) {
            Some((Place::Table(at), _)) => set_value(&mut self.table.words[at], value),
            Some((Place::Old(at), _)) => {
                if let Some(old) = &mut self.old {
                    set_value(&mut old.table.words[at], value);
                }
            }
            Some((Place::Overflow(at), _)) => self.overflow[at].1 = value,
            None => return false,
        }
        true
    }

    fn place_of(&self, hash: u64, is_it: &mut impl FnMut(u32) -> bool) -> Option<(Place, u32)> {
        if let Some((at, value)) = self.table.find(hash, self.unknown_bits, is_it) {
            return Some((Place::Table(at), value));
        }
        if let Some(old) = &self.old
            && let Some((at, value)) = old.table.find(hash, self.unknown_bits, is_it)
        {
            return Some((Place::Old(at), value));
        }
        if self.overflow.is_empty() {
            return None;
        }
        let known = self.known_part(hash);
        let first = self.overflow.partition_point(|entry| self.known_part(entry.0) < known);
        let alike =
            self.overflow[first..].iter().take_while(|entry| self.known_part(entry.0) == known);
        let (at, (_, value)) = (first..).zip(alike).find(|(_, (_, value))| is_it(*value))?;
        Some((Place::Overflow(at), *value))
    }

    /// What the table tells hashes apart by; rises with them.
    const fn known_part(&self, hash: u64) -> (usize, u32) {
        let (home, tag) = self.table.home_of(hash);
        (home, tag >> self.unknown_bits)
    }

    fn push_over(&mut self, hash: u64, value: u32) {
        let at = self.overflow.partition_point(|entry| entry.0 <= hash);
        self.overflow.insert(at, (hash, value));
    }

    /// Adds a value under a hash.
    /// Cost: one cache line, nearly always, and a few more while the table grows.
    pub fn insert(&mut self, hash: u64, value: u32, values: &impl Values) {
        if self.old.is_some() {
            self.move_lines(values);
        } else if self.is_crowded() {
            self.grow();
        } else if self.insertions.is_multiple_of(INSERTIONS_PER_SWEEP) && values.has_dead() {
            self.sweep(values);
        }
        if !self.overflow.is_empty() && self.insertions.is_multiple_of(64) {
            self.settle_overflow(values);
        }
        self.insertions = self.insertions.wrapping_add(1);
        if !self.table.insert(hash, value, values) {
            self.push_over(hash, value);
        }
    }

    /// Memory taken. Units: bytes.
    pub fn bytes(&self) -> usize {
        let old = self.old.as_ref().map_or(0, |old| old.table.words.len());
        (self.table.words.len() + old) * size_of::<u64>()
            + self.overflow.capacity() * size_of::<(u64, u32)>()
    }

    fn is_crowded(&self) -> bool {
        let places = self.table.lines * LINE_LEN;
        // Many entries of one hash find no place in a table of any size.
        let is_unlucky = self.overflow.len() > OVERFLOW_MAX && self.table.taken * 4 > places;
        self.table.taken * 8 > places * 7 || is_unlucky
    }

    fn grow(&mut self) {
        let lines = match self.growth {
            Growth::ByQuarters if self.table.lines < LINES_SMALL => self.table.lines * 2,
            Growth::ByQuarters => self.table.lines + self.table.lines / 4,
            Growth::Doubling => {
                self.unknown_bits = (self.unknown_bits + 1).min(TAG_BITS);
                self.table.lines * 2
            }
        };
        let table = std::mem::replace(&mut self.table, Table::new(lines));
        self.old = Some(TableMigration { table, next_line: 0 });
        self.swept = 0;
    }

    /// Moves the next lines of the old table into the new one; the dead stay behind.
    fn move_lines(&mut self, values: &impl Values) {
        let Some(mut old) = self.old.take() else { return };
        let count = match self.growth {
            Growth::ByQuarters => LINES_MOVED_BY_QUARTERS,
            Growth::Doubling => LINES_MOVED_DOUBLING,
        };
        let end = (old.next_line + count).min(old.table.lines_in_all());
        for line in old.next_line..end {
            for at in old.table.line_range(line) {
                let entry = old.table.words[at];
                if entry > MOVED && !(values.has_dead() && values.is_dead(value_of(entry))) {
                    let known = old.table.hash_behind(line, entry);
                    let hash = values.hash_of(value_of(entry), known);
                    if !self.table.insert(hash, value_of(entry), values) {
                        self.push_over(hash, value_of(entry));
                    }
                }
                // Not empty: entries behind it must still be found.
                old.table.words[at] = MOVED;
            }
        }
        old.next_line = end;
        if end < old.table.lines_in_all() {
            self.old = Some(old);
        } else {
            self.settle_overflow(values);
        }
    }

    /// Tries again to find places for what had none before the table grew.
    fn settle_overflow(&mut self, values: &impl Values) {
        let waiting = std::mem::take(&mut self.overflow);
        for (hash, value) in waiting {
            let is_dead = values.has_dead() && values.is_dead(value);
            if !is_dead && !self.table.insert(hash, value, values) {
                // In order, as they come out of it.
                self.overflow.push((hash, value));
            }
        }
    }

    /// Empties the dead places of the next lines that no entry behind them depends on.
    fn sweep(&mut self, values: &impl Values) {
        for _ in 0..LINES_SWEPT {
            self.swept = (self.swept + 1) % self.table.lines_in_all();
            self.table.sweep(self.swept, values);
        }
    }
}

enum Place {
    Table(usize),
    Old(usize),
    Overflow(usize),
}

/// An entry that was moved to a larger table; has no distance, so nothing finds it.
const MOVED: u64 = 1;

#[derive(Debug)]
struct Table {
    words: Vec<u64>,
    /// The first word at the start of a cache line.
    first: usize,
    /// Lines that hashes lead to; `REACH - 1` more stand behind them.
    lines: usize,
    /// Places that are not empty.
    taken: usize,
}

/// Cache lines begin elsewhere in other memory, so the words are copied to their places.
impl Clone for Table {
    fn clone(&self) -> Self {
        let mut table = Self::new(self.lines);
        let all = table.lines_in_all() * LINE_LEN;
        let first = table.first;
        table.words[first..first + all].copy_from_slice(&self.words[self.first..self.first + all]);
        table.taken = self.taken;
        table
    }
}

impl Table {
    fn new(lines: usize) -> Self {
        let words = zeroed_words((lines + REACH) * LINE_LEN);
        let first = words.as_ptr().align_offset(LINE_LEN * size_of::<u64>()).min(LINE_LEN);
        Self { words, first, lines, taken: 0 }
    }

    const fn lines_in_all(&self) -> usize {
        self.lines + REACH - 1
    }

    fn line_range(&self, line: usize) -> std::ops::Range<usize> {
        let start = self.first + line * LINE_LEN;
        start..start + LINE_LEN
    }

    /// The line of a hash and its tag: the hash times the number of lines, before and behind the
    /// point.
    #[expect(clippy::cast_possible_truncation, reason = "both halves of the product are cut out")]
    const fn home_of(&self, hash: u64) -> (usize, u32) {
        let product = hash as u128 * self.lines as u128;
        ((product >> 64) as usize, (product as u64 >> (64 - TAG_BITS)) as u32)
    }

    /// The first bits of the hash of an entry in this line.
    #[expect(clippy::cast_possible_truncation, reason = "a line is below the number of lines")]
    fn hash_behind(&self, line: usize, entry: u64) -> u64 {
        let home = line - distance_of(entry);
        let product = (home as u128) << 64 | u128::from(tag_of(entry)) << (64 - TAG_BITS);
        product.div_ceil(self.lines as u128) as u64
    }

    fn prefetch(&self, hash: u64) {
        let (home, _) = self.home_of(hash);
        prefetch(&self.words[self.first + home * LINE_LEN]);
    }

    #[inline]
    fn find(
        &self,
        hash: u64,
        unknown_bits: u32,
        is_it: &mut impl FnMut(u32) -> bool,
    ) -> Option<(usize, u32)> {
        let (home, tag) = self.home_of(hash);
        for distance in 0..REACH {
            let start = self.first + (home + distance) * LINE_LEN;
            let line = self.words.get(start..)?.first_chunk::<LINE_LEN>()?;
            let wanted = head_of(distance, tag);
            for place in Places(places_with_head(line, wanted, unknown_bits)) {
                if is_it(value_of(line[place])) {
                    return Some((start + place, value_of(line[place])));
                }
            }
            if line.contains(&0) {
                return None;
            }
        }
        None
    }

    /// Puts an entry into the first place within reach that is empty or dead.
    fn insert(&mut self, hash: u64, value: u32, values: &impl Values) -> bool {
        let (home, tag) = self.home_of(hash);
        for distance in 0..REACH {
            let range = self.line_range(home + distance);
            let Some(line) = self.words[range.clone()].first_chunk::<LINE_LEN>() else { break };
            // Nothing was moved out of this table, so what has no head is empty.
            let empty = Places(places_with_head(line, 0, 0)).next();
            let is_dead = |entry| values.has_dead() && values.is_dead(value_of(entry));
            if let Some(place) = empty.or_else(|| places_where(line, is_dead).next()) {
                self.taken += usize::from(empty.is_some());
                let entry = u64::from(head_of(distance, tag)) << 32 | u64::from(value);
                self.words[range.start + place] = entry;
                return true;
            }
        }
        false
    }

    fn sweep(&mut self, line: usize, values: &impl Values) {
        let is_dead = |entry: u64| entry != 0 && values.is_dead(value_of(entry));
        let range = self.line_range(line);
        let Some(entries) = self.words[range.clone()].first_chunk::<LINE_LEN>() else { return };
        let mut dead = places_where(entries, is_dead).peekable();
        if dead.peek().is_some() && !self.is_passed_over(line) {
            for place in dead {
                self.words[range.start + place] = 0;
                self.taken -= 1;
            }
        }
    }

    /// Whether an entry stands behind this line whose own line it, or one before it, is.
    fn is_passed_over(&self, line: usize) -> bool {
        for behind in 1..REACH {
            if line + behind >= self.lines_in_all() {
                return false;
            }
            let entries = &self.words[self.line_range(line + behind)];
            if entries.iter().any(|entry| *entry != 0 && distance_of(*entry) >= behind) {
                return true;
            }
            if entries.contains(&0) {
                return false;
            }
        }
        false
    }
}

/// The places of a line, as the bits that are set.
struct Places(u32);

/// The places of a line whose entries are so; the line is read once, without a branch.
#[inline]
fn places_where(line: &[u64; LINE_LEN], is_so: impl Fn(u64) -> bool) -> Places {
    let is_set = |place: usize| u32::from(is_so(line[place])) << place;
    Places((0..LINE_LEN).fold(0, |bits, place| bits | is_set(place)))
}

impl Iterator for Places {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        let place = self.0.trailing_zeros() as usize;
        self.0 &= self.0.wrapping_sub(1);
        (place < LINE_LEN).then_some(place)
    }
}

/// Distance and tag, as they stand in the upper half of an entry.
#[expect(clippy::cast_possible_truncation, reason = "a distance is below REACH")]
const fn head_of(distance: usize, tag: u32) -> u32 {
    (distance as u32 + 1) << TAG_BITS | tag
}

const fn head(entry: u64) -> u32 {
    (entry >> 32) as u32
}

#[expect(clippy::cast_possible_truncation, reason = "the lower half")]
const fn value_of(entry: u64) -> u32 {
    entry as u32
}

const fn tag_of(entry: u64) -> u32 {
    head(entry) & TAG_MASK
}

const fn distance_of(entry: u64) -> usize {
    ((entry >> (32 + TAG_BITS)) as usize).saturating_sub(1)
}

const fn set_value(entry: &mut u64, value: u32) {
    *entry = *entry >> 32 << 32 | value as u64;
}

/// Spreads a key over all bits of a hash; keys that differ have hashes that differ.
pub const fn spread(key: u64) -> u64 {
    let mixed = (key ^ key >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

const _: () = assert!(REACH < 8, "a distance fits its three bits");

#[cfg(test)]
#[path = "index_tests.rs"]
mod tests;
