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

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::webhook_endpoint::WebhookEndpointChanges;
use cardswitch_engine::command::{Command, NotedCommand};
use cardswitch_engine::domain::event::EventNumber;
use cardswitch_engine::domain::ids::{CompanySlot, Timestamp, WebhookEndpointId};
use cardswitch_engine::domain::webhook_endpoint::WebhookEndpoint;
use cardswitch_engine::store::{Snapshot, StoreError};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, MissedTickBehavior};
use uuid::Uuid;

use super::composing::message_id;
use super::deliveries::{
    ATTEMPTS_MAX, Attempt, AttemptKind, AttemptResult, Deliveries, DeliveriesError, KeptLane,
    PlacedAttempt,
};
use super::desk::{Content, Desk, Job, Told};
use super::lane::{Entry, Fate, Message, Outcome};
use super::sender::Sender;
use super::{Figures, Order};
use crate::auth::actor::note_at_hand;
use crate::issuing::{RandomSource, SystemRandom};
use crate::secrets::Secrets;
use crate::switch::Switch;

/// How many requests are under way to receivers that take them.
const SENDS_MAX: usize = 512;
/// How many more to receivers that did not take the last.
const FAILING_SENDS_MAX: usize = 256;
/// How many examples and messages sent once more are under way.
const ASKED_SENDS_MAX: usize = 16;
/// How many of these at endpoints of one company.
const ASKED_OF_COMPANY_MAX: usize = 2;
/// How many events are read at a time.
const EVENTS_READ_MAX: usize = 1_000;
/// How many lanes that are behind read the log before anything else is done.
const LANES_READ_MAX: usize = 8;
/// How many lanes are looked at for one that may send.
const LOOKED_AT_MAX: usize = 2_000;
/// How often what has changed is written down.
const SAVE_INTERVAL: Duration = Duration::from_secs(1);
/// How often the clock is looked at.
const TICK: Duration = Duration::from_millis(100);
/// How long requests under way may take once the switch stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
/// How long nothing is read after the tables could not be.
const READ_PAUSE: Duration = Duration::from_secs(1);
/// How many attempts wait to be written down; later ones are not noted.
const UNSAVED_MAX: usize = 20_000;

const GONE: u16 = 410;

/// What the dispatcher works with.
pub(super) struct Tools {
    pub(super) switch: Switch,
    pub(super) secrets: Arc<Secrets>,
    pub(super) sender: Sender,
    pub(super) deliveries: Arc<Deliveries>,
    pub(super) orders: mpsc::WeakSender<Order>,
    pub(super) figures: Arc<Mutex<Figures>>,
}

/// The wait for the next event.
type News = Pin<Box<dyn Future<Output = bool> + Send>>;

/// A request that has ended.
struct Done {
    id: WebhookEndpointId,
    attempt: Attempt,
    told: Told,
    /// The endpoint as it was then.
    tried: Arc<WebhookEndpoint>,
    /// Who asked for it; none where it was the lane's.
    asked: Option<Asked>,
    was_failing: bool,
}

/// Somebody waits for what comes of a request.
struct Asked {
    company: CompanySlot,
    reply: oneshot::Sender<Option<Attempt>>,
}

/// The state of all deliveries.
pub(super) struct Dispatcher {
    tools: Tools,
    desks: BTreeMap<WebhookEndpointId, Desk>,
    by_company: BTreeMap<CompanySlot, Vec<WebhookEndpointId>>,
    followed: EventNumber,
    /// Lanes with something to send, by when.
    due: BTreeSet<(Timestamp, WebhookEndpointId)>,
    /// Lanes that read the log by themselves.
    behind: VecDeque<WebhookEndpointId>,
    dirty: BTreeSet<WebhookEndpointId>,
    removed: Vec<WebhookEndpointId>,
    unsaved: Vec<PlacedAttempt>,
    /// Lanes as they were read, until their endpoints are.
    kept: BTreeMap<WebhookEndpointId, KeptLane>,
    /// When endpoints are looked at again.
    reload_at: Instant,
    /// Not before this.
    reload_from: Instant,
    /// Whether somebody has said that they changed, and who waits until that is seen.
    is_stale: bool,
    reloads: Vec<oneshot::Sender<()>>,
    read_at: Instant,
    sending: usize,
    sending_failing: usize,
    /// How many that were asked for are under way at endpoints of each company.
    sending_asked: BTreeMap<CompanySlot, usize>,
    idle_saves: u32,
    figures: Figures,
    ended: mpsc::UnboundedSender<Done>,
    ends: mpsc::UnboundedReceiver<Done>,
}

