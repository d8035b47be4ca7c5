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
    /// That its receiver says that it is gone.
    pub gone: Option<GoneReceiver>,
}

/// A receiver that says that it is gone: its endpoint is told of nothing until somebody enables it.
/// The report counts only while the endpoint is what was tried, so a late one undoes nobody's change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoneReceiver {
    /// The address that was tried.
    pub url: String,
    /// Since when the endpoint was on by then.
    pub enabled_at: Timestamp,
}

/// A secret that takes the place of the present one.
#[derive(Clone, Debug)]
pub struct NewSecret {
    /// The secret.
    pub sealed: Vec<u8>,
    /// Until when deliveries are signed with the one before, too.
    pub overlap_until: Timestamp,
}
