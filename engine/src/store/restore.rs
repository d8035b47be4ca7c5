//! Re-emits the tables as the effects that rebuild the shard.
//!
//! Everything comes once, as it stands: a shard that applies these, and then the journal after
//! the checkpoint, is the shard that applied the whole journal.

use redb::ReadableTable;

use super::Store;
use super::checkpoint::Checkpoint;
use super::error::StoreError;
use super::query::Snapshot;
use super::tables::{
    ACCESS_TOKENS, ACCOUNT_BALANCES, ACCOUNTS, ANSWER_ENDS, ANSWERS, CARD_ATTEMPTS, CARD_PROFILES,
    COMPANIES, CREDENTIAL_FAILURES, EARLY_REVERSALS, MEMBERS, TRANSACTION_PROGRESS, TRANSACTIONS,
};
use crate::command::effect::{EarlyReversal, Effect, IssuedCard};
use crate::domain::ids::{AccountSlot, CardSlot, Timestamp};
use crate::domain::network_key::{OriginalKey, RetrievalKey};
use crate::domain::transaction::{TransactionProgress, TransactionState};

type Apply<'a> = &'a mut dyn FnMut(Effect);

impl Store {
    /// Hands every effect that makes up the hot state to `apply`, in slot and sequence order, and
    /// returns what the tables cover. Declined transactions and whatever has expired stay out.
    /// Cost: O(rows).
    pub fn restore(&self, apply: &mut dyn FnMut(Effect)) -> Result<Checkpoint, StoreError> {
        let snapshot = self.read()?;
        let checkpoint = snapshot.checkpoint()?;
        restore_organization(&snapshot, apply)?;
        restore_cards(&snapshot, apply)?;
        restore_transactions(&snapshot, apply)?;
        restore_memory(&snapshot, checkpoint.applied_at, apply)?;
        Ok(checkpoint)
    }
}

fn restore_organization(snapshot: &Snapshot, apply: Apply<'_>) -> Result<(), StoreError> {
    snapshot.each(&COMPANIES, |_, row| apply(Effect::Company(Box::new(row))))?;
    snapshot.each(&ACCOUNTS, |_, row| apply(Effect::Account(Box::new(row))))?;
    snapshot.each(&ACCOUNT_BALANCES, |slot, row| {
        apply(Effect::AccountBalances(AccountSlot(slot), row));
    })?;
    snapshot.each(&MEMBERS, |_, row| apply(Effect::Member(Box::new(row))))?;
    snapshot.each(&ACCESS_TOKENS, |_, row| apply(Effect::AccessToken(Box::new(row))))?;
    if let Some(digest) = snapshot.network_key()? {
        apply(Effect::NetworkKey(digest));
    }
    Ok(())
}

fn restore_cards(snapshot: &Snapshot, apply: Apply<'_>) -> Result<(), StoreError> {
    let cards = snapshot.card_tables()?;
    for entry in snapshot.table(CARD_PROFILES.definition())?.iter()? {
        let card = cards.card(CardSlot(entry?.0.value()))?;
        apply(Effect::CardIssued(Box::new(IssuedCard {
            profile: card.profile,
            record: card.record,
            sealed_pan: card.sealed_pan,
        })));
    }
    snapshot.each(&CARD_ATTEMPTS, |slot, row| apply(Effect::CardAttempts(CardSlot(slot), row)))?;
    snapshot.each(&CREDENTIAL_FAILURES, |slot, row| {
        apply(Effect::CredentialFailures(CardSlot(slot), row));
    })
}

fn restore_transactions(snapshot: &Snapshot, apply: Apply<'_>) -> Result<(), StoreError> {
    let records = snapshot.table(TRANSACTIONS.definition())?;
    let mut outcome = Ok(());
    snapshot.each(&TRANSACTION_PROGRESS, |seq, progress: TransactionProgress| {
        if outcome.is_ok() && progress.state != TransactionState::Declined {
            outcome = super::query::required(&TRANSACTIONS, &records, seq).map(|record| {
                apply(Effect::Transaction(Box::new(record), Box::new(progress)));
            });
        }
    })?;
    outcome
}

/// Answers and early reversals in the order in which they end: that of their arrival.
fn restore_memory(
    snapshot: &Snapshot,
    applied_at: Timestamp,
    apply: Apply<'_>,
) -> Result<(), StoreError> {
    let first = applied_at.0.saturating_add(1);
    let answers = snapshot.table(ANSWERS.definition())?;
    for entry in snapshot.table(ANSWER_ENDS)?.range((first, 0)..)? {
        let (_, key) = entry?.0.value();
        let answer = super::query::required(&ANSWERS, &answers, key)?;
        apply(Effect::Answer(Box::new(answer)));
    }
    for entry in snapshot.table(EARLY_REVERSALS)?.range((first, None, None)..)? {
        let (expires_at, original, retrieval) = entry?.0.value();
        apply(Effect::EarlyReversal(EarlyReversal {
            original_key: original.map(OriginalKey),
            retrieval_key: retrieval.map(RetrievalKey),
            expires_at: Timestamp(expires_at),
        }));
    }
    Ok(())
}
