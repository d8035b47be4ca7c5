//! A statement as the body of an answer: written as fast as the client takes it, never faster.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::HttpBody;
use bytes::Bytes;
use cardswitch_edge::lasting_access::LastingAccess;
use hyper::body::Frame;

use super::{StatementError, StatementWriter};

/// A writer that stops when its reader's access ends: a slow client reads for hours.
#[derive(Debug)]
pub struct GuardedWriter<W> {
    writer: W,
    access: LastingAccess,
}

impl<W> GuardedWriter<W> {
    /// A body of the bytes that `writer` writes; it breaks off when `access` ends.
    pub const fn new(writer: W, access: LastingAccess) -> Self {
        Self { writer, access }
    }
}

impl<W: StatementWriter> StatementWriter for GuardedWriter<W> {
    fn next_piece(&mut self) -> Result<Option<Bytes>, StatementError> {
        if self.access.is_open() {
            self.writer.next_piece()
        } else {
            Err(StatementError::AccessEnded)
        }
    }
}

/// Asks a writer for the next piece when the connection has room for it.
#[derive(Debug)]
pub struct StatementBody<W> {
    /// None behind the end.
    writer: Option<W>,
    /// Whether others had the thread since the last piece.
    has_rested: bool,
}

impl<W> StatementBody<W> {
    /// The body that `writer` writes.
    pub const fn new(writer: W) -> Self {
        Self { writer: Some(writer), has_rested: true }
    }
}

impl<W: StatementWriter + Unpin> HttpBody for StatementBody<W> {
    type Data = Bytes;
    type Error = StatementError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StatementError>>> {
        let body = self.get_mut();
        let Some(writer) = body.writer.as_mut() else { return Poll::Ready(None) };
        // A piece is always ready at once: without a rest a fast client would keep the thread.
        body.has_rested = !body.has_rested;
        if body.has_rested {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let piece = writer.next_piece();
        if let Err(error) = &piece {
            // The client sees a body that breaks off; only the log can say why.
            tracing::error!(%error, "a statement broke off");
        }
        if !matches!(piece, Ok(Some(_))) {
            body.writer = None;
        }
        Poll::Ready(piece.transpose().map(|piece| piece.map(Frame::data)))
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// Gives so many pieces, then an error if it is to break.
    struct Pieces {
        left: u8,
        breaks: bool,
    }

    impl StatementWriter for Pieces {
        fn next_piece(&mut self) -> Result<Option<Bytes>, StatementError> {
            if self.left == 0 && self.breaks {
                return Err(StatementError::Pdf { what: "broken".to_owned() });
            }
            let is_left = self.left > 0;
            self.left = self.left.saturating_sub(1);
            Ok(is_left.then(|| Bytes::from_static(b"piece")))
        }
    }

    /// The results of ten polls: `r`est, `p`iece, `e`rror or end (`.`).
    fn polled(left: u8, breaks: bool) -> String {
        let mut body = StatementBody::new(Pieces { left, breaks });
        let mut context = Context::from_waker(Waker::noop());
        let mut poll = || match Pin::new(&mut body).poll_frame(&mut context) {
            Poll::Pending => 'r',
            Poll::Ready(Some(Ok(_))) => 'p',
            Poll::Ready(Some(Err(_))) => 'e',
            Poll::Ready(None) => '.',
        };
        (0..10).map(|_| poll()).collect()
    }

    #[test]
    fn others_have_the_thread_between_pieces_and_nothing_comes_after_the_end() {
        assert_eq!(polled(3, false), "prprpr....");
        assert_eq!(polled(0, false), "..........");
        assert_eq!(polled(2, true), "prpre.....");
    }
}
