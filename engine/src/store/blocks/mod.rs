//! Blocks: rows of consecutive numbers, packed into one value of a table, keyed by the first.
//!
//! | at | bytes | content |
//! |---|---|---|
//! | 0 | 4 | magic `CSWB` |
//! | 4 | 1 | format version, 1 |
//! | 5 | 3 | zero |
//! | 8 | 8 | number of the first row |
//! | 16 | 4 | how many rows |
//! | 20 | 4 | CRC32C over all other bytes |
//! | 24 | 4 each | where each row ends, behind the ends; the highest bit is the row's mark |
//! | | | rows |
//!
//! A value stays a little under 16 KiB, since redb gives it pages of a power of two. The newest
//! block may be partial: the next commit writes it again with more rows. A row longer than a block
//! stands alone in a longer one. A missing number ends a block: a new one begins behind the hole.
//!
//! INVARIANT: the sum of a block is checked whenever it is read from the table; redb's reads check
//! nothing.
//! Out of scope: the meaning of a row.

mod read;
mod write;

#[cfg(test)]
mod tests;

use super::error::StoreError;

pub(in crate::store) use read::BlockReader;
pub(in crate::store) use write::{BlockWriter, rewrite};

/// A table of blocks.
pub(in crate::store) type BlockTable = redb::TableDefinition<'static, u64, &'static [u8]>;

const MAGIC: [u8; 4] = *b"CSWB";
const FORMAT: u8 = 1;
const HEAD_BYTES: usize = 24;
const SUM_AT: usize = 20;
const END_BYTES: usize = 4;
const MARK: u32 = 1 << 31;
/// The longest value that redb keeps in four pages beside its key and header.
const BLOCK_BYTES_MAX: usize = 16 * 1024 - 64;

/// A row of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct BlockRow<'a> {
    /// Its number.
    pub(in crate::store) number: u64,
    /// Its bytes.
    pub(in crate::store) bytes: &'a [u8],
    /// The mark of the row, whose meaning the table's owner sets.
    pub(in crate::store) is_marked: bool,
}

/// A block, read in place.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct Block<'a> {
    first: u64,
    ends: &'a [[u8; END_BYTES]],
    rows: &'a [u8],
}

impl<'a> Block<'a> {
    /// Reads a block whose sum was not checked since it came from its table.
    /// Errors: `Damaged`, naming table and key.
    pub(in crate::store) fn parse(
        table: BlockTable,
        key: u64,
        bytes: &'a [u8],
    ) -> Result<Self, StoreError> {
        use redb::TableHandle;
        let damaged = |why: &str| StoreError::Damaged {
            what: format!("table {}, key {key}: {why}", table.name()),
        };
        let Some(head) = bytes.first_chunk::<HEAD_BYTES>() else { return Err(damaged("cut")) };
        if head[..4] != MAGIC || head[4] != FORMAT {
            return Err(damaged("not a block of this format"));
        }
        if head[SUM_AT..] != sum_of(bytes).to_le_bytes() {
            return Err(damaged("its sum is wrong"));
        }
        let block = Self::trusted(bytes).ok_or_else(|| damaged("its ends are beyond it"))?;
        if block.first == key { Ok(block) } else { Err(damaged("it belongs elsewhere")) }
    }

    /// Reads a block whose sum is known to be right.
    fn trusted(bytes: &'a [u8]) -> Option<Self> {
        let head = bytes.first_chunk::<HEAD_BYTES>()?;
        let first = u64::from_le_bytes(*head[8..].first_chunk()?);
        let count = u32::from_le_bytes(*head[16..].first_chunk()?) as usize;
        let (ends, rows) = bytes[HEAD_BYTES..].split_at_checked(count.checked_mul(END_BYTES)?)?;
        let (ends, _) = ends.as_chunks();
        Some(Self { first, ends, rows })
    }

    /// The number of its first row.
    pub(in crate::store) const fn first(&self) -> u64 {
        self.first
    }

    /// The number behind its last row.
    pub(in crate::store) const fn end(&self) -> u64 {
        self.first + self.ends.len() as u64
    }

    /// The row with this number.
    pub(in crate::store) fn row(&self, number: u64) -> Option<BlockRow<'a>> {
        let place = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let (end, is_marked) = self.end_of(place)?;
        let start = match place.checked_sub(1) {
            None => 0,
            Some(before) => self.end_of(before)?.0,
        };
        Some(BlockRow { number, bytes: self.rows.get(start..end)?, is_marked })
    }

    /// All rows, in order.
    pub(in crate::store) fn rows(&self) -> impl DoubleEndedIterator<Item = BlockRow<'a>> {
        let block = *self;
        (self.first..self.end()).filter_map(move |number| block.row(number))
    }

    fn end_of(&self, place: usize) -> Option<(usize, bool)> {
        let end = u32::from_le_bytes(*self.ends.get(place)?);
        Some(((end & !MARK) as usize, end & MARK != 0))
    }
}

/// The sum over everything in a block but the sum itself.
fn sum_of(bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[..SUM_AT]), &bytes[HEAD_BYTES..])
}
