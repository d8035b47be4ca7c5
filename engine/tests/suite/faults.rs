//! Storage that fails under a running engine: it stops and says so, and nothing that was answered
//! is lost when it is opened again.

use cardswitch_engine::clock::Clock;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::reply::{AuthorizationReply, Reply};
use cardswitch_engine::data_directory::DataDirectory;
use cardswitch_engine::domain::ids::{CardSlot, RecordSeq};
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::domain::transaction::TransactionFlags;
use cardswitch_engine::engine::{
    Engine, EngineOptions, EngineStorage, OpenError, Retention, Standby,
};
use cardswitch_engine::journal::testing::DiskFaultPlan;
use cardswitch_engine::journal::window::{
    AppendOutcome, ChainWindow, WindowError, WindowTip, WriterId,
};
use cardswitch_engine::journal::{BatchNumber, SealedBatch, StoredBatch};
use cardswitch_engine::steps::{StepOutcome, Steps};
use cardswitch_engine::submission::SubmitError;
use cardswitch_sim::disks::{Crash, Disks};

use crate::desk::{Desk, authorization, manual, options, purchase};
use crate::model::DAY;
use crate::rng::Rng;
use crate::samples::{START, admin};

fn desk(disks: &Disks, clock: Clock) -> (Desk, tempfile::TempDir) {
    desk_on(disks.storage(), clock)
}

fn desk_on(storage: EngineStorage, clock: Clock) -> (Desk, tempfile::TempDir) {
    let parent = tempfile::tempdir().unwrap();
    let directory = DataDirectory::create(&parent.path().join("data"), [5; 16]).unwrap();
    // Segments of 256 KiB, so that a run meets several.
    let options =
        EngineOptions { retention: Retention::Bytes(1 << 20), ..options(directory, clock) };
    (Desk::new(Engine::open_on(options, storage).unwrap()), parent)
}

/// Buys for 1 until the engine does not answer any more; returns what was approved.
fn buy_until_it_stops(desk: &Desk) -> Vec<AuthorizationReply> {
    let mut approved = Vec::new();
    for mark in 1..400 {
        match desk.try_ask(purchase(1, mark)) {
            Ok(Reply::OutcomeUnknown) | Err(SubmitError::Stopped) => break,
            Ok(reply) => approved.push(authorization(reply)),
            Err(error) => panic!("one purchase at a time is taken: {error}"),
        }
    }
    approved
}

/// Every approval is in the tables, once, and at most one more that nobody was told about.
fn check_nothing_is_lost(disks: &Disks, crash: Crash, approved: &[AuthorizationReply]) {
    let (desk, _parent) = desk(&disks.after(crash), manual());
    let tables = desk.read();
    let mut last = None;
    for reply in approved {
        let seq = desk.seq_of(reply);
        let row = tables.transaction(seq).unwrap().unwrap_or_else(|| panic!("{seq:?} is lost"));
        assert_eq!(Some(row.record.id), reply.transaction, "{crash:?}");
        assert!(last < Some(seq), "each one is another");
        last = Some(seq);
    }
    let spent = tables.card(CardSlot(0)).unwrap().unwrap().record.usage.spent;
    let told = Minor(approved.len() as i64);
    assert!(spent == told || spent == told + Minor(1), "{crash:?}: {spent:?} of {told:?}");
    drop(tables);
    // It goes on from there.
    let next = authorization(desk.ask(purchase(1, 1_000)));
    assert_eq!(next.allowance_balance, Minor(1_000_000 - 1) - spent);
}

fn crashes(seed: u64) -> [Crash; 4] {
    [
        Crash::Kill,
        Crash::PowerFailure,
        Crash::TornPowerFailure(seed),
        Crash::TornPowerFailure(seed + 1),
    ]
}

#[test]
fn a_journal_that_fails_stops_the_engine_and_loses_no_answer() {
    let mut rng = Rng::new(Rng::seed_from_environment());
    for round in 0..24_u64 {
        let nth = 1 + rng.below(60);
        let plan = match round % 4 {
            0 => DiskFaultPlan { fail_write: Some(nth), ..DiskFaultPlan::default() },
            1 => DiskFaultPlan { torn_write: Some((nth, 512)), ..DiskFaultPlan::default() },
            2 => DiskFaultPlan { fail_sync: Some(nth), ..DiskFaultPlan::default() },
            _ => DiskFaultPlan { fail_after_sync: Some(nth), ..DiskFaultPlan::default() },
        };
        let disks = Disks::default();
        let (desk, _parent) = desk(&disks, manual());
        desk.set_up_budget(1_000_000);
        disks.journal.plan(plan);
        let approved = buy_until_it_stops(&desk);
        assert!(approved.len() < 399, "the fault came: {plan:?}");
        assert_eq!(desk.try_ask(purchase(1, 999)), Err(SubmitError::Stopped), "{plan:?}");
        let failure = desk.engine.failure().unwrap();
        assert!(failure.starts_with("journal: "), "{failure}");
        desk.engine.shut_down();
        drop(desk);
        for crash in crashes(round) {
            println!("round {round}: {plan:?}, then {crash:?}");
            check_nothing_is_lost(&disks, crash, &approved);
        }
    }
}