impl Dispatcher {
    /// Reads what was kept. Errors: it cannot be read.
    pub(super) fn new(tools: Tools) -> Result<Self, DeliveriesError> {
        let loaded = tools.deliveries.load()?;
        let (ended, ends) = mpsc::unbounded_channel();
        Ok(Self {
            tools,
            desks: BTreeMap::new(),
            by_company: BTreeMap::new(),
            followed: loaded.followed.unwrap_or_default(),
            due: BTreeSet::new(),
            behind: VecDeque::new(),
            dirty: BTreeSet::new(),
            removed: Vec::new(),
            unsaved: Vec::new(),
            kept: loaded.lanes.into_iter().collect(),
            reload_at: Instant::now(),
            reload_from: Instant::now(),
            is_stale: true,
            reloads: Vec::new(),
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

    /// Delivers until the switch stops, or nobody is there any more who could ask for anything.
    pub(super) async fn run(
        mut self,
        mut orders: mpsc::Receiver<Order>,
        mut stop: watch::Receiver<bool>,
    ) {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut save_at = Instant::now() + SAVE_INTERVAL;
        // Waited for once until it comes: each wait is noted at the tables.
        let mut news: Option<News> = None;
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

    /// Does what there is to do. Returns whether there is more.
    fn advance(&mut self) -> bool {
        while let Ok(done) = self.ends.try_recv() {
            self.end(done);
        }
        let now = Instant::now();
        if (self.is_stale || now >= self.reload_at) && now >= self.reload_from {
            self.reload();
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
        has_more
    }

    /// Waits until there is something to read. Returns whether that can be.
    fn news(&self) -> News {
        let (switch, followed) = (self.tools.switch.clone(), self.followed);
        Box::pin(async move { matches!(switch.events_beyond(followed).await, Ok(Some(_))) })
    }

    fn is_following(&self) -> bool {
        !self.by_company.is_empty() && Instant::now() >= self.read_at
    }

    fn now(&self) -> Timestamp {
        self.tools.switch.engine().clock().now()
    }

    /// Reads on in the log and hands each event to the lanes that are told of it.
    fn follow(&mut self) -> Result<bool, StoreError> {
        if self.by_company.is_empty() {
            return Ok(false);
        }
        let followed = self.followed;
        let read = |snapshot: &Snapshot| snapshot.events_after(followed, EVENTS_READ_MAX);
        let events = self.tools.switch.read_at_once(read)?;
        let mut touched = BTreeSet::new();
        for event in &events {
            self.followed = event.number;
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
            let read = self.tools.switch.read_at_once(|snapshot| desk.read_after(snapshot, after));
            match read {
                Ok((entries, upto)) => desk.lane.take_up(entries, upto, self.followed),
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
        // Who has something fresh stands in line from the moment it came.
        let due = desk.lane.due().map(|due| match desk.queued_at {
            Some(queued) if due.0 == i64::MIN && queued <= now => queued,
            _ if due.0 == i64::MIN => now,
            _ => due,
        });
        if due != desk.queued_at {
            if let Some(queued) = desk.queued_at {
                self.due.remove(&(queued, id));
            }
            if let Some(due) = due {
                self.due.insert((due, id));
            }
            desk.queued_at = due;
        }
        if desk.lane.wants().is_some() && !desk.is_queued_behind {
            desk.is_queued_behind = true;
            self.behind.push_back(id);
        }
    }

    /// Sends what is due, as far as there are places.
    fn start_due(&mut self) {
        let now = self.now();
        let first = (Timestamp(i64::MIN), WebhookEndpointId(Uuid::nil()));
        let last = (now, WebhookEndpointId(Uuid::max()));
        let ready: Vec<_> = self.due.range(first..=last).take(LOOKED_AT_MAX).copied().collect();
        for (_, id) in ready {
            let is_full = self.sending >= SENDS_MAX && self.sending_failing >= FAILING_SENDS_MAX;
            if is_full {
                break;
            }
            self.start(id, now);
        }
    }

    fn start(&mut self, id: WebhookEndpointId, now: Timestamp) {
        let Some(desk) = self.desks.get_mut(&id) else { return };
        let was_failing = desk.lane.is_failing();
        let (places, places_max) = if was_failing {
            (&mut self.sending_failing, FAILING_SENDS_MAX)
        } else {
            (&mut self.sending, SENDS_MAX)
        };
        if *places >= places_max {
            return;
        }
        let series = self.tools.deliveries.series();
        let name = |entries: &[Entry]| message_id(series, id, &numbers_of(entries));
        if let Some(message) = desk.lane.start(now, name) {
            *places += 1;
            let Message { id: message, entries, tries, .. } = message;
            let events = numbers_of(&entries);
            let sent = Sent { id, kind: AttemptKind::Event, message, tries: tries + 1, events };
            self.send(sent, None, was_failing);
        }
        self.refresh(id);
    }

    fn send(&self, sent: Sent, asked: Option<Asked>, was_failing: bool) {
        let Some(desk) = self.desks.get(&sent.id) else { return };
        let Sent { id, kind, message, tries, events } = sent;
        let now = self.now();
        let job = Job {
            switch: self.tools.switch.clone(),
            secrets: Arc::clone(&self.tools.secrets),
            sender: self.tools.sender.clone(),
            endpoint: Arc::clone(&desk.endpoint),
            content: match events.as_slice() {
                [] => Content::Example,
                numbers => Content::Events(numbers.to_vec()),
            },
            message,
            tries,
            now,
        };
        let attempt = Attempt {
            id: SystemRandom.id(now).unwrap_or(message),
            message,
            kind,
            tries,
            at: now,
            duration_ms: 0,
            result: AttemptResult::Unanswered(super::deliveries::Failure::NotSent),
            again_at: None,
            is_last: false,
            events,
        };
        let (ended, tried) = (self.ended.clone(), Arc::clone(&desk.endpoint));
        tokio::spawn(async move {
            let told = job.run().await;
            // The dispatcher may have stopped: then it is sent once more.
            drop(ended.send(Done { id, attempt, told, tried, asked, was_failing }));
        });
    }

    /// Notes what came of a request.
    fn end(&mut self, done: Done) {
        let Done { id, mut attempt, told, tried, asked, was_failing } = done;
        match (&asked, was_failing) {
            (Some(asked), _) => give_back(&mut self.sending_asked, asked.company),
            (None, true) => self.sending_failing -= 1,
            (None, false) => self.sending -= 1,
        }
        let now = self.now();
        attempt.duration_ms = told.duration_ms;
        let is_told = told.result.is_some();
        // What may not be told any more is as good as told.
        attempt.result = told.result.unwrap_or(AttemptResult::Answered(204));
        let mut is_gone = attempt.result == AttemptResult::Answered(GONE);
        if is_gone && self.is_stale {
            self.reload();
        }
        let Some(desk) = self.desks.get_mut(&id) else { return };
        let endpoint = Arc::clone(&desk.endpoint);
        // What is gone is the address that was tried; there may be another one by now.
        is_gone &= endpoint.url == tried.url;
        if asked.is_none() {
            let outcome = if attempt.is_delivered() { Outcome::Delivered } else { Outcome::Failed };
            match desk.lane.settle(outcome, now) {
                Fate::Again(at) => attempt.again_at = Some(at),
                Fate::GivenUp => attempt.is_last = true,
                Fate::Delivered | Fate::Dropped => {}
            }
            if is_gone {
                desk.lane.turn_off();
                attempt.again_at = None;
            }
        }
        if is_told {
            self.count(&attempt);
            self.note(id, &attempt);
        }
        if is_gone && endpoint.is_enabled() {
            self.tell_gone(&endpoint);
        }
        self.refresh(id);
        if let Some(asked) = asked {
            // Whoever asked may have hung up.
            drop(asked.reply.send(Some(attempt)));
        }
    }

    fn count(&mut self, attempt: &Attempt) {
        if attempt.is_delivered() {
            self.figures.delivered += 1;
        } else {
            self.figures.failed += 1;
        }
    }

    fn note(&mut self, id: WebhookEndpointId, attempt: &Attempt) {
        let Some(desk) = self.desks.get_mut(&id) else { return };
        if self.unsaved.len() < UNSAVED_MAX {
            self.unsaved.push((id, desk.attempts, attempt.clone()));
            desk.attempts += 1;
        }
    }

    /// Has the engine turn an endpoint off whose receiver says that it is gone.
    fn tell_gone(&self, endpoint: &Arc<WebhookEndpoint>) {
        let (switch, endpoint) = (self.tools.switch.clone(), Arc::clone(endpoint));
        let orders = self.tools.orders.clone();
        tokio::spawn(async move {
            let company = switch.read_at_once(|snapshot| snapshot.company(endpoint.company));
            let Ok(Some(company)) = company else { return };
            let changes = WebhookEndpointChanges {
                gone_url: Some(endpoint.url.clone()),
                ..Default::default()
            };
            let change = AdminCommand::UpdateWebhookEndpoint(company.id, endpoint.id, changes);
            let command = NotedCommand { note: note_at_hand(), change };
            // Where it is not carried out, the next delivery asks for it once more.
            drop(switch.ask(Command::Noted(Box::new(command)).into()).await);
            if let Some(orders) = orders.upgrade() {
                drop(orders.send(Order::Reload(None)).await);
            }
        });
    }

    fn obey(&mut self, order: Order) {
        if !matches!(order, Order::Reload(_)) && self.is_stale {
            self.reload();
        }
        match order {
            Order::Reload(reply) => {
                self.is_stale = true;
                self.reloads.extend(reply);
            }
            Order::Recover(id, after, reply) => {
                let desk = self.desks.get_mut(&id).filter(|desk| !desk.lane.is_off());
                let is_there = desk.map(|desk| desk.lane.recover(after, self.followed)).is_some();
                self.refresh(id);
                let _ = reply.send(is_there);
            }
            Order::Example(id, reply) => {
                let message = SystemRandom.id(self.now()).unwrap_or_default();
                let kind = AttemptKind::Example;
                self.send_asked(Sent { id, kind, message, tries: 1, events: Vec::new() }, reply);
            }
            Order::Resend(id, attempt, reply) => {
                let found = self.attempts(id).into_iter().find(|found| found.id == attempt);
                let Some(found) = found else {
                    drop(reply.send(None));
                    return;
                };
                let tries = found.tries.saturating_add(1);
                let Attempt { message, events, .. } = found;
                self.send_asked(
                    Sent { id, kind: AttemptKind::Resent, message, tries, events },
                    reply,
                );
            }
            Order::Attempts(id, reply) => drop(reply.send(self.attempts(id))),
            Order::Health(ids, reply) => {
                let health = |id| self.desks.get(id).map(|desk| desk.lane.health());
                drop(reply.send(ids.iter().map(health).collect()));
            }
        }
    }

    /// Sends what somebody waits for. With too many of these under way, nothing is answered.
    fn send_asked(&mut self, sent: Sent, reply: oneshot::Sender<Option<Attempt>>) {
        let Some(desk) = self.desks.get(&sent.id) else {
            drop(reply.send(None));
            return;
        };
        let company = desk.endpoint.company;
        if take_place(&mut self.sending_asked, company) {
            self.send(sent, Some(Asked { company, reply }), false);
        }
    }

    /// What was tried, the newest first.
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

/// A request to be made.
struct Sent {
    id: WebhookEndpointId,
    kind: AttemptKind,
    message: Uuid,
    tries: u8,
    events: Vec<EventNumber>,
}

/// Takes a place for a request that a company asked for, if one is free.
fn take_place(asked: &mut BTreeMap<CompanySlot, usize>, company: CompanySlot) -> bool {
    let all: usize = asked.values().sum();
    let of_company = asked.get(&company).copied().unwrap_or(0);
    let is_free = all < ASKED_SENDS_MAX && of_company < ASKED_OF_COMPANY_MAX;
    if is_free {
        asked.insert(company, of_company + 1);
    }
    is_free
}

fn give_back(asked: &mut BTreeMap<CompanySlot, usize>, company: CompanySlot) {
    match asked.get_mut(&company) {
        Some(count) if *count > 1 => *count -= 1,
        _ => drop(asked.remove(&company)),
    }
}

fn numbers_of(entries: &[Entry]) -> Vec<EventNumber> {
    entries.iter().map(|entry| entry.number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_company_does_not_keep_others_from_examples() {
        let mut asked = BTreeMap::new();
        let [busy, other] = [1, 2].map(CompanySlot);
        for _ in 0..ASKED_OF_COMPANY_MAX {
            assert!(take_place(&mut asked, busy));
        }
        assert!(!take_place(&mut asked, busy) && take_place(&mut asked, other));
        give_back(&mut asked, busy);
        assert!(take_place(&mut asked, busy) && !take_place(&mut asked, busy));
        for company in 3..30 {
            take_place(&mut asked, CompanySlot(company));
            take_place(&mut asked, CompanySlot(company));
        }
        assert_eq!(asked.values().sum::<usize>(), ASKED_SENDS_MAX);
    }
}
