//! The header `request-id`: a fresh id on every answer, and on every log line of its request.

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use tracing::Instrument;
use uuid::Uuid;

static REQUEST_ID: HeaderName = HeaderName::from_static("request-id");

/// Answers a request under a fresh id.
pub async fn with_request_id(request: Request, next: Next) -> Response {
    let id = Uuid::now_v7();
    let method = request.method().clone();
    let span = tracing::info_span!("request", %id, %method, path = request.uri().path());
    let mut response = next.run(request).instrument(span).await;
    if let Ok(value) = HeaderValue::from_str(&id.to_string()) {
        response.headers_mut().insert(REQUEST_ID.clone(), value);
    }
    response
}
