//! The task of a connection of the ISO 8583 door: it drives the steps of `cardswitch_acquiring` over a
//! socket, or TLS over one, by the time of the machine.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use cardswitch_acquiring::connection::{Connection, PeerStream, Turn};
use cardswitch_acquiring::door_parts::DoorParts;
use cardswitch_acquiring::peer_board::PeerLine;
use cardswitch_edge::door_stream::DoorStream;
use cardswitch_edge::lingering::linger;
use tokio::io::AsyncReadExt;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep_until};

/// A peer's connection, and the stream under it.
pub(super) struct ConnectionTask<S> {
    stream: SocketStream<S>,
    peer: SocketAddr,
    steps: Connection,
    /// The instant that the times of the steps count from.
    begun: Instant,
}

impl<S: DoorStream> ConnectionTask<S> {
    pub(super) fn new(stream: S, peer: SocketAddr, line: PeerLine, shared: Arc<DoorParts>) -> Self {
        let begun = Instant::now();
        let steps = Connection::new(peer, line, shared, begun.elapsed());
        Self { stream: SocketStream(stream), peer, steps, begun }
    }

    /// Serves the peer until it goes, is silent for too long, or `stop` becomes true.
    pub(super) async fn serve(mut self, mut stop: watch::Receiver<bool>) {
        if let Err(error) = self.run(&mut stop).await {
            tracing::debug!(peer = %self.peer, %error, "connection ended");
        }
        let SocketStream(stream) = self.stream;
        if self.steps.is_lost {
            // Earlier answers are still read, although the peer is sending.
            tokio::select! {
                () = async { linger(stream.into_socket().await).await } => {}
                () = stopped(&mut stop) => {}
            }
        } else if S::KEEPS_WRITTEN {
            drop(stream.into_socket().await);
        }
        self.steps.note_end();
    }

    async fn run(&mut self, stop: &mut watch::Receiver<bool>) -> io::Result<()> {
        tokio::select! {
            ended = self.converse() => return ended,
            () = stopped(stop) => {}
        }
        self.steps.drain(self.begun.elapsed());
        self.converse().await
    }

    /// Steps until the conversation is over. Cancel safe: it may be dropped and begun again.
    async fn converse(&mut self) -> io::Result<()> {
        let mut timer = pin!(sleep_until(self.begun + self.steps.overdue_at));
        poll_fn(|context| self.poll_steps(context, timer.as_mut())).await
    }

    fn poll_steps(
        &mut self,
        context: &mut Context<'_>,
        mut timer: Pin<&mut Sleep>,
    ) -> Poll<io::Result<()>> {
        loop {
            match self.steps.step(&mut self.stream, self.begun.elapsed(), context)? {
                Turn::Again => {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Turn::Over => return Poll::Ready(Ok(())),
                Turn::Rest(until) => {
                    let until = self.begun + until;
                    // A time that is put off leaves the timer as it is: it is looked at when it is over.
                    if until < timer.deadline() || timer.is_elapsed() {
                        timer.as_mut().reset(until);
                    }
                    if timer.as_mut().poll(context).is_pending() {
                        return Poll::Pending;
                    }
                }
            }
        }
    }
}

/// The stream of a door, as the steps see it.
struct SocketStream<S>(S);

impl<S: DoorStream> PeerStream for SocketStream<S> {
    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        space: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        // A read that fills less than its space is known to have emptied the socket, which saves
        // asking again.
        pin!(self.0.read_buf(space)).poll(context)
    }

    fn poll_write(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !S::KEEPS_WRITTEN {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.0).poll_flush(context)
    }
}

/// Waits until the door is told to stop, or the sender of that word is gone.
pub(super) async fn stopped(stop: &mut watch::Receiver<bool>) {
    // A sender that is gone means the same as a stop.
    let _ = stop.wait_for(|is_stopping| *is_stopping).await;
}
