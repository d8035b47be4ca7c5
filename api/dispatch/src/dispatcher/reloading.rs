//! The endpoints and the companies whose events they may get: read anew whenever these may have
//! changed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cardswitch_engine::directory::webhook_endpoint::WebhookEndpoint;
use cardswitch_engine::domain::event::{EventNumber, EventPlace};
use cardswitch_engine::domain::ids::{CompanySlot, Timestamp, WebhookEndpointId};
use cardswitch_engine::store::{Snapshot, StoreError};

use super::{Dispatcher, READ_PAUSE, StepContext};
use crate::content::companies_of;
use crate::deliveries::KeptLane;
use crate::desk::{EndpointDesk, MissedEvents};
use crate::lane::Lane;
use crate::schedule::latest_try;

/// How often endpoints are read without a notice that they changed.
const RELOAD_INTERVAL: Duration = Duration::from_secs(60);
/// How long before the newest event a lane begins whose place is nowhere known. An endpoint that was
/// down for long may lack older events, and gets them by `recover`. Units: microseconds.
const SETTLED_US: i64 = 2 * 24 * 3600 * 1_000_000;

impl Dispatcher {
    /// Puts off the next look at endpoints for nine times as long as the last one took: changes may be
    /// frequent, and most of the time is left for deliveries.
    pub fn rest(&mut self, uptime: Duration, took: Duration) {
        self.reload_from = self.reload_from.max(uptime + took * 9);
    }

    /// Looks at endpoints and rights as they are now.
    pub(super) fn reload(&mut self, now: StepContext<'_>) {
        match now.tables.read().and_then(|snapshot| self.find_endpoints(&snapshot)) {
            Ok((found, last)) => {
                self.is_stale = false;
                self.take_endpoints(found, last, now.time);
                for reply in self.reloads.drain(..) {
                    reply(());
                }
                self.reload_at = now.uptime + RELOAD_INTERVAL;
            }
            Err(error) => {
                tracing::error!(%error, "webhook endpoints cannot be read");
                self.reload_at = now.uptime + READ_PAUSE;
                self.reload_from = self.reload_at;
            }
        }
    }

    /// The endpoints of the tables, and the place behind their newest event.
    fn find_endpoints(
        &self,
        snapshot: &Snapshot,
    ) -> Result<(Vec<StoredEndpoint>, EventPlace), StoreError> {
        let followed = self.was_following().then_some(self.followed.number);
        let last = snapshot.event_place(snapshot.last_event()?)?;
        let settled = last.at.unwrap_or_default().plus(-SETTLED_US);
        let upto = followed.unwrap_or(last.number);
        let endpoints = snapshot.all_webhook_endpoints()?;
        let found = endpoints.into_iter().map(|endpoint| {
            let companies = companies_of(snapshot, &endpoint)?;
            let known = self.companies_known(endpoint.id, upto);
            let missed =
                known.map(|known| MissedEvents::of(snapshot, &endpoint, &companies, known));
            let missed = missed.transpose()?.unwrap_or_default();
            let turn = self.turn_of(snapshot, &endpoint, settled)?;
            Ok(StoredEndpoint { endpoint, companies, missed, turn })
        });
        Ok((found.collect::<Result<Vec<_>, StoreError>>()?, last))
    }

    /// The companies whose events a lane was handed, and up to which event; none of a new lane. The
    /// follower has read up to `followed`.
    fn companies_known(
        &self,
        id: WebhookEndpointId,
        followed: EventNumber,
    ) -> Option<(&[CompanySlot], EventNumber)> {
        let KeptLane { companies, lane, .. } = self.kept_lane(id)?;
        Some((companies, lane.read_upto(followed)))
    }

    /// The lane of an endpoint: at work, or as it was kept before the start.
    fn kept_lane(&self, id: WebhookEndpointId) -> Option<&KeptLane> {
        self.desks.get(&id).map(|desk| &desk.kept).or_else(|| self.kept.get(&id))
    }

