//! Commands that their callers decide themselves, on the system's clock: order, timers, the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread::{self, ThreadId};

use cardswitch_engine::clock::Clock;
use cardswitch_engine::command::Command;
use cardswitch_engine::command::reply::Reply;
use cardswitch_engine::data_directory::DataDirectory;
use cardswitch_engine::domain::allowance::AllowanceTerms;
use cardswitch_engine::domain::card::CardState;
use cardswitch_engine::domain::ids::{CardSlot, Timestamp};
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::engine::Engine;
use cardswitch_engine::submission::{Envelope, ReplyPort, SubmitError};
use cardswitch_engine::verify::verify;
use crossbeam_channel::{Sender, unbounded};

use crate::desk::{Desk, authorization, options, purchase};
use crate::model::DAY;
use crate::samples::START;

/// A desk at a new directory, by the system's clock.
fn desk_by_the_clock(parent: &tempfile::TempDir) -> Desk {
    let directory = DataDirectory::create(&parent.path().join("data"), [3; 16]).unwrap();
    Desk::new(Engine::open(options(directory, Clock::System)).unwrap())
}

/// Tells the thread on which an answer came.
struct ThreadPort(Sender<ThreadId>);

impl ReplyPort for ThreadPort {
    fn deliver(&self, _tag: u64, _reply: Reply) {
        self.0.send(thread::current().id()).unwrap();
    }
}

#[test]
fn a_shard_at_rest_is_stepped_by_its_caller() {
    let parent = tempfile::tempdir().unwrap();
    let desk = desk_by_the_clock(&parent);
    desk.set_up_budget(10_000);
    let (threads, answered) = unbounded();
    let port: Arc<dyn ReplyPort> = Arc::new(ThreadPort(threads));
    let answered_here = (0..100).filter(|mark| {
        let envelope =
            Envelope { command: purchase(1, *mark).into(), tag: 0, port: Arc::clone(&port) };
        desk.engine.submit(vec![envelope]).unwrap();
        answered.recv().unwrap() == thread::current().id()
    });
    // Now and then a thread of the engine is at its upkeep.
    assert!(answered_here.count() > 0);
}

#[test]
fn callers_that_take_turns_lose_nothing_and_exceed_nothing() {
    const CALLERS: u64 = 6;
    const EACH: u64 = 300;
    let parent = tempfile::tempdir().unwrap();
    let desk = desk_by_the_clock(&parent);
    // One purchase fewer than they make is covered.
    let budget = (CALLERS * EACH - 1) as i64;
    let seq = desk.set_up_budget(budget);
    let declined: usize = thread::scope(|scope| {
        let callers: Vec<_> = (0..CALLERS)
            .map(|caller| {
                let own = Desk::at(Arc::clone(&desk.engine));
                scope.spawn(move || {
                    let marks = caller * EACH..(caller + 1) * EACH;
                    let replies = marks.map(|mark| authorization(own.ask(purchase(1, mark))));
                    replies.filter(|reply| !reply.response_code.is_approved()).count()
                })
            })
            .collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).sum()
    });
    assert_eq!(declined, 1, "whichever came last");
    assert_eq!(desk.engine.durable_seq().0, seq.0 + CALLERS * EACH, "a record each");
    let card = desk.read().card(CardSlot(0)).unwrap().unwrap();
    assert_eq!(card.record.usage.spent, Minor(budget));
    assert_eq!(desk.engine.queued(), 0);
    drop(desk);
    assert!(verify(&parent.path().join("data")).unwrap().is_ok());
}

#[test]
fn what_a_caller_makes_due_happens_without_a_further_command() {
    let parent = tempfile::tempdir().unwrap();
    let desk = desk_by_the_clock(&parent);
    let mut terms = AllowanceTerms::budget(Minor(1_000));
    // The shard's thread sleeps without an end, as nothing is due before this.
    terms.ends_at = desk.engine.clock.now().plus(Timestamp::SECOND / 4);
    desk.set_up(terms);
    let card = || desk.read().card(CardSlot(0)).unwrap().unwrap();
    while card().record.usage.state != CardState::Suspended {
        thread::yield_now();
    }
    assert!(desk.engine.clock.now() >= terms.ends_at);
}

/// Breaks the invariant of ports.
struct PanickingPort;

impl ReplyPort for PanickingPort {
    fn deliver(&self, _tag: u64, _reply: Reply) {
        panic!("a port that breaks, on purpose");
    }
}

#[test]
fn a_shard_that_breaks_off_in_a_callers_turn_is_gone_for_everybody() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("data");
    let desk = desk_by_the_clock(&parent);
    desk.set_up_budget(1_000);
    let engine = Arc::clone(&desk.engine);
    let port: Arc<dyn ReplyPort> = Arc::new(PanickingPort);
    // The thread that delivers ends by the panic: nearly always the caller's, else one of the engine.
    let caller = thread::spawn(move || {
        engine.submit(vec![Envelope { command: purchase(1, 1).into(), tag: 0, port }])
    });
    drop(caller.join());
    while desk.engine.failure().is_none() {
        // The shard learns from its next command that the committer is gone, if that delivered.
        if desk.engine.queued() == 0 {
            let _ = desk.engine.submit(vec![desk.envelope(Command::Tick)]);
        }
        thread::yield_now();
    }
    assert_eq!(desk.try_ask(Command::Tick), Err(SubmitError::Stopped));
    desk.engine.shut_down();
    drop(desk);
    assert!(verify(&path).unwrap().is_ok(), "what was committed stays");
}

/// A clock that was once years ahead left cards that declined as expired and days that never turned, without a sign.
#[test]
fn a_clock_behind_the_newest_record_is_told_also_after_a_restart() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("data");
    let leap_us = 14 * 365 * DAY;
    let time = Arc::new(AtomicI64::new(START));
    let desk_at = |directory| {
        let clock = Clock::Simulated(Arc::clone(&time));
        Desk::new(Engine::open(options(directory, clock)).unwrap())
    };
    let desk = desk_at(DataDirectory::create(&path, [3; 16]).unwrap());
    time.store(START + leap_us, Ordering::Release);
    desk.set_up_budget(1_000);
    assert_eq!(desk.engine.clock_behind(), None);
    time.store(START, Ordering::Release);
    let is_told = |desk: &Desk| {
        let behind = desk.engine.clock_behind().unwrap();
        (behind.as_micros() - u128::from(leap_us.unsigned_abs())) < 1_000
    };
    assert!(is_told(&desk));
    desk.engine.shut_down();
    drop(desk);
    let desk = desk_at(DataDirectory::open(&path).unwrap());
    assert!(is_told(&desk));
    time.store(START + leap_us, Ordering::Release);
    assert_eq!(desk.engine.clock_behind(), None, "it has caught up");
}
