//! What stays in memory while the tables are asked, and what becomes of holds that they cannot give.

use std::sync::atomic::AtomicI64;

use parking_lot::Mutex;

use super::*;
use crate::command::NewTransaction;
use crate::command::effect::RememberedAnswer;
use crate::command::network::{
    AuthorizationKind, Authorize, CardRef, MessageAmounts, NetworkCommand, NetworkRequest,
    OriginalRef, PartialApproval, Present, PresentmentNumber, PurchaseFacts,
};
use crate::command::reply::NetworkReply;
use crate::domain::card::MaskedPan;
use crate::domain::credential::PresentedCredentials;
use crate::domain::ids::{LineSeq, TransactionId, TransactionSeq};
use crate::domain::merchant::Merchant;
use crate::domain::network_key::{DuplicateKey, DuplicateWindow, Fingerprint, NetworkTrace};
use crate::loader::{PlacedAnswers, Recall};
use crate::shard::{AnswerPlace, CacheLimits, LoadedTransaction, PurchaseKey};
use crate::store::query::DueHolds;

/// Tables that nobody can read.
struct BrokenTables;

impl RecallSource for BrokenTables {
    fn snapshot(&self) -> Result<Box<dyn Recall + '_>, RecallError> {
        Err(RecallError("the disk is gone".to_owned()))
    }
}

/// Shard and loader asked and answered each other as fast as they could, for as long as the tables were
/// broken.
#[test]
fn broken_tables_are_asked_for_timers_once_a_second() {
    let time = Arc::new(AtomicI64::new(NOON.0));
    let mut state = ShardState::default();
    state.learn_timers(&due_until(NOON.plus(Timestamp::MINUTE), &[]), RecordSeq(1));
    let clock = Clock::Simulated(Arc::clone(&time));
    let watermark = Arc::new(Watermark::new(RecordSeq(1)));
    let tables: Tables = (Arc::new(BrokenTables), watermark, Arc::default());
    let (mut shard, _committed, _edges) = shard_over(state, clock, Some(tables));
    let mut asked = 0;
    for half_second in 0..5 {
        time.store(NOON.plus(half_second * Timestamp::SECOND / 2).0, Ordering::Release);
        for _ in 0..100 {
            shard.step();
            asked += u32::from(shard.step_loader() == StepOutcome::Worked);
        }
        assert_eq!(i64::from(asked), half_second / 2 + 1, "after {half_second} half seconds");
    }
}

/// Tables with these transactions.
#[derive(Clone, Default)]
struct RowTables {
    rows: Arc<Mutex<Vec<LoadedTransaction>>>,
    fault: Arc<Mutex<TableFault>>,
}

/// The fault of the tables.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum TableFault {
    #[default]
    None,
    /// Nobody can read them.
    Unreadable,
    /// The row of a transaction is on a page in disorder.
    PageOf(TransactionSeq),
    /// The row of a transaction is damaged.
    RowOf(TransactionSeq),
}

impl RecallSource for RowTables {
    fn snapshot(&self) -> Result<Box<dyn Recall + '_>, RecallError> {
        match *self.fault.lock() {
            TableFault::Unreadable => Err(RecallError("the disk is gone".to_owned())),
            _ => Ok(Box::new(self.clone())),
        }
    }
}

impl Recall for RowTables {
    fn transaction(&self, seq: TransactionSeq) -> Result<Option<LoadedTransaction>, RecallError> {
        assert!(*self.fault.lock() != TableFault::PageOf(seq), "pages in disorder make redb panic");
        Ok(self.rows.lock().iter().find(|row| row.record.seq == seq).cloned())
    }

    fn answer_at(&self, _place: AnswerPlace) -> Result<Option<RememberedAnswer>, RecallError> {
        Ok(None)
    }

    fn owner(&self, _key: PurchaseKey) -> Result<Option<LoadedTransaction>, RecallError> {
        Ok(None)
    }

    fn answers_to(&self, _message: &Fingerprint) -> Result<PlacedAnswers, RecallError> {
        Ok(Vec::new())
    }

