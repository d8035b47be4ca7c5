//! Arrays of what the hot state keeps for each card.

use super::memory::with_huge_capacity;
use crate::domain::ids::CardSlot;

/// Entries of one chunk: 32 MiB of card records, nearly all of it on huge pages.
const CHUNK_LEN: usize = 1 << CHUNK_BITS;
const CHUNK_BITS: u32 = 18;

/// A dense array that grows by whole chunks, so that nothing is moved when it grows.
#[derive(Debug)]
pub(super) struct Chunks<T> {
    chunks: Vec<Vec<T>>,
    len: usize,
}

impl<T> Default for Chunks<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), len: 0 }
    }
}

/// A copy has its chunks on huge pages, too.
impl<T: Clone> Clone for Chunks<T> {
    fn clone(&self) -> Self {
        let copy = |chunk: &Vec<T>| {
            let mut copy = with_huge_capacity(CHUNK_LEN);
            copy.extend_from_slice(chunk);
            copy
        };
        Self { chunks: self.chunks.iter().map(copy).collect(), len: self.len }
    }
}

impl<T> Chunks<T> {
    pub(super) fn push(&mut self, entry: T) {
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK_LEN) {
            self.chunks.push(with_huge_capacity(CHUNK_LEN));
        }
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.push(entry);
            self.len += 1;
        }
    }

    #[inline]
    pub(super) fn at(&self, slot: CardSlot) -> &T {
        let index = slot.index();
        &self.chunks[index >> CHUNK_BITS][index & (CHUNK_LEN - 1)]
    }

    #[inline]
    pub(super) fn at_mut(&mut self, slot: CardSlot) -> &mut T {
        let index = slot.index();
        &mut self.chunks[index >> CHUNK_BITS][index & (CHUNK_LEN - 1)]
    }

    pub(super) fn get(&self, slot: CardSlot) -> Option<&T> {
        let index = slot.index();
        self.chunks.get(index >> CHUNK_BITS)?.get(index & (CHUNK_LEN - 1))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.chunks.iter_mut().flatten()
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten()
    }
}
