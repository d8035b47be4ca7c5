//! One connection of the ISO 8583 door: bytes in, commands to the engine, answers out.
//!
//! One task does all of it. Per wake-up every whole message that has come goes to the engine as
//! one batch, and every answer that has come goes out in one write. The peer is not read from
//! while it has too many requests with the engine or too many answers it has not taken, so a
//! connection's memory is bounded whatever its peer does.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use cardswitch_engine::command::reply::Reply;
use cardswitch_engine::submission::{Envelope, ReplyPort};
use cardswitch_iso8583::frame::{Tpdu, write_frame};
use cardswitch_iso8583::{Dialect, Message, decode};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep_until};

use super::counters::Counters;
use super::frame_buffer::{FrameBuffer, Next};
use super::in_flight::{ConnectionPort, InFlight, Pending};
use super::limits;
use super::mapping::{Mapped, Refusal, map_message};
use super::mapping_answer::AnswerElements;
use crate::secrets::Secrets;
use crate::switch::Submit;

/// What all connections of a listener share.
pub(super) struct Shared {
    pub(super) engine: Arc<dyn Submit>,
    pub(super) secrets: Arc<Secrets>,
    pub(super) dialect: Dialect,
    pub(super) idle_limit: Duration,
    pub(super) counters: Arc<Counters>,
}

/// Whether requests are still taken from the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Intake {
    Open,
    /// The peer has sent its last byte or is out of step, or the door is closing: what is in
    /// flight is answered.
    Closed,
}

/// One peer.
pub(super) struct Connection {
    stream: TcpStream,
    peer: SocketAddr,
    shared: Arc<Shared>,
    intake: Intake,
    inbox: FrameBuffer,
    outbox: Vec<u8>,
    in_flight: InFlight,
    port: Arc<ConnectionPort>,
    last_active: Instant,
    bad_messages: u64,
}

impl Connection {
    pub(super) fn new(stream: TcpStream, peer: SocketAddr, shared: Arc<Shared>) -> Self {
        Self {
            stream,
            peer,
            shared,
            intake: Intake::Open,
            inbox: FrameBuffer::default(),
            outbox: Vec::new(),
            in_flight: InFlight::default(),
            port: Arc::default(),
            last_active: Instant::now(),
            bad_messages: 0,
        }
    }

    /// Serves the peer until it goes, is silent for too long, or `stop` becomes true.
    pub(super) async fn serve(mut self, mut stop: watch::Receiver<bool>) {
        if let Err(error) = self.run(&mut stop).await {
            tracing::debug!(peer = %self.peer, %error, "connection ended");
        }
        if self.bad_messages > 0 {
            let bad_messages = self.bad_messages;
            tracing::warn!(peer = %self.peer, bad_messages, "connection had bad messages");
        }
    }

    async fn run(&mut self, stop: &mut watch::Receiver<bool>) -> io::Result<()> {
        let mut is_stopping = false;
        let mut deadline = Box::pin(sleep_until(self.last_active + self.shared.idle_limit));
        while !self.is_finished() {
            let may_read = self.may_read();
            let may_write = !self.outbox.is_empty();
            tokio::select! {
                () = self.port.arrived() => self.take_answers(),
                ready = self.stream.readable(), if may_read => {
                    ready?;
                    self.read()?;
                }
                ready = self.stream.writable(), if may_write => ready?,
                () = stopped(stop), if !is_stopping => {
                    is_stopping = true;
                    self.intake = Intake::Closed;
                    deadline.as_mut().reset(Instant::now() + limits::DRAIN_WAIT);
                }
                () = &mut deadline => if self.is_overdue(deadline.as_mut(), is_stopping) {
                    return Err(io::ErrorKind::TimedOut.into());
                },
            }
            self.take_requests();
            self.write()?;
            // What a full outbox kept in the inbox is taken as soon as there is room: the peer may
            // have sent its last byte, so nothing else would come back to it.
            while self.has_room() && self.take_requests() {
                self.write()?;
            }
        }
        Ok(())
    }

    fn is_finished(&self) -> bool {
        self.intake == Intake::Closed && self.in_flight.is_empty() && self.outbox.is_empty()
    }

    fn may_read(&self) -> bool {
        self.intake == Intake::Open && self.has_room()
    }

    fn has_room(&self) -> bool {
        self.in_flight.len() < limits::IN_FLIGHT_MAX && self.outbox.len() < limits::OUTBOX_BYTES_MAX
    }

    /// Whether the connection's time is up; if not, `deadline` is moved to when it may be.
    fn is_overdue(&self, deadline: std::pin::Pin<&mut Sleep>, is_stopping: bool) -> bool {
        if is_stopping {
            return true;
        }
        let idle_until = self.last_active + self.shared.idle_limit;
        let now = Instant::now();
        if !self.in_flight.is_empty() {
            // The engine is slow, not the peer.
            deadline.reset(now + self.shared.idle_limit);
            return false;
        }
        deadline.reset(idle_until);
        now >= idle_until
    }

