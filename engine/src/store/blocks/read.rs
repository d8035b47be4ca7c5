//! Finds rows in blocks.

use std::ops::Range;

use redb::{AccessGuard, ReadableTable, StorageError};

use super::{Block, BlockRow, BlockTable};
use crate::store::error::StoreError;
use crate::store::query::SharedTable;

/// A block in its table: its key and its bytes.
pub(in crate::store) type FoundBlock<'t> = (AccessGuard<'t, u64>, AccessGuard<'t, &'static [u8]>);

/// The block that holds a row of this number, or else the first one behind it.
pub(in crate::store) fn block_from(
    blocks: &impl ReadableTable<u64, &'static [u8]>,
    number: u64,
) -> Result<Option<FoundBlock<'_>>, StorageError> {
    blocks.range(number..)?.next().transpose()
}

/// A table of blocks, read in one transaction. It keeps the block it read last, so neighbours cost
/// one read and one check of the places.
pub(in crate::store) struct BlockReader {
    table: BlockTable,
    blocks: SharedTable<u64, &'static [u8]>,
    at_hand: Option<CachedBlock>,
}

/// Rows that a scan cannot read.
pub(in crate::store) struct LostRows {
    pub(in crate::store) numbers: Range<u64>,
    pub(in crate::store) damage: StoreError,
}

struct CachedBlock {
    first: u64,
    end: u64,
    value: AccessGuard<'static, &'static [u8]>,
}

impl BlockReader {
    /// A reader of the table, which is open.
    pub(in crate::store) const fn new(
        table: BlockTable,
        blocks: SharedTable<u64, &'static [u8]>,
    ) -> Self {
        Self { table, blocks, at_hand: None }
    }

    /// The row with this number.
    pub(in crate::store) fn row(
        &mut self,
        number: u64,
    ) -> Result<Option<BlockRow<'_>>, StoreError> {
        self.seek(number)?;
        self.row_at_hand(number)
    }

    /// The first row with this number or a higher one.
    pub(in crate::store) fn row_from(
        &mut self,
        number: u64,
    ) -> Result<Option<BlockRow<'_>>, StoreError> {
        self.seek(number)?;
        let first = self.at_hand.as_ref().map_or(number, |block| block.first);
        self.row_at_hand(number.max(first))
    }

    /// The number behind the newest row; 0 without rows.
    pub(in crate::store) fn end(&self) -> Result<u64, StoreError> {
        Ok(self.blocks.last()?.map_or(0, |(key, _)| key.value() + 1))
    }

    /// Hands every row with one of these numbers to `visit`, in order.
    pub(in crate::store) fn each(
        &self,
        numbers: Range<u64>,
        mut visit: impl FnMut(BlockRow<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.each_readable(numbers, |row| visit(row.map_err(|lost| lost.damage)?))
    }

    /// The same, but goes on behind what is damaged, if `visit` does.
    pub(in crate::store) fn each_readable(
        &self,
        numbers: Range<u64>,
        mut visit: impl FnMut(Result<BlockRow<'_>, LostRows>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut next = numbers.start;
        for entry in self.blocks.range(numbers.start..)? {
            let (key, value) = entry?;
            let end = numbers.end.min(key.value() + 1);
            match Block::parse(self.table, key.value(), value.value()) {
                Ok(block) => {
                    for number in next.max(block.first)..end {
                        let lost = |damage| LostRows { numbers: number..number + 1, damage };
                        if let Some(row) = block.row(number).map_err(lost).transpose() {
                            visit(row)?;
                        }
                    }
                }
                Err(damage) => visit(Err(LostRows { numbers: next..end, damage }))?,
            }
            next = end;
            if next >= numbers.end {
                break;
            }
        }
        Ok(())
    }

    /// This number, or where its row is damaged, the one behind the block.
    pub(in crate::store) fn behind_damage(&mut self, number: u64) -> Result<u64, StoreError> {
        let mut number = number;
        while let Err(StoreError::Damaged { .. }) = self.row_from(number) {
            let damaged = block_from(&*self.blocks, number)?;
            number = damaged.map_or(u64::MAX, |(key, _)| key.value() + 1);
        }
        Ok(number)
    }

    /// Brings to hand the block that holds this number, or else the first one behind it.
    fn seek(&mut self, number: u64) -> Result<(), StoreError> {
        let is_at_hand =
            self.at_hand.as_ref().is_some_and(|block| (block.first..block.end).contains(&number));
        if is_at_hand {
            return Ok(());
        }
        self.take(self.blocks.range(number..)?.next().transpose()?)
    }

    fn take(&mut self, found: Option<FoundBlock<'static>>) -> Result<(), StoreError> {
        self.at_hand = None;
        if let Some((key, value)) = found {
            let block = Block::parse(self.table, key.value(), value.value())?;
            let (first, end) = (block.first, block.end());
            self.at_hand = Some(CachedBlock { first, end, value });
        }
        Ok(())
    }

    fn row_at_hand(&self, number: u64) -> Result<Option<BlockRow<'_>>, StoreError> {
        let Some(at_hand) = &self.at_hand else { return Ok(None) };
        let block = Block::trusted(self.table, at_hand.value.value());
        block.map_or(Ok(None), |block| block.row(number))
    }
}
