//! The form of an endpoint as typed: shown again as it was, and the body of the API that it means. Fields
//! have the names of `/v1`; `app` is the id of the app it is for, blank for the company's own.

use cardswitch_engine::directory::webhook_endpoint::WebhookEndpoint;
use serde_json::{Map, Value, json};

use crate::form_snapshot::FormSnapshot;
use crate::forms::TypedFields;

/// The fields of an endpoint's form, as the endpoint is.
pub(super) fn shown_of(endpoint: &WebhookEndpoint) -> TypedFields {
    let shown = [("delivery_url", &endpoint.url), ("description", &endpoint.description)];
    shown.into_iter().map(|(name, text)| (name, text.clone())).collect()
}

/// The values that an endpoint's form shows, compared where two people edit it at once.
pub(super) fn seen_of(endpoint: &WebhookEndpoint) -> FormSnapshot {
    FormSnapshot::default()
        .field("the address", &endpoint.url)
        .field("the description", &endpoint.description)
}

/// The body that the API would take.
pub(super) fn body_of(typed: &TypedFields) -> Map<String, Value> {
    let texts = ["delivery_url", "description"];
    let mut body: Map<_, _> =
        texts.into_iter().map(|name| (name.to_owned(), typed.of(name).trim().into())).collect();
    if let Some(app) = typed.get("app").filter(|app| !app.is_empty()) {
        body.insert("app".to_owned(), json!({ "id": app }));
    }
    body
}
