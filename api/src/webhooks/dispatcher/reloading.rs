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
                let known_by = self.known_by(snapshot, &endpoint)?;
                let turn = self.turn_of(snapshot, &endpoint, settled)?;
                Ok(Found { endpoint, companies, missed, turn, known_by })
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
        let known_by = desk.map_or(kept.and_then(|kept| kept.known_by), |desk| desk.known_by);
        if !endpoint.is_enabled() {
            return Ok(Turn::Off);
        }
        let Some(lane) = lane else {
            let made_at = endpoint.created_at;
            let at = turned_on_behind(snapshot, endpoint, made_at)?.unwrap_or(made_at);
            return Ok(Turn::New(snapshot.first_event_at(at.max(settled))?));
        };
        let is_as_known = desk.is_some_and(|desk| *desk.endpoint == *endpoint);
        let at = match known_by {
            _ if is_as_known && !lane.is_off() => None,
            Some(known_by) => turned_on_behind(snapshot, endpoint, known_by)?,
            // A file of older days does not say up to when it knew.
            None if lane.is_off() => turned_on_last(snapshot, endpoint)?,
            None => None,
        };
        Ok(match at {
            Some(at) => Turn::On(snapshot.first_event_at(at)?),
            None if lane.is_off() => Turn::On(snapshot.last_event()?),
            // It stands where it stood.
            None => Turn::Stays,
        })
    }

    /// When an endpoint was last changed; not read again while it is as it was.
    fn known_by(
        &self,
        snapshot: &Snapshot,
        endpoint: &WebhookEndpoint,
    ) -> Result<Option<Timestamp>, StoreError> {
        let desk = self.desks.get(&endpoint.id);
        let known = desk.filter(|desk| *desk.endpoint == *endpoint).and_then(|desk| desk.known_by);
        known.map_or_else(|| changed_at(snapshot, endpoint).map(Some), |at| Ok(Some(at)))
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
        for Found { endpoint, companies, missed, turn, known_by } in found {
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
            let has_turned = desk.turn(turn, known_by, self.followed.number);
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
    known_by: Option<Timestamp>,
}

/// What becomes of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// It is on as before.
    Stays,
    /// It is on, and was not known: it begins after this event.
    New(EventNumber),
    /// It is on again, even if nobody saw it off, and goes on after this event.
    On(EventNumber),
    /// It is off.
    Off,
}

impl Desk {
    /// Turns the lane of an endpoint that was last changed at `known_by`. Returns whether it was not
    /// like that before, or what is kept of it has changed.
    fn turn(&mut self, turn: Turn, known_by: Option<Timestamp>, followed: EventNumber) -> bool {
        let is_changed = self.known_by != known_by;
        self.known_by = known_by;
        let followed = self.lane.read_upto(followed);
        let has_turned = match turn {
            Turn::Stays => false,
            Turn::New(after) => {
                self.lane = Lane::after(after);
                true
            }
            Turn::On(after) => {
                self.lane.turn_off(followed);
                self.lane.turn_on(after)
            }
            Turn::Off => self.lane.turn_off(followed),
        };
        has_turned || is_changed
    }
}

/// When an endpoint that is on was turned on first behind `known_by`, by its audit; none where it was
/// on all the time since. Each change of its state turns it: where there are two, it was off between.
fn turned_on_behind(
    snapshot: &Snapshot,
    endpoint: &WebhookEndpoint,
    known_by: Timestamp,
) -> Result<Option<Timestamp>, StoreError> {
    let order = Order::OldestFirst;
    let created_after = Some(known_by.plus(1));
    let page = Page { order, created_after, ..Page::first(CHANGES_READ_MAX) };
    let turns = turns_of(snapshot, endpoint, &page)?;
    let first_on = usize::from(turns.len().is_multiple_of(2));
    Ok(turns.get(first_on).copied())
}

/// When it was turned on last. None where nobody noted it.
fn turned_on_last(
    snapshot: &Snapshot,
    endpoint: &WebhookEndpoint,
) -> Result<Option<Timestamp>, StoreError> {
    Ok(turns_of(snapshot, endpoint, &Page::first(CHANGES_READ_MAX))?.first().copied())
}

/// When the state of an endpoint was changed.
fn turns_of(
    snapshot: &Snapshot,
    endpoint: &WebhookEndpoint,
    page: &Page,
) -> Result<Vec<Timestamp>, StoreError> {
    let changes = changes_of(snapshot, endpoint, page)?;
    let is_of_state = |event: &&AuditEvent| event.fields.iter().any(|field| field == "state");
    Ok(changes.iter().filter(is_of_state).map(|event| event.at).collect())
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
    let nothing = || KeptLane { lane: Lane::after(EventNumber(0)), attempts: 0, known_by: None };
    let KeptLane { mut lane, attempts, known_by } = kept.unwrap_or_else(nothing);
    lane.resume();
    Desk {
        endpoint: Arc::new(endpoint.clone()),
        companies: Vec::new(),
        lane,
        attempts,
        known_by,
        queued: None,
        is_queued_behind: false,
    }
}
