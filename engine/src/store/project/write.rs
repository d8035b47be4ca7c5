//! Writes a gathered run into one write transaction: indexes first, since they compare with the
//! rows as they were, then the rows, then what has expired goes.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;

use redb::{Key, ReadableTable, Value, WriteTransaction};
use serde::Serialize;

use super::changes::{append_changed, no_such_transaction, write_changes};
use super::{PackedRows, Projection, audit_events, cards, indexes, tags};
use crate::decision::IncrementDecision;
use crate::domain::ids::{Timestamp, TransactionSeq};
use crate::domain::money::Minor;
use crate::domain::pan_key::PanGenerations;
use crate::domain::transaction::TransactionState;
use crate::journal::ChainPosition;
use crate::limits;
use crate::packed::{TransactionView, append_increment, pack_posting};
use crate::store::blocks::{BlockRow, BlockTable, BlockWriter};
use crate::store::checkpoint::{self, Checkpoint};
use crate::store::error::{StoreError, unreadable_transaction};
use crate::store::events::append_events;
use crate::store::figures::NewFigures;
use crate::store::query::{key_of_declined, key_of_yielding};
use crate::store::rows;
use crate::store::runs::{Entry, RunKind, RunWriter};
use crate::store::sets::{Class, SetChanges};
use crate::store::tables::{
    ACCOUNTS, ANSWERS, CARD_ATTEMPTS, COMPANIES, CREDENTIAL_FAILURES, EARLY_REVERSALS, INCREMENTS,
    IncrementKey, LINE_BLOCKS, ListKey, META, META_NETWORK_KEY, META_PAN_GENERATIONS, MOVED_HOLDS,
    NETWORK_LOG, POSTING_BLOCKS, RowTable, StoredAnswer, TRANSACTION_BLOCKS,
};

/// The outcome of writing a run.
pub(in crate::store) struct WriteOutcome {
    /// The checkpoint of the tables after it.
    pub(in crate::store) checkpoint: Checkpoint,
    /// Whether the run was not there before.
    pub(in crate::store) is_new: bool,
    /// Its additions to numbers that are written with the next checkpoint.
    pub(in crate::store) added: AddedNumbers,
}

/// A run's additions to numbers.
#[derive(Default)]
pub(in crate::store) struct AddedNumbers {
    /// Additions to the figures of decisions.
    pub(in crate::store) figures: NewFigures,
    /// Additions to the holds of cards' purchases.
    pub(in crate::store) held: Vec<(u32, Minor)>,
}

impl Projection {
    /// Writes the run, which ends at `position` in the chain, and the checkpoint that covers it. A
    /// run that the tables hold already changes nothing. Usage and balances stay out.
    /// Errors: `Inconsistent` if a part of the run, but not all of it, is there already.
    pub(in crate::store) fn write(
        &self,
        write_txn: &WriteTransaction,
        position: ChainPosition,
    ) -> Result<WriteOutcome, StoreError> {
        let mut checkpoint = checkpoint::read(&write_txn.open_table(META)?)?;
        assert!(position.number.0 >= checkpoint.batch, "the tables never go back in the chain");
        let is_new = self.applied_seq > checkpoint.applied_seq;
        if is_new && self.first_seq <= Some(checkpoint.applied_seq) {
            let what = format!("a run begins before record {}", checkpoint.applied_seq.0 + 1);
            return Err(StoreError::Inconsistent { what });
        }
        let next_transaction = checkpoint.last_transaction.next();
        self.advance(&mut checkpoint);
        (checkpoint.epoch, checkpoint.batch) = (position.epoch.0, position.number.0);
        checkpoint.chain_hash = position.hash.0;
        assert!(checkpoint.position() == position, "a run ends with the last record of a batch");
        let mut added = AddedNumbers::default();
        if is_new {
            self.write_organization(write_txn, checkpoint.applied_at)?;
            self.write_history(write_txn, next_transaction, &mut added)?;
            self.write_memory(write_txn, checkpoint.applied_at)?;
        }
        checkpoint::write(write_txn, &checkpoint)?;
        Ok(WriteOutcome { checkpoint, is_new, added })
    }

