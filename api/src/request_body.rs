//! Reading the body of a request within bounds of size and time, for all paths that take one.
//!
//! A body that is too long is read to its end, within reason, and thrown away: a client that is
//! still sending when the connection is closed sees a broken pipe and never the answer.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, EXPECT};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;

use crate::error::ApiError;

/// How long a body may take to come.
const READ_TIMEOUT: Duration = Duration::from_secs(20);
/// How much of a body that is too long is read for its sender's sake. Units: bytes.
const DISCARDED_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Reads the body of a request of type `application/json`.
/// Errors: another type, longer than `bytes_max`, too slow, broken off.
pub async fn read_json_body(request: Request, bytes_max: usize) -> Result<Bytes, ApiError> {
    let (parts, body) = request.into_parts();
    if !is_json(&parts.headers) {
        return Err(ApiError::unsupported_media_type());
    }
    // Who asked first has sent nothing yet.
    let is_waiting = parts.headers.contains_key(EXPECT);
    if is_waiting && announced_bytes(&parts.headers).is_some_and(|bytes| bytes > bytes_max) {
        return Err(ApiError::body_too_large(bytes_max));
    }
    collect_within(READ_TIMEOUT, body, bytes_max).await
}

async fn collect_within(
    timeout: Duration,
    body: Body,
    bytes_max: usize,
) -> Result<Bytes, ApiError> {
    tokio::time::timeout(timeout, collect(body, bytes_max))
        .await
        .unwrap_or_else(|_| Err(ApiError::body_too_slow()))
}

async fn collect(mut body: Body, bytes_max: usize) -> Result<Bytes, ApiError> {
    let (mut kept, mut bytes) = (BytesMut::new(), 0);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| ApiError::incomplete_body())?;
        let Ok(chunk) = frame.into_data() else { continue };
        bytes += chunk.len();
        if bytes <= bytes_max {
            kept.extend_from_slice(&chunk);
        } else if bytes > DISCARDED_BYTES_MAX {
            break;
        }
    }
    if bytes > bytes_max {
        return Err(ApiError::body_too_large(bytes_max));
    }
    Ok(kept.freeze())
}

fn is_json(headers: &HeaderMap) -> bool {
    let sent = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = sent.split(';').next().unwrap_or_default().trim();
    media_type.eq_ignore_ascii_case("application/json")
}

fn announced_bytes(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use axum::response::IntoResponse;

    use super::*;

    async fn length_of(body: Body, bytes_max: usize) -> Result<usize, StatusCode> {
        let read = collect_within(Duration::from_millis(50), body, bytes_max).await;
        read.map(|bytes| bytes.len()).map_err(|error| error.into_response().status())
    }

    #[tokio::test]
    async fn bodies_are_bounded_in_size() {
        assert_eq!(length_of(Body::from(vec![b' '; 100]), 100).await, Ok(100));
        let refused = Err(StatusCode::PAYLOAD_TOO_LARGE);
        assert_eq!(length_of(Body::from(vec![b' '; 101]), 100).await, refused);
        assert_eq!(length_of(Body::empty(), 100).await, Ok(0));
    }

    #[tokio::test]
    async fn a_body_whose_sender_falls_silent_is_given_up() {
        let given_up = Err(StatusCode::REQUEST_TIMEOUT);
        assert_eq!(length_of(Body::new(Silent), 100).await, given_up);
    }

    #[test]
    fn bodies_are_json_whatever_its_parameters() {
        let rows = [
            (Some("application/json"), true),
            (Some("Application/JSON; charset=utf-8"), true),
            (Some("application/x-www-form-urlencoded"), false),
            (Some("text/plain"), false),
            (Some("application/jsonl"), false),
            (Some(""), false),
            (None, false),
        ];
        for (value, expected) in rows {
            let mut headers = HeaderMap::new();
            if let Some(value) = value {
                headers.insert(CONTENT_TYPE, value.parse().unwrap());
            }
            assert_eq!(is_json(&headers), expected, "{value:?}");
        }
    }

    /// A body that never comes.
    struct Silent;

    impl hyper::body::Body for Silent {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, Self::Error>>> {
            std::task::Poll::Pending
        }
    }
}
