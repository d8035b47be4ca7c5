//! Transactions: the records as made, and their progress.

use std::ops::Range;

use redb::{AccessGuard, ReadOnlyTable, StorageError};

use super::list;
use super::{SharedTable, Snapshot};
use crate::decision::IncrementDecision;
use crate::domain::card::Dimensions;
use crate::domain::ids::{Timestamp, TransactionSeq};
use crate::domain::transaction::{TransactionProgress, TransactionRecord};
use crate::domain::transaction_tags::{Receipt, TagChanges};
use crate::packed::{RowAnswer, TransactionView, parse_increment, parse_progress};
use crate::store::blocks::{BlockReader, BlockRow, LostRows};
use crate::store::error::StoreError;
use crate::store::error::unreadable_transaction;
use crate::store::project::no_such_transaction;
use crate::store::rows;
use crate::store::tables::{INCREMENTS, TRANSACTION_BLOCKS, TRANSACTION_CHANGES, TRANSACTION_TAGS};

/// A transaction as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionRow {
    /// The part that never changes; in a box, since rows are handed on by many functions.
    pub record: Box<TransactionRecord>,
    /// The part that changes.
    pub progress: TransactionProgress,
    /// The changes by hand.
    pub tags: TagChanges,
}

impl TransactionRow {
    /// Its dimensions, as it was made or as they were changed by hand; deleted ones may be among
    /// them.
    pub fn dimensions(&self) -> Dimensions {
        self.tags.dimensions_over(&self.record.dimensions)
    }

    /// The note on the transaction; blank at first.
    pub fn note(&self) -> &str {
        self.tags.note.as_deref().unwrap_or_default()
    }

    /// Its receipt, also a lost one.
    pub fn receipt(&self) -> Option<&Receipt> {
        self.tags.receipt.as_ref()?.as_ref()
    }
}

impl Snapshot {
    /// Finds a transaction.
    pub fn transaction(&self, seq: TransactionSeq) -> Result<Option<TransactionRow>, StoreError> {
        let found = self.transaction_rows()?.find(seq.0)?;
        Ok(found.map(|(row, _)| row))
    }

    /// Finds transactions. Cost: reads a block once for all that follow each other in it.
    pub fn transactions(
        &self,
        seqs: impl Iterator<Item = TransactionSeq>,
    ) -> Result<Vec<Option<TransactionRow>>, StoreError> {
        let mut rows = self.transaction_rows()?;
        seqs.map(|seq| Ok(rows.find(seq.0)?.map(|(row, _)| row))).collect()
    }

    /// Hands every transaction to `visit`, in order. Cost: reads each block once.
    pub fn each_transaction(
        &self,
        mut visit: impl FnMut(TransactionRecord, TransactionProgress),
    ) -> Result<(), StoreError> {
        self.transaction_rows()?.each(0..u64::MAX, |_, view, progress| {
            let progress =
                progress.map_or_else(|| view.to_progress(), Ok).map_err(unreadable_transaction)?;
            visit(view.to_record().map_err(unreadable_transaction)?, progress);
            Ok(())
        })
    }

    /// The decisions on the first so many increments of a transaction, in their order.
    /// Cost: O(log n), O(limit).
    pub fn increments(
        &self,
        seq: TransactionSeq,
        limit: usize,
    ) -> Result<Vec<IncrementDecision>, StoreError> {
        let table = self.table(INCREMENTS.definition())?;
        let of_transaction = table.range((seq.0, 0)..=(seq.0, u64::MAX))?.take(limit);
        let decision_of = |entry: Result<(_, AccessGuard<'_, &[u8]>), StorageError>| {
            rows::unpack(INCREMENTS.name(), entry?.1.value(), parse_increment)
        };
        of_transaction.map(decision_of).collect()
    }

    /// Opens everything a transaction is put together from.
    pub(in crate::store) fn transaction_rows(&self) -> Result<TransactionRows, StoreError> {
        Ok(TransactionRows {
            blocks: self.blocks(TRANSACTION_BLOCKS)?,
            changes: self.table(TRANSACTION_CHANGES.definition())?,
            tags: self.table(TRANSACTION_TAGS.definition())?,
        })
    }
}

/// Everything a transaction is put together from: its row, and how it stands where that is newer.
pub(in crate::store) struct TransactionRows {
    blocks: BlockReader,
    changes: SharedTable<u64, &'static [u8]>,
    tags: SharedTable<u64, &'static [u8]>,
}

