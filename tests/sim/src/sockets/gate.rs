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
        let Some(port) = envelopes.first().map(|envelope| Arc::clone(&envelope.port)) else {
            return Ok(());
        };
        let (mut renamed, passages) =
            (Vec::new(), envelopes.iter().map(|envelope| self.note(envelope)));
        let passages: Vec<_> = passages.collect();
        let first = self.book.lock().next_tag;
        let tags = envelopes.iter().map(|envelope| envelope.tag).collect();
        let book = Arc::clone(&self.book);
        let port: Arc<dyn ReplyPort> = Arc::new(GatePort { first, tags, inner: port, book });
        for (tag, envelope) in (first..).zip(envelopes) {
            renamed.push(Envelope { tag, port: Arc::clone(&port), ..envelope });
        }
        let taken = self.engine.submit(renamed);
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
    tags: Vec<u64>,
    inner: Arc<dyn ReplyPort>,
    book: Arc<Mutex<GateBook>>,
}

impl GatePort {
    fn note(&self, tag: u64, reply: &Reply) -> u64 {
        self.book.lock().replies.push_back((tag, reply.clone()));
        self.tags[(tag - self.first) as usize]
    }
}

impl ReplyPort for GatePort {
    fn deliver(&self, tag: u64, reply: Reply) {
        self.inner.deliver(self.note(tag, &reply), reply);
    }

    fn flush(&self) {
        self.inner.flush();
    }

    fn deliver_all(&self, replies: &mut Vec<(u64, Reply)>) {
        let note = |(tag, reply)| (self.note(tag, &reply), reply);
        self.inner.deliver_all(&mut replies.drain(..).map(note).collect());
    }
}
