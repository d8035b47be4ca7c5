//! Re-emits the tables as what rebuilds the shard.
//!
//! Everything comes once, as it stands: a shard that takes this, and then the journal after the
//! checkpoint, is the shard that applied the whole journal; or, where only recent transactions were
//! asked for, the part of it that they make up.

use std::collections::HashMap;

use redb::{ReadOnlyTable, ReadableTable};

use super::Store;
use super::checkpoint::Checkpoint;
use super::error::StoreError;
use super::error::unreadable_transaction;
use super::query::Snapshot;
use super::rows;
use super::tables::{
    ACCOUNTS, ANSWERS, CARD_ATTEMPTS, COMPANIES, COMPANY_SSO, CREDENTIAL_FAILURES, EARLY_REVERSALS,
    KEYED_ANSWERS, StoredAnswer, StoredReversal,
};
use crate::command::NewTransaction;
use crate::command::effect::{EarlyReversal, Effect, RememberedAnswer};
use crate::domain::ids::{CardSlot, CompanySlot, RecordSeq, Timestamp, TransactionSeq};
use crate::domain::network_key::{DuplicateKey, DuplicateWindow, OriginalKey, RetrievalKey};
use crate::domain::transaction::TransactionState;
use crate::packed::{PackedCard, TransactionView};

/// The part of the history that a shard takes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreScope {
    /// Every transaction that was not declined, and every answer that has not ended.
    Whole,
    /// Of transactions and answers only the newest transactions, and the answers given after the
    /// first of them.
    Recent {
        /// The number of transactions, declined ones among them.
        transactions: u64,
    },
}

/// The place where an answer is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AnswerPlace {
    /// In the row of the transaction it was the answer to.
    Transaction(TransactionSeq),
    /// By itself, under the record that gave it.
    Record(RecordSeq),
}

/// A piece of the hot state.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a card, the most frequent, is handed on as it was read"
)]
pub enum RestoredPart<'a> {
    /// An effect that brings a part of the state back.
    Effect(Effect),
    /// A card as it is stored.
    Card(PackedCard<'a>),
    /// An answer to a message.
    Answer {
        /// The place where the answer is kept.
        place: AnswerPlace,
        /// The answer.
        answer: Box<RememberedAnswer>,
    },
}

