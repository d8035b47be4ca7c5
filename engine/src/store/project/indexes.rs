//! Keeps the indexes in step with the rows that are about to be written.
//!
//! Each function compares the new rows with the stored ones, so it runs before they are replaced.

use std::collections::{BTreeMap, BTreeSet};

use redb::{ReadableTable, Table, WriteTransaction};

use crate::command::effect::RememberedAnswer;
use crate::domain::account::Account;
use crate::domain::card::CardProfile;
use crate::domain::company::Company;
use crate::domain::ids::CompanySlot;
use crate::domain::member::{Member, MemberState};
use crate::domain::posting::StatementLine;
use crate::domain::transaction::TransactionRecord;
use crate::store::error::StoreError;
use crate::store::rows::{self, CardBase};
use crate::store::tables::{
    ACCOUNT_IDS, ACCOUNT_LINES, ALLOWANCE_IDS, ANSWER_ENDS, ANSWERS, CARD_IDS, CARD_MARKS,
    CARD_PROFILES, COMPANY_ACCOUNTS, COMPANY_CARDS, COMPANY_IDS, ListKey, ListedKey, MEMBER_EMAILS,
    MEMBER_IDS, MEMBERS, PAN_HASHES, TRANSACTION_LISTS,
};

pub(super) fn write_companies(
    write_txn: &WriteTransaction,
    companies: &BTreeMap<u32, Company>,
) -> Result<(), StoreError> {
    if companies.is_empty() {
        return Ok(());
    }
    let mut ids = write_txn.open_table(COMPANY_IDS)?;
    for (slot, company) in companies {
        ids.insert(company.id.0.as_u128(), slot)?;
    }
    Ok(())
}

pub(super) fn write_accounts(
    write_txn: &WriteTransaction,
    accounts: &BTreeMap<u32, Account>,
) -> Result<(), StoreError> {
    if accounts.is_empty() {
        return Ok(());
    }
    let mut ids = write_txn.open_table(ACCOUNT_IDS)?;
    let mut by_company = write_txn.open_table(COMPANY_ACCOUNTS)?;
    for (slot, account) in accounts {
        ids.insert(account.id.0.as_u128(), slot)?;
        by_company.insert((account.company.0, *slot), ())?;
    }
    Ok(())
}

pub(super) fn write_members(
    write_txn: &WriteTransaction,
    members: &BTreeMap<u32, Member>,
) -> Result<(), StoreError> {
    if members.is_empty() {
        return Ok(());
    }
    let mut ids = write_txn.open_table(MEMBER_IDS)?;
    let mut emails = write_txn.open_table(MEMBER_EMAILS)?;
    let stored = write_txn.open_table(MEMBERS.definition())?;
    // First all old addresses go, then the new ones come, so that members may swap them.
    for slot in members.keys() {
        let Some(row) = stored.get(slot)? else { continue };
        let before: Member = rows::decode(MEMBERS.name(), row.value())?;
        let key = (before.company.0, email_key(&before.email));
        let owner = emails.get((key.0, key.1.as_str()))?.map(|owner| owner.value());
        if owner == Some(*slot) {
            emails.remove((key.0, key.1.as_str()))?;
        }
    }
    for (slot, member) in members {
        ids.insert(member.id.0.as_u128(), slot)?;
        // SPEC "States and transitions": the address of a deleted member is free again.
        if member.state != MemberState::Deleted {
            emails.insert((member.company.0, email_key(&member.email).as_str()), slot)?;
        }
    }
    Ok(())
}

/// An e-mail address as it is compared.
pub(in crate::store) fn email_key(email: &str) -> String {
    email.to_lowercase()
}

pub(super) fn write_card_bases(
    write_txn: &WriteTransaction,
    bases: &BTreeMap<u32, CardBase>,
) -> Result<(), StoreError> {
    if bases.is_empty() {
        return Ok(());
    }
    let mut pan_hashes = write_txn.open_table(PAN_HASHES)?;
    for (slot, base) in bases {
        pan_hashes.insert(base.pan_hash.0, slot)?;
    }
    Ok(())
}

