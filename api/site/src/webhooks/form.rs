//! What is typed of an endpoint: shown again as it was, and the body of the API that it means.

use cardswitch_engine::directory::webhook_endpoint::WebhookEndpoint;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::seen::Seen;

/// What was sent.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct EndpointForm {
    /// Where webhooks go.
    pub(super) delivery_url: String,
    /// What people tell it by.
    pub(super) description: String,
    /// The app it is for; blank for the company's own. Of a new one only.
    pub(super) app: String,
    /// What the form showed.
    pub(super) seen: String,
}

impl EndpointForm {
    /// With what is known of an endpoint.
    pub(super) fn of(endpoint: &WebhookEndpoint) -> Self {
        Self {
            delivery_url: endpoint.url.clone(),
            description: endpoint.description.clone(),
            ..Self::default()
        }
    }

    /// What an endpoint's form shows, for whoever edits it at the same time.
    pub(super) fn seen_of(endpoint: &WebhookEndpoint) -> Seen {
        Seen::default()
            .field("the address", &endpoint.url)
            .field("the description", &endpoint.description)
    }

    /// The body that the API would take.
    pub(super) fn body(&self) -> Map<String, Value> {
        let mut body = Map::new();
        body.insert("delivery_url".to_owned(), json!(self.delivery_url.trim()));
        body.insert("description".to_owned(), json!(self.description.trim()));
        if !self.app.is_empty() {
            body.insert("app".to_owned(), json!({"id": self.app}));
        }
        body
    }
}
