//! What is said on one connection of the ISO 8583 door: messages become commands, answers become
//! frames. Nothing here reads or writes a socket.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use cardswitch_edge::switch::Submit;
use cardswitch_engine::clock::Stopwatch;
use cardswitch_engine::command::reply::{NetworkReply, Reply};
use cardswitch_engine::domain::ids::TransactionId;
use cardswitch_engine::submission::{Envelope, ReplyPort};
use cardswitch_iso8583::frame::{Tpdu, write_frame};
use cardswitch_iso8583::{Dialect, decode};
use cardswitch_secrets::Secrets;

use super::advice::Advice;
use super::buffers;
use super::counters::Counters;
use super::in_flight::{ConnectionPort, InFlight, Pending};
use super::limits;
use super::mapping::{Mapped, Refusal, map_message};
use super::mapping_answer::AnswerElements;
use super::slow_bytes::SlowBytes;
use super::told_texts::{note_spaced, salvage};
use super::zone::Zone;

/// What all connections of a listener share.
pub(super) struct Shared {
    pub(super) engine: Arc<dyn Submit>,
    pub(super) secrets: Arc<Secrets>,
    pub(super) dialect: Dialect,
    pub(super) zone: Option<Arc<Zone>>,
    pub(super) idle_limit: Duration,
    pub(super) slow_bytes: Arc<SlowBytes>,
    pub(super) counters: Arc<Counters>,
}

/// The conversation with one peer.
pub(super) struct Session {
    peer: SocketAddr,
    shared: Arc<Shared>,
    in_flight: InFlight,
    port: Arc<ConnectionPort>,
    arrived: Vec<(u64, Reply)>,
    outbox: Vec<u8>,
    bad_messages: u64,
    /// Since when messages are decoded that have not gone to the engine.
    decoding: Option<Stopwatch>,
    /// When the first of the answers in the outbox came from the engine, and how many these are.
    unwritten: Option<(Stopwatch, u64)>,
}

