//! The delivery attempts of a webhook endpoint, and attempts by hand. An extension.

use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::{Answer, ListQuery, PathId, PathIds};
use cardswitch_edge::json::Json;
use cardswitch_engine::domain::ids::WebhookEndpointId;
use cardswitch_identity::auth::Call;
use cardswitch_identity::webhook_endpoints::get_endpoint;
use cardswitch_notify::webhooks::attempt::{Attempt, AttemptResult};
use cardswitch_secrets::webhook_signature::message_text;
use cardswitch_wire::page::{Listing, PageParameters, envelope, is_within, page_of, parse_page};
use cardswitch_wire::time::render_time;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::words;

/// A try to tell an endpoint something.
#[derive(Debug, Serialize, ToSchema)]
pub struct WebhookAttemptBody {
    id: Uuid,
    /// The message's `webhook-id`, the same on every try.
    #[schema(example = "msg_0198f2a01b2c7d3e8f405a6b7c8d9e0f")]
    message_id: String,
    #[schema(value_type = words::WebhookAttemptKind)]
    kind: &'static str,
    /// The how manieth try of the message it was.
    attempt: u8,
    /// Number of events of the message; 0 for an example.
    events: usize,
    is_delivered: bool,
    /// The status of the receiver's answer; null where there was none.
    status: Option<u16>,
    /// Why there was no answer; null where there was one.
    #[schema(value_type = Option<words::WebhookFailure>)]
    failure: Option<&'static str>,
    duration_ms: u32,
    /// When the message is tried again; null where it is not.
    next_try_at: Option<String>,
    /// Whether the message was given up with it.
    is_given_up: bool,
    created_at: String,
}

impl WebhookAttemptBody {
    fn new(attempt: &Attempt) -> Self {
        let (status, failure) = match &attempt.result {
            AttemptResult::Answered(status) => (Some(*status), None),
            AttemptResult::Unanswered(failure) => (None, Some(failure.word())),
        };
        Self {
            id: attempt.id,
            message_id: message_text(attempt.message),
            kind: attempt.kind.word(),
            attempt: attempt.tries,
            events: attempt.events.len(),
            is_delivered: attempt.is_delivered(),
            status,
            failure,
            duration_ms: attempt.duration_ms,
            next_try_at: attempt.again_at.map(render_time),
            is_given_up: attempt.is_last,
            created_at: render_time(attempt.at),
        }
    }
}

/// List delivery attempts, the newest first: the last 100 of each endpoint.
#[utoipa::path(
    get, path = "/v1/webhook-endpoints/{webhook_endpoint_id}/attempts", params(PageParameters),
    responses((status = 200, body = Listing<WebhookAttemptBody>)),
)]
pub async fn list_webhook_attempts(
    Call(state, caller): Call,
    PathId(id): PathId,
    ListQuery { mut query, address }: ListQuery,
) -> Answer<Json<Listing<WebhookAttemptBody>>> {
    let page = parse_page(&mut query, &["created_at"]);
    query.finish()?;
    let id = WebhookEndpointId(id);
    get_endpoint(&state, &caller.company, id).await?;
    let mut attempts = state.webhooks.attempts(id).await?;
    attempts.retain(|attempt| is_within(&page, attempt.at));
    attempts.reverse();
    let bodies = attempts.iter().map(WebhookAttemptBody::new).collect();
    Ok(Json(envelope(page_of(bodies, &page), &page, &address, state.urls())))
}

/// Send a sample event. The answer tells the outcome.
#[utoipa::path(
    post, path = "/v1/webhook-endpoints/{webhook_endpoint_id}/test",
    responses((status = 200, body = WebhookAttemptBody)),
)]
pub async fn send_webhook_example(
    Call(state, caller): Call,
    PathId(id): PathId,
) -> Answer<Json<WebhookAttemptBody>> {
    let id = WebhookEndpointId(id);
    get_endpoint(&state, &caller.company, id).await?;
    let sent = state.webhooks.send_example(id).await?;
    sent.map(|attempt| Json(WebhookAttemptBody::new(&attempt))).ok_or_else(ApiError::not_found)
}

/// Send the message of an attempt once more, beside what is sent anyway. The answer tells what came
/// of it.
#[utoipa::path(
    post, path = "/v1/webhook-endpoints/{webhook_endpoint_id}/attempts/{attempt_id}/resend",
    responses((status = 200, body = WebhookAttemptBody)),
)]
pub async fn resend_webhook(
    Call(state, caller): Call,
    PathIds(endpoint, attempt): PathIds,
) -> Answer<Json<WebhookAttemptBody>> {
    let id = WebhookEndpointId(endpoint);
    get_endpoint(&state, &caller.company, id).await?;
    let sent = state.webhooks.resend(id, attempt).await?;
    sent.map(|attempt| Json(WebhookAttemptBody::new(&attempt))).ok_or_else(ApiError::not_found)
}
