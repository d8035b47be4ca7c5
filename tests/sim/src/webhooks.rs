//! Webhooks of a simulated world: the product's own dispatcher over a simulated disk, at the switch or at the node of
//! a cluster that leads. A former leader's dispatcher goes on for a while.
//!
//! Every draw here is from a stream of its own, so that a world without webhooks is as it was. Receivers and
//! requests are in `run`; the promises to receivers are compared in `book`.

mod book;
mod run;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cardswitch_dispatch::deliveries::{Deliveries, DeliveriesError};
use cardswitch_dispatch::dispatcher::{
    Dispatcher, DispatcherOrder, DispatcherProgress, RequestPlaces, Tools,
};
use cardswitch_dispatch::notes::{NoteBounds, NotedDeliveries};
use cardswitch_engine::command::Command;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::webhook_endpoint::{
    NewWebhookEndpoint, WebhookEndpoint, WebhookEndpointChanges, WebhookEndpointCommand,
};
use cardswitch_engine::domain::event::EventNumber;
use cardswitch_engine::domain::ids::{RecordSeq, WebhookEndpointId};
use cardswitch_engine::engine::Engine;
use cardswitch_engine::journal::testing::{DiskFaultPlan, FaultyBackend};
use cardswitch_engine::store::Snapshot;
use cardswitch_engine::store::overlay::SharedBackend;
use uuid::Uuid;

use self::book::Book;
use self::run::{DispatcherRun, Mood, Receivers};
use crate::disks::{Crash, Disks};
use crate::marks::{Mark, Marks};
use crate::model::HOUR;
use crate::nodes::FailedStart;
use crate::notes::{ClusterNotes, NoteShelf};
use crate::rng::Rng;
use crate::samples::{admin, company_id};
use crate::switch_view::SwitchView;
use crate::window::SimulatedWindow;

/// A world in so many has webhooks. Units: hundredths.
const WORLDS_PERCENT: u64 = 16;
/// The same of worlds of a cluster.
const CLUSTER_WORLDS_PERCENT: u64 = 40;
const COMPANIES: u64 = 3;
/// So many endpoints are there at most.
const ENDPOINTS_MAX: u64 = 6;
/// So many rounds are enough for all that waits, once nothing is in the way.
const CALM_ROUNDS_MAX: usize = 3_000;

/// How often things happen to webhooks in one world.
struct WebhookRates {
    /// Of 1,024 happenings, so many let webhooks move.
    moves: u64,
    /// So many moves come together at most.
    burst: u64,
    crashed_starts_percent: u64,
    /// How many of a thousand moves break the disk, and change the endpoints.
    faults_per_mille: u64,
    changes_per_mille: u64,
    places: RequestPlaces,
}

/// The dispatcher of a node that led, which goes on.
struct Zombie {
    run: DispatcherRun,
    view: SwitchView,
    moves_left: u64,
}

pub(crate) struct Webhooks {
    receivers: Receivers,
    rates: WebhookRates,
    /// None while the switch is down, and before its tables show the record `awaited`.
    running: Option<DispatcherRun>,
    zombie: Option<Zombie>,
    awaited: RecordSeq,
    /// None where one switch is alone.
    notes: Option<ClusterNotes>,
    /// Ids that were drawn.
    drawn: Arc<AtomicU64>,
    /// The copy of the disks that is put back at the end, and after how many commands it is made.
    pub(crate) copy: Option<Disks>,
    copy_after: u64,
}

impl Webhooks {
    /// The webhooks of a world of `length` commands, if it has any.
    pub(crate) fn draw(seed: u64, length: u64) -> Option<Self> {
        let mut rng = Rng::new(seed ^ 0x003E_B400);
        rng.chance(WORLDS_PERCENT).then(|| Self::new(seed, length, rng))
    }

    /// The same of a world of a cluster.
    pub(crate) fn draw_of_cluster(seed: u64, length: u64) -> Option<Self> {
        let mut rng = Rng::new(seed ^ 0x00C1_3EB4);
        if !rng.chance(CLUSTER_WORLDS_PERCENT) {
            return None;
        }
        let shelf = NoteShelf::new(Rng::new(rng.number()));
        let bounds = NoteBounds { changes_max: 1 << rng.below(4), ..NoteBounds::ETCD };
        let notes = Some(ClusterNotes::new(shelf, bounds));
        Some(Self { notes, ..Self::new(seed, length, rng) })
    }

