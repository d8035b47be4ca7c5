//! What the batches of a journal weigh in its file, and which of them may go.
//!
//! The file is a ring: what is appended takes the place of what is let go of. redb stores a large
//! value in a run of pages, a power of two of them, so a batch weighs its run, not its bytes.
//! Batches from before the open are not read for their length: each one weighs an equal share of
//! the file as it was found, which together is never too little.
//!
//! INVARIANT: `weights` holds exactly the batches from `first`, or from `unread_until` where that
//! is later, to the newest one; none where everything is kept.

use std::collections::VecDeque;

use super::super::BatchNumber;
use super::super::limits::{TRIM_STEP_MAX, TRIM_STEP_MIN, TRIM_STEP_PER_APPENDED};

/// redb's pages. Units: bytes.
const PAGE_BYTES: u64 = 4096;
/// What redb puts around a value that stands alone in its leaf, rounded up. Units: bytes.
const LEAF_BYTES: u64 = 64;

/// The batches kept, oldest first.
#[derive(Debug)]
pub(super) struct KeptBatches {
    first: BatchNumber,
    /// Where the batches begin whose weight is known.
    unread_until: BatchNumber,
    unread_weight: u64,
    weights: VecDeque<u32>,
    bytes: u64,
    /// Units: bytes of the file; the largest number for all there will ever be.
    keep_bytes: u64,
}

impl KeptBatches {
    /// Takes the batches `first..next` of a file of `file_bytes`.
    pub(super) fn found(first: BatchNumber, next: BatchNumber, file_bytes: u64) -> Self {
        let count = next.0.saturating_sub(first.0);
        let unread_weight = file_bytes / count.max(1);
        let bytes = unread_weight.saturating_mul(count);
        let (weights, keep_bytes) = (VecDeque::new(), 0);
        Self { first, unread_until: next, unread_weight, weights, bytes, keep_bytes }
    }

    /// Sets how much is kept although it could go.
    pub(super) fn set_keep_bytes(&mut self, keep_bytes: u64) {
        self.keep_bytes = keep_bytes;
    }

    /// The oldest batch.
    pub(super) fn first(&self) -> BatchNumber {
        self.first
    }

    /// Returns the batch before which one commit lets go of all, with what it appends; a bounded
    /// number of batches, and not `before` or any after it.
    /// Cost: O(batches let go of).
    pub(super) fn next_first(&self, before: BatchNumber, appended: &[u64]) -> BatchNumber {
        let appended_bytes = appended.iter().copied().map(page_run_bytes).sum::<u64>();
        let appended_len = appended.len() as u64;
        let wanted = TRIM_STEP_MIN.max(appended_len.saturating_mul(TRIM_STEP_PER_APPENDED));
        let (mut next, mut freed) = (self.first, 0);
        while next < before && self.bytes + appended_bytes - freed > self.keep_bytes {
            let count = next.0 - self.first.0;
            // Twice what comes, so that letting go always outruns appending.
            let is_enough = count >= wanted && freed >= 2 * appended_bytes;
            if is_enough || count >= TRIM_STEP_MAX {
                break;
            }
            freed += self.weight(next);
            next = BatchNumber(next.0 + 1);
        }
        next
    }

    /// Notes what one commit has changed.
    pub(super) fn change(&mut self, first: BatchNumber, appended: &[u64]) {
        assert!(self.first <= first, "what was let go of does not come back");
        while self.first < first {
            self.bytes -= self.weight(self.first);
            if self.first >= self.unread_until {
                self.weights.pop_front();
            }
            self.first = BatchNumber(self.first.0 + 1);
        }
        // Where nothing ever goes, weights would only grow.
        if self.keep_bytes == u64::MAX {
            return;
        }
        for bytes in appended {
            let weight = page_run_bytes(*bytes);
            self.bytes += weight;
            self.weights.push_back(u32::try_from(weight).unwrap_or(u32::MAX));
        }
    }

    fn weight(&self, number: BatchNumber) -> u64 {
        if number < self.unread_until {
            return self.unread_weight;
        }
        let place = number.0 - self.first.max(self.unread_until).0;
        let place = usize::try_from(place).unwrap_or(usize::MAX);
        self.weights.get(place).copied().map_or(0, u64::from)
    }
}

/// What a value of so many bytes takes of the file. Values smaller than a page share one, which
/// appending leaves half empty.
fn page_run_bytes(bytes: u64) -> u64 {
    let leaf = bytes + LEAF_BYTES;
    if leaf < PAGE_BYTES {
        2 * leaf
    } else {
        leaf.div_ceil(PAGE_BYTES).next_power_of_two() * PAGE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: BatchNumber = BatchNumber(1);

    #[test]
    fn a_value_weighs_its_run_of_pages() {
        let rows = [
            (100, 328),
            (4_000, 8_128),
            (4_096, 8_192),
            (8_128, 8_192),
            (8_129, 16_384),
            (256 * 1024 - 512, 256 * 1024),
            (256 * 1024, 512 * 1024),
        ];
        for (bytes, weight) in rows {
            assert_eq!(page_run_bytes(bytes), weight, "{bytes} bytes");
        }
    }

    #[test]
    fn as_much_is_let_go_of_as_comes_once_the_ring_is_full() {
        const RUN: u64 = 256 * 1024;
        let mut kept = KeptBatches::found(FIRST, FIRST, 0);
        kept.set_keep_bytes(8 * RUN);
        for newest in 1..=40_u64 {
            let appended = [RUN - 512];
            let first = kept.next_first(BatchNumber(newest), &appended);
            kept.change(first, &appended);
            assert_eq!(kept.first(), BatchNumber(newest.saturating_sub(7).max(1)));
            assert!(kept.bytes <= 8 * RUN);
        }
    }

    #[test]
    fn what_recovery_needs_stays_however_much_it_weighs() {
        let mut kept = KeptBatches::found(FIRST, FIRST, 0);
        for _ in 0..40 {
            let first = kept.next_first(BatchNumber(5), &[1 << 20]);
            kept.change(first, &[1 << 20]);
        }
        assert_eq!(kept.first(), BatchNumber(5));
    }

    /// Small batches of a quiet time made way for large ones sixteen at a time: the file grew to
    /// many times its bound before the last small one was gone.
    #[test]
    fn small_batches_make_way_for_large_ones_as_fast_as_those_come() {
        const KEEP: u64 = 4 << 20;
        let mut kept = KeptBatches::found(FIRST, FIRST, 0);
        kept.set_keep_bytes(KEEP);
        let all = BatchNumber(u64::MAX);
        let mut append = |bytes: u64| {
            let first = kept.next_first(all, &[bytes]);
            kept.change(first, &[bytes]);
            assert!(kept.bytes <= KEEP + 2 * page_run_bytes(bytes), "{} bytes", kept.bytes);
        };
        (0..20_000).for_each(|_| append(400));
        (0..100).for_each(|_| append(200_000));
    }

    #[test]
    fn batches_found_weigh_the_file_they_were_found_in() {
        let mut kept = KeptBatches::found(BatchNumber(11), BatchNumber(111), 1 << 20);
        kept.set_keep_bytes(1 << 20);
        assert_eq!(kept.next_first(BatchNumber(110), &[]), BatchNumber(11));
        let first = kept.next_first(BatchNumber(110), &[100_000]);
        kept.change(first, &[100_000]);
        assert!(first > BatchNumber(11) && kept.bytes <= 1 << 20);
        kept.set_keep_bytes(u64::MAX);
        kept.change(first, &[100_000]);
        assert_eq!((kept.next_first(BatchNumber(110), &[]), kept.weights.len()), (first, 1));
    }
}
