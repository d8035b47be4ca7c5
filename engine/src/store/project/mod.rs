//! The projection: records of the journal become rows. The only writer of the tables.
//!
//! Effects are after-images, so the last one at a key stands for all before it. A projection
//! gathers a run of records in memory and writes it at once. An authorization comes packed and is
//! copied as it is; of it nothing is decoded but what indexes name it by.
//!
//! INVARIANT: writing a run equals writing its records one by one, and writing it twice equals
//! writing it once.

mod audit_events;
mod cards;
mod changes;
mod events;
mod indexes;
mod organization;
mod tags;
mod write;

pub(in crate::store) use audit_events::{MARK_ACTOR, MARK_OBJECT, audit_owner};
pub(in crate::store) use cards::marks_of;
pub(in crate::store) use changes::no_such_transaction;
pub(in crate::store) use organization::stored_row;
pub(in crate::store) use write::{WriteOutcome, each_entry, forget_moved_holds, write_table};

use std::collections::{BTreeMap, BTreeSet};
use std::iter;

use smallvec::SmallVec;

use super::checkpoint::Checkpoint;
use super::directory::DirectoryChanges;
use super::runs::Entry;
use super::tables::{EarlyReversalKey, IncrementKey, RecordPlace, StoredAnswer, StoredReversal};
use crate::codec::CodecError;
use crate::command::NewTransactionView;
use crate::command::effect::{Effect, NetworkLogEntry, RememberedAnswer};
use crate::command::record::RecordView;
use crate::decision::IncrementDecision;
use crate::domain::account::{Account, AccountBalances};
use crate::domain::allowance::CardUsage;
use crate::domain::audit::AuditEvent;
use crate::domain::card::CardState;
use crate::domain::company::Company;
use crate::domain::credential::CredentialFailures;
use crate::domain::hold_table::USUAL_LIFETIMES;
use crate::domain::ids::{LineSeq, RecordSeq, Timestamp, TransactionSeq};
use crate::domain::pan_key::PanGenerations;
use crate::domain::posting::{Book, Posting, StatementLine};
use crate::domain::transaction::TransactionProgress;
use crate::packed::{TransactionView, append_line};
use cards::CardImages;
use events::{EventChanges, TouchedTransactions};
use organization::OrganizationChanges;

/// A run of records on its way into the tables.
#[derive(Debug, Default)]
pub struct Projection {
    companies: BTreeMap<u32, Company>,
    accounts: BTreeMap<u32, Account>,
    directory: DirectoryChanges,
    organization: OrganizationChanges,
    audit_events: Vec<AuditEvent>,
    network_key: Option<[u8; 32]>,
    pan_generations: Option<PanGenerations>,
    cards: BTreeMap<u32, CardImages>,
    card_attempts: BTreeMap<u32, Vec<Timestamp>>,
    credential_failures: BTreeMap<u32, CredentialFailures>,
    /// After-images of usages, in the order of their records.
    pub(in crate::store) usages: Vec<(u32, CardUsage)>,
    /// States of cards that may not be what they were.
    card_states: BTreeMap<u32, CardState>,
    /// After-images of balances, in the order of their records.
    pub(in crate::store) balances: Vec<(u32, AccountBalances)>,
    transactions: PackedRows,
    /// Events of the transactions that were made and changed.
    events: EventChanges,
    progress: BTreeMap<u64, TransactionProgress>,
    increments: BTreeMap<IncrementKey, IncrementDecision>,
    lines: PackedRows,
    account_lines: Vec<Entry>,
    /// Postings that no transaction's row implies.
    postings: Vec<Posting>,
    /// Answers that no transaction's row says.
    answers: BTreeMap<u64, StoredAnswer>,
    answer_keys: Vec<Entry>,
    early_reversals: BTreeMap<EarlyReversalKey, StoredReversal>,
    network_log: BTreeMap<RecordPlace, NetworkLogEntry>,
    /// Ends of holds that may not follow from when they were made.
    moved_holds: BTreeSet<(i64, u64)>,
    first_seq: Option<RecordSeq>,
    applied_seq: RecordSeq,
    applied_at: Option<Timestamp>,
    /// The number of records taken.
    pub records: u64,
}

/// Rows one behind the other, each with its number and its mark.
#[derive(Debug, Default)]
struct PackedRows {
    bytes: Vec<u8>,
    rows: Vec<PackedRow>,
}

#[derive(Clone, Copy, Debug)]
struct PackedRow {
    number: u64,
    end: usize,
    is_marked: bool,
}

impl PackedRows {
    fn push(&mut self, number: u64, is_marked: bool, append: impl FnOnce(&mut Vec<u8>)) {
        append(&mut self.bytes);
        self.rows.push(PackedRow { number, end: self.bytes.len(), is_marked });
    }

    fn last(&self) -> Option<u64> {
        self.rows.last().map(|row| row.number)
    }

