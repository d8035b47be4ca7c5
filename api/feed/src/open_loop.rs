//! Real time: messages leave when they are due, whether or not earlier ones were answered.
//!
//! One thread owns the conversation and writes; each connection has a thread that reads. Messages of
//! one purchase use one connection. A connection that breaks is opened again; what was
//! under way on it is answered by silence. A hostile wire may stand between the conversation and the connections.

use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::client::{DoorConnection, frame, frame_noise};
use super::conversation::{Conversation, Departure};
use super::hostile::{HostileWire, Mishap, PassingMessage};
use super::line::Line;
use super::message::AnswerFields;
use super::report::Progress;

/// The writer looks up at least this often.
const WAIT_MAX: Duration = Duration::from_millis(50);

/// The interval at which the shared view of the run is renewed.
pub(super) const SHOW_EVERY: Duration = Duration::from_millis(100);

/// Pause between two attempts to open a broken connection again.
const RECONNECT_PAUSE: Duration = Duration::from_millis(200);

/// The longest time that a run goes on without any connection.
pub(super) const GIVE_UP_AFTER: Duration = Duration::from_secs(15);

/// The longest wait for answers once the run was told to stop.
pub(super) const STOP_GRACE: Duration = Duration::from_secs(2);

/// The course of a run.
#[derive(Debug, Default)]
pub(super) struct Course {
    /// Wall time from the start to the last purchase.
    pub(super) elapsed: Duration,
    /// Its end, by its own clock.
    pub(super) ended_us: u64,
    pub(super) ended_early: Option<String>,
    /// The number of times that each mishap happened; empty without a hostile wire.
    pub(super) mishaps: Vec<(Mishap, u64)>,
}

/// A report of a reading thread.
enum ReaderReport {
    Answers { answers: Vec<AnswerFields>, at: Instant },
    Lost { lane: usize, generation: u64 },
}

struct SendLane {
    connection: Option<DoorConnection>,
    generation: u64,
    outbox: Vec<u8>,
    last_attempt: Instant,
}

struct OpenLoop<'run, 'cards> {
    conversation: &'run mut Conversation<'cards>,
    lanes: Vec<SendLane>,
    readers: Vec<JoinHandle<()>>,
    news: Sender<ReaderReport>,
    line: Line,
    wire: Option<HostileWire>,
    started: Instant,
    last_alive: Instant,
}

/// Runs a conversation in real time over the connections given.
pub(super) fn run(
    conversation: &mut Conversation<'_>,
    connections: Vec<DoorConnection>,
    line: &Line,
    wire: Option<HostileWire>,
    progress: &Progress,
) -> io::Result<Course> {
    let (news, inbox) = mpsc::channel();
    let started = Instant::now();
    let mut open_loop = OpenLoop {
        conversation,
        lanes: Vec::new(),
        readers: Vec::new(),
        news,
        line: line.clone(),
        wire,
        started,
        last_alive: started,
    };
    for connection in connections {
        open_loop.add_lane(connection)?;
    }
    let mut course = open_loop.run(&inbox, progress);
    course.ended_us = open_loop.now_us();
    course.mishaps = open_loop.wire.as_ref().map(HostileWire::happened).unwrap_or_default();
    open_loop.close();
    Ok(course)
}

impl OpenLoop<'_, '_> {
    fn run(&mut self, inbox: &Receiver<ReaderReport>, progress: &Progress) -> Course {
        let mut course = Course::default();
        let (mut shown, mut stopped_at) = (self.started, None);
        loop {
            let purchases = self.conversation.tally.counts.authorizations;
            self.send_due();
            let now = Instant::now();
            if self.conversation.tally.counts.authorizations != purchases {
                course.elapsed = now - self.started;
            }
            if progress.is_stopped() && stopped_at.is_none() {
                self.conversation.stop();
                stopped_at = Some(now);
            }
            self.conversation.expire(self.now_us());
            if now - shown >= SHOW_EVERY {
                shown = now;
                let in_flight = self.conversation.in_flight();
                progress.show(self.conversation.tally.snapshot(self.now_us(), in_flight));
            }
            if self.revive(now) >= GIVE_UP_AFTER {
                course.ended_early = Some("the connection was lost".to_owned());
                return course;
            }
            let is_over = stopped_at.is_some_and(|at| now - at >= STOP_GRACE);
            if is_over || !self.wait(inbox, stopped_at.is_some()) {
                return course;
            }
        }
    }

