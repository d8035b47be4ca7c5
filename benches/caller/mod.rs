//! An engine on a disk, and one caller of it that keeps so many requests in flight.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cardswitch_engine::clock::Clock;
use cardswitch_engine::command::Command;
use cardswitch_engine::command::reply::{NetworkReply, Reply};
use cardswitch_engine::directory::DataDirectory;
use cardswitch_engine::domain::card::PanHash;
use cardswitch_engine::engine::{Engine, EngineOptions, Retention};
use cardswitch_engine::shard::CacheLimits;
use cardswitch_engine::store::Pacing;
use cardswitch_engine::submission::{Envelope, ReplyPort};
use tempfile::TempDir;

use crate::program::founding;

/// Commands in flight while a program is founded.
const FOUNDING_WINDOW: usize = 512;

/// A directory on the disk that `TMPDIR` names; gone with the value.
#[must_use]
pub fn temporary_directory() -> TempDir {
    let directory = tempfile::tempdir();
    // INVARIANT: a bench without a disk has nothing to say.
    #[expect(clippy::expect_used, reason = "the bench cannot go on")]
    directory.expect("a temporary directory can be made")
}

/// Opens an engine in a new data directory below `parent`, and founds a program in it.
/// Panics: if it cannot; a bench without an engine has nothing to say.
#[must_use]
#[expect(clippy::expect_used, reason = "a bench without an engine has nothing to say")]
pub fn open_program(parent: &Path, cards: u64, pan_hash: impl Fn(u64) -> PanHash) -> Engine {
    let directory = DataDirectory::create(&parent.join("data"), [3; 16]);
    let engine = Engine::open(EngineOptions {
        directory: directory.expect("the directory is new"),
        id_key: [7; 16],
        clock: Clock::System,
        retention: Retention::Forever,
        pacing: Pacing::default(),
        caches: CacheLimits::default(),
    })
    .expect("a new directory can be opened");
    let mut commands = founding(cards, pan_hash);
    keep_in_flight(&engine, FOUNDING_WINDOW, cards + 1, || commands.next(), &mut |reply, _| {
        assert!(matches!(reply, Reply::Done(_)), "the program is founded: {reply:?}");
    });
    engine
}

/// Sends `count` commands, at most `window` of them unanswered at a time.
pub fn keep_in_flight(
    engine: &Engine,
    window: usize,
    count: u64,
    mut next: impl FnMut() -> Option<Command>,
    answered: &mut dyn FnMut(Reply, Duration),
) {
    let answers = Arc::new(Answers::default());
    let mut sent_at: Vec<Instant> = vec![Instant::now(); window];
    let (mut sent, mut received) = (0, 0);
    let mut free: Vec<usize> = (0..window).collect();
    let mut taken = Vec::new();
    while received < count {
        let mut envelopes = Vec::with_capacity(free.len());
        while sent < count
            && let Some(place) = free.pop()
        {
            let Some(command) = next() else { break };
            let port: Arc<dyn ReplyPort> = answers.clone();
            envelopes.push(Envelope { command: command.into(), tag: place as u64, port });
            sent += 1;
        }
        let now = Instant::now();
        for envelope in &envelopes {
            sent_at[place_of(envelope.tag)] = now;
        }
        let submitted = engine.submit(envelopes);
        assert!(submitted.is_ok(), "the window is within the engine's bounds: {submitted:?}");
        answers.wait_and_take(&mut taken);
        let now = Instant::now();
        for (tag, reply) in taken.drain(..) {
            let place = place_of(tag);
            answered(reply, now - sent_at[place]);
            free.push(place);
            received += 1;
        }
    }
}

fn place_of(tag: u64) -> usize {
    usize::try_from(tag).unwrap_or(usize::MAX)
}

/// Whether a purchase was approved.
#[must_use]
pub fn is_approved(reply: &Reply) -> bool {
    matches!(reply, Reply::Network(NetworkReply::Authorization(reply))
        if reply.response_code.is_approved())
}

/// Gathers answers on the committer's thread for one waiting caller.
#[derive(Default)]
struct Answers {
    arrived: Mutex<Vec<(u64, Reply)>>,
    news: Condvar,
}

impl Answers {
    fn wait_and_take(&self, taken: &mut Vec<(u64, Reply)>) {
        let arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        let arrived = self.news.wait_while(arrived, |arrived| arrived.is_empty());
        std::mem::swap(&mut *arrived.unwrap_or_else(PoisonError::into_inner), taken);
    }
}

impl ReplyPort for Answers {
    fn deliver(&self, tag: u64, reply: Reply) {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner).push((tag, reply));
    }

    fn flush(&self) {
        self.news.notify_one();
    }
}
