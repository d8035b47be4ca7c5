//! The task that has webhooks delivered: it alone follows the event log, and it owns all lanes.
//!
//! ```text
//! events -> lanes of their companies -> requests, each a task of its own -> lanes -> file
//! ```
//!
//! Requests to receivers that fail have places of their own, so that these never take those of others.
//! While no endpoint is on, nothing is read at all.

mod keeping;
mod reloading;
mod sending;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use cardswitch_edge::descriptors::SendBounds;
use cardswitch_edge::switch::Switch;
use cardswitch_engine::domain::event::EventPlace;
use cardswitch_engine::domain::ids::{CompanySlot, Timestamp, WebhookEndpointId};
use cardswitch_engine::store::{Snapshot, StoreError};
use cardswitch_secrets::Secrets;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, MissedTickBehavior};

use self::sending::Done;
use super::deliveries::{
    ATTEMPTS_MAX, Attempt, Deliveries, DeliveriesError, KeptLane, Loaded, PlacedAttempt,
};
use super::desk::Desk;
use super::due::{Due, Line, Queued};
use super::lane::Entry;
use super::sender::Sender;
use super::{Figures, ORDERS_MAX, Order};

/// How many events are read at a time.
const EVENTS_READ_MAX: usize = 1_000;
/// How many lanes that are behind read the log before anything else is done.
const LANES_READ_MAX: usize = 2;
/// How often changes are written down.
const SAVE_INTERVAL: Duration = Duration::from_secs(1);
/// How often the clock is read.
const TICK: Duration = Duration::from_millis(100);
/// How long requests under way may take once the switch stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
/// How long nothing is read after the tables could not be.
const READ_PAUSE: Duration = Duration::from_secs(1);
/// How many attempts wait to be written down; later ones are not noted.
const UNSAVED_MAX: usize = 20_000;

/// The tools of the dispatcher.
pub(super) struct Tools {
    pub(super) switch: Switch,
    pub(super) secrets: Arc<Secrets>,
    pub(super) sender: Sender,
    pub(super) sends: SendBounds,
    pub(super) deliveries: Arc<Deliveries>,
    pub(super) orders: mpsc::WeakSender<Order>,
    pub(super) figures: Arc<Mutex<Figures>>,
}

/// The wait for the next event.
type EventWait = Pin<Box<dyn Future<Output = bool> + Send>>;

/// The state of all deliveries.
pub(super) struct Dispatcher {
    tools: Tools,
    desks: BTreeMap<WebhookEndpointId, Desk>,
    by_company: BTreeMap<CompanySlot, Vec<WebhookEndpointId>>,
    followed: EventPlace,
    /// Lanes with something to send, by when.
    due: Due,
    /// Lanes that read the log by themselves.
    behind: VecDeque<WebhookEndpointId>,
    dirty: BTreeSet<WebhookEndpointId>,
    removed: Vec<WebhookEndpointId>,
    unsaved: Vec<PlacedAttempt>,
    /// Since when nothing could be written down, where that is so.
    unsaved_since: Option<Timestamp>,
    /// Lanes as they were read, until their endpoints are.
    kept: BTreeMap<WebhookEndpointId, KeptLane>,
    /// The instant at which endpoints are read again.
    reload_at: Instant,
    /// The earliest instant for that.
    reload_from: Instant,
    /// Whether they have changed since; the callers in `reloads` wait until they are read.
    is_stale: bool,
    reloads: Vec<oneshot::Sender<()>>,
    /// Orders that wait until that is seen.
    postponed: VecDeque<Order>,
    read_at: Instant,
    sending: usize,
    sending_failing: usize,
    /// The number of requests under way that callers wait for, by the company of the endpoint.
    sending_asked: BTreeMap<CompanySlot, usize>,
    idle_saves: u32,
    figures: Figures,
    ended: mpsc::UnboundedSender<Done>,
    ends: mpsc::UnboundedReceiver<Done>,
}

impl Dispatcher {
    /// Reads the stored state. Errors: it cannot be read.
    pub(super) fn new(tools: Tools) -> Result<Self, DeliveriesError> {
        let (followed, kept) = read_kept(&tools)?;
        let (ended, ends) = mpsc::unbounded_channel();
        Ok(Self {
            tools,
            desks: BTreeMap::new(),
            by_company: BTreeMap::new(),
            followed,
            due: Due::default(),
            behind: VecDeque::new(),
            dirty: BTreeSet::new(),
            removed: Vec::new(),
            unsaved: Vec::new(),
            unsaved_since: None,
            kept,
            reload_at: Instant::now(),
            reload_from: Instant::now(),
            is_stale: true,
            reloads: Vec::new(),
            postponed: VecDeque::new(),
            read_at: Instant::now(),
            sending: 0,
            sending_failing: 0,
            sending_asked: BTreeMap::new(),
            idle_saves: 0,
            figures: Figures::default(),
            ended,
            ends,
        })
    }

