//! Webhook endpoints, and which companies an app may be told of.

use uuid::Uuid;

use super::list::{Listed, Page};
use crate::directory::webhook_endpoint::WebhookEndpoint;
use crate::domain::ids::{AccessTokenId, AppSlot, CompanySlot, WebhookEndpointId};
use crate::store::error::StoreError;
use crate::store::query::Snapshot;
use crate::store::tables::APP_TOKENS;

impl Snapshot {
    /// Finds a webhook endpoint of a company by its id, not a deleted one.
    pub fn webhook_endpoint_by_id(
        &self,
        company: CompanySlot,
        id: WebhookEndpointId,
    ) -> Result<Option<WebhookEndpoint>, StoreError> {
        let row: Option<WebhookEndpoint> = self.row_by_id(id.0)?;
        Ok(row.filter(|row| row.company == company && !row.is_deleted))
    }

    /// Lists a company's webhook endpoints, those of its apps among them, without deleted ones.
    pub fn webhook_endpoints(
        &self,
        company: CompanySlot,
        page: &Page,
    ) -> Result<Listed<WebhookEndpoint>, StoreError> {
        self.list_rows(&WebhookEndpoint::OF_COMPANY, &company, page, |_| true)
    }

    /// Every webhook endpoint of every company, in the order in which they were made, without deleted
    /// ones. Cost: O(endpoints that are not deleted).
    pub fn all_webhook_endpoints(&self) -> Result<Vec<WebhookEndpoint>, StoreError> {
        let mut endpoints = self.rows_of_index(&WebhookEndpoint::OF_COMPANY)?;
        endpoints.sort_unstable_by_key(|row| row.slot);
        Ok(endpoints)
    }

    /// The companies of which an app holds an access token that is not revoked.
    /// Cost: O(tokens of the app that are not revoked), which are bounded.
    pub fn companies_of_app(&self, app: AppSlot) -> Result<Vec<CompanySlot>, StoreError> {
        let mut companies = Vec::new();
        let all = (app.0, 0, 0)..=(app.0, u32::MAX, u128::MAX);
        for entry in self.table(APP_TOKENS)?.range(all)? {
            let company = CompanySlot(entry?.0.value().1);
            if companies.last() != Some(&company) {
                companies.push(company);
            }
        }
        Ok(companies)
    }

    /// The first of the access tokens that an app holds of a company, by their ids; none where all
    /// are revoked. Ids have the time in them.
    pub fn first_token_of_app(
        &self,
        app: AppSlot,
        company: CompanySlot,
    ) -> Result<Option<AccessTokenId>, StoreError> {
        let all = (app.0, company.0, 0)..=(app.0, company.0, u128::MAX);
        let first = self.table(APP_TOKENS)?.range(all)?.next().transpose()?;
        Ok(first.map(|(key, _)| AccessTokenId(Uuid::from_u128(key.value().2))))
    }
}
