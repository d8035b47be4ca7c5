//! The header `request-id`: a fresh id on every answer, and on every log line of its request.
//!
//! A handler that panics is answered too: the connection and its other requests live on.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tracing::Instrument;
use uuid::Uuid;

use crate::error::ApiError;

static REQUEST_ID: HeaderName = HeaderName::from_static("request-id");

/// Answers a request under a fresh id.
pub async fn with_request_id(request: Request, next: Next) -> Response {
    let id = Uuid::now_v7();
    let method = request.method().clone();
    let span = tracing::info_span!("request", %id, %method, path = request.uri().path());
    let mut response = answer(next.run(request)).instrument(span).await;
    if let Ok(value) = HeaderValue::from_str(&id.to_string()) {
        response.headers_mut().insert(REQUEST_ID.clone(), value);
    }
    response
}

/// The handler's answer, or that of a failed switch where the handler panicked.
async fn answer(handler: impl Future<Output = Response>) -> Response {
    let mut handler = pin!(handler);
    poll_fn(|context| {
        // The handler is not polled again after a panic, so nobody sees what it left behind.
        match catch_unwind(AssertUnwindSafe(|| handler.as_mut().poll(context))) {
            Ok(progress) => progress,
            Err(_) => Poll::Ready(ApiError::internal(&"a handler panicked").into_response()),
        }
    })
    .await
}
