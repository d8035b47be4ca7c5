//! A socket whose peer must take what is written to it.
//!
//! Nothing bounds how slowly a client reads: one that takes a byte a minute of a long answer would
//! keep the answer in memory, and its place, for as long as it likes. Here a write that does not
//! move at all for some time ends the connection.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Ends where a write stands still.
pub(crate) struct PatientStream<S> {
    pub(crate) stream: S,
    patience: Duration,
    /// Runs while a write waits.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S> PatientStream<S> {
    /// Waits for the peer no longer than `patience` at a time.
    pub(crate) const fn new(stream: S, patience: Duration) -> Self {
        Self { stream, patience, deadline: None }
    }

    fn watched<T>(
        &mut self,
        context: &mut Context<'_>,
        progress: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if progress.is_ready() {
            self.deadline = None;
            return progress;
        }
        let patience = self.patience;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(patience)));
        match deadline.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for PatientStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for PatientStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watched(context, progress)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.watched(context, progress)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let progress = Pin::new(&mut self.stream).poll_flush(context);
        self.watched(context, progress)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    const PATIENCE: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn a_peer_that_takes_nothing_ends_the_connection() {
        let (_peer, stream) = duplex(16);
        let mut stream = PatientStream::new(stream, PATIENCE);
        let error = stream.write_all(&[7; 64]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_peer_that_takes_a_little_now_and_then_is_waited_for() {
        let (mut peer, stream) = duplex(1);
        let mut stream = PatientStream::new(stream, Duration::from_secs(60));
        let writing = tokio::spawn(async move { stream.write_all(&[7; 50]).await });
        let mut taken = [0; 50];
        for byte in &mut taken {
            tokio::time::sleep(Duration::from_millis(1)).await;
            *byte = peer.read_u8().await.unwrap();
        }
        assert_eq!(taken, [7; 50]);
        writing.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn silence_of_the_peer_is_no_fault_while_nothing_is_written() {
        let (mut peer, stream) = duplex(16);
        let mut stream = PatientStream::new(stream, PATIENCE);
        let reading = tokio::spawn(async move { stream.read_u8().await });
        tokio::time::sleep(3 * PATIENCE).await;
        peer.write_u8(9).await.unwrap();
        assert_eq!(reading.await.unwrap().unwrap(), 9);
    }
}
