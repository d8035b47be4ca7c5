//! Puts rows into blocks.

use redb::{ReadableTable, Table, WriteTransaction};

use super::{
    BLOCK_BYTES_MAX, Block, BlockRow, BlockTable, FORMAT, HEAD_BYTES, MAGIC, MARK, PLACE_BYTES,
    RowPlace, SUM_AT, sum_of,
};
use crate::store::error::StoreError;

/// Rows on their way into one block.
struct Builder {
    first: u64,
    places: Vec<[u8; PLACE_BYTES]>,
    rows: Vec<u8>,
    bytes_max: usize,
}

impl Builder {
    fn new(bytes_max: usize) -> Self {
        Self { first: 0, places: Vec::new(), rows: Vec::new(), bytes_max }
    }

    fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    fn end(&self) -> u64 {
        self.first + self.places.len() as u64
    }

    /// Whether the row follows and there is room; a row too long for any block has room alone.
    fn takes(&self, row: &BlockRow<'_>) -> bool {
        self.is_empty() || (row.number == self.end() && self.bytes_with(row) <= self.bytes_max)
    }

    fn bytes_with(&self, row: &BlockRow<'_>) -> usize {
        HEAD_BYTES + PLACE_BYTES * (self.places.len() + 1) + self.rows.len() + row.bytes.len()
    }

    fn push(&mut self, row: &BlockRow<'_>) {
        assert!(self.takes(row), "a block holds rows of consecutive numbers");
        if self.is_empty() {
            self.first = row.number;
        }
        self.rows.extend_from_slice(row.bytes);
        let end = u32::try_from(self.rows.len()).ok().filter(|end| end & MARK == 0);
        // INVARIANT: rows come from records, and those are at most a mebibyte long.
        let end = end.expect("a block is shorter than 2 GiB");
        let place = RowPlace { end, is_marked: row.is_marked, sum: crc32c::crc32c(row.bytes) };
        self.places.push(place.to_bytes());
    }

    /// Puts the block into its table and starts an empty one.
    fn write(
        &mut self,
        blocks: &mut Table<'_, u64, &'static [u8]>,
        scratch: &mut Vec<u8>,
    ) -> Result<(), StoreError> {
        let key = self.end() - 1;
        self.encode_into(scratch);
        blocks.insert(key, scratch.as_slice())?;
        self.clear();
        Ok(())
    }

    fn encode_into(&self, bytes: &mut Vec<u8>) {
        let mut head = [0; HEAD_BYTES];
        head[..4].copy_from_slice(&MAGIC);
        head[4] = FORMAT;
        head[8..16].copy_from_slice(&self.first.to_le_bytes());
        let count = u32::try_from(self.places.len()).expect("fewer rows than bytes");
        head[16..SUM_AT].copy_from_slice(&count.to_le_bytes());
        let places = self.places.as_flattened();
        let sum = sum_of(&head, places);
        head[SUM_AT..].copy_from_slice(&sum.to_le_bytes());
        bytes.clear();
        bytes.extend_from_slice(&head);
        bytes.extend_from_slice(places);
        bytes.extend_from_slice(&self.rows);
    }

    fn clear(&mut self) {
        self.places.clear();
        self.rows.clear();
    }
}

/// Appends rows to a table of blocks, inside one write transaction.
pub(in crate::store) struct BlockWriter<'txn> {
    blocks: Table<'txn, u64, &'static [u8]>,
    builder: Builder,
    /// The key of the newest block, while the builder holds its rows.
    resumed: Option<u64>,
    /// Whether the builder holds rows that the table does not.
    is_new: bool,
    scratch: Vec<u8>,
}

impl<'txn> BlockWriter<'txn> {
    /// Goes on behind the newest row of a table.
    /// Errors: `Damaged` if the newest block is.
    pub(in crate::store) fn open(
        write_txn: &'txn WriteTransaction,
        table: BlockTable,
    ) -> Result<Self, StoreError> {
        let blocks = write_txn.open_table(table)?;
        let mut builder = Builder::new(BLOCK_BYTES_MAX);
        let mut resumed = None;
        if let Some((key, value)) = blocks.last()? {
            resumed = Some(key.value());
            for row in Block::parse(table, key.value(), value.value())?.rows() {
                builder.push(&row?);
            }
        }
        Ok(Self { blocks, builder, resumed, is_new: false, scratch: Vec::new() })
    }

    /// The number behind the newest row; none in an empty table.
    pub(in crate::store) fn end(&self) -> Option<u64> {
        (!self.builder.is_empty()).then(|| self.builder.end())
    }

    /// Appends a row. Its number is above all before it.
    pub(in crate::store) fn push(&mut self, row: &BlockRow<'_>) -> Result<(), StoreError> {
        assert!(self.end().is_none_or(|end| row.number >= end), "rows come in order");
        if !self.builder.takes(row) {
            self.flush()?;
        }
        self.builder.push(row);
        self.is_new = true;
        Ok(())
    }

    /// Writes what is not written yet.
    pub(in crate::store) fn finish(mut self) -> Result<(), StoreError> {
        self.flush()
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        let resumed = self.resumed.take();
        if self.is_new {
            if let Some(key) = resumed {
                self.blocks.remove(key)?;
            }
            self.builder.write(&mut self.blocks, &mut self.scratch)?;
        } else {
            self.builder.clear();
        }
        self.is_new = false;
        Ok(())
    }
}

/// Writes the rows of one block again, in one block or, where they do not fit, in two: in more only if
/// they have grown beyond that.
pub(in crate::store) fn rewrite<'r>(
    blocks: &mut Table<'_, u64, &'static [u8]>,
    rows: impl Iterator<Item = BlockRow<'r>> + Clone,
) -> Result<(), StoreError> {
    let lengths = rows.clone().map(|row| PLACE_BYTES + row.bytes.len());
    let (bytes, longest) = (lengths.clone().sum::<usize>(), lengths.max().unwrap_or(0));
    let is_one = HEAD_BYTES + bytes <= BLOCK_BYTES_MAX;
    // The first takes the row that goes beyond the half: a third would be left with little.
    let half = HEAD_BYTES + bytes.div_ceil(2) + longest;
    let bytes_max = if is_one { BLOCK_BYTES_MAX } else { half.min(BLOCK_BYTES_MAX) };
    let mut builder = Builder::new(bytes_max);
    let mut scratch = Vec::new();
    for row in rows {
        if !builder.takes(&row) {
            builder.write(blocks, &mut scratch)?;
        }
        builder.push(&row);
    }
    if builder.is_empty() { Ok(()) } else { builder.write(blocks, &mut scratch) }
}
