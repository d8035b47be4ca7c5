//! Writes a gathered run into one write transaction: indexes first, since they compare with the
//! rows as they were, then the rows, then what has expired goes.

use std::collections::BTreeMap;

use redb::{Key, Value, WriteTransaction};
use serde::Serialize;

use super::{Projection, indexes};
use crate::domain::ids::Timestamp;
use crate::store::checkpoint::{self, Checkpoint};
use crate::store::error::StoreError;
use crate::store::rows;
use crate::store::tables::{
    ACCESS_TOKENS, ACCOUNT_BALANCES, ACCOUNTS, ALLOWANCE_TERMS, ANSWER_ENDS, ANSWERS,
    CARD_ATTEMPTS, CARD_BASES, CARD_PINS, CARD_PROFILES, CARD_USAGES, CARD_ZIPS, COMPANIES,
    CREDENTIAL_FAILURES, EARLY_REVERSALS, MEMBERS, META, META_NETWORK_KEY, NETWORK_LOG, POSTINGS,
    RowTable, STATEMENT_LINES, TRANSACTION_PROGRESS, TRANSACTIONS,
};

/// Where a run ends in the chain of batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChainPlace {
    /// The epoch of its last batch.
    pub epoch: u64,
    /// The number of its last batch.
    pub batch: u64,
    /// The hash of its last batch.
    pub chain_hash: [u8; 32],
}

impl Projection {
    /// Writes the run, which ends at `place` in the chain, and the checkpoint that covers it.
    pub(in crate::store) fn write(
        &self,
        write_txn: &WriteTransaction,
        place: ChainPlace,
    ) -> Result<Checkpoint, StoreError> {
        let mut checkpoint = checkpoint::read(&write_txn.open_table(META)?)?;
        assert!(place.batch >= checkpoint.batch, "the tables never go back in the chain");
        self.advance(&mut checkpoint);
        (checkpoint.epoch, checkpoint.batch) = (place.epoch, place.batch);
        checkpoint.chain_hash = place.chain_hash;
        self.write_indexes(write_txn)?;
        self.write_rows(write_txn)?;
        self.write_early_reversals(write_txn)?;
        forget_expired(write_txn, checkpoint.applied_at)?;
        checkpoint::write(write_txn, &checkpoint)?;
        Ok(checkpoint)
    }

    fn write_indexes(&self, write_txn: &WriteTransaction) -> Result<(), StoreError> {
        indexes::write_companies(write_txn, &self.companies)?;
        indexes::write_accounts(write_txn, &self.accounts)?;
        indexes::write_members(write_txn, &self.members)?;
        indexes::write_card_bases(write_txn, &self.card_bases)?;
        indexes::write_card_profiles(write_txn, &self.card_profiles)?;
        indexes::write_transactions(write_txn, &self.transactions)?;
        indexes::write_statement_lines(write_txn, &self.statement_lines)?;
        indexes::write_answers(write_txn, &self.answers)
    }

    fn write_rows(&self, write_txn: &WriteTransaction) -> Result<(), StoreError> {
        write_table(write_txn, &COMPANIES, &self.companies)?;
        write_table(write_txn, &ACCOUNTS, &self.accounts)?;
        write_table(write_txn, &ACCOUNT_BALANCES, &self.account_balances)?;
        write_table(write_txn, &MEMBERS, &self.members)?;
        write_table(write_txn, &ACCESS_TOKENS, &self.access_tokens)?;
        if let Some(digest) = &self.network_key {
            write_txn.open_table(META)?.insert(META_NETWORK_KEY, digest.as_slice())?;
        }
        write_table(write_txn, &CARD_PROFILES, &self.card_profiles)?;
        write_table(write_txn, &CARD_BASES, &self.card_bases)?;
        write_table(write_txn, &CARD_PINS, &self.card_pins)?;
        write_table(write_txn, &CARD_ZIPS, &self.card_zips)?;
        write_table(write_txn, &ALLOWANCE_TERMS, &self.allowance_terms)?;
        write_table(write_txn, &CARD_USAGES, &self.card_usages)?;
        write_table(write_txn, &CARD_ATTEMPTS, &self.card_attempts)?;
        write_table(write_txn, &CREDENTIAL_FAILURES, &self.credential_failures)?;
        write_table(write_txn, &TRANSACTIONS, &self.transactions)?;
        write_table(write_txn, &TRANSACTION_PROGRESS, &self.transaction_progress)?;
        write_table(write_txn, &POSTINGS, &self.postings)?;
        write_table(write_txn, &STATEMENT_LINES, &self.statement_lines)?;
        write_table(write_txn, &ANSWERS, &self.answers)?;
        write_table(write_txn, &NETWORK_LOG, &self.network_log)
    }

    fn write_early_reversals(&self, write_txn: &WriteTransaction) -> Result<(), StoreError> {
        if self.early_reversals.is_empty() {
            return Ok(());
        }
        let mut table = write_txn.open_table(EARLY_REVERSALS)?;
        for key in &self.early_reversals {
            table.insert(*key, ())?;
        }
        Ok(())
    }
}

fn write_table<K, T>(
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

/// Lets go of answers and early reversals that ended at or before `at`, the instant of the newest
/// record. INVARIANT: the shard forgets by the same rule, so both always remember the same.
fn forget_expired(write_txn: &WriteTransaction, at: Timestamp) -> Result<(), StoreError> {
    let next = at.0.saturating_add(1);
    let mut ends = write_txn.open_table(ANSWER_ENDS)?;
    let mut answers = write_txn.open_table(ANSWERS.definition())?;
    for expired in ends.extract_from_if(..(next, 0), |_, ()| true)? {
        let (_, key) = expired?.0.value();
        answers.remove(key)?;
    }
    write_txn
        .open_table(EARLY_REVERSALS)?
        .retain_in(..(next, None, None), |_, ()| false)
        .map_err(StoreError::from)
}
