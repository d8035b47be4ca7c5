//! The ISO 8583 door in a simulated world: the product's own connections over simulated streams, and the engine
//! behind them.
//!
//! Acquirers connect, send, repeat, are slow, silent or deaf, cut frames in half, send what is no frame, and
//! vanish. The machine goes down at any step; the door stops and opens again. Every draw is from a stream of its
//! own, so that the world of the same seed without sockets is as it was.

mod acquirer;
mod events;
mod gate;
mod line;
mod machine;
mod wire;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cardswitch_acquiring::counters::Counters;
use cardswitch_acquiring::peer_board::{DoorNumber, DoorPlate, PeerBoard};
use cardswitch_acquiring::session::{ConnectionBounds, DoorParts};
use cardswitch_acquiring::slow_bytes::SlowBytes;
use cardswitch_engine::command::Command;
use cardswitch_engine::domain::network_key::DuplicateKey;
use cardswitch_iso8583::Dialect;
use cardswitch_secrets::Secrets;
use cardswitch_secrets::pan::Pan;
use sha2::{Digest as _, Sha256};

use self::acquirer::{AcquirerMessage, AnswerContent, Treatment};
use self::events::{SocketEvent, SocketRates};
use self::gate::Gate;
use self::line::{LineEnd, SocketLine};
use self::machine::Machinery;
use self::wire::WireEnd;
use crate::happening::{Action, Part};
use crate::marks::{Mark, Marks};
use crate::rates::Rates;
use crate::rng::Rng;
use crate::samples::START;

/// The messages of a world, repeats apart.
const MESSAGES: u64 = 36;
/// More events than a world needs for them.
const EVENTS_MAX: u64 = 20_000;
const ACQUIRERS: usize = 3;
const DOOR: &str = "iso8583";

/// The history of a world of sockets.
#[derive(Debug)]
pub(crate) struct SocketStory {
    pub(crate) marks: Marks,
    /// A hash of everything that acquirers read, in order.
    pub(crate) trace: [u8; 32],
}

struct SocketWorld {
    seed: u64,
    rng: Rng,
    rates: SocketRates,
    parts: Rates,
    machine: Machinery,
    now: Duration,
    secrets: Arc<Secrets>,
    pans: Vec<String>,
    board: PeerBoard,
    door: DoorNumber,
    slow_bytes: Arc<SlowBytes>,
    is_roomy: bool,
    /// Whether acquirers read as fast as they can from now on.
    is_hurried: bool,
    bounds: ConnectionBounds,
    idle_limit: Duration,
    messages: Vec<AcquirerMessage>,
    /// The numbers of the messages that the engine decides.
    keys: BTreeMap<DuplicateKey, u64>,
    /// The messages of each acquirer that await an answer and will be sent again.
    unanswered: [Vec<u64>; ACQUIRERS],
    lines: BTreeMap<u64, SocketLine>,
    next_line: u64,
    marks: Marks,
    trace: Sha256,
}

