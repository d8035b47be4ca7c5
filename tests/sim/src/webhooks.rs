//! Webhooks of a simulated world: the product's own dispatcher over a simulated disk, receivers that take
//! messages, refuse them, answer late or never, and the network in between.
//!
//! Every draw here is from a stream of its own, so that a world without webhooks is as it was. The promises to
//! receivers are compared in `book`.

mod book;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cardswitch_dispatch::deliveries::{
    AttemptFailure, AttemptResult, Bodies, Deliveries, DeliveriesError,
};
use cardswitch_dispatch::dispatcher::{
    Dispatcher, DispatcherOrder, DispatcherProgress, EndedRequest, Places, Request, RequestReport,
    StepContext, Tools,
};
use cardswitch_dispatch::lane::EndpointHealth;
use cardswitch_engine::command::Command;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::webhook_endpoint::{
    NewWebhookEndpoint, WebhookEndpoint, WebhookEndpointChanges, WebhookEndpointCommand,
};
use cardswitch_engine::domain::event::EventNumber;
use cardswitch_engine::domain::ids::{RecordSeq, Timestamp, WebhookEndpointId};
use cardswitch_engine::engine::Engine;
use cardswitch_engine::journal::testing::{DiskFaultPlan, FaultyBackend};
use cardswitch_engine::store::Snapshot;
use cardswitch_engine::store::overlay::SharedBackend;
use parking_lot::Mutex;
use uuid::Uuid;

use self::book::{Book, Letter};
use crate::disks::{Crash, Disks};
use crate::marks::{Mark, Marks};
use crate::model::HOUR;
use crate::rng::Rng;
use crate::samples::{admin, company_id};

/// A world in so many has webhooks. Units: hundredths.
const WORLDS_PERCENT: u64 = 16;
const COMPANIES: u64 = 3;
/// So many endpoints are there at most.
const ENDPOINTS_MAX: u64 = 6;
/// So many rounds are enough for all that waits, once nothing is in the way.
const CALM_ROUNDS_MAX: usize = 3_000;
/// A longer lag proves that the lane has read the log itself. Units: events.
const BEHIND_EVENTS: u64 = 300;

/// How often things happen to webhooks in one world.
struct WebhookRates {
    /// Of 1,024 happenings, so many let webhooks move.
    moves: u64,
    /// So many moves come together at most.
    burst: u64,
    /// The longest time from one step to the next. Units: milliseconds.
    pause_ms: u64,
    crashed_starts_percent: u64,
    /// How many of a thousand moves break the disk, and change the endpoints.
    faults_per_mille: u64,
    changes_per_mille: u64,
    places: Places,
}

/// How a receiver takes messages at present.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mood {
    Healthy,
    Moody,
    Down,
}

/// A request on its way.
enum Flight {
    Unsent(Box<Request>),
    /// It arrives, and then the dispatcher learns of it, if it has not given it up.
    Arriving(Letter, Option<(Box<EndedRequest>, AttemptResult)>),
    /// It has ended; without a result there was nothing to tell.
    Ending(Box<EndedRequest>, Option<AttemptResult>),
}

/// The dispatcher and the file below it.
struct DispatcherRun {
    dispatcher: Dispatcher,
    deliveries: Arc<Deliveries>,
    uptime: Duration,
}

pub(crate) struct Webhooks {
    context: String,
    rng: Rng,
    rates: WebhookRates,
    /// None while the switch is down, and before its tables show the record `awaited`.
    running: Option<DispatcherRun>,
    awaited: RecordSeq,
    flights: Vec<Flight>,
    /// The receivers' moods, by the number of the endpoint.
    moods: Vec<Mood>,
    is_calm: bool,
    book: Book,
    /// Endpoints that were recovered, which the book has not noted.
    recovered: Arc<Mutex<Vec<WebhookEndpointId>>>,
    /// How far its time is ahead of the machine's clock. Units: microseconds.
    ahead: i64,
    /// Ids that were drawn.
    drawn: Arc<AtomicU64>,
    /// The copy of the disks that is put back at the end, and after how many commands it is made.
    pub(crate) copy: Option<Disks>,
    copy_after: u64,
    pub(crate) marks: Marks,
}

