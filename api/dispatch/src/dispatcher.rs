//! The steps that have webhooks delivered: the dispatcher alone follows the event log, and it owns all
//! lanes.
//!
//! ```text
//! events -> lanes of their companies -> requests, sent by the driver -> lanes -> file
//! ```
//!
//! Requests to receivers that fail have places of their own, so that these never take those of others.
//! While no endpoint is on, nothing is read at all.
//!
//! A driver steps it with the present time, takes and sends its requests, says how they have ended, and
//! writes its changes down. It may do so at any time and in any order: a driver that is slow, or ends
//! in between, only delivers later, or once more.

mod keeping;
mod reloading;
mod sending;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use cardswitch_engine::directory::webhook_endpoint::WebhookEndpoint;
use cardswitch_engine::domain::event::{EventNumber, EventPlace};
use cardswitch_engine::domain::ids::{CompanySlot, Timestamp, WebhookEndpointId};
use cardswitch_engine::store::{Snapshot, Store, StoreError};
use uuid::Uuid;

pub use self::keeping::DeliveryFigures;
pub use self::sending::{EndedRequest, Request, RequestReport, WaitingCaller};
use crate::attempt::Attempt;
use crate::deliveries::{
    ATTEMPTS_MAX, Changes, Deliveries, DeliveriesError, KeptLane, PlacedAttempt, SavedDeliveries,
};
use crate::desk::EndpointDesk;
use crate::endpoint_queue::{EndpointQueue, QueueLine, QueuePlace};
use crate::lane::{EndpointHealth, QueuedEvent};
use crate::places::LanePlaces;

/// How many events are read at a time.
const EVENTS_READ_MAX: usize = 1_000;
/// How many lanes that are behind read the log before anything else is done.
const LANES_READ_MAX: usize = 2;
/// How long nothing is read after the tables could not be.
const READ_PAUSE: Duration = Duration::from_secs(1);
/// How many attempts wait to be written down; later ones are not noted.
const UNSAVED_MAX: usize = 20_000;
/// How many orders wait for endpoints to be read again. One beyond the bound is dropped, and its caller
/// learns that the switch is overloaded.
pub const ORDERS_MAX: usize = 1_024;

/// The present, as the driver knows it.
#[derive(Clone, Copy, Debug)]
pub struct StepContext<'a> {
    /// The tables.
    pub tables: &'a Store,
    /// The engine's time, by which messages are due.
    pub time: Timestamp,
    /// How long the dispatcher is at work, which never goes back.
    pub uptime: Duration,
}

/// Takes the answer to an order. Dropped without one where the switch has too much to do.
pub type ReplyTo<T> = Box<dyn FnOnce(T) + Send>;

/// Draws an id of the given instant; none where the system gives no random bytes.
pub type IdDraw = Box<dyn Fn(Timestamp) -> Option<Uuid> + Send>;

/// The orders to the dispatcher.
pub enum DispatcherOrder {
    /// Endpoints or rights have changed.
    Reload(Option<ReplyTo<()>>),
    /// Everything after this event is delivered again. The reply comes once that is written down;
    /// there is none where it cannot be.
    Recover(WebhookEndpointId, EventNumber, ReplyTo<bool>),
    /// An example is sent.
    Example(WebhookEndpointId, ReplyTo<Option<Attempt>>),
    /// The message of an attempt is sent once more.
    Resend(WebhookEndpointId, Uuid, ReplyTo<Option<Attempt>>),
    /// The attempts are requested.
    Attempts(WebhookEndpointId, ReplyTo<Vec<Attempt>>),
    /// How endpoints do.
    Health(Vec<WebhookEndpointId>, ReplyTo<Vec<Option<EndpointHealth>>>),
}

/// The outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DispatcherProgress {
    /// There is nothing to do before something comes in, or time passes.
    Idle,
    /// There is more to do.
    More,
    /// Endpoints were read, and nothing else was done. The driver says how long that took (`rest`).
    Reloaded,
}

/// How many requests are under way at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestPlaces {
    /// To receivers that take them.
    pub healthy: usize,
    /// To receivers that did not take the last.
    pub failing: usize,
    /// That callers wait for.
    pub asked: usize,
}

/// The tools of the dispatcher.
pub struct Tools {
    /// The stored state.
    pub deliveries: Arc<Deliveries>,
    /// The bounds of requests.
    pub places: RequestPlaces,
    /// The source of ids.
    pub ids: IdDraw,
    /// The places from which lanes go on that are not among the stored state, if there are any.
    pub lane_places: Option<LanePlaces>,
}

