//! The changes to be written down, and the figures of deliveries.

use std::collections::BTreeMap;
use std::time::Duration;

use cardswitch_engine::domain::event::EventNumber;
use cardswitch_engine::domain::ids::{Timestamp, WebhookEndpointId};
use cardswitch_engine::store::{Store, StoreError};

use super::{Dispatcher, ReplyTo, StepContext};
use crate::deliveries::Changes;
use crate::lane::Lane;
use crate::places::LanePlaces;

/// How often changes are written down.
pub(super) const SAVE_INTERVAL: Duration = Duration::from_secs(1);
/// After how many of these the follower's place is, where nothing else has changed.
const IDLE_SAVES: u32 = 10;

/// How deliveries do, all in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryFigures {
    /// Endpoints that are on.
    pub endpoints: usize,
    /// Endpoints among them whose last try failed.
    pub failing: usize,
    /// Events on their way.
    pub pending: usize,
    /// The instant at which the oldest of them happened.
    pub oldest_at: Option<Timestamp>,
    /// Requests under way.
    pub sending: usize,
    /// The instant since which outcomes could not be written down, if so.
    pub unsaved_since: Option<Timestamp>,
    /// Messages that arrived since the start.
    pub delivered: u64,
    /// Tries in vain since the start.
    pub failed: u64,
}

impl Dispatcher {
    /// Whether changes are to be written down at this uptime.
    pub fn is_save_due(&self, uptime: Duration) -> bool {
        uptime >= self.save_at
    }

    /// Has the changes written down at once, and replies after that: a crash must not take back
    /// what a caller was told.
    pub(super) fn save_recovery(&mut self, reply: ReplyTo<bool>) {
        self.recoveries.push(reply);
        self.save_at = Duration::ZERO;
    }

    /// The changes to write down, if there are any, all of one moment. The driver says how that has
    /// ended (`end_save`).
    pub fn take_changes(&mut self, uptime: Duration) -> Option<Changes> {
        self.save_at = uptime + SAVE_INTERVAL;
        self.idle_saves += 1;
        let is_clean = self.dirty.is_empty() && self.unsaved.is_empty() && self.removed.is_empty();
        if is_clean && self.idle_saves < IDLE_SAVES {
            return None;
        }
        self.idle_saves = 0;
        self.recoveries_saving.append(&mut self.recoveries);
        let dirty = std::mem::take(&mut self.dirty);
        let kept = |id: WebhookEndpointId| {
            let mut kept = self.desks.get(&id)?.kept.clone();
            kept.lane.note_read(self.followed.number);
            Some((id, kept))
        };
        Some(Changes {
            followed: self.followed,
            lanes: dirty.into_iter().filter_map(kept).collect(),
            removed: std::mem::take(&mut self.removed),
            attempts: std::mem::take(&mut self.unsaved),
            series: None,
        })
    }

    /// Notes that changes are written down, or that they are not because of a fault: then they are
    /// among the next.
    pub fn end_save(
        &mut self,
        changes: Changes,
        outcome: Result<(), String>,
        now: StepContext<'_>,
    ) {
        // A recovery that came meanwhile is not among the changes.
        let is_urgent = !self.recoveries.is_empty();
        self.save_at = if is_urgent { Duration::ZERO } else { now.uptime + SAVE_INTERVAL };
        let recoveries = std::mem::take(&mut self.recoveries_saving);
        let Err(fault) = outcome else {
            recoveries.into_iter().for_each(|reply| reply(true));
            if self.unsaved_since.take().is_some() {
                tracing::info!("deliveries are written down again");
            }
            return;
        };
        let Changes { lanes, mut removed, mut attempts, .. } = changes;
        self.dirty.extend(lanes.into_iter().map(|(id, _)| id));
        removed.append(&mut self.removed);
        attempts.append(&mut self.unsaved);
        (self.removed, self.unsaved) = (removed, attempts);
        if self.unsaved_since.is_none() {
            tracing::error!(%fault, "deliveries cannot be written down: a crash would repeat them");
            self.unsaved_since = Some(now.time);
        }
    }

    /// The places of lanes, to be kept beside the file; none while endpoints are to be read.
    /// Errors: the tables cannot be read.
    pub fn places(&self, tables: &Store) -> Result<Option<LanePlaces>, StoreError> {
        if self.is_stale {
            return Ok(None);
        }
        let (snapshot, followed) = (tables.read()?, self.followed);
        let as_of = followed.at.unwrap_or_default();
        let mut known = BTreeMap::new();
        let mut lanes = BTreeMap::new();
        for (id, desk) in self.desks.iter().filter(|(_, desk)| !desk.kept.lane.is_off) {
            let first = desk.kept.lane.told_upto(followed.number).next();
            // Lanes that lack nothing, and those that one event holds up, share the look at the log.
            let at = match known.get(&first) {
                Some(at) => *at,
                None if first > followed.number => as_of,
                None => snapshot.event_place(first)?.at.unwrap_or_default().min(as_of),
            };
            known.insert(first, at);
            lanes.insert(*id, at);
        }
        Ok(Some(LanePlaces { as_of, lanes }))
    }

    /// How deliveries do.
    pub fn figures(&self, tables: &Store) -> DeliveryFigures {
        let lanes = || self.desks.values().map(|desk| &desk.kept.lane).filter(|lane| !lane.is_off);
        let oldest = lanes().filter_map(Lane::oldest).min();
        let oldest = oldest.and_then(|number| {
            let after = EventNumber(number.0.saturating_sub(1));
            let events = tables.read().and_then(|snapshot| snapshot.events_after(after, 1));
            events.ok()?.first().map(|event| event.at)
        });
        DeliveryFigures {
            endpoints: lanes().count(),
            failing: lanes().filter(|lane| lane.is_failing()).count(),
            pending: lanes().map(Lane::pending).sum(),
            oldest_at: oldest,
            sending: self.under_way(),
            unsaved_since: self.unsaved_since,
            delivered: self.delivered,
            failed: self.failed,
        }
    }
}
