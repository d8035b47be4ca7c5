//! Companies, and their accounts with balances.

use crate::domain::account::{Account, AccountBalances};
use crate::domain::company::Company;
use crate::domain::ids::{AccountId, AccountSlot, CompanyId, CompanySlot};
use crate::store::error::StoreError;
use crate::store::query::Snapshot;
use crate::store::tables::{
    ACCOUNT_BALANCES, ACCOUNT_IDS, ACCOUNTS, COMPANIES, COMPANY_ACCOUNTS, COMPANY_IDS,
};

/// An account as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountRow {
    /// The account.
    pub account: Account,
    /// Its balances.
    pub balances: AccountBalances,
}

impl Snapshot {
    /// Finds a company.
    pub fn company(&self, slot: CompanySlot) -> Result<Option<Company>, StoreError> {
        self.find(&COMPANIES, slot.0)
    }

    /// Finds a company by its id.
    pub fn company_by_id(&self, id: CompanyId) -> Result<Option<Company>, StoreError> {
        self.find_by(COMPANY_IDS, id.0.as_u128(), &COMPANIES)
    }

    /// Every company, oldest first.
    pub fn companies(&self) -> Result<Vec<Company>, StoreError> {
        let mut companies = Vec::new();
        self.each(&COMPANIES, |_, company| companies.push(company))?;
        Ok(companies)
    }

    /// Finds an account.
    pub fn account(&self, slot: AccountSlot) -> Result<Option<AccountRow>, StoreError> {
        let Some(account) = self.find(&ACCOUNTS, slot.0)? else { return Ok(None) };
        self.with_balances(account).map(Some)
    }

    /// Finds an account of a company by its id.
    pub fn account_by_id(
        &self,
        company: CompanySlot,
        id: AccountId,
    ) -> Result<Option<AccountRow>, StoreError> {
        match self.find_by(ACCOUNT_IDS, id.0.as_u128(), &ACCOUNTS)? {
            Some(account) if account.company == company => self.with_balances(account).map(Some),
            _ => Ok(None),
        }
    }

    /// Finds an account by its id, whosever it is.
    pub fn account_by_any_company(&self, id: AccountId) -> Result<Option<AccountRow>, StoreError> {
        let account = self.find_by(ACCOUNT_IDS, id.0.as_u128(), &ACCOUNTS)?;
        account.map(|account| self.with_balances(account)).transpose()
    }

    /// A company's accounts, oldest first.
    pub fn accounts(&self, company: CompanySlot) -> Result<Vec<AccountRow>, StoreError> {
        let slots = self.table(COMPANY_ACCOUNTS)?;
        let mut accounts = Vec::new();
        for entry in slots.range((company.0, 0)..=(company.0, u32::MAX))? {
            accounts.extend(self.account(AccountSlot(entry?.0.value().1))?);
        }
        Ok(accounts)
    }

    /// An account's balances, where anything was posted to it yet.
    pub(in crate::store) fn balances(
        &self,
        slot: AccountSlot,
    ) -> Result<Option<AccountBalances>, StoreError> {
        match self.tables.numbers.balances(slot.0) {
            Some(balances) => Ok(Some(balances)),
            None => self.find(&ACCOUNT_BALANCES, slot.0),
        }
    }

    fn with_balances(&self, account: Account) -> Result<AccountRow, StoreError> {
        let balances = self.balances(account.slot)?.unwrap_or_default();
        Ok(AccountRow { account, balances })
    }
}