type Visit<'a> = &'a mut dyn FnMut(RestoredPart<'_>);

impl Store {
    /// Hands everything that makes up the hot state to `visit`, in slot and sequence order, answers
    /// in the order in which they were given, and returns the checkpoint of the tables. Expired
    /// rows stay out, and of the whole state the declined transactions.
    /// Cost: O(rows of the scope).
    pub fn restore(&self, scope: RestoreScope, visit: Visit<'_>) -> Result<Checkpoint, StoreError> {
        let snapshot = self.read()?;
        let checkpoint = snapshot.checkpoint()?;
        let first = match scope {
            RestoreScope::Whole => (0, Timestamp::MIN),
            RestoreScope::Recent { transactions } => {
                let seq = (checkpoint.last_transaction.0 + 1).saturating_sub(transactions);
                let at = snapshot.transaction_rows()?.authorized_at(seq)?;
                let since = at.unwrap_or(checkpoint.applied_at);
                if seq <= 1 { (0, Timestamp::MIN) } else { (seq, since) }
            }
        };
        restore_organization(&snapshot, &mut |effect| visit(RestoredPart::Effect(effect)))?;
        snapshot.card_tables()?.each_in_place(|card| visit(RestoredPart::Card(card)))?;
        let mut apply = |effect| visit(RestoredPart::Effect(effect));
        restore_beside_cards(&snapshot, &mut apply)?;
        restore_passing(&snapshot, checkpoint.applied_at, &mut apply)?;
        let mut answers = AnswerScope::of(&snapshot, first, checkpoint.applied_at)?;
        restore_transactions(&snapshot, first.0, scope, &mut answers, &mut apply)?;
        restore_early_reversals(&snapshot, checkpoint.applied_at, &mut apply)?;
        restore_answers(&snapshot, answers, visit)?;
        Ok(checkpoint)
    }
}

type Apply<'a> = &'a mut dyn FnMut(Effect);

fn restore_organization(snapshot: &Snapshot, apply: Apply<'_>) -> Result<(), StoreError> {
    snapshot.each(&COMPANIES, |_, row| apply(Effect::Company(Box::new(row))))?;
    let mut slots = Vec::new();
    snapshot.each(&ACCOUNTS, |_, row| {
        slots.push(row.slot);
        apply(Effect::Account(Box::new(row)));
    })?;
    for slot in slots {
        if let Some(balances) = snapshot.balances(slot)? {
            apply(Effect::AccountBalances(slot, balances));
        }
    }
    snapshot.each_directory_row(&mut |row| apply(Effect::Row(row)))?;
    if let Some(digest) = snapshot.network_key()? {
        apply(Effect::NetworkKey(digest));
    }
    apply(Effect::PanGenerations(snapshot.pan_generations()?));
    snapshot.each(&COMPANY_SSO, |slot, row| {
        apply(Effect::CompanySso(CompanySlot(slot), Some(Box::new(row))));
    })
}

/// Restores rows that are kept for a time.
fn restore_passing(
    snapshot: &Snapshot,
    applied_at: Timestamp,
    apply: Apply<'_>,
) -> Result<(), StoreError> {
    snapshot.each(&KEYED_ANSWERS, |_, row| {
        if row.expires_at > applied_at {
            apply(Effect::KeyedAnswer(Box::new(row)));
        }
    })
}

/// Restores rows beside single cards: attempts, and failures of credentials.
fn restore_beside_cards(snapshot: &Snapshot, apply: Apply<'_>) -> Result<(), StoreError> {
    snapshot.each(&CARD_ATTEMPTS, |slot, row| apply(Effect::CardAttempts(CardSlot(slot), row)))?;
    snapshot.each(&CREDENTIAL_FAILURES, |slot, row| {
        apply(Effect::CredentialFailures(CardSlot(slot), row));
    })
}

fn restore_transactions(
    snapshot: &Snapshot,
    first: u64,
    scope: RestoreScope,
    answers: &mut AnswerScope,
    apply: Apply<'_>,
) -> Result<(), StoreError> {
    // The newest transactions have no gaps; only a whole state is without the declined.
    let leaves_out = |state| scope == RestoreScope::Whole && state == TransactionState::Declined;
    snapshot.transaction_rows()?.each(first..u64::MAX, |_, row, newer| {
        answers.note_row(row);
        let state = newer.as_ref().map_or_else(|| row.state(), |progress| progress.state);
        if !leaves_out(state) {
            let progress =
                newer.map_or_else(|| row.to_progress(), Ok).map_err(unreadable_transaction)?;
            let record = row.to_record().map_err(unreadable_transaction)?;
            apply(Effect::Transaction(Box::new(NewTransaction::of(record, progress))));
        }
        Ok(())
    })
}

fn restore_early_reversals(
    snapshot: &Snapshot,
    applied_at: Timestamp,
    apply: Apply<'_>,
) -> Result<(), StoreError> {
    let first = applied_at.0.saturating_add(1);
    let table = snapshot.table(EARLY_REVERSALS.definition())?;
    for entry in table.range((first, None, None)..)? {
        let (key, row) = entry?;
        let (expires_at, original, retrieval) = key.value();
        let (card, amount): StoredReversal = rows::decode(EARLY_REVERSALS.name(), row.value())?;
        let early = EarlyReversal {
            card,
            amount,
            original_key: original.map(OriginalKey),
            retrieval_key: retrieval.map(RetrievalKey),
            expires_at: Timestamp(expires_at),
        };
        apply(Effect::EarlyReversal(Box::new(early)));
    }
    Ok(())
}

/// Hands on the answers that have not ended, in the order in which they were given: those in the rows
/// of transactions, between them those that are kept by themselves.
fn restore_answers(
    snapshot: &Snapshot,
    mut scope: AnswerScope,
    visit: Visit<'_>,
) -> Result<(), StoreError> {
    let table = snapshot.table(ANSWERS.definition())?;
    let first_record = first_given(&table, scope.since)?;
    for entry in table.range(first_record..)? {
        let (at, answer): StoredAnswer = rows::decode(ANSWERS.name(), entry?.1.value())?;
        scope.note(answer.fingerprint.key, at, answer.expires_at);
    }
    let mut stored = table.range(first_record..)?;
    let mut next = next_answer(&mut stored)?;
    let mut hand_on = |place, at: Timestamp, answer: RememberedAnswer| {
        if scope.is_open(&answer, at) {
            visit(RestoredPart::Answer { place, answer: Box::new(answer) });
        }
    };
    snapshot.transaction_rows()?.each(scope.first..u64::MAX, |_, row, _| {
        let Some(kept) = row.answer() else { return Ok(()) };
        while let Some((record, (at, answer))) =
            next.take_if(|(_, (at, _))| *at <= row.authorized_at())
        {
            hand_on(AnswerPlace::Record(record), at, answer);
            next = next_answer(&mut stored)?;
        }
        let answered = row.answered().map_err(unreadable_transaction)?;
        let place = AnswerPlace::Transaction(answered.seq);
        hand_on(place, answered.authorized_at, kept.answer(answered));
        Ok(())
    })?;
    while let Some((record, (at, answer))) = next.take() {
        hand_on(AnswerPlace::Record(record), at, answer);
        next = next_answer(&mut stored)?;
    }
    Ok(())
}

/// The record of the first answer given at `since` or later.
pub(super) fn first_given(
    answers: &ReadOnlyTable<u64, &'static [u8]>,
    since: Timestamp,
) -> Result<u64, StoreError> {
    let mut first = u64::MAX;
    for entry in answers.iter()?.rev() {
        let (key, row) = entry?;
        let (at, _): StoredAnswer = rows::decode(ANSWERS.name(), row.value())?;
        if at < since {
            break;
        }
        first = key.value();
    }
    Ok(first)
}

fn next_answer(
    stored: &mut redb::Range<'_, u64, &'static [u8]>,
) -> Result<Option<(RecordSeq, StoredAnswer)>, StoreError> {
    let Some((key, row)) = stored.next().transpose()? else { return Ok(None) };
    Ok(Some((RecordSeq(key.value()), rows::decode(ANSWERS.name(), row.value())?)))
}

/// The answers to restore, and those among them that have ended.
struct AnswerScope {
    /// The first transaction whose answer may not have ended.
    first: u64,
    /// The time from which answers are restored that are kept by themselves.
    since: Timestamp,
    applied_at: Timestamp,
    /// The keys whose newest ended answer was given then. An older one of a longer life may not have
    /// ended: a key finds its newest answer or none.
    ended: HashMap<DuplicateKey, Timestamp>,
}

impl AnswerScope {
    fn of(
        snapshot: &Snapshot,
        (first, since): (u64, Timestamp),
        applied_at: Timestamp,
    ) -> Result<Self, StoreError> {
        let longest = DuplicateWindow::Day.lifetime();
        let open = snapshot.transaction_rows()?.first_authorized(applied_at.plus(1 - longest))?;
        Ok(Self { first: first.max(open), since, applied_at, ended: HashMap::new() })
    }

    /// Notes the answer in a row, if it has ended.
    fn note_row(&mut self, row: &TransactionView<'_>) {
        if row.seq().0 < self.first {
            return;
        }
        if let Some(kept) = row.answer() {
            let at = row.authorized_at();
            self.note(kept.fingerprint.key, at, kept.expires_at(at));
        }
    }

    /// Notes an answer given at `at`, if it has ended.
    fn note(&mut self, key: DuplicateKey, at: Timestamp, expires_at: Timestamp) {
        if expires_at <= self.applied_at {
            let newest = self.ended.entry(key).or_insert(at);
            *newest = at.max(*newest);
        }
    }

    /// Whether an answer given at `at`, and no later one under its key, has not ended.
    fn is_open(&self, answer: &RememberedAnswer, at: Timestamp) -> bool {
        let ended = self.ended.get(&answer.fingerprint.key);
        answer.expires_at > self.applied_at && ended.is_none_or(|ended| *ended < at)
    }
}
