//! Requests: their start and their outcome.

use std::collections::BTreeMap;
use std::sync::Arc;

use cardswitch_engine::directory::webhook_endpoint::WebhookEndpoint;
use cardswitch_engine::domain::event::EventNumber;
use cardswitch_engine::domain::ids::{CompanySlot, Timestamp, WebhookEndpointId};
use uuid::Uuid;

use super::{Dispatcher, ReplyTo, StepContext, UNSAVED_MAX};
use crate::attempt::{Attempt, AttemptFailure, AttemptKind, AttemptResult, Bodies};
use crate::content::{Content, message_id};
use crate::desk::EndpointDesk;
use crate::endpoint_queue::QueueLine;
use crate::lane::{AttemptOutcome, MessageFate, QueuedEvent, WebhookMessage};

/// How many requests that callers wait for go to endpoints of one company.
const ASKED_OF_COMPANY_MAX: usize = 2;

const GONE: u16 = 410;

/// A request to be sent.
#[derive(Debug)]
pub struct Request {
    /// The endpoint as it is now.
    pub endpoint: Arc<WebhookEndpoint>,
    /// The content of the message.
    pub content: Content,
    /// The id of the message, the same for each try.
    pub message: Uuid,
    /// The number of the try, from 1.
    pub tries: u8,
    /// The engine's time.
    pub time: Timestamp,
}

/// The outcome of a request.
#[derive(Debug)]
pub struct RequestReport {
    /// The result of the request.
    pub result: AttemptResult,
    /// How long it took. Units: milliseconds.
    pub duration_ms: u32,
    /// The bodies.
    pub bodies: Bodies,
}

impl RequestReport {
    /// The report of a request that was never sent.
    pub const NOT_SENT: Self = Self {
        result: AttemptResult::Unanswered(AttemptFailure::NotSent),
        duration_ms: 0,
        bodies: Bodies::NONE,
    };
}

/// A request that has ended.
pub struct EndedRequest {
    /// The endpoint.
    pub id: WebhookEndpointId,
    /// The attempt, without its outcome.
    pub attempt: Attempt,
    /// The outcome: not sent, until the driver knows better.
    pub report: RequestReport,
    /// The endpoint as it was then.
    pub tried: Arc<WebhookEndpoint>,
    /// The caller who waits for it; none where it was the lane's.
    pub asked: Option<WaitingCaller>,
    /// Whether it has a place among those of failing receivers.
    pub was_failing: bool,
}

/// A caller who waits for the outcome of a request.
pub struct WaitingCaller {
    company: CompanySlot,
    reply: ReplyTo<Option<Attempt>>,
}

cardswitch_engine::opaque!(EndedRequest, WaitingCaller);

impl Dispatcher {
    /// Sends messages that are due, as far as there are places.
    pub(super) fn start_due(&mut self, now: StepContext<'_>) {
        let bounds = self.tools.places;
        let free = [
            (QueueLine::Healthy, bounds.healthy.saturating_sub(self.sending)),
            (QueueLine::Failing, bounds.failing.saturating_sub(self.sending_failing)),
        ];
        for (line, places) in free {
            for id in self.due.ready(line, now.time, places) {
                self.start(id, now.time);
            }
        }
    }

    fn start(&mut self, id: WebhookEndpointId, now: Timestamp) {
        let Some(desk) = self.desks.get_mut(&id) else { return };
        let was_failing = desk.kept.lane.is_failing();
        let series = self.tools.deliveries.series();
        let name = |entries: &[QueuedEvent]| message_id(series, id, &numbers_of(entries));
        if let Some(message) = desk.kept.lane.start(now, name) {
            match was_failing {
                true => self.sending_failing += 1,
                false => self.sending += 1,
            }
            let WebhookMessage { id: message, entries, tries, .. } = message;
            let content = Content::Events(numbers_of(&entries));
            let sent = OutgoingMessage {
                id,
                kind: AttemptKind::Event,
                message,
                tries: tries + 1,
                content,
            };
            self.send(sent, None, was_failing, now);
        }
        self.refresh(id, now);
    }

