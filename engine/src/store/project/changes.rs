//! The progress of transactions from earlier runs: small rows over their blocks, folded into the
//! block once it has many.
//!
//! Most transactions change once or twice, days after they were made. A row for each change costs
//! little now; writing its whole block again pays when one block has so many of them.

use std::collections::BTreeMap;

use redb::{ReadableTable, Table, WriteTransaction};

use crate::codec::CodecError;
use crate::domain::ids::{CardSlot, CompanySlot};
use crate::domain::money::Minor;
use crate::domain::transaction::{TransactionKind, TransactionProgress, TransactionState};
use crate::packed::{TransactionView, append_progress, append_row_with_progress, parse_progress};
use crate::store::blocks::{self, Block, BlockRow};
use crate::store::error::{StoreError, unreadable_transaction};
use crate::store::rows;
use crate::store::sets::{Class, SetChanges};
use crate::store::tables::{TRANSACTION_BLOCKS, TRANSACTION_CHANGES};

/// Changes that make a block due for folding: about a quarter of its rows.
const FOLD_CHANGES: usize = 16;
/// The most blocks that one commit folds; others wait for their next change.
const FOLDS_MAX: usize = 256;

/// Changes of transactions of earlier runs, by sequence number.
pub(super) type EarlierChanges<'a> = BTreeMap<u64, &'a TransactionProgress>;

/// Writes how transactions of earlier runs stand. Notes which go from one set to another, and what
/// that adds to the holds of cards.
pub(super) fn write_changes(
    write_txn: &WriteTransaction,
    changes: &EarlierChanges<'_>,
    sets: &mut SetChanges,
    held: &mut Vec<(u32, Minor)>,
) -> Result<(), StoreError> {
    if changes.is_empty() {
        return Ok(());
    }
    let mut tables = ChangedTables {
        blocks: write_txn.open_table(TRANSACTION_BLOCKS)?,
        changes: write_txn.open_table(TRANSACTION_CHANGES.definition())?,
    };
    let mut folds = 0;
    let mut rest = changes.iter().peekable();
    while let Some((seq, _)) = rest.peek() {
        let block = tables.block_of(**seq, changes)?;
        for (made, (seq, progress)) in block.made.iter().zip(rest.by_ref()) {
            let before = tables.replace(*seq, progress)?.unwrap_or(made.standing);
            let classes =
                (Class::of(made.kind, before.state), Class::of(made.kind, progress.state));
            sets.go(made.company, classes, *seq);
            let added = progress.held.total() - before.held;
            held.extend(made.card.map(|card| (card.0, added)));
        }
        if folds < FOLDS_MAX && tables.is_due(block.first, block.end)? {
            tables.fold(block.first, block.end)?;
            folds += 1;
        }
    }
    Ok(())
}

/// A block with transactions that change.
struct ChangedBlock {
    first: u64,
    /// The number behind its last.
    end: u64,
    /// The changed transactions, in order.
    made: Vec<RowFacts>,
}

/// The parts of a stored row that say which set it is in, and whose hold it is.
struct RowFacts {
    company: CompanySlot,
    kind: TransactionKind,
    card: Option<CardSlot>,
    standing: Standing,
}

/// The standing of a transaction before a change.
#[derive(Clone, Copy)]
struct Standing {
    state: TransactionState,
    held: Minor,
}

struct ChangedTables<'txn> {
    blocks: Table<'txn, u64, &'static [u8]>,
    changes: Table<'txn, u64, &'static [u8]>,
}

impl ChangedTables<'_> {
    /// The block that holds a transaction, with all that changes in it from there on.
    fn block_of(&self, seq: u64, changes: &EarlierChanges<'_>) -> Result<ChangedBlock, StoreError> {
        let found = blocks::block_from(&self.blocks, seq)?;
        let Some((key, value)) = found else { return Err(no_such_transaction(seq)) };
        let block = Block::parse(TRANSACTION_BLOCKS, key.value(), value.value())?;
        let mut made = Vec::new();
        for (seq, _) in changes.range(seq..block.end()) {
            let Some(row) = block.row(*seq)? else { return Err(no_such_transaction(*seq)) };
            let row = TransactionView::parse(row.bytes).map_err(unreadable_transaction)?;
            let standing =
                Standing { state: row.state(), held: row.held().map_err(unreadable_transaction)? };
            let (company, kind, card) = (row.company(), row.kind(), row.card());
            made.push(RowFacts { company, kind, card, standing });
        }
        Ok(ChangedBlock { first: block.first, end: block.end(), made })
    }

    /// Notes the new standing of a transaction; returns the one before, where that was newer than
    /// the block's.
    fn replace(
        &mut self,
        seq: u64,
        progress: &TransactionProgress,
    ) -> Result<Option<Standing>, StoreError> {
        let row = rows::pack(|bytes| append_progress(bytes, progress));
        let before = self.changes.insert(seq, row.as_slice())?;
        let before =
            before.map(|row| rows::unpack(TRANSACTION_CHANGES.name(), row.value(), parse_progress));
        let before = before.transpose()?;
        Ok(before.map(|before| Standing { state: before.state, held: before.held.total() }))
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
        let found = blocks::block_from(&self.blocks, first)?;
        let found = found.map(|(key, value)| (key.value(), value.value().to_vec()));
        let (key, value) = found.expect("the block was just found");
        let block = Block::parse(TRANSACTION_BLOCKS, key, &value)?;
        let mut changes = BTreeMap::new();
        for change in self.changes.extract_from_if(first..end, |_, _| true)? {
            let (seq, row) = change?;
            let name = TRANSACTION_CHANGES.name();
            changes.insert(seq.value(), rows::unpack(name, row.value(), parse_progress)?);
        }
        let mut bytes = Vec::with_capacity(value.len() * 2);
        let mut ends = Vec::new();
        for row in block.rows() {
            let row = row?;
            append_changed(&mut bytes, row.bytes, changes.get(&row.number))
                .map_err(unreadable_transaction)?;
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
