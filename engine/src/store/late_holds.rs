//! How far back a start looks for holds that have not ended.
//!
//! Holds end in time, so a start asks the tables for those due since its checkpoint. Where rows cannot be
//! read, holds end late: the shard notes since when, and each checkpoint carries it, until a record has
//! ended all of them.
//!
//! INVARIANT: a checkpoint forgets it only if it holds that record.

use parking_lot::Mutex;
use redb::{ReadableTable, WriteTransaction};

use super::error::StoreError;
use super::tables::{META, META_LATE_HOLDS};
use crate::domain::ids::{RecordSeq, Timestamp};

/// The instant since which holds may be late, if any may.
#[derive(Debug, Default)]
pub struct LateHolds(Mutex<Lateness>);

#[derive(Debug, Default)]
struct Lateness {
    since: Option<Timestamp>,
    /// The record with which all of them had ended.
    ended_by: Option<RecordSeq>,
}

impl LateHolds {
    /// Notes that holds that end after this instant may be late.
    pub fn note(&self, since: Timestamp) {
        let mut lateness = self.0.lock();
        lateness.since = Some(lateness.since.map_or(since, |before| before.min(since)));
        lateness.ended_by = None;
    }

    /// Notes that all of them have ended with this record.
    pub fn end_with(&self, seq: RecordSeq) {
        self.0.lock().ended_by = Some(seq);
    }

    /// The instant after which a start has to ask for holds, where that is not its checkpoint's.
    #[must_use]
    pub fn since(&self) -> Option<Timestamp> {
        self.0.lock().since
    }

    /// Whether holds are late at this moment.
    #[must_use]
    pub fn are_any(&self) -> bool {
        let lateness = self.0.lock();
        lateness.since.is_some() && lateness.ended_by.is_none()
    }

    /// Writes it beside a checkpoint of this record.
    pub(super) fn write(
        &self,
        write_txn: &WriteTransaction,
        applied: RecordSeq,
    ) -> Result<(), StoreError> {
        let mut lateness = self.0.lock();
        if lateness.ended_by.is_some_and(|ended_by| ended_by <= applied) {
            *lateness = Lateness::default();
        }
        let mut meta = write_txn.open_table(META)?;
        match lateness.since {
            Some(since) => drop(meta.insert(META_LATE_HOLDS, since.0.to_le_bytes().as_slice())?),
            None => drop(meta.remove(META_LATE_HOLDS)?),
        }
        Ok(())
    }

    /// Takes up what the checkpoint carries.
    pub(super) fn take_up(
        &self,
        meta: &impl ReadableTable<&'static str, &'static [u8]>,
    ) -> Result<(), StoreError> {
        let Some(since) = meta.get(META_LATE_HOLDS)? else { return Ok(()) };
        let since = since.value().try_into().map_err(|_| StoreError::Inconsistent {
            what: "the instant since which holds are late is none".to_owned(),
        })?;
        self.0.lock().since = Some(Timestamp(i64::from_le_bytes(since)));
        Ok(())
    }
}