    fn holds_due(&self, after: Timestamp, until: Timestamp) -> Result<DueHolds, RecallError> {
        let rows = self.rows.lock();
        let ends = rows.iter().map(|row| (row.record.seq, row.progress.hold_expires_at));
        let due = ends.filter(|(_, end)| after < *end && *end <= until);
        let fault = *self.fault.lock();
        let (lost, holds): (Vec<_>, _) = due.partition(|(seq, _)| fault == TableFault::RowOf(*seq));
        let unreadable = lost.into_iter().map(|(seq, _)| seq).collect();
        Ok(DueHolds { holds, until, unreadable })
    }
}

fn due_until(until: Timestamp, holds: &[(TransactionSeq, Timestamp)]) -> DueHolds {
    DueHolds { holds: holds.to_vec(), until, ..DueHolds::default() }
}

/// A shard with little memory over such tables, and those who send it commands.
struct SmallShard {
    shard: Shard,
    committed: Inbox<CommitRequest<ReplyBatch>>,
    edges: InboxSender<Submission>,
    time: Arc<AtomicI64>,
    tables: RowTables,
    watermark: Arc<Watermark>,
    late_holds: Arc<LateHolds>,
    /// Transactions of the journal that the tables do not have.
    unprojected: Vec<LoadedTransaction>,
}

/// A state with one card that keeps as little in memory as it may.
fn small_state() -> ShardState {
    let limits = CacheLimits {
        recent_transactions: 1,
        loaded_transactions: CacheLimits::LOADED_MIN,
        answers: 1,
        message_keys: 1,
        unseen_changes: 1,
    };
    with_cards(ShardState::with_limits(limits), 1, Timestamp::MAX)
}

struct Nobody;

impl ReplyPort for Nobody {
    fn deliver(&self, _tag: u64, _reply: Reply) {}
}

impl SmallShard {
    fn at_noon() -> Self {
        let state = small_state();
        let (time, tables) = (Arc::new(AtomicI64::new(NOON.0)), RowTables::default());
        let watermark = Arc::new(Watermark::new(RecordSeq(1)));
        let late_holds = Arc::<LateHolds>::default();
        let wired: Tables =
            (Arc::new(tables.clone()), Arc::clone(&watermark), Arc::clone(&late_holds));
        let clock = Clock::Simulated(Arc::clone(&time));
        let (shard, committed, edges) = shard_over(state, clock, Some(wired));
        let unprojected = Vec::new();
        Self { shard, committed, edges, time, tables, watermark, late_holds, unprojected }
    }

    /// Three of them are in the tables; returns the second one, too.
    fn with_four_purchases() -> (Self, TransactionSeq) {
        let mut small = Self::at_noon();
        for key in 1..=3 {
            small.purchase(NOON, key);
        }
        let second = small.unprojected[1].record.seq;
        small.project();
        small.purchase(NOON, 4);
        (small, second)
    }

    fn send(&self, at: Timestamp, key: u64, command: NetworkCommand) {
        self.time.store(at.0, Ordering::Release);
        let fingerprint = Some(Fingerprint {
            key: DuplicateKey(key.into()),
            trace: None,
            content: key,
            window: DuplicateWindow::Day,
        });
        let command = Command::Network(Box::new(NetworkRequest { command, fingerprint })).into();
        let envelope = Envelope { command, tag: key, port: Arc::new(Nobody) };
        self.edges.send(Submission::now(vec![envelope])).unwrap();
    }

    /// One step of the shard, and its answers.
    fn step(&mut self) -> Vec<Reply> {
        self.shard.step();
        let mut answers = Vec::new();
        while let Ok(request) = self.committed.try_take() {
            for record in records(request.records.records()) {
                for effect in record.unwrap().effects {
                    if let Effect::Transaction(made) = effect {
                        let NewTransaction { record, progress, .. } = *made;
                        self.unprojected.push(LoadedTransaction { record, progress });
                    }
                }
            }
            let replies = request.releases.into_iter().flat_map(|batch| batch.replies);
            answers.extend(replies.map(|(_, _, reply)| reply));
        }
        answers
    }

    /// The tables take in all there is.
    fn project(&mut self) {
        self.tables.rows.lock().append(&mut self.unprojected);
        self.watermark.publish(self.shard.state.last_seq());
    }