impl Session {
    pub(super) fn new(peer: SocketAddr, shared: Arc<Shared>) -> Self {
        Self {
            peer,
            shared,
            in_flight: InFlight::default(),
            port: Arc::default(),
            arrived: Vec::new(),
            outbox: Vec::new(),
            bad_messages: 0,
            decoding: None,
            unwritten: None,
        }
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(super) const fn bad_messages(&self) -> u64 {
        self.bad_messages
    }

    /// Whether every request has its answer.
    pub(super) const fn is_all_answered(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Whether another request may be taken.
    pub(super) const fn has_room(&self) -> bool {
        self.in_flight.len() < limits::IN_FLIGHT_MAX && self.outbox.len() < limits::OUTBOX_BYTES_MAX
    }

    /// The answers not yet written to the peer.
    pub(super) fn outbox(&self) -> &[u8] {
        &self.outbox
    }

    /// The bytes that it keeps for answers, used or not.
    pub(super) const fn kept_bytes(&self) -> usize {
        self.outbox.capacity()
    }

    /// Notes that so much of the outbox was written.
    pub(super) fn wrote(&mut self, bytes: usize) {
        buffers::drop_front(&mut self.outbox, bytes);
        if self.outbox.is_empty() {
            buffers::give_back(std::mem::take(&mut self.outbox));
            if let Some((since, count)) = self.unwritten.take() {
                self.shared.counters.reply.record_many(since.elapsed(), count);
            }
        }
    }

    /// Answers a message at once, or adds the envelope that takes it to the engine.
    pub(super) fn take_message(
        &mut self,
        frame: &[u8],
        tpdu: Option<Tpdu>,
        envelopes: &mut Vec<Envelope>,
    ) {
        self.take_read(frame, (frame, tpdu), envelopes);
    }

    /// As `take_message`, of a frame that may have been made readable; `wire` is it as it came.
    fn take_read(
        &mut self,
        frame: &[u8],
        (wire, tpdu): (&[u8], Option<Tpdu>),
        envelopes: &mut Vec<Envelope>,
    ) {
        let received = *self.decoding.get_or_insert_with(Stopwatch::start);
        let message = match decode(frame, &self.shared.dialect) {
            Ok(message) => message,
            Err(error) => {
                if let Some(plain) = salvage(frame, &self.shared.dialect, &error) {
                    note_spaced(&self.peer);
                    return self.take_read(&plain, (wire, tpdu), envelopes);
                }
                let advice = Advice::on_message(frame, &self.shared.dialect);
                self.note_bad_message(&format_args!("{error}{advice}"));
                let refused = AnswerElements::refused(Refusal::Undecodable(error.de));
                if let Some(readable) = &error.readable {
                    let owed = self.shared.zone.as_ref().map(|zone| zone.owed());
                    self.answer(&Pending::of(readable, tpdu, owed), &refused);
                }
                return;
            }
        };
        let (mapped, owed) = match &self.shared.zone {
            None => (map_message(&message, &self.shared.secrets), None),
            Some(zone) => {
                let (mapped, owed) = zone.map(&message, wire, &self.shared.secrets);
                (mapped, Some(owed))
            }
        };
        match mapped {
            Mapped::Ask(command) => {
                let tag = self.in_flight.insert(&message, tpdu, received, owed);
                let port = Arc::clone(&self.port) as Arc<dyn ReplyPort>;
                envelopes.push(Envelope { command, tag, port });
            }
            Mapped::Answer(code) => {
                self.answer(&Pending::of(&message, tpdu, owed), &AnswerElements::plain(code));
            }
            Mapped::Refuse(refusal) => {
                let advice = Advice::on_message(frame, &self.shared.dialect);
                self.note_bad_message(&format_args!("{} {refusal:?}{advice}", message.mti()));
                if matches!(refusal, Refusal::Security(_)) {
                    self.shared.counters.add_insecure();
                }
                self.answer(&Pending::of(&message, tpdu, owed), &AnswerElements::refused(refusal));
            }
            Mapped::Ignore => {
                let advice = Advice::on_message(frame, &self.shared.dialect);
                self.note_bad_message(&format_args!("{} is never answered{advice}", message.mti()));
            }
        }
    }

    /// Hands a batch to the engine, or answers all of it that it was not taken.
    pub(super) fn submit(&mut self, envelopes: Vec<Envelope>) {
        let decoding = self.decoding.take();
        if envelopes.is_empty() {
            return;
        }
        let tags: Vec<u64> = envelopes.iter().map(|envelope| envelope.tag).collect();
        self.shared.counters.add_messages(tags.len());
        if let Some(since) = decoding {
            self.shared.counters.decode.record_many(since.elapsed(), tags.len() as u64);
        }
        if let Err(error) = self.shared.engine.submit(envelopes) {
            self.shared.counters.add_not_taken(tags.len());
            tracing::debug!(peer = %self.peer, %error, messages = tags.len(), "not taken");
            for tag in tags {
                self.answer_pending(tag, |_| AnswerElements::not_taken());
            }
        }
    }

    /// Takes the engine's answers. Returns whether there were any; where not, the task is woken
    /// when some come.
    pub(super) fn take_answers(&mut self, context: &mut Context<'_>) -> bool {
        let mut arrived = std::mem::take(&mut self.arrived);
        let taken = self.port.poll_take(context, &mut arrived);
        let mut together = Together::default();
        let (counters, peer) = (Arc::clone(&self.shared.counters), self.peer);
        for (tag, reply) in arrived.drain(..) {
            if reply == Reply::OutcomeUnknown {
                counters.add_outcome_unknown();
            }
            self.answer_pending(tag, |request| {
                together.note(request.received, &counters);
                log_answer(peer, request, &reply);
                AnswerElements::of_reply(&request.echo, &reply)
            });
        }
        self.arrived = arrived;
        let count = together.finish(&counters);
        if let Poll::Ready(Some(since)) = taken {
            let (since, before) = self.unwritten.unwrap_or((since, 0));
            self.unwritten = Some((since, before + count));
        }
        taken.is_ready()
    }

    /// Gives memory back where nothing is in flight.
    pub(super) fn rest(&mut self) {
        if self.in_flight.is_empty() && self.arrived.capacity() > 0 {
            self.arrived = Vec::new();
            self.port.rest();
        }
        self.in_flight.rest();
    }

    fn answer_pending(&mut self, tag: u64, elements: impl FnOnce(&Pending) -> AnswerElements) {
        let (peer, dialect, outbox) = (self.peer, &self.shared.dialect, &mut self.outbox);
        self.in_flight.finish(tag, |request| {
            append_answer(outbox, peer, dialect, request, &elements(request));
        });
    }

    fn answer(&mut self, request: &Pending, elements: &AnswerElements) {
        append_answer(&mut self.outbox, self.peer, &self.shared.dialect, request, elements);
    }

    /// Counts a bad message and logs it, ever more seldom: a peer must not fill the log.
    pub(super) fn note_bad_message(&mut self, fault: &dyn fmt::Display) {
        self.bad_messages += 1;
        self.shared.counters.add_bad_message();
        if self.bad_messages.is_power_of_two() {
            tracing::warn!(peer = %self.peer, bad_messages = self.bad_messages, %fault, "bad message");
        }
    }

    /// Counts that the connection is closed for what its peer did, and logs it, ever more seldom: whoever can
    /// connect again must not fill the log.
    pub(super) fn note_cut(&self, reason: &'static str) {
        let cut = self.shared.counters.add_cut_connection(reason);
        if cut.is_power_of_two() {
            tracing::warn!(peer = %self.peer, cut, reason, "connection closed");
        }
    }

    /// As `note_cut`, of a peer that does not speak as this door does: with what its unread bytes seem to
    /// be.
    pub(super) fn note_lost(&self, reason: &'static str, unread: &[u8]) {
        let cut = self.shared.counters.add_cut_connection(reason);
        if cut.is_power_of_two() {
            let (peer, advice) = (self.peer, Advice::on_stream(unread, &self.shared.dialect));
            tracing::warn!(%peer, cut, "connection closed: {reason}{advice}");
        }
    }
}

/// Answers to messages that came together, which have taken equally long: they are timed once.
#[derive(Default)]
struct Together {
    received: Option<Stopwatch>,
    count: u64,
    earlier: u64,
}

impl Together {
    fn note(&mut self, received: Option<Stopwatch>, counters: &Counters) {
        if self.received != received {
            self.record(counters);
            self.received = received;
        }
        self.count += 1;
    }

    /// Returns how many there were.
    fn finish(mut self, counters: &Counters) -> u64 {
        self.record(counters);
        self.earlier
    }

    fn record(&mut self, counters: &Counters) {
        if let Some(received) = self.received {
            counters.answered.record_many(received.elapsed(), self.count);
        }
        self.earlier += std::mem::take(&mut self.count);
    }
}

/// Tells an answer in the log where that is asked for: what it was about, never with which card.
fn log_answer(peer: SocketAddr, request: &Pending, reply: &Reply) {
    tracing::debug!(
        %peer,
        mti = %request.echo.mti(),
        stan = request.echo.get_number(11),
        transaction = transaction_of(reply).map(|id| tracing::field::display(id.0)),
        response_code = response_code_of(reply),
        "answered"
    );
}

const fn transaction_of(reply: &Reply) -> Option<TransactionId> {
    match reply {
        Reply::Network(NetworkReply::Authorization(reply)) => reply.transaction,
        Reply::Network(NetworkReply::Reversal(reply)) => reply.transaction,
        Reply::Network(NetworkReply::Posting(reply)) => reply.transaction,
        _ => None,
    }
}

const fn response_code_of(reply: &Reply) -> Option<u16> {
    match reply {
        Reply::Network(NetworkReply::Authorization(reply)) => Some(reply.response_code.number()),
        _ => None,
    }
}

fn append_answer(
    outbox: &mut Vec<u8>,
    peer: SocketAddr,
    dialect: &Dialect,
    request: &Pending,
    elements: &AnswerElements,
) {
    if request.echo.mti().response().is_none() {
        return;
    }
    if outbox.capacity() == 0 {
        *outbox = buffers::take();
    }
    let written = write_frame(outbox, dialect, request.tpdu.map(Tpdu::swapped), |out| {
        let Some(owed) = &request.owed else { return elements.encode(&request.echo, out, dialect) };
        owed.encode((elements, &request.echo), out, |further, out| {
            elements.encode_with(&request.echo, further, out, dialect)
        })
    });
    if let Err(error) = written {
        tracing::warn!(%peer, %error, mti = %request.echo.mti(), "cannot be answered");
    }
}