impl Webhooks {
    /// The webhooks of a world of `length` commands, if it has any.
    pub(crate) fn draw(seed: u64, length: u64) -> Option<Self> {
        let mut rng = Rng::new(seed ^ 0x003E_B400);
        if !rng.chance(WORLDS_PERCENT) {
            return None;
        }
        let rates = WebhookRates {
            moves: 8 << rng.below(8),
            burst: 1 << rng.below(5),
            pause_ms: 1 << rng.below(12),
            crashed_starts_percent: rng.below(40),
            faults_per_mille: if rng.chance(30) { rng.below(4) } else { 0 },
            changes_per_mille: rng.below(6),
            places: Places {
                healthy: 1 + rng.below(3) as usize,
                failing: 1 + rng.below(3) as usize,
                asked: 2,
            },
        };
        let copy_after = rng.below(length.max(1));
        Some(Self {
            context: format!("seed {seed}: webhooks"),
            rng,
            rates,
            running: None,
            awaited: RecordSeq(0),
            flights: Vec::new(),
            moods: Vec::new(),
            is_calm: false,
            book: Book::default(),
            recovered: Arc::default(),
            ahead: 0,
            drawn: Arc::default(),
            copy: None,
            copy_after,
            marks: Marks::default(),
        })
    }

    /// The switch has started, and the dispatcher will once the tables show what is durable.
    pub(crate) fn await_tables(&mut self, durable: RecordSeq) {
        self.awaited = durable;
    }

    /// Starts the dispatcher, after more crashes on the way, each at a write of its file.
    /// Panics: where a file that a crash left cannot be opened.
    fn open(&mut self, engine: &Engine, disk: &mut FaultyBackend) {
        while self.rng.below(100) < self.rates.crashed_starts_percent {
            let nth = Some(1 + self.rng.below(12));
            disk.plan(DiskFaultPlan { fail_write: nth, ..DiskFaultPlan::default() });
            let opened = self.try_open(engine, disk);
            *disk = match self.rng.chance(50) {
                true => disk.after_kill(),
                false => disk.after_torn_power_failure(self.rng.number() >> 1),
            };
            self.marks.pass_if(Mark::WebhooksFailedStart, opened.is_err());
        }
        let opened = self.try_open(engine, disk);
        self.running = Some(opened.unwrap_or_else(|error| panic!("{}: {error}", self.context)));
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
        let deliveries = Arc::new(Deliveries::on(Box::new(storage), Box::new(draw_series))?);
        let kept = deliveries.load()?;
        let before = deliveries.series();
        let tools = Tools {
            deliveries: Arc::clone(&deliveries),
            places: self.rates.places,
            ids: Box::new(move |_| Some(drawn(20, &ids))),
        };
        let dispatcher = Dispatcher::new(tools, engine.store(), engine.decides_after())?;
        let is_cut = deliveries.series() != before;
        assert!(!is_cut || self.book.is_cut(), "{}: the log is held for another", self.context);
        self.marks.pass_if(Mark::EventLogCut, is_cut);
        let followed = kept.followed.unwrap_or_default().number;
        self.book.begin_run(kept.lanes.iter().map(|(id, _)| *id).collect(), followed);
        Ok(DispatcherRun { dispatcher, deliveries, uptime: Duration::ZERO })
    }

    /// The switch goes down, with what is on its way: it arrives, or it does not.
    pub(crate) fn go_down(&mut self) {
        self.running = None;
        let flights = std::mem::take(&mut self.flights);
        self.marks.pass_if(Mark::CrashAmidRequest, !flights.is_empty());
        for flight in flights {
            if let Flight::Arriving(letter, _) = flight
                && self.rng.chance(50)
            {
                self.book.arrive(&letter, &self.context);
            }
        }
    }

    /// An orderly stop: requests under way end, or do not in time, and everything is written down.
    pub(crate) fn shut_down(&mut self, engine: &Engine) {
        if self.running.is_none() {
            return;
        }
        for _ in 0..self.rng.below(20) {
            self.fly(engine);
        }
        self.save(engine);
    }

