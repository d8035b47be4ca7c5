//! A shard that forgets nearly everything against one that forgets nothing: the same answers, the
//! same money, whatever has left memory, however late the tables are and in whatever order they
//! answer; also after restarts.

use std::collections::{BTreeMap, VecDeque};
use std::iter;

use cardswitch_engine::command::Command;
use cardswitch_engine::command::NewTransaction;
use cardswitch_engine::command::effect::{Effect, RememberedAnswer};
use cardswitch_engine::command::record::{Record, records};
use cardswitch_engine::command::reply::{NetworkReply, Reply};
use cardswitch_engine::domain::ids::{LineSeq, RecordSeq, Timestamp, TransactionSeq};
use cardswitch_engine::domain::network_key::Fingerprint;
use cardswitch_engine::loader::{
    LoaderAnswer, LoaderQuestion, PlacedAnswers, Recall, RecallError, RecallSource, answer,
};
use cardswitch_engine::shard::{
    AnswerPlace, CacheLimits, LoadedTransaction, MessageKeys, Moment, PurchaseKey, ShardState,
    execute,
};
use cardswitch_engine::store::query::DueHolds;

use crate::desk::TINY_CACHES;
use crate::driver::{Driver, id_mint};
use crate::model::Model;
use crate::recall::message_of_trace;
use crate::rng::Rng;
use crate::samples::START;
use crate::workload::Workload;

const STEPS: u64 = 12_000;
const STEPS_PER_PROGRAM: u64 = 3_000;
/// The tables are behind by no more records than this.
const LAG_MAX: usize = 40;
/// A snapshot tells no more holds at a time.
const HOLDS_MAX: usize = 3;

/// The tables: a fold of the records up to one.
#[derive(Default)]
struct Tables {
    applied: RecordSeq,
    applied_at: Timestamp,
    rows: BTreeMap<TransactionSeq, LoadedTransaction>,
    /// In the order in which they were given: one record may give two.
    answers: Vec<(AnswerPlace, RememberedAnswer)>,
    /// Effects about neither transactions nor answers.
    others: Vec<Effect>,
    last_line: LineSeq,
}

impl Tables {
    fn fold(&mut self, record: Record) {
        self.applied = record.seq;
        self.applied_at = record.at;
        for effect in record.effects {
            match effect {
                Effect::Transaction(made) => {
                    let NewTransaction { record: row, progress, answer, usage, balances } = *made;
                    if let Some(answer) = answer {
                        let place = AnswerPlace::Transaction(row.seq);
                        self.answers.push((place, answer.answer(&row)));
                    }
                    let usage =
                        row.card.zip(usage).map(|(card, usage)| Effect::CardUsage(card, usage));
                    let balances =
                        balances.map(|after| Effect::AccountBalances(row.account, after));
                    self.others.extend(usage.into_iter().chain(balances));
                    self.rows.insert(row.seq, LoadedTransaction { record: row, progress });
                }
                Effect::TransactionProgress(seq, progress) => {
                    self.rows.get_mut(&seq).unwrap().progress = *progress;
                }
                Effect::Answer(answer) => {
                    self.answers.push((AnswerPlace::Record(record.seq), *answer));
                }
                other => {
                    if let Effect::StatementLine(line) = &other {
                        self.last_line = line.seq;
                    }
                    self.others.push(other);
                }
            }
        }
    }

    fn answer(&self, place: AnswerPlace) -> Option<&RememberedAnswer> {
        self.answers.iter().find(|known| known.0 == place).map(|known| &known.1)
    }

    /// A state as a restart finds it: everything about cards, the newest transactions, the keys.
    fn restore(&self) -> ShardState {
        let mut state = ShardState::with_limits(TINY_CACHES);
        self.others.iter().for_each(|effect| state.apply(effect));
        let newest = self.rows.iter().rev().take(TINY_CACHES.recent_transactions);
        for (seq, row) in newest.collect::<Vec<_>>().into_iter().rev() {
            let LoadedTransaction { record, progress } = row.clone();
            let made = NewTransaction::of(record, progress);
            state.apply(&Effect::Transaction(Box::new(made)));
            if let Some(answer) = self.answer(AnswerPlace::Transaction(*seq)) {
                state.restore_transaction_answer(*seq, answer);
            }
        }
        let last = self.rows.keys().last().copied().unwrap_or_default();
        state.resume_from(self.applied, self.applied_at, last, self.last_line);
        let known = self.answers.iter().filter(|(_, answer)| answer.expires_at > self.applied_at);
        let keys = known.flat_map(|(place, answer)| {
            let (key, further) = answer.fingerprint.index_keys(answer.shares_trace);
            iter::once(key).chain(further).map(|key| (key, *place))
        });
        let mut read = MessageKeys::with_room(0, &TINY_CACHES, (last, self.applied));
        read.enter(&keys.collect::<Vec<_>>());
        state.take_in_keys(read);
        state
    }
}

