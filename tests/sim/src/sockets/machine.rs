//! The engine behind simulated sockets, its disks and its model: every reply is compared in the order of execution.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use cardswitch_engine::command::Command;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::reply::Reply;
use cardswitch_engine::directory::card::CardCommand;
use cardswitch_engine::directory::company::CompanyCommand;
use cardswitch_engine::directory::exchanged_key::NewExchangedKey;
use cardswitch_engine::domain::allowance::AllowanceTerms;
use cardswitch_engine::domain::ids::{RecordSeq, Timestamp};
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::engine::{Engine, EngineParts};
use cardswitch_engine::journal::testing::DiskFaultPlan;
use cardswitch_engine::steps::StepOutcome;
use cardswitch_engine::store::Snapshot;
use cardswitch_engine::submission::{Envelope, ReplyPort};
use cardswitch_secrets::Secrets;
use cardswitch_secrets::pan::Pan;
use chrono_tz::Tz;
use parking_lot::Mutex;

use super::acquirer::PIN;
use super::gate::{GateBook, Passage};
use crate::audit::{audit_state, audit_tables};
use crate::disks::{Crash, Disks};
use crate::driver::id_mint;
use crate::happening::Part;
use crate::model::Model;
use crate::rates::Rates;
use crate::rng::Rng;
use crate::samples::{START, admin, new_card, new_company};
use crate::world::assembly::{ExecutedCommand, Executions, open, step_part};

/// The engine and its machine.
pub(super) struct Machinery {
    place: PathBuf,
    rates: Rates,
    clock: Arc<AtomicI64>,
    disks: Disks,
    executions: Executions,
    /// None only while the machine is down.
    running: Option<(Arc<Engine>, EngineParts)>,
    /// Batches of the shard that the committer has not looked at.
    unwritten: usize,
    model: Model,
    pub(super) book: Arc<Mutex<GateBook>>,
    /// The commands that were executed and answered with an unknown outcome.
    unknown: Vec<ExecutedCommand>,
    /// The newest record that an answer was of.
    told: RecordSeq,
    /// No later time was seen.
    latest: i64,
}

impl Machinery {
    pub(super) fn new(place: &Path, rates: &Rates) -> Self {
        let (clock, disks) = (Arc::new(AtomicI64::new(START)), Disks::default());
        let executions = Executions::default();
        let opened = open(place, &disks, &clock, rates, &executions).unwrap();
        Self {
            place: place.to_owned(),
            rates: rates.clone(),
            clock,
            disks,
            executions,
            running: Some((Arc::new(opened.engine), opened.parts)),
            unwritten: 0,
            model: Model::new(id_mint()),
            book: Arc::default(),
            unknown: Vec::new(),
            told: RecordSeq(0),
            latest: START,
        }
    }

    /// Two companies, one of them nearly without money, and a card for each of these numbers.
    pub(super) fn open_cards(&mut self, pans: &[String], secrets: &Secrets) {
        let mut commands = Vec::new();
        for (number, opening) in [(0, 50_000_000), (1, 60_000)] {
            let mut company = new_company(number, Tz::America__Los_Angeles, opening, 0);
            company.partial_approval = number == 1;
            commands.push(admin(AdminCommand::Company(CompanyCommand::Create(company))));
        }
        for (number, pan) in (0..).zip(pans) {
            let mut terms = AllowanceTerms::budget(Minor(150_000));
            terms.single_use = number == 7;
            let mut card = new_card(number, number % 2, terms);
            let pan = Pan::parse(pan.as_bytes()).unwrap();
            card.pan_hash = secrets.pan_hash(&pan);
            card.pin = secrets.pin_verifier(&pan, PIN.as_bytes());
            commands.push(admin(AdminCommand::Card(CardCommand::Issue(card))));
        }
        let port: Arc<dyn ReplyPort> = Arc::new(OpeningPort);
        for (tag, command) in (0..).zip(commands) {
            let envelope =
                Envelope { command: command.clone().into(), tag, port: Arc::clone(&port) };
            self.engine().submit(vec![envelope]).unwrap();
            self.step_all();
            let executed = self.executions.0.lock().pop_front().unwrap();
            self.latest = self.latest.max(executed.at.0);
            let reply = self.model.expect(executed.at.0, &command);
            assert_eq!(reply, Reply::Done(RecordSeq(0)));
        }
    }

    pub(super) fn engine(&self) -> &Arc<Engine> {
        &self.running.as_ref().unwrap().0
    }

    pub(super) fn has_failed(&self) -> bool {
        self.engine().failure().is_some()
    }

    pub(super) fn set_clock(&self, at: i64) {
        self.clock.store(at.max(self.latest), Ordering::Relaxed);
    }

    pub(super) fn step(&mut self, part: Part) -> StepOutcome {
        step_part(&mut self.running.as_mut().unwrap().1, &mut self.unwritten, part)
    }

    /// Moves each part once. Returns whether any had something to do.
    pub(super) fn step_all(&mut self) -> bool {
        let outcomes = Part::ALL.map(|part| self.step(part));
        outcomes.contains(&StepOutcome::Worked)
    }

    /// Whether nothing passed since the last time.
    pub(super) fn is_quiet(&self) -> bool {
        let book = self.book.lock();
        book.news.is_empty() && book.refused.is_empty() && book.replies.is_empty()
    }

    /// The commands that were handed over since the last time, and those that were not taken.
    pub(super) fn take_news(&self) -> (Vec<Passage>, Vec<Passage>) {
        let mut book = self.book.lock();
        let tags = std::mem::take(&mut book.news);
        let news = tags.iter().map(|tag| book.sent[tag].clone()).collect();
        (news, std::mem::take(&mut book.refused))
    }

