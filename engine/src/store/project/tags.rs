//! Changes of transactions by hand, and the lists of dimensions that follow. A transaction stays in
//! the run of the dimension it was made with; changes of that by hand are kept beside the run.

use std::collections::BTreeMap;

use redb::{ReadableTable, Table, WriteTransaction};

use super::changes::no_such_transaction;
use crate::domain::card::Dimensions;
use crate::domain::ids::DimensionId;
use crate::domain::transaction_tags::TagChanges;
use crate::packed::TransactionView;
use crate::store::blocks::{Block, block_from};
use crate::store::error::{StoreError, unreadable_transaction};
use crate::store::rows;
use crate::store::tables::{TAG_MOVES, TRANSACTION_BLOCKS, TRANSACTION_TAGS};

/// Lays what was changed over what had been changed before, and notes which lists of dimensions a
/// transaction leaves or joins by that. Comes behind the rows of new transactions.
pub(super) fn write_tags(
    write_txn: &WriteTransaction,
    changes: &BTreeMap<u64, TagChanges>,
) -> Result<(), StoreError> {
    if changes.is_empty() {
        return Ok(());
    }
    let blocks = write_txn.open_table(TRANSACTION_BLOCKS)?;
    let mut moves = write_txn.open_table(TAG_MOVES)?;
    let mut stored = write_txn.open_table(TRANSACTION_TAGS.definition())?;
    let name = TRANSACTION_TAGS.name();
    for (seq, change) in changes {
        let made = made_with(&blocks, *seq)?;
        let before = stored.get(*seq)?.map(|row| rows::decode(name, row.value())).transpose()?;
        let before: TagChanges = before.unwrap_or_default();
        let mut after = before.clone();
        after.merge(change);
        for ((made, before), after) in
            made.iter().zip(before.dimensions_over(&made)).zip(after.dimensions_over(&made))
        {
            if before != after {
                set_carried(&mut moves, (before, *seq), *made, TagPresence::NotNow)?;
                set_carried(&mut moves, (after, *seq), *made, TagPresence::Now)?;
            }
        }
        stored.insert(*seq, rows::encode(name, &after)?.as_slice())?;
    }
    Ok(())
}

/// Whether a transaction carries a dimension.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TagPresence {
    Now,
    NotNow,
}

/// Notes that a transaction carries a dimension or not, where that is not as it was made.
fn set_carried(
    moves: &mut Table<'_, (u128, u64), bool>,
    (dimension, seq): (Option<DimensionId>, u64),
    made: Option<DimensionId>,
    carried: TagPresence,
) -> Result<(), StoreError> {
    let Some(id) = dimension else { return Ok(()) };
    let key = (id.0.as_u128(), seq);
    let is_carried = carried == TagPresence::Now;
    if is_carried == (made == dimension) {
        moves.remove(key)?;
    } else {
        moves.insert(key, is_carried)?;
    }
    Ok(())
}

/// The dimensions a transaction was made with.
fn made_with(blocks: &Table<'_, u64, &'static [u8]>, seq: u64) -> Result<Dimensions, StoreError> {
    let found = block_from(blocks, seq)?;
    let Some((key, value)) = found else { return Err(no_such_transaction(seq)) };
    let block = Block::parse(TRANSACTION_BLOCKS, key.value(), value.value())?;
    let Some(row) = block.row(seq)? else { return Err(no_such_transaction(seq)) };
    Ok(TransactionView::parse(row.bytes).map_err(unreadable_transaction)?.dimensions())
}