#[test]
fn every_command_that_was_taken_before_the_failure_gets_an_answer() {
    let disks = Disks::default();
    let (desk, _parent) = desk(&disks, manual());
    desk.set_up_budget(1_000_000);
    disks.journal.plan(DiskFaultPlan { fail_sync: Some(1), ..DiskFaultPlan::default() });
    let mut taken = 0;
    for mark in 1..2_000 {
        match desk.engine.submit(vec![desk.envelope(purchase(1, mark))]) {
            Ok(()) => taken += 1,
            Err(error) => {
                assert_eq!(error, SubmitError::Stopped);
                break;
            }
        }
    }
    assert!(taken > 0);
    for _ in 0..taken {
        let (_, reply) = desk.answers.recv().unwrap();
        assert_eq!(reply, Reply::OutcomeUnknown, "nobody is told what may not be");
    }
    assert!(desk.answers.is_empty());
    desk.engine.shut_down();
}

#[test]
fn a_full_disk_stops_the_engine_and_says_so() {
    let disks = Disks::default();
    let (desk, _parent) = desk(&disks, manual());
    desk.set_up_budget(1_000_000);
    let disk_full_bytes = Some(disks.journal.bytes());
    disks.journal.plan(DiskFaultPlan { disk_full_bytes, ..DiskFaultPlan::default() });
    let approved = {
        let mut approved = Vec::new();
        for mark in 1..200_000 {
            match desk.try_ask(purchase(1, mark)) {
                Ok(Reply::OutcomeUnknown) | Err(SubmitError::Stopped) => break,
                other => approved.push(authorization(other.unwrap())),
            }
        }
        approved
    };
    let failure = desk.engine.failure().unwrap();
    assert!(failure.starts_with("journal: "), "{failure}");
    desk.engine.shut_down();
    drop(desk);
    for crash in crashes(1) {
        check_nothing_is_lost(&disks, crash, &approved);
    }
}

/// The tables stand still; purchases go on, and a restart brings the tables up to them.
#[test]
fn tables_that_fail_harm_no_authorization() {
    let disks = Disks::default();
    let (desk, _parent) = desk(&disks, manual());
    desk.set_up_budget(1_000_000);
    drop(desk.read());
    disks.store.plan(DiskFaultPlan { fail_write: Some(1), ..DiskFaultPlan::default() });
    let mut approved: Vec<_> =
        (1..100).map(|mark| authorization(desk.ask(purchase(1, mark)))).collect();
    // The last checkpoint meets the fault at the latest.
    while desk.engine.projection_failure().is_none() {
        approved.push(authorization(desk.ask(purchase(1, 100 + approved.len() as u64))));
    }
    let failure = desk.engine.projection_failure().unwrap();
    assert!(failure.starts_with("query tables: "), "{failure}");
    assert!(desk.engine.durable_seq() > RecordSeq(100));
    let change = desk.try_ask(admin(AdminCommand::SetNetworkKey([3; 32])));
    assert_eq!(change, Err(SubmitError::TablesStandStill));
    let lag = desk.engine.projection_lag();
    let behind = desk.engine.durable_seq().0 - desk.engine.watermark.applied().0;
    assert_eq!((lag.records, lag.age.is_zero()), (behind, behind == 0));
    desk.engine.shut_down();
    drop(desk);
    for crash in crashes(7) {
        check_nothing_is_lost(&disks, crash, &approved);
    }
}

/// A window that is not asked.
struct SilentWindow;

impl ChainWindow for SilentWindow {
    fn writer(&self) -> WriterId {
        WriterId(1)
    }

    fn append(&mut self, _: &WindowTip, _: &[SealedBatch]) -> Result<AppendOutcome, WindowError> {
        Err(WindowError::Closed)
    }

    fn tip(&mut self) -> Result<WindowTip, WindowError> {
        Err(WindowError::Closed)
    }

    fn read_from(&mut self, _: BatchNumber, _: usize) -> Result<Vec<StoredBatch>, WindowError> {
        Err(WindowError::Closed)
    }
}

