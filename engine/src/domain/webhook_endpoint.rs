//! A webhook endpoint: where a company, or an app, wants to be told of events.
//!
//! One without an app is told of its company's events; one of an app of those of every company whose
//! data the app may open. What was delivered is not known here.

use serde::{Deserialize, Serialize};

use super::ids::{AppSlot, CompanySlot, Timestamp};
pub use super::ids::{WebhookEndpointId, WebhookEndpointSlot};

/// Who or what put an end to deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DisabledBy {
    /// Somebody of the company.
    Person,
    /// Its receiver, which says that it is gone. Source: HTTP 410.
    Gone,
}

/// Whether an endpoint is told of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndpointState {
    /// It is.
    Enabled,
    /// It is not.
    Disabled(DisabledBy),
}

/// A webhook endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookEndpoint {
    /// Where it stands.
    pub slot: WebhookEndpointSlot,
    /// Its public id.
    pub id: WebhookEndpointId,
    /// Who registered it.
    pub company: CompanySlot,
    /// For which of its apps, where it is for one.
    pub app: Option<AppSlot>,
    /// Where events are sent.
    pub url: String,
    /// What people tell it by.
    pub description: String,
    /// The secret that deliveries are signed with, as the edge sealed it.
    pub sealed_secret: Vec<u8>,
    /// The one before, and until when deliveries are signed with it too.
    pub previous_secret: Option<(Vec<u8>, Timestamp)>,
    /// Whether it is told of events.
    pub state: EndpointState,
    /// When it was made.
    pub created_at: Timestamp,
    /// Since when it is on, or was when it was on last.
    pub enabled_at: Timestamp,
    /// Gone from lists; nothing is delivered to it any more.
    pub is_deleted: bool,
}

impl WebhookEndpoint {
    /// Whether events are delivered to it.
    #[must_use]
    pub const fn is_enabled(&self) -> bool {
        matches!(self.state, EndpointState::Enabled) && !self.is_deleted
    }
}
