//! A connection of an acquirer: the product's steps on one end of a wire, and what the acquirer awaits at the other.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use cardswitch_acquiring::connection::{Connection, Turn};
use cardswitch_acquiring::limits;
use cardswitch_acquiring::peer_board::{DoorNumber, PeerBoard};
use cardswitch_acquiring::session::{ConnectionBounds, DoorParts};
use cardswitch_engine::command::reply::Reply;
use cardswitch_iso8583::{Frame, Framing, next_frame};

use super::acquirer::{AcquirerMessage, AnswerContent, Treatment};
use super::wire::{Alarm, Wire, WireEnd};
use crate::marks::Mark;
use crate::rng::Rng;

/// The most bytes of an answer.
const ANSWER_BYTES_MAX: usize = 512;

/// How the steps of a connection ended.
pub(super) type LineEnd = io::Result<()>;

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
    pub(super) owed: BTreeMap<u64, u64>,
    /// The replies of the engine to them, in order; none for those that it did not take.
    replies: BTreeMap<u64, VecDeque<Option<Reply>>>,
    /// The bytes of answers that are not whole.
    inbox: Vec<u8>,
}

impl SocketLine {
    pub(super) fn new(
        (number, acquirer): (u64, usize),
        shared: Arc<DoorParts>,
        (board, door): (&PeerBoard, DoorNumber),
        (now, seed): (Duration, u64),
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
        }
    }

    /// Whether every request that is sent on it will be answered.
    pub(super) fn is_in_step(&self) -> bool {
        !self.is_spoilt && !self.is_draining && !self.wire.has_ended()
    }

    pub(super) fn send(&mut self, message: &AcquirerMessage, is_repeat: bool) {
        if self.wire.has_ended() {
            return;
        }
        self.wire.send(&message.frame(is_repeat));
        self.empty_frames = 0;
        if message.treatment != Treatment::Ignored {
            *self.owed.entry(message.number).or_default() += 1;
        }
    }

    /// Sends two frames without a byte, unless that were too many in a row.
    pub(super) fn send_empty_frames(&mut self) {
        if self.is_in_step() && self.empty_frames + 2 <= limits::EMPTY_FRAMES_MAX {
            self.empty_frames += 2;
            self.wire.send(&[0; 4]);
        }
    }

    /// Sends a frame that is no message.
    pub(super) fn send_junk(&mut self) {
        if self.is_in_step() {
            self.empty_frames = 0;
            self.wire.send(b"\0\x04junk");
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

    /// Reads so many bytes. Returns the bodies that are whole then.
    pub(super) fn read(&mut self, count: usize) -> Vec<Vec<u8>> {
        self.inbox.extend(self.wire.read(count));
        let (mut bodies, mut start) = (Vec::new(), 0);
        while let Frame::Complete { body, consumed, .. } =
            next_frame(&self.inbox[start..], &Framing::default())
        {
            bodies.push(self.inbox[start..][body].to_vec());
            start += consumed;
        }
        self.inbox.drain(..start);
        bodies
    }

    /// Notes the engine's reply to a request of this connection.
    pub(super) fn expect(&mut self, number: u64, reply: Option<Reply>) {
        self.replies.entry(number).or_default().push_back(reply);
    }

    /// Compares an answer with the one that is owed.
    pub(super) fn take_answer(
        &mut self,
        message: &AcquirerMessage,
        answer: &AnswerContent,
        context: &str,
    ) {
        let number = message.number;
        assert_eq!(Some(answer.mti), message.mti().response(), "{context}: {answer:?}");
        let owed = self.owed.get_mut(&number);
        let owed = owed.unwrap_or_else(|| panic!("{context}: {answer:?} is one too many"));
        *owed -= 1;
        if *owed == 0 {
            self.owed.remove(&number);
        }
        match &message.treatment {
            Treatment::Answered(code) => assert_eq!(answer.code, *code, "{context}: {answer:?}"),
            Treatment::Ignored => panic!("{context}: {answer:?} to what is never answered"),
            Treatment::Decided(..) => {
                let reply = self.replies.get_mut(&number).and_then(VecDeque::pop_front);
                match reply.unwrap_or_else(|| panic!("{context}: {answer:?} of no decision")) {
                    Some(reply) => answer.prove(message, &reply, context),
                    None => assert_eq!(answer.code, *b"91", "{context}: {answer:?}"),
                }
            }
        }
    }

    /// Whether it goes on only as long as the acquirer has more to come.
    pub(super) fn has_to_end(&self) -> bool {
        self.is_draining || self.wire.has_ended()
    }

    /// Everything was answered that was sent.
    pub(super) fn prove_answered(&self, messages: &[AcquirerMessage], context: &str) {
        if let Some(number) = self.owed.keys().next() {
            let message = &messages[*number as usize - 1];
            panic!("{context}: {} {number} is not answered on a live connection", message.mti());
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
