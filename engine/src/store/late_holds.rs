//! Holds that may not have ended in time, since their rows could not be read.
//!
//! A start asks the tables for the holds due since its checkpoint. Where the tables could tell of none, or
//! not of some, the shard notes it, and each checkpoint carries the note until the holds have ended.
//!
//! INVARIANT: a checkpoint forgets a note only if it holds the record with which these holds had ended.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use redb::{ReadableTable, WriteTransaction};
use serde::{Deserialize, Serialize};

use super::error::StoreError;
use super::rows;
use super::tables::{META, META_LATE_HOLDS};
use crate::domain::ids::{RecordSeq, Timestamp, TransactionSeq};

/// The note about late holds.
#[derive(Debug, Default)]
pub struct LateHolds(Mutex<LateNote>);

#[derive(Debug, Default)]
struct LateNote {
    stored: Lateness,
    /// Whether the tables have failed to tell, and did not only have no time to.
    is_failure: bool,
    /// What is left of it once a checkpoint holds this record.
    next: Option<(RecordSeq, BTreeSet<TransactionSeq>)>,
}

/// The part of the note that a checkpoint carries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Lateness {
    /// All holds that end after this instant may be late.
    since: Option<Timestamp>,
    /// Transactions whose rows cannot be read: they may have holds.
    put_off: BTreeSet<TransactionSeq>,
}

impl LateHolds {
    /// Notes that holds that end after this instant are not asked for yet.
    pub fn expect(&self, since: Timestamp) {
        let mut note = self.0.lock();
        let stored = &mut note.stored;
        stored.since = Some(stored.since.map_or(since, |before| before.min(since)));
        note.next = None;
    }

    /// Notes that the tables cannot tell which holds end after this instant.
    pub fn note(&self, since: Timestamp) {
        self.expect(since);
        self.0.lock().is_failure = true;
    }

    /// Notes transactions whose rows cannot be read.
    pub fn put_off(&self, transactions: impl IntoIterator<Item = TransactionSeq>) {
        let mut note = self.0.lock();
        note.stored.put_off.extend(transactions);
        note.next = None;
    }

    /// Notes that all holds have ended in time or with this record, but those of some transactions.
    pub fn end_with(&self, seq: RecordSeq, put_off: BTreeSet<TransactionSeq>) {
        let mut note = self.0.lock();
        note.is_failure = false;
        note.next = Some((seq, put_off));
    }

    /// The instant after which a start has to ask for holds, where that is not its checkpoint's.
    pub fn since(&self) -> Option<Timestamp> {
        self.0.lock().stored.since
    }

    /// The transactions that were put off.
    pub fn transactions(&self) -> BTreeSet<TransactionSeq> {
        self.0.lock().stored.put_off.clone()
    }

    /// Whether holds are late because rows cannot be read.
    pub fn are_any(&self) -> bool {
        let note = self.0.lock();
        let put_off = note.next.as_ref().map_or(&note.stored.put_off, |next| &next.1);
        note.is_failure || !put_off.is_empty()
    }

    /// Writes beside a checkpoint of this record what will be left of the note with it.
    pub(super) fn write(
        &self,
        write_txn: &WriteTransaction,
        applied: RecordSeq,
    ) -> Result<(), StoreError> {
        let note = self.0.lock();
        match &note.next {
            Some((seq, put_off)) if *seq <= applied => {
                let put_off = put_off.clone();
                write_lateness(write_txn, &Lateness { since: None, put_off })
            }
            _ => write_lateness(write_txn, &note.stored),
        }
    }

    /// Forgets what has ended with the records of a checkpoint, once that is durable.
    pub(super) fn forget_ended(&self, applied: RecordSeq) {
        let mut note = self.0.lock();
        if let Some((_, put_off)) = note.next.take_if(|(seq, _)| *seq <= applied) {
            note.stored = Lateness { since: None, put_off };
        }
    }

    /// Adds the note to a copy of tables that may be older than it.
    pub(super) fn add_to(&self, copy: &WriteTransaction) -> Result<(), StoreError> {
        let mut lateness = read_lateness(&copy.open_table(META)?)?;
        let note = self.0.lock();
        lateness.since = lateness.since.into_iter().chain(note.stored.since).min();
        lateness.put_off.extend(&note.stored.put_off);
        write_lateness(copy, &lateness)
    }

    /// Takes up what the checkpoint carries.
    pub(super) fn take_up(
        &self,
        meta: &impl ReadableTable<&'static str, &'static [u8]>,
    ) -> Result<(), StoreError> {
        self.0.lock().stored = read_lateness(meta)?;
        Ok(())
    }
}

fn read_lateness(
    meta: &impl ReadableTable<&'static str, &'static [u8]>,
) -> Result<Lateness, StoreError> {
    let note = meta.get(META_LATE_HOLDS)?;
    note.map_or(Ok(Lateness::default()), |note| rows::decode(META_LATE_HOLDS, note.value()))
}

fn write_lateness(write_txn: &WriteTransaction, lateness: &Lateness) -> Result<(), StoreError> {
    let mut meta = write_txn.open_table(META)?;
    if *lateness == Lateness::default() {
        meta.remove(META_LATE_HOLDS)?;
    } else {
        meta.insert(META_LATE_HOLDS, rows::encode(META_LATE_HOLDS, lateness)?.as_slice())?;
    }
    Ok(())
}
