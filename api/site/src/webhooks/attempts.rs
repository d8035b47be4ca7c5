//! Messages sent by hand: POST /webhooks/{id}/example and /webhooks/{id}/attempts/{attempt}/resend.
//! The page that follows shows the outcome first: `endpoint.rs`, `attempt` of its query.

use axum::response::{IntoResponse, Redirect, Response};
use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::{PathId, PathIds};
use cardswitch_engine::domain::ids::WebhookEndpointId;
use cardswitch_notify::webhooks::attempt::Attempt;
use serde::de::IgnoredAny;

use super::get_endpoint;
use crate::forms::SiteForm;
use crate::rights::WebhookManager;

/// POST /webhooks/{id}/example.
pub(super) async fn send_example(
    WebhookManager(acting): WebhookManager,
    PathId(id): PathId,
    _: SiteForm<IgnoredAny>,
) -> Result<Response, ApiError> {
    let endpoint = get_endpoint(&acting, WebhookEndpointId(id)).await?;
    let attempt = acting.state.webhooks.send_example(endpoint.id).await?;
    Ok(sent(endpoint.id, &attempt.ok_or_else(ApiError::not_found)?))
}

/// POST /webhooks/{id}/attempts/{attempt}/resend.
pub(super) async fn resend(
    WebhookManager(acting): WebhookManager,
    PathIds(id, attempt): PathIds,
    _: SiteForm<IgnoredAny>,
) -> Result<Response, ApiError> {
    let endpoint = get_endpoint(&acting, WebhookEndpointId(id)).await?;
    let attempt = acting.state.webhooks.resend(endpoint.id, attempt).await?;
    Ok(sent(endpoint.id, &attempt.ok_or_else(ApiError::not_found)?))
}

fn sent(id: WebhookEndpointId, attempt: &Attempt) -> Response {
    Redirect::to(&format!("/webhooks/{}?attempt={}", id.0, attempt.id)).into_response()
}
