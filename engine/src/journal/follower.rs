//! Follows a journal from a known place, proving each link on the way.
//!
//! Recovery, the projector and `verify` read through this, never around it.

use super::chain::{
    BATCH_HEADER_BYTES, BatchHeader, ChainCursor, ChainHash, ChainLink, NUMBER_OFFSET,
};
use super::{BatchNumber, ChainPosition, JournalError, JournalReader};

/// A batch whose place in the chain is proven.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProvenBatch {
    /// Its header; a barrier has no records.
    pub header: BatchHeader,
    /// Its hash.
    pub hash: ChainHash,
    /// Returns the batch as it is stored.
    pub bytes: Vec<u8>,
}

impl ProvenBatch {
    /// Returns the records, empty for a barrier.
    pub fn payload(&self) -> &[u8] {
        &self.bytes[BATCH_HEADER_BYTES..]
    }

    /// Returns the place in the chain after this batch, as a checkpoint stores it.
    pub fn position(&self) -> ChainPosition {
        ChainPosition {
            epoch: self.header.epoch,
            number: self.header.number,
            hash: self.hash,
            last_seq: self.header.last_seq(),
        }
    }
}

/// Reads on from a place in the chain.
#[derive(Debug)]
pub struct JournalFollower<J> {
    reader: J,
    cursor: ChainCursor,
    next: BatchNumber,
}

impl<J: JournalReader> JournalFollower<J> {
    /// Follows from the batch after `position`, which has to link to it.
    pub fn after(reader: J, partition: u16, position: ChainPosition) -> Self {
        let next = BatchNumber(position.number.0 + 1);
        Self { reader, cursor: ChainCursor::after(partition, position), next }
    }

    /// Reads and proves the batches that follow, about `limit_bytes` of them; empty at the end.
    /// Errors: `Corrupt` with key and offset, `Trimmed` if the place is not kept any more.
    pub fn read_next(&mut self, limit_bytes: usize) -> Result<Vec<ProvenBatch>, JournalError> {
        let stored = self.reader.read_from(self.next, limit_bytes)?;
        let mut proven = Vec::with_capacity(stored.len());
        for batch in stored {
            let key = batch.number.0;
            let accepted = self
                .cursor
                .accept(&batch.bytes)
                .map_err(|fault| JournalError::corrupt(key, &fault))?;
            self.next = BatchNumber(key + 1);
            if let ChainLink::Batch(view) | ChainLink::Barrier(view) = accepted {
                check_key(key, view.header.number)?;
                let (header, hash) = (view.header, view.hash);
                proven.push(ProvenBatch { header, hash, bytes: batch.bytes });
            }
        }
        Ok(proven)
    }
}

/// Checks that a batch stands under its own number.
pub(super) fn check_key(key: u64, number: BatchNumber) -> Result<(), JournalError> {
    if key == number.0 {
        return Ok(());
    }
    let what = format!("batch {} is stored under the key of another", number.0);
    Err(JournalError::Corrupt { number: key, offset: NUMBER_OFFSET as u64, what })
}
