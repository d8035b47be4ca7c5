//! A connection of an acquirer: the product's steps on one end of a wire, and what the acquirer awaits at the other.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use cardswitch_acquiring::connection::{Connection, Turn};
use cardswitch_acquiring::door_parts::{ConnectionBounds, DoorParts};
use cardswitch_acquiring::limits;
use cardswitch_acquiring::peer_board::{DoorNumber, PeerBoard};
use cardswitch_engine::command::reply::Reply;

use super::acquirer::AcquirerMessage;
use super::answer::AnswerContent;
use super::header::Header;
use super::site::{Coding, Site};
use super::treatment::Treatment;
use super::wire::{Alarm, Wire, WireEnd};
use super::zone_book::{KeyUse, Span};
use crate::marks::Mark;
use crate::rng::Rng;

/// The most bytes of an answer.
const ANSWER_BYTES_MAX: usize = 512;

/// How the steps of a connection ended.
pub(super) type LineEnd = io::Result<()>;

/// A message on its way, with the generations of the keys that it was sent under.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sending {
    pub(super) coding: Coding,
    pub(super) pin: Option<usize>,
    /// Whether its type says that it is sent again.
    pub(super) is_repeat: bool,
    pub(super) at: Duration,
    /// Whether the engine was asked.
    pub(super) has_passed: bool,
}

impl Sending {
    /// Whether the door may have taken its code, some time until `to`.
    pub(super) fn may_be_right(&self, site: &Site, to: Duration) -> bool {
        self.is_right_within(site, Span { from: self.at, to })
    }

    /// Whether the door takes its code now.
    pub(super) fn is_right_at(&self, site: &Site, now: Duration) -> bool {
        self.is_right_within(site, Span { from: now, to: now })
    }

    fn is_right_within(&self, site: &Site, span: Span) -> bool {
        match self.coding {
            Coding::Needless => true,
            Coding::Wrong | Coding::Missing => false,
            Coding::Key(generation) => {
                let history = site.book.as_ref().and_then(|book| book.history(KeyUse::Mac));
                history.unwrap().may_count(generation, span)
            }
        }
    }

    /// Whether an answer with this fault, under a key of `maker`, may be to it.
    fn may_be_refused(&self, fault: &str, site: &Site, (maker, to): (Coding, Duration)) -> bool {
        let Some(history) = site.book.as_ref().and_then(|book| book.history(KeyUse::Mac)) else {
            return false;
        };
        let span = Span { from: self.at, to };
        let Coding::Key(maker) = maker else { return false };
        let is_refused = match self.coding {
            Coding::Missing => fault == "mac_missing",
            Coding::Wrong => fault == "mac_wrong",
            Coding::Key(generation) => {
                fault == "mac_wrong" && history.may_not_count(generation, span)
            }
            Coding::Needless => false,
        };
        is_refused && history.may_be_newest(maker, span)
    }
}

/// An answer, as it is compared.
pub(super) struct LineVerdict<'a> {
    pub(super) answer: &'a AnswerContent,
    /// The key of its code.
    pub(super) maker: Coding,
    pub(super) now: Duration,
    /// The wall clock that `now` is by. Units: microseconds since 1970.
    pub(super) wall: i64,
}

pub(super) struct SocketLine {
    pub(super) number: u64,
    pub(super) acquirer: usize,
    steps: Connection,
    wire: Wire,
    alarm: Arc<Alarm>,
    /// The time at which the steps want to be looked at.
    due: Duration,
    /// Whether the acquirer has sent something that is no frame, or half of one.
    is_spoilt: bool,
    is_draining: bool,
    drained_by: Option<Duration>,
    last_arrival: Duration,
    /// Whether the acquirer had left no room when it was stepped last.
    was_full: bool,
    /// Frames without a byte since the last with some.
    empty_frames: usize,
    /// The number of requests with the engine.
    pub(super) with_engine: usize,
    /// The answers that are owed, by the number of their message: for each time that it was sent whole.
    pub(super) owed: BTreeMap<u64, Vec<Sending>>,
    /// The replies of the engine to them, in order; none for those that it did not take.
    replies: BTreeMap<u64, VecDeque<Option<Reply>>>,
    /// The bytes of answers that are not whole.
    inbox: Vec<u8>,
    header: Header,
}

