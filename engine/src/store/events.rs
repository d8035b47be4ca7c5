//! The event log: which transactions were made and changed, numbered without holes in the order of
//! the journal. Its layout is in `packed/event_log.rs`.
//!
//! | table | key | value |
//! |---|---|---|
//! | event_blocks | number of the first event | CRC32C, packed block |
//!
//! Values are short, since each commit writes the newest one again. INVARIANT: events follow from the
//! records alone, so a record that is projected again after a crash gets the numbers it had.

use redb::{ReadableTable, WriteTransaction};

use super::error::StoreError;
use super::project::no_such_transaction;
use super::rows;
use super::tables::EVENT_BLOCKS;
use crate::domain::ids::{EventNumber, Timestamp, TransactionSeq};
use crate::limits;
use crate::packed::{EventBlock, LoggedEvents};

/// Appends events behind the newest ones. `next` is the transaction that the run makes first.
/// Errors: `Inconsistent` where a transaction changes that was not made.
pub(super) fn append_events(
    write_txn: &WriteTransaction,
    events: &[LoggedEvents],
    next: TransactionSeq,
) -> Result<(), StoreError> {
    if events.is_empty() {
        return Ok(());
    }
    let mut table = write_txn.open_table(EVENT_BLOCKS.definition())?;
    let newest = table
        .last()?
        .map(|(_, value)| rows::unpack(EVENT_BLOCKS.name(), value.value(), EventBlock::resume));
    let mut block = match newest {
        Some(block) => block?,
        None => EventBlock::begin(EventNumber(1), next, Timestamp(0)),
    };
    let mut write = |block: &EventBlock| -> Result<(), StoreError> {
        if !block.is_empty() {
            let value = rows::pack(|bytes| bytes.extend_from_slice(&block.bytes));
            table.insert(block.first().0, value.as_slice())?;
        }
        Ok(())
    };
    for events in events {
        if !block.takes(events, limits::EVENT_BLOCK_BYTES) {
            write(&block)?;
            block = block.following(events);
        }
        match events {
            LoggedEvents::Updated { transaction, .. } if !block.takes(events, usize::MAX) => {
                return Err(no_such_transaction(transaction.0));
            }
            _ => block.push(events),
        }
    }
    write(&block)
}
