//! Keeps the indexes in step with the rows that are about to be written.
//!
//! Each function compares the new rows with the stored ones, so it runs before they are replaced.

use std::collections::BTreeMap;

use redb::{ReadableTable, WriteTransaction};

use super::organization::list_members;
use crate::domain::account::Account;
use crate::domain::company::Company;
use crate::domain::member::{Member, MemberState, email_key};
use crate::store::error::StoreError;
use crate::store::rows;
use crate::store::tables::{
    ACCOUNT_IDS, COMPANY_ACCOUNTS, COMPANY_IDS, EMAIL_MEMBERS, EXTERNAL_IDS, MEMBER_EMAILS,
    MEMBER_IDS, MEMBERS,
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
    list_members(write_txn, members.values())?;
    let mut ids = write_txn.open_table(MEMBER_IDS)?;
    let mut emails = write_txn.open_table(MEMBER_EMAILS)?;
    let mut of_people = write_txn.open_table(EMAIL_MEMBERS)?;
    let mut by_external = write_txn.open_table(EXTERNAL_IDS)?;
    let stored = write_txn.open_table(MEMBERS.definition())?;
    // First what they were found by goes, then the new comes, so that members may swap it.
    for slot in members.keys() {
        let Some(row) = stored.get(slot)? else { continue };
        let before: Member = rows::decode(MEMBERS.name(), row.value())?;
        let key = (before.company.0, email_key(&before.email));
        of_people.remove((key.1.as_str(), *slot))?;
        let owner = emails.get((key.0, key.1.as_str()))?.map(|owner| owner.value());
        if owner == Some(*slot) {
            emails.remove((key.0, key.1.as_str()))?;
        }
        if let Some(id) = &before.external_id {
            by_external.remove((key.0, id.as_str()))?;
        }
    }
    for (slot, member) in members {
        ids.insert(member.id.0.as_u128(), slot)?;
        // SPEC "States and transitions": the address of a deleted member is free again.
        if member.state != MemberState::Deleted {
            let email = email_key(&member.email);
            emails.insert((member.company.0, email.as_str()), slot)?;
            of_people.insert((email.as_str(), *slot), ())?;
        }
        if let Some(id) = &member.external_id {
            by_external.insert((member.company.0, id.as_str()), slot)?;
        }
    }
    Ok(())
}

/// Errors: `Inconsistent` where an entry does not follow those before it.
pub(super) fn check_order(table: &str, is_in_order: bool) -> Result<(), StoreError> {
    if is_in_order {
        return Ok(());
    }
    Err(StoreError::Inconsistent { what: format!("an entry of {table} arrives out of order") })
}