/// Once, a node whose tables stood still followed on unseen, and took the lead, which it could not hold.
#[test]
fn tables_that_fail_end_the_following() {
    let disks = Disks::default();
    let (before, parent) = desk(&disks, manual());
    before.set_up_budget(1_000_000);
    for mark in 1..100 {
        before.ask(purchase(1, mark));
    }
    let killed = disks.after(Crash::Kill);
    drop(before);
    let directory = DataDirectory::open(&parent.path().join("data")).unwrap();
    let opened = Standby::open_parts(options(directory, manual()), killed.storage());
    let (mut standby, mut parts) = opened.unwrap();
    let tip = WindowTip { position: standby.tip(), writer: WriterId(1) };
    standby.catch_up_to(&tip, &mut SilentWindow).unwrap();
    killed.store.plan(DiskFaultPlan { fail_sync: Some(1), ..DiskFaultPlan::default() });
    parts.projector.stop();
    while parts.projector.step() != StepOutcome::Ended {}
    let failed = standby.catch_up_to(&tip, &mut SilentWindow).unwrap_err();
    assert!(matches!(failed, OpenError::Tables(_)), "{failed}");
}

/// Tables that cannot be read any more: two hours later the shard stopped, since it knew no later ends of holds.
#[test]
fn tables_that_cannot_be_read_stop_nothing_and_holds_end_after_a_restart() {
    let disks = Disks::default();
    let (before, _parent) = desk(&disks, manual());
    before.set_up_budget(1_000_000);
    let bought: Vec<_> =
        (1..100).map(|mark| before.seq_of(&authorization(before.ask(purchase(1, mark))))).collect();
    before.engine.shut_down();
    drop(before);
    let (failing, _parent) = desk_on(disks.storage_with(0), manual());
    disks.store.plan(DiskFaultPlan { fail_read: Some(1), ..DiskFaultPlan::default() });
    let spent = |reply| Minor(1_000_000) - authorization(reply).allowance_balance;
    for day in 1..10 {
        let reply = failing.ask_at(START + day * DAY, purchase(1, 100 + day as u64));
        assert_eq!(spent(reply), Minor(99 + day), "no hold has ended on day {day}");
    }
    assert_eq!(failing.engine.failure(), None);
    failing.engine.shut_down();
    drop(failing);
    let (after, _parent) = desk(&disks.after(Crash::Kill), manual());
    assert_eq!(
        spent(after.ask(purchase(1, 200))),
        Minor(9 - 2 + 1),
        "all that were due have ended"
    );
    let tables = after.read();
    let ended = |seq| tables.transaction(seq).unwrap().unwrap().progress.flags;
    assert!(bought.iter().all(|seq| ended(*seq).contains(TransactionFlags::HOLD_EXPIRED)));
}

/// Once, a start that could not make tables left empty ones in the place of those that were lost.
#[test]
fn tables_are_not_made_of_a_journal_without_its_beginning() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("data");
    drop(DataDirectory::create(&path, [5; 16]).unwrap());
    let open = || {
        let directory = DataDirectory::open(&path).unwrap();
        let retention = Retention::Bytes(1 << 20);
        Engine::open(EngineOptions { retention, ..options(directory, manual()) })
    };
    let desk = Desk::new(open().unwrap());
    desk.set_up_budget(1_000_000);
    let mut marks = 1..;
    // The journal is trimmed at a checkpoint of the tables, which come from time to time.
    while path.join("journal/0000000000000001.segment").exists() {
        for mark in marks.by_ref().take(2_000) {
            desk.try_ask(purchase(1, mark)).unwrap();
        }
    }
    drop(desk);
    let (store, aside) = (path.join("store.redb"), path.join("aside"));
    std::fs::rename(&store, &aside).unwrap();
    for is_empty in [false, true] {
        if is_empty {
            std::fs::write(&store, "").unwrap();
        }
        let refused = open().unwrap_err().to_string();
        assert!(refused.contains("trimmed") && refused.contains("`--journal`"), "{refused}");
        assert_eq!(std::fs::metadata(&store).map(|found| found.len()).ok(), is_empty.then_some(0));
        assert!(!path.join("store.redb.new").exists());
    }
    std::fs::rename(&aside, &store).unwrap();
    open().unwrap();
}

/// A page in disorder makes redb panic: a start ended with a backtrace in place of words.
#[test]
fn a_damaged_page_of_names_in_the_tables_refuses_a_start_in_words() {
    let disks = Disks::default();
    let (desk, parent) = desk(&disks, manual());
    desk.set_up_budget(1_000_000);
    drop(desk);
    let kept = disks.after(Crash::Kill);
    let content = kept.store.content();
    let name = b"transaction_blocks";
    let places = content.windows(name.len()).enumerate().filter(|(_, bytes)| bytes == name);
    let damaged = kept.after(Crash::Kill);
    // No text begins so.
    places.for_each(|(place, _)| damaged.store.flip(place, 0x80));
    let directory = DataDirectory::open(&parent.path().join("data")).unwrap();
    let refused = Engine::open_parts(options(directory, manual()), damaged.storage());
    let words = refused.unwrap_err().to_string();
    assert_eq!(words, "query tables: the store's file is damaged: its pages are in disorder");
}
