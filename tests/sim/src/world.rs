//! A simulated world: a switch, its users, its machine, and their happenings. One thread, one seed, no real time.
//!
//! | file | content |
//! |---|---|
//! | `answers` | commands on their way, and answers, which are the model's |
//! | `conditions` | changes on condition that an object is as it was seen |
//! | `crashes` | crashes and restarts |
//! | `damage` | tables with a bit that is found flipped |
//! | `deliveries` | webhooks, and letters about declines |
//! | `draws` | the next happening |
//! | `rest` | all parts have moved until nothing is left to do; what is kept is the model's |
//! | `tables` | a broken disk below the tables |
//! | `writes` | parts that move amid a write of the journal |
//! | `files` | the same on real files |
//!
//! The switch is the product's own; simulated are the disks, the clock, the senders, and the order in which parts
//! move. The reference model computes each answer. Commands that a crash left without an answer have happened if
//! the journal kept them, in the order in which they were executed.

mod answers;
pub(crate) mod assembly;
mod conditions;
mod crashes;
mod damage;
mod deliveries;
mod draws;
pub mod files;
mod rest;
mod tables;
mod writes;

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use cardswitch_engine::command::Command;
use cardswitch_engine::data_directory::DataDirectory;
use cardswitch_engine::domain::ids::{RecordSeq, Timestamp};
use cardswitch_engine::engine::{AssembledEngine, Engine, EngineParts};
use cardswitch_engine::journal::JournalError;
use cardswitch_engine::steps::StepOutcome;
use sha2::{Digest, Sha256};

use self::answers::Tray;
use self::assembly::{ExecutedCommand, Executions, open, options, step_part};
use self::conditions::Conditions;
use self::tables::TableFaults;
use self::writes::SlowWrites;
use crate::disks::{Crash, Disks};
use crate::driver::id_mint;
use crate::happening::{Happening, Part, ToldHappening};
use crate::marks::{Mark, Marks};
use crate::model::Model;
use crate::nodes::{Machine, Nodes};
use crate::notices::Notices;
use crate::rates::Rates;
use crate::rng::Rng;
use crate::webhooks::Webhooks;
use crate::workload::Workload;

/// The endings of the directories of a cluster's nodes.
const CLUSTER_PLACES: [&str; 3] = ["a", "b", "c"];
/// Steps for which a former leader goes on.
const ZOMBIE_STEPS: usize = 6;

/// The history of a world.
#[derive(Clone, Debug, Default)]
pub struct Story {
    pub commands: u64,
    pub crashes: u64,
    pub restarts: u64,
    pub broken_disks: u64,
    pub marks: Marks,
    /// Commands that a crash left without an answer, and that had happened.
    pub unheard: u64,
    /// From the first command to the last. Units: microseconds of the world's clock.
    pub time: i64,
    /// A hash of everything that was seen from outside, in order.
    pub trace: [u8; 32],
}

impl Story {
    /// Adds the trace of another world, in any order.
    pub(crate) fn add_trace(&mut self, trace: &[u8; 32]) {
        self.trace.iter_mut().zip(trace).for_each(|(sum, byte)| *sum ^= byte);
    }
}

/// Runs the world of a seed until so many commands were answered. Its happenings are added to `told`.
/// Panics: where the switch breaks a promise.
pub fn run(seed: u64, length: u64, place: &Path, told: &mut Vec<ToldHappening>) -> Story {
    let mut world = World::new(seed, length, place);
    world.open_companies();
    let mut seeds = Rng::new(seed ^ 0xBE51DE);
    while world.story.commands < length {
        let next = ToldHappening { happening: world.draw(), seed: seeds.number() };
        told.push(next.clone());
        world.undergo(next);
    }
    world.finish()
}

/// Tells a story again: the same seed, and only these happenings.
/// Panics: where the switch breaks a promise.
pub fn run_again(seed: u64, length: u64, place: &Path, told: &[ToldHappening]) -> Story {
    let mut world = World::new(seed, length, place);
    world.open_companies();
    told.iter().for_each(|next| world.undergo(next.clone()));
    world.finish()
}