    fn purchase(&mut self, at: Timestamp, key: u64) -> TransactionId {
        let authorize = Authorize {
            facts: facts(),
            kind: AuthorizationKind::Purchase,
            credentials: PresentedCredentials::default(),
            partial: PartialApproval::NotTaken,
        };
        self.send(at, key, NetworkCommand::Authorize(authorize));
        let mut answers = self.step();
        self.shard.step_loader();
        answers.extend(self.step());
        match &answers[..] {
            [Reply::Network(NetworkReply::Authorization(reply))] => reply.transaction.unwrap(),
            other => panic!("one answer: {other:?}"),
        }
    }
}

fn facts() -> PurchaseFacts {
    PurchaseFacts {
        card: CardRef::Pan(PanHash(1), MaskedPan::default()),
        amounts: MessageAmounts { amount: Minor(100), currency: None, billing: None },
        merchant: Merchant::default(),
        trace: NetworkTrace::default(),
    }
}

fn presentment(named: TransactionId) -> NetworkCommand {
    NetworkCommand::Present(Present {
        facts: Some(facts()),
        amounts: Some(facts().amounts),
        original: OriginalRef { transaction: Some(named), ..OriginalRef::default() },
        number: PresentmentNumber::ONLY,
    })
}

/// The loader's thread ended at a row that made redb panic, and nobody noticed: commands that needed the tables
/// waited for ever, later ones behind them, and so did the stop.
#[test]
fn a_page_in_disorder_or_a_loader_that_is_gone_leaves_no_command_waiting() {
    let mut small = SmallShard::at_noon();
    let named = small.purchase(NOON, 1);
    let seq = small.unprojected[0].record.seq;
    small.purchase(NOON, 2);
    small.purchase(NOON, 3);
    small.project();
    small.purchase(NOON, 4);
    *small.tables.fault.lock() = TableFault::PageOf(seq);
    small.send(NOON, 5, presentment(named));
    assert_eq!(small.step(), [], "it waits for the tables");
    small.shard.step_loader();
    assert_eq!(small.step(), [Reply::OutcomeUnknown]);
    *small.tables.fault.lock() = TableFault::None;
    drop(small.shard.give_out_loader());
    small.send(NOON, 6, presentment(named));
    assert_eq!(small.step(), [], "it was put aside");
    assert_eq!(small.step(), [Reply::OutcomeUnknown]);
    assert!(small.shard.questions.evictable_until() > RecordSeq(1), "memory does not pile up");
}

/// Two hours after the tables failed, the shard stopped: it knew no later ends of holds. One hold on a page in
/// disorder stopped it too, at each start.
#[test]
fn holds_that_the_tables_cannot_give_end_late_and_stop_nobody() {
    let (mut small, damaged) = SmallShard::with_four_purchases();
    let held = |small: &SmallShard| small.shard.state.balances(AccountSlot(0)).held;
    *small.tables.fault.lock() = TableFault::Unreadable;
    let late = NOON.plus(7 * Timestamp::DAY + Timestamp::MINUTE);
    small.time.store(late.0, Ordering::Release);
    assert!(matches!(take(&mut small.shard, late, &set_network_key()), Reply::Done(_)));
    assert_eq!(held(&small), Minor(400), "no hold has ended");
    *small.tables.fault.lock() = TableFault::PageOf(damaged);
    small.time.store(late.plus(2 * Timestamp::SECOND).0, Ordering::Release);
    for _ in 0..2 {
        small.step();
        small.shard.step_loader();
    }
    assert_eq!(held(&small), Minor(100), "all others have ended");
    assert_eq!(small.shard.state.next_due(), None);
    assert_eq!(small.shard.state.last_at(), late, "late, and after what was before");
}

