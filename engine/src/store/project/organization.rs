//! Writes what people set up around cards, with the lists it is found in: dimensions, shared links,
//! requisitions, tags of transactions, single sign-on, answers under idempotency keys.

use std::collections::BTreeMap;

use redb::{Key, ReadableTable, Table, Value, WriteTransaction};
use serde::de::DeserializeOwned;

use super::write::write_table;
use crate::command::effect::Effect;
use crate::domain::card::DimensionKind;
use crate::domain::company::SingleSignOn;
use crate::domain::dimension::Dimension;
use crate::domain::ids::Timestamp;
use crate::domain::keyed_answer::KeyedAnswer;
use crate::domain::member::{Member, MemberState};
use crate::domain::requisition::Requisition;
use crate::domain::shared_link::SharedLink;
use crate::domain::transaction_tags::TagChanges;
use crate::store::error::StoreError;
use crate::store::rows;
use crate::store::tables::{
    CARD_REQUISITIONS, CARD_SHARED_LINKS, COMPANY_DIMENSIONS, COMPANY_MEMBERS,
    COMPANY_REQUISITIONS, COMPANY_SHARED_LINKS, COMPANY_SSO, DIMENSION_IDS, DIMENSIONS,
    KEYED_ANSWER_ENDS, KEYED_ANSWERS, MEMBER_REQUISITIONS, REQUISITION_IDS, REQUISITIONS, RowTable,
    SHARED_LINK_IDS, SHARED_LINK_KEYS, SHARED_LINKS,
};

/// The newest images of what a run changes.
#[derive(Debug, Default)]
pub(super) struct OrganizationChanges {
    dimensions: BTreeMap<u32, Dimension>,
    links: BTreeMap<u32, SharedLink>,
    requisitions: BTreeMap<u32, Requisition>,
    pub(super) tags: BTreeMap<u64, TagChanges>,
    sso: BTreeMap<u32, Option<SingleSignOn>>,
    keyed_answers: BTreeMap<[u8; 32], KeyedAnswer>,
}

impl OrganizationChanges {
    /// Takes what an effect says; any other is somebody else's.
    pub(super) fn take(&mut self, effect: Effect) {
        match effect {
            Effect::Dimension(row) => drop(self.dimensions.insert(row.slot.0, *row)),
            Effect::SharedLink(row) => drop(self.links.insert(row.slot.0, *row)),
            Effect::Requisition(row) => drop(self.requisitions.insert(row.slot.0, *row)),
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
        write_dimensions(write_txn, &self.dimensions)?;
        write_links(write_txn, &self.links)?;
        write_requisitions(write_txn, &self.requisitions)?;
        write_sso(write_txn, &self.sso)?;
        write_keyed_answers(write_txn, &self.keyed_answers)?;
        forget_keyed_answers(write_txn, at)
    }
}

/// Which of the four tables of its company a dimension is listed in. Part of the format.
pub(in crate::store) const fn kind_number(kind: DimensionKind) -> u8 {
    match kind {
        DimensionKind::Category => 0,
        DimensionKind::Department => 1,
        DimensionKind::Label => 2,
        DimensionKind::Location => 3,
    }
}

fn write_dimensions(
    write_txn: &WriteTransaction,
    rows: &BTreeMap<u32, Dimension>,
) -> Result<(), StoreError> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut ids = write_txn.open_table(DIMENSION_IDS)?;
    let mut listed = write_txn.open_table(COMPANY_DIMENSIONS)?;
    for (slot, row) in rows {
        ids.insert(row.id.0.as_u128(), slot)?;
        let key = (row.company.0, kind_number(row.kind), *slot);
        set_listed(&mut listed, key, !row.is_deleted)?;
    }
    write_table(write_txn, &DIMENSIONS, rows)
}

fn write_links(
    write_txn: &WriteTransaction,
    rows: &BTreeMap<u32, SharedLink>,
) -> Result<(), StoreError> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut ids = write_txn.open_table(SHARED_LINK_IDS)?;
    let mut keys = write_txn.open_table(SHARED_LINK_KEYS)?;
    let mut of_company = write_txn.open_table(COMPANY_SHARED_LINKS)?;
    let mut of_card = write_txn.open_table(CARD_SHARED_LINKS)?;
    for (slot, row) in rows {
        ids.insert(row.id.0.as_u128(), slot)?;
        set_listed(&mut of_company, (row.company.0, *slot), !row.is_deleted)?;
        set_listed(&mut of_card, (row.card.0, *slot), !row.is_deleted)?;
        if row.is_deleted {
            keys.remove(row.key_digest)?;
        } else {
            keys.insert(row.key_digest, slot)?;
        }
    }
    write_table(write_txn, &SHARED_LINKS, rows)
}

fn write_requisitions(
    write_txn: &WriteTransaction,
    rows: &BTreeMap<u32, Requisition>,
) -> Result<(), StoreError> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut ids = write_txn.open_table(REQUISITION_IDS)?;
    let mut of_company = write_txn.open_table(COMPANY_REQUISITIONS)?;
    let mut of_member = write_txn.open_table(MEMBER_REQUISITIONS)?;
    let mut of_card = write_txn.open_table(CARD_REQUISITIONS)?;
    let stored = write_txn.open_table(REQUISITIONS.definition())?;
    for (slot, row) in rows {
        let before = stored_row(&REQUISITIONS, &stored, *slot)?;
        if let Some(card) = before.and_then(|before| before.card) {
            of_card.remove((card.0, *slot))?;
        }
        ids.insert(row.id.0.as_u128(), slot)?;
        of_company.insert((row.company.0, *slot), ())?;
        of_member.insert((row.member.0, *slot), ())?;
        if let Some(card) = row.card {
            of_card.insert((card.0, *slot), ())?;
        }
    }
    drop(stored);
    write_table(write_txn, &REQUISITIONS, rows)
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

/// Puts members into the list of their company, without deleted ones.
pub(super) fn list_members<'a>(
    write_txn: &WriteTransaction,
    members: impl IntoIterator<Item = &'a Member>,
) -> Result<(), StoreError> {
    let mut listed = write_txn.open_table(COMPANY_MEMBERS)?;
    for member in members {
        let is_listed = member.state != MemberState::Deleted;
        set_listed(&mut listed, (member.company.0, member.slot.0), is_listed)?;
    }
    Ok(())
}

pub(super) fn set_listed<K>(
    list: &mut Table<'_, K, ()>,
    key: K,
    is_listed: bool,
) -> Result<(), StoreError>
where
    K: Key + Copy + 'static,
    for<'a> K: Value<SelfType<'a> = K>,
{
    if is_listed {
        list.insert(key, ())?;
    } else {
        list.remove(key)?;
    }
    Ok(())
}

pub(super) fn stored_row<K, T>(
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
