//! The engine with all its threads, on files: order, waiting, bounds, restarts.

use std::collections::BTreeSet;
use std::sync::Arc;

use cardswitch_engine::clock::Stopwatch;
use cardswitch_engine::command::Command;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::reply::Reply;
use cardswitch_engine::data_directory::{DataDirectory, DirectoryError};
use cardswitch_engine::directory::allowance::{AllowanceChanges, AllowanceCommand};
use cardswitch_engine::domain::allowance::AllowanceTerms;
use cardswitch_engine::domain::business_date::Interval;
use cardswitch_engine::domain::ids::{AccountSlot, CardSlot, RecordSeq, Timestamp, TransactionSeq};
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::limits;
use cardswitch_engine::submission::{Envelope, ReplyPort, SubmitError};
use cardswitch_engine::verify::verify;
use crossbeam_channel::{Receiver, bounded};
use parking_lot::Mutex;

use crate::desk::{CARD, Desk, authorization, purchase};
use crate::model::{DAY, HOUR};
use crate::samples::{START, company_id, facts, new_card, pan};

fn proven(path: &std::path::Path) -> String {
    let found = verify(path).unwrap();
    let wrong: Vec<_> = found.figures.iter().filter(|figure| !figure.is_right()).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    found.state_hash.to_string()
}

#[test]
fn an_answer_is_durable_and_a_read_behind_it_shows_what_it_says() {
    let parent = tempfile::tempdir().unwrap();
    let desk = Desk::create(&parent.path().join("data"));
    let seq = desk.set_up_budget(10_000);
    assert!(desk.engine.durable_seq() >= seq);
    for mark in 1..=50 {
        let reply = authorization(desk.ask(purchase(100, mark)));
        assert!(reply.response_code.is_approved());
        assert_eq!(desk.engine.durable_seq(), RecordSeq(seq.0 + mark), "durable when answered");
        assert_eq!(reply.allowance_balance, Minor(10_000 - 100 * mark as i64));
    }
    let tables = desk.read();
    let card = tables.card(CardSlot(0)).unwrap().unwrap();
    assert_eq!(card.record.usage.spent, Minor(5_000));
    let account = tables.account(AccountSlot(0)).unwrap().unwrap();
    assert_eq!(account.balances.held, Minor(5_000));
    drop(tables);

    let changes = AllowanceChanges { amount: Some(Minor(77)), ..AllowanceChanges::default() };
    let allowance = new_card(CARD, 0, AllowanceTerms::budget(Minor(0))).allowance_id;
    desk.change(AdminCommand::Allowance(AllowanceCommand::Update(
        company_id(0),
        allowance,
        changes,
    )));
    let card = desk.read().card(CardSlot(0)).unwrap().unwrap();
    assert_eq!(card.record.terms.amount, Minor(77));
}

#[test]
fn times_that_go_back_change_no_order_and_no_period() {
    let parent = tempfile::tempdir().unwrap();
    let desk = Desk::create(&parent.path().join("data"));
    let mut terms = AllowanceTerms::budget(Minor(1_000));
    terms.interval = Interval::Daily;
    desk.set_up(terms);
    let asked = [START + DAY, START + 2 * DAY, START, START + DAY, START + 2 * DAY + 1, START];
    let replies: Vec<_> = (1..)
        .zip(asked)
        .map(|(mark, at)| authorization(desk.ask_at(at, purchase(300, mark))))
        .collect();
    let approved: Vec<_> = replies.iter().map(|reply| reply.response_code.number()).collect();
    // The first day takes one purchase; the second takes three, whatever time the later ones claim;
    // then the budget does not suffice.
    assert_eq!(approved, [0, 0, 0, 0, 1502, 1502]);
    let tables = desk.read();
    let times: Vec<_> = replies
        .iter()
        .map(|reply| tables.transaction(desk.seq_of(reply)).unwrap().unwrap())
        .map(|row| row.record.authorized_at)
        .collect();
    assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "{times:?}");
    assert!(desk.engine.clock.now() >= Timestamp(START + 2 * DAY));
}

/// Holds the committer's thread back until it is told to go on, then counts.
struct Gate {
    go: Receiver<()>,
    tags: Mutex<Vec<u64>>,
}

