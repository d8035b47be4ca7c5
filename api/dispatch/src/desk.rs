//! One endpoint as the dispatcher has it: its companies, its lane, and what that reads of the log.

use std::sync::Arc;

use cardswitch_engine::directory::webhook_endpoint::WebhookEndpoint;
use cardswitch_engine::domain::event::{Event, EventNumber};
use cardswitch_engine::domain::ids::{CompanySlot, Timestamp};
use cardswitch_engine::store::{Snapshot, StoreError};
use uuid::Uuid;

use crate::deliveries::KeptLane;
use crate::endpoint_queue::QueuePlace;
use crate::lane::{MESSAGE_EVENTS_MAX, QueuedEvent};

/// How many events of all companies are read at a time for a lane, so that a lane with much to read
/// holds up no other. The next read goes on from there.
const SCANNED_MAX: usize = 1_000;
/// How many are read for the events that a lane has read past, which is seldom.
const MISSED_SCANNED_MAX: usize = 10_000;

/// An endpoint at work.
#[derive(Debug)]
pub(crate) struct EndpointDesk {
    pub(crate) endpoint: Arc<WebhookEndpoint>,
    /// Its lane, with all that is kept of it.
    pub(crate) kept: KeptLane,
    /// Its place among those that have something to send.
    pub(crate) queued: Option<QueuePlace>,
    /// Whether it stands among those that read the log by themselves.
    pub(crate) is_queued_behind: bool,
}

impl EndpointDesk {
    /// Reads the log for the lane, as far as the follower has read it: `followed`. Returns the
    /// events of its companies, and how far was read.
    pub(crate) fn read_after(
        &self,
        snapshot: &Snapshot,
        after: EventNumber,
        followed: EventNumber,
    ) -> Result<(Vec<QueuedEvent>, EventNumber), StoreError> {
        let (events, upto) = if self.endpoint.app.is_none() {
            let company = self.endpoint.company;
            let page =
                snapshot.company_events_after(company, after, MESSAGE_EVENTS_MAX, SCANNED_MAX)?;
            (page.events, page.next)
        } else {
            let mut events = snapshot.events_after(after, SCANNED_MAX)?;
            let upto = events.last().map_or(after, |event| event.number);
            events.retain(|event| self.kept.companies.binary_search(&event.company).is_ok());
            (events, upto)
        };
        let known = events.iter().filter(|event| event.number <= followed);
        Ok((known.map(entry_of).collect(), upto.min(followed).max(after)))
    }

    /// Hands the lane the events that it has read past. Returns whether there were any.
    pub(crate) fn take_missed(&mut self, missed: MissedEvents, followed: EventNumber) -> bool {
        let MissedEvents { entries, again_after } = missed;
        if self.kept.lane.is_off || (entries.is_empty() && again_after.is_none()) {
            return false;
        }
        match again_after {
            // The events of its other companies since then are delivered once more.
            Some(after) => self.kept.lane.recover(after, followed),
            None => self.kept.lane.take_missed(entries),
        }
        true
    }
}

/// The events that a lane has read past although it is to deliver them.
#[derive(Debug, Default)]
pub(crate) struct MissedEvents {
    pub(crate) entries: Vec<QueuedEvent>,
    /// The event after which the lane reads once more, where they are too many.
    pub(crate) again_after: Option<EventNumber>,
}

impl MissedEvents {
    /// The events up to `upto` of companies that were not among those `known` to a lane, since the
    /// endpoint's app was given their tokens: a token counts from its own record on, and is seen a
    /// little later.
    pub(crate) fn of(
        snapshot: &Snapshot,
        endpoint: &WebhookEndpoint,
        companies: &[CompanySlot],
        (known, upto): (&[CompanySlot], EventNumber),
    ) -> Result<Self, StoreError> {
        let mut missed = Self::default();
        let Some(app) = endpoint.app else { return Ok(missed) };
        let is_gained = |company: &&CompanySlot| known.binary_search(company).is_err();
        for company in companies.iter().filter(is_gained) {
            let Some(token) = snapshot.first_token_of_app(app, *company)? else { continue };
            let made_at = made_at(token.0).max(endpoint.created_at);
            let after = snapshot.first_event_at(made_at)?;
            if after >= upto {
                continue;
            }
            let page = snapshot.company_events_after(
                *company,
                after,
                MESSAGE_EVENTS_MAX,
                MISSED_SCANNED_MAX,
            )?;
            if page.next < upto && !page.is_end {
                missed.again_after =
                    Some(missed.again_after.map_or(after, |known| known.min(after)));
            }
            let events = page.events.iter().filter(|event| event.number <= upto);
            missed.entries.extend(events.map(entry_of));
        }
        Ok(missed)
    }
}

const fn entry_of(event: &Event) -> QueuedEvent {
    QueuedEvent { number: event.number, transaction: event.transaction }
}

/// The instant at which the thing with this id was made; long ago where the id does not say.
fn made_at(id: Uuid) -> Timestamp {
    let made_s = id.get_timestamp().map(|at| at.to_unix());
    let made_us = made_s.map(|(s, ns)| s.saturating_mul(1_000_000) + u64::from(ns / 1_000));
    Timestamp(made_us.and_then(|us| i64::try_from(us).ok()).unwrap_or_default())
}
