//! A connection of the ISO 8583 door: bytes in, commands to the engine, answers out.
//!
//! A single task does all of it. Per wake-up every whole message that has come goes to the engine
//! as one batch, and every answer that has come goes out in one write. The peer is not read from
//! while it has too many requests with the engine or too many answers it has not taken, so each
//! connection's memory is bounded; so is the memory that all connections keep for slow peers.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use cardswitch_edge::door_stream::DoorStream;
use cardswitch_edge::lingering::linger;
use tokio::io::AsyncReadExt;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use super::frame_buffer::{FrameBuffer, FrameItem};
use super::limits;
use super::peer_board::PeerLine;
use super::session::{DoorParts, Session};
use super::slow_bytes::SlowPart;

/// About how long a message is. Units: bytes.
const MESSAGE_BYTES_USUAL: usize = 128;

/// Whether requests are still taken from the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Intake {
    Open,
    /// The peer has sent its last byte or is out of step, or the door is closing: requests in
    /// flight are answered.
    Closed,
}

/// A peer's connection.
pub(super) struct Connection<S> {
    stream: S,
    peer: SocketAddr,
    intake: Intake,
    /// Whether a whole frame has come.
    has_spoken: bool,
    /// Whether the peer is out of step: nothing of it is understood any more.
    is_lost: bool,
    inbox: FrameBuffer,
    session: Session,
    kept: SlowPart,
    last_active: Instant,
}

impl<S: DoorStream> Connection<S> {
    pub(super) fn new(stream: S, peer: SocketAddr, line: PeerLine, shared: Arc<DoorParts>) -> Self {
        Self {
            stream,
            peer,
            intake: Intake::Open,
            has_spoken: false,
            is_lost: false,
            inbox: FrameBuffer::default(),
            kept: SlowPart::new(Arc::clone(&shared.slow_bytes), peer.ip()),
            session: Session::new(peer, line, shared),
            last_active: Instant::now(),
        }
    }

    /// Serves the peer until it goes, is silent for too long, or `stop` becomes true.
    pub(super) async fn serve(mut self, mut stop: watch::Receiver<bool>) {
        if let Err(error) = self.run(&mut stop).await {
            tracing::debug!(peer = %self.peer, %error, "connection ended");
        }
        if self.is_lost {
            // Earlier answers are still read, although the peer is sending.
            tokio::select! {
                () = async { linger(self.stream.into_socket().await).await } => {}
                () = stopped(&mut stop) => {}
            }
        } else if S::KEEPS_WRITTEN {
            drop(self.stream.into_socket().await);
        }
        if !self.has_spoken && self.inbox.unread_bytes() > 0 {
            self.session.note_lost("its first frame never came whole", self.inbox.unread());
        }
        let bad_messages = self.session.bad_messages();
        if bad_messages > 0 {
            tracing::warn!(peer = %self.peer, bad_messages, "connection had bad messages");
        }
    }