impl RecallSource for Tables {
    fn snapshot(&self) -> Result<Box<dyn Recall + '_>, RecallError> {
        Ok(Box::new(self))
    }
}

impl Recall for &Tables {
    fn transaction(&self, seq: TransactionSeq) -> Result<Option<LoadedTransaction>, RecallError> {
        Ok(self.rows.get(&seq).cloned())
    }

    fn answer_at(&self, place: AnswerPlace) -> Result<Option<RememberedAnswer>, RecallError> {
        Ok(self.answer(place).cloned())
    }

    fn owner(&self, key: PurchaseKey) -> Result<Option<LoadedTransaction>, RecallError> {
        let all = || self.rows.values().filter(|row| row.carries(key));
        let carriers = || all().filter(|row| !row.is_declined());
        let newest = carriers().rfind(|row| !row.yields_marks());
        let declined = || all().next_back().filter(|_| matches!(key, PurchaseKey::Retrieval(_)));
        Ok(newest.or_else(|| carriers().next()).or_else(declined).cloned())
    }

    fn answers_to(&self, message: &Fingerprint) -> Result<PlacedAnswers, RecallError> {
        let is_alike = |known: &Fingerprint| {
            known.key == message.key || known.trace.is_some() && known.trace == message.trace
        };
        let alike = self.answers.iter().filter(|answer| is_alike(&answer.1.fingerprint));
        Ok(alike.cloned().collect())
    }

    fn holds_due(&self, after: Timestamp, until: Timestamp) -> Result<DueHolds, RecallError> {
        let mut holds: Vec<_> = self
            .rows
            .iter()
            .filter(|row| !row.1.progress.held.is_empty())
            .map(|row| (*row.0, row.1.progress.hold_expires_at))
            .filter(|hold| hold.1 > after && hold.1 <= until)
            .collect();
        holds.sort_by_key(|hold| hold.1);
        let reached = holds.get(HOLDS_MAX).map_or(until, |next| next.1.plus(-1).max(after.plus(1)));
        holds.retain(|hold| hold.1 <= reached);
        Ok(DueHolds { holds, until: reached, ..DueHolds::default() })
    }
}

/// A command that waits for the tables.
struct WaitingCommand {
    command: Command,
    question: LoaderQuestion,
    as_of: RecordSeq,
    /// The answer of the tables, once they have answered.
    answer: Option<LoaderAnswer>,
}

/// Drives a shard with limits as its loop does, with tables that follow late.
struct ForgetfulDriver {
    state: ShardState,
    tables: Tables,
    pending: VecDeque<Record>,
    aside: VecDeque<WaitingCommand>,
    effects: Vec<Effect>,
    questions: u64,
}

impl ForgetfulDriver {
    fn new() -> Self {
        let mut state = ShardState::with_limits(TINY_CACHES);
        state.go_live();
        let (tables, pending, aside) = Default::default();
        Self { state, tables, pending, aside, effects: Vec::new(), questions: 0 }
    }

    fn ask(&mut self, question: &LoaderQuestion) -> LoaderAnswer {
        self.questions += 1;
        answer(&self.tables, question).unwrap()
    }