impl ReplyPort for Gate {
    fn deliver(&self, tag: u64, _reply: Reply) {
        // Answered once; afterwards the sender is gone and nobody waits any more.
        let _ = self.go.recv();
        self.tags.lock().push(tag);
    }
}

#[test]
fn beyond_the_bound_of_the_queue_commands_are_refused_and_never_happen() {
    let parent = tempfile::tempdir().unwrap();
    let desk = Desk::create(&parent.path().join("data"));
    desk.set_up_budget(Minor::AMOUNT_MAX.0);
    let (open, go) = bounded(0);
    let gate = Arc::new(Gate { go, tags: Mutex::default() });
    let mut taken = 0_u64;
    let refused = loop {
        let batch: Vec<_> = (taken..taken + 100)
            .map(|tag| {
                let port: Arc<dyn ReplyPort> = gate.clone();
                Envelope { command: purchase(1, tag).into(), tag, port }
            })
            .collect();
        match desk.engine.submit(batch) {
            Ok(()) => taken += 100,
            Err(error) => break error,
        }
        assert!(desk.engine.queued() <= limits::QUEUED_COMMANDS_MAX);
    };
    assert_eq!(refused, SubmitError::Overloaded);
    assert!(taken > limits::QUEUED_COMMANDS_MAX as u64 / 2);
    drop(open);
    // A question behind them all: when it is answered, so are they.
    while desk.try_ask(Command::Tick) == Err(SubmitError::Overloaded) {
        std::thread::yield_now();
    }
    let tags = gate.tags.lock().clone();
    assert_eq!(tags, (0..taken).collect::<Vec<_>>(), "each once, in order, and no refused one");
    let card = desk.read().card(CardSlot(0)).unwrap().unwrap();
    assert_eq!(card.record.usage.spent, Minor(taken as i64));
    assert_eq!(desk.engine.queued(), 0);
}

#[test]
fn a_batch_beyond_the_bound_passes_when_nothing_waits() {
    let parent = tempfile::tempdir().unwrap();
    let desk = Desk::create(&parent.path().join("data"));
    let len = limits::QUEUED_COMMANDS_MAX + 1;
    let batch: Vec<_> = (0..len).map(|_| desk.envelope(Command::Tick)).collect();
    desk.engine.submit(batch).unwrap();
    let tags: Vec<_> = (0..len).map(|_| desk.answers.recv().unwrap().0).collect();
    assert!(tags.windows(2).all(|pair| pair[0] < pair[1]));
    assert_eq!(desk.engine.submit(Vec::new()), Ok(()));
}

#[test]
fn a_restart_gives_the_same_state_and_goes_on_where_it_stopped() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("data");
    let desk = Desk::create(&path);
    let seq = desk.set_up_budget(1_000_000);
    let first = authorization(desk.ask_at(START + HOUR, purchase(400, 1)));
    drop(desk);
    let hash = proven(&path);

    let desk = Desk::open(&path);
    assert_eq!(desk.engine.durable_seq(), RecordSeq(seq.0 + 1));
    assert!(desk.engine.clock.now() >= Timestamp(START + HOUR), "time goes on from there");
    desk.engine.shut_down();
    drop(desk);
    assert_eq!(proven(&path), hash, "opening alone changes nothing");

    let desk = Desk::open(&path);
    let second = authorization(desk.ask(purchase(600, 2)));
    assert_eq!(second.allowance_balance, Minor(999_000));
    assert_eq!(desk.seq_of(&second), TransactionSeq(desk.seq_of(&first).0 + 1));
    let seqs: BTreeSet<_> = [&first, &second].map(|reply| desk.seq_of(reply)).into();
    let tables = desk.read();
    for seq in seqs {
        assert!(tables.transaction(seq).unwrap().is_some());
    }
    drop((tables, desk));
    assert_ne!(proven(&path), hash);
}

#[test]
fn shutting_down_twice_is_once_and_nothing_is_taken_after() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("data");
    let desk = Desk::create(&path);
    desk.set_up_budget(1_000);
    let late: Vec<_> = (1..=20).map(|mark| desk.envelope(purchase(1, mark))).collect();
    desk.engine.submit(late).unwrap();
    desk.engine.shut_down();
    assert_eq!(desk.answers.try_iter().count(), 20, "what was taken is answered");
    desk.engine.shut_down();
    assert_eq!(desk.try_ask(Command::Tick), Err(SubmitError::Stopped));
    assert_eq!(desk.engine.failure(), None);
    let applied = desk.engine.watermark.applied();
    assert_eq!(applied, desk.engine.durable_seq(), "the tables have everything");
    drop(desk);
    proven(&path);
}