    async fn run(&mut self, stop: &mut watch::Receiver<bool>) -> io::Result<()> {
        tokio::select! {
            ended = self.converse() => return ended,
            () = stopped(stop) => {}
        }
        self.intake = Intake::Closed;
        timeout(limits::DRAIN_WAIT, self.converse())
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Reads and answers until the intake is closed and all is answered. Cancel safe: it may be
    /// dropped and begun again.
    async fn converse(&mut self) -> io::Result<()> {
        let mut deadline = pin!(sleep_until(self.last_active + self.session.shared().idle_limit));
        poll_fn(|context| self.poll_rounds(context, deadline.as_mut())).await
    }

    fn poll_rounds(
        &mut self,
        context: &mut Context<'_>,
        deadline: Pin<&mut Sleep>,
    ) -> Poll<io::Result<()>> {
        for _ in 0..limits::ROUNDS_MAX {
            let mut has_moved = self.session.take_answers(context);
            if self.session.is_cut() {
                return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
            }
            has_moved |= self.read(context)?;
            has_moved |= self.take_requests();
            has_moved |= self.write(context)?;
            if has_moved {
                continue;
            }
            self.session.rest();
            let is_flushed = self.flush(context)?;
            // Nothing moved, so nothing whole is left in the inbox: there was room for it.
            let is_finished = is_flushed
                && self.intake == Intake::Closed
                && self.session.is_all_answered()
                && self.session.outbox().is_empty();
            if is_finished {
                return Poll::Ready(Ok(()));
            }
            if !self.kept.keep(self.inbox.kept_bytes() + self.session.kept_bytes()) {
                self.session.note_cut("its answers are not taken, and too many wait");
                return Poll::Ready(Err(io::ErrorKind::StorageFull.into()));
            }
            return self.poll_overdue(context, deadline);
        }
        // Others have their turn.
        context.waker().wake_by_ref();
        Poll::Pending
    }

    fn may_read(&self) -> bool {
        self.intake == Intake::Open && self.session.has_room()
    }

    /// Fails once the peer was silent for too long.
    fn poll_overdue(
        &self,
        context: &mut Context<'_>,
        mut deadline: Pin<&mut Sleep>,
    ) -> Poll<io::Result<()>> {
        while deadline.as_mut().poll(context).is_ready() {
            let (now, idle_limit) = (Instant::now(), self.session.shared().idle_limit);
            let silent_since = match self.session.is_all_answered() {
                true => self.last_active,
                // The engine is slow, not the peer.
                false => now,
            };
            if now >= silent_since + idle_limit {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            deadline.as_mut().reset(silent_since + idle_limit);
        }
        Poll::Pending
    }

    /// Reads once. Returns whether the peer had anything to say; where not, the task is woken
    /// when it has.
    fn read(&mut self, context: &mut Context<'_>) -> io::Result<bool> {
        if !self.may_read() {
            return Ok(false);
        }
        // A read that fills less than its space is known to have emptied the socket, which saves
        // asking again.
        let read = pin!(self.stream.read_buf(self.inbox.space())).poll(context);
        let Poll::Ready(read) = read else {
            self.inbox.rest();
            return Ok(false);
        };
        match read? {
            0 => self.intake = Intake::Closed,
            _ => {
                if self.last_active.elapsed() >= limits::EMPTY_FRAMES_PAUSE {
                    self.inbox.note_pause();
                }
                self.last_active = Instant::now();
            }
        }
        Ok(true)
    }

    /// Hands every whole message that has come to the engine, as one batch, while there is room.
    /// Returns whether there was any.
    fn take_requests(&mut self) -> bool {
        let count_usual = self.inbox.unread_bytes() / MESSAGE_BYTES_USUAL + 1;
        let mut envelopes = Vec::new();
        let mut took_any = false;
        if !self.has_spoken && self.inbox.begins_empty(&self.session.shared().dialect.framing) {
            self.session.note_empty_start(self.inbox.unread());
        }
        while self.session.has_room() {
            let next = self.inbox.take(&self.session.shared().dialect.framing);
            took_any |= next != FrameItem::Nothing;
            match next {
                FrameItem::Message(tpdu, range) => {
                    self.has_spoken = true;
                    if envelopes.capacity() == 0 {
                        envelopes.reserve(count_usual);
                    }
                    self.session.take_message(self.inbox.bytes(range), tpdu, &mut envelopes);
                }
                FrameItem::Skipped => self.session.note_bad_message(&"a frame cannot be a message"),
                FrameItem::Nothing => break,
                FrameItem::Lost(loss) => {
                    // The earlier messages are answered.
                    self.session.note_lost(loss.reason(), self.inbox.unread());
                    self.inbox = FrameBuffer::default();
                    self.intake = Intake::Closed;
                    self.is_lost = true;
                }
            }
        }
        self.inbox.rest();
        self.session.submit(envelopes);
        took_any
    }

    /// Writes what the peer takes now. Returns whether it took any; what is left wakes the task
    /// when it takes more.
    fn write(&mut self, context: &mut Context<'_>) -> io::Result<bool> {
        let mut has_moved = false;
        if !self.session.outbox().is_empty() {
            // A peer that has an answer is on the board with it.
            self.session.tell_board();
        }
        while !self.session.outbox().is_empty() {
            let stream = Pin::new(&mut self.stream);
            let Poll::Ready(written) = stream.poll_write(context, self.session.outbox()) else {
                break;
            };
            match written? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                bytes => self.session.wrote(bytes),
            }
            has_moved = true;
            self.last_active = Instant::now();
        }
        Ok(has_moved)
    }

    /// Passes on what the stream keeps of what was written. Returns whether nothing is left there; what
    /// is left wakes the task when the peer takes more.
    fn flush(&mut self, context: &mut Context<'_>) -> io::Result<bool> {
        if !S::KEEPS_WRITTEN {
            return Ok(true);
        }
        match Pin::new(&mut self.stream).poll_flush(context) {
            Poll::Ready(flushed) => flushed.map(|()| true),
            Poll::Pending => Ok(false),
        }
    }
}

/// Waits until the door is told to stop, or the sender of that word is gone.
pub(super) async fn stopped(stop: &mut watch::Receiver<bool>) {
    // A sender that is gone means the same as a stop.
    let _ = stop.wait_for(|is_stopping| *is_stopping).await;
}