/// The state of all deliveries.
pub struct Dispatcher {
    tools: Tools,
    desks: BTreeMap<WebhookEndpointId, EndpointDesk>,
    by_company: BTreeMap<CompanySlot, Vec<WebhookEndpointId>>,
    followed: EventPlace,
    /// Lanes with something to send, by when.
    due: EndpointQueue,
    /// Lanes that read the log by themselves.
    behind: VecDeque<WebhookEndpointId>,
    dirty: BTreeSet<WebhookEndpointId>,
    removed: Vec<WebhookEndpointId>,
    unsaved: Vec<PlacedAttempt>,
    /// The instant of the first failed save, while saves fail.
    unsaved_since: Option<Timestamp>,
    /// When changes are written down next.
    save_at: Duration,
    idle_saves: u32,
    /// Lanes as they were read, until their endpoints are.
    kept: BTreeMap<WebhookEndpointId, KeptLane>,
    /// The uptime at which endpoints are read again.
    reload_at: Duration,
    /// The earliest uptime for that.
    reload_from: Duration,
    /// Whether they have changed since; the callers in `reloads` wait until they are read.
    is_stale: bool,
    reloads: Vec<ReplyTo<()>>,
    /// Orders that wait until that is seen.
    postponed: VecDeque<DispatcherOrder>,
    /// Callers whose recovery the next save writes down.
    recoveries: Vec<ReplyTo<bool>>,
    /// Those whose recovery is being written down.
    recoveries_saving: Vec<ReplyTo<bool>>,
    read_at: Duration,
    sending: usize,
    sending_failing: usize,
    /// The number of requests under way that callers wait for, by the company of the endpoint.
    sending_asked: BTreeMap<CompanySlot, usize>,
    /// Requests that the driver has not taken.
    requests: VecDeque<(Request, EndedRequest)>,
    /// Endpoints that the engine is to turn off, which the driver has not taken.
    gone: Vec<Arc<WebhookEndpoint>>,
    delivered: u64,
    failed: u64,
}

cardswitch_engine::opaque!(Dispatcher, Tools, DispatcherOrder);

impl Dispatcher {
    /// Reads the stored state. The switch decides since the record of the instant `decides_after`.
    /// Errors: it cannot be read, or not be set back.
    pub fn new(
        tools: Tools,
        tables: &Store,
        decides_after: Timestamp,
    ) -> Result<Self, DeliveriesError> {
        let (followed, kept) = read_kept(&tools.deliveries, tables, decides_after)?;
        Ok(Self {
            tools,
            desks: BTreeMap::new(),
            by_company: BTreeMap::new(),
            followed,
            due: EndpointQueue::default(),
            behind: VecDeque::new(),
            dirty: BTreeSet::new(),
            removed: Vec::new(),
            unsaved: Vec::new(),
            unsaved_since: None,
            save_at: keeping::SAVE_INTERVAL,
            idle_saves: 0,
            kept,
            reload_at: Duration::ZERO,
            reload_from: Duration::ZERO,
            is_stale: true,
            reloads: Vec::new(),
            postponed: VecDeque::new(),
            recoveries: Vec::new(),
            recoveries_saving: Vec::new(),
            read_at: Duration::ZERO,
            sending: 0,
            sending_failing: 0,
            sending_asked: BTreeMap::new(),
            requests: VecDeque::new(),
            gone: Vec::new(),
            delivered: 0,
            failed: 0,
        })
    }

    /// Does the work that is due, a bounded part of it.
    pub fn step(&mut self, now: StepContext<'_>) -> DispatcherProgress {
        if (self.is_stale || now.uptime >= self.reload_at) && now.uptime >= self.reload_from {
            self.catch_up_with_changes(now);
            return DispatcherProgress::Reloaded;
        }
        let mut has_more = false;
        if now.uptime >= self.read_at {
            match self.follow(now).and_then(|more| Ok(self.catch_up(now)? || more)) {
                Ok(more) => has_more = more,
                Err(error) => {
                    tracing::error!(%error, "webhooks wait: the event log cannot be read");
                    self.pause_reading(now.uptime);
                }
            }
        }
        self.start_due(now);
        // INVARIANT: orders wait only for endpoints to be read again, and that is to come.
        debug_assert!(self.is_stale || self.postponed.is_empty());
        if has_more { DispatcherProgress::More } else { DispatcherProgress::Idle }
    }