struct World {
    seed: u64,
    rng: Rng,
    rates: Rates,
    place: PathBuf,
    clock: Arc<AtomicI64>,
    disks: Disks,
    /// The nodes beside this one, where it is a cluster's.
    nodes: Option<Nodes>,
    /// The webhooks, where it has some.
    webhooks: Option<Webhooks>,
    /// The letters about declines, where it has some.
    notices: Option<Notices>,
    /// None only while the machine is down.
    running: Option<AssembledEngine>,
    /// Batches of the shard that the committer has not looked at.
    unwritten: usize,
    model: Model,
    workload: Workload,
    conditions: Conditions,
    tray: Arc<Tray>,
    executions: Executions,
    /// How far the machine's clock is behind. Units: microseconds.
    skew: i64,
    /// After so many commands the journal's disk makes nothing durable any more, and says that it does. The
    /// machine keeps its power from then on, but for one look at the end.
    lies_after: Option<u64>,
    /// The disk below the tables, where it breaks.
    table_faults: Option<TableFaults>,
    /// The writes of the journal, where some take their time.
    slow_writes: Option<SlowWrites>,
    next_tag: u64,
    newest_answered: u64,
    /// The commands that were sent and not answered.
    sent: BTreeMap<u64, Command>,
    /// The commands that were executed and answered with an unknown outcome.
    unknown: Vec<ExecutedCommand>,
    /// The commands that will be sent again.
    to_retry: VecDeque<Command>,
    /// The newest acknowledged record.
    told: RecordSeq,
    /// The newest record that the model knows of, and the instant at which the model stands.
    modelled: (RecordSeq, Timestamp),
    /// The record as of which reads were compared last.
    read: RecordSeq,
    /// No later time was seen: the clock does not start before it.
    latest: i64,
    trace: Sha256,
    story: Story,
}

impl World {
    /// The world of a node by itself on these disks, to which nothing happens but what is drawn.
    fn on(seed: u64, length: u64, place: &Path, disks: Disks) -> Self {
        let mut rng = Rng::new(seed ^ 0x5EED);
        let rates = Rates::draw(&mut rng, length).with_small_batches(Rng::new(seed ^ 0xBA7C));
        let workload = Workload::new(seed);
        let clock = Arc::new(AtomicI64::new(workload.at));
        let executions = Executions::default();
        let running = open(place, &disks, &clock, &rates, &executions).unwrap();
        Self {
            seed,
            rng,
            rates,
            place: place.to_owned(),
            nodes: None,
            webhooks: None,
            notices: None,
            clock,
            disks,
            running: Some(running),
            unwritten: 0,
            model: Model::new(id_mint()),
            latest: workload.at,
            workload,
            conditions: Conditions::draw(seed),
            tray: Arc::default(),
            executions,
            skew: 0,
            lies_after: None,
            table_faults: None,
            slow_writes: None,
            next_tag: 0,
            newest_answered: 0,
            sent: BTreeMap::new(),
            unknown: Vec::new(),
            to_retry: VecDeque::new(),
            told: RecordSeq(0),
            modelled: (RecordSeq(0), Timestamp(0)),
            read: RecordSeq(0),
            trace: Sha256::new(),
            story: Story::default(),
        }
    }

    fn new(seed: u64, length: u64, place: &Path) -> Self {
        let mut alone = Self::on(seed, length, place, Disks::default());
        // One world in four is that of a cluster.
        let mut rng = Rng::new(seed ^ 0xC1);
        if rng.chance(25) {
            alone = alone.with_other_nodes(rng);
            alone.webhooks = Webhooks::draw_of_cluster(seed, length);
            let notes = alone.webhooks.as_ref().and_then(Webhooks::notes);
            alone.notices = Notices::draw_of_cluster(seed, length, notes);
            alone.await_tables();
            return alone;
        }
        alone.lies_after = rng.chance(30).then(|| rng.below(length.max(1)));
        alone.webhooks = Webhooks::draw(seed, length);
        alone.notices = Notices::draw(seed, length);
        // Those who follow the tables need some that can be read.
        let is_followed = alone.webhooks.is_some() || alone.notices.is_some();
        if alone.lies_after.is_none() && !is_followed {
            alone.table_faults = TableFaults::draw(seed, &mut alone.rates);
        }
        if alone.table_faults.is_none() {
            alone.slow_writes = SlowWrites::draw(seed);
        }
        alone.await_tables();
        alone
    }

    /// Makes it the world of a cluster, whose nodes begin as copies of this one.
    fn with_other_nodes(mut self, rng: Rng) -> Self {
        self.running = None;
        let machines = CLUSTER_PLACES.map(|place| Machine {
            place: self.place.with_extension(place),
            disks: self.disks.after(Crash::Kill),
        });
        for machine in &machines {
            let id = DataDirectory::open_read_only(&self.place).unwrap().id();
            // It is there from the world before.
            drop(DataDirectory::create(&machine.place, id));
        }
        let options = |machine: &Machine| options(&machine.place, &self.clock, &self.rates);
        let (nodes, machine, mut engine) = Nodes::new(rng, machines.into(), &options);
        engine.parts.deciding.shard.set_witness(self.executions.clone());
        (self.place, self.disks) = (machine.place, machine.disks);
        (self.nodes, self.running) = (Some(nodes), Some(engine));
        self
    }

    fn engine(&self) -> &Engine {
        &self.running.as_ref().unwrap().engine
    }

    fn parts(&mut self) -> &mut EngineParts {
        &mut self.running.as_mut().unwrap().parts
    }

    /// Its position, for the reader of a failure.
    fn context(&self) -> String {
        let Story { commands, crashes, restarts, .. } = self.story;
        format!(
            "seed {}: after {commands} commands, {crashes} crashes, {restarts} restarts",
            self.seed
        )
    }