    /// Delivers until the switch stops, or all callers are gone.
    pub(super) async fn run(
        mut self,
        mut orders: mpsc::Receiver<Order>,
        mut stop: watch::Receiver<bool>,
    ) {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut save_at = Instant::now() + SAVE_INTERVAL;
        // Waited for once until it comes: each wait is noted at the tables.
        let mut news: Option<EventWait> = None;
        loop {
            let has_more = self.advance();
            if Instant::now() >= save_at {
                self.save().await;
                save_at = Instant::now() + SAVE_INTERVAL;
            }
            if has_more {
                while let Ok(order) = orders.try_recv() {
                    self.obey(order);
                }
                if *stop.borrow() {
                    break;
                }
                tokio::task::yield_now().await;
                continue;
            }
            let is_following = self.is_following();
            let waiting = news.get_or_insert_with(|| self.news());
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => break,
                order = orders.recv() => match order {
                    Some(order) => self.obey(order),
                    None => break,
                },
                Some(done) = self.ends.recv() => self.end(done),
                is_open = waiting, if is_following => {
                    news = None;
                    if !is_open {
                        self.read_at = Instant::now() + READ_PAUSE;
                    }
                }
                _ = tick.tick() => {}
            }
        }
        self.drain().await;
        self.save().await;
    }

    /// Does the work that is due. Returns whether there is more.
    fn advance(&mut self) -> bool {
        while let Ok(done) = self.ends.try_recv() {
            self.end(done);
        }
        let now = Instant::now();
        if (self.is_stale || now >= self.reload_at) && now >= self.reload_from {
            self.catch_up_with_changes();
        }
        let mut has_more = false;
        if Instant::now() >= self.read_at {
            match self.follow().and_then(|more| Ok(self.catch_up()? || more)) {
                Ok(more) => has_more = more,
                Err(error) => {
                    tracing::error!(%error, "webhooks wait: the event log cannot be read");
                    self.read_at = Instant::now() + READ_PAUSE;
                }
            }
        }
        self.start_due();
        // INVARIANT: orders wait only for endpoints to be read again, and that is to come.
        debug_assert!(self.is_stale || self.postponed.is_empty());
        has_more
    }

    /// Waits until there is something to read. Returns whether that can be.
    fn news(&self) -> EventWait {
        let (switch, followed) = (self.tools.switch.clone(), self.followed.number);
        Box::pin(async move { matches!(switch.events_beyond(followed).await, Ok(Some(_))) })
    }

    fn is_following(&self) -> bool {
        !self.by_company.is_empty() && Instant::now() >= self.read_at
    }

    fn now(&self) -> Timestamp {
        self.tools.switch.engine().clock().now()
    }

    /// Reads on in the log and hands each event to the lanes of its company.
    fn follow(&mut self) -> Result<bool, StoreError> {
        if self.by_company.is_empty() {
            return Ok(false);
        }
        let followed = self.followed.number;
        let read = |snapshot: &Snapshot| snapshot.events_after(followed, EVENTS_READ_MAX);
        let events = self.tools.switch.read_at_once(read)?;
        let mut touched = BTreeSet::new();
        for event in &events {
            self.followed = EventPlace { number: event.number, at: Some(event.at) };
            let entry = Entry { number: event.number, transaction: event.transaction };
            for id in self.by_company.get(&event.company).into_iter().flatten() {
                if let Some(desk) = self.desks.get_mut(id) {
                    desk.lane.offer(entry);
                    touched.insert(*id);
                }
            }
        }
        for id in touched {
            self.refresh(id);
        }
        Ok(events.len() == EVENTS_READ_MAX)
    }

    /// Has some of the lanes that are behind read the log by themselves.
    fn catch_up(&mut self) -> Result<bool, StoreError> {
        for _ in 0..LANES_READ_MAX.min(self.behind.len()) {
            let Some(id) = self.behind.pop_front() else { break };
            let Some(desk) = self.desks.get_mut(&id) else { continue };
            desk.is_queued_behind = false;
            let Some(after) = desk.lane.wants() else { continue };
            let followed = self.followed.number;
            let read = |snapshot: &Snapshot| desk.read_after(snapshot, after, followed);
            match self.tools.switch.read_at_once(read) {
                Ok((entries, upto)) => desk.lane.take_up(entries, upto, followed),
                Err(error) => {
                    self.refresh(id);
                    return Err(error);
                }
            }
            self.refresh(id);
        }
        Ok(!self.behind.is_empty())
    }

    /// Puts a lane that has changed where it stands now.
    fn refresh(&mut self, id: WebhookEndpointId) {
        let now = self.now();
        let Some(desk) = self.desks.get_mut(&id) else { return };
        self.dirty.insert(id);
        let line = Line::of(desk.lane.is_failing());
        // A lane with fresh events stands in line from the moment they came.
        let queued = desk.lane.due().map(|due| match desk.queued {
            Some(queued) if due.0 == i64::MIN && queued.at <= now => Queued { line, ..queued },
            _ if due.0 == i64::MIN => Queued { at: now, line },
            _ => Queued { at: due, line },
        });
        self.due.put(id, desk.queued, queued);
        desk.queued = queued;
        if desk.lane.wants().is_some() && !desk.is_queued_behind {
            desk.is_queued_behind = true;
            self.behind.push_back(id);
        }
    }

    /// Carries out an order, or has it wait until changes of before it are seen.
    fn obey(&mut self, order: Order) {
        match order {
            Order::Reload(reply) => {
                self.is_stale = true;
                self.reloads.extend(reply);
            }
            order if self.is_stale && Instant::now() < self.reload_from => {
                // An order beyond the bound is dropped, and its caller learns that the switch is
                // overloaded.
                if self.postponed.len() < ORDERS_MAX {
                    self.postponed.push_back(order);
                }
            }
            order => {
                if self.is_stale {
                    self.catch_up_with_changes();
                }
                self.carry_out(order);
            }
        }
    }

    /// Reads endpoints as they are now, and carries out the orders that have waited for that.
    fn catch_up_with_changes(&mut self) {
        self.reload();
        for order in std::mem::take(&mut self.postponed) {
            self.carry_out(order);
        }
    }

    fn carry_out(&mut self, order: Order) {
        match order {
            Order::Reload(reply) => self.reloads.extend(reply),
            Order::Recover(id, after, reply) => {
                let followed = self.followed.number;
                let desk = self.desks.get_mut(&id).filter(|desk| !desk.lane.is_off());
                let is_there = desk.map(|desk| desk.lane.recover(after, followed)).is_some();
                self.refresh(id);
                let _ = reply.send(is_there);
            }
            Order::Example(id, reply) => self.send_example(id, reply),
            Order::Resend(id, attempt, reply) => self.resend(id, attempt, reply),
            Order::Attempts(id, reply) => drop(reply.send(self.attempts(id))),
            Order::Health(ids, reply) => {
                let health = |id| self.desks.get(id).map(|desk| desk.lane.health());
                drop(reply.send(ids.iter().map(health).collect()));
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

    fn under_way(&self) -> usize {
        self.sending + self.sending_failing + self.sending_asked.values().sum::<usize>()
    }

    /// Waits, not for long, for what is under way.
    async fn drain(&mut self) {
        let until = Instant::now() + DRAIN_TIMEOUT;
        while self.under_way() > 0 {
            match tokio::time::timeout_at(until, self.ends.recv()).await {
                Ok(Some(done)) => self.end(done),
                Ok(None) | Err(_) => break,
            }
        }
    }
}

/// The places of the follower and the lanes. If the log has lost its newest part since they were
/// written, as in a directory that was put back without the end of its journal, they are set back
/// to where it is still the same. Messages then get other ids than before: numbers have other
/// meanings.
/// Errors: the stored state or the log cannot be read.
fn read_kept(
    tools: &Tools,
) -> Result<(EventPlace, BTreeMap<WebhookEndpointId, KeptLane>), DeliveriesError> {
    let Loaded { followed, mut lanes } = tools.deliveries.load()?;
    let known = followed.unwrap_or_default();
    let read = |snapshot: &Snapshot| {
        let resumed = snapshot.resume_after(known)?.min(known.number);
        snapshot.event_place(resumed)
    };
    let resumed = tools.switch.read_at_once(read);
    let resumed = resumed.map_err(|error| DeliveriesError::Log(Box::new(error)))?;
    let is_same =
        resumed.number == known.number && known.at.is_none_or(|at| resumed.at == Some(at));
    if !is_same {
        let (kept, left) = (known.number.0, resumed.number.0);
        tracing::warn!(kept, left, "the event log is not the one that webhooks followed");
        tools.deliveries.begin_series()?;
        for (_, KeptLane { lane, .. }) in &mut lanes {
            lane.cut(resumed.number, known.number);
        }
    }
    Ok((resumed, lanes.into_iter().collect()))
}
