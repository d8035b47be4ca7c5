//! Webhook endpoints.

use super::entry::{Entries, Index};
use super::row::Indexed;
use crate::domain::ids::{AppSlot, CompanySlot};
use crate::domain::webhook_endpoint::WebhookEndpoint;

impl WebhookEndpoint {
    /// Those of a company that are not deleted.
    pub const OF_COMPANY: Index<Self, CompanySlot> = Index::new(1);
    /// The same of an app.
    pub const OF_APP: Index<Self, AppSlot> = Index::new(2);
}

impl Indexed for WebhookEndpoint {
    const CHANGES_ACCESS: bool = true;

    fn index(&self, entries: &mut Entries) {
        if self.is_deleted {
            return;
        }
        entries.add(&Self::OF_COMPANY, &self.company);
        if let Some(app) = &self.app {
            entries.add(&Self::OF_APP, app);
        }
    }
}