    fn iter(&self) -> impl Iterator<Item = super::blocks::BlockRow<'_>> {
        let mut start = 0;
        self.rows.iter().map(move |row| {
            let bytes = &self.bytes[start..row.end];
            start = row.end;
            super::blocks::BlockRow { number: row.number, bytes, is_marked: row.is_marked }
        })
    }
}

impl Projection {
    /// Makes room for records that take so many bytes in the journal.
    pub fn reserve(&mut self, bytes: usize) {
        self.transactions.bytes.reserve(bytes);
    }

    /// Whether it may change who may see what: rights follow from rows of these tables alone.
    pub(in crate::store) fn changes_access(&self) -> bool {
        !self.companies.is_empty() || self.directory.changes_access()
    }

    /// Takes a record as it is read from the journal, in whose order they come; a new transaction is
    /// copied, not decoded. Errors: a damaged record.
    pub fn project(&mut self, record: RecordView<'_>) -> Result<(), CodecError> {
        self.begin_record(record.seq, record.at);
        let mut touched = TouchedTransactions::default();
        let mut parts = RecordParts { at: record.at, ..RecordParts::default() };
        for (place, effect) in (0..).zip(record.effects(Ok)) {
            let effect = effect?;
            touched.note(&effect);
            self.project_effect((record.seq.0, place), effect, &mut parts)?;
        }
        let cause = if parts.is_network { Cause::Network } else { Cause::Other };
        for (slot, state) in parts.card_states {
            self.note_card_state(slot, state, cause);
        }
        self.events.take(touched, record.at);
        Ok(())
    }

    fn project_transaction(
        &mut self,
        made: &NewTransactionView<'_>,
        parts: &mut RecordParts,
    ) -> Result<(), CodecError> {
        let row = made.row;
        parts.is_network = true;
        // All that was requested is held: a mark on the row stands for its posting.
        let is_marked = made.posting()?.is_some_and(|posting| {
            let is_marked = posting.amount == row.requested();
            self.postings.extend((!is_marked).then_some(posting));
            is_marked
        });
        self.transactions.push(row.seq().0, is_marked, |bytes| {
            bytes.extend_from_slice(row.bytes);
        });
        self.note_new_hold(row.seq(), row.authorized_at(), row.hold_expires_at());
        if let (Some(card), Some(usage)) = (row.card(), made.usage) {
            self.usages.push((card.0, usage));
            parts.card_states.push((card.0, usage.state));
        }
        self.balances.extend(made.balances.map(|balances| (row.account().0, balances)));
        Ok(())
    }

    fn begin_record(&mut self, seq: RecordSeq, at: Timestamp) {
        assert!(seq > self.applied_seq, "records come in journal order");
        self.first_seq.get_or_insert(seq);
        self.applied_seq = seq;
        self.applied_at = self.applied_at.max(Some(at));
        self.records += 1;
    }

    fn project_effect(
        &mut self,
        place: RecordPlace,
        effect: Effect<NewTransactionView<'_>>,
        parts: &mut RecordParts,
    ) -> Result<(), CodecError> {
        match effect {
            Effect::Transaction(made) => self.project_transaction(&made, parts)?,
            Effect::Company(row) => put(&mut self.companies, row.slot.0, *row),
            Effect::Account(row) => put(&mut self.accounts, row.slot.0, *row),
            Effect::AccountBalances(slot, row) => self.balances.push((slot.0, row)),
            Effect::Row(row) => self.directory.take(row),
            Effect::NetworkKey(digest) => self.network_key = Some(digest),
            Effect::CardIssued(issued) => {
                let (slot, usage) = (issued.profile.slot.0, issued.record.usage);
                self.usages.push((slot, usage));
                self.note_card_state(slot, usage.state, Cause::Other);
                self.card(issued.profile.slot.0).issue(*issued);
            }
            Effect::CardProfile(row) => {
                let slot = row.slot.0;
                self.card(slot).profile = Some(*row);
            }
            Effect::PanGenerations(row) => self.pan_generations = Some(row),
            Effect::CardNumber(slot, row) => self.card(slot.0).sealed_pan = Some(row),
            Effect::CardPin(slot, row) => self.card(slot.0).pin = Some(row),
            Effect::CardZip(slot, row) => self.card(slot.0).zip = Some(row),
            Effect::AllowanceTerms(slot, row) => self.card(slot.0).terms = Some(*row),
            Effect::CardUsage(slot, row) => {
                self.usages.push((slot.0, row));
                parts.card_states.push((slot.0, row.state));
            }
            Effect::CardAttempts(slot, row) => put(&mut self.card_attempts, slot.0, row),
            Effect::CredentialFailures(slot, row) => {
                put(&mut self.credential_failures, slot.0, row);
            }
            Effect::TransactionProgress(seq, row) => {
                self.note_hold(seq, &row);
                parts.is_network = true;
                put(&mut self.progress, seq.0, *row);
            }
            Effect::Posting(row) => self.postings.push(row),
            Effect::Increment(row) => {
                put(&mut self.increments, (row.transaction.0, place.0), *row);
            }
            Effect::StatementLine(row) => self.project_line(&row),
            Effect::Answer(row) => self.project_answer((place.0, parts.at), *row),
            Effect::EarlyReversal(row) => {
                let original = row.original_key.map(|key| key.0);
                let retrieval = row.retrieval_key.map(|key| key.0);
                let key = (row.expires_at.0, original, retrieval);
                self.early_reversals.insert(key, (row.card, row.amount));
            }
            Effect::NetworkLog(row) => put(&mut self.network_log, place, *row),
            Effect::TransactionTags(..) | Effect::CompanySso(..) | Effect::KeyedAnswer(_) => {
                self.organization.take(effect)
            }
            Effect::Audit(row) => self.audit_events.push(*row),
            Effect::AuditGroup(group) => self.audit_events.extend(group.events()),
        }
        Ok(())
    }

