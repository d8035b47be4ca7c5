//! What is asked about webhook endpoints. Secrets come sealed by the edge.

use crate::domain::ids::{AppId, CompanyId, Timestamp, WebhookEndpointId};
use crate::domain::text::LineText;

/// A webhook endpoint to make.
#[derive(Clone, Debug)]
pub struct NewWebhookEndpoint {
    /// Its id.
    pub id: WebhookEndpointId,
    /// Whose.
    pub company: CompanyId,
    /// For which of the company's apps, where it is for one.
    pub app: Option<AppId>,
    /// Where events are sent; the edge has found it to be an address that it sends to.
    pub url: String,
    /// What people tell it by.
    pub description: LineText,
    /// The secret that deliveries are signed with.
    pub sealed_secret: Vec<u8>,
}

/// What to change about a webhook endpoint; absent stays.
#[derive(Clone, Debug, Default)]
pub struct WebhookEndpointChanges {
    /// Where events are sent.
    pub url: Option<String>,
    /// What people tell it by.
    pub description: Option<LineText>,
    /// Whether somebody wants it to be told of events.
    pub is_enabled: Option<bool>,
    /// A new secret.
    pub secret: Option<NewSecret>,
    /// Where its receiver says that it is gone: it is told of nothing until somebody enables it.
    /// Of an address that is not its own any more this says nothing.
    pub gone_url: Option<String>,
}

/// A secret that takes the place of the present one.
#[derive(Clone, Debug)]
pub struct NewSecret {
    /// The secret.
    pub sealed: Vec<u8>,
    /// Until when deliveries are signed with the one before, too.
    pub overlap_until: Timestamp,
}