/// A transaction as its row is packed, with how it stands where that is newer.
type ScannedRow<'r, 'v> = (BlockRow<'r>, &'v TransactionView<'r>, Option<TransactionProgress>);

impl TransactionRows {
    /// Finds a transaction, with the answer its row says, if it says one.
    pub(in crate::store) fn find(
        &mut self,
        seq: u64,
    ) -> Result<Option<(TransactionRow, Option<RowAnswer>)>, StoreError> {
        let Some(row) = self.blocks.row(seq)? else { return Ok(None) };
        let view = view_of(&row)?;
        let record = Box::new(view.to_record().map_err(unreadable_transaction)?);
        let progress = match change_of(&self.changes, seq)? {
            Some(progress) => progress,
            None => view.to_progress().map_err(unreadable_transaction)?,
        };
        let tags = super::stored_row(&TRANSACTION_TAGS, &*self.tags, seq)?.unwrap_or_default();
        Ok(Some((TransactionRow { record, progress, tags }, view.answer())))
    }

    /// Hands every transaction with one of these numbers to `visit`, as its row is packed, with how
    /// it stands where that is newer.
    pub(in crate::store) fn each(
        &self,
        numbers: Range<u64>,
        mut visit: impl FnMut(
            BlockRow<'_>,
            &TransactionView<'_>,
            Option<TransactionProgress>,
        ) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.each_readable(numbers, |found| {
            let (row, view, progress) = found.map_err(|lost| lost.damage)?;
            visit(row, view, progress)
        })
    }

    /// The same, but goes on behind what is damaged, if `visit` does.
    pub(in crate::store) fn each_readable(
        &self,
        numbers: Range<u64>,
        mut visit: impl FnMut(Result<ScannedRow<'_, '_>, LostRows>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut changes = self.changes.range(numbers.clone())?;
        let mut next = changes.next().transpose()?;
        self.blocks.each_readable(numbers, |found| {
            let last = found.as_ref().map_or_else(|lost| lost.numbers.end - 1, |row| row.number);
            let mut progress = None;
            while let Some((seq, change)) = next.take_if(|(seq, _)| seq.value() <= last) {
                if found.is_ok() && seq.value() < last {
                    return Err(no_such_transaction(seq.value()));
                }
                progress = Some(parse_change(change.value())?);
                next = changes.next().transpose()?;
            }
            match found {
                Ok(row) => visit(Ok((row, &view_of(&row)?, progress))),
                Err(lost) => visit(Err(lost)),
            }
        })
    }

    /// The number of the first transaction authorized at `at` or later; that behind the last where
    /// there is none. Damaged ones right before it may be such, and come first. Cost: O(log n) blocks.
    pub(in crate::store) fn first_authorized(&mut self, at: Timestamp) -> Result<u64, StoreError> {
        list::partition_point(0, self.end()?, |seq| {
            Ok(self.readable_at(seq)?.is_some_and(|authorized_at| authorized_at < at))
        })
    }

    /// The instant when a transaction, or the first one after it, was authorized.
    pub(in crate::store) fn authorized_at(
        &mut self,
        seq: u64,
    ) -> Result<Option<Timestamp>, StoreError> {
        let row = self.blocks.row_from(seq)?;
        row.map(|row| Ok(view_of(&row)?.authorized_at())).transpose()
    }

    /// The numbers of the transactions authorized at `from` or later, and before `to`, with damaged
    /// ones that may be among them. Cost: O(log n) blocks for each.
    pub(in crate::store) fn authorized_within(
        &mut self,
        from: Option<Timestamp>,
        to: Option<Timestamp>,
    ) -> Result<Range<u64>, StoreError> {
        let low = from.map_or(Ok(0), |at| self.first_authorized(at))?;
        let mut high = self.end()?;
        if let Some(at) = to {
            let first = self.first_authorized(at)?;
            high = high.min(self.blocks.behind_damage(first)?);
        }
        Ok(low..high.max(low))
    }

    /// The instant when a transaction, or one after it that can be read, was authorized.
    pub(in crate::store) fn readable_at(
        &mut self,
        seq: u64,
    ) -> Result<Option<Timestamp>, StoreError> {
        let readable = self.blocks.behind_damage(seq)?;
        self.authorized_at(readable)
    }

    /// The number behind the newest transaction's.
    pub(in crate::store) fn end(&self) -> Result<u64, StoreError> {
        self.blocks.end()
    }

    /// Hands the row of a transaction that a list names to `look`.
    pub(in crate::store) fn look_at<T>(
        &mut self,
        seq: u64,
        look: impl FnOnce(&TransactionView<'_>) -> T,
    ) -> Result<T, StoreError> {
        let Some(row) = self.blocks.row(seq)? else { return Err(missing(seq)) };
        Ok(look(&view_of(&row)?))
    }

    /// Gets a transaction that a list names.
    pub(super) fn get(&mut self, seq: u64) -> Result<TransactionRow, StoreError> {
        self.find(seq)?.map(|(row, _)| row).ok_or_else(|| missing(seq))
    }
}

fn missing(seq: u64) -> StoreError {
    StoreError::Inconsistent { what: format!("a list names transaction {seq}, and there is none") }
}

fn view_of<'a>(row: &BlockRow<'a>) -> Result<TransactionView<'a>, StoreError> {
    TransactionView::parse(row.bytes).map_err(unreadable_transaction)
}

/// The newer progress of a transaction, if it has changed.
fn change_of(
    changes: &ReadOnlyTable<u64, &'static [u8]>,
    seq: u64,
) -> Result<Option<TransactionProgress>, StoreError> {
    changes.get(seq)?.map(|row| parse_change(row.value())).transpose()
}

fn parse_change(row: &[u8]) -> Result<TransactionProgress, StoreError> {
    rows::unpack(TRANSACTION_CHANGES.name(), row, parse_progress)
}
