//! Writes what people set up that is no resource: tags of transactions, single sign-on, answers under
//! idempotency keys.

use std::collections::BTreeMap;

use redb::{Key, ReadableTable, Value, WriteTransaction};
use serde::de::DeserializeOwned;

use super::write::write_table;
use crate::command::effect::Effect;
use crate::domain::company::SingleSignOn;
use crate::domain::ids::Timestamp;
use crate::domain::keyed_answer::KeyedAnswer;
use crate::domain::transaction_tags::TagChanges;
use crate::store::error::StoreError;
use crate::store::rows;
use crate::store::tables::{COMPANY_SSO, KEYED_ANSWER_ENDS, KEYED_ANSWERS, RowTable};

/// The newest images of what a run changes.
#[derive(Debug, Default)]
pub(super) struct OrganizationChanges {
    pub(super) tags: BTreeMap<u64, TagChanges>,
    sso: BTreeMap<u32, Option<SingleSignOn>>,
    keyed_answers: BTreeMap<[u8; 32], KeyedAnswer>,
}

impl OrganizationChanges {
    /// Takes what an effect says; any other is somebody else's.
    pub(super) fn take<T>(&mut self, effect: Effect<T>) {
        match effect {
            Effect::TransactionTags(seq, row) => self.tags.entry(seq.0).or_default().merge(&row),
            Effect::CompanySso(slot, row) => drop(self.sso.insert(slot.0, row.map(|row| *row))),
            Effect::KeyedAnswer(row) => drop(self.keyed_answers.insert(row.key, *row)),
            _ => {}
        }
    }

    /// Writes it all. Lets go of keyed answers that ended at or before `at`, the instant of the
    /// newest record.
    pub(super) fn write(
        &self,
        write_txn: &WriteTransaction,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        write_sso(write_txn, &self.sso)?;
        write_keyed_answers(write_txn, &self.keyed_answers)?;
        forget_keyed_answers(write_txn, at)
    }
}

fn write_sso(
    write_txn: &WriteTransaction,
    rows: &BTreeMap<u32, Option<SingleSignOn>>,
) -> Result<(), StoreError> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut stored = write_txn.open_table(COMPANY_SSO.definition())?;
    for (slot, row) in rows {
        match row {
            Some(row) => {
                stored.insert(*slot, rows::encode(COMPANY_SSO.name(), row)?.as_slice())?;
            }
            None => drop(stored.remove(*slot)?),
        }
    }
    Ok(())
}

fn write_keyed_answers(
    write_txn: &WriteTransaction,
    answers: &BTreeMap<[u8; 32], KeyedAnswer>,
) -> Result<(), StoreError> {
    if answers.is_empty() {
        return Ok(());
    }
    {
        let stored = write_txn.open_table(KEYED_ANSWERS.definition())?;
        let mut ends = write_txn.open_table(KEYED_ANSWER_ENDS)?;
        for (key, answer) in answers {
            if let Some(before) = stored_row(&KEYED_ANSWERS, &stored, *key)? {
                ends.remove((before.expires_at.0, *key))?;
            }
            ends.insert((answer.expires_at.0, *key), ())?;
        }
    }
    write_table(write_txn, &KEYED_ANSWERS, answers)
}

/// INVARIANT: the shard forgets by the same rule.
fn forget_keyed_answers(write_txn: &WriteTransaction, at: Timestamp) -> Result<(), StoreError> {
    let mut ends = write_txn.open_table(KEYED_ANSWER_ENDS)?;
    let next = (at.0.saturating_add(1), [0; 32]);
    if ends.range(..next)?.next().is_none() {
        return Ok(());
    }
    let mut stored = write_txn.open_table(KEYED_ANSWERS.definition())?;
    for ended in ends.extract_from_if(..next, |_, ()| true)? {
        stored.remove(ended?.0.value().1)?;
    }
    Ok(())
}

pub(in crate::store) fn stored_row<K, T>(
    table: &RowTable<K, T>,
    stored: &impl ReadableTable<K, &'static [u8]>,
    key: K,
) -> Result<Option<T>, StoreError>
where
    K: Key + Copy + 'static,
    for<'a> K: Value<SelfType<'a> = K>,
    T: DeserializeOwned,
{
    let row = stored.get(key)?;
    row.map(|row| rows::decode(table.name(), row.value())).transpose()
}
