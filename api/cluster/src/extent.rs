//! How far the window in etcd reaches back: by bytes, for small batches come by the thousand a second, and by the
//! number of keys.
//!
//! etcd tells the size of no value without the value. So the writer counts batches in blocks, and keeps the counts in
//! etcd for the writer after it.
//!
//! | bytes | contents |
//! |---|---|
//! | 0..8 | number of the oldest batch, big-endian as all |
//! | then 4 + 4 for each block, the oldest first | batches, and their bytes |
//!
//! INVARIANT: batches go only where newer ones fill a bound.

use std::collections::VecDeque;

/// The bytes of batches in the window. etcd's database takes 2 GiB by default, of all clusters in it, and it grows to
/// more than twice this: to 576 MiB in a measurement with etcd 3.4.23.
const BYTES_MAX: u64 = 256 << 20;
/// The batches in the window: etcd has every key in memory, and goes through all of them when it compacts.
const BATCHES_MAX: u64 = 131_072;
/// When a block is full. Whole blocks go, so a smaller one makes a shorter pause, and more of them a longer record.
const BLOCK: BatchBlock = BatchBlock { batches: 512, bytes: 2 << 20 };
/// When the blocks are written to etcd, and old batches go: that is a write of etcd's, too.
const UNSAVED: BatchBlock = BatchBlock { batches: 64, bytes: 4 << 20 };
const HEAD_BYTES: usize = 8;
const BLOCK_BYTES: usize = 8;

/// Batches that follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct BatchBlock {
    batches: u32,
    bytes: u32,
}

impl BatchBlock {
    const fn add(&mut self, bytes: u32) {
        self.batches += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    const fn has_reached(self, bound: Self) -> bool {
        self.batches >= bound.batches || self.bytes >= bound.bytes
    }
}

/// The batches of the window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The number of the oldest batch.
    pub(crate) first: u64,
    blocks: VecDeque<BatchBlock>,
    batches: u64,
    bytes: u64,
    /// The batches that were appended since the blocks were written.
    unsaved: BatchBlock,
}

impl Extent {
    /// A window that begins with the batch `first`, of which nothing else is known.
    pub(crate) fn from(first: u64) -> Self {
        Self {
            first,
            blocks: VecDeque::new(),
            batches: 0,
            bytes: 0,
            unsaved: BatchBlock::default(),
        }
    }

    /// Reads it; none where it is no extent.
    pub(crate) fn parse(saved: &[u8]) -> Option<Self> {
        let (first, blocks) = saved.split_first_chunk::<HEAD_BYTES>()?;
        let (blocks, []) = blocks.as_chunks::<BLOCK_BYTES>() else { return None };
        let mut extent = Self::from(u64::from_be_bytes(*first));
        for [a, b, c, d, bytes @ ..] in blocks {
            let batches = u32::from_be_bytes([*a, *b, *c, *d]);
            extent.push(BatchBlock { batches, bytes: u32::from_be_bytes(*bytes) });
        }
        Some(extent)
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let blocks = self.blocks.iter().flat_map(|block| [block.batches, block.bytes]);
        let blocks = blocks.flat_map(u32::to_be_bytes);
        self.first.to_be_bytes().into_iter().chain(blocks).collect()
    }

    /// Notes an appended batch. One that was noted is appended again where its answer was lost.
    pub(crate) fn note(&mut self, number: u64, bytes: usize) {
        if number < self.next() {
            return;
        }
        let missed = number - self.next();
        if missed > 0 {
            // The writer before did not come to write them down: they are no more than that.
            let batches = u32::try_from(missed).unwrap_or(u32::MAX);
            self.push(BatchBlock { batches, bytes: UNSAVED.bytes });
        }
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        if self.blocks.back().is_none_or(|block| block.has_reached(BLOCK)) {
            self.push(BatchBlock::default());
        }
        if let Some(block) = self.blocks.back_mut() {
            block.add(bytes);
        }
        self.batches += 1;
        self.bytes += u64::from(bytes);
        self.unsaved.add(bytes);
    }

    /// Lets old blocks go, if it is time for that: then the caller writes the extent, and deletes the batches before it.
    pub(crate) fn trim(&mut self) -> bool {
        if !self.unsaved.has_reached(UNSAVED) {
            return false;
        }
        self.unsaved = BatchBlock::default();
        while (self.bytes > BYTES_MAX || self.batches > BATCHES_MAX) && self.blocks.len() > 1 {
            let Some(block) = self.blocks.pop_front() else { break };
            self.first += u64::from(block.batches);
            self.batches -= u64::from(block.batches);
            self.bytes -= u64::from(block.bytes);
        }
        true
    }

    fn push(&mut self, block: BatchBlock) {
        self.blocks.push_back(block);
        self.batches += u64::from(block.batches);
        self.bytes += u64::from(block.bytes);
    }

    /// The number behind the newest.
    const fn next(&self) -> u64 {
        self.first + self.batches
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Appends batches one by one, and lets old ones go on the way.
    fn append(extent: &mut Extent, batches: u64, bytes: usize) {
        for _ in 0..batches {
            extent.note(extent.next(), bytes);
            extent.trim();
        }
    }

    /// Once, the window had 4,096 batches: five seconds of small ones. A node that was away for longer took a whole
    /// backup, was behind again when it had it, and so on.
    #[test]
    fn small_batches_stay_for_minutes_and_large_ones_by_their_bytes() {
        let mut extent = Extent::from(1);
        append(&mut extent, BATCHES_MAX, 1_000);
        assert_eq!(extent.first, 1, "all of them");
        append(&mut extent, 64, 1_000);
        assert_eq!(extent.first, 1 + u64::from(BLOCK.batches));
        // As many bytes go as come, however many batches that are.
        for _ in 0..400 {
            append(&mut extent, 1, 1 << 20);
            assert!(extent.bytes <= BYTES_MAX + u64::from(UNSAVED.bytes));
        }
        assert!((250..=260).contains(&extent.batches), "{}", extent.batches);
    }

    #[test]
    fn the_next_writer_goes_on_with_what_the_one_before_wrote_down() {
        let mut extent = Extent::from(5_000);
        append(&mut extent, 64, 300);
        append(&mut extent, 640, 5 << 20);
        let saved = extent.to_bytes();
        assert_eq!(Extent::parse(&saved).as_ref(), Some(&extent));
        // Three more were appended before it ended.
        let mut next = Extent::parse(&saved).unwrap();
        let number = next.next() + 3;
        next.note(number, 10);
        assert_eq!((next.next(), next.bytes), (number + 1, extent.bytes + (4 << 20) + 10));
        for wrong in [&saved[..7], &saved[..9]] {
            assert_eq!(Extent::parse(wrong), None);
        }
    }

    #[test]
    fn a_batch_that_is_appended_again_counts_once() {
        let mut extent = Extent::from(1);
        append(&mut extent, 10, 10);
        let before = extent.clone();
        (8..=10).for_each(|number| extent.note(number, 10));
        assert_eq!(extent, before);
    }
}
