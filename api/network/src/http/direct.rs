//! The most frequent requests of acquirers, answered without the router: one comparison of the path
//! instead of the layers that the rest of the API shares.
//!
//! INVARIANT: the router answers every request of this file in the same words. It has the same
//! routes, for paths that are spelled otherwise and for tests of both.

use axum::http::request::Parts;
use axum::http::{Method, Request};
use axum::response::{IntoResponse, Response};
use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::BODY_BYTES_MAX;
use cardswitch_edge::request_body::{ReadableBody, read_json};
use cardswitch_edge::request_id::under_fresh_id;

use super::access::check_access;
use super::carry_out;
use super::requests::DoorOperation;
use super::state::DoorState;

/// Whether the request is one of those.
pub fn is_direct<B>(request: &Request<B>) -> bool {
    operation_of(request.method(), request.uri().path()).is_some()
}

/// Answers such a request.
pub async fn answer_directly<B: ReadableBody>(state: &DoorState, request: Request<B>) -> Response {
    let (parts, body) = request.into_parts();
    let handler = async {
        match take(state, &parts, body).await {
            Ok(response) => response,
            Err(error) => error.into_response(),
        }
    };
    under_fresh_id(&parts.method, parts.uri.path(), handler).await
}

async fn take(
    state: &DoorState,
    parts: &Parts,
    body: impl ReadableBody,
) -> Result<Response, ApiError> {
    let operation =
        operation_of(&parts.method, parts.uri.path()).ok_or_else(ApiError::not_found)?;
    check_access(&parts.headers, state)?;
    let body = read_json(&parts.headers, body, BODY_BYTES_MAX).await?;
    carry_out(state, operation, &parts.headers, &body).await
}

fn operation_of(method: &Method, path: &str) -> Option<DoorOperation> {
    if method != Method::POST {
        return None;
    }
    DoorOperation::parse(path.strip_prefix("/network/v1/")?.strip_suffix('s')?)
}