    fn run_due(&mut self, at: Timestamp) {
        let ids = id_mint();
        loop {
            let reach = at.min(self.state.timers_known_until());
            while let Some((timer, due)) = self.state.due_timer(reach) {
                let wanted = self.state.wanted_by_timer(timer, at);
                if !wanted.is_empty() {
                    let answer = self.ask(&LoaderQuestion::Transactions(wanted));
                    self.admit(answer);
                    self.state.dismiss();
                }
                self.state.execute_timer(&Moment { at: due, ids: &ids }, timer, &mut self.effects);
                self.record(due);
            }
            if reach == at {
                return;
            }
            let until = at.plus(Timestamp::HOUR);
            let question = LoaderQuestion::Holds(self.state.timers_known_until(), until);
            match self.ask(&question) {
                LoaderAnswer::Holds(due) => {
                    self.state.learn_timers(&due, self.tables.applied);
                }
                LoaderAnswer::Loaded(_) => unreachable!(),
            }
        }
    }

    fn admit(&mut self, answer: LoaderAnswer) {
        match answer {
            LoaderAnswer::Loaded(loaded) => self.state.admit(loaded),
            LoaderAnswer::Holds(_) => unreachable!(),
        }
    }

    fn execute(&mut self, at: Timestamp, command: &Command) -> Reply {
        let ids = id_mint();
        let reply = execute(&self.state, &Moment { at, ids: &ids }, command, &mut self.effects);
        self.record(at);
        reply
    }

    fn record(&mut self, at: Timestamp) {
        if !self.effects.is_empty() {
            let seq = self.state.last_seq().next();
            self.state.apply_record(seq, at, &self.effects);
            self.pending.push_back(Record { seq, at, effects: std::mem::take(&mut self.effects) });
        }
    }

    /// The tables follow by as many records, and memory lets go of what it may.
    fn follow(&mut self, count: usize) {
        let count = count.min(self.pending.len());
        for record in self.pending.drain(..count) {
            self.tables.fold(record);
        }
        let oldest = self.aside.front().map_or(self.tables.applied, |aside| aside.as_of);
        self.state.evict(oldest.min(self.tables.applied));
    }

    /// Restarts after a crash: commands aside were never answered, the tables are as they were.
    fn restart(&mut self) {
        self.aside.clear();
        self.state = self.tables.restore();
        for record in &self.pending {
            self.state.apply_record(record.seq, record.at, &record.effects);
        }
        self.state.go_live();
    }
}

struct Race {
    seed: u64,
    rng: Rng,
    model: Model,
    workload: Workload,
    whole: Driver,
    forgetful: ForgetfulDriver,
    compared: u64,
}

impl Race {
    fn new(seed: u64) -> Self {
        let mut race = Self {
            seed,
            rng: Rng::new(seed ^ 0xb0),
            model: Model::new(id_mint()),
            workload: Workload::new(seed),
            whole: Driver::new(ShardState::default()),
            forgetful: ForgetfulDriver::new(),
            compared: 0,
        };
        for command in race.workload.opening() {
            let at = race.workload.pass_time();
            race.forgetful.run_due(at);
            let reply = race.forgetful.execute(at, &command);
            race.compare(at, &command, &reply);
        }
        race
    }

    fn step(&mut self) {
        let command = self.workload.draw(&self.model);
        let at = self.workload.pass_time();
        self.forgetful.run_due(at);
        self.whole.run_due(at);
        match self.forgetful.state.wanting(&id_mint(), &command) {
            None => {
                let reply = self.forgetful.execute(at, &command);
                self.compare(at, &command, &reply);
            }
            Some(wanted) => {
                let (question, as_of) =
                    (LoaderQuestion::Command(wanted), self.forgetful.tables.applied);
                // The tables may answer at once, or only when they know more.
                let answer = self.rng.chance(50).then(|| self.forgetful.ask(&question));
                self.forgetful.aside.push_back(WaitingCommand { command, question, as_of, answer });
            }
        }
        while self.forgetful.aside.len() > 12
            || !self.forgetful.aside.is_empty() && self.rng.chance(50)
        {
            self.take_aside();
        }
        if self.forgetful.pending.len() > LAG_MAX || self.rng.chance(30) {
            let count = 1 + self.rng.below(LAG_MAX as u64 + 1) as usize;
            self.forgetful.follow(count);
        }
    }

    fn take_aside(&mut self) {
        let Some(aside) = self.forgetful.aside.pop_front() else { return };
        let WaitingCommand { command, question, answer, .. } = aside;
        let answer = answer.unwrap_or_else(|| self.forgetful.ask(&question));
        let at = self.workload.pass_time();
        self.forgetful.run_due(at);
        self.forgetful.admit(answer);
        let reply = self.forgetful.execute(at, &command);
        self.forgetful.state.dismiss();
        self.compare(at, &command, &reply);
    }