    fn new(seed: u64, length: u64, mut rng: Rng) -> Self {
        let (moves, burst, pause_ms) = (8 << rng.below(8), 1 << rng.below(5), 1 << rng.below(12));
        let rates = WebhookRates {
            moves,
            burst,
            crashed_starts_percent: rng.below(40),
            faults_per_mille: if rng.chance(30) { rng.below(4) } else { 0 },
            changes_per_mille: rng.below(6),
            places: RequestPlaces {
                healthy: 1 + rng.below(3) as usize,
                failing: 1 + rng.below(3) as usize,
                asked: 2,
            },
        };
        let copy_after = rng.below(length.max(1));
        let receivers = Receivers {
            context: format!("seed {seed}: webhooks"),
            rng,
            pause_ms,
            moods: Vec::new(),
            is_calm: false,
            ahead: 0,
            book: Book::default(),
            marks: Marks::default(),
        };
        Self {
            receivers,
            rates,
            running: None,
            zombie: None,
            awaited: RecordSeq(0),
            notes: None,
            drawn: Arc::default(),
            copy: None,
            copy_after,
        }
    }

    /// Draws, and lets the notes draw, from new seeds.
    pub(crate) fn draw_from(&mut self, seeds: &mut Rng) {
        self.receivers.rng = Rng::new(seeds.number());
        if let Some(notes) = &self.notes {
            notes.shelf.draw_from(seeds);
        }
    }

    /// The switch has started, and the dispatcher will once the tables show what is durable. The leader of a cluster
    /// has a connection to the window.
    pub(crate) fn await_tables(&mut self, durable: RecordSeq, leader: Option<&SimulatedWindow>) {
        self.awaited = durable;
        if let Some(notes) = &self.notes {
            notes.led_by(leader);
        }
    }

    /// Starts the dispatcher of a switch that is alone, after more crashes on the way, each at a write of its file.
    /// Panics: where a file that a crash left cannot be opened.
    fn open(&mut self, engine: &Engine, disk: &mut FaultyBackend) {
        while self.receivers.rng.below(100) < self.rates.crashed_starts_percent {
            self.plan_crash(disk);
            let opened = self.try_open(engine, disk);
            *disk = match self.receivers.rng.chance(50) {
                true => disk.after_kill(),
                false => disk.after_torn_power_failure(self.receivers.rng.number() >> 1),
            };
            self.receivers.marks.pass_if(Mark::WebhooksFailedStart, opened.is_err());
        }
        let opened = self.try_open(engine, disk);
        let context = &self.receivers.context;
        self.running = Some(opened.unwrap_or_else(|error| panic!("{context}: {error}")));
    }

    /// Starts the dispatcher of the node that leads.
    /// Errors: its disk fails, the notes cannot be reached, or another node leads.
    /// Panics: where nothing is in the way.
    fn open_as_leader(&mut self, engine: &Engine, disk: &FaultyBackend) -> Result<(), FailedStart> {
        let is_crashing = self.receivers.rng.below(100) < self.rates.crashed_starts_percent / 4;
        if is_crashing {
            self.plan_crash(disk);
        }
        let error = match self.try_open(engine, disk) {
            Ok(run) => {
                self.running = Some(run);
                return Ok(());
            }
            Err(error) => error,
        };
        let is_shut_off = self.notes.as_ref().is_some_and(ClusterNotes::is_shut_off);
        let is_unreached = matches!(error, DeliveriesError::Elsewhere(_)) && is_shut_off;
        let context = &self.receivers.context;
        assert!(is_unreached || is_crashing, "{context}: a leader cannot deliver: {error}");
        self.receivers.marks.pass_if(Mark::NotesNotReached, is_unreached);
        self.receivers.marks.pass_if(Mark::WebhooksFailedStart, is_crashing && !is_unreached);
        let torn = Crash::TornPowerFailure(self.receivers.rng.number() >> 1);
        Err(FailedStart(self.receivers.rng.pick(&[Crash::Kill, torn])))
    }

    fn plan_crash(&mut self, disk: &FaultyBackend) {
        let nth = Some(1 + self.receivers.rng.below(12));
        disk.plan(DiskFaultPlan { fail_write: nth, ..DiskFaultPlan::default() });
    }

