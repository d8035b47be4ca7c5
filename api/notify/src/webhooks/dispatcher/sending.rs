//! Requests: their start and their outcome.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cardswitch_edge::actor::note_at_hand;
use cardswitch_edge::descriptors::ASKED_SENDS_MAX;
use cardswitch_edge::switch::Switch;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::reply::Reply;
use cardswitch_engine::command::{Command, NotedCommand};
use cardswitch_engine::directory::webhook_endpoint::{
    GoneReceiver, WebhookEndpoint, WebhookEndpointChanges, WebhookEndpointCommand,
};
use cardswitch_engine::domain::event::EventNumber;
use cardswitch_engine::domain::ids::{CompanySlot, Timestamp, WebhookEndpointId};
use cardswitch_secrets::issuing::{RandomSource, SystemRandom};
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use super::super::Order;
use super::super::composing::message_id;
use super::super::deliveries::{Attempt, AttemptKind, AttemptResult, Bodies, Failure};
use super::super::desk::{Content, Desk, Job, RequestReport};
use super::super::due::Line;
use super::super::lane::{Entry, Fate, Message, Outcome};
use super::{Dispatcher, UNSAVED_MAX};

/// How many of these at endpoints of one company.
const ASKED_OF_COMPANY_MAX: usize = 2;

const GONE: u16 = 410;
/// How long to wait before the engine is asked once more to turn off an endpoint that is gone.
const GONE_REPORT_WAIT: Duration = Duration::from_secs(1);

/// A request that has ended.
pub(super) struct Done {
    id: WebhookEndpointId,
    attempt: Attempt,
    told: RequestReport,
    /// The endpoint as it was then.
    tried: Arc<WebhookEndpoint>,
    /// The caller who waits for it; none where it was the lane's.
    asked: Option<Asked>,
    was_failing: bool,
}

/// A caller who waits for the outcome of a request.
struct Asked {
    company: CompanySlot,
    reply: oneshot::Sender<Option<Attempt>>,
}

/// Says that a request has ended when it is dropped, so that this is said, too, where its task panicked.
struct Ending {
    ended: mpsc::UnboundedSender<Done>,
    done: Option<Done>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        if let Some(done) = self.done.take() {
            // The dispatcher may have stopped: then it is sent once more.
            drop(self.ended.send(done));
        }
    }
}

impl Dispatcher {
    /// Sends messages that are due, as far as there are places.
    pub(super) fn start_due(&mut self) {
        let now = self.now();
        let bounds = self.tools.sends;
        let free = [
            (Line::Healthy, bounds.healthy.saturating_sub(self.sending)),
            (Line::Failing, bounds.failing.saturating_sub(self.sending_failing)),
        ];
        for (line, places) in free {
            for id in self.due.ready(line, now, places) {
                self.start(id, now);
            }
        }
    }

    fn start(&mut self, id: WebhookEndpointId, now: Timestamp) {
        let Some(desk) = self.desks.get_mut(&id) else { return };
        let was_failing = desk.lane.is_failing();
        let series = self.tools.deliveries.series();
        let name = |entries: &[Entry]| message_id(series, id, &numbers_of(entries));
        if let Some(message) = desk.lane.start(now, name) {
            match was_failing {
                true => self.sending_failing += 1,
                false => self.sending += 1,
            }
            let Message { id: message, entries, tries, .. } = message;
            let content = Content::Events(numbers_of(&entries));
            let sent = Sent { id, kind: AttemptKind::Event, message, tries: tries + 1, content };
            self.send(sent, None, was_failing);
        }
        self.refresh(id);
    }

    fn send(&self, sent: Sent, asked: Option<Asked>, was_failing: bool) {
        let Some(desk) = self.desks.get(&sent.id) else { return };
        let Sent { id, kind, message, tries, content } = sent;
        let now = self.now();
        let attempt = Attempt {
            id: SystemRandom.id(now).unwrap_or(message),
            message,
            kind,
            tries,
            // Each record has an instant of its own, which may be ahead of a clock that stands: no
            // attempt was before the events of its message.
            at: self.followed.at.map_or(now, |followed| followed.max(now)),
            duration_ms: 0,
            result: AttemptResult::Unanswered(Failure::NotSent),
            again_at: None,
            is_last: false,
            events: content.numbers().to_vec(),
            bodies: Bodies::NONE,
        };
        let job = Job {
            switch: self.tools.switch.clone(),
            secrets: Arc::clone(&self.tools.secrets),
            sender: self.tools.sender.clone(),
            endpoint: Arc::clone(&desk.endpoint),
            content,
            message,
            tries,
            now,
        };
        let tried = Arc::clone(&desk.endpoint);
        let done = Done { id, attempt, told: RequestReport::NOT_SENT, tried, asked, was_failing };
        let mut ending = Ending { ended: self.ended.clone(), done: Some(done) };
        tokio::spawn(async move {
            let told = job.run().await;
            if let Some(done) = &mut ending.done {
                done.told = told;
            }
        });
    }

