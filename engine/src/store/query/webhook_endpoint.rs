//! Webhook endpoints, and which companies an app may be told of.

use crate::directory::access_token::AccessToken;
use crate::directory::webhook_endpoint::WebhookEndpoint;
use crate::domain::ids::{AccessTokenId, AppSlot, CompanySlot};
use crate::store::error::StoreError;
use crate::store::query::Snapshot;

impl Snapshot {
    /// Every webhook endpoint of every company, in the order in which they were made, without deleted
    /// ones. Cost: O(endpoints that are not deleted).
    pub fn all_webhook_endpoints(&self) -> Result<Vec<WebhookEndpoint>, StoreError> {
        let mut endpoints = self.rows_of_index(&WebhookEndpoint::OF_COMPANY)?;
        endpoints.sort_unstable_by_key(|row| row.slot);
        Ok(endpoints)
    }

    /// The companies of which an app holds an access token that is not revoked.
    /// Cost: O(companies).
    pub fn companies_of_app(&self, app: AppSlot) -> Result<Vec<CompanySlot>, StoreError> {
        let mut companies = Vec::new();
        let mut from = CompanySlot(0);
        loop {
            let entries = AccessToken::OF_APP.range_of(app, from);
            let Some(token) = self.rows_within::<AccessToken, _>(entries)?.next().transpose()?
            else {
                return Ok(companies);
            };
            companies.push(token.company);
            from = CompanySlot(token.company.0 + 1);
        }
    }

    /// The oldest of the access tokens that an app holds of a company; none where all are revoked.
    pub fn first_token_of_app(
        &self,
        app: AppSlot,
        company: CompanySlot,
    ) -> Result<Option<AccessTokenId>, StoreError> {
        let first: Option<AccessToken> = self.first_row(&AccessToken::OF_APP, &(app, company))?;
        Ok(first.map(|token| token.id))
    }
}
