//! A connection of the ISO 8583 door: bytes in, commands to the engine, answers out.
//!
//! At each step every whole message that has come goes to the engine as one batch, and every answer
//! that has come goes out in one write. The peer is not read from while it has too many requests
//! with the engine or too many answers it has not taken, so each connection's memory is bounded; so
//! is the memory that all connections keep for slow peers.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::door_parts::DoorParts;
use super::frame_buffer::{FrameBuffer, FrameItem};
use super::limits;
use super::peer_board::PeerLine;
use super::session::PeerSession;
use super::slow_bytes::SlowPart;

/// About how long a message is. Units: bytes.
const MESSAGE_BYTES_USUAL: usize = 128;

/// The stream to a peer: each call goes as far as it can at once. One that gets nowhere wakes the context when
/// another may.
pub trait PeerStream {
    /// Appends to `space` the bytes that the peer has sent, as many as there is room for. Returns their number;
    /// zero where the peer has sent its last.
    /// Errors: the stream's.
    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        space: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>>;

    /// Takes the first of `bytes`. Returns how many.
    /// Errors: the stream's.
    fn poll_write(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;

    /// Passes on the bytes that the stream keeps of those it took.
    /// Errors: the stream's.
    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>>;
}

/// The next move of a connection's driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// There may be more to do; others have their turn before.
    Again,
    /// There is nothing to do until stream or engine wake, or this time comes.
    Rest(Duration),
    /// The peer has sent its last, or the door stops, and all is answered.
    Over,
}

/// Whether requests are still taken from the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Intake {
    Open,
    /// The peer has sent its last byte or is out of step, or the door is closing: requests in
    /// flight are answered.
    Closed,
}

/// A peer's connection. Its times are those since any instant that its driver keeps to.
pub struct Connection {
    intake: Intake,
    /// Whether a whole frame has come.
    has_spoken: bool,
    /// Whether the peer is out of step: nothing of it is understood any more.
    pub is_lost: bool,
    inbox: FrameBuffer,
    session: PeerSession,
    kept: SlowPart,
    last_active: Duration,
    /// The time at which the silence of the peer is looked at next.
    pub overdue_at: Duration,
    /// The time at which a door that stops waits no longer.
    drained_by: Option<Duration>,
}

impl Connection {
    /// A connection that begins now.
    pub fn new(peer: SocketAddr, line: PeerLine, shared: Arc<DoorParts>, now: Duration) -> Self {
        Self {
            intake: Intake::Open,
            has_spoken: false,
            is_lost: false,
            inbox: FrameBuffer::default(),
            kept: SlowPart::new(Arc::clone(&shared.slow_bytes), peer.ip()),
            last_active: now,
            overdue_at: now + shared.idle_limit,
            drained_by: None,
            session: PeerSession::new(peer, line, shared),
        }
    }

    /// Reads and writes what the stream has and takes, and hands over what came whole.
    /// Errors: the stream's; the peer was silent for too long, or takes its answers too slowly; a fault cuts
    /// the connection.
    pub fn step(
        &mut self,
        stream: &mut impl PeerStream,
        now: Duration,
        context: &mut Context<'_>,
    ) -> io::Result<Turn> {
        for _ in 0..limits::ROUNDS_MAX {
            let mut has_moved = self.session.take_answers(now);
            if self.session.is_cut {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            has_moved |= self.read(stream, now, context)?;
            has_moved |= self.take_requests();
            has_moved |= self.write(stream, now, context)?;
            if has_moved {
                continue;
            }
            self.session.rest();
            let is_flushed = stream.poll_flush(context)?.is_ready();
            // Nothing moved, so nothing whole is left in the inbox: there was room for it.
            let is_finished = is_flushed
                && self.intake == Intake::Closed
                && self.session.is_all_answered()
                && self.session.outbox.is_empty();
            if is_finished {
                return Ok(Turn::Over);
            }
            if !self.kept.keep(self.kept_bytes()) {
                self.session.note_cut("its answers are not taken, and too many wait");
                return Err(io::ErrorKind::StorageFull.into());
            }
            if self.session.port.poll_any(context).is_pending() {
                return self.rest(now);
            }
        }
        if self.drained_by.is_some_and(|end| now >= end) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(Turn::Again)
    }

    /// Takes no more requests, since the door stops; it waits for answers, and for the peer to take them, for so
    /// long.
    pub fn drain(&mut self, now: Duration) {
        self.intake = Intake::Closed;
        self.drained_by = Some(now + limits::DRAIN_WAIT);
    }

    /// The bytes that are kept for this connection, used or not.
    pub fn kept_bytes(&self) -> usize {
        self.inbox.kept_bytes() + self.session.outbox.capacity()
    }

    /// Notes, once it is over, what operators need to know of its peer.
    pub fn note_end(&self) {
        if !self.has_spoken && self.inbox.unread_bytes() > 0 {
            self.session.note_lost("its first frame never came whole", self.inbox.unread());
        }
        self.session.note_bad_messages();
    }

    fn may_read(&self) -> bool {
        self.intake == Intake::Open && self.session.has_room()
    }

    /// The time until which nothing is to be done.
    /// Errors: the peer was silent for too long.
    fn rest(&mut self, now: Duration) -> io::Result<Turn> {
        if now >= self.overdue_at {
            let silent_since = match self.session.is_all_answered() {
                true => self.last_active,
                // The engine is slow, not the peer.
                false => now,
            };
            self.overdue_at = silent_since + self.session.shared.idle_limit;
        }
        let end = self.drained_by.map_or(self.overdue_at, |end| end.min(self.overdue_at));
        if now >= end {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(Turn::Rest(self.session.next_release().map_or(end, |release| release.min(end))))
    }

    /// Reads once. Returns whether the peer had anything to say; where not, the context is woken
    /// when it has.
    fn read(
        &mut self,
        stream: &mut impl PeerStream,
        now: Duration,
        context: &mut Context<'_>,
    ) -> io::Result<bool> {
        if !self.may_read() {
            return Ok(false);
        }
        let Poll::Ready(read) = stream.poll_read(context, self.inbox.space()) else {
            self.inbox.rest();
            return Ok(false);
        };
        match read? {
            0 => self.intake = Intake::Closed,
            _ => {
                if now.saturating_sub(self.last_active) >= limits::EMPTY_FRAMES_PAUSE {
                    self.inbox.note_pause();
                }
                self.last_active = now;
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
        if !self.has_spoken && self.inbox.begins_empty(&self.session.shared.dialect.framing) {
            self.session.note_empty_start(self.inbox.unread());
        }
        while self.session.has_room() {
            let next = self.inbox.take(&self.session.shared.dialect.framing);
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
                FrameItem::Lost(reason) => {
                    // The earlier messages are answered.
                    self.session.note_lost(reason, self.inbox.unread());
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

    /// Writes what the peer takes now. Returns whether it took any; what is left wakes the context
    /// when it takes more.
    fn write(
        &mut self,
        stream: &mut impl PeerStream,
        now: Duration,
        context: &mut Context<'_>,
    ) -> io::Result<bool> {
        let mut has_moved = false;
        if !self.session.outbox.is_empty() {
            // A peer that has an answer is on the board with it.
            self.session.line.hand_over();
        }
        while !self.session.outbox.is_empty() {
            let Poll::Ready(written) = stream.poll_write(context, &self.session.outbox) else {
                break;
            };
            match written? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                bytes => self.session.wrote(bytes),
            }
            has_moved = true;
            self.last_active = now;
        }
        Ok(has_moved)
    }
}
