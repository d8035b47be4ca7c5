//! Reads batches from any thread.
//!
//! Each call is one short read transaction whose bytes are copied out: a transaction held open
//! would let the file grow without bound.

use std::ops::Bound;
use std::sync::Arc;

use ::redb::{
    Database, ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTable, TableError,
};

use super::super::chain::peek_header;
use super::super::{BatchNumber, JournalError, JournalIdentity, JournalReader, StoredBatch};
use super::{BATCHES, META, meta};

/// The reading side of a journal file. Clones read the same file.
#[derive(Clone, Debug)]
pub struct RedbReader {
    db: Arc<Database>,
}

type Batches = ReadOnlyTable<u64, &'static [u8]>;

impl RedbReader {
    pub(super) fn new(db: Arc<Database>) -> Self {
        Self { db }
    }

    /// Reads whose journal it is; `None` if nothing was ever committed to the file.
    pub(super) fn identity(&self) -> Result<Option<JournalIdentity>, JournalError> {
        let read_txn = self.db.begin_read()?;
        let table = match read_txn.open_table(META) {
            Err(TableError::TableDoesNotExist(_)) => return absent_identity(&read_txn),
            table => table?,
        };
        match table.get(meta::KEY)? {
            Some(row) => meta::parse(row.value()).map(Some),
            None => absent_identity(&read_txn),
        }
    }

    /// Shows each batch from `number` on, in place and in order.
    /// Errors: what `visit` says, or keys out of order.
    pub(super) fn each_from(
        &self,
        number: BatchNumber,
        mut visit: impl FnMut(u64, &[u8]) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        let batches = self.batches()?;
        let mut lowest = number.0;
        for entry in batches.range(number.0..)? {
            let (key, value) = entry?;
            let key = key.value();
            if key < lowest {
                return Err(disordered(key));
            }
            visit(key, value.value())?;
            lowest = key.saturating_add(1);
        }
        Ok(())
    }

    pub(super) fn batches(&self) -> Result<Batches, JournalError> {
        Ok(self.db.begin_read()?.open_table(BATCHES)?)
    }
}

impl JournalReader for RedbReader {
    fn first(&self) -> Result<BatchNumber, JournalError> {
        first_of(&self.batches()?)
    }

    fn last(&self) -> Result<BatchNumber, JournalError> {
        last_of(&self.batches()?)
    }

    fn read_from(
        &self,
        number: BatchNumber,
        limit_bytes: usize,
    ) -> Result<Vec<StoredBatch>, JournalError> {
        let batches = self.batches()?;
        let first = first_of(&batches)?;
        if number < first {
            return Err(JournalError::Trimmed { first });
        }
        let mut stored = Vec::new();
        let mut stored_bytes = 0;
        let mut lowest = number.0;
        for entry in batches.range(number.0..)? {
            let (key, value) = entry?;
            let (key, value) = (key.value(), value.value());
            if key < lowest {
                return Err(disordered(key));
            }
            if !stored.is_empty() && stored_bytes + value.len() > limit_bytes {
                break;
            }
            stored_bytes += value.len();
            stored.push(StoredBatch { number: BatchNumber(key), bytes: value.to_vec() });
            lowest = key.saturating_add(1);
        }
        Ok(stored)
    }

    fn find_batch_of_seq(&self, seq: u64) -> Result<Option<BatchNumber>, JournalError> {
        let batches = self.batches()?;
        let (first, last) = (first_of(&batches)?, last_of(&batches)?);
        if seq < seqs_of(&batches, first.0)?.0 {
            return Err(JournalError::Trimmed { first });
        }
        // The first batch whose newest record is not before `seq` lies in low..high.
        let (mut low, mut high) = (first.0, last.0.saturating_add(1));
        while low < high {
            let middle = low + (high - low) / 2;
            if seqs_of(&batches, middle)?.1 < seq {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok((low <= last.0).then_some(BatchNumber(low)))
    }
}

/// A file without the row is new only if it has no batches either.
fn absent_identity(read_txn: &ReadTransaction) -> Result<Option<JournalIdentity>, JournalError> {
    match read_txn.list_tables()?.next() {
        None => Ok(None),
        Some(_) => Err(JournalError::NotAJournal { what: "it has no identity row".to_owned() }),
    }
}

fn first_of(batches: &Batches) -> Result<BatchNumber, JournalError> {
    batches.first()?.map(|(key, _)| BatchNumber(key.value())).ok_or_else(empty)
}

fn last_of(batches: &Batches) -> Result<BatchNumber, JournalError> {
    batches.last()?.map(|(key, _)| BatchNumber(key.value())).ok_or_else(empty)
}

/// Returns the batch's first record and its newest.
fn seqs_of(batches: &Batches, key: u64) -> Result<(u64, u64), JournalError> {
    let mut found = batches.range((Bound::Included(key), Bound::Unbounded))?;
    let (_, value) = found.next().ok_or_else(empty)??;
    let header = peek_header(value.value()).map_err(|fault| JournalError::corrupt(key, &fault))?;
    Ok((header.first_seq, header.last_seq()))
}

fn empty() -> JournalError {
    JournalError::CorruptFile { what: "it holds no batch".to_owned(), damage: None }
}

fn disordered(key: u64) -> JournalError {
    JournalError::Corrupt { key, offset: 0, what: "the keys are out of order".to_owned() }
}
