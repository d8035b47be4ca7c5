//! The checkpoint of the tables, from which recovery starts.
//!
//! INVARIANT: the checkpoint is written in the same commit as the rows it speaks of, so whichever
//! commit survives a crash, its rows and its checkpoint agree.

use redb::{ReadableTable, WriteTransaction};
use serde::{Deserialize, Serialize};

use super::error::StoreError;
use super::rows;
use super::tables::{META, META_CHECKPOINT};
use crate::domain::ids::{LineSeq, RecordSeq, Timestamp, TransactionSeq};
use crate::journal::{BatchNumber, ChainHash, ChainPosition, Epoch};

/// The place in the journal up to which the tables hold everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The newest record in the tables.
    pub applied_seq: RecordSeq,
    /// The instant when its command was accepted.
    pub applied_at: Timestamp,
    /// The epoch of the newest batch in the tables.
    pub epoch: u64,
    /// The number of that batch; 0 before the first.
    pub batch: u64,
    /// The hash of that batch.
    pub chain_hash: [u8; 32],
    /// The newest transaction.
    pub last_transaction: TransactionSeq,
    /// The newest statement line.
    pub last_line: LineSeq,
}

impl Checkpoint {
    /// The place in the chain that the journal continues after this checkpoint.
    pub const fn position(&self) -> ChainPosition {
        ChainPosition {
            epoch: Epoch(self.epoch),
            number: BatchNumber(self.batch),
            hash: ChainHash(self.chain_hash),
            last_seq: self.applied_seq.0,
        }
    }
}

/// Reads the checkpoint; the beginning of everything where there is none yet.
pub(super) fn read(
    meta: &impl ReadableTable<&'static str, &'static [u8]>,
) -> Result<Checkpoint, StoreError> {
    match meta.get(META_CHECKPOINT)? {
        Some(bytes) => rows::decode(META_CHECKPOINT, bytes.value()),
        None => Ok(Checkpoint::default()),
    }
}

/// Writes the checkpoint.
pub(super) fn write(
    write_txn: &WriteTransaction,
    checkpoint: &Checkpoint,
) -> Result<(), StoreError> {
    let bytes = rows::encode(META_CHECKPOINT, checkpoint)?;
    write_txn.open_table(META)?.insert(META_CHECKPOINT, bytes.as_slice())?;
    Ok(())
}
