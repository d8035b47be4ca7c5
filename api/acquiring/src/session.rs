//! The conversation on one connection of the ISO 8583 door: messages become commands, answers
//! become frames. Nothing here reads or writes a socket.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use cardswitch_engine::clock::Stopwatch;
use cardswitch_engine::command::reply::{NetworkReply, Rejection, Reply};
use cardswitch_engine::domain::ids::TransactionId;
use cardswitch_engine::submission::{Envelope, ReplyPort};
use cardswitch_iso8583::frame::{Tpdu, write_frame};
use cardswitch_iso8583::{
    DecodeError, Dialect, Message, MessageBuilder, Mti, RepeatedFields, TranslationFault, decode,
};

use super::advice::Advice;
use super::advice_texts::{note_spaced, salvage};
use super::answer_faults::AnswerFaults;
use super::buffers;
use super::counters::Counters;
use super::door_parts::DoorParts;
use super::fault_plan::AnswerFault;
use super::in_flight::{ConnectionPort, InFlightRequests, PendingRequest, WayBack};
use super::local_naming::name_by_local_time;
use super::mapping::{MessageAction, Refusal, map_message};
use super::mapping_answer::AnswerElements;
use super::peer_board::{PeerLine, SeenMessage};

/// The conversation with one peer.
pub(crate) struct PeerSession {
    peer: SocketAddr,
    pub(crate) shared: Arc<DoorParts>,
    in_flight: InFlightRequests,
    pub(crate) port: Arc<ConnectionPort>,
    arrived: Vec<(u64, Reply)>,
    faults: Option<Box<AnswerFaults>>,
    /// Whether a fault ends the connection.
    pub(crate) is_cut: bool,
    /// The answers not yet written to the peer.
    pub(crate) outbox: Vec<u8>,
    bad_messages: u64,
    pub(crate) line: PeerLine,
    /// The time since the first messages were decoded that have not gone to the engine.
    decoding: Option<Stopwatch>,
    /// The time since the first of the answers in the outbox came from the engine, and their
    /// number.
    unwritten: Option<(Stopwatch, u64)>,
}

impl PeerSession {
    pub(crate) fn new(peer: SocketAddr, line: PeerLine, shared: Arc<DoorParts>) -> Self {
        let in_flight_max = shared.bounds.in_flight;
        let faults = shared.faults.clone();
        let faults = faults.map(|plan| Box::new(AnswerFaults::new(peer, plan, in_flight_max)));
        Self {
            peer,
            shared,
            in_flight: InFlightRequests::default(),
            port: Arc::default(),
            arrived: Vec::new(),
            faults,
            is_cut: false,
            outbox: Vec::new(),
            bad_messages: 0,
            line,
            decoding: None,
            unwritten: None,
        }
    }

