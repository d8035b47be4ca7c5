//! Queries of the shard for rows that it does not keep in memory: transactions by number and by the
//! network's names for them, answers to messages, and the holds that end next.
//!
//! Keys here are halves of keyed hashes, so a hit is a candidate: the caller compares the rows.
//!
//! Out of scope: the right answer, and the choice among several candidates.

use std::collections::BTreeSet;
use std::ops::Range;

use redb::{ReadableTable, WriteTransaction};

use super::Snapshot;
use super::list::Order;
use super::transaction::{TransactionRow, TransactionRows};
use crate::command::effect::RememberedAnswer;
use crate::domain::hold_table::USUAL_LIFETIMES;
use crate::domain::ids::{RecordSeq, Timestamp, TransactionSeq};
use crate::domain::network_key::{DuplicateWindow, Fingerprint, OriginalKey, RetrievalKey};
use crate::domain::transaction::TransactionProgress;
use crate::store::Store;
use crate::store::checkpoint::Checkpoint;
use crate::store::error::StoreError;
use crate::store::error::unreadable_transaction;
use crate::store::restore::AnswerPlace;
use crate::store::restore::first_given;
use crate::store::runs::{Entry, RunKind, RunWriter};
use crate::store::tables::{ANSWERS, MOVED_HOLDS, StoredAnswer};

/// Transactions that are scanned between two counts of the holds found.
const HOLD_SCAN_ROWS: u64 = 4_096;

/// The name of a transaction in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PurchaseKey {
    /// STAN, transmission time, acquirer and card.
    Original(OriginalKey),
    /// Retrieval reference, acquirer and card.
    Retrieval(RetrievalKey),
}

/// A transaction, and the answer its message got where its row says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecalledTransaction {
    /// The transaction.
    pub row: TransactionRow,
    /// The answer, ended or not.
    pub answer: Option<RememberedAnswer>,
}

/// The holds that end next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueHolds {
    /// The transactions and the ends of their holds, the first to end first.
    pub holds: Vec<(TransactionSeq, Timestamp)>,
    /// All that end by this instant are there.
    pub until: Timestamp,
    /// Transactions of that time whose rows cannot be read: they may have such holds.
    pub unreadable: BTreeSet<TransactionSeq>,
}

impl Snapshot {
    /// Finds a transaction, declined or not.
    pub fn recall(&self, seq: TransactionSeq) -> Result<Option<RecalledTransaction>, StoreError> {
        let found = self.transaction_rows()?.find(seq.0)?;
        Ok(found.map(|(row, answer)| {
            let answer = answer.map(|kept| kept.answer(&*row.record));
            RecalledTransaction { row, answer }
        }))
    }

