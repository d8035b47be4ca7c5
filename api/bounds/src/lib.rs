//! Tables of bounded size for facts that outsiders make the switch remember: tries, letters,
//! requests.
//!
//! A full table first forgets entries that have ended, then the entry of the least weight.
//! INVARIANT: an entry that blocks a client is never forgotten before its end. Otherwise a blocked
//! client would only have to fill the table with others. A table of nothing but such entries has no
//! room.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::time::{Duration, Instant};

/// The least weight of an entry that blocks a client.
pub const BLOCKING: u64 = 1 << 32;

/// One entry of a table.
pub trait TableEntry {
    /// The clock it goes by.
    type Time: Copy + Ord;

    /// The instant from which it has no effect; none as long as it is in use.
    fn ends_at(&self) -> Option<Self::Time>;

    /// The loss if it is forgotten; `BLOCKING` or more where it blocks a client.
    fn weight(&self) -> u64;
}

/// There is no room: every entry blocks a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

/// See the head of this file.
/// Cost: O(log n) for each call, and for each entry that is forgotten.
#[derive(Clone, Debug)]
pub struct BoundedTable<K, V: TableEntry> {
    len_max: usize,
    rows: HashMap<K, V>,
    by_weight: BTreeSet<(u64, K)>,
    by_end: BTreeSet<(V::Time, K)>,
}

impl<K: Copy + Ord + Hash, V: TableEntry> BoundedTable<K, V> {
    /// An empty one with room for `len_max` entries.
    pub fn new(len_max: usize) -> Self {
        let (by_weight, by_end) = (BTreeSet::new(), BTreeSet::new());
        Self { len_max, rows: HashMap::new(), by_weight, by_end }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Changes the entry of `key`, which is `fresh` where there is none.
    pub fn change<R>(
        &mut self,
        key: K,
        now: V::Time,
        fresh: impl FnOnce() -> V,
        change: impl FnOnce(&mut V) -> R,
    ) -> Result<R, NoRoom> {
        self.forget_ended(now);
        let mut row = match self.take(&key) {
            Some(row) => row,
            None => {
                self.make_room()?;
                fresh()
            }
        };
        let changed = change(&mut row);
        self.put(key, row);
        Ok(changed)
    }

    /// Changes the entry of `key` where there is one.
    pub fn change_known<R>(&mut self, key: K, change: impl FnOnce(&mut V) -> R) -> Option<R> {
        let mut row = self.take(&key)?;
        let changed = change(&mut row);
        self.put(key, row);
        Some(changed)
    }

    fn put(&mut self, key: K, row: V) {
        self.by_weight.insert((row.weight(), key));
        self.by_end.extend(row.ends_at().map(|end| (end, key)));
        self.rows.insert(key, row);
    }

    fn take(&mut self, key: &K) -> Option<V> {
        let row = self.rows.remove(key)?;
        self.by_weight.remove(&(row.weight(), *key));
        if let Some(end) = row.ends_at() {
            self.by_end.remove(&(end, *key));
        }
        Some(row)
    }

    fn forget_ended(&mut self, now: V::Time) {
        while let Some((end, key)) = self.by_end.first().copied()
            && end <= now
        {
            self.take(&key);
        }
    }

    fn make_room(&mut self) -> Result<(), NoRoom> {
        if self.rows.len() < self.len_max {
            return Ok(());
        }
        let lightest = self.by_weight.first().copied();
        let (_, key) = lightest.filter(|(weight, _)| *weight < BLOCKING).ok_or(NoRoom)?;
        self.take(&key);
        Ok(())
    }
}

/// How many of something there may be in a while; the count then begins anew.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    ends_at: Instant,
    count: u32,
    count_max: u32,
}

impl Window {
    /// An empty one that begins now.
    pub fn new(count_max: u32, length: Duration, now: Instant) -> Self {
        Self { ends_at: now + length, count: 0, count_max }
    }

    /// Whether no more may come.
    pub const fn is_full(&self) -> bool {
        self.count >= self.count_max
    }

    /// Counts one.
    pub const fn count(&mut self) {
        self.count = self.count.saturating_add(1);
    }
}

/// How much of its bound something has used up, as a weight.
pub fn share(used: u32, most: u32) -> u64 {
    u64::from(used) * BLOCKING / u64::from(most.max(1))
}

impl TableEntry for Window {
    type Time = Instant;

    fn ends_at(&self) -> Option<Instant> {
        Some(self.ends_at)
    }

    fn weight(&self) -> u64 {
        share(self.count, self.count_max)
    }
}

/// Windows of one length by what is counted under them.
#[derive(Clone, Debug)]
pub struct Windows<K> {
    length: Duration,
    table: BoundedTable<K, Window>,
}