    /// The next request to send, if there is one, and its end, which the driver gives back with the outcome (`end`).
    pub fn next_request(&mut self) -> Option<(Request, EndedRequest)> {
        self.requests.pop_front()
    }

    /// The next endpoint that the engine is to turn off, since its receiver says that it is gone. No
    /// later try would report it: the driver repeats that until the engine has carried it out, and
    /// orders a reload then.
    pub fn next_gone(&mut self) -> Option<Arc<WebhookEndpoint>> {
        self.gone.pop()
    }

    /// The last event that was handed to lanes.
    pub const fn followed(&self) -> EventNumber {
        self.followed.number
    }

    /// Whether an event after that would be read at this uptime.
    pub fn is_following(&self, uptime: Duration) -> bool {
        !self.by_company.is_empty() && uptime >= self.read_at
    }

    /// Reads nothing for a while: the tables cannot be read.
    pub fn pause_reading(&mut self, uptime: Duration) {
        self.read_at = uptime + READ_PAUSE;
    }

    /// Reads on in the log and hands each event to the lanes of its company.
    fn follow(&mut self, now: StepContext<'_>) -> Result<bool, StoreError> {
        if self.by_company.is_empty() {
            return Ok(false);
        }
        let events = now.tables.read()?.events_after(self.followed.number, EVENTS_READ_MAX)?;
        let mut touched = BTreeSet::new();
        for event in &events {
            self.followed = EventPlace { number: event.number, at: Some(event.at) };
            let entry = QueuedEvent { number: event.number, transaction: event.transaction };
            for id in self.by_company.get(&event.company).into_iter().flatten() {
                // A lane that takes nothing of it, such as one that is behind, is not written down anew.
                if self.desks.get_mut(id).is_some_and(|desk| desk.kept.lane.offer(entry)) {
                    touched.insert(*id);
                }
            }
        }
        for id in touched {
            self.refresh(id, now.time);
        }
        Ok(events.len() == EVENTS_READ_MAX)
    }

    /// Has some of the lanes that are behind read the log by themselves.
    fn catch_up(&mut self, now: StepContext<'_>) -> Result<bool, StoreError> {
        for _ in 0..LANES_READ_MAX.min(self.behind.len()) {
            let Some(id) = self.behind.pop_front() else { break };
            let Some(desk) = self.desks.get_mut(&id) else { continue };
            desk.is_queued_behind = false;
            let Some(after) = desk.kept.lane.wants() else { continue };
            let followed = self.followed.number;
            let read = now.tables.read();
            match read.and_then(|snapshot| desk.read_after(&snapshot, after, followed)) {
                Ok((entries, upto)) => desk.kept.lane.take_up(entries, upto, followed),
                Err(error) => {
                    self.refresh(id, now.time);
                    return Err(error);
                }
            }
            self.refresh(id, now.time);
        }
        Ok(!self.behind.is_empty())
    }

    /// Puts a lane that has changed where it stands now.
    fn refresh(&mut self, id: WebhookEndpointId, now: Timestamp) {
        let Some(desk) = self.desks.get_mut(&id) else { return };
        self.dirty.insert(id);
        let line = QueueLine::of(desk.kept.lane.is_failing());
        // A lane with fresh events stands in line from the moment they came.
        let queued = desk.kept.lane.due().map(|due| match desk.queued {
            Some(queued) if due.0 == i64::MIN && queued.at <= now => QueuePlace { line, ..queued },
            _ if due.0 == i64::MIN => QueuePlace { at: now, line },
            _ => QueuePlace { at: due, line },
        });
        self.due.put(id, desk.queued, queued);
        desk.queued = queued;
        if desk.kept.lane.wants().is_some() && !desk.is_queued_behind {
            desk.is_queued_behind = true;
            self.behind.push_back(id);
        }
    }

    /// Carries out an order. If endpoints have changed, it waits until they are read.
    pub fn obey(&mut self, order: DispatcherOrder, now: StepContext<'_>) {
        match order {
            DispatcherOrder::Reload(reply) => {
                self.is_stale = true;
                self.reloads.extend(reply);
            }
            order if self.is_stale => {
                if self.postponed.len() < ORDERS_MAX {
                    self.postponed.push_back(order);
                }
            }
            order => self.carry_out(order, now),
        }
    }