    /// The owner of a name: the first that `carrier` finds among the transactions that may carry it.
    /// Those that keep their marks come newest first; behind them those that yield them, the oldest
    /// first, and last of a reference those that were declined at once.
    /// Cost: two chunks of every run, three for a reference that names none but declined ones, and what
    /// `carrier` reads, nearly always once.
    pub fn owner_of<T>(
        &self,
        name: PurchaseKey,
        mut carrier: impl FnMut(TransactionSeq) -> Result<Option<T>, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        let (kind, key) = match name {
            PurchaseKey::Original(key) => (RunKind::OriginalKeys, key.0),
            PurchaseKey::Retrieval(key) => (RunKind::RetrievalKeys, key.0),
        };
        let runs = self.runs()?;
        let reader = runs.reader(kind)?;
        let purchases = reader.scan(key, 0..u64::MAX, Order::NewestFirst);
        let yielding = reader.scan(key_of_yielding(key), 0..u64::MAX, Order::OldestFirst);
        let is_reference = matches!(name, PurchaseKey::Retrieval(_));
        let declined = is_reference
            .then(|| reader.scan(key_of_declined(key), 0..u64::MAX, Order::NewestFirst));
        for seq in purchases.chain(yielding).chain(declined.into_iter().flatten()) {
            if let Some(found) = carrier(TransactionSeq(seq?))? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The answers that may be the one to a message, with their places: of each of the two places
    /// where answers are kept the newest to the message itself, and the newest and the first that
    /// has not ended under its trace. All others under the trace are to other messages.
    /// Cost: a chunk of every run, and a row of each answer.
    pub fn answers_to(
        &self,
        message: &Fingerprint,
    ) -> Result<Vec<(AnswerPlace, RememberedAnswer)>, StoreError> {
        let first = self.first_messages()?;
        let mut found = Vec::new();
        for kind in [RunKind::TransactionMessages, RunKind::AnswerMessages] {
            let minors = first.first_of(kind)..u64::MAX;
            let is_same = |known: &Fingerprint| known.key == message.key;
            let newest = (minors.clone(), Order::NewestFirst);
            found.extend(self.first_answer(kind, message.key_half(), newest, is_same)?);
            let Some(trace) = message.trace_half() else { continue };
            for order in [Order::NewestFirst, Order::OldestFirst] {
                let is_of_trace = |known: &Fingerprint| known.trace == message.trace;
                let in_order = (minors.clone(), order);
                found.extend(self.first_answer(kind, trace, in_order, is_of_trace)?);
            }
        }
        Ok(found)
    }

    /// The first answer under a key that `is_it` takes.
    fn first_answer(
        &self,
        kind: RunKind,
        key: u64,
        (minors, order): (Range<u64>, Order),
        mut is_it: impl FnMut(&Fingerprint) -> bool,
    ) -> Result<Option<(AnswerPlace, RememberedAnswer)>, StoreError> {
        let runs = self.runs()?;
        let reader = runs.reader(kind)?;
        for minor in reader.scan(key, minors, order) {
            let place = place_of(kind, minor?);
            let answer = self.answer_at(place)?.filter(|answer| is_it(&answer.fingerprint));
            if let Some(answer) = answer {
                return Ok(Some((place, answer)));
            }
        }
        Ok(None)
    }

    /// The answer at a place, ended or not; none where there is none or it was forgotten.
    pub fn answer_at(&self, place: AnswerPlace) -> Result<Option<RememberedAnswer>, StoreError> {
        match place {
            AnswerPlace::Transaction(seq) => Ok(self.recall(seq)?.and_then(|found| found.answer)),
            AnswerPlace::Record(seq) => {
                let stored = self.find(&ANSWERS, seq.0)?;
                Ok(stored.map(|(_, answer): StoredAnswer| answer))
            }
        }
    }

    /// The holds that end after `after` and by `until`, or by an earlier instant where there are
    /// more than about `holds_max`.
    /// Cost: the rows authorized a lifetime of a hold before.
    pub fn holds_due(
        &self,
        after: Timestamp,
        until: Timestamp,
        holds_max: usize,
    ) -> Result<DueHolds, StoreError> {
        let mut rows = self.transaction_rows()?;
        let until = until.max(after);
        let mut due = DueHolds { until, ..DueHolds::default() };
        for lifetime in USUAL_LIFETIMES {
            due.add_of_lifetime(&mut rows, (after, lifetime), holds_max)?;
        }
        due.add_moved(self, &mut rows, after)?;
        due.holds.retain(|(_, at)| *at <= due.until);
        due.holds.sort_unstable_by_key(|(seq, at)| (*at, *seq));
        due.holds.dedup();
        Ok(due)
    }
}

impl Default for DueHolds {
    fn default() -> Self {
        Self { holds: Vec::new(), until: Timestamp::MIN, unreadable: BTreeSet::new() }
    }
}

impl DueHolds {
    /// Adds the holds of one lifetime that end after `after`; where there are too many, brings
    /// `until` forward.
    fn add_of_lifetime(
        &mut self,
        rows: &mut TransactionRows,
        (after, lifetime): (Timestamp, i64),
        holds_max: usize,
    ) -> Result<(), StoreError> {
        let behind = |at: Timestamp| at.plus(1 - lifetime);
        let Range { start: mut low, end: high } =
            rows.authorized_within(Some(behind(after)), Some(behind(self.until)))?;
        let mut found = 0;
        while low < high {
            let end = high.min(low + HOLD_SCAN_ROWS);
            found += self.add_rows(rows, low..end, after)?;
            low = end;
            if found > holds_max && low < high {
                // Time rises with the numbers: later transactions end no earlier.
                let next = rows.readable_at(low)?.unwrap_or(Timestamp::MAX);
                self.until = self.until.min(next.plus(lifetime - 1));
                break;
            }
        }
        Ok(())
    }

    /// Adds the holds among these transactions; returns how many.
    fn add_rows(
        &mut self,
        rows: &TransactionRows,
        numbers: Range<u64>,
        after: Timestamp,
    ) -> Result<usize, StoreError> {
        let before = self.holds.len();
        rows.each_readable(numbers, |found| {
            let (block_row, row, newer) = match found {
                Ok(found) => found,
                Err(lost) => {
                    self.unreadable.extend(lost.numbers.map(TransactionSeq));
                    return Ok(());
                }
            };
            // Most rows tell by a glance; only the others are unpacked.
            if newer.is_none() && !self.is_within(after, row.hold_expires_at()) {
                return Ok(());
            }
            let progress = match newer {
                Some(progress) => progress,
                None => row.to_progress().map_err(unreadable_transaction)?,
            };
            self.add(block_row.number, &progress, after);
            Ok(())
        })?;
        Ok(self.holds.len() - before)
    }

    /// Adds the holds whose end does not follow from when they were made.
    fn add_moved(
        &mut self,
        snapshot: &Snapshot,
        rows: &mut TransactionRows,
        after: Timestamp,
    ) -> Result<(), StoreError> {
        let ends = (after.0.saturating_add(1), 0)..=(self.until.0, u64::MAX);
        for entry in snapshot.table(MOVED_HOLDS)?.range(ends)? {
            let (_, seq) = entry?.0.value();
            match rows.find(seq) {
                Ok(Some((row, _))) => self.add(seq, &row.progress, after),
                Ok(None) => {}
                Err(StoreError::Damaged { .. }) => {
                    self.unreadable.insert(TransactionSeq(seq));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn add(&mut self, seq: u64, progress: &TransactionProgress, after: Timestamp) {
        let at = progress.hold_expires_at;
        if !progress.held.is_empty() && self.is_within(after, at) {
            self.holds.push((TransactionSeq(seq), at));
        }
    }

    fn is_within(&self, after: Timestamp, at: Timestamp) -> bool {
        after < at && at <= self.until
    }
}

impl Store {
    /// The number of keys that `message_keys_since` hands on, or somewhat more.
    pub fn message_key_count(&self, since: Timestamp) -> Result<u64, StoreError> {
        let snapshot = self.read()?;
        let runs = snapshot.runs()?;
        let first = snapshot.transaction_rows()?.first_authorized(since)?;
        let of_transactions = runs.reader(RunKind::TransactionMessages)?.count_from(first);
        let first = snapshot.first_answer_since(since)?;
        Ok(of_transactions + runs.reader(RunKind::AnswerMessages)?.count_from(first))
    }

    /// Hands the keys of the messages that were answered at `since` or later to `visit`, with where
    /// the answers are. Of the entries of one key in a run only the first and the last are handed
    /// on: `answers_to` says why they are enough. Some that were answered before, and some keys
    /// twice, may be among them.
    /// Cost: reads the runs of that time.
    pub fn message_keys_since(
        &self,
        since: Timestamp,
        mut visit: impl FnMut(u64, AnswerPlace),
    ) -> Result<(), StoreError> {
        let snapshot = self.read()?;
        let runs = snapshot.runs()?;
        let first = [
            (RunKind::TransactionMessages, snapshot.transaction_rows()?.first_authorized(since)?),
            (RunKind::AnswerMessages, snapshot.first_answer_since(since)?),
        ];
        for (kind, first) in first {
            let mut hand_on = |entry: Entry| visit(entry.major(), place_of(kind, entry.minor()));
            // The last entry, where it is not the first of its key.
            let (mut key, mut last) = (None, None);
            runs.reader(kind)?.each(first, |entry| {
                if key == Some(entry.major()) {
                    last = Some(entry);
                    return;
                }
                last.take().into_iter().for_each(&mut hand_on);
                key = Some(entry.major());
                hand_on(entry);
            })?;
            last.into_iter().for_each(&mut hand_on);
        }
        Ok(())
    }
}

/// The key under which indexes have transactions that yield a name: however many share it with a
/// purchase, they do not stand before it.
pub(in crate::store) const fn key_of_yielding(key: u64) -> u64 {
    !key
}

/// The key under which the index of references has transactions that were declined: no message but a
/// reversal asks for them, and behind all others.
pub(in crate::store) const fn key_of_declined(key: u64) -> u64 {
    key ^ 1 << 63
}

/// The place of an answer by the entry of its key.
fn place_of(kind: RunKind, minor: u64) -> AnswerPlace {
    match kind {
        RunKind::AnswerMessages => AnswerPlace::Record(RecordSeq(minor)),
        _ => AnswerPlace::Transaction(TransactionSeq(minor)),
    }
}

/// The first messages whose answers may still be asked for.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct FirstMessages {
    transaction: u64,
    record: u64,
}

impl FirstMessages {
    /// Lets the keys of all messages before go. Merges take them out.
    pub(in crate::store) fn forget_before(
        &self,
        write_txn: &WriteTransaction,
    ) -> Result<(), StoreError> {
        let mut runs = RunWriter::open(write_txn)?;
        [RunKind::TransactionMessages, RunKind::AnswerMessages]
            .into_iter()
            .try_for_each(|kind| runs.set_floor(kind, self.first_of(kind)))
    }

    /// The first entry of a kind that is still wanted.
    pub(in crate::store) const fn first_of(&self, kind: RunKind) -> u64 {
        match kind {
            RunKind::TransactionMessages => self.transaction,
            RunKind::AnswerMessages => self.record,
            _ => 0,
        }
    }
}

impl Snapshot {
    /// The first messages whose answers have not ended as of the newest record, or might not have.
    /// Cost: O(log n) blocks.
    pub(in crate::store) fn first_messages(&self) -> Result<FirstMessages, StoreError> {
        let Checkpoint { applied_at, applied_seq, .. } = self.checkpoint()?;
        let ended = applied_at.plus(1 - DuplicateWindow::Day.lifetime());
        let transaction = self.transaction_rows()?.first_authorized(ended)?;
        let answers = self.table(ANSWERS.definition())?;
        let first = answers.first()?;
        let record = first.map_or(applied_seq.0 + 1, |(record, _)| record.value());
        Ok(FirstMessages { transaction, record })
    }

    /// The record of the first stored answer that was given at `since` or later.
    /// Cost: O(answers since).
    fn first_answer_since(&self, since: Timestamp) -> Result<u64, StoreError> {
        first_given(&*self.table(ANSWERS.definition())?, since)
    }
}
