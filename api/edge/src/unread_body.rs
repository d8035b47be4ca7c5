//! The body of a request, which may be answered before it is read.
//!
//! The connection keeps a hold on the body that it gives to a handler. Once the answer is there, the
//! connection reads what the handler left: a short rest makes way for the next request, of a long one
//! the connection ends. Handlers read, or do not, and need not know.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::http::HeaderMap;
use axum::http::header::EXPECT;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use parking_lot::Mutex;

/// How much of a body that nobody read is read for the next request's sake. Units: bytes.
const DISCARDED_BYTES_MAX: u64 = 64 * 1024;
/// How long the rest of a body may take to come, where nobody reads it.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(1);

/// A body on its way. Clones read the same body.
#[derive(Debug)]
pub struct RequestBody<B = Incoming>(Arc<Mutex<BodyState<B>>>);

#[derive(Debug)]
struct BodyState<B> {
    body: B,
    progress: BodyProgress,
}

/// How far a body is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyProgress {
    /// Its client waits for `100 Continue`, which the first read sends.
    Awaited,
    Open,
    Ended,
    Broken,
}

impl<B> Clone for RequestBody<B> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<B: Body<Data = Bytes> + Unpin> RequestBody<B> {
    /// The body that came with `headers`.
    pub fn new(body: B, headers: &HeaderMap) -> Self {
        let progress = match headers.contains_key(EXPECT) {
            true => BodyProgress::Awaited,
            false => BodyProgress::Open,
        };
        Self(Arc::new(Mutex::new(BodyState { body, progress })))
    }

    /// Reads what is left, within reason. True where nothing is left: another request may follow.
    pub async fn discard_rest(mut self) -> bool {
        if self.is_end_stream() {
            return true;
        }
        let progress = self.0.lock().progress;
        match progress {
            BodyProgress::Ended => true,
            BodyProgress::Open if self.size_hint().lower() <= DISCARDED_BYTES_MAX => {
                let rest = tokio::time::timeout(DISCARD_TIMEOUT, self.read_rest());
                rest.await.unwrap_or(false)
            }
            BodyProgress::Awaited | BodyProgress::Open | BodyProgress::Broken => false,
        }
    }

    async fn read_rest(&mut self) -> bool {
        let mut bytes = 0;
        while let Some(frame) = self.frame().await {
            let Ok(frame) = frame else { return false };
            bytes += frame.data_ref().map_or(0, |chunk| chunk.len() as u64);
            if bytes > DISCARDED_BYTES_MAX {
                return false;
            }
        }
        true
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for RequestBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let mut state = self.0.lock();
        if state.progress == BodyProgress::Awaited {
            state.progress = BodyProgress::Open;
        }
        let frame = ready!(Pin::new(&mut state.body).poll_frame(context));
        match &frame {
            Some(Ok(_)) => {}
            Some(Err(_)) => state.progress = BodyProgress::Broken,
            None if state.progress != BodyProgress::Broken => state.progress = BodyProgress::Ended,
            None => {}
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.0.lock().body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.lock().body.size_hint()
    }
}
