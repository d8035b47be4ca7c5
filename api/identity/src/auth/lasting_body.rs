//! The body of a request as it comes, for as long as its sender has access: rights are checked by
//! the head, and a client may keep the rest back until they have ended.
//!
//! Access is checked with the first piece, since a handler may have waited before it read, and
//! behind each wait.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};

use cardswitch_edge::lasting_access::LastingAccess;

/// Access ended before the body did.
#[derive(Debug, thiserror::Error)]
#[error("access ended before the body did")]
pub(crate) struct AccessEndError;

/// See the head of this file.
pub struct LastingBody {
    body: Body,
    access: LastingAccess,
    has_waited: bool,
    has_ended: Arc<AtomicBool>,
}

impl LastingBody {
    /// A body that breaks off with `access`, and the flag that says whether it did.
    pub fn new(body: Body, access: LastingAccess) -> (Self, Arc<AtomicBool>) {
        let has_ended = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&has_ended);
        (Self { body, access, has_waited: true, has_ended }, told)
    }
}

impl HttpBody for LastingBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let body = self.get_mut();
        let Poll::Ready(frame) = Pin::new(&mut body.body).poll_frame(context) else {
            body.has_waited = true;
            return Poll::Pending;
        };
        if std::mem::take(&mut body.has_waited) && !body.access.is_open() {
            body.has_ended.store(true, Ordering::Release);
            return Poll::Ready(Some(Err(axum::Error::new(AccessEndError))));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