    /// Writes the rows that grow with the organization: companies, members, cards.
    fn write_organization(
        &self,
        write_txn: &WriteTransaction,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        indexes::write_companies(write_txn, &self.companies)?;
        indexes::write_accounts(write_txn, &self.accounts)?;
        cards::write_cards(write_txn, &self.cards)?;
        write_table(write_txn, &COMPANIES, &self.companies)?;
        write_table(write_txn, &ACCOUNTS, &self.accounts)?;
        self.directory.write(write_txn, at)?;
        if let Some(digest) = &self.network_key {
            write_txn.open_table(META)?.insert(META_NETWORK_KEY, digest.as_slice())?;
        }
        if let Some(PanGenerations { oldest, newest }) = self.pan_generations {
            let bytes = [oldest.0.to_le_bytes(), newest.0.to_le_bytes()].concat();
            write_txn.open_table(META)?.insert(META_PAN_GENERATIONS, bytes.as_slice())?;
        }
        write_table(write_txn, &CARD_ATTEMPTS, &self.card_attempts)?;
        write_table(write_txn, &CREDENTIAL_FAILURES, &self.credential_failures)?;
        audit_events::write_events(write_txn, &self.audit_events)?;
        self.organization.write(write_txn, at)
    }

    /// Writes the rows that grow with history: transactions, lines, postings, and their indexes.
    fn write_history(
        &self,
        write_txn: &WriteTransaction,
        next: TransactionSeq,
        added: &mut AddedNumbers,
    ) -> Result<(), StoreError> {
        let earlier =
            self.progress.range(..self.first_made()).map(|(seq, row)| (*seq, row)).collect();
        let mut sets = SetChanges::default();
        cards::note_states(write_txn, &self.card_states, &mut sets)?;
        write_changes(write_txn, &earlier, &mut sets, &mut added.held)?;
        let mut entries = self.write_transactions(write_txn, &mut sets, added)?;
        append_events(write_txn, self.events.events(), next)?;
        sets.write(write_txn)?;
        tags::write_tags(write_txn, &self.organization.tags)?;
        append_rows(write_txn, LINE_BLOCKS, &self.lines)?;
        write_increments(write_txn, &self.increments)?;
        self.write_postings(write_txn)?;
        entries.add(RunKind::AccountLines, &self.account_lines);
        entries.add(RunKind::AnswerMessages, &self.answer_keys);
        let mut runs = RunWriter::open(write_txn)?;
        for (kind, mut entries) in RunKind::ALL.into_iter().zip(entries.0) {
            if !entries.is_empty() {
                runs.append(kind, &mut entries)?;
            }
        }
        runs.merge_step(limits::RUN_MERGE_ENTRIES_MAX)?;
        Ok(())
    }

    fn write_transactions(
        &self,
        write_txn: &WriteTransaction,
        sets: &mut SetChanges,
        added: &mut AddedNumbers,
    ) -> Result<RunEntries, StoreError> {
        if self.transactions.rows.is_empty() {
            return Ok(RunEntries::default());
        }
        let mut entries = RunEntries::for_transactions(self.transactions.rows.len());
        let mut blocks = BlockWriter::open(write_txn, TRANSACTION_BLOCKS)?;
        let mut changed = Vec::new();
        let mut changes = self.progress.range(self.first_made()..).peekable();
        for row in self.transactions.iter() {
            check_order(&blocks, &row)?;
            let view = TransactionView::parse(row.bytes).map_err(unreadable_transaction)?;
            entries.add_transaction(&view);
            added.figures.count(&view).map_err(unreadable_transaction)?;
            let change = changes.next_if(|(seq, _)| **seq == row.number).map(|(_, row)| row);
            let state = change.map_or_else(|| view.state(), |progress| progress.state);
            sets.join(view.company(), Class::of(view.kind(), state), row.number);
            let held = change.map_or_else(|| view.held(), |progress| Ok(progress.held.total()));
            let held = held.map_err(unreadable_transaction)?;
            added.held.extend(view.card().filter(|_| !held.is_zero()).map(|card| (card.0, held)));
            if change.is_none() {
                blocks.push(&row)?;
                continue;
            }
            changed.clear();
            append_changed(&mut changed, row.bytes, change).map_err(unreadable_transaction)?;
            blocks.push(&BlockRow { bytes: &changed, ..row })?;
        }
        if let Some((seq, _)) = changes.next() {
            return Err(no_such_transaction(*seq));
        }
        blocks.finish()?;
        Ok(entries)
    }

