//! One endpoint as the dispatcher has it: its companies, its lane, and one request to it.

use std::sync::Arc;

use cardswitch_edge::switch::Switch;
use cardswitch_engine::clock::{Clock, Stopwatch};
use cardswitch_engine::directory::webhook_endpoint::WebhookEndpoint;
use cardswitch_engine::domain::event::{Event, EventNumber};
use cardswitch_engine::domain::ids::{CompanySlot, Timestamp};
use cardswitch_engine::store::{Snapshot, StoreError};
use cardswitch_secrets::Secrets;
use cardswitch_secrets::webhook_signature::{
    SignedMessage, WebhookSecret, message_text, signature_header,
};
use uuid::Uuid;

use super::composing::{Composed, compose, events_at, example};
use super::deliveries::{AttemptResult, Bodies, Failure};
use super::due::Queued;
use super::lane::{Entry, Lane, MESSAGE_EVENTS_MAX};
use super::sender::{Delivery, Sender};

/// How many events of all companies are read at a time for a lane, so that a lane with much to read
/// holds up no other. The next read goes on from there.
const SCANNED_MAX: usize = 1_000;
/// How many are read for the events that a lane has read past, which is seldom.
const MISSED_SCANNED_MAX: usize = 10_000;

/// An endpoint at work.
#[derive(Debug)]
pub(super) struct Desk {
    /// The endpoint.
    pub(super) endpoint: Arc<WebhookEndpoint>,
    /// The companies whose events it gets; they rise.
    pub(super) companies: Vec<CompanySlot>,
    /// The events still to be delivered to it.
    pub(super) lane: Lane,
    /// How many attempts it has had.
    pub(super) attempts: u64,
    /// The `enabled_at` of its endpoint when the lane was turned on last.
    pub(super) on_since: Timestamp,
    /// The address that was gone while it was on since then. Tables that still show the endpoint on
    /// do not turn it on again, only a person does.
    pub(super) gone_url: Option<String>,
    /// Its place among those that have something to send.
    pub(super) queued: Option<Queued>,
    /// Whether it stands among those that read the log by themselves.
    pub(super) is_queued_behind: bool,
}

impl Desk {
    /// Reads the log for the lane, as far as the follower has read it: `followed`. Returns the
    /// events of its companies, and how far was read.
    pub(super) fn read_after(
        &self,
        snapshot: &Snapshot,
        after: EventNumber,
        followed: EventNumber,
    ) -> Result<(Vec<Entry>, EventNumber), StoreError> {
        let (events, upto) = if self.endpoint.app.is_none() {
            let company = self.endpoint.company;
            let page =
                snapshot.company_events_after(company, after, MESSAGE_EVENTS_MAX, SCANNED_MAX)?;
            (page.events, page.next)
        } else {
            let mut events = snapshot.events_after(after, SCANNED_MAX)?;
            let upto = events.last().map_or(after, |event| event.number);
            events.retain(|event| self.companies.binary_search(&event.company).is_ok());
            (events, upto)
        };
        let known = events.iter().filter(|event| event.number <= followed);
        Ok((known.map(entry_of).collect(), upto.min(followed).max(after)))
    }