    fn send(
        &mut self,
        sent: OutgoingMessage,
        asked: Option<WaitingCaller>,
        was_failing: bool,
        now: Timestamp,
    ) {
        let Some(desk) = self.desks.get(&sent.id) else { return };
        let OutgoingMessage { id, kind, message, tries, content } = sent;
        let attempt = Attempt {
            id: (self.tools.ids)(now).unwrap_or(message),
            message,
            kind,
            tries,
            // Each record has an instant of its own, which may be ahead of a clock that stands: no
            // attempt was before the events of its message.
            at: self.followed.at.map_or(now, |followed| followed.max(now)),
            duration_ms: 0,
            result: AttemptResult::Unanswered(AttemptFailure::NotSent),
            again_at: None,
            is_last: false,
            events: content.numbers().to_vec(),
            bodies: Bodies::NONE,
        };
        let (endpoint, tried) = (Arc::clone(&desk.endpoint), Arc::clone(&desk.endpoint));
        let report = RequestReport::NOT_SENT;
        let done = EndedRequest { id, attempt, report, tried, asked, was_failing };
        self.requests.push_back((Request { endpoint, content, message, tries, time: now }, done));
    }

    /// Notes the outcome of a request.
    pub fn end(&mut self, done: EndedRequest, now: StepContext<'_>) {
        let EndedRequest { id, mut attempt, report, tried, asked, was_failing } = done;
        match (&asked, was_failing) {
            (Some(asked), _) => give_back(&mut self.sending_asked, asked.company),
            (None, true) => self.sending_failing -= 1,
            (None, false) => self.sending -= 1,
        }
        let Some(desk) = self.desks.get_mut(&id) else { return };
        attempt.duration_ms = report.duration_ms;
        attempt.bodies = report.bodies;
        attempt.result = report.result;
        let is_told = attempt.result != AttemptResult::Unanswered(AttemptFailure::NothingToTell);
        // The address that was tried is gone; by now there may be another one, or somebody may have
        // turned it on once more.
        let is_gone = attempt.result == AttemptResult::Answered(GONE)
            && desk.endpoint.is_enabled()
            && (&desk.endpoint.url, desk.endpoint.enabled_at) == (&tried.url, tried.enabled_at);
        if asked.is_none() {
            settle(desk, &mut attempt, now.time);
        } else if attempt.is_delivered() && !attempt.events.is_empty() {
            // Events arrived, so the receiver is back. An example proves less, and hides no trouble.
            desk.kept.lane.note_delivery(now.time);
        }
        if is_gone {
            desk.kept.gone_url = Some(tried.url.clone());
            desk.kept.lane.turn_off(self.followed.number);
            attempt.again_at = None;
        }
        if is_told {
            self.count(&attempt);
            self.note(id, &attempt);
        }
        if is_gone {
            self.gone.push(tried);
        }
        self.refresh(id, now.time);
        if let Some(asked) = asked {
            (asked.reply)(Some(attempt));
        }
    }

    const fn count(&mut self, attempt: &Attempt) {
        if attempt.is_delivered() {
            self.delivered += 1;
        } else {
            self.failed += 1;
        }
    }

    fn note(&mut self, id: WebhookEndpointId, attempt: &Attempt) {
        let Some(desk) = self.desks.get_mut(&id) else { return };
        if self.unsaved.len() < UNSAVED_MAX {
            self.unsaved.push((id, desk.kept.attempts, attempt.clone()));
            desk.kept.attempts += 1;
        }
    }

