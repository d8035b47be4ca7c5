//! Which endpoints there are, and what they may be told: looked at anew whenever that may have changed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cardswitch_engine::clock::Stopwatch;
use cardswitch_engine::domain::audit::AuditEvent;
use cardswitch_engine::domain::event::{EventNumber, EventPlace};
use cardswitch_engine::domain::ids::{CompanySlot, Timestamp, WebhookEndpointId};
use cardswitch_engine::domain::webhook_endpoint::WebhookEndpoint;
use cardswitch_engine::store::query::{AuditFilter, Order, Page};
use cardswitch_engine::store::{Snapshot, StoreError};
use tokio::time::Instant;

use super::super::deliveries::KeptLane;
use super::super::desk::{Desk, Missed};
use super::super::lane::Lane;
use super::{Dispatcher, READ_PAUSE};

/// How often endpoints are looked at without anybody saying that they changed.
const RELOAD_INTERVAL: Duration = Duration::from_secs(60);
/// How long before the newest event an endpoint begins whose place is not known, as in a directory that
/// came out of a backup: all tries for what is older were over. Units: microseconds.
const SETTLED_US: i64 = 2 * 24 * 3600 * 1_000_000;
/// How many changes of an endpoint are looked at for the one that turned it on.
const CHANGES_READ_MAX: usize = 100;

impl Dispatcher {
    /// Looks at endpoints and rights as they are now.
    pub(super) fn reload(&mut self) {
        let watch = Stopwatch::start();
        let followed = self.was_following().then_some(self.followed.number);
        let read = |snapshot: &Snapshot| {
            let last = snapshot.event_place(snapshot.last_event()?)?;
            let settled = last.at.unwrap_or_default().plus(-SETTLED_US);
            let upto = followed.unwrap_or(last.number);
            let endpoints = snapshot.all_webhook_endpoints()?;
            let found = endpoints.into_iter().map(|endpoint| {
                let companies = match endpoint.app {
                    Some(app) => snapshot.companies_of_app(app)?,
                    None => vec![endpoint.company],
                };
                let desk = self.desks.get(&endpoint.id);
                let missed = desk.map(|desk| desk.missed(snapshot, &companies, upto));
                let missed = missed.transpose()?.unwrap_or_default();
                let turn = self.turn_of(snapshot, &endpoint, settled)?;
                Ok(Found { endpoint, companies, missed, turn })
            });
            Ok((found.collect::<Result<Vec<_>, StoreError>>()?, last))
        };
        let read = self.tools.switch.read_at_once(read);
        // However often somebody changes something, most of the time is for deliveries.
        self.reload_from = Instant::now() + watch.elapsed() * 9;
        match read {
            Ok((found, last)) => {
                self.is_stale = false;
                self.take_endpoints(found, last);
                for reply in self.reloads.drain(..) {
                    // Whoever waited may be gone.
                    let _ = reply.send(());
                }
                self.reload_at = Instant::now() + RELOAD_INTERVAL;
            }
            Err(error) => {
                tracing::error!(%error, "webhook endpoints cannot be read");
                self.reload_at = Instant::now() + READ_PAUSE;
                self.reload_from = self.reload_at;
            }
        }
    }

    /// What is to become of the lane of an endpoint, by what is durable: it is told of what happened
    /// from the record on that made the endpoint or turned it on, whenever that is noticed.
    fn turn_of(
        &self,
        snapshot: &Snapshot,
        endpoint: &WebhookEndpoint,
        settled: Timestamp,
    ) -> Result<Turn, StoreError> {
        let desk = self.desks.get(&endpoint.id);
        let kept = self.kept.get(&endpoint.id);
        let lane = desk.map(|desk| &desk.lane).or(kept.map(|kept| &kept.lane));
        let off_seen = desk.map_or(kept.and_then(|kept| kept.off_seen), |desk| desk.off_seen);
        if !endpoint.is_enabled() {
            let is_seen = desk.is_some_and(|desk| *desk.endpoint == *endpoint);
            let seen = off_seen.filter(|_| is_seen);
            let seen =
                seen.map_or_else(|| changed_at(snapshot, endpoint).map(Some), |at| Ok(Some(at)));
            return Ok(Turn::Off(seen?));
        }
        Ok(match lane {
            // It stands where it stood.
            Some(lane) if !lane.is_off() => Turn::Stays,
            Some(_) => {
                let at = turned_on_at(snapshot, endpoint, off_seen)?;
                let after =
                    at.map_or_else(|| snapshot.last_event(), |at| snapshot.first_event_at(at));
                Turn::On(after?)
            }
            None => Turn::New(snapshot.first_event_at(endpoint.created_at.max(settled))?),
        })
    }

    pub(super) fn was_following(&self) -> bool {
        !self.by_company.is_empty() || !self.kept.is_empty()
    }

