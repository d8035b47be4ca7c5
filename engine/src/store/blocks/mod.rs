//! Blocks: rows of consecutive numbers, packed into one value of a table, keyed by the last:
//! redb separates its leaves by the last key of each, so one step down finds the block of a row.
//!
//! | at | bytes | content |
//! |---|---|---|
//! | 0 | 4 | magic `CSWB` |
//! | 4 | 1 | format version, 1 |
//! | 5 | 3 | zero |
//! | 8 | 8 | number of the first row |
//! | 16 | 4 | how many rows |
//! | 20 | 4 | CRC32C over all before it and all places |
//! | 24 | 8 each | place: where a row ends, behind the places, its highest bit being the row's mark; CRC32C of the row |
//! | | | rows |
//!
//! A value stays a little under 16 KiB, since redb gives it pages of a power of two. The newest
//! block may be partial: the next commit puts one with more rows in its place. A row longer than a block
//! stands alone in a longer one. A missing number ends a block: a new one begins behind the hole.
//!
//! INVARIANT: the sum of the places is checked whenever a block is read from the table, that of a row
//! whenever the row is; redb's reads check nothing. So one row costs its own bytes and the places, not
//! the whole block.
//! Out of scope: the meaning of a row.

mod read;
mod write;

#[cfg(test)]
mod tests;

use std::ops::Range;

use redb::TableHandle as _;

use super::error::StoreError;

pub(in crate::store) use read::{BlockReader, LostRows, block_from};
pub(in crate::store) use write::{BlockWriter, rewrite};

pub(in crate::store) type BlockTable = redb::TableDefinition<'static, u64, &'static [u8]>;

const MAGIC: [u8; 4] = *b"CSWB";
const FORMAT: u8 = 1;
const HEAD_BYTES: usize = 24;
const SUM_AT: usize = 20;
const PLACE_BYTES: usize = 8;
const MARK: u32 = 1 << 31;
/// The longest value that redb keeps in four pages beside its key and header.
const BLOCK_BYTES_MAX: usize = 16 * 1024 - 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct BlockRow<'a> {
    pub(in crate::store) number: u64,
    pub(in crate::store) bytes: &'a [u8],
    /// The mark of the row, whose meaning the table's owner sets.
    pub(in crate::store) is_marked: bool,
}

/// A block, read in place.
#[derive(Clone, Copy)]
pub(in crate::store) struct Block<'a> {
    table: BlockTable,
    /// The number of its first row.
    pub(in crate::store) first: u64,
    places: &'a [[u8; PLACE_BYTES]],
    rows: &'a [u8],
}

crate::opaque!(Block<'_>);

impl<'a> Block<'a> {
    /// Reads a block that comes from its table.
    /// Errors: `Damaged`, naming table and key.
    pub(in crate::store) fn parse(
        table: BlockTable,
        key: u64,
        bytes: &'a [u8],
    ) -> Result<Self, StoreError> {
        let damaged = |why| damaged(table, key, why);
        let Some(head) = bytes.first_chunk::<HEAD_BYTES>() else { return Err(damaged("cut")) };
        if head[..4] != MAGIC || head[4] != FORMAT {
            return Err(damaged("not a block of this format"));
        }
        let beyond = || damaged("its places are beyond it");
        let block = Self::trusted(table, bytes).ok_or_else(beyond)?;
        if head[SUM_AT..] != sum_of(head, block.places.as_flattened()).to_le_bytes() {
            return Err(damaged("the sum of its places is wrong"));
        }
        if block.rows.len() != block.end_of(block.places.len()) {
            return Err(damaged("its length is wrong"));
        }
        if !block.places.is_empty() && block.key() == key {
            Ok(block)
        } else {
            Err(damaged("it belongs elsewhere"))
        }
    }

    /// Reads a block the sum of whose places is known to be right.
    fn trusted(table: BlockTable, bytes: &'a [u8]) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk::<HEAD_BYTES>()?;
        let first = u64::from_le_bytes(*head[8..].first_chunk()?);
        let count = u32::from_le_bytes(*head[16..].first_chunk()?) as usize;
        first.checked_add(count as u64)?;
        let (places, rows) = rest.split_at_checked(count.checked_mul(PLACE_BYTES)?)?;
        let (places, _) = places.as_chunks();
        Some(Self { table, first, places, rows })
    }

    /// The number behind its last row.
    pub(in crate::store) const fn end(&self) -> u64 {
        self.first + self.places.len() as u64
    }

    /// Its key in the table: the number of its last row.
    pub(in crate::store) const fn key(&self) -> u64 {
        self.end() - 1
    }

    /// The row with this number.
    /// Errors: `Damaged`, naming table and key.
    pub(in crate::store) fn row(&self, number: u64) -> Result<Option<BlockRow<'a>>, StoreError> {
        let place = number.checked_sub(self.first).and_then(|place| usize::try_from(place).ok());
        let Some((place, at)) = place.and_then(|at| Some((self.places.get(at)?, at))) else {
            return Ok(None);
        };
        let place = RowPlace::parse(*place);
        let bytes = self.rows.get(self.end_of(at)..self.end_of(at + 1));
        let bytes = bytes.filter(|bytes| crc32c::crc32c(bytes) == place.sum);
        let bytes = bytes.ok_or_else(|| {
            damaged(self.table, self.key(), &format!("the sum of row {number} is wrong"))
        })?;
        Ok(Some(BlockRow { number, bytes, is_marked: place.is_marked }))
    }

    /// The end of the first `count` rows among the bytes of all rows.
    fn end_of(&self, count: usize) -> usize {
        let last = count.checked_sub(1).and_then(|last| self.places.get(last));
        last.map_or(0, |place| RowPlace::parse(*place).end as usize)
    }

    /// The rows with these numbers, in order.
    pub(in crate::store) fn rows_within(
        &self,
        numbers: Range<u64>,
    ) -> impl Iterator<Item = Result<BlockRow<'a>, StoreError>> {
        let block = *self;
        let numbers = self.first.max(numbers.start)..self.end().min(numbers.end);
        numbers.filter_map(move |number| block.row(number).transpose())
    }

    /// All rows, in order.
    pub(in crate::store) fn rows(&self) -> impl Iterator<Item = Result<BlockRow<'a>, StoreError>> {
        self.rows_within(0..u64::MAX)
    }
}

/// The place of a row among the bytes of all rows.
#[derive(Clone, Copy)]
struct RowPlace {
    /// Below `MARK`.
    end: u32,
    is_marked: bool,
    sum: u32,
}

impl RowPlace {
    fn parse(place: [u8; PLACE_BYTES]) -> Self {
        let [a, b, c, d, sum @ ..] = place;
        let end = u32::from_le_bytes([a, b, c, d]);
        let is_marked = end & MARK != 0;
        Self { end: end & !MARK, is_marked, sum: u32::from_le_bytes(sum) }
    }

    fn to_bytes(self) -> [u8; PLACE_BYTES] {
        let end = if self.is_marked { self.end | MARK } else { self.end };
        let mut place = [0; PLACE_BYTES];
        place[..4].copy_from_slice(&end.to_le_bytes());
        place[4..].copy_from_slice(&self.sum.to_le_bytes());
        place
    }
}

/// The sum over a block's head, but for the sum itself, and its places.
fn sum_of(head: &[u8; HEAD_BYTES], places: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&head[..SUM_AT]), places)
}

fn damaged(table: BlockTable, key: u64, why: &str) -> StoreError {
    StoreError::Damaged { what: format!("table {}, key {key}: {why}", table.name()) }
}