    /// Reads endpoints as they are now, and carries out the orders that have waited for that.
    fn catch_up_with_changes(&mut self, now: StepContext<'_>) {
        self.reload(now);
        for order in std::mem::take(&mut self.postponed) {
            self.carry_out(order, now);
        }
    }

    fn carry_out(&mut self, order: DispatcherOrder, now: StepContext<'_>) {
        match order {
            DispatcherOrder::Reload(reply) => self.reloads.extend(reply),
            DispatcherOrder::Recover(id, after, reply) => {
                let followed = self.followed.number;
                let desk = self.desks.get_mut(&id).filter(|desk| !desk.kept.lane.is_off);
                let Some(desk) = desk else {
                    reply(false);
                    return;
                };
                desk.kept.lane.recover(after, followed);
                self.refresh(id, now.time);
                self.save_recovery(reply);
            }
            DispatcherOrder::Example(id, reply) => self.send_example(id, reply, now.time),
            DispatcherOrder::Resend(id, attempt, reply) => {
                self.resend(id, attempt, reply, now.time)
            }
            DispatcherOrder::Attempts(id, reply) => reply(self.attempts(id)),
            DispatcherOrder::Health(ids, reply) => {
                let health = |id| self.desks.get(id).map(|desk| desk.kept.lane.health());
                reply(ids.iter().map(health).collect());
            }
        }
    }

    /// The attempts at an endpoint, the newest first.
    fn attempts(&self, id: WebhookEndpointId) -> Vec<Attempt> {
        let saved = self.tools.deliveries.attempts(id).unwrap_or_else(|error| {
            tracing::error!(%error, "attempts cannot be read");
            Vec::new()
        });
        let unsaved = self.unsaved.iter().filter(|(of, ..)| *of == id);
        let mut all: Vec<_> = saved;
        all.extend(unsaved.map(|(_, _, attempt)| attempt.clone()));
        all.sort_by_key(|attempt| std::cmp::Reverse((attempt.at, attempt.id)));
        all.dedup_by_key(|attempt| attempt.id);
        all.truncate(usize::from(ATTEMPTS_MAX));
        all
    }

    /// How many requests have not ended.
    pub fn under_way(&self) -> usize {
        self.sending + self.sending_failing + self.sending_asked.values().sum::<usize>()
    }
}

/// The places of the follower and the lanes. If the log has lost its newest part since they were
/// written, as in a directory that was put back without the end of its journal, they are set back
/// to where it is still the same. Messages then get other ids than before: numbers have other
/// meanings. A decision since the start of the switch is none of these, however old its instant:
/// timers that were due run at the instants at which they were.
/// Errors: the stored state or the log cannot be read, or that cannot be written down.
fn read_kept(
    deliveries: &Deliveries,
    tables: &Store,
    decides_after: Timestamp,
) -> Result<(EventPlace, BTreeMap<WebhookEndpointId, KeptLane>), DeliveriesError> {
    let SavedDeliveries { followed, mut lanes } = deliveries.load()?;
    let known = followed.unwrap_or_default();
    let resumed = tables.read().and_then(|snapshot| resume(&snapshot, known, decides_after));
    let resumed = resumed.map_err(|error| DeliveriesError::Log(Box::new(error)))?;
    if !is_at(resumed, known) {
        let (kept, left) = (known.number.0, resumed.number.0);
        tracing::warn!(kept, left, "the event log is not the one that webhooks followed");
        for (_, KeptLane { lane, .. }) in &mut lanes {
            lane.cut(resumed.number, known.number);
        }
        // At once: the next start knows less of what was decided since.
        let series = Some(deliveries.draw_series());
        let changes = Changes { followed: resumed, lanes, series, ..Changes::default() };
        deliveries.save(&changes)?;
        lanes = changes.lanes;
    }
    Ok((resumed, lanes.into_iter().collect()))
}

/// The place from which a follower at `known` goes on.
fn resume(
    snapshot: &Snapshot,
    known: EventPlace,
    decides_after: Timestamp,
) -> Result<EventPlace, StoreError> {
    let resumed = snapshot.resume_after(known)?.min(known.number);
    let place = snapshot.event_place(resumed)?;
    if is_at(place, known) {
        return Ok(place);
    }
    snapshot.event_place(resumed.min(snapshot.first_event_at(decides_after.plus(1))?))
}

/// Whether a place is the known one; of that only the number may be kept.
fn is_at(place: EventPlace, known: EventPlace) -> bool {
    place.number == known.number && known.at.is_none_or(|at| place.at == Some(at))
}
