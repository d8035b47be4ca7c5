//! Companies.

use crate::domain::company::Company;
use crate::domain::ids::{CompanyId, CompanySlot};
use crate::store::error::StoreError;
use crate::store::query::Snapshot;
use crate::store::tables::{COMPANIES, COMPANY_IDS};

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
}