    fn project_answer(&mut self, (seq, at): (u64, Timestamp), answer: RememberedAnswer) {
        assert!(!self.answers.contains_key(&seq), "a record gives one answer");
        let (key, further) = answer.fingerprint.index_keys(answer.shares_trace);
        let keys = iter::once(key).chain(further);
        self.answer_keys.extend(keys.map(|key| Entry::new(key, seq)));
        put(&mut self.answers, seq, (at, answer));
    }

    /// Notes a card's state where it may be new. INVARIANT: nothing that moves money makes a card
    /// active, so a purchase with a card that is active after it has not changed that.
    fn note_card_state(&mut self, slot: u32, state: CardState, cause: Cause) {
        if cause == Cause::Other || state != CardState::Active {
            self.card_states.insert(slot, state);
        }
    }

    /// Notes a new hold that does not live as long as holds do.
    fn note_new_hold(&mut self, seq: TransactionSeq, made_at: Timestamp, ends_at: Timestamp) {
        if is_moved_end(made_at, ends_at) {
            self.moved_holds.insert((ends_at.0, seq.0));
        }
    }

    /// Notes a hold that stays open after a change. A hold whose end is the usual one is noted in
    /// vain: its transaction is not at hand to tell.
    fn note_hold(&mut self, seq: TransactionSeq, progress: &TransactionProgress) {
        if !progress.held.is_empty() && progress.hold_expires_at != Timestamp::MAX {
            self.moved_holds.insert((progress.hold_expires_at.0, seq.0));
        }
    }

    fn project_line(&mut self, line: &StatementLine) {
        self.lines.push(line.seq.0, false, |bytes| append_line(bytes, line));
        self.account_lines.push(Entry::new(u64::from(line.account.0), line.seq.0));
    }

    fn card(&mut self, slot: u32) -> &mut CardImages {
        self.cards.entry(slot).or_default()
    }

    /// The checkpoint after this run, less its place in the chain, which only the journal knows.
    fn advance(&self, checkpoint: &mut Checkpoint) {
        let last_transaction = self.transactions.last().map(TransactionSeq);
        let last_line = self.lines.last().map(LineSeq);
        checkpoint.applied_seq = checkpoint.applied_seq.max(self.applied_seq);
        checkpoint.applied_at =
            self.applied_at.map_or(checkpoint.applied_at, |at| at.max(checkpoint.applied_at));
        checkpoint.last_transaction =
            checkpoint.last_transaction.max(last_transaction.unwrap_or_default());
        checkpoint.last_line = checkpoint.last_line.max(last_line.unwrap_or_default());
    }
}

/// The subject of a record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// A transaction, new or not.
    Network,
    /// Another subject.
    Other,
}

/// The parts of one record that belong together.
#[derive(Default)]
struct RecordParts {
    at: Timestamp,
    is_network: bool,
    card_states: SmallVec<[(u32, CardState); 4]>,
}

/// The posting of a hold over all that was requested, which a mark on its row stands for.
pub(in crate::store) fn implied_posting(row: &TransactionView<'_>) -> Posting {
    Posting {
        account: row.account(),
        transaction: row.seq(),
        from: Book::Funds,
        to: Book::Holds,
        amount: row.requested(),
    }
}

/// Whether the end of a hold does not follow from when it was made.
pub(in crate::store) fn is_moved_end(made_at: Timestamp, ends_at: Timestamp) -> bool {
    let follows = USUAL_LIFETIMES.iter().any(|lifetime| made_at.plus(*lifetime) == ends_at);
    !follows && ends_at != Timestamp::MAX
}

fn put<K: Ord, T>(rows: &mut BTreeMap<K, T>, key: K, row: T) {
    rows.insert(key, row);
}
