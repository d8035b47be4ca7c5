//! How transactions stand that were made in earlier runs: small rows over their blocks, folded into
//! the block once it has many.
//!
//! Most transactions change once or twice, days after they were made. A row for each change costs
//! little now; writing its whole block again pays when one block has so many of them.

use std::collections::BTreeMap;

use redb::{ReadableTable, Table, WriteTransaction};

use crate::codec::CodecError;
use crate::domain::transaction::TransactionProgress;
use crate::packed::{TransactionView, append_progress, append_row_with_progress, parse_progress};
use crate::store::blocks::{self, Block, BlockRow};
use crate::store::error::StoreError;
use crate::store::rows;
use crate::store::tables::{TRANSACTION_BLOCKS, TRANSACTION_CHANGES};

/// So many changes are folded into their block: about a quarter of its rows.
const FOLD_CHANGES: usize = 16;
/// So many blocks are folded in one commit; others wait for their next change.
const FOLDS_MAX: usize = 256;

/// Writes how transactions of earlier runs stand.
pub(super) fn write_changes(
    write_txn: &WriteTransaction,
    changes: &BTreeMap<u64, &TransactionProgress>,
) -> Result<(), StoreError> {
    if changes.is_empty() {
        return Ok(());
    }
    let mut tables = Tables {
        blocks: write_txn.open_table(TRANSACTION_BLOCKS)?,
        changes: write_txn.open_table(TRANSACTION_CHANGES.definition())?,
    };
    let mut folds = 0;
    let mut rest = changes.iter().peekable();
    while let Some((seq, _)) = rest.peek() {
        let (first, end) = tables.block_of(**seq)?;
        while let Some((seq, progress)) = rest.next_if(|(seq, _)| **seq < end) {
            let row = rows::pack(|bytes| append_progress(bytes, progress));
            tables.changes.insert(*seq, row.as_slice())?;
        }
        if folds < FOLDS_MAX && tables.is_due(first, end)? {
            tables.fold(first, end)?;
            folds += 1;
        }
    }
    Ok(())
}

struct Tables<'txn> {
    blocks: Table<'txn, u64, &'static [u8]>,
    changes: Table<'txn, u64, &'static [u8]>,
}

impl Tables<'_> {
    /// The first number of the block that holds a transaction, and the number behind its last.
    fn block_of(&self, seq: u64) -> Result<(u64, u64), StoreError> {
        let found = self.blocks.range(..=seq)?.next_back().transpose()?;
        let block = found.map(|(key, value)| {
            let block = Block::parse(TRANSACTION_BLOCKS, key.value(), value.value())?;
            Ok::<_, StoreError>((block.first(), block.end()))
        });
        match block.transpose()? {
            Some((first, end)) if seq < end => Ok((first, end)),
            _ => Err(no_such_transaction(seq)),
        }
    }

    fn is_due(&self, first: u64, end: u64) -> Result<bool, StoreError> {
        let mut count = 0;
        for change in self.changes.range(first..end)?.take(FOLD_CHANGES) {
            change?;
            count += 1;
        }
        Ok(count == FOLD_CHANGES)
    }

    /// Writes a block again with all its changes, and lets go of those.
    fn fold(&mut self, first: u64, end: u64) -> Result<(), StoreError> {
        let Some(value) = self.blocks.get(first)?.map(|value| value.value().to_vec()) else {
            unreachable!("the block was just found")
        };
        let block = Block::parse(TRANSACTION_BLOCKS, first, &value)?;
        let mut changes = BTreeMap::new();
        for change in self.changes.extract_from_if(first..end, |_, _| true)? {
            let (seq, row) = change?;
            let name = TRANSACTION_CHANGES.name();
            changes.insert(seq.value(), rows::unpack(name, row.value(), parse_progress)?);
        }
        let mut bytes = Vec::with_capacity(value.len() * 2);
        let mut ends = Vec::new();
        for row in block.rows() {
            append_changed(&mut bytes, row.bytes, changes.get(&row.number)).map_err(unreadable)?;
            ends.push((row.number, bytes.len(), row.is_marked));
        }
        let mut start = 0;
        let rows: Vec<_> = ends
            .into_iter()
            .map(|(number, end, is_marked)| {
                let bytes = &bytes[start..end];
                start = end;
                BlockRow { number, bytes, is_marked }
            })
            .collect();
        blocks::rewrite(&mut self.blocks, rows.into_iter())
    }
}

/// Appends a transaction's row, with another progress where it has changed.
pub(super) fn append_changed(
    bytes: &mut Vec<u8>,
    row: &[u8],
    change: Option<&TransactionProgress>,
) -> Result<(), CodecError> {
    match change {
        Some(progress) => append_row_with_progress(bytes, &TransactionView::parse(row)?, progress),
        None => bytes.extend_from_slice(row),
    }
    Ok(())
}

/// A change of a transaction that was never made.
pub(in crate::store) fn no_such_transaction(seq: u64) -> StoreError {
    StoreError::Inconsistent { what: format!("transaction {seq} changed, and there is none") }
}

/// A row of a block that cannot be read.
pub(super) fn unreadable(source: CodecError) -> StoreError {
    StoreError::Row { table: "transaction_blocks", source }
}