impl<K: Copy + Ord + Hash> Windows<K> {
    /// Windows of `length`, with room for `len_max` of them.
    pub fn new(length: Duration, len_max: usize) -> Self {
        Self { length, table: BoundedTable::new(len_max) }
    }

    /// Counts one under each of `bounds`, unless one of those has as many as it may.
    /// Errors: one has, or there is no room; how long to wait.
    pub fn take<const N: usize>(
        &mut self,
        bounds: [(K, u32); N],
        now: Instant,
    ) -> Result<(), Duration> {
        for (key, most) in bounds {
            let fresh = || Window::new(most, self.length, now);
            let looked = self.table.change(key, now, fresh, |window| {
                window.is_full().then(|| window.ends_at.saturating_duration_since(now))
            });
            if let Some(wait) = looked.unwrap_or(Some(self.length)) {
                return Err(wait);
            }
        }
        for (key, most) in bounds {
            let fresh = || Window::new(most, self.length, now);
            // A row may have given way to the next one: it is made again, or there is no room.
            self.table.change(key, now, fresh, Window::count).map_err(|NoRoom| self.length)?;
        }
        Ok(())
    }

    /// Takes one back that was counted under each of `keys`.
    pub fn give_back<const N: usize>(&mut self, keys: [K; N]) {
        for key in keys {
            self.table.change_known(key, |window| window.count = window.count.saturating_sub(1));
        }
    }
}

/// Too many tries; when to come back. Units: seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyTries {
    /// How long to wait.
    pub retry_after_s: u32,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LENGTH: Duration = Duration::from_secs(900);
    const LEN_MAX: usize = 8;

    /// The acts of clients: the window of each, and its delay after the act before.
    fn acts() -> impl Strategy<Value = Vec<(u16, u64)>> {
        prop::collection::vec((0..40_u16, 0..60_u64), 1..400)
    }

    proptest! {
        /// The story of the bug: a link whose answers were used up took guesses again once 40,000
        /// others had been asked for something.
        #[test]
        fn who_is_refused_stays_so_whatever_others_do(acts in acts()) {
            let mut windows = Windows::new(LENGTH, LEN_MAX);
            let mut now = Instant::now();
            let mut refused_until: HashMap<u16, Instant> = HashMap::new();
            for (key, later) in acts {
                now += Duration::from_secs(later);
                let taken = windows.take([(key, 3)], now);
                if let Some(until) = refused_until.get(&key).filter(|until| now < **until) {
                    prop_assert!(taken.is_err(), "{key} was to wait {:?}", *until - now);
                }
                // Refused for being full, and not for want of room.
                let is_full = windows.table.rows.get(&key).is_some_and(Window::is_full);
                if let (Err(wait), true) = (taken, is_full) {
                    refused_until.insert(key, now + wait);
                }
                prop_assert!(windows.table.rows.len() <= LEN_MAX);
                prop_assert_eq!(windows.table.rows.len(), windows.table.by_weight.len());
                prop_assert_eq!(windows.table.rows.len(), windows.table.by_end.len());
            }
        }

        /// No client gets more in a window than it may, but for entries forgotten as the lightest.
        #[test]
        fn with_room_for_all_nobody_gets_more_than_they_may(acts in acts()) {
            let mut windows = Windows::new(LENGTH, 40);
            let start = Instant::now();
            let mut taken: HashMap<u16, u32> = HashMap::new();
            for (key, _) in acts {
                if windows.take([(key, 3)], start).is_ok() {
                    *taken.entry(key).or_default() += 1;
                }
            }
            prop_assert!(taken.values().all(|count| *count <= 3));
        }
    }

    #[test]
    fn the_lightest_gives_way_and_then_nobody() {
        let (mut windows, now) = (Windows::new(LENGTH, 2), Instant::now());
        for key in [1, 1, 2] {
            windows.take([(key, 3)], now).unwrap();
        }
        windows.take([(3, 3)], now).unwrap();
        assert!(windows.table.rows.contains_key(&1) && !windows.table.rows.contains_key(&2));
        for key in [1, 3, 3] {
            windows.take([(key, 3)], now).unwrap();
        }
        assert_eq!(windows.take([(2, 3)], now), Err(LENGTH), "no room");
        assert_eq!(windows.take([(1, 3)], now + LENGTH / 2), Err(LENGTH / 2));
        windows.give_back([1]);
        windows.take([(2, 3)], now).unwrap();
        assert!(windows.take([(3, 3)], now + LENGTH).is_ok());
        assert_eq!(windows.table.len(), 1, "what has ended is forgotten");
    }

    #[test]
    fn one_of_several_bounds_refuses_and_nothing_is_counted() {
        let (mut windows, now) = (Windows::new(LENGTH, 10), Instant::now());
        windows.take([(1, 1)], now).unwrap();
        assert!(windows.take([(2, 1), (1, 1)], now).is_err());
        assert!(windows.take([(2, 1)], now).is_ok());
    }
}