    /// Lets the shard that forgets nothing, and the model, do the same.
    fn compare(&mut self, at: Timestamp, command: &Command, found: &Reply) {
        self.compared += 1;
        let context = format!("seed {} command {}: {command:?}", self.seed, self.compared);
        let _ = self.model.expect(at.0, command);
        assert_eq!(*found, self.whole.run(at, command), "{context}");
        assert_eq!(self.forgetful.state.last_seq(), self.whole.state.last_seq(), "{context}");
    }

    fn audit(&self) {
        let context = format!("seed {} after {} commands", self.seed, self.compared);
        let (found, expected) = (&self.forgetful.state, &self.whole.state);
        let partly_in_memory = ["open transactions", "remembered answers"];
        for (found, expected) in found.part_hashes().iter().zip(expected.part_hashes()) {
            if !partly_in_memory.contains(&found.name) {
                assert_eq!(*found, expected, "{context}");
            }
        }
        let last = self.forgetful.tables.rows.len() as u64 + self.forgetful.pending.len() as u64;
        for seq in (1..=last).map(TransactionSeq) {
            if let Some(found) = found.transaction(seq) {
                assert_eq!(
                    found.progress,
                    expected.transaction(seq).unwrap().progress,
                    "{context}"
                );
            }
        }
    }
}

/// A probe with a fixed trace, whose messages differ in their local time. Each asked the tables for
/// the answers to all before it.
#[test]
fn a_message_asks_the_tables_for_few_others_of_its_trace() {
    let limits = CacheLimits { message_keys: 1 << 20, ..TINY_CACHES };
    let mut driver =
        ForgetfulDriver { state: ShardState::with_limits(limits), ..ForgetfulDriver::new() };
    driver.state.go_live();
    let mut asked = 0;
    let messages = (0..300).map(|number| message_of_trace(number, 5));
    let repeats = (0..300).map(|number| message_of_trace(number, 5));
    for (number, command) in messages.chain(repeats).enumerate() {
        let at = Timestamp(START + number as i64 * Timestamp::SECOND);
        if let Some(wanted) = driver.state.wanting(&id_mint(), &command) {
            assert!(wanted.answers.len() <= 4, "message {number}: {wanted:?}");
            asked += 1;
            let answer = driver.ask(&LoaderQuestion::Command(wanted));
            driver.admit(answer);
        }
        let reply = driver.execute(at, &command);
        driver.state.dismiss();
        driver.follow(usize::MAX);
        assert!(matches!(reply, Reply::Network(NetworkReply::Authorization(_))), "{reply:?}");
    }
    assert_eq!(driver.state.last_seq().0, 300, "repeats change nothing");
    assert!(asked > 400, "what is in memory proves nothing: {asked}");
}

#[test]
fn a_shard_that_forgets_answers_as_one_that_does_not() {
    let seed = Rng::seed_from_environment().wrapping_add(40);
    let (mut compared, mut questions) = (0, 0);
    for program in 0..STEPS / STEPS_PER_PROGRAM {
        let mut race = Race::new(seed + program);
        for step in 0..STEPS_PER_PROGRAM {
            race.step();
            if step % 200 == 0 {
                race.audit();
            }
            if race.rng.below(400) == 0 {
                race.forgetful.restart();
                race.audit();
            }
        }
        while !race.forgetful.aside.is_empty() {
            race.take_aside();
        }
        race.forgetful.follow(usize::MAX);
        race.audit();
        let in_memory = race.forgetful.state.transactions_in_memory();
        assert!(
            in_memory <= TINY_CACHES.recent_transactions + TINY_CACHES.loaded_transactions,
            "{in_memory}"
        );
        assert!(race.forgetful.tables.rows.len() > 20 * in_memory, "what fits proves little");
        let written: Vec<_> = records(&race.whole.payload).collect::<Result<_, _>>().unwrap();
        assert_eq!(written.len() as u64, race.whole.state.last_seq().0);
        compared += race.compared;
        questions += race.forgetful.questions;
    }
    println!("seed {seed}: {compared} commands, {questions} questions");
    assert!(questions > STEPS / 10, "what is never asked is not tested");
}