    /// Notes the outcome of a request.
    pub(super) fn end(&mut self, done: Done) {
        let Done { id, mut attempt, told, tried, asked, was_failing } = done;
        match (&asked, was_failing) {
            (Some(asked), _) => give_back(&mut self.sending_asked, asked.company),
            (None, true) => self.sending_failing -= 1,
            (None, false) => self.sending -= 1,
        }
        let Some(desk) = self.desks.get_mut(&id) else { return };
        attempt.duration_ms = told.duration_ms;
        attempt.bodies = told.bodies;
        let is_told = told.result.is_some();
        let untold = AttemptResult::Unanswered(Failure::NothingToTell);
        attempt.result = told.result.unwrap_or(untold);
        // The address that was tried is gone; by now there may be another one, or somebody may have
        // turned it on once more.
        let is_gone = attempt.result == AttemptResult::Answered(GONE)
            && desk.endpoint.is_enabled()
            && (&desk.endpoint.url, desk.endpoint.enabled_at) == (&tried.url, tried.enabled_at);
        if asked.is_none() {
            settle(desk, &mut attempt, self.tools.switch.engine().clock().now());
        }
        if is_gone {
            desk.gone_url = Some(tried.url.clone());
            desk.lane.turn_off(self.followed.number);
            attempt.again_at = None;
        }
        if is_told {
            self.count(&attempt);
            self.note(id, &attempt);
        }
        if is_gone {
            self.report_gone(&tried);
        }
        self.refresh(id);
        if let Some(asked) = asked {
            // The caller may have hung up.
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

    /// Has the engine turn an endpoint off whose receiver says that it is gone. Its lane is off
    /// already, so no later try would report it: the report is repeated until the engine has
    /// carried it out.
    pub(super) fn report_gone(&self, endpoint: &Arc<WebhookEndpoint>) {
        let (switch, endpoint) = (self.tools.switch.clone(), Arc::clone(endpoint));
        let orders = self.tools.orders.clone();
        tokio::spawn(async move {
            while orders.upgrade().is_some() && !is_turned_off(&switch, &endpoint).await {
                tokio::time::sleep(GONE_REPORT_WAIT).await;
            }
            if let Some(orders) = orders.upgrade() {
                drop(orders.send(Order::Reload(None)).await);
            }
        });
    }

    /// Sends an example, and replies to the caller with the outcome.
    pub(super) fn send_example(
        &mut self,
        id: WebhookEndpointId,
        reply: oneshot::Sender<Option<Attempt>>,
    ) {
        let message = SystemRandom.id(self.now()).unwrap_or_default();
        let (kind, content) = (AttemptKind::Example, Content::Example);
        self.send_asked(Sent { id, kind, message, tries: 1, content }, reply);
    }

    /// Sends the message of an attempt once more, and replies to the caller with the outcome.
    pub(super) fn resend(
        &mut self,
        id: WebhookEndpointId,
        attempt: Uuid,
        reply: oneshot::Sender<Option<Attempt>>,
    ) {
        let found = self.attempts(id).into_iter().find(|found| found.id == attempt);
        let Some(Attempt { message, events, tries, at, .. }) = found else {
            drop(reply.send(None));
            return;
        };
        let content = match events.as_slice() {
            [] => Content::Example,
            _ => Content::Again(events, at),
        };
        let (kind, tries) = (AttemptKind::Resent, tries.saturating_add(1));
        self.send_asked(Sent { id, kind, message, tries, content }, reply);
    }

    /// Sends a message for whose outcome a caller waits. With too many of these under way, no reply
    /// follows.
    /// is answered.
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
}

/// Reports an endpoint as gone. Returns whether the engine knows, and has turned it off unless somebody
/// has changed it meanwhile.
async fn is_turned_off(switch: &Switch, endpoint: &WebhookEndpoint) -> bool {
    let company = switch.read_at_once(|snapshot| snapshot.company(endpoint.company));
    let Ok(Some(company)) = company else { return false };
    let (url, enabled_at) = (endpoint.url.clone(), endpoint.enabled_at);
    let changes = WebhookEndpointChanges {
        gone: Some(GoneReceiver { url, enabled_at }),
        ..WebhookEndpointChanges::default()
    };
    let change = AdminCommand::WebhookEndpoint(WebhookEndpointCommand::Update(
        company.id,
        endpoint.id,
        changes,
    ));
    let command = NotedCommand { note: note_at_hand(), change };
    match switch.ask(Command::Noted(Box::new(command)).into()).await {
        Ok(Reply::Done(seq)) => {
            switch.visible(seq).await;
            true
        }
        // The endpoint was deleted.
        Ok(Reply::Rejected(_)) => true,
        _ => false,
    }
}

/// A request to be made.
struct Sent {
    id: WebhookEndpointId,
    kind: AttemptKind,
    message: Uuid,
    tries: u8,
    content: Content,
}

/// Notes the outcome at the lane of an endpoint, and the message's next try at the attempt.
fn settle(desk: &mut Desk, attempt: &mut Attempt, now: Timestamp) {
    let outcome = match attempt.result {
        _ if attempt.is_delivered() => Outcome::Delivered,
        AttemptResult::Unanswered(Failure::NothingToTell) => Outcome::Untold,
        _ => Outcome::Failed,
    };
    match desk.lane.settle(outcome, now) {
        Fate::Again(at) => attempt.again_at = Some(at),
        Fate::GivenUp => attempt.is_last = true,
        Fate::Delivered | Fate::Dropped => {}
    }
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

    #[tokio::test]
    async fn a_request_whose_task_panics_has_ended() {
        let (ended, mut ends) = mpsc::unbounded_channel();
        let endpoint = Arc::new(crate::webhooks::desk::tests::endpoint());
        let attempt = crate::webhooks::deliveries::tests::attempt(1);
        let id = endpoint.id;
        let told = RequestReport::NOT_SENT;
        let done = Done { id, attempt, told, tried: endpoint, asked: None, was_failing: false };
        let ending = Ending { ended, done: Some(done) };
        let task = tokio::spawn(async move {
            let _ending = ending;
            panic!("this is what is tried");
        });
        assert!(task.await.unwrap_err().is_panic());
        let done = ends.recv().await.unwrap();
        assert_eq!(done.told.result, Some(AttemptResult::Unanswered(Failure::NotSent)));
    }
}
