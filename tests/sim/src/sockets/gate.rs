//! The way of the simulated connections into the engine. Everything passes as it is; what passes is noted.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use cardswitch_acquiring::submit::Submit;
use cardswitch_engine::command::Command;
use cardswitch_engine::command::reply::Reply;
use cardswitch_engine::engine::Engine;
use cardswitch_engine::submission::{Envelope, ReplyPort, SubmitError};
use parking_lot::Mutex;

/// A command that a connection handed over.
#[derive(Clone)]
pub(super) struct Passage {
    /// The connection, by number.
    pub(super) line: u64,
    pub(super) command: Command,
}

/// Everything that passed, by tags of the whole world.
#[derive(Default)]
pub(super) struct GateBook {
    next_tag: u64,
    /// The commands without an answer.
    pub(super) sent: BTreeMap<u64, Passage>,
    /// Commands that the engine did not take.
    pub(super) refused: Vec<Passage>,
    /// Commands that were handed over since this was looked at.
    pub(super) news: Vec<u64>,
    /// Answers in the order in which they came.
    pub(super) replies: VecDeque<(u64, Reply)>,
}

/// The gate of one connection.
pub(super) struct Gate {
    pub(super) line: u64,
    pub(super) engine: Arc<Engine>,
    pub(super) book: Arc<Mutex<GateBook>>,
}

impl Submit for Gate {
    fn submit(&self, envelopes: Vec<Envelope>) -> Result<(), SubmitError> {
        let passages: Vec<_> = envelopes.iter().map(|envelope| self.note(envelope)).collect();
        let first = self.book.lock().next_tag;
        let ways_back = envelopes.iter().map(|envelope| (envelope.tag, Arc::clone(&envelope.port)));
        let (ways_back, book) = (ways_back.collect(), Arc::clone(&self.book));
        let port: Arc<dyn ReplyPort> = Arc::new(GatePort { first, ways_back, book });
        let renamed = (first..).zip(envelopes);
        let renamed =
            renamed.map(|(tag, envelope)| Envelope { tag, port: Arc::clone(&port), ..envelope });
        let taken = self.engine.submit(renamed.collect());
        let mut book = self.book.lock();
        if taken.is_err() {
            book.refused.extend(passages);
            return taken;
        }
        for (tag, passage) in (first..).zip(passages) {
            book.next_tag = tag + 1;
            book.news.push(tag);
            book.sent.insert(tag, passage);
        }
        taken
    }
}

impl Gate {
    fn note(&self, envelope: &Envelope) -> Passage {
        Passage { line: self.line, command: envelope.command.command.clone() }
    }
}

/// Takes the answers to one batch on to its connection, by the tags of the connection.
struct GatePort {
    first: u64,
    /// The tag and port of each command. A new key has a port of its own.
    ways_back: Vec<(u64, Arc<dyn ReplyPort>)>,
    book: Arc<Mutex<GateBook>>,
}

impl GatePort {
    fn way_back(&self, tag: u64) -> &(u64, Arc<dyn ReplyPort>) {
        &self.ways_back[(tag - self.first) as usize]
    }

    fn note(&self, tag: u64, reply: &Reply) {
        self.book.lock().replies.push_back((tag, reply.clone()));
    }
}

impl ReplyPort for GatePort {
    fn deliver(&self, tag: u64, reply: Reply) {
        self.note(tag, &reply);
        let (tag, port) = self.way_back(tag);
        port.deliver(*tag, reply);
    }

    fn flush(&self) {
        self.ways_back.iter().for_each(|(_, port)| port.flush());
    }

    fn deliver_all(&self, replies: &mut Vec<(u64, Reply)>) {
        let mut replies = replies.drain(..).peekable();
        // Those of one port come together, as they do without a gate.
        while let Some((tag, _)) = replies.peek() {
            let (_, port) = self.way_back(*tag);
            let mut together = Vec::new();
            let is_same = |(tag, _): &(u64, Reply)| Arc::ptr_eq(&self.way_back(*tag).1, port);
            while let Some((tag, reply)) = replies.next_if(is_same) {
                self.note(tag, &reply);
                together.push((self.way_back(tag).0, reply));
            }
            port.deliver_all(&mut together);
        }
    }
}
