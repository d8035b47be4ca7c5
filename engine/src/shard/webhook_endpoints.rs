//! Webhook endpoints: dense by slot, with the lookups that rules need. Only admin commands read any of
//! it; who is told of what is the edge's business.

use std::collections::{BTreeSet, HashMap};

use super::apply::put_at;
use crate::domain::ids::{AppSlot, CompanySlot, WebhookEndpointId, WebhookEndpointSlot};
use crate::domain::webhook_endpoint::WebhookEndpoint;

/// See the head of this file.
#[derive(Clone, Debug, Default)]
pub(super) struct WebhookEndpoints {
    pub(super) rows: Vec<WebhookEndpoint>,
    pub(super) by_id: HashMap<WebhookEndpointId, WebhookEndpointSlot>,
    /// Those that are not deleted.
    of_company: BTreeSet<(CompanySlot, WebhookEndpointSlot)>,
    /// The same of apps.
    of_app: BTreeSet<(AppSlot, WebhookEndpointSlot)>,
}

impl WebhookEndpoints {
    /// The row of a slot.
    pub(super) fn get(&self, slot: WebhookEndpointSlot) -> &WebhookEndpoint {
        &self.rows[slot.index()]
    }

    /// How many a company has, without deleted ones.
    pub(super) fn count_of(&self, company: CompanySlot) -> usize {
        let key = |slot| (company, WebhookEndpointSlot(slot));
        self.of_company.range(key(0)..=key(u32::MAX)).count()
    }

    /// Those of an app that are not deleted.
    pub(super) fn of_app(&self, app: AppSlot) -> impl Iterator<Item = &WebhookEndpoint> {
        let key = |slot| (app, WebhookEndpointSlot(slot));
        self.of_app.range(key(0)..=key(u32::MAX)).map(|(_, slot)| self.get(*slot))
    }

    pub(super) fn apply(&mut self, row: &WebhookEndpoint) {
        self.by_id.insert(row.id, row.slot);
        let of_app = row.app.map(|app| (app, row.slot));
        if row.is_deleted {
            self.of_company.remove(&(row.company, row.slot));
            if let Some(key) = of_app {
                self.of_app.remove(&key);
            }
        } else {
            self.of_company.insert((row.company, row.slot));
            self.of_app.extend(of_app);
        }
        put_at(&mut self.rows, row.slot.index(), row.clone());
    }
}
