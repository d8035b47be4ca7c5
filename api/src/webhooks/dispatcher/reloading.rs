//! Which endpoints there are, and what they may be told: looked at anew whenever that may have changed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cardswitch_engine::clock::Stopwatch;
use cardswitch_engine::domain::event::EventNumber;
use cardswitch_engine::domain::ids::{CompanySlot, WebhookEndpointId};
use cardswitch_engine::domain::webhook_endpoint::WebhookEndpoint;
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

impl Dispatcher {
    /// Looks at endpoints and rights as they are now.
    pub(super) fn reload(&mut self) {
        let watch = Stopwatch::start();
        let (desks, kept) = (&self.desks, &self.kept);
        let followed = self.was_following().then_some(self.followed);
        let read = |snapshot: &Snapshot| {
            let endpoints = snapshot.all_webhook_endpoints()?;
            let last = snapshot.last_event()?;
            let before_last = EventNumber(last.0.saturating_sub(1));
            let newest = snapshot.events_after(before_last, 1)?.first().map(|event| event.at);
            let settled = newest.unwrap_or_default().plus(-SETTLED_US);
            let told = endpoints.into_iter().map(|endpoint| {
                let companies = match endpoint.app {
                    Some(app) => snapshot.companies_of_app(app)?,
                    None => vec![endpoint.company],
                };
                let is_known = desks.contains_key(&endpoint.id) || kept.contains_key(&endpoint.id);
                let made_after = if is_known {
                    // It stands where it stood.
                    EventNumber(0)
                } else {
                    snapshot.first_event_at(endpoint.created_at.max(settled))?
                };
                let missed = desks
                    .get(&endpoint.id)
                    .map(|desk| desk.missed(snapshot, &companies, followed.unwrap_or(last)));
                let missed = missed.transpose()?.unwrap_or_default();
                Ok(Found { endpoint, companies, made_after, missed })
            });
            Ok((told.collect::<Result<Vec<_>, StoreError>>()?, last))
        };
        match self.tools.switch.read_at_once(read) {
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
            }
        }
        // However often somebody changes something, most of the time is for deliveries.
        self.reload_from = Instant::now() + watch.elapsed() * 9;
    }

    pub(super) fn was_following(&self) -> bool {
        !self.by_company.is_empty() || !self.kept.is_empty()
    }

    fn take_endpoints(&mut self, found: Vec<Found>, last: EventNumber) {
        let was_following = self.was_following();
        let ids: BTreeSet<_> = found.iter().map(|found| found.endpoint.id).collect();
        let gone: Vec<_> = self.desks.keys().filter(|id| !ids.contains(id)).copied().collect();
        for id in gone {
            self.remove(id);
        }
        self.by_company.clear();
        for Found { endpoint, companies, made_after, missed } in found {
            let (id, is_enabled) = (endpoint.id, endpoint.is_enabled());
            if is_enabled {
                for company in &companies {
                    self.by_company.entry(*company).or_default().push(id);
                }
            }
            let is_new = !self.desks.contains_key(&id);
            let kept = self.kept.remove(&id);
            let desk =
                self.desks.entry(id).or_insert_with(|| new_desk(&endpoint, kept, made_after));
            desk.endpoint = Arc::new(endpoint);
            desk.companies = companies;
            let has_turned =
                if is_enabled { desk.lane.turn_on(last) } else { desk.lane.turn_off() };
            let has_missed = desk.take_missed(missed, self.followed);
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
        if let Some(queued) = self.desks.remove(&id).and_then(|desk| desk.queued_at) {
            self.due.remove(&(queued, id));
        }
        self.dirty.remove(&id);
        self.unsaved.retain(|(of, ..)| *of != id);
        self.removed.push(id);
    }
}

/// An endpoint as the tables have it.
struct Found {
    endpoint: WebhookEndpoint,
    companies: Vec<CompanySlot>,
    made_after: EventNumber,
    missed: Missed,
}

/// The desk of an endpoint that is met for the first time since the start: it goes on where it stood,
/// or begins where it was made.
fn new_desk(endpoint: &WebhookEndpoint, kept: Option<KeptLane>, made_after: EventNumber) -> Desk {
    let (mut lane, attempts) =
        kept.map_or_else(|| (Lane::after(made_after), 0), |kept| (kept.lane, kept.attempts));
    lane.resume();
    Desk {
        endpoint: Arc::new(endpoint.clone()),
        companies: Vec::new(),
        lane,
        attempts,
        queued_at: None,
        is_queued_behind: false,
    }
}