    /// The first transaction of the run; beyond all where it makes none.
    fn first_made(&self) -> u64 {
        self.transactions.rows.first().map_or(u64::MAX, |row| row.number)
    }

    fn write_postings(&self, write_txn: &WriteTransaction) -> Result<(), StoreError> {
        if self.postings.is_empty() {
            return Ok(());
        }
        let mut blocks = BlockWriter::open(write_txn, POSTING_BLOCKS)?;
        let first = blocks.end().unwrap_or(1);
        for (number, posting) in (first..).zip(&self.postings) {
            let bytes = &pack_posting(posting);
            blocks.push(&BlockRow { number, bytes, is_marked: false })?;
        }
        blocks.finish()
    }

    /// Writes rows that are kept for a time. Deletes those that ended at or before `at`, the
    /// instant of the newest record.
    /// INVARIANT: the shard forgets by the same rule, so both always remember the same.
    fn write_memory(&self, write_txn: &WriteTransaction, at: Timestamp) -> Result<(), StoreError> {
        write_table(write_txn, &NETWORK_LOG, &self.network_log)?;
        write_table(write_txn, &ANSWERS, &self.answers)?;
        forget_answers(write_txn, at)?;
        write_moved_holds(write_txn, &self.moved_holds)?;
        write_table(write_txn, &EARLY_REVERSALS, &self.early_reversals)?;
        let mut early = write_txn.open_table(EARLY_REVERSALS.definition())?;
        let next = at.0.saturating_add(1);
        early.retain_in(..(next, None, None), |_, _| false).map_err(StoreError::from)
    }
}

/// A run's entries for the sorted runs, by kind.
#[derive(Default)]
struct RunEntries([Vec<Entry>; RunKind::ALL.len()]);

impl RunEntries {
    /// Room for so many purchases: those have no dimension, mostly.
    fn for_transactions(count: usize) -> Self {
        use RunKind::{
            CardTransactions, CompanyTransactions, MemberTransactions, OriginalKeys, RetrievalKeys,
            TransactionMessages,
        };
        let mut entries = Self::default();
        let names = [TransactionMessages, OriginalKeys, RetrievalKeys];
        for kind in
            [CompanyTransactions, CardTransactions, MemberTransactions].into_iter().chain(names)
        {
            entries.0[usize::from(kind.number())].reserve(count);
        }
        entries
    }

    fn add(&mut self, kind: RunKind, entries: &[Entry]) {
        self.0[usize::from(kind.number())].extend_from_slice(entries);
    }

    fn add_transaction(&mut self, row: &TransactionView<'_>) {
        each_entry(row, |kind, entry| self.0[usize::from(kind.number())].push(entry));
    }
}

/// Hands the lists that a transaction is in, and the keys that messages may name it by, to `visit`.
pub(in crate::store) fn each_entry(
    row: &TransactionView<'_>,
    mut visit: impl FnMut(RunKind, Entry),
) {
    let seq = row.seq().0;
    let mut push = |kind, major| visit(kind, Entry::new(major, seq));
    let lists = [Some(ListKey::company(row.company())), row.card().map(ListKey::card)];
    let member = row.member().map(ListKey::member);
    for list in lists.into_iter().flatten().chain(member) {
        push(list.kind, list.owner);
    }
    for list in ListKey::dimensions(&row.dimensions()) {
        push(list.kind, list.owner);
    }
    let keys = row.message_keys();
    for key in keys.into_iter().flat_map(|(key, further)| iter::once(key).chain(further)) {
        push(RunKind::TransactionMessages, key);
    }
    let is_declined = row.state() == TransactionState::Declined;
    let name = match row.kind().yields_marks() {
        _ if is_declined => key_of_declined,
        true => key_of_yielding,
        false => |key| key,
    };
    if let Some(key) = row.original_key().filter(|_| !is_declined) {
        push(RunKind::OriginalKeys, name(key.0));
    }
    if let Some(key) = row.retrieval_key() {
        push(RunKind::RetrievalKeys, name(key.0));
    }
}

