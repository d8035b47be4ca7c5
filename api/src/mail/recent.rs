//! How many letters of one sort are too many: counted for a while under what they are counted by.

use std::collections::VecDeque;
use std::time::Instant;

use super::limits::{REMEMBERED_MAX, WINDOW};

/// Letters of one sort that were sent of late, each under what they are counted by.
#[derive(Debug, Default)]
pub(super) struct Recent<const KEYS: usize>(VecDeque<([[u8; 32]; KEYS], Instant)>);

impl<const KEYS: usize> Recent<KEYS> {
    /// Counts a letter, unless there were already as many as there may be under one of its keys.
    pub(super) fn take(
        &mut self,
        keys: [[u8; 32]; KEYS],
        most: [usize; KEYS],
        now: Instant,
    ) -> bool {
        let letters = &mut self.0;
        while letters.front().is_some_and(|(_, at)| now.duration_since(*at) >= WINDOW) {
            letters.pop_front();
        }
        let count_of =
            |place: usize| letters.iter().filter(|(known, _)| known[place] == keys[place]).count();
        if (0..KEYS).any(|place| count_of(place) >= most[place]) {
            return false;
        }
        if letters.len() >= REMEMBERED_MAX {
            letters.pop_front();
        }
        letters.push_back((keys, now));
        true
    }
}
