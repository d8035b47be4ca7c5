//! The header `request-id`: a fresh id on every answer, and on every log line of its request.
//!
//! A handler that panics is answered too: the connection and its other requests live on.

use std::cell::Cell;
use std::future::{Future, poll_fn, ready};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::task::Poll;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use cardswitch_engine::clock::Stopwatch;
use tracing::Instrument;
use uuid::{Builder, Uuid};

use crate::error::ApiError;

static REQUEST_ID: HeaderName = HeaderName::from_static("request-id");

/// Paths that end in a key, which opens something.
const KEYED_PATHS: [&str; 2] = ["/password/set/", "/s/"];

/// Answers a request under a fresh id.
pub async fn with_request_id(request: Request, next: Next) -> Response {
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let route = request.extensions().get::<MatchedPath>().cloned();
    let mut response = under_fresh_id(&method, logged_path(uri.path()), next.run(request)).await;
    // The counter of requests stands around the router, where the route is not known yet.
    if let Some(route) = route {
        response.extensions_mut().insert(route);
    }
    response
}

/// How many digits in a row may be a card number.
const PAN_DIGITS_MIN: usize = 13;

/// The part of a path that the log may have. It leaves out the keys of links, and digits that may
/// be a card number: one belongs in no path, but a client may put it there.
fn logged_path(path: &str) -> &str {
    if let Some(parent) = KEYED_PATHS.into_iter().find(|parent| path.starts_with(parent)) {
        return parent;
    }
    let mut digits = 0;
    for byte in path.bytes() {
        digits = if byte.is_ascii_digit() { digits + 1 } else { 0 };
        if digits == PAN_DIGITS_MIN {
            return "(digits)";
        }
    }
    path
}

/// The refusal of a request that no handler sees, under a fresh id as any answer.
pub async fn refusal(method: &Method, path: &str, error: impl IntoResponse) -> Response {
    under_fresh_id(method, logged_path(path), ready(error.into_response())).await
}

/// Carries out a part of a request also where its client hangs up, with the request's id in the log.
pub async fn to_the_end<T: Send + 'static>(part: impl Future<Output = T> + Send + 'static) -> T {
    match tokio::spawn(part.in_current_span()).await {
        Ok(done) => done,
        Err(broken) => resume_unwind(broken.into_panic()),
    }
}

/// Answers a request to `path` under a fresh id.
pub async fn under_fresh_id(
    method: &Method,
    path: &str,
    handler: impl Future<Output = Response>,
) -> Response {
    let id = fresh_id();
    let span = tracing::info_span!("request", %id, %method, path);
    let since = Stopwatch::start();
    let mut response = answer_of(handler).instrument(span.clone()).await;
    span.in_scope(|| {
        let (status, took) = (response.status().as_u16(), since.elapsed());
        tracing::debug!(status, ?took, "answered");
    });
    let mut text = Uuid::encode_buffer();
    if let Ok(value) = HeaderValue::from_str(id.hyphenated().encode_lower(&mut text)) {
        response.headers_mut().insert(REQUEST_ID.clone(), value);
    }
    response
}

/// An id that no other request has: its time, and a number that each thread draws once and counts
/// up. Ids are no secrets, so the system need not be asked for randomness each time.
fn fresh_id() -> Uuid {
    thread_local! {
        static LAST: Cell<u128> = Cell::new(Uuid::new_v4().as_u128());
    }
    let number = LAST.get().wrapping_add(1);
    LAST.set(number);
    let [_, _, _, _, _, _, tail @ ..] = number.to_be_bytes();
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let millis = u64::try_from(since_epoch.as_millis()).unwrap_or_default();
    Builder::from_unix_timestamp_millis(millis, &tail).into_uuid()
}

/// The handler's answer, or that of a failed switch where the handler panicked.
pub async fn answer_of(handler: impl Future<Output = Response>) -> Response {
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn keys_in_paths_are_not_logged() {
        let rows = [
            ("/password/set/0123abcd", "/password/set/"),
            ("/s/0123abcd", "/s/"),
            ("/password/forgot", "/password/forgot"),
            ("/v1/cards", "/v1/cards"),
            ("/v1/cards/4537110012345678", "(digits)"),
            (
                "/v1/cards/019ab100-0000-7000-8000-123456789012",
                "/v1/cards/019ab100-0000-7000-8000-123456789012",
            ),
        ];
        for (path, logged) in rows {
            assert_eq!(logged_path(path), logged);
        }
    }

    #[test]
    fn ids_are_each_their_own_whichever_thread_draws_them() {
        let drawn = || (0..1_000).map(|_| fresh_id()).collect::<Vec<_>>();
        let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(drawn)).collect();
        let ids: Vec<Uuid> =
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 4_000);
        assert!(ids.iter().all(|id| id.get_version_num() == 7));
    }
}