    /// The first companies and cards, on a calm day.
    fn open_companies(&mut self) {
        for command in self.workload.opening() {
            self.workload.pass_time();
            self.set_clock(self.workload.at);
            self.send(vec![command]);
            self.step_shard();
            self.step_committer();
            self.take_answers();
        }
        self.settle();
        self.make_endpoints();
        if let Some(nodes) = &self.nodes {
            nodes.window().set_trouble(true);
        }
    }

    fn undergo(&mut self, told: ToldHappening) {
        self.draw_beside_from(told.seed);
        self.befall(told.happening);
    }

    /// Draws all that moves beside the switch from this seed on.
    fn draw_beside_from(&mut self, seed: u64) {
        let mut seeds = Rng::new(seed);
        if let Some(nodes) = &mut self.nodes {
            nodes.draw_from(&mut seeds);
        }
        if let Some(webhooks) = &mut self.webhooks {
            webhooks.draw_from(&mut seeds);
        }
        if let Some(notices) = &mut self.notices {
            notices.draw_from(&mut seeds);
        }
    }

    fn befall(&mut self, happening: Happening) {
        if self.is_lying() {
            self.disks.journal.lie();
        }
        match happening {
            Happening::Send { at, commands } => {
                self.set_clock(at);
                self.send(commands);
            }
            Happening::Step(part) => drop(self.step(part)),
            Happening::StepAmidWrite(part, others) => self.step_amid_write(part, &others),
            Happening::ClockBack(back) => {
                self.story.marks.pass_if(Mark::ClockBack, !self.sent.is_empty());
                self.set_clock(self.clock.load(Ordering::Relaxed) - back);
            }
            Happening::ClockLeap(ahead) => self.leap(ahead),
            Happening::Audit => self.settle(),
            Happening::Restart => self.restart(),
            Happening::Crash { first, on_the_way_up, flip } => {
                self.crash(first, &on_the_way_up, flip);
            }
            Happening::BreakDisk(fault) => self.break_disk(fault),
            Happening::BreakTables(fault) => self.break_tables(fault),
            Happening::FailOver(crash) => self.fail_over(crash),
        }
        self.take_answers();
        self.audit_reads();
        self.move_webhooks();
        self.move_notices();
        if let Some(nodes) = &mut self.nodes {
            let options = |machine: &Machine| options(&machine.place, &self.clock, &self.rates);
            nodes.follow_now_and_then(&self.disks, &options);
        }
    }

    fn is_lying(&self) -> bool {
        self.lies_after.is_some_and(|commands| self.story.commands >= commands)
    }

    /// The committer outlives a panic below it, which no happening of a world may cause.
    fn has_failed(&self) -> bool {
        let failure = self.engine().failure();
        let panic = JournalError::Panicked { what: String::new() }.to_string();
        assert!(!failure.iter().any(|why| why.contains(&panic)), "{}: {failure:?}", self.context());
        failure.is_some()
    }

    fn step(&mut self, part: Part) -> StepOutcome {
        step_part(&mut self.running.as_mut().unwrap().parts, &mut self.unwritten, part)
    }

    fn set_clock(&self, at: i64) {
        self.clock.store(at, Ordering::Relaxed);
    }

    /// Timers run ahead of their time; the commands to come stand behind them all the same.
    fn leap(&mut self, ahead: i64) {
        let now = self.clock.load(Ordering::Relaxed);
        while self.step_shard() == StepOutcome::Worked {}
        self.set_clock(now + ahead);
        while self.step_shard() == StepOutcome::Worked {}
        self.set_clock(now);
        self.story.marks.pass_if(Mark::ClockLeap, self.last_at() > now);
    }

    /// When the newest record was accepted: a timer may have run after the last command.
    fn last_at(&self) -> i64 {
        self.running.as_ref().unwrap().parts.deciding.shard.state().last_at().0
    }

    fn step_shard(&mut self) -> StepOutcome {
        self.step(Part::Shard)
    }

    fn step_committer(&mut self) -> StepOutcome {
        self.step(Part::Committer)
    }

    fn finish(mut self) -> Story {
        self.draw_beside_from(self.seed);
        if let Some(nodes) = &self.nodes {
            nodes.window().set_trouble(false);
        }
        if self.has_failed() && self.nodes.is_none() {
            self.crash(Crash::Kill, &[], None);
        }
        self.settle();
        // The disk may break while all come to rest. A leader whose disk broke lacks batches that the others have.
        while self.has_failed() {
            match self.nodes {
                Some(_) => self.fail_over(Some(Crash::Kill)),
                None => self.crash(Crash::Kill, &[], None),
            }
            self.settle();
        }
        self.end_webhooks();
        self.end_notices();
        self.verify();
        self.put_back();
        self.put_back_below_letters();
        self.story.time = self.latest - Workload::new(self.seed).at;
        self.story.trace = self.trace.finalize().into();
        self.story
    }
}
