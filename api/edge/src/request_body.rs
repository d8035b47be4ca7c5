//! Reading the body of a request within bounds of size and time, for all paths that take one.
//!
//! A body that is too long is left unread: its connection sees to it that the client gets the answer.
//! A JSON text that could be read in two ways is refused here, before anybody reads it.

use std::time::Duration;

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Request};
use bytes::{Bytes, BytesMut};
use cardswitch_wire::fault::Flaw;
use cardswitch_wire::json_keys::{KeyFlaw, check_keys};
use http_body_util::BodyExt;
use tokio::sync::Semaphore;

use crate::error::ApiError;

/// How long a body may take to come.
const READ_TIMEOUT: Duration = Duration::from_secs(20);
/// How many files may come at once; further ones wait, as long as a file may take.
const UPLOADS_MAX: usize = 64;
/// How long a file may take to come.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(60);

/// Reads the body of a request of type `application/json`.
/// Errors: another type, longer than `bytes_max`, too slow, broken off; a key that comes twice.
pub async fn read_json_body<B: ReadableBody>(
    request: Request<B>,
    bytes_max: usize,
) -> Result<Bytes, ApiError> {
    let (parts, body) = request.into_parts();
    read_json(&parts.headers, body, bytes_max).await
}

/// Reads the body that came with `headers`.
/// Errors: as `read_json_body`.
pub async fn read_json(
    headers: &HeaderMap,
    body: impl ReadableBody,
    bytes_max: usize,
) -> Result<Bytes, ApiError> {
    if !media_type(headers).eq_ignore_ascii_case("application/json") {
        return Err(ApiError::unsupported_media_type());
    }
    read_json_text(body, bytes_max).await
}

/// Reads a body that is JSON by another type than usual.
/// Errors: longer than `bytes_max`, too slow, broken off; a key that comes twice.
pub async fn read_json_text(body: impl ReadableBody, bytes_max: usize) -> Result<Bytes, ApiError> {
    let text = read_body(body, bytes_max).await?;
    match check_keys(&text) {
        Ok(()) => Ok(text),
        Err(KeyFlaw::TooDeep) => Err(ApiError::malformed_body()),
        Err(KeyFlaw::Repeated(path)) => {
            Err(ApiError::invalid_field(&path, Flaw::new("repeated", "must come once")))
        }
    }
}

/// Reads a body, whatever its type.
/// Errors: longer than `bytes_max`, too slow, broken off.
pub async fn read_body(body: impl ReadableBody, bytes_max: usize) -> Result<Bytes, ApiError> {
    collect_within(READ_TIMEOUT, body, bytes_max).await
}

/// Reads a file.
/// Errors: longer than `bytes_max`, too slow, broken off, too many others.
pub async fn read_upload(body: impl ReadableBody, bytes_max: usize) -> Result<Bytes, ApiError> {
    static PLACES: Semaphore = Semaphore::const_new(UPLOADS_MAX);
    let place = tokio::time::timeout(UPLOAD_TIMEOUT, PLACES.acquire()).await;
    let Ok(Ok(_place)) = place else { return Err(ApiError::busy()) };
    collect_within(UPLOAD_TIMEOUT, body, bytes_max).await
}

/// A body in pieces, wherever they come from.
pub trait ReadableBody: hyper::body::Body<Data = Bytes> + Unpin {}

impl<B: hyper::body::Body<Data = Bytes> + Unpin> ReadableBody for B {}

async fn collect_within(
    timeout: Duration,
    body: impl ReadableBody,
    bytes_max: usize,
) -> Result<Bytes, ApiError> {
    tokio::time::timeout(timeout, collect(body, bytes_max))
        .await
        .unwrap_or_else(|_| Err(ApiError::body_too_slow()))
}

async fn collect(mut body: impl ReadableBody, bytes_max: usize) -> Result<Bytes, ApiError> {
    // A body announced as too large is refused before its client sends any of it.
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(ApiError::body_too_large(bytes_max));
    }
    let (mut kept, mut bytes) = (ReceivedBody::Nothing, 0);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| ApiError::incomplete_body())?;
        let Ok(chunk) = frame.into_data() else { continue };
        bytes += chunk.len();
        if bytes > bytes_max {
            return Err(ApiError::body_too_large(bytes_max));
        }
        kept = kept.with(chunk);
    }
    Ok(kept.freeze())
}

/// The part of a body that has come. Most bodies come in one piece, which is not copied.
enum ReceivedBody {
    Nothing,
    One(Bytes),
    Many(BytesMut),
}

impl ReceivedBody {
    fn with(self, chunk: Bytes) -> Self {
        let mut many = match self {
            Self::Nothing => return Self::One(chunk),
            Self::One(first) => BytesMut::from(&first[..]),
            Self::Many(many) => many,
        };
        many.extend_from_slice(&chunk);
        Self::Many(many)
    }

    fn freeze(self) -> Bytes {
        match self {
            Self::Nothing => Bytes::new(),
            Self::One(only) => only,
            Self::Many(many) => many.freeze(),
        }
    }
}

/// The type of a body, without its parameters; blank where the head names none.
pub fn media_type(headers: &HeaderMap) -> &str {
    let sent = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    sent.split(';').next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
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
    async fn bodies_in_pieces_are_put_together() {
        for pieces in [&[][..], &["{}"], &["{", "}"], &["{\"a\"", ":", " 1}"]] {
            let frames = pieces.iter().map(|piece| Bytes::from_static(piece.as_bytes()));
            let body = Pieces(frames.collect());
            assert_eq!(collect(body, 100).await.unwrap(), pieces.concat());
        }
        let too_many = std::iter::repeat_n(Bytes::from_static(b"{}"), 51).collect();
        let refused = collect(Pieces(too_many), 100).await;
        assert_eq!(refused, Err(ApiError::body_too_large(100)));
    }

    #[tokio::test]
    async fn a_body_whose_sender_falls_silent_is_given_up() {
        let given_up = Err(StatusCode::REQUEST_TIMEOUT);
        assert_eq!(length_of(Body::new(SilentBody), 100).await, given_up);
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
            assert_eq!(
                media_type(&headers).eq_ignore_ascii_case("application/json"),
                expected,
                "{value:?}"
            );
        }
    }

    /// A body that comes piece by piece.
    struct Pieces(std::collections::VecDeque<Bytes>);

    impl hyper::body::Body for Pieces {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, Self::Error>>> {
            let piece = self.0.pop_front();
            std::task::Poll::Ready(piece.map(|piece| Ok(hyper::body::Frame::data(piece))))
        }
    }

    /// A body that never comes.
    struct SilentBody;

    impl hyper::body::Body for SilentBody {
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