    fn read(&mut self) -> io::Result<()> {
        match self.stream.try_read_buf(self.inbox.space()) {
            Ok(0) => self.intake = Intake::Closed,
            Ok(_) => self.last_active = Instant::now(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Hands every whole message that has come to the engine, as one batch, while there is room.
    /// Returns whether there was any.
    fn take_requests(&mut self) -> bool {
        let mut envelopes = Vec::new();
        let mut took_any = false;
        while self.has_room() {
            let next = self.inbox.take(&self.shared.dialect);
            took_any |= next != Next::Nothing;
            match next {
                Next::Message(tpdu, range) => {
                    let frame = self.inbox.bytes(range).to_vec();
                    envelopes.extend(self.take_message(Pending { frame, tpdu }));
                }
                Next::Skipped => self.note_bad_message(&"a frame cannot be a message"),
                Next::Nothing => break,
                Next::OutOfStep => {
                    // Nobody knows where the next message starts; the earlier ones are answered.
                    self.note_bad_message(&"a length prefix cannot be one");
                    self.inbox = FrameBuffer::default();
                    self.intake = Intake::Closed;
                }
            }
        }
        self.inbox.rest();
        self.submit(envelopes);
        took_any
    }

    fn submit(&mut self, envelopes: Vec<Envelope>) {
        if envelopes.is_empty() {
            return;
        }
        let tags: Vec<u64> = envelopes.iter().map(|envelope| envelope.tag).collect();
        self.shared.counters.add_messages(tags.len());
        if let Err(error) = self.shared.engine.submit(envelopes) {
            self.shared.counters.add_not_taken(tags.len());
            tracing::debug!(peer = %self.peer, %error, messages = tags.len(), "not taken");
            for tag in tags {
                self.answer_pending(tag, |_| AnswerElements::not_taken());
            }
        }
    }

    /// Answers a message at once, or makes the envelope that takes it to the engine.
    fn take_message(&mut self, request: Pending) -> Option<Envelope> {
        let shared = Arc::clone(&self.shared);
        let message = match decode(&request.frame, &shared.dialect) {
            Ok(message) => message,
            Err(error) => {
                self.note_bad_message(&error);
                let refused = AnswerElements::refused(Refusal::Undecodable(error.de));
                if let Some(readable) = &error.readable {
                    self.answer(readable, request.tpdu, &refused);
                }
                return None;
            }
        };
        match map_message(&message, &shared.secrets) {
            Mapped::Ask(command) => {
                let tag = self.in_flight.insert(request);
                let port = Arc::clone(&self.port) as Arc<dyn ReplyPort>;
                Some(Envelope { command: *command, tag, port })
            }
            Mapped::Answer(code) => {
                self.answer(&message, request.tpdu, &AnswerElements::plain(code));
                None
            }
            Mapped::Refuse(refusal) => {
                self.note_bad_message(&format_args!("{} {refusal:?}", message.mti()));
                self.answer(&message, request.tpdu, &AnswerElements::refused(refusal));
                None
            }
            Mapped::Ignore => {
                self.note_bad_message(&format_args!("{} is never answered", message.mti()));
                None
            }
        }
    }

    fn take_answers(&mut self) {
        for (tag, reply) in self.port.take() {
            if reply == Reply::OutcomeUnknown {
                self.shared.counters.add_outcome_unknown();
            }
            self.answer_pending(tag, |request| AnswerElements::of_reply(request, &reply));
        }
    }

    fn answer_pending(&mut self, tag: u64, elements: impl FnOnce(&Message<'_>) -> AnswerElements) {
        let Some(request) = self.in_flight.remove(tag) else { return };
        let dialect = self.shared.dialect;
        // It was decoded before it went to the engine.
        if let Ok(message) = decode(&request.frame, &dialect) {
            let elements = elements(&message);
            self.answer(&message, request.tpdu, &elements);
        }
    }

    fn answer(&mut self, request: &Message<'_>, tpdu: Option<Tpdu>, elements: &AnswerElements) {
        if request.mti().response().is_none() {
            return;
        }
        let dialect = &self.shared.dialect;
        let written = write_frame(&mut self.outbox, dialect, tpdu.map(Tpdu::swapped), |out| {
            elements.encode(request, out, dialect)
        });
        if let Err(error) = written {
            tracing::warn!(peer = %self.peer, %error, mti = %request.mti(), "cannot be answered");
        }
    }

    /// Writes what the peer takes now.
    fn write(&mut self) -> io::Result<()> {
        let mut written = 0;
        while written < self.outbox.len() {
            match self.stream.try_write(&self.outbox[written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => written += bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        if written == 0 {
            return Ok(());
        }
        self.last_active = Instant::now();
        self.outbox.drain(..written);
        if self.outbox.is_empty() {
            self.outbox = Vec::new();
        }
        Ok(())
    }

    /// Counts a bad message and logs it, ever more seldom: a peer must not fill the log.
    fn note_bad_message(&mut self, fault: &dyn std::fmt::Display) {
        self.bad_messages += 1;
        self.shared.counters.add_bad_message();
        if self.bad_messages.is_power_of_two() {
            tracing::warn!(peer = %self.peer, bad_messages = self.bad_messages, %fault, "bad message");
        }
    }
}

/// Waits until the door is told to stop, or nobody is left who could tell it.
pub(super) async fn stopped(stop: &mut watch::Receiver<bool>) {
    // Whoever could have said "stop" is gone, which says the same.
    let _ = stop.wait_for(|is_stopping| *is_stopping).await;
}