    /// The next state of an endpoint's lane. The lane gets the events from the record on that made
    /// the endpoint or turned it on, whenever that is noticed. INVARIANT: a lane whose receiver was
    /// gone is on again only by a later record, never by tables that lag behind.
    fn turn_of(
        &self,
        snapshot: &Snapshot,
        endpoint: &WebhookEndpoint,
        settled: Timestamp,
    ) -> Result<LaneTurn, StoreError> {
        let on_after = |at| snapshot.first_event_at(at);
        Ok(match self.kept_lane(endpoint.id) {
            _ if !endpoint.is_enabled() => LaneTurn::Off,
            None => {
                let places = self.tools.lane_places.as_ref();
                let begin =
                    places.map_or(settled, |places| places.begin_of(endpoint.id, SETTLED_US));
                LaneTurn::New(on_after(endpoint.enabled_at.max(begin))?)
            }
            Some(kept) if kept.on_since != endpoint.enabled_at => {
                LaneTurn::On(on_after(endpoint.enabled_at)?)
            }
            Some(kept) if kept.gone_url.as_ref() == Some(&endpoint.url) => LaneTurn::Off,
            Some(kept) if kept.lane.is_off => LaneTurn::On(on_after(endpoint.enabled_at)?),
            // It stands where it stood.
            Some(_) => LaneTurn::Stays,
        })
    }

    fn was_following(&self) -> bool {
        !self.by_company.is_empty() || !self.kept.is_empty()
    }

    fn take_endpoints(&mut self, found: Vec<StoredEndpoint>, last: EventPlace, now: Timestamp) {
        let was_following = self.was_following();
        let ids: BTreeSet<_> = found.iter().map(|found| found.endpoint.id).collect();
        let gone: Vec<_> = self.desks.keys().filter(|id| !ids.contains(id)).copied().collect();
        for id in gone {
            self.remove(id);
        }
        self.by_company.clear();
        for StoredEndpoint { endpoint, companies, missed, turn } in found {
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
            let has_others = desk.kept.companies != companies;
            desk.kept.companies = companies;
            let has_turned = desk.turn(turn, self.followed.number);
            // A receiver that was gone before a crash is known from the lane, and from no table.
            let is_unreported = is_new && turn == LaneTurn::Off && desk.endpoint.is_enabled();
            let report = is_unreported.then(|| Arc::clone(&desk.endpoint));
            let has_missed = desk.take_missed(missed, self.followed.number);
            desk.kept.lane.bring_near(now);
            let is_far = desk.queued.is_some_and(|queued| queued.at > latest_try(now));
            if is_new || has_others || has_turned || has_missed || is_far {
                self.refresh(id, now);
            }
            self.gone.extend(report);
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
struct StoredEndpoint {
    endpoint: WebhookEndpoint,
    companies: Vec<CompanySlot>,
    missed: MissedEvents,
    turn: LaneTurn,
}

/// The next state of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LaneTurn {
    /// It is on as before.
    Stays,
    /// It is on, and was not known: it begins after this event.
    New(EventNumber),
    /// It is on again, and goes on after this event.
    On(EventNumber),
    /// It is off.
    Off,
}

impl EndpointDesk {
    /// Turns the lane. Returns whether it was not like that before.
    fn turn(&mut self, turn: LaneTurn, followed: EventNumber) -> bool {
        match turn {
            LaneTurn::Stays => false,
            LaneTurn::New(after) => {
                self.kept.lane = Lane::after(after);
                true
            }
            LaneTurn::On(after) => {
                (self.kept.on_since, self.kept.gone_url) = (self.endpoint.enabled_at, None);
                // The lane may have been off in between without being noticed.
                self.kept.lane.turn_off(followed);
                self.kept.lane.turn_on(after)
            }
            LaneTurn::Off => self.kept.lane.turn_off(followed),
        }
    }
}

/// The desk of an endpoint that is met for the first time since the start: it goes on where it stood.
fn new_desk(endpoint: &WebhookEndpoint, kept: Option<KeptLane>) -> EndpointDesk {
    let mut kept = kept.unwrap_or_else(|| KeptLane::of_new(endpoint.enabled_at));
    kept.lane.resume();
    let endpoint = Arc::new(endpoint.clone());
    EndpointDesk { endpoint, kept, queued: None, is_queued_behind: false }
}