    fn try_open(
        &mut self,
        engine: &Engine,
        disk: &FaultyBackend,
    ) -> Result<DispatcherRun, DeliveriesError> {
        let file = disk.clone();
        let storage = move || Ok(SharedBackend::new(file.clone()));
        let (ids, series) = (Arc::clone(&self.drawn), Arc::clone(&self.drawn));
        let draw_series = move || drawn(21, &series);
        let deliveries = Deliveries::on(Box::new(storage), Box::new(draw_series))?;
        let deliveries = Arc::new(match &self.notes {
            None => deliveries,
            Some(notes) => deliveries.and(Some(Box::new(NotedDeliveries(notes.of_leader())))),
        });
        let is_noted = self.notes.is_some();
        let kept = deliveries.load()?;
        let before = deliveries.series();
        let tools = Tools {
            deliveries: Arc::clone(&deliveries),
            places: self.rates.places,
            ids: Box::new(move |_| Some(drawn(20, &ids))),
            lane_places: None,
        };
        let dispatcher = Dispatcher::new(tools, &engine.store, engine.decides_after)?;
        let Receivers { context, book, marks, .. } = &mut self.receivers;
        let is_cut = deliveries.series() != before;
        assert!(!is_cut || book.is_cut(), "{context}: the log is held for another");
        marks.pass_if(Mark::EventLogCut, is_cut);
        let followed = kept.followed.unwrap_or_default().number;
        let lanes = kept.lanes.iter().map(|(id, _)| *id).collect();
        let run = match is_noted {
            true => book.take_over(&lanes, followed, context),
            false => book.begin_run(&lanes, followed),
        };
        Ok(DispatcherRun::new(dispatcher, deliveries, run, is_noted))
    }

    /// The switch goes down, with what is on its way: it arrives, or it does not.
    pub(crate) fn go_down(&mut self) {
        self.end_zombie();
        if let Some(run) = self.running.take() {
            let left = run.go_down(&mut self.receivers);
            // A node of a cluster leaves to others what it has noted, and no more.
            if self.notes.is_none() {
                self.receivers.book.end_run(left);
            }
        }
    }

    /// The node that leads dies, perhaps while it notes how far it is.
    pub(crate) fn die(&mut self, engine: &Engine) {
        if let (Some(run), Some(notes)) = (&mut self.running, &self.notes)
            && self.receivers.rng.chance(50)
        {
            let (arriving, view) = (self.receivers.rng.below(5), SwitchView::of(engine));
            notes.shelf.die_amid(arriving, || run.save(&mut self.receivers, &view));
        }
        self.go_down();
    }

    /// The node that leads loses the lead and does not know it.
    pub(crate) fn lose_lead(&mut self, engine: &Engine) {
        self.end_zombie();
        let moves_left = self.receivers.rng.below(100);
        let view = SwitchView::of(engine);
        self.zombie = self.running.take().map(|run| Zombie { run, view, moves_left });
    }

    fn end_zombie(&mut self) {
        let Some(Zombie { mut run, view, .. }) = self.zombie.take() else { return };
        // An orderly stop, or none.
        if self.receivers.rng.chance(50) {
            run.save(&mut self.receivers, &view);
        }
        drop(run.go_down(&mut self.receivers));
    }

    fn move_zombie(&mut self) {
        let Some(mut zombie) = self.zombie.take() else { return };
        let Zombie { run, view, moves_left } = &mut zombie;
        for _ in 0..=self.receivers.rng.below(self.rates.burst) {
            match self.receivers.rng.below(100) {
                0..40 => drop(run.step(&mut self.receivers, view)),
                40..95 => {
                    let has_arrived = run.fly(&mut self.receivers, view);
                    self.receivers.marks.pass_if(Mark::FormerLeaderDelivered, has_arrived);
                }
                _ => run.save(&mut self.receivers, view),
            }
            *moves_left = moves_left.saturating_sub(1);
        }
        let is_over = zombie.moves_left == 0;
        self.zombie = Some(zombie);
        if is_over {
            self.end_zombie();
        }
    }

    /// An orderly stop: requests under way end, or do not in time, and everything is written down.
    pub(crate) fn shut_down(&mut self, engine: &Engine) {
        let Some(run) = &mut self.running else { return };
        let view = SwitchView::of(engine);
        for _ in 0..self.receivers.rng.below(20) {
            run.fly(&mut self.receivers, &view);
        }
        run.save(&mut self.receivers, &view);
    }

    /// The first endpoints.
    pub(crate) fn opening(&mut self) -> Vec<Command> {
        let count = 1 + self.receivers.rng.below(3);
        (0..count).map(|_| self.draw_endpoint()).collect()
    }