    /// Sends an example, and replies to the caller with the outcome.
    pub(super) fn send_example(
        &mut self,
        id: WebhookEndpointId,
        reply: ReplyTo<Option<Attempt>>,
        now: Timestamp,
    ) {
        let message = (self.tools.ids)(now).unwrap_or_default();
        let (kind, content) = (AttemptKind::Example, Content::Example);
        self.send_asked(OutgoingMessage { id, kind, message, tries: 1, content }, reply, now);
    }

    /// Sends the message of an attempt once more, and replies to the caller with the outcome.
    pub(super) fn resend(
        &mut self,
        id: WebhookEndpointId,
        attempt: Uuid,
        reply: ReplyTo<Option<Attempt>>,
        now: Timestamp,
    ) {
        let found = self.attempts(id).into_iter().find(|found| found.id == attempt);
        let Some(Attempt { message, events, tries, at, .. }) = found else {
            reply(None);
            return;
        };
        let content = match events.as_slice() {
            [] => Content::Example,
            _ => Content::Again(events, at),
        };
        let (kind, tries) = (AttemptKind::Resent, tries.saturating_add(1));
        self.send_asked(OutgoingMessage { id, kind, message, tries, content }, reply, now);
    }

    /// Sends a message for whose outcome a caller waits. With too many of these under way, no reply
    /// follows.
    fn send_asked(
        &mut self,
        sent: OutgoingMessage,
        reply: ReplyTo<Option<Attempt>>,
        now: Timestamp,
    ) {
        let Some(desk) = self.desks.get(&sent.id) else {
            reply(None);
            return;
        };
        let company = desk.endpoint.company;
        if take_place(&mut self.sending_asked, company, self.tools.places.asked) {
            self.send(sent, Some(WaitingCaller { company, reply }), false, now);
        }
    }
}

/// A message to be sent.
struct OutgoingMessage {
    id: WebhookEndpointId,
    kind: AttemptKind,
    message: Uuid,
    tries: u8,
    content: Content,
}

/// Notes the outcome at the lane of an endpoint, and the message's next try at the attempt.
fn settle(desk: &mut EndpointDesk, attempt: &mut Attempt, now: Timestamp) {
    let outcome = match attempt.result {
        _ if attempt.is_delivered() => AttemptOutcome::Delivered,
        AttemptResult::Unanswered(AttemptFailure::NothingToTell) => AttemptOutcome::Untold,
        _ => AttemptOutcome::Failed,
    };
    match desk.kept.lane.settle(outcome, now) {
        MessageFate::Again(at) => attempt.again_at = Some(at),
        MessageFate::GivenUp => attempt.is_last = true,
        MessageFate::Delivered | MessageFate::Dropped => {}
    }
}

/// Takes a place for a request that a company asked for, if one of `all_max` is free.
fn take_place(
    asked: &mut BTreeMap<CompanySlot, usize>,
    company: CompanySlot,
    all_max: usize,
) -> bool {
    let all: usize = asked.values().sum();
    let of_company = asked.get(&company).copied().unwrap_or(0);
    let is_free = all < all_max && of_company < ASKED_OF_COMPANY_MAX;
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

fn numbers_of(entries: &[QueuedEvent]) -> Vec<EventNumber> {
    entries.iter().map(|entry| entry.number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_company_does_not_keep_others_from_examples() {
        const ALL_MAX: usize = 16;
        let mut asked = BTreeMap::new();
        let [busy, other] = [1, 2].map(CompanySlot);
        let take = |asked: &mut _, company| take_place(asked, company, ALL_MAX);
        for _ in 0..ASKED_OF_COMPANY_MAX {
            assert!(take(&mut asked, busy));
        }
        assert!(!take(&mut asked, busy) && take(&mut asked, other));
        give_back(&mut asked, busy);
        assert!(take(&mut asked, busy) && !take(&mut asked, busy));
        for company in 3..30 {
            take(&mut asked, CompanySlot(company));
            take(&mut asked, CompanySlot(company));
        }
        assert_eq!(asked.values().sum::<usize>(), ALL_MAX);
    }
}
