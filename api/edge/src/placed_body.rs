//! The body of an answer that keeps the place of its request until its client has taken it: an
//! answer that nobody takes is memory, too.
//!
//! Streams of events last by design. They have bounds of their own, and keep no place here.
//!
//! INVARIANT: the connection gets a long answer in short pieces, each with memory of its own. So
//! little of it is left once the place is free.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};

/// The longest piece, and the longest answer that keeps no place: as much as a connection keeps
/// of a request. Units: bytes.
const PIECE_BYTES_MAX: usize = 16 * 1024;

/// See the head of this file.
#[derive(Debug)]
pub struct PlacedBody<P> {
    body: Body,
    /// The part of a long piece that is still to be sent.
    rest: Bytes,
    /// None behind the end.
    place: Option<P>,
}

impl<P: Send + Unpin + 'static> PlacedBody<P> {
    /// The response, which keeps `place` until its body has been taken. A short one is with its
    /// connection at once.
    pub fn of(response: Response, place: P) -> Response {
        let size = response.body().size_hint();
        let is_short = size.upper().is_some_and(|bytes| bytes <= PIECE_BYTES_MAX as u64);
        if is_short || is_event_stream(&response) {
            return response;
        }
        response.map(|body| Body::new(Self { body, rest: Bytes::new(), place: Some(place) }))
    }
}

fn is_event_stream(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

impl<P: Unpin> HttpBody for PlacedBody<P> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let body = self.get_mut();
        if body.rest.is_empty() {
            let Poll::Ready(frame) = Pin::new(&mut body.body).poll_frame(context) else {
                return Poll::Pending;
            };
            let Some(Ok(frame)) = frame else {
                body.place = None;
                return Poll::Ready(frame);
            };
            let is_long = frame.data_ref().is_some_and(|piece| piece.len() > PIECE_BYTES_MAX);
            match frame.into_data() {
                Ok(piece) if is_long => body.rest = piece,
                Ok(piece) => return Poll::Ready(Some(Ok(Frame::data(piece)))),
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
        let bytes = body.rest.len().min(PIECE_BYTES_MAX);
        let piece = Bytes::copy_from_slice(&body.rest.split_to(bytes));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (inner, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower() + rest);
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::response::IntoResponse;
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn a_long_answer_keeps_its_place_until_its_last_piece() {
        let whole: Vec<u8> = (0..100_000_u32).map(|number| number.to_le_bytes()[0]).collect();
        let place = Arc::new(());
        let answer = PlacedBody::of(whole.clone().into_response(), Arc::clone(&place));
        let (_, mut body) = answer.into_parts();
        let mut taken = Vec::new();
        while !body.is_end_stream() {
            assert_eq!(Arc::strong_count(&place), 2);
            assert_eq!(body.size_hint().exact(), Some((whole.len() - taken.len()) as u64));
            let piece = body.frame().await.unwrap().unwrap().into_data().unwrap();
            assert!(piece.len() <= PIECE_BYTES_MAX);
            taken.extend_from_slice(&piece);
        }
        assert!(taken == whole);
        assert!(body.frame().await.is_none());
        assert_eq!(Arc::strong_count(&place), 1, "it is free behind the end");
    }

    #[test]
    fn short_answers_and_streams_of_events_keep_no_place() {
        let long = vec![b'x'; PIECE_BYTES_MAX + 1];
        let events = [(CONTENT_TYPE, "text/event-stream; charset=utf-8")];
        let rows = [
            ("short", "x".into_response(), 1),
            ("as long as a piece", long[1..].to_vec().into_response(), 1),
            ("long", long.clone().into_response(), 2),
            ("events", (events, long).into_response(), 1),
        ];
        for (story, answer, count) in rows {
            let place = Arc::new(());
            let answer = PlacedBody::of(answer, Arc::clone(&place));
            assert_eq!(Arc::strong_count(&place), count, "{story}");
            drop(answer);
            assert_eq!(Arc::strong_count(&place), 1, "{story}");
        }
    }
}