/// Writes the decisions on increments. Opens their table only where there are any: tables that were
/// made before there were none have it from the first one on.
fn write_increments(
    write_txn: &WriteTransaction,
    increments: &BTreeMap<IncrementKey, IncrementDecision>,
) -> Result<(), StoreError> {
    if increments.is_empty() {
        return Ok(());
    }
    let mut table = write_txn.open_table(INCREMENTS.definition())?;
    for (key, decision) in increments {
        let row = rows::pack(|bytes| append_increment(bytes, decision));
        table.insert(*key, row.as_slice())?;
    }
    Ok(())
}

/// Deletes the ends of holds that are over by `until`: holds due then have ended, or are noted by name.
pub(in crate::store) fn forget_moved_holds(
    write_txn: &WriteTransaction,
    until: Timestamp,
) -> Result<(), StoreError> {
    let mut moved = write_txn.open_table(MOVED_HOLDS)?;
    moved.retain_in(..(until.0, 0), |_, ()| false).map_err(StoreError::from)
}

fn write_moved_holds(
    write_txn: &WriteTransaction,
    holds: &BTreeSet<(i64, u64)>,
) -> Result<(), StoreError> {
    let mut moved = write_txn.open_table(MOVED_HOLDS)?;
    for key in holds {
        moved.insert(*key, ())?;
    }
    Ok(())
}

fn append_rows(
    write_txn: &WriteTransaction,
    table: BlockTable,
    rows: &PackedRows,
) -> Result<(), StoreError> {
    if rows.rows.is_empty() {
        return Ok(());
    }
    let mut blocks = BlockWriter::open(write_txn, table)?;
    for row in rows.iter() {
        check_order(&blocks, &row)?;
        blocks.push(&row)?;
    }
    blocks.finish()
}

/// Errors: `Inconsistent` where a row does not come behind all before it.
fn check_order(blocks: &BlockWriter<'_>, row: &BlockRow<'_>) -> Result<(), StoreError> {
    if blocks.end().is_none_or(|end| row.number >= end) {
        return Ok(());
    }
    Err(StoreError::Inconsistent { what: format!("row {} comes a second time", row.number) })
}

pub(in crate::store) fn write_table<K, T>(
    write_txn: &WriteTransaction,
    table: &RowTable<K, T>,
    rows: &BTreeMap<K, T>,
) -> Result<(), StoreError>
where
    K: Key + Copy + Ord + 'static,
    for<'a> K: Value<SelfType<'a> = K>,
    T: Serialize,
{
    if rows.is_empty() {
        return Ok(());
    }
    let mut stored = write_txn.open_table(table.definition())?;
    for (key, row) in rows {
        stored.insert(*key, rows::encode(table.name(), row)?.as_slice())?;
    }
    Ok(())
}

/// Deletes the oldest answers as far as they have ended. An answer behind one that lasts longer
/// stays until that has ended too; readers of answers look at their end.
fn forget_answers(write_txn: &WriteTransaction, at: Timestamp) -> Result<(), StoreError> {
    let mut answers = write_txn.open_table(ANSWERS.definition())?;
    loop {
        let oldest = match answers.first()? {
            None => return Ok(()),
            Some((key, row)) => {
                let (_, answer): StoredAnswer = rows::decode(ANSWERS.name(), row.value())?;
                (answer.expires_at <= at).then(|| key.value())
            }
        };
        let Some(record) = oldest else { return Ok(()) };
        answers.remove(record)?;
    }
}