    /// Makes a copy of the disks once, to be put back at the end.
    /// It has what is durable.
    pub(crate) fn copy_once(&mut self, commands: u64, disks: &Disks) {
        if self.copy.is_none() && commands >= self.copy_after {
            self.copy = Some(disks.after(Crash::PowerFailure));
        }
    }

    /// Moves now and then. Returns a change of endpoints that somebody wants.
    /// Errors: a leader leads no more.
    pub(crate) fn move_now_and_then(
        &mut self,
        engine: &Engine,
        disk: &mut FaultyBackend,
    ) -> Result<Option<Command>, FailedStart> {
        if self.receivers.rng.below(1_024) >= self.rates.moves {
            return Ok(None);
        }
        self.move_zombie();
        if !self.is_running(engine, disk)? {
            return Ok(None);
        }
        for _ in 0..=self.receivers.rng.below(self.rates.burst) {
            self.move_once(engine, disk);
        }
        let is_changed = self.receivers.rng.below(1_000) < self.rates.changes_per_mille;
        Ok(is_changed.then(|| self.draw_change(engine)).flatten())
    }

    /// Starts the dispatcher if it can.
    /// Errors: a leader leads no more.
    pub(crate) fn is_running(
        &mut self,
        engine: &Engine,
        disk: &mut FaultyBackend,
    ) -> Result<bool, FailedStart> {
        if self.running.is_none() && engine.watermark.applied() >= self.awaited {
            match self.notes.is_some() {
                true => self.open_as_leader(engine, disk)?,
                false => self.open(engine, disk),
            }
        }
        Ok(self.running.is_some())
    }

    fn move_once(&mut self, engine: &Engine, disk: &FaultyBackend) {
        if self.receivers.rng.below(1_000) < self.rates.faults_per_mille {
            self.break_disk(disk);
        }
        let view = SwitchView::of(engine);
        let kind = self.receivers.rng.below(100);
        match (&mut self.running, kind) {
            (Some(run), 0..40) => drop(run.step(&mut self.receivers, &view)),
            (Some(run), 40..95) => drop(run.fly(&mut self.receivers, &view)),
            (_, 95) => self.change_mood(),
            (Some(run), 96) => {
                run.obey(DispatcherOrder::Reload(None), &mut self.receivers, &view);
            }
            (_, 97) if self.receivers.rng.chance(20) => self.recover(&view),
            (Some(run), _) => run.save_if_due(&mut self.receivers, &view),
            (None, _) => {}
        }
    }

    fn break_disk(&mut self, disk: &FaultyBackend) {
        let nth = Some(1 + self.receivers.rng.below(20));
        let nothing = DiskFaultPlan::default();
        disk.plan(match self.receivers.rng.below(4) {
            0 => DiskFaultPlan { fail_write: nth, ..nothing },
            1 => DiskFaultPlan { fail_sync: nth, ..nothing },
            2 => DiskFaultPlan { disk_full_bytes: Some(disk.content().len() as u64), ..nothing },
            // There is room again.
            _ => nothing,
        });
    }

    fn change_mood(&mut self) {
        if self.receivers.moods.is_empty() {
            return;
        }
        let at = self.receivers.rng.below(self.receivers.moods.len() as u64) as usize;
        self.receivers.moods[at] =
            self.receivers.rng.pick(&[Mood::Healthy, Mood::Healthy, Mood::Moody, Mood::Down]);
    }

    fn draw_endpoint(&mut self) -> Command {
        let number = self.receivers.moods.len() as u64;
        self.receivers.moods.push(Mood::Healthy);
        let new = NewWebhookEndpoint {
            id: endpoint_id(number),
            company: company_id(self.receivers.rng.below(COMPANIES)),
            app: None,
            url: format!("https://{number}.example/"),
            description: "A receiver".parse().unwrap(),
            sealed_secret: vec![7; 40],
        };
        admin(AdminCommand::WebhookEndpoint(WebhookEndpointCommand::Create(new)))
    }

    /// Another endpoint, or one that is turned off or on.
    fn draw_change(&mut self, engine: &Engine) -> Option<Command> {
        if (self.receivers.moods.len() as u64) < ENDPOINTS_MAX && self.receivers.rng.chance(50) {
            return Some(self.draw_endpoint());
        }
        let snapshot = engine.store.read().unwrap();
        let endpoint = self.pick_endpoint(&snapshot)?;
        let company = snapshot.company(endpoint.company).unwrap().unwrap().id;
        let changes = WebhookEndpointChanges {
            is_enabled: Some(!endpoint.is_enabled()),
            ..WebhookEndpointChanges::default()
        };
        let change = WebhookEndpointCommand::Update(company, endpoint.id, changes);
        Some(admin(AdminCommand::WebhookEndpoint(change)))
    }