    /// Whether every request has its answer.
    pub(crate) const fn is_all_answered(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Whether another request may be taken.
    pub(crate) fn has_room(&self) -> bool {
        let bounds = &self.shared.bounds;
        self.in_flight.len() < bounds.in_flight && self.outbox.len() < bounds.outbox_bytes
    }

    /// The time at which an answer is due that a fault holds back.
    pub(crate) fn next_release(&self) -> Option<Duration> {
        self.faults.as_ref().and_then(|faults| faults.next_release())
    }

    /// Notes that so much of the outbox was written.
    pub(crate) fn wrote(&mut self, bytes: usize) {
        buffers::drop_front(&mut self.outbox, bytes);
        if self.outbox.is_empty() {
            buffers::give_back(std::mem::take(&mut self.outbox));
            if let Some((since, count)) = self.unwritten.take() {
                self.shared.counters.reply.record_many(since.elapsed(), count);
            }
        }
    }

    /// Answers a message at once, or adds the envelope that takes it to the engine.
    pub(crate) fn take_message(
        &mut self,
        frame: &[u8],
        tpdu: Option<Tpdu>,
        envelopes: &mut Vec<Envelope>,
    ) {
        self.decoding.get_or_insert_with(Stopwatch::start);
        let mut way_back = WayBack { tpdu, ..WayBack::default() };
        let Some(translation) = self.shared.dialect.translation.clone() else {
            return self.take_decoded(decode(frame), (frame, frame, way_back), envelopes);
        };
        let mut plain = buffers::take();
        match translation.read(frame, &mut plain, &mut way_back.repeated) {
            Ok(read) => {
                self.take_decoded(read.message(&plain), (&plain, frame, way_back), envelopes);
            }
            Err(fault) => {
                self.note_undecodable(&fault, (frame, tpdu));
                self.refuse(decode(&plain), Refusal::Undecodable(fault.field), way_back);
            }
        }
        buffers::give_back(plain);
    }

    /// Does the same as `take_message`, for a message that is `plain` in the default spelling, and
    /// came as `frame`.
    fn take_decoded(
        &mut self,
        decoded: Result<Message<'_>, DecodeError<'_>>,
        (plain, frame, mut way_back): (&[u8], &[u8], WayBack),
        envelopes: &mut Vec<Envelope>,
    ) {
        let received = *self.decoding.get_or_insert_with(Stopwatch::start);
        let message = match decoded {
            Ok(message) => message,
            Err(error) => {
                if let Some(plain) = salvage(plain, &error) {
                    note_spaced(&self.peer);
                    return self.take_decoded(decode(&plain), (&plain, frame, way_back), envelopes);
                }
                let field = error.de.map(|de| self.shared.field_of(de));
                let fault = TranslationFault { fault: error.fault, field };
                self.note_undecodable(&fault, (frame, way_back.tpdu));
                return self.refuse(Err(error), Refusal::Undecodable(field), way_back);
            }
        };
        let mut mapped = match &self.shared.zone {
            None => map_message(&message, &self.shared.secrets),
            Some(zone) => {
                let (mapped, owed) = zone.map(&message, frame, &self.shared.secrets);
                way_back.owed = Some(owed);
                mapped
            }
        };
        let translation = self.shared.dialect.translation.as_ref();
        if translation.is_some_and(|translation| translation.names_by_local_time) {
            name_by_local_time(&mut mapped, &message, &self.shared.secrets);
        }
        match mapped {
            MessageAction::Ask(command) => {
                let tag = self.in_flight.insert(&message, way_back, received);
                let port = Arc::clone(&self.port) as Arc<dyn ReplyPort>;
                envelopes.push(Envelope { command, tag, port });
            }
            MessageAction::Exchange(key) => {
                // INVARIANT: a zone brought it.
                let Some(zone) = &self.shared.zone else { return };
                let tag = self.in_flight.insert(&message, way_back, received);
                let port = Arc::clone(&self.port) as Arc<dyn ReplyPort>;
                envelopes.push(key.exchange(zone, self.peer.ip(), (tag, port)));
            }
            MessageAction::Answer(code) => {
                self.note_signing(&message);
                self.answer(&PendingRequest::of(&message, way_back), &AnswerElements::plain(code));
            }
            MessageAction::Refuse(refusal) => {
                let fault = format_args!("{} {refusal:?}", message.mti());
                self.note_undecodable(&fault, (frame, way_back.tpdu));
                if matches!(refusal, Refusal::Security(_)) {
                    self.shared.counters.insecure.add(1);
                }
                let refusal = refusal.with_numbers(|de| self.shared.field_of(de));
                self.answer(
                    &PendingRequest::of(&message, way_back),
                    &AnswerElements::refused(refusal),
                );
            }
            MessageAction::Ignore => {
                let fault = format_args!("{} is never answered", message.mti());
                self.note_undecodable(&fault, (frame, way_back.tpdu));
            }
        }
    }

    /// Answers what was readable of a message.
    fn refuse(
        &mut self,
        decoded: Result<Message<'_>, DecodeError<'_>>,
        refusal: Refusal,
        mut way_back: WayBack,
    ) {
        way_back.owed = self.shared.zone.as_ref().map(|zone| zone.owed());
        let readable = match &decoded {
            Ok(message) => Some(message),
            Err(error) => error.readable.as_deref(),
        };
        if let Some(readable) = readable {
            self.answer(&PendingRequest::of(readable, way_back), &AnswerElements::refused(refusal));
        }
    }

    /// Counts and logs a message that cannot be carried out, with what it seems to be.
    fn note_undecodable(&mut self, fault: &dyn fmt::Display, (frame, tpdu): (&[u8], Option<Tpdu>)) {
        let advice = Advice::on_message(frame, tpdu, &self.shared.dialect);
        self.shared.counters.add_foreign(&advice);
        self.note_bad_message(&format_args!("{fault}{advice}"));
    }

    /// Hands a batch to the engine, or answers all of it that it was not taken.
    pub(crate) fn submit(&mut self, envelopes: Vec<Envelope>) {
        let decoding = self.decoding.take();
        if envelopes.is_empty() {
            return;
        }
        let tags: Vec<u64> = envelopes.iter().map(|envelope| envelope.tag).collect();
        self.shared.counters.messages.add(tags.len() as u64);
        if let Some(since) = decoding {
            self.shared.counters.decode.record_many(since.elapsed(), tags.len() as u64);
        }
        if let Err(error) = self.shared.engine.submit(envelopes) {
            self.shared.counters.not_taken.add(tags.len() as u64);
            tracing::debug!(peer = %self.peer, %error, messages = tags.len(), "not taken");
            for tag in tags {
                self.answer_pending(tag, None, |_| AnswerElements::not_taken());
            }
        }
    }

    /// Takes the engine's answers. Returns whether there were any.
    pub(crate) fn take_answers(&mut self, now: Duration) -> bool {
        let mut arrived = std::mem::take(&mut self.arrived);
        let taken = self.port.take(&mut arrived);
        let was_released = match &mut self.faults {
            Some(faults) => faults.meet(now, &mut arrived, &mut self.in_flight),
            None => false,
        };
        let mut together = AnswerBatch::default();
        let (counters, peer) = (Arc::clone(&self.shared.counters), self.peer);
        for (tag, reply) in arrived.drain(..) {
            _ = match reply {
                Reply::OutcomeUnknown => counters.outcome_unknown.add(1),
                Reply::Rejected(Rejection::ZoneKeyRepeated) => counters.insecure.add(1),
                _ => 0,
            };
            if let Some(fault) = self.faults.as_mut().and_then(|faults| faults.take(tag)) {
                self.answer_falsely(tag, &reply, fault);
                continue;
            }
            self.answer_pending(tag, transaction_of(&reply), |request| {
                together.note(request.received, &counters);
                log_answer(peer, request, &reply);
                AnswerElements::of_reply(&request.echo, &reply)
            });
        }
        self.arrived = arrived;
        let count = together.finish(&counters);
        if let Some(since) = taken {
            let (since, before) = self.unwritten.unwrap_or((since, 0));
            self.unwritten = Some((since, before + count));
        }
        taken.is_some() || was_released
    }

    /// Answers as a fault has it.
    fn answer_falsely(&mut self, tag: u64, reply: &Reply, fault: AnswerFault) {
        let (peer, dialect, outbox) = (self.peer, &self.shared.dialect, &mut self.outbox);
        // A peer of a door with codes never gets a message without one.
        let has_codes = self.shared.zone.as_ref().is_some_and(|zone| zone.has_codes());
        if fault == AnswerFault::SignOff && !has_codes {
            append_sign_off(outbox, peer, dialect);
        }
        let (is_cut, line) = (&mut self.is_cut, &mut self.line);
        self.in_flight.finish(tag, |request| {
            let elements = match fault {
                AnswerFault::NotTaken => AnswerElements::not_taken(),
                AnswerFault::OutcomeUnknown => {
                    AnswerElements::of_reply(&request.echo, &Reply::OutcomeUnknown)
                }
                _ => AnswerElements::of_reply(&request.echo, reply),
            };
            let count = match fault {
                AnswerFault::Disconnect => 0,
                AnswerFault::Twice => 2,
                _ => 1,
            };
            *is_cut |= count == 0;
            let seen = SeenMessage::new(&request.echo, elements.code, request.received);
            line.note(seen.about(transaction_of(reply)));
            for _ in 0..count {
                append_answer(outbox, peer, dialect, request, &elements);
            }
        });
    }

    /// Gives memory back where nothing is in flight.
    pub(crate) fn rest(&mut self) {
        if self.in_flight.is_empty() && self.arrived.capacity() > 0 {
            self.arrived = Vec::new();
            self.port.rest();
        }
        self.in_flight.rest();
    }

    fn answer_pending(
        &mut self,
        tag: u64,
        transaction: Option<TransactionId>,
        elements: impl FnOnce(&PendingRequest) -> AnswerElements,
    ) {
        let (peer, dialect, outbox) = (self.peer, &self.shared.dialect, &mut self.outbox);
        let line = &mut self.line;
        self.in_flight.finish(tag, |request| {
            let elements = elements(request);
            let seen = SeenMessage::new(&request.echo, elements.code, request.received);
            line.note(seen.about(transaction));
            append_answer(outbox, peer, dialect, request, &elements);
        });
    }

    fn answer(&mut self, request: &PendingRequest, elements: &AnswerElements) {
        self.line.note(SeenMessage::new(&request.echo, elements.code, self.decoding));
        append_answer(&mut self.outbox, self.peer, &self.shared.dialect, request, elements);
    }

    /// Notes that the peer signs on or off, where the message does. Source: ISO DE70.
    fn note_signing(&mut self, message: &Message<'_>) {
        match message.get(70) {
            Some(b"001") => self.line.sign(true),
            Some(b"002") => self.line.sign(false),
            _ => {}
        }
    }

    /// Counts a bad message and logs it, ever more seldom: a peer must not fill the log.
    pub(crate) fn note_bad_message(&mut self, fault: &dyn fmt::Display) {
        self.bad_messages += 1;
        self.shared.counters.bad_messages.add(1);
        let is_told = self.bad_messages.is_power_of_two();
        self.line.note_bad_message(is_told.then_some(fault));
        if is_told {
            let (door, bad_messages) = (&self.shared.door, self.bad_messages);
            tracing::warn!(peer = %self.peer, door, bad_messages, %fault, "bad message");
        }
    }

    /// Logs, once the connection is over, how many bad messages it had.
    pub(crate) fn note_bad_messages(&self) {
        let bad_messages = self.bad_messages;
        if bad_messages > 0 {
            tracing::warn!(peer = %self.peer, bad_messages, "connection had bad messages");
        }
    }

    /// Counts that the connection is closed for an act of its peer, and logs it, ever more seldom:
    /// a peer that can connect again must not fill the log.
    pub(crate) fn note_cut(&self, reason: &'static str) {
        let cut = self.shared.counters.add_cut_connection(reason);
        self.line.note_cut(&reason);
        if cut.is_power_of_two() {
            let door = &self.shared.door;
            tracing::warn!(peer = %self.peer, door, cut, reason, "connection closed");
        }
    }

    /// Counts and logs a peer whose first bytes are an empty frame and, read otherwise, a message: a length of
    /// four bytes looks so to a door with one of two. Its messages are answered, but it cannot read the answers.
    pub(crate) fn note_empty_start(&self, unread: &[u8]) {
        let advice = Advice::on_stream(unread, &self.shared.dialect);
        let foreign = self.shared.counters.add_foreign(&advice);
        self.line.note_odd(&format_args!("an empty frame before its first message{advice}"));
        if foreign.is_some_and(u64::is_power_of_two) {
            let (peer, door) = (self.peer, &self.shared.door);
            tracing::warn!(%peer, door, "an empty frame before its first message{advice}");
        }
    }

    /// Does the same as `note_cut`, for a peer that does not speak as this door does: with the
    /// dialect that its unread bytes seem to be of.
    pub(crate) fn note_lost(&self, reason: &'static str, unread: &[u8]) {
        let cut = self.shared.counters.add_cut_connection(reason);
        let advice = Advice::on_stream(unread, &self.shared.dialect);
        let foreign = self.shared.counters.add_foreign(&advice);
        self.line.note_cut(&format_args!("{reason}{advice}"));
        // Each dialect has a line of its own, however many peers were cut for this reason.
        if cut.is_power_of_two() || foreign.is_some_and(u64::is_power_of_two) {
            let (peer, door) = (self.peer, &self.shared.door);
            tracing::warn!(%peer, door, cut, "connection closed: {reason}{advice}");
        }
    }
}

/// Answers to messages that came together, which have taken equally long: they are timed once.
#[derive(Default)]
struct AnswerBatch {
    received: Option<Stopwatch>,
    count: u64,
    earlier: u64,
}

impl AnswerBatch {
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

/// Writes an answer to the log, if that is asked for: with its transaction, never with its card.
fn log_answer(peer: SocketAddr, request: &PendingRequest, reply: &Reply) {
    tracing::debug!(
        %peer,
        mti = %request.echo.mti,
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

/// Network management that no peer asked for. Source: ISO 8583 DE70, 002.
fn append_sign_off(outbox: &mut Vec<u8>, peer: SocketAddr, dialect: &Dialect) {
    let sign_off = MessageBuilder::new(Mti::NETWORK_REQUEST).set_number(11, 0).set(70, b"002");
    let written = write_frame(outbox, &dialect.framing, None, |out| {
        let Some(translation) = &dialect.translation else { return sign_off.encode(out) };
        let mut plain = Vec::new();
        sign_off.encode(&mut plain)?;
        translation.write(&plain, &RepeatedFields::NONE, out)
    });
    if let Err(error) = written {
        tracing::warn!(%peer, %error, "the dialect has no sign-off");
    }
}

fn append_answer(
    outbox: &mut Vec<u8>,
    peer: SocketAddr,
    dialect: &Dialect,
    request: &PendingRequest,
    elements: &AnswerElements,
) {
    if request.echo.mti.response().is_none() {
        return;
    }
    if outbox.capacity() == 0 {
        *outbox = buffers::take();
    }
    let way_back = &request.way_back;
    let tpdu = way_back.tpdu.map(Tpdu::swapped);
    let written = elements.frame(|elements| {
        write_frame(outbox, &dialect.framing, tpdu, |out| {
            let write = |further: &[(u8, &[u8])], out: &mut Vec<u8>| {
                elements.encode(&request.echo, further, (dialect, &way_back.repeated), out)
            };
            match &way_back.owed {
                None => write(&[], out),
                Some(owed) => owed.encode((elements, request, dialect), out, write),
            }
        })
    });
    if let Err(error) = written {
        tracing::warn!(%peer, %error, mti = %request.echo.mti, "cannot be answered");
    }
}

#[cfg(test)]
mod tests {
    use cardswitch_iso8583::Framing;

    use super::*;
    use crate::de39::De39;

    /// Two digits of length end at 99 bytes: such a purchase was approved and never answered.
    #[test]
    fn an_answer_too_long_for_its_length_says_less() {
        let framing = Framing { length: "ascii2".parse().unwrap(), tpdu: false };
        let (dialect, peer) = (Dialect::framed(framing), SocketAddr::from(([127, 0, 0, 1], 1)));
        let elements = AnswerElements {
            detail: "0".into(),
            authorization_id: Some(*b"A1B2C3"),
            amounts: b"0002840C000000001250".to_vec().into(),
            ..AnswerElements::plain(De39::APPROVED)
        };
        let shop = "S".repeat(40);
        for (further, expected) in [
            (vec![], &[38, 39, 44, 54][..]),
            (vec![(37, "RRN000000001")], &[38, 39]),
            (vec![(43, &*shop)], &[39]),
            // Nothing of a request is left out.
            (vec![(25, "00"), (43, &*shop), (49, "840")], &[]),
        ] {
            let request = MessageBuilder::new(Mti::AUTHORIZATION_REQUEST)
                .set(2, b"4537110001123456")
                .set(3, b"000000")
                .set_number(4, 1_250)
                .set_number(11, 7);
            let echoed =
                further.iter().fold(request, |request, (de, text)| request.set_text(*de, text));
            let (mut frame, mut outbox) = (Vec::new(), Vec::new());
            echoed.encode(&mut frame).unwrap();
            let request = decode(&frame).unwrap();
            let pending = PendingRequest::of(&request, WayBack::default());
            append_answer(&mut outbox, peer, &dialect, &pending, &elements);
            let Some((_length, answer)) = outbox.split_first_chunk::<2>() else {
                assert!(expected.is_empty(), "{further:?}");
                continue;
            };
            let own = decode(answer).unwrap().present().without(request.present());
            assert_eq!(own.elements().collect::<Vec<_>>(), expected, "{further:?}");
        }
    }
}