/// One damaged row kept all holds from ending, and the next start knew nothing of it.
#[test]
fn a_damaged_row_keeps_its_own_hold_alone_and_is_noted_until_it_can_be_read() {
    let (mut small, damaged) = SmallShard::with_four_purchases();
    *small.tables.fault.lock() = TableFault::RowOf(damaged);
    let week_later = NOON.plus(7 * Timestamp::DAY + Timestamp::MINUTE);
    small.time.store(week_later.0, Ordering::Release);
    assert!(matches!(take(&mut small.shard, week_later, &set_network_key()), Reply::Done(_)));
    assert_eq!(small.shard.state.balances(AccountSlot(0)).held, Minor(100));
    assert_eq!(small.shard.state.holds_put_off().collect::<Vec<_>>(), [damaged]);
    let late_holds = Arc::clone(&small.late_holds);
    assert_eq!((late_holds.are_any(), late_holds.since()), (true, None));
    // The start after the tables were restored.
    *small.tables.fault.lock() = TableFault::None;
    let mut state = small.shard.state.clone();
    state.expect_late_holds_from(week_later);
    let (mut shard, _committed, _edges) = shard_over(
        state,
        Clock::Simulated(Arc::clone(&small.time)),
        Some((Arc::new(small.tables.clone()), Arc::clone(&small.watermark), late_holds)),
    );
    shard.run_due_timers(week_later.plus(1));
    assert_eq!(shard.state.balances(AccountSlot(0)).held, Minor(0));
    assert!(!small.late_holds.are_any());
}

/// A start read all transactions of history for holds that are late, and the shard waited.
#[test]
fn holds_are_late_since_the_checkpoint_at_most_and_never_with_a_leader() {
    let limits = CacheLimits::default();
    let mut state = ShardState::with_limits(limits);
    state.resume_from(RecordSeq(7), NOON, TransactionSeq(3), LineSeq(2));
    state.go_live();
    assert_eq!(state.timers_known_until(), NOON.plus(-1));
    let later = NOON.plus(Timestamp::HOUR);
    state.apply_record(RecordSeq(8), later, &[]);
    assert_eq!(state.timers_known_until(), NOON.plus(-1));
    state.expect_few_late_holds(None);
    assert_eq!(state.timers_known_until(), later.plus(-1));
}

/// The presentment was posted as a purchase of its own, beside the hold: timers that ran before it loaded rows, and
/// for these the purchase that it names left memory, which the tables did not have when they were asked.
#[test]
fn timers_before_a_waiting_command_push_out_nothing_that_its_answer_lacks() {
    let mut small = SmallShard::at_noon();
    small.purchase(NOON, 1);
    small.purchase(NOON.plus(Timestamp::SECOND), 2);
    small.project();
    let week_later = NOON.plus(7 * Timestamp::DAY - Timestamp::MINUTE);
    let named = small.purchase(week_later, 3);
    small.purchase(week_later, 4);
    small.send(week_later, 5, presentment(named));
    assert_eq!(small.step(), [], "it waits for the tables");
    small.shard.step_loader();
    small.project();
    small.time.store(NOON.plus(7 * Timestamp::DAY + Timestamp::MINUTE).0, Ordering::Release);
    match &small.step()[..] {
        [Reply::Network(NetworkReply::Posting(reply))] => {
            assert_eq!(reply.transaction, Some(named));
        }
        other => panic!("one answer: {other:?}"),
    }
}

/// The hold never ended: the journal's tail had moved its end, the tables had not, and its row was loaded before its
/// new end was asked for.
#[test]
fn a_hold_ends_when_the_journal_says_after_its_older_row_was_loaded() {
    let mut small = SmallShard::at_noon();
    small.purchase(NOON, 1);
    let stored = small.unprojected.remove(0);
    let (seq, old_end) = (stored.record.seq, stored.progress.hold_expires_at);
    let new_end = old_end.plus(Timestamp::DAY);
    let mut state = small_state();
    state.resume_from(RecordSeq(2), NOON, seq, LineSeq(0));
    let mut moved = stored.progress.clone();
    moved.hold_expires_at = new_end;
    let moved = Effect::TransactionProgress(seq, Box::new(moved));
    state.apply_record(RecordSeq(3), NOON.plus(Timestamp::SECOND), &[moved]);
    state.go_live();
    state.learn_timers(&due_until(old_end, &[(seq, old_end)]), RecordSeq(2));
    assert_eq!(state.next_due(), None, "it does not end then");
    state.admit(LoadedRows { transactions: vec![stored], ..LoadedRows::default() });
    state.learn_timers(&due_until(new_end, &[]), RecordSeq(2));
    assert_eq!(state.next_due(), Some(new_end));
}