    /// Waits for news until the next message is due. False when nothing is left to do.
    fn wait(&mut self, inbox: &Receiver<ReaderReport>, is_stopped: bool) -> bool {
        let due_us = if is_stopped { None } else { self.conversation.next_due_us() };
        let held_us = self.wire.as_ref().and_then(HostileWire::next_due_us);
        let due_us = due_us.into_iter().chain(held_us).min();
        if due_us.is_none() && self.conversation.in_flight() == 0 {
            return false;
        }
        let until_due = due_us.map_or(WAIT_MAX, |due_us| {
            Duration::from_micros(due_us.saturating_sub(self.now_us())).min(WAIT_MAX)
        });
        match inbox.recv_timeout(until_due) {
            Ok(news) => {
                self.take_in(news);
                while let Ok(news) = inbox.try_recv() {
                    self.take_in(news);
                }
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        true
    }

    fn take_in(&mut self, news: ReaderReport) {
        match news {
            ReaderReport::Answers { answers, at } => {
                let now_us = self.now_us();
                let at_us = micros(at - self.started);
                for answer in answers {
                    self.conversation.answered_at(&answer, now_us, at_us);
                }
            }
            ReaderReport::Lost { lane, generation } => {
                if let Some(lane) = self.lanes.get_mut(lane).filter(|l| l.generation == generation)
                {
                    lane.connection = None;
                }
            }
        }
    }

    fn send_due(&mut self) {
        let now_us = self.now_us();
        while let Some(outgoing) = self.conversation.take_due(now_us) {
            match &mut self.wire {
                Some(wire) => wire.take(outgoing, now_us),
                None => self.pass(outgoing.lane, &outgoing.bytes),
            }
        }
        while let Some(passing) = self.wire.as_mut().and_then(|wire| wire.take_due(now_us)) {
            self.pass_with_mishap(&passing);
        }
        for lane in &mut self.lanes {
            lane.flush();
        }
    }

    /// Adds a message to those that its connection writes next.
    fn pass(&mut self, purchase: u64, bytes: &[u8]) {
        let at = self.place_of(purchase);
        if let Some(lane) = self.lanes.get_mut(at) {
            // The feed builds no message near the cap; one that were too long stays unsent.
            let _ = frame(&mut lane.outbox, bytes, &self.line.dialect);
        }
    }

    /// Does the same with bytes that are no message.
    fn pass_noise(&mut self, purchase: u64, noise: &[u8]) {
        let at = self.place_of(purchase);
        if let Some(lane) = self.lanes.get_mut(at) {
            // Noise that no length announces stays unsent.
            let _ = frame_noise(&mut lane.outbox, noise, &self.line.dialect);
        }
    }

    fn pass_with_mishap(&mut self, passing: &PassingMessage) {
        let PassingMessage { purchase, part, bytes, mishap, noise } = passing;
        match mishap {
            Some(Mishap::Noise) => self.pass_noise(*purchase, noise),
            Some(Mishap::Stranger) => self.send_stranger(noise),
            _ => {}
        }
        let at = self.place_of(*purchase);
        let begin = self.lanes.get(at).map_or(0, |lane| lane.outbox.len());
        self.pass(*purchase, bytes);
        let Some(lane) = self.lanes.get_mut(at) else { return };
        let is_carried = lane.connection.is_some();
        let departure = Departure { part: *part, mishap: *mishap, is_carried };
        self.conversation.departed(*purchase, departure);
        match mishap {
            Some(Mishap::Cut) => {
                lane.outbox.truncate(lane.outbox.len().midpoint(begin));
                lane.break_off();
            }
            Some(Mishap::Vanished) => lane.break_off(),
            Some(Mishap::Dribbled) => lane.dribble(),
            _ => {}
        }
    }

    /// A connection of its own that nobody hears of again.
    fn send_stranger(&self, noise: &[u8]) {
        let mut framed = Vec::new();
        if frame_noise(&mut framed, noise, &self.line.dialect).is_ok()
            && let Ok(mut stranger) = DoorConnection::open(&self.line)
        {
            // Whether the switch reads it or not is the stranger's risk.
            let _ = stranger.send_framed(&framed[..framed.len().div_ceil(2)]);
        }
    }

    /// The connection that carries the messages of a purchase.
    fn place_of(&self, purchase: u64) -> usize {
        let lanes = self.lanes.len() as u64;
        usize::try_from(purchase % lanes.max(1)).unwrap_or(0)
    }

    /// Opens broken connections again. Returns how long none has been open.
    fn revive(&mut self, now: Instant) -> Duration {
        for at in 0..self.lanes.len() {
            let lane = &mut self.lanes[at];
            if lane.connection.is_some() {
                self.last_alive = now;
            } else if now - lane.last_attempt >= RECONNECT_PAUSE {
                lane.last_attempt = now;
                if let Ok(connection) = DoorConnection::open(&self.line) {
                    lane.generation += 1;
                    let generation = lane.generation;
                    if self.start_reader(at, generation, &connection).is_ok() {
                        self.lanes[at].connection = Some(connection);
                    }
                }
            }
        }
        now - self.last_alive
    }

    fn add_lane(&mut self, connection: DoorConnection) -> io::Result<()> {
        let at = self.lanes.len();
        self.start_reader(at, 0, &connection)?;
        self.lanes.push(SendLane {
            connection: Some(connection),
            generation: 0,
            outbox: Vec::new(),
            last_attempt: self.started,
        });
        Ok(())
    }

    fn start_reader(
        &mut self,
        lane: usize,
        generation: u64,
        from: &DoorConnection,
    ) -> io::Result<()> {
        let (connection, news) = (from.split()?, self.news.clone());
        let reader = std::thread::Builder::new()
            .name(format!("feed-read-{lane}"))
            .spawn(move || read(connection, &news, ReaderReport::Lost { lane, generation }))?;
        self.readers.push(reader);
        Ok(())
    }

    fn close(self) {
        for lane in &self.lanes {
            lane.connection.iter().for_each(DoorConnection::close);
        }
        for reader in self.readers {
            // A reader that panicked has said so on stderr; the run is over either way.
            let _ = reader.join();
        }
    }

    fn now_us(&self) -> u64 {
        micros(self.started.elapsed())
    }
}

impl SendLane {
    /// Writes all due messages in one go. Messages for a broken connection are lost, as on a wire.
    fn flush(&mut self) {
        if self.outbox.is_empty() {
            return;
        }
        if let Some(connection) = &mut self.connection
            && connection.send_framed(&self.outbox).is_err()
        {
            connection.close();
            self.connection = None;
        }
        self.outbox.clear();
    }

    /// Writes what is due, and breaks the connection.
    fn break_off(&mut self) {
        self.flush();
        if let Some(connection) = self.connection.take() {
            connection.close();
        }
    }

    /// Writes what is due byte by byte, a packet each.
    fn dribble(&mut self) {
        for byte in std::mem::take(&mut self.outbox) {
            self.outbox.push(byte);
            self.flush();
        }
    }
}

/// Reads answers until the connection ends; hands over together what arrived together.
fn read(mut connection: DoorConnection, news: &Sender<ReaderReport>, lost: ReaderReport) {
    while let Ok(Some(first)) = connection.receive(None) {
        let at = Instant::now();
        let mut answers: Vec<AnswerFields> = AnswerFields::parse(&first).into_iter().collect();
        while let Ok(Some(message)) = connection.next_message() {
            answers.extend(AnswerFields::parse(&message));
        }
        if news.send(ReaderReport::Answers { answers, at }).is_err() {
            return;
        }
    }
    // The receiver is gone once the run is over.
    let _ = news.send(lost);
}

/// A duration in microseconds.
pub(super) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