    /// The first endpoints.
    pub(crate) fn opening(&mut self) -> Vec<Command> {
        let count = 1 + self.rng.below(3);
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
    pub(crate) fn move_now_and_then(
        &mut self,
        engine: &Engine,
        disk: &mut FaultyBackend,
    ) -> Option<Command> {
        if self.rng.below(1_024) >= self.rates.moves || !self.is_running(engine, disk) {
            return None;
        }
        for _ in 0..=self.rng.below(self.rates.burst) {
            self.move_once(engine, disk);
        }
        let is_changed = self.rng.below(1_000) < self.rates.changes_per_mille;
        is_changed.then(|| self.draw_change(engine)).flatten()
    }

    /// Starts the dispatcher if it can.
    fn is_running(&mut self, engine: &Engine, disk: &mut FaultyBackend) -> bool {
        if self.running.is_none() && engine.watermark().applied() >= self.awaited {
            self.open(engine, disk);
        }
        self.running.is_some()
    }

    fn move_once(&mut self, engine: &Engine, disk: &FaultyBackend) {
        if self.rng.below(1_000) < self.rates.faults_per_mille {
            self.break_disk(disk);
        }
        match self.rng.below(100) {
            0..40 => drop(self.step(engine)),
            40..95 => self.fly(engine),
            95 => self.change_mood(),
            96 => self.obey(DispatcherOrder::Reload(None), engine),
            97 if self.rng.chance(20) => self.recover(engine),
            _ => self.save_if_due(engine),
        }
    }

    fn break_disk(&mut self, disk: &FaultyBackend) {
        let nth = Some(1 + self.rng.below(20));
        let nothing = DiskFaultPlan::default();
        disk.plan(match self.rng.below(4) {
            0 => DiskFaultPlan { fail_write: nth, ..nothing },
            1 => DiskFaultPlan { fail_sync: nth, ..nothing },
            2 => DiskFaultPlan { disk_full_bytes: Some(disk.content().len() as u64), ..nothing },
            // There is room again.
            _ => nothing,
        });
    }

    fn change_mood(&mut self) {
        if self.moods.is_empty() {
            return;
        }
        let at = self.rng.below(self.moods.len() as u64) as usize;
        self.moods[at] = self.rng.pick(&[Mood::Healthy, Mood::Healthy, Mood::Moody, Mood::Down]);
    }

    fn draw_endpoint(&mut self) -> Command {
        let number = self.moods.len() as u64;
        self.moods.push(Mood::Healthy);
        let new = NewWebhookEndpoint {
            id: endpoint_id(number),
            company: company_id(self.rng.below(COMPANIES)),
            app: None,
            url: format!("https://{number}.example/"),
            description: "A receiver".parse().unwrap(),
            sealed_secret: vec![7; 40],
        };
        admin(AdminCommand::WebhookEndpoint(WebhookEndpointCommand::Create(new)))
    }

    /// Another endpoint, or one that is turned off or on.
    fn draw_change(&mut self, engine: &Engine) -> Option<Command> {
        if (self.moods.len() as u64) < ENDPOINTS_MAX && self.rng.chance(50) {
            return Some(self.draw_endpoint());
        }
        let snapshot = engine.store().read().unwrap();
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
        let at = self.rng.below(endpoints.len().max(1) as u64) as usize;
        (at < endpoints.len()).then(|| endpoints.swap_remove(at))
    }

    /// The owner of an endpoint has events delivered once more.
    fn recover(&mut self, engine: &Engine) {
        let snapshot = engine.store().read().unwrap();
        let Some(endpoint) = self.pick_endpoint(&snapshot) else { return };
        let from = self.book.promised_from(&endpoint);
        let first = snapshot.first_event_at(from).unwrap().0;
        let last = snapshot.last_event().unwrap().0;
        let after = EventNumber(first + self.rng.below((last + 1).saturating_sub(first).max(1)));
        self.recover_after(endpoint.id, after, engine);
    }

    fn recover_after(&mut self, id: WebhookEndpointId, after: EventNumber, engine: &Engine) {
        let recovered = Arc::clone(&self.recovered);
        let reply = move |_| recovered.lock().push(id);
        self.obey(DispatcherOrder::Recover(id, after, Box::new(reply)), engine);
    }

    fn obey(&mut self, order: DispatcherOrder, engine: &Engine) {
        let ahead = self.ahead;
        let running = self.running.as_mut().unwrap();
        let now = now(engine, ahead, running.uptime);
        running.dispatcher.obey(order, now);
        self.note_recovered();
    }

    /// Events of endpoints that were recovered may come once more. An order waits for endpoints to be read.
    fn note_recovered(&mut self) {
        for id in self.recovered.lock().drain(..) {
            self.book.forget_run(id);
        }
    }

    fn step(&mut self, engine: &Engine) -> DispatcherProgress {
        let pause_ms = if self.rng.chance(5) { 2_000 } else { self.rates.pause_ms };
        let pause = Duration::from_millis(self.rng.below(pause_ms));
        let running = self.running.as_mut().unwrap();
        running.uptime += pause;
        let now = now(engine, self.ahead, running.uptime);
        let progress = running.dispatcher.step(now);
        self.note_recovered();
        let running = self.running.as_mut().unwrap();
        if progress == DispatcherProgress::Reloaded {
            running.dispatcher.rest(running.uptime, pause / 20);
            self.book.notice(&engine.store().read().unwrap());
        }
        while let Some(request) = running.dispatcher.next_request() {
            let followed = running.dispatcher.followed().0;
            let oldest = request.content.numbers()[0].0;
            self.marks.pass_if(Mark::LaneBehind, oldest + BEHIND_EVENTS < followed);
            self.marks.pass_if(Mark::WebhookRetried, request.tries > 1);
            self.book.begin(&request, &self.context);
            self.flights.push(Flight::Unsent(Box::new(request)));
        }
        progress
    }

    /// A request that is under way moves.
    fn fly(&mut self, engine: &Engine) {
        if self.flights.is_empty() {
            return;
        }
        let at = self.rng.below(self.flights.len() as u64) as usize;
        match self.flights.swap_remove(at) {
            Flight::Unsent(request) => self.send(*request, engine),
            Flight::Arriving(letter, ending) => {
                self.marks.pass_if(Mark::LateArrival, ending.is_none());
                self.book.arrive(&letter, &self.context);
                let ending = ending.map(|(done, result)| Flight::Ending(done, Some(result)));
                self.flights.extend(ending);
            }
            Flight::Ending(done, result) => self.end(*done, result, engine),
        }
    }

    fn send(&mut self, request: Request, engine: &Engine) {
        let snapshot = engine.store().read().unwrap();
        let (applied, durable) = (engine.watermark().applied(), engine.durable_seq());
        assert!(applied <= durable, "{}: {applied:?} is told of", self.context);
        let addressed = request.content.address(&snapshot, &request.endpoint).unwrap();
        let id = request.endpoint.id;
        let done = Box::new(request.done);
        let Some(addressed) = addressed else {
            self.flights.push(Flight::Ending(done, None));
            return;
        };
        let numbers: Vec<_> = addressed.events.iter().map(|event| event.number).collect();
        assert_eq!(numbers, request.content.numbers(), "{}: events are missing", self.context);
        let created_at = addressed.endpoint.created_at;
        let mut letter = Letter { id, created_at, is_late: false, events: addressed.events };
        let mood = self.moods[number_of(id)];
        let taken = match mood {
            _ if self.is_calm => 100,
            Mood::Healthy => 92,
            Mood::Moody => 50,
            Mood::Down => 0,
        };
        let broken = |failure| AttemptResult::Unanswered(failure);
        let result = match self.rng.below(100) {
            draw if draw < taken => AttemptResult::Answered(204),
            _ => match self.rng.below(5) {
                0 => AttemptResult::Answered(500),
                1 => broken(AttemptFailure::Broken),
                2 => broken(AttemptFailure::TooSlow),
                3 => {
                    letter.is_late = true;
                    self.flights.push(Flight::Arriving(letter, None));
                    self.flights.push(Flight::Ending(done, Some(broken(AttemptFailure::TooSlow))));
                    return;
                }
                _ => {
                    self.flights
                        .push(Flight::Ending(done, Some(broken(AttemptFailure::NotReachable))));
                    return;
                }
            },
        };
        self.flights.push(Flight::Arriving(letter, Some((done, result))));
    }

    fn end(&mut self, mut done: EndedRequest, result: Option<AttemptResult>, engine: &Engine) {
        let is_given_up = self.book.end(&done, result.as_ref());
        self.marks.pass_if(Mark::WebhookGivenUp, is_given_up);
        done.report = RequestReport { result, duration_ms: 1, bodies: Bodies::NONE };
        let running = self.running.as_mut().unwrap();
        running.dispatcher.end(done, now(engine, self.ahead, running.uptime));
    }

    fn save_if_due(&mut self, engine: &Engine) {
        let running = self.running.as_ref().unwrap();
        if running.dispatcher.is_save_due(running.uptime) {
            self.save(engine);
        }
    }

    fn save(&mut self, engine: &Engine) {
        let DispatcherRun { dispatcher, deliveries, uptime } = self.running.as_mut().unwrap();
        let Some(changes) = dispatcher.take_changes(*uptime) else { return };
        let outcome = deliveries.save(&changes).map_err(|error| error.to_string());
        self.marks.pass_if(Mark::WebhooksUnsaved, outcome.is_err());
        dispatcher.end_save(changes, outcome, now(engine, self.ahead, *uptime));
    }

    /// Compares the events that were told with the log.
    pub(crate) fn prove(&mut self, snapshot: &Snapshot) {
        self.book.prove(snapshot, &self.context);
    }

    /// Lets everything arrive, with nothing in its way. Events of messages that were given up are recovered, as their
    /// owner would. Then compares what arrived with the log.
    pub(crate) fn come_to_rest(&mut self, engine: &Engine, disk: &mut FaultyBackend) {
        assert!(self.is_running(engine, disk), "{}: the tables are behind", self.context);
        self.is_calm = true;
        self.quieten(engine);
        let snapshot = engine.store().read().unwrap();
        self.book.prove(&snapshot, &self.context);
        let given_up = self.book.first_given_up(&snapshot, &self.context);
        for (id, first) in given_up {
            self.recover_after(id, EventNumber(first.0 - 1), engine);
        }
        self.quieten(engine);
        self.book.audit(&snapshot, &self.context);
        self.is_calm = false;
    }

    fn quieten(&mut self, engine: &Engine) {
        self.obey(DispatcherOrder::Reload(None), engine);
        self.running.as_mut().unwrap().uptime += Duration::from_secs(60);
        for _ in 0..CALM_ROUNDS_MAX {
            let progress = self.step(engine);
            while !self.flights.is_empty() {
                self.fly(engine);
            }
            self.save(engine);
            if progress == DispatcherProgress::Idle {
                if self.is_quiet(engine) {
                    return;
                }
                self.ahead += HOUR;
            }
        }
        panic!("{}: something waits for ever", self.context);
    }

    fn is_quiet(&mut self, engine: &Engine) -> bool {
        let snapshot = engine.store().read().unwrap();
        let endpoints = snapshot.all_webhook_endpoints().unwrap();
        let ids = endpoints.iter().filter(|endpoint| endpoint.is_enabled());
        let ids: Vec<_> = ids.map(|endpoint| endpoint.id).collect();
        let is_alone = ids.is_empty();
        let healths = Arc::new(Mutex::new(Vec::new()));
        let shown = Arc::clone(&healths);
        self.obey(
            DispatcherOrder::Health(ids, Box::new(move |found| *shown.lock() = found)),
            engine,
        );
        let running = self.running.as_ref().unwrap();
        let is_behind =
            |health: &Option<EndpointHealth>| health.is_none_or(|health| health.is_behind);
        let is_read = running.dispatcher.followed() >= snapshot.last_event().unwrap();
        running.dispatcher.figures(engine.store()).pending == 0
            && (is_read || is_alone)
            && !healths.lock().iter().any(is_behind)
    }

    /// The log has lost its newest part: it goes on from here, and numbers have other meanings behind it.
    pub(crate) fn cut(&mut self, snapshot: &Snapshot) {
        self.book.cut(snapshot, &self.context);
    }

    /// A hash of everything that receivers got, in order.
    pub(crate) fn trace(&self) -> [u8; 32] {
        self.book.trace()
    }
}

fn now(engine: &Engine, ahead: i64, uptime: Duration) -> StepContext<'_> {
    let time = Timestamp(engine.clock().now().0 + ahead);
    StepContext { tables: engine.store(), time, uptime }
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