    /// The events that the lane has read past since its app was given tokens of companies that it
    /// is not known to follow: a token counts from its own record on, and is seen a little later.
    /// The follower has read up to `followed`.
    pub(super) fn missed(
        &self,
        snapshot: &Snapshot,
        companies: &[CompanySlot],
        followed: EventNumber,
    ) -> Result<Missed, StoreError> {
        let mut missed = Missed::default();
        let Some(app) = self.endpoint.app else { return Ok(missed) };
        let upto = self.lane.read_upto(followed);
        let is_gained = |company: &&CompanySlot| self.companies.binary_search(company).is_err();
        for company in companies.iter().filter(is_gained) {
            let Some(token) = snapshot.first_token_of_app(app, *company)? else { continue };
            let made_at = made_at(token.0).max(self.endpoint.created_at);
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

    /// Hands the lane the events that it has read past. Returns whether there were any.
    pub(super) fn take_missed(&mut self, missed: Missed, followed: EventNumber) -> bool {
        let Missed { entries, again_after } = missed;
        if self.lane.is_off() || (entries.is_empty() && again_after.is_none()) {
            return false;
        }
        match again_after {
            // The events of its other companies since then are delivered once more.
            Some(after) => self.lane.recover(after, followed),
            None => self.lane.take_missed(entries),
        }
        true
    }
}

/// The events that a lane has read past although it is to deliver them.
#[derive(Debug, Default)]
pub(super) struct Missed {
    /// The events.
    pub(super) entries: Vec<Entry>,
    /// The event after which the lane reads once more, where they are too many.
    pub(super) again_after: Option<EventNumber>,
}

const fn entry_of(event: &Event) -> Entry {
    Entry { number: event.number, transaction: event.transaction }
}

/// The content of a message.
#[derive(Clone, Debug)]
pub enum Content {
    /// These events, as far as the endpoint may see them.
    Events(Vec<EventNumber>),
    /// These once more, if they are all still there. All of them had happened by this instant: a
    /// later event got the number of one that was lost.
    Again(Vec<EventNumber>, Timestamp),
    /// An example.
    Example,
}

impl Content {
    /// The numbers of the events.
    pub(super) fn numbers(&self) -> &[EventNumber] {
        match self {
            Self::Events(numbers) | Self::Again(numbers, _) => numbers,
            Self::Example => &[],
        }
    }
}

/// The instant at which the thing with this id was made; long ago where the id does not say.
fn made_at(id: Uuid) -> Timestamp {
    let made_s = id.get_timestamp().map(|at| at.to_unix());
    let made_us = made_s.map(|(s, ns)| s.saturating_mul(1_000_000) + u64::from(ns / 1_000));
    Timestamp(made_us.and_then(|us| i64::try_from(us).ok()).unwrap_or_default())
}

/// A request to an endpoint.
#[derive(Debug)]
pub struct Job {
    /// The way to the engine.
    pub switch: Switch,
    /// The keys that open the secret of the endpoint.
    pub secrets: Arc<Secrets>,
    /// The sender of requests.
    pub sender: Sender,
    /// The endpoint.
    pub endpoint: Arc<WebhookEndpoint>,
    /// The content of the message.
    pub content: Content,
    /// The id of the message, the same for each try.
    pub message: Uuid,
    /// The number of the try, from 1.
    pub tries: u8,
    /// The engine's time.
    pub now: Timestamp,
}

/// The outcome of a request.
#[derive(Debug)]
pub struct RequestReport {
    /// The result of the request. None where there was nothing to tell: the endpoint may see none
    /// of the events any more, or they are no more.
    pub result: Option<AttemptResult>,
    /// How long it took. Units: milliseconds.
    pub duration_ms: u32,
    /// The bodies.
    pub bodies: Bodies,
}

impl RequestReport {
    /// The report where the task ends without one.
    pub(super) const NOT_SENT: Self = Self {
        result: Some(AttemptResult::Unanswered(Failure::NotSent)),
        duration_ms: 0,
        bodies: Bodies::NONE,
    };
}

impl Job {
    /// Composes, signs and sends.
    pub async fn run(self) -> RequestReport {
        let watch = Stopwatch::start();
        let mut bodies = Bodies::NONE;
        let result = self.send(&mut bodies).await;
        let is_told = result != AttemptResult::Unanswered(Failure::NothingToTell);
        let duration_ms = u32::try_from(watch.elapsed().as_millis()).unwrap_or(u32::MAX);
        RequestReport { result: is_told.then_some(result), duration_ms, bodies }
    }

    async fn send(&self, bodies: &mut Bodies) -> AttemptResult {
        let access = self.switch.access_changes();
        let delivery = match self.delivery() {
            Ok(delivery) => delivery,
            Err(failure) => return AttemptResult::Unanswered(failure),
        };
        // Rights may end while its host is looked up and the connection is made.
        let check = |delivery| {
            let checked = match access.has_changed() {
                Ok(false) => Ok(delivery),
                _ => self.delivery(),
            };
            checked.inspect(|checked| bodies.request = Bodies::text_of(&checked.body))
        };
        let (result, answer) = self.sender.send_checked(delivery, check).await;
        bodies.answer = Bodies::text_of(&answer);
        result
    }

    /// The delivery by the present rights and settings of the endpoint.
    fn delivery(&self) -> Result<Delivery, Failure> {
        match self.switch.read_at_once(|snapshot| self.make(snapshot)) {
            // A message that waited for another address is tried again at the present one.
            Ok(Some(delivery)) if delivery.address != self.endpoint.url => Err(Failure::NotSent),
            Ok(Some(delivery)) => Ok(delivery),
            Ok(None) => Err(Failure::NothingToTell),
            Err(error) => {
                tracing::error!(%error, endpoint = %self.endpoint.id.0, "a webhook cannot be made");
                Err(Failure::NotSent)
            }
        }
    }

    fn make(&self, snapshot: &Snapshot) -> Result<Option<Delivery>, StoreError> {
        let (company, id) = (self.endpoint.company, self.endpoint.id);
        let endpoint = snapshot.own::<WebhookEndpoint>(company, id)?;
        // Messages sent by hand go to an endpoint that is off, too.
        let is_told = |endpoint: &WebhookEndpoint| {
            endpoint.is_enabled() || !matches!(self.content, Content::Events(_))
        };
        let Some(endpoint) = endpoint.filter(is_told) else { return Ok(None) };
        let Some(Composed { body, sequence }) = self.compose(snapshot)? else { return Ok(None) };
        let id = message_text(self.message);
        // A matter between two machines that keep the time, whatever the time of a simulation is.
        let timestamp_s = Clock::System.now().0.div_euclid(1_000_000);
        let message = SignedMessage { id: &id, timestamp_s, body: &body };
        let signature = signature_header(&self.signing_secrets(&endpoint)?, &message);
        let (address, tries) = (endpoint.url, self.tries);
        Ok(Some(Delivery { address, id, timestamp_s, signature, sequence, tries, body }))
    }

    fn compose(&self, snapshot: &Snapshot) -> Result<Option<Composed>, StoreError> {
        let own = self.endpoint.company;
        let events = match &self.content {
            Content::Example => {
                return Ok(snapshot.company(own)?.map(|company| example(company.id)));
            }
            Content::Events(numbers) => self.events_left(snapshot, numbers)?,
            Content::Again(numbers, told_at) => {
                let events = events_at(snapshot, numbers)?;
                let is_same = events.len() == numbers.len()
                    && events.iter().all(|event| event.at <= *told_at);
                if is_same { events } else { Vec::new() }
            }
        };
        // Rights count as they are now, not as they were when the event was read.
        let companies = match self.endpoint.app {
            Some(app) => snapshot.companies_of_app(app)?,
            None => vec![own],
        };
        compose(snapshot, &events, |company| companies.binary_search(&company).is_ok())
    }

    fn events_left(
        &self,
        snapshot: &Snapshot,
        numbers: &[EventNumber],
    ) -> Result<Vec<Event>, StoreError> {
        let events = events_at(snapshot, numbers)?;
        if events.len() < numbers.len() {
            let (wanted, found) = (numbers.len(), events.len());
            tracing::error!(endpoint = %self.endpoint.id.0, wanted, found, "events are missing");
        }
        Ok(events)
    }

    fn signing_secrets(
        &self,
        endpoint: &WebhookEndpoint,
    ) -> Result<Vec<WebhookSecret>, StoreError> {
        let previous = endpoint.previous_secret.as_ref();
        let previous = previous.filter(|(_, until)| self.now < *until).map(|(sealed, _)| sealed);
        let sealed = std::iter::once(&endpoint.sealed_secret).chain(previous);
        let opened = sealed.map(|sealed| self.secrets.open_webhook_secret(sealed, endpoint.id));
        opened.collect::<Option<_>>().ok_or_else(|| StoreError::Inconsistent {
            what: "the secret of a webhook endpoint was sealed with another key".to_owned(),
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use cardswitch_engine::directory::webhook_endpoint::EndpointState;
    use cardswitch_engine::domain::ids::{WebhookEndpointId, WebhookEndpointSlot};

    use super::*;

    /// An endpoint of the first company.
    pub(in crate::webhooks) fn endpoint() -> WebhookEndpoint {
        WebhookEndpoint {
            slot: WebhookEndpointSlot(0),
            id: WebhookEndpointId(Uuid::from_u128(1)),
            company: CompanySlot(0),
            app: None,
            url: "http://127.0.0.1:9/".to_owned(),
            description: String::new(),
            sealed_secret: Vec::new(),
            previous_secret: None,
            state: EndpointState::Enabled,
            created_at: Timestamp(0),
            enabled_at: Timestamp(0),
            is_deleted: false,
        }
    }
}