/// Runs the world of a seed on a thread of its own, since connections share buffers that a thread keeps.
/// Panics: where an answer is wrong, missing, doubled, or of what is not durable.
pub(crate) fn run(seed: u64, place: &Path) -> SocketStory {
    std::thread::scope(|scope| {
        let world = scope.spawn(|| SocketWorld::new(seed, place).run());
        world.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

impl SocketWorld {
    fn new(seed: u64, place: &Path) -> Self {
        let mut rng = Rng::new(seed ^ 0x50CC_E750);
        let rates = SocketRates::draw(&mut rng);
        let parts = Rates::draw(&mut rng, MESSAGES);
        let secrets = Arc::new(Secrets::from_root([8; 32]));
        let mut machine = Machinery::new(place, &parts);
        let pans: Vec<_> = (0..8).map(pan_of).collect();
        machine.open_cards(&pans, &secrets);
        let board = PeerBoard::default();
        let door = board.add_door(DoorPlate {
            name: DOOR.to_owned(),
            address: ([127, 0, 0, 1], 8_583).into(),
            dialect: Dialect::default(),
            has_tls: false,
            zone: None,
        });
        let is_roomy = rng.chance(70);
        let slow_bytes_max = if is_roomy { 1 << 26 } else { 1 << (15 + rng.below(4)) };
        let mut few = |most: usize| match rng.chance(50) {
            true => most,
            false => 1 + rng.below(12) as usize,
        };
        let full = ConnectionBounds::default();
        let bounds = ConnectionBounds {
            in_flight: few(full.in_flight),
            outbox_bytes: 40 * few(full.outbox_bytes / 40),
        };
        Self {
            seed,
            rates,
            parts,
            machine,
            now: Duration::from_secs(1),
            secrets,
            pans,
            board,
            door,
            slow_bytes: Arc::new(SlowBytes::new(slow_bytes_max)),
            is_roomy,
            is_hurried: false,
            bounds,
            idle_limit: Duration::from_secs(10 + rng.below(300)),
            rng,
            messages: Vec::new(),
            keys: BTreeMap::new(),
            unanswered: Default::default(),
            lines: BTreeMap::new(),
            next_line: 0,
            marks: Marks::default(),
            trace: Sha256::new(),
        }
    }

    fn run(mut self) -> SocketStory {
        let mut events = 0;
        while (self.messages.len() as u64) < MESSAGES && events < EVENTS_MAX {
            events += 1;
            let pause = Duration::from_millis(self.rng.below(200));
            self.pass_time(pause);
            match self.parts.next(&mut self.rng) {
                Action::Step(part) => self.step(part),
                Action::Send => {
                    let event = self.rates.next(&mut self.rng);
                    self.befall(event);
                }
            }
            if self.machine.has_failed() && self.rng.chance(10) {
                self.crash();
            }
        }
        self.end();
        SocketStory { marks: self.marks, trace: self.trace.finalize().into() }
    }

    fn context(&self) -> String {
        format!("seed {}, world of sockets: after {} messages", self.seed, self.messages.len())
    }

    fn pass_time(&mut self, time: Duration) {
        self.now += time;
        self.machine.set_clock(START + self.now.as_micros() as i64);
    }

    fn befall(&mut self, event: SocketEvent) {
        match event {
            SocketEvent::Send => self.send(),
            SocketEvent::Arrive => self.arrive(),
            SocketEvent::Read => self.read(),
            SocketEvent::Run => self.run_one(),
            SocketEvent::Repeat => self.repeat(),
            SocketEvent::End(end) => self.end_line(end),
            SocketEvent::HalfFrame => self.send_half(),
            SocketEvent::Garbage => self.send_garbage(),
            SocketEvent::OddFrames => self.send_odd_frames(),
            SocketEvent::Silence => self.be_silent(),
            SocketEvent::Crash => self.crash(),
            SocketEvent::BreakDisk => self.machine.break_disk(&mut self.rng),
            SocketEvent::StopDoor => self.stop_door(),
        }
    }

    /// Moves a part of the engine, and compares the answers that come of it.
    fn step(&mut self, part: Part) {
        self.machine.step(part);
        self.take_replies();
    }

    /// Compares what connections handed over with what was sent, and replies with the model's.
    fn take_replies(&mut self) {
        if self.machine.is_quiet() {
            return;
        }
        let context = self.context();
        let (news, refused) = self.machine.take_news();
        for passage in news {
            let number = self.number_of(&passage.command, &context);
            let line = self.lines.get_mut(&passage.line).unwrap();
            line.with_engine += 1;
            let is_in_bounds = line.with_engine <= self.bounds.in_flight;
            assert!(is_in_bounds, "{context}: {} requests of one connection", line.with_engine);
            assert!(line.owed.contains_key(&number), "{context}: {number} was not sent whole");
        }
        for passage in refused {
            let number = self.number_of(&passage.command, &context);
            self.marks.pass(Mark::MessageNotTaken);
            let line = self.lines.get_mut(&passage.line).unwrap();
            line.expect(number, None);
        }
        for (passage, reply) in self.machine.take_replies(&context) {
            let number = self.number_of(&passage.command, &context);
            // An answer to a connection that is gone is nobody's.
            let Some(line) = self.lines.get_mut(&passage.line) else {
                self.marks.pass(Mark::AnswerToNobody);
                continue;
            };
            line.with_engine -= 1;
            line.expect(number, Some(reply));
        }
    }

    /// The number of the message that a command was made of. It has to be that message, whole.
    fn number_of(&self, command: &Command, context: &str) -> u64 {
        let key = acquirer::key_of(command);
        let number =
            *self.keys.get(&key).unwrap_or_else(|| panic!("{context}: nobody sent {command:?}"));
        let expected = &self.messages[number as usize - 1].treatment;
        assert_eq!(*expected, Treatment::Decided(key, format!("{command:?}")), "{context}");
        number
    }

    /// A connection of an acquirer that is in step; a new one where it has none.
    fn line_of(&mut self, acquirer: usize) -> &mut SocketLine {
        let is_fit = |line: &&mut SocketLine| line.acquirer == acquirer && line.is_in_step();
        let found = self.lines.values_mut().find(is_fit).map(|line| line.number);
        let number = found.unwrap_or_else(|| self.connect(acquirer));
        self.lines.get_mut(&number).unwrap()
    }

    /// Connects, and sends what was not answered again.
    fn connect(&mut self, acquirer: usize) -> u64 {
        let number = self.next_line;
        self.next_line += 1;
        let engine = Arc::clone(self.machine.engine());
        let gate = Gate { line: number, engine, book: Arc::clone(&self.machine.book) };
        let shared = DoorParts {
            door: DOOR.to_owned(),
            engine: Arc::new(gate),
            secrets: Arc::clone(&self.secrets),
            dialect: Dialect::default(),
            zone: None,
            faults: None,
            idle_limit: self.idle_limit,
            bounds: self.bounds,
            slow_bytes: Arc::clone(&self.slow_bytes),
            counters: Arc::new(Counters::default()),
        };
        let seed = self.rng.number();
        let mut line = SocketLine::new(
            (number, acquirer),
            Arc::new(shared),
            (&self.board, self.door),
            (self.now, seed),
        );
        if self.is_hurried {
            line.hurry();
        }
        self.lines.insert(number, line);
        self.resend(acquirer, number);
        number
    }

    /// Sends what was not answered again.
    fn resend(&mut self, acquirer: usize, line: u64) {
        let line = self.lines.get_mut(&line).unwrap();
        for number in std::mem::take(&mut self.unanswered[acquirer]) {
            self.marks.pass(Mark::RepeatedOnAnotherLine);
            line.send(&self.messages[number as usize - 1], true);
        }
    }

    /// Keeps in mind that a message will be sent again, unless its decision was heard.
    fn keep_in_mind(&mut self, number: u64) {
        let message = &self.messages[number as usize - 1];
        let unanswered = &mut self.unanswered[message.acquirer];
        let is_open = message.treatment != Treatment::Ignored && message.heard.is_none();
        if is_open && !unanswered.contains(&number) {
            unanswered.push(number);
        }
    }

    fn send(&mut self) {
        let acquirer = self.rng.below(ACQUIRERS as u64) as usize;
        let count = 1 + self.rng.below(4);
        let at = START + self.now.as_micros() as i64;
        let first = self.messages.len();
        for _ in 0..count {
            let drawn = AcquirerMessage::draw(
                &mut self.rng,
                (acquirer, at),
                &self.messages,
                (&self.pans, &self.secrets),
            );
            if let Treatment::Decided(key, _) = &drawn.treatment {
                self.keys.insert(*key, drawn.number);
            }
            self.messages.push(drawn);
        }
        let number = self.line_of(acquirer).number;
        let line = self.lines.get_mut(&number).unwrap();
        self.messages[first..].iter().for_each(|message| line.send(message, false));
    }

    /// A message that was answered is sent again: here, or on a connection beside this.
    fn repeat(&mut self) {
        let answered = self.messages.iter().filter(|message| message.heard.is_some());
        let answered: Vec<_> = answered.map(|message| (message.number, message.acquirer)).collect();
        if answered.is_empty() {
            return;
        }
        let (number, acquirer) = self.rng.pick(&answered);
        let line = match self.rng.chance(50) {
            true => self.connect(acquirer),
            false => self.line_of(acquirer).number,
        };
        let line = self.lines.get_mut(&line).unwrap();
        line.send(&self.messages[number as usize - 1], true);
    }

    fn pick_line(&mut self) -> Option<u64> {
        let numbers: Vec<_> = self.lines.keys().copied().collect();
        (!numbers.is_empty()).then(|| self.rng.pick(&numbers))
    }

    fn arrive(&mut self) {
        let Some(number) = self.pick_line() else { return };
        let count = 1 << self.rng.below(11);
        let line = self.lines.get_mut(&number).unwrap();
        line.arrive(count, self.now);
    }

    fn read(&mut self) {
        let Some(number) = self.pick_line() else { return };
        let count = 1 << self.rng.below(11);
        self.read_from(number, count);
    }

    /// Reads so many bytes, and compares the answers that are whole then.
    fn read_from(&mut self, number: u64, count: usize) {
        let context = self.context();
        let mut undecided = Vec::new();
        let line = self.lines.get_mut(&number).unwrap();
        for body in line.read(count) {
            self.trace.update(&body);
            let answer = AnswerContent::read(&body);
            let message = self.messages.get_mut(answer.number as usize - 1);
            let message = message.unwrap_or_else(|| panic!("{context}: {answer:?} is of nothing"));
            line.take_answer(message, &answer, &context);
            self.marks.pass_if(Mark::UnknownOutcomeHeard, answer.code == *b"96");
            if !answer.is_decision() {
                undecided.push(answer.number);
                continue;
            }
            match &message.heard {
                Some(first) => {
                    assert!(
                        first.is_same_decision(&answer),
                        "{context}: {first:?}, then {answer:?}"
                    );
                    self.marks.pass(Mark::SameAnswerAgain);
                }
                None => message.heard = Some(answer),
            }
        }
        undecided.into_iter().for_each(|number| self.keep_in_mind(number));
    }

    /// Runs the task of one connection, if it was woken or its time has come.
    fn run_one(&mut self) {
        if let Some(number) = self.pick_line() {
            self.run_line(number);
        }
    }

    /// Returns whether it had anything to do.
    fn run_line(&mut self, number: u64) -> bool {
        let now = self.now;
        let line = self.lines.get_mut(&number).unwrap();
        if !line.is_due(now) {
            return false;
        }
        let end = line.step(now);
        line.prove_bounds(&self.bounds);
        self.take_replies();
        if let Some(end) = end {
            self.bury(number, Some(end));
        }
        true
    }

    /// A connection is over: the acquirer reads what there is, and keeps in mind what is missing.
    fn bury(&mut self, number: u64, end: Option<LineEnd>) {
        let context = self.context();
        self.read_from(number, usize::MAX);
        let line = self.lines.remove(&number).unwrap();
        if let Some(end) = end {
            let mark = line.prove_end(end, (self.now, self.idle_limit, self.is_roomy), &context);
            mark.into_iter().for_each(|mark| self.marks.pass(mark));
        }
        self.marks.pass_if(Mark::LineLostInFlight, line.with_engine > 0);
        let owed: Vec<_> = line.owed.keys().copied().collect();
        owed.into_iter().for_each(|number| self.keep_in_mind(number));
    }

    fn end_line(&mut self, end: WireEnd) {
        let Some(number) = self.pick_line() else { return };
        self.lines.get_mut(&number).unwrap().end(end);
    }

    fn send_half(&mut self) {
        let Some(number) = self.pick_line() else { return };
        if self.messages.is_empty() {
            return;
        }
        let frame = self.messages[self.rng.below(self.messages.len() as u64) as usize].frame(false);
        let half = 1 + self.rng.below(frame.len() as u64 - 1) as usize;
        self.lines.get_mut(&number).unwrap().spoil(&frame[..half]);
    }

    fn send_garbage(&mut self) {
        let Some(number) = self.pick_line() else { return };
        let count = 1 + self.rng.below(64);
        let bytes: Vec<_> = (0..count).map(|_| self.rng.below(256) as u8).collect();
        self.lines.get_mut(&number).unwrap().spoil(&bytes);
    }

    fn send_odd_frames(&mut self) {
        let Some(number) = self.pick_line() else { return };
        let line = self.lines.get_mut(&number).unwrap();
        match self.rng.chance(50) {
            true => line.send_empty_frames(),
            false => line.send_junk(),
        }
    }

    /// Nothing happens, while the engine moves, for so long that silent connections end.
    fn be_silent(&mut self) {
        let pause = self.idle_limit + Duration::from_millis(self.rng.below(2_000));
        self.pass_time(pause);
    }

    fn stop_door(&mut self) {
        let now = self.now;
        self.lines.values_mut().for_each(|line| line.drain(now));
        self.marks.pass(Mark::DoorStopped);
    }

    /// The machine goes down with every connection. All that acquirers had read by then is durable.
    fn crash(&mut self) {
        let context = self.context();
        if self.machine.has_failed() && self.rng.chance(50) {
            // Everybody hears what a switch says whose journal has failed.
            self.settle();
        }
        for number in self.lines.keys().copied().collect::<Vec<_>>() {
            self.bury(number, None);
        }
        self.machine.crash(&mut self.rng, &context);
        self.marks.pass(Mark::CrashUnderSockets);
        self.trace.update(b"crash");
    }

    /// All goes well from now on: every message is answered, and model and switch agree.
    fn end(&mut self) {
        self.machine.mend_disk();
        self.is_hurried = true;
        self.lines.values_mut().for_each(|line| line.hurry());
        loop {
            if self.machine.has_failed() {
                self.crash();
            }
            self.settle();
            if self.unanswered.iter().all(Vec::is_empty) {
                break;
            }
            for acquirer in 0..ACQUIRERS {
                let line = self.line_of(acquirer).number;
                self.resend(acquirer, line);
            }
            let context = self.context();
            assert!(self.next_line < 1_000, "{context}: somebody is never answered");
        }
        let context = self.context();
        for message in &self.messages {
            let is_answered = message.heard.is_some() || message.treatment == Treatment::Ignored;
            assert!(is_answered, "{context}: {} is not answered", message.number);
        }
        self.stop_door();
        self.settle();
        assert!(self.lines.is_empty(), "{context}: a connection outlives its door");
        let seen = self.board.seen();
        assert!(seen.iter().flat_map(|door| &door.peers).all(|(_, peer)| peer.open == 0));
        self.machine.prove(&context);
    }

    /// Everything arrives, is decided, answered and read, until nothing moves any more.
    fn settle(&mut self) {
        loop {
            let mut has_moved = self.machine.step_all();
            self.take_replies();
            for number in self.lines.keys().copied().collect::<Vec<_>>() {
                let line = self.lines.get_mut(&number).unwrap();
                has_moved |= line.arrive(usize::MAX, self.now);
                has_moved |= self.run_line(number);
                if self.lines.contains_key(&number) {
                    self.read_from(number, usize::MAX);
                }
            }
            if !has_moved {
                break;
            }
        }
        let context = self.context();
        for number in self.lines.keys().copied().collect::<Vec<_>>() {
            let line = &self.lines[&number];
            if line.is_in_step() {
                line.prove_answered(&self.messages, &context);
            } else {
                assert!(!line.has_to_end(), "{context}: a connection does not end");
                // Its acquirer is out of step, and waits.
                self.bury(number, None);
            }
        }
    }
}

/// A card number of the switch.
fn pan_of(number: u64) -> String {
    Pan::with_check_digit(format!("453711{number:09}").as_bytes()).unwrap().reveal()
}