impl SocketLine {
    pub(super) fn new(
        (number, acquirer): (u64, usize),
        shared: Arc<DoorParts>,
        (board, door): (&PeerBoard, DoorNumber),
        (now, seed, header): (Duration, u64, Header),
    ) -> Self {
        let ip = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 1 + acquirer as u8));
        let peer = SocketAddr::new(ip, 40_000 + number as u16);
        let line = board.enter(door, ip);
        let alarm = Arc::new(Alarm::default());
        Waker::from(Arc::clone(&alarm)).wake();
        Self {
            number,
            acquirer,
            steps: Connection::new(peer, line, shared, now),
            wire: Wire::new(Rng::new(seed)),
            alarm,
            due: Duration::MAX,
            is_spoilt: false,
            is_draining: false,
            drained_by: None,
            last_arrival: now,
            was_full: false,
            empty_frames: 0,
            with_engine: 0,
            owed: BTreeMap::new(),
            replies: BTreeMap::new(),
            inbox: Vec::new(),
            header,
        }
    }

    /// Whether every request that is sent on it will be answered.
    pub(super) fn is_in_step(&self) -> bool {
        !self.is_spoilt && !self.is_draining && !self.wire.has_ended()
    }

    pub(super) fn send(&mut self, frame: &[u8], message: &AcquirerMessage, sending: Sending) {
        if self.wire.has_ended() {
            return;
        }
        self.wire.send(frame);
        self.empty_frames = 0;
        if message.treatment != Treatment::Ignored {
            self.owed.entry(message.number).or_default().push(sending);
        }
    }

    /// Sends two frames without a byte, unless that were too many in a row.
    pub(super) fn send_empty_frames(&mut self) {
        if self.is_in_step() && self.empty_frames + 2 <= limits::EMPTY_FRAMES_MAX {
            self.empty_frames += 2;
            let empty = self.header.frame_raw(&[]);
            self.wire.send(&empty.repeat(2));
        }
    }

    /// Sends a frame that is no message.
    pub(super) fn send_junk(&mut self) {
        if self.is_in_step() {
            self.empty_frames = 0;
            self.wire.send(&self.header.frame_raw(b"junk"));
        }
    }

    /// Sends what is no frame; nothing is awaited of what comes behind.
    pub(super) fn spoil(&mut self, bytes: &[u8]) {
        if self.is_in_step() {
            self.wire.send(bytes);
            self.is_spoilt = true;
        }
    }

    /// Lets the acquirer read at once what it is sent.
    pub(super) fn hurry(&mut self) {
        self.wire.widen();
    }

    pub(super) fn arrive(&mut self, count: usize, now: Duration) -> bool {
        let has_arrived = self.wire.arrive(count);
        if has_arrived {
            self.last_arrival = now;
        }
        has_arrived
    }

    pub(super) fn end(&mut self, end: WireEnd) {
        self.wire.end(end);
    }

    pub(super) fn drain(&mut self, now: Duration) {
        if !self.is_draining {
            self.is_draining = true;
            self.drained_by = Some(now + limits::DRAIN_WAIT);
            self.steps.drain(now);
            // The driver looks at it at once.
            self.due = now;
        }
    }

    pub(super) fn is_due(&self, now: Duration) -> bool {
        now >= self.due || self.alarm.is_set()
    }

    /// Steps once. Returns how it ended, if it did.
    pub(super) fn step(&mut self, now: Duration) -> Option<LineEnd> {
        self.alarm.take();
        let waker = Waker::from(Arc::clone(&self.alarm));
        let turn = self.steps.step(&mut self.wire, now, &mut Context::from_waker(&waker));
        self.was_full = self.wire.is_full();
        match turn {
            Ok(Turn::Again) => waker.wake(),
            Ok(Turn::Rest(until)) => self.due = until,
            Ok(Turn::Over) => return Some(Ok(())),
            Err(error) => return Some(Err(error)),
        }
        None
    }

    /// Its memory is bounded, whatever the acquirer does.
    pub(super) fn prove_bounds(&self, bounds: &ConnectionBounds) {
        let answers = bounds.outbox_bytes + bounds.in_flight * ANSWER_BYTES_MAX;
        let most = 4 * limits::READ_BYTES + 2 * answers;
        assert!(self.steps.kept_bytes() <= most, "{} bytes", self.steps.kept_bytes());
    }

    /// Reads so many bytes. Returns the answers that are whole then.
    pub(super) fn read(&mut self, count: usize) -> Vec<Vec<u8>> {
        self.inbox.extend(self.wire.read(count));
        std::iter::from_fn(|| self.header.take_answer(&mut self.inbox)).collect()
    }

    /// Whether anything may be answered to what the acquirer has sent.
    pub(super) const fn is_spoilt(&self) -> bool {
        self.is_spoilt
    }

    /// Notes the engine's reply to a request of this connection.
    pub(super) fn expect(&mut self, number: u64, reply: Option<Reply>) {
        self.replies.entry(number).or_default().push_back(reply);
    }

    /// Compares an answer with the one that is owed.
    pub(super) fn take_answer(
        &mut self,
        message: &AcquirerMessage,
        verdict: &LineVerdict<'_>,
        (site, context): (&Site, &str),
    ) -> Sending {
        let (number, answer) = (message.number, verdict.answer);
        answer.prove_echo(message, context);
        let fault = answer.fault().filter(|fault| fault.starts_with("mac_"));
        let sending = self.take_sending(number, fault, verdict, site);
        let sending =
            sending.unwrap_or_else(|| panic!("{context}: {answer:?} is one too many, or falsely"));
        if fault.is_some() {
            return sending;
        }
        answer.prove_chip(message, context);
        match &message.treatment {
            Treatment::Answered(code) => {
                assert!(answer.has_code(*code), "{context}: {answer:?} and not {code:?}");
            }
            Treatment::Ignored => panic!("{context}: {answer:?} to what is never answered"),
            Treatment::Exchanged(of, generation) => {
                let span = Span { from: sending.at, to: verdict.now };
                let wall_from = verdict.wall - (verdict.now - sending.at).as_micros() as i64;
                let book = site.book.as_ref().unwrap();
                let history = book.history(*of).unwrap();
                let may_be_refused = history.may_be_refused(*generation, span, wall_from);
                self.take_exchange(number, answer, may_be_refused, context);
            }
            Treatment::Decided(..) => match self.next_reply(number, answer, context) {
                Some(reply) => answer.prove(message, &reply, context),
                None => assert_eq!(answer.code, *b"91", "{context}: {answer:?}"),
            },
        }
        sending
    }

    fn next_reply(&mut self, number: u64, answer: &AnswerContent, context: &str) -> Option<Reply> {
        let reply = self.replies.get_mut(&number).and_then(VecDeque::pop_front);
        reply.unwrap_or_else(|| panic!("{context}: {answer:?} of no decision"))
    }

    /// Compares the answer to a new key, which the door refuses for its time without asking the engine.
    fn take_exchange(
        &mut self,
        number: u64,
        answer: &AnswerContent,
        may_be_refused: bool,
        context: &str,
    ) {
        let replies = self.replies.entry(number).or_default();
        let is_refused = answer.fault() == Some("key_replayed");
        let is_of_engine = match replies.front() {
            Some(Some(Reply::Rejected(_))) => is_refused,
            Some(_) => !is_refused,
            None => false,
        };
        if !is_of_engine {
            assert!(is_refused && may_be_refused, "{context}: {answer:?}");
            return;
        }
        let expected = match self.next_reply(number, answer, context) {
            Some(Reply::Done(_)) => *b"00",
            Some(Reply::Rejected(_)) => *b"63",
            Some(_) => *b"96",
            None => *b"91",
        };
        assert_eq!(answer.code, expected, "{context}: {answer:?}");
    }

    /// The sending of a message that an answer may be to, which is owed no more.
    fn take_sending(
        &mut self,
        number: u64,
        fault: Option<&str>,
        verdict: &LineVerdict<'_>,
        site: &Site,
    ) -> Option<Sending> {
        let (maker, now) = (verdict.maker, verdict.now);
        // A sending that reached the engine is the one that it was asked for.
        let is_replied = self.replies.get(&number).is_some_and(|replies| !replies.is_empty());
        let owed = self.owed.get_mut(&number)?;
        let is_right = |sending: &Sending| match fault {
            Some(fault) => sending.may_be_refused(fault, site, (maker, now)),
            None => sending.coding == maker && sending.may_be_right(site, now),
        };
        let asked = is_replied && fault.is_none();
        let fits = |sending: &Sending| sending.has_passed == asked && is_right(sending);
        let place = owed.iter().position(fits).or_else(|| owed.iter().position(is_right))?;
        let sending = owed.remove(place);
        if owed.is_empty() {
            self.owed.remove(&number);
        }
        Some(sending)
    }

    /// Whether it goes on only as long as the acquirer has more to come.
    pub(super) fn has_to_end(&self) -> bool {
        self.is_draining || self.wire.has_ended()
    }

    /// Everything was answered that was sent.
    pub(super) fn prove_answered(&self, messages: &[AcquirerMessage], context: &str) {
        if let Some(number) = self.owed.keys().next() {
            let message = &messages[*number as usize - 1];
            let mti = String::from_utf8_lossy(&message.content.mti);
            panic!("{context}: {mti} {number} is not answered on a live connection");
        }
        assert!(self.replies.values().all(VecDeque::is_empty), "{context}: an answer is lost");
    }

    /// It ended for a good reason. Returns the mark of it.
    pub(super) fn prove_end(
        &self,
        end: LineEnd,
        (now, idle_limit, is_roomy): (Duration, Duration, bool),
        context: &str,
    ) -> Option<Mark> {
        let Err(error) = end else {
            let has_reason = self.is_draining || self.wire.has_ended() || self.is_spoilt;
            assert!(has_reason, "{context}: a live connection ended");
            assert_eq!(self.with_engine, 0, "{context}: requests were left behind");
            let is_whole = self.replies.values().all(VecDeque::is_empty);
            assert!(is_whole, "{context}: an answer was left behind");
            if !self.is_draining && !self.is_spoilt {
                assert!(self.owed.is_empty(), "{context}: a request was left behind");
                return Some(Mark::HalfCloseAnswered);
            }
            return Some(if self.is_draining { Mark::LineDrained } else { Mark::LineOutOfStep });
        };
        let has_reason = match error.kind() {
            io::ErrorKind::TimedOut => {
                (now >= self.last_arrival + idle_limit && self.with_engine == 0)
                    || self.was_full
                    || self.drained_by.is_some_and(|end| now >= end)
            }
            io::ErrorKind::StorageFull => !is_roomy,
            _ => self.wire.is_reset(),
        };
        assert!(has_reason, "{context}: {error}");
        match error.kind() {
            io::ErrorKind::TimedOut if self.drained_by.is_none() => Some(Mark::SilentLineEnded),
            io::ErrorKind::TimedOut => Some(Mark::DrainTimedOut),
            io::ErrorKind::StorageFull => Some(Mark::SlowLineCut),
            _ => None,
        }
    }
}

impl Drop for SocketLine {
    fn drop(&mut self) {
        self.steps.note_end();
    }
}