#[test]
fn a_second_engine_on_the_same_directory_is_refused() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("data");
    let desk = Desk::create(&path);
    assert!(matches!(DataDirectory::open(&path), Err(DirectoryError::InUse(_))));
    assert!(matches!(DataDirectory::open_read_only(&path), Err(DirectoryError::InUse(_))));
    assert!(matches!(DataDirectory::create(&path, [4; 16]), Err(DirectoryError::Exists(_))));
    // A shut engine still owns its directory; a dropped one does not.
    desk.engine.shut_down();
    assert!(matches!(DataDirectory::open(&path), Err(DirectoryError::InUse(_))));
    drop(desk);
    DataDirectory::open(&path).unwrap();
}

/// Eight weeks pass: each Monday a new budget, each hold gone a week after it was taken.
#[test]
fn weeks_of_holds_and_resets_pass_in_virtual_time() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("data");
    let desk = Desk::create(&path);
    let mut terms = AllowanceTerms::budget(Minor(1_000));
    terms.interval = Interval::Weekly;
    let end = START + 56 * DAY;
    terms.ends_at = Timestamp(end);
    desk.set_up(terms);
    let stopwatch = Stopwatch::start();
    for week in 0..8_u64 {
        let at = START + week as i64 * 7 * DAY;
        let codes = [800, 300, 200].map(|amount| {
            let mark = week * 3 + amount as u64;
            authorization(desk.ask_at(at + amount, purchase(amount, mark))).response_code.number()
        });
        assert_eq!(codes, [0, 1502, 0], "week {week}");
        let card = desk.read().card(CardSlot(0)).unwrap().unwrap();
        assert_eq!(card.record.usage.spent, Minor(1_000));
        let account = desk.read().account(AccountSlot(0)).unwrap().unwrap();
        // The hold of 800 of a week before is due at this very instant, the other a little later.
        assert_eq!(account.balances.held, Minor(1_000), "week {week}");
    }
    assert_eq!(desk.ask_at(end, Command::Tick), Reply::Ticked);
    let at_the_end = authorization(desk.ask_at(end, purchase(1, 900)));
    assert_eq!(at_the_end.response_code.number(), 1501, "time only rises, so it is past the end");
    desk.ask_at(end + DAY, Command::Tick);
    let account = desk.read().account(AccountSlot(0)).unwrap().unwrap();
    assert_eq!(account.balances.held, Minor(0), "every hold has ended");
    assert_eq!(account.balances.ledger, Minor(1_000_000_000));
    println!("eight weeks took {:?}", stopwatch.elapsed());
    drop(desk);
    proven(&path);
}

/// Nothing adds up a merchant's name, so a flipped byte in one was not found.
#[test]
fn a_flipped_byte_in_the_tables_is_found() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("data");
    let desk = Desk::create(&path);
    desk.set_up_budget(1_000);
    desk.ask(purchase(1, 1));
    drop(desk);
    proven(&path);
    let file = path.join("store.redb");
    let name = facts(pan(CARD), 1, 1).merchant.name;
    let mut bytes = std::fs::read(&file).unwrap();
    let places: Vec<_> = bytes
        .windows(name.len())
        .enumerate()
        .filter(|(_, window)| *window == name.as_bytes())
        .map(|(at, _)| at)
        .collect();
    assert!(!name.is_empty() && !places.is_empty());
    for at in places {
        bytes[at] ^= 1;
    }
    std::fs::write(&file, bytes).unwrap();
    let found = verify(&path);
    assert!(!found.is_ok_and(|found| found.is_ok()), "the tables were changed");
}

/// A first start that was killed before the tables' file had any content left a directory that
/// could never be opened.
#[test]
fn tables_without_any_content_are_made_again() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("data");
    drop(DataDirectory::create(&path, [3; 16]).unwrap());
    std::fs::write(path.join("store.redb"), []).unwrap();
    let desk = Desk::open(&path);
    desk.set_up_budget(1_000);
    drop(desk);
    proven(&path);
}
