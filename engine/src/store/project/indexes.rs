//! Keeps the indexes of companies and accounts in step with their rows.

use std::collections::BTreeMap;

use redb::WriteTransaction;

use crate::domain::account::Account;
use crate::domain::company::Company;
use crate::store::error::StoreError;
use crate::store::tables::{ACCOUNT_IDS, COMPANY_ACCOUNTS, COMPANY_IDS};

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

/// Errors: `Inconsistent` where an entry does not follow those before it.
pub(super) fn check_order(table: &str, is_in_order: bool) -> Result<(), StoreError> {
    if is_in_order {
        return Ok(());
    }
    Err(StoreError::Inconsistent { what: format!("an entry of {table} arrives out of order") })
}