    fn take_endpoints(&mut self, found: Vec<Found>, last: EventPlace) {
        let was_following = self.was_following();
        let ids: BTreeSet<_> = found.iter().map(|found| found.endpoint.id).collect();
        let gone: Vec<_> = self.desks.keys().filter(|id| !ids.contains(id)).copied().collect();
        for id in gone {
            self.remove(id);
        }
        self.by_company.clear();
        for Found { endpoint, companies, missed, turn } in found {
            let id = endpoint.id;
            if endpoint.is_enabled() {
                for company in &companies {
                    self.by_company.entry(*company).or_default().push(id);
                }
            }
            let is_new = !self.desks.contains_key(&id);
            let kept = self.kept.remove(&id);
            let desk = self.desks.entry(id).or_insert_with(|| new_desk(&endpoint, kept));
            desk.endpoint = Arc::new(endpoint);
            desk.companies = companies;
            let has_turned = desk.turn(turn, self.followed.number);
            let has_missed = desk.take_missed(missed, self.followed.number);
            if is_new || has_turned || has_missed {
                self.refresh(id);
            }
        }
        let forgotten = std::mem::take(&mut self.kept);
        self.removed.extend(forgotten.into_keys());
        if !was_following {
            self.followed = last;
        }
    }

    fn remove(&mut self, id: WebhookEndpointId) {
        let queued = self.desks.remove(&id).and_then(|desk| desk.queued);
        self.due.put(id, queued, None);
        self.dirty.remove(&id);
        self.unsaved.retain(|(of, ..)| *of != id);
        self.removed.push(id);
    }
}

/// An endpoint as the tables have it.
struct Found {
    endpoint: WebhookEndpoint,
    companies: Vec<CompanySlot>,
    missed: Missed,
    turn: Turn,
}

/// What becomes of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// It is on as before.
    Stays,
    /// It is on, and was not known: it begins after this event.
    New(EventNumber),
    /// It is on again, and goes on after this event.
    On(EventNumber),
    /// It is off, and this is when its endpoint was last changed.
    Off(Option<Timestamp>),
}

impl Desk {
    /// Turns the lane. Returns whether it was not like that before, or what is kept of it has changed.
    fn turn(&mut self, turn: Turn, followed: EventNumber) -> bool {
        match turn {
            Turn::Stays => false,
            Turn::New(after) => {
                self.lane = Lane::after(after);
                true
            }
            Turn::On(after) => {
                self.off_seen = None;
                self.lane.turn_on(after)
            }
            Turn::Off(seen) => {
                let is_new = self.off_seen != seen;
                self.off_seen = seen;
                self.lane.turn_off(followed) || is_new
            }
        }
    }
}

/// When an endpoint that is on was turned on, by its audit: the first change of its state behind what
/// was seen while it was off, else the last one. None where nobody noted it.
fn turned_on_at(
    snapshot: &Snapshot,
    endpoint: &WebhookEndpoint,
    off_seen: Option<Timestamp>,
) -> Result<Option<Timestamp>, StoreError> {
    let order = if off_seen.is_some() { Order::OldestFirst } else { Order::NewestFirst };
    let created_after = off_seen.map(|at| at.plus(1));
    let page = Page { order, created_after, ..Page::first(CHANGES_READ_MAX) };
    let changes = changes_of(snapshot, endpoint, &page)?;
    let is_of_state = |event: &&AuditEvent| event.fields.iter().any(|field| field == "state");
    Ok(changes.iter().find(is_of_state).map(|event| event.at))
}

/// When an endpoint was last changed.
fn changed_at(snapshot: &Snapshot, endpoint: &WebhookEndpoint) -> Result<Timestamp, StoreError> {
    let changes = changes_of(snapshot, endpoint, &Page::first(1))?;
    Ok(changes.first().map_or(endpoint.created_at, |event| event.at))
}

fn changes_of(
    snapshot: &Snapshot,
    endpoint: &WebhookEndpoint,
    page: &Page,
) -> Result<Vec<AuditEvent>, StoreError> {
    let filter = AuditFilter { object: Some(endpoint.id.0), ..AuditFilter::default() };
    Ok(snapshot.audit_events(Some(endpoint.company), &filter, page)?.rows)
}

/// The desk of an endpoint that is met for the first time since the start: it goes on where it stood.
fn new_desk(endpoint: &WebhookEndpoint, kept: Option<KeptLane>) -> Desk {
    let nothing = || KeptLane { lane: Lane::after(EventNumber(0)), attempts: 0, off_seen: None };
    let KeptLane { mut lane, attempts, off_seen } = kept.unwrap_or_else(nothing);
    lane.resume();
    Desk {
        endpoint: Arc::new(endpoint.clone()),
        companies: Vec::new(),
        lane,
        attempts,
        off_seen,
        queued: None,
        is_queued_behind: false,
    }
}