    /// The replies since the last time, each of which is the model's and of a durable record.
    pub(super) fn take_replies(&mut self, context: &str) -> Vec<(Passage, Reply)> {
        let replies = std::mem::take(&mut self.book.lock().replies);
        replies.into_iter().map(|(tag, reply)| self.take_reply(tag, reply, context)).collect()
    }

    fn take_reply(&mut self, tag: u64, reply: Reply, context: &str) -> (Passage, Reply) {
        let executed = self.executions.0.lock().pop_front().unwrap();
        assert_eq!(executed.tag, tag, "{context}: replies come in order");
        if reply == Reply::OutcomeUnknown {
            self.unknown.push(executed);
            return (self.book.lock().sent[&tag].clone(), reply);
        }
        let passage = self.book.lock().sent.remove(&tag).unwrap();
        let expected = self.apply(&executed, &passage.command);
        // The model counts no records.
        let compared = match &reply {
            Reply::Done(seq) => {
                assert_eq!(*seq, executed.last_seq, "{context}: the record of a change");
                Reply::Done(RecordSeq(0))
            }
            other => other.clone(),
        };
        assert_eq!(compared, expected, "{context} at {:?}: {:?}", executed.at, passage.command);
        let durable = self.engine().durable_seq();
        assert!(durable >= executed.last_seq, "{context}: {reply:?} is not durable");
        self.told = self.told.max(executed.last_seq);
        (passage, reply)
    }

    fn apply(&mut self, executed: &ExecutedCommand, command: &Command) -> Reply {
        self.latest = self.latest.max(executed.at.0);
        self.model.expect(executed.at.0, command)
    }

    /// The keys of a door for a use that were exchanged and are durable, in order. Everything has come to rest,
    /// or the machine has just come back.
    pub(super) fn exchanged_keys(&self, door: &str, usage: &str) -> Vec<NewExchangedKey> {
        let all = self.model.exchanged_keys.iter();
        all.filter(|new| new.door == door && new.usage == usage).cloned().collect()
    }

    /// The tables, for which a start of the switch waits until they have all that is durable.
    pub(super) fn tables(&mut self) -> Arc<Snapshot> {
        while self.engine().watermark.applied() < self.engine().durable_seq() {
            self.step(Part::Projector);
        }
        self.engine().store.read().unwrap()
    }

    pub(super) fn break_disk(&mut self, rng: &mut Rng) {
        let nth = Some(1 + rng.below(20));
        self.disks.journal.plan(match rng.below(3) {
            0 => DiskFaultPlan { fail_write: nth, ..DiskFaultPlan::default() },
            1 => DiskFaultPlan { fail_sync: nth, ..DiskFaultPlan::default() },
            _ => DiskFaultPlan { fail_after_sync: nth, ..DiskFaultPlan::default() },
        });
    }

    pub(super) fn mend_disk(&self) {
        self.disks.journal.plan(DiskFaultPlan::default());
    }

    /// Goes down and comes back: nothing of which there was an answer is lost.
    pub(super) fn crash(&mut self, rng: &mut Rng, context: &str) {
        self.disks = self.disks.after(match rng.below(3) {
            0 => Crash::Kill,
            1 => Crash::PowerFailure,
            _ => Crash::TornPowerFailure(rng.number() >> 1),
        });
        self.running = None;
        let shown = std::mem::take(&mut *self.executions.0.lock());
        self.set_clock(self.clock.load(Ordering::Relaxed));
        let opened = open(&self.place, &self.disks, &self.clock, &self.rates, &self.executions);
        let opened = opened.unwrap_or_else(|error| panic!("{context}: {error}"));
        let kept = opened.parts.deciding.shard.state().last_seq();
        assert!(kept >= self.told, "{context}: {kept:?} of {:?} is left", self.told);
        (self.running, self.unwritten) = (Some((Arc::new(opened.engine), opened.parts)), 0);
        let unknown = std::mem::take(&mut self.unknown);
        for executed in
            unknown.into_iter().chain(shown).filter(|executed| executed.last_seq <= kept)
        {
            let passage = self.book.lock().sent.remove(&executed.tag);
            if let Some(passage) = passage {
                self.apply(&executed, &passage.command);
            }
        }
        // Nobody waits any more.
        let mut book = self.book.lock();
        book.sent.clear();
        book.replies.clear();
        self.told = kept;
    }

    /// Compares model, memory and tables. Everything has come to rest.
    pub(super) fn prove(&mut self, context: &str) {
        let (engine, parts) = self.running.as_ref().unwrap();
        let state = parts.deciding.shard.state();
        let at = self.latest.max(self.clock.load(Ordering::Relaxed)).max(state.last_at().0);
        self.model.run_timers(at);
        audit_state(&mut self.model, state, Timestamp(at), context);
        assert_eq!(engine.watermark.applied(), engine.durable_seq(), "{context}");
        let tables = engine.store.read().unwrap();
        audit_tables(&self.model, state, &tables, context);
        for new in &self.model.exchanged_keys {
            let newest = self.exchanged_keys(&new.door, &new.usage).pop();
            let kept = tables.exchanged_key(&new.door, &new.usage).unwrap();
            assert_eq!(kept.map(|kept| kept.key), newest, "{context}");
        }
    }
}

/// Nobody waits for the replies to the opening.
struct OpeningPort;

impl ReplyPort for OpeningPort {
    fn deliver(&self, _: u64, _: Reply) {}
}