    fn pick_endpoint(&mut self, snapshot: &Snapshot) -> Option<WebhookEndpoint> {
        let mut endpoints = snapshot.all_webhook_endpoints().unwrap();
        let at = self.receivers.rng.below(endpoints.len().max(1) as u64) as usize;
        (at < endpoints.len()).then(|| endpoints.swap_remove(at))
    }

    /// The owner of an endpoint has events delivered once more.
    fn recover(&mut self, view: &SwitchView) {
        let snapshot = view.snapshot();
        let Some(endpoint) = self.pick_endpoint(&snapshot) else { return };
        let Some(run) = &mut self.running else { return };
        let from = run.book.promised_from(&endpoint);
        let first = snapshot.first_event_at(from).unwrap().0;
        let last = snapshot.last_event().unwrap().0;
        let ahead = self.receivers.rng.below((last + 1).saturating_sub(first).max(1));
        let after = EventNumber(first + ahead);
        run.recover_after((endpoint.id, after), &mut self.receivers, view);
    }

    /// Compares the events that were told with the log, which shows all that is durable.
    pub(crate) fn prove(&mut self, snapshot: &Snapshot) {
        let Receivers { book, context, .. } = &mut self.receivers;
        book.prove(snapshot, context);
    }

    /// Lets everything arrive, with nothing in its way. Events of messages that were given up are recovered, as their
    /// owner would. Then compares what arrived with the log.
    /// Panics: where the dispatcher does not run.
    pub(crate) fn come_to_rest(&mut self, engine: &Engine) {
        self.end_zombie();
        let (Some(run), receivers) = (&mut self.running, &mut self.receivers) else {
            panic!("{}: the tables are behind", self.receivers.context);
        };
        let view = SwitchView::of(engine);
        receivers.is_calm = true;
        quieten(run, receivers, &view);
        let snapshot = view.snapshot();
        receivers.book.prove(&snapshot, &receivers.context);
        let given_up = receivers.book.first_given_up(&run.book, &snapshot, &receivers.context);
        for (id, first) in given_up {
            run.recover_after((id, EventNumber(first.0 - 1)), receivers, &view);
        }
        quieten(run, receivers, &view);
        receivers.book.audit(&run.book, &snapshot, &receivers.context);
        receivers.is_calm = false;
    }

    /// The log has lost its newest part: it goes on from here, and numbers have other meanings behind it.
    pub(crate) fn cut(&mut self, snapshot: &Snapshot) {
        let Receivers { book, context, .. } = &mut self.receivers;
        book.cut(snapshot, context);
    }

    /// The notes of its cluster.
    pub(crate) const fn notes(&self) -> Option<&ClusterNotes> {
        self.notes.as_ref()
    }

    /// A hash of everything that receivers got, in order.
    pub(crate) fn trace(&self) -> [u8; 32] {
        self.receivers.book.trace()
    }

    /// The marks that were passed.
    pub(crate) fn marks(&self) -> Marks {
        let mut marks = self.receivers.marks.clone();
        if let Some(notes) = &self.notes {
            marks.add(&notes.shelf.marks());
        }
        marks
    }
}

fn quieten(run: &mut DispatcherRun, receivers: &mut Receivers, view: &SwitchView) {
    run.obey(DispatcherOrder::Reload(None), receivers, view);
    run.uptime += Duration::from_secs(60);
    for _ in 0..CALM_ROUNDS_MAX {
        let progress = run.step(receivers, view);
        run.fly_home(receivers, view);
        run.save(receivers, view);
        if progress == DispatcherProgress::Idle {
            if run.is_quiet(receivers, view) {
                return;
            }
            receivers.ahead += HOUR;
        }
    }
    panic!("{}: something waits for ever", receivers.context);
}

/// The next id of a kind.
fn drawn(kind: u64, ids: &AtomicU64) -> Uuid {
    Uuid::from_u64_pair(kind, ids.fetch_add(1, Ordering::Relaxed))
}

fn endpoint_id(number: u64) -> WebhookEndpointId {
    WebhookEndpointId(Uuid::from_u64_pair(22, number))
}

fn number_of(id: WebhookEndpointId) -> usize {
    id.0.as_u64_pair().1 as usize
}