pub(super) fn write_card_profiles(
    write_txn: &WriteTransaction,
    profiles: &BTreeMap<u32, CardProfile>,
) -> Result<(), StoreError> {
    if profiles.is_empty() {
        return Ok(());
    }
    let mut ids = write_txn.open_table(CARD_IDS)?;
    let mut allowance_ids = write_txn.open_table(ALLOWANCE_IDS)?;
    let mut marks = write_txn.open_table(CARD_MARKS)?;
    let stored = write_txn.open_table(CARD_PROFILES.definition())?;
    let mut made: BTreeMap<CompanySlot, Vec<u32>> = BTreeMap::new();
    for (slot, profile) in profiles {
        let mut before = BTreeSet::new();
        if let Some(row) = stored.get(slot)? {
            before = marks_of(&rows::decode(CARD_PROFILES.name(), row.value())?);
        } else {
            ids.insert(profile.id.0.as_u128(), slot)?;
            allowance_ids.insert(profile.allowance_id.0.as_u128(), slot)?;
            made.entry(profile.company).or_default().push(*slot);
        }
        let after = marks_of(profile);
        for gone in before.difference(&after) {
            marks.remove((gone.kind, gone.owner, *slot))?;
        }
        for new in after.difference(&before) {
            marks.insert((new.kind, new.owner, *slot), ())?;
        }
    }
    append_company_cards(write_txn, &made)
}

/// What a card is found by besides its company: who holds it and its dimensions.
fn marks_of(profile: &CardProfile) -> BTreeSet<ListKey> {
    let member = profile.assigned_to.map(ListKey::member);
    member.into_iter().chain(ListKey::dimensions(&profile.dimensions)).collect()
}

fn append_company_cards(
    write_txn: &WriteTransaction,
    made: &BTreeMap<CompanySlot, Vec<u32>>,
) -> Result<(), StoreError> {
    let mut cards = write_txn.open_table(COMPANY_CARDS)?;
    for (CompanySlot(company), slots) in made {
        let last = cards.range((*company, 0)..=(*company, u32::MAX))?.next_back().transpose()?;
        let (last_slot, places) =
            last.map_or((None, 0), |(key, place)| (Some(key.value().1), place.value()));
        for (place, slot) in (places + 1..).zip(slots) {
            check_order("company_cards", last_slot < Some(*slot))?;
            cards.insert((*company, *slot), place)?;
        }
    }
    Ok(())
}

pub(super) fn write_transactions(
    write_txn: &WriteTransaction,
    transactions: &BTreeMap<u64, TransactionRecord>,
) -> Result<(), StoreError> {
    let mut made: BTreeMap<ListKey, Vec<u64>> = BTreeMap::new();
    for (seq, record) in transactions {
        let lists = [Some(ListKey::company(record.company))]
            .into_iter()
            .chain([record.card.map(ListKey::card), record.member.map(ListKey::member)])
            .flatten()
            .chain(ListKey::dimensions(&record.dimensions));
        for list in lists {
            made.entry(list).or_default().push(*seq);
        }
    }
    if made.is_empty() {
        return Ok(());
    }
    let mut lists = write_txn.open_table(TRANSACTION_LISTS)?;
    made.iter().try_for_each(|(list, seqs)| append_to_list(&mut lists, *list, seqs))
}

/// Appends transactions, in order, to the end of a list; those it has already stay where they are.
fn append_to_list(
    lists: &mut Table<'_, ListedKey, u64>,
    list: ListKey,
    seqs: &[u64],
) -> Result<(), StoreError> {
    let ListKey { kind, owner } = list;
    let last = lists.range((kind, owner, 0)..=(kind, owner, u64::MAX))?.next_back().transpose()?;
    let (last_seq, mut place) = last.map_or((0, 0), |(key, place)| (key.value().2, place.value()));
    for seq in seqs {
        if *seq > last_seq {
            place += 1;
            lists.insert((kind, owner, *seq), place)?;
        } else {
            check_order("transaction_lists", lists.get((kind, owner, *seq))?.is_some())?;
        }
    }
    Ok(())
}

fn check_order(table: &str, is_in_order: bool) -> Result<(), StoreError> {
    if is_in_order {
        return Ok(());
    }
    Err(StoreError::Inconsistent { what: format!("an entry of {table} arrives out of order") })
}

pub(super) fn write_statement_lines(
    write_txn: &WriteTransaction,
    lines: &BTreeMap<u64, StatementLine>,
) -> Result<(), StoreError> {
    if lines.is_empty() {
        return Ok(());
    }
    let mut by_account = write_txn.open_table(ACCOUNT_LINES)?;
    for (seq, line) in lines {
        by_account.insert((line.account.0, line.number), seq)?;
    }
    Ok(())
}

pub(super) fn write_answers(
    write_txn: &WriteTransaction,
    answers: &BTreeMap<u128, RememberedAnswer>,
) -> Result<(), StoreError> {
    if answers.is_empty() {
        return Ok(());
    }
    let mut ends = write_txn.open_table(ANSWER_ENDS)?;
    let stored = write_txn.open_table(ANSWERS.definition())?;
    for (key, answer) in answers {
        if let Some(row) = stored.get(key)? {
            let before: RememberedAnswer = rows::decode(ANSWERS.name(), row.value())?;
            ends.remove((before.expires_at.0, *key))?;
        }
        ends.insert((answer.expires_at.0, *key), ())?;
    }
    Ok(())
}
