//! The task that drives the dispatcher of webhooks: it knows the time, sends its requests, each in a
//! task of its own, and writes its changes down.

use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use cardswitch_dispatch::deliveries::Deliveries;
use cardswitch_dispatch::dispatcher::{
    DeliveryFigures, Dispatcher, DispatcherOrder, DispatcherProgress, EndedRequest, Request,
    StepContext,
};
use cardswitch_dispatch::places::LanePlaces;
use cardswitch_edge::switch::Switch;
use cardswitch_engine::clock::Stopwatch;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::reply::Reply;
use cardswitch_engine::command::{Command, NotedCommand};
use cardswitch_engine::directory::webhook_endpoint::{
    GoneReceiver, WebhookEndpoint, WebhookEndpointChanges, WebhookEndpointCommand,
};
use cardswitch_engine::domain::audit::{Actor, AuditNote};
use cardswitch_secrets::Secrets;
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior};

use super::job::Job;
use super::places_file;
use super::sender::Sender;

/// How often the clock is read.
const TICK: Duration = Duration::from_millis(100);
/// How long requests under way may take once the switch stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
/// How often the places of lanes are written down. A restored directory repeats so much more.
const PLACES_INTERVAL: Duration = Duration::from_secs(60);
/// How long to wait before the engine is asked once more to turn off an endpoint that is gone.
const GONE_REPORT_WAIT: Duration = Duration::from_secs(1);

pub(super) struct DriverTools {
    pub(super) switch: Switch,
    pub(super) secrets: Arc<Secrets>,
    pub(super) sender: Sender,
    pub(super) deliveries: Arc<Deliveries>,
    /// The data directory.
    pub(super) data: PathBuf,
    pub(super) orders: mpsc::WeakSender<DispatcherOrder>,
    pub(super) figures: Arc<Mutex<DeliveryFigures>>,
}

/// The wait for the next event.
type EventWait = Pin<Box<dyn Future<Output = bool> + Send>>;

/// See the head of this file.
pub(super) struct Driver {
    dispatcher: Dispatcher,
    tools: DriverTools,
    since: Instant,
    ended: mpsc::UnboundedSender<EndedRequest>,
    ends: mpsc::UnboundedReceiver<EndedRequest>,
    /// When the places of lanes are written next.
    places_at: Duration,
    /// The places that are written.
    places: Option<LanePlaces>,
}

/// Says that a request has ended when it is dropped, so that this is said, too, where its task panicked.
struct Ending {
    ended: mpsc::UnboundedSender<EndedRequest>,
    done: Option<EndedRequest>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        if let Some(done) = self.done.take() {
            // The driver may have stopped: then it is sent once more.
            drop(self.ended.send(done));
        }
    }
}

impl Driver {
    pub(super) fn new(dispatcher: Dispatcher, tools: DriverTools) -> Self {
        let (ended, ends) = mpsc::unbounded_channel();
        let (places_at, places) = (Duration::ZERO, None);
        Self { dispatcher, tools, since: Instant::now(), ended, ends, places_at, places }
    }

    /// Delivers until the switch stops, or all callers are gone.
    pub(super) async fn run(
        mut self,
        mut orders: mpsc::Receiver<DispatcherOrder>,
        mut stop: watch::Receiver<bool>,
    ) {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Waited for once until it comes: each wait is noted at the tables.
        let mut news: Option<EventWait> = None;
        loop {
            let progress = self.advance();
            if self.dispatcher.is_save_due(self.uptime()) {
                self.save().await;
            }
            if self.uptime() >= self.places_at {
                self.keep_places().await;
            }
            if progress != DispatcherProgress::Idle {
                self.obey_all(&mut orders);
                if *stop.borrow() {
                    break;
                }
                tokio::task::yield_now().await;
                continue;
            }
            let is_following = self.dispatcher.is_following(self.uptime());
            let waiting = news.get_or_insert_with(|| self.news());
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => break,
                order = orders.recv() => match order {
                    // Those that wait share the save that some of them ask for.
                    Some(order) => {
                        self.obey(order);
                        self.obey_all(&mut orders);
                    }
                    None => break,
                },
                Some(done) = self.ends.recv() => self.end(done),
                is_open = waiting, if is_following => {
                    news = None;
                    if !is_open {
                        self.dispatcher.pause_reading(self.uptime());
                    }
                }
                _ = tick.tick() => {}
            }
        }
        self.drain().await;
        self.save().await;
        self.keep_places().await;
    }

    /// Does the work that is due, and sends the requests that come of it.
    fn advance(&mut self) -> DispatcherProgress {
        while let Ok(done) = self.ends.try_recv() {
            self.end(done);
        }
        let watch = Stopwatch::start();
        let progress = self.dispatcher.step(now(&self.tools, self.since));
        if progress == DispatcherProgress::Reloaded {
            self.dispatcher.rest(self.uptime(), watch.elapsed());
        }
        while let Some((request, done)) = self.dispatcher.next_request() {
            self.send(request, done);
        }
        while let Some(endpoint) = self.dispatcher.next_gone() {
            self.report_gone(endpoint);
        }
        progress
    }

    fn uptime(&self) -> Duration {
        self.since.elapsed()
    }

    fn obey(&mut self, order: DispatcherOrder) {
        self.dispatcher.obey(order, now(&self.tools, self.since));
    }

    fn obey_all(&mut self, orders: &mut mpsc::Receiver<DispatcherOrder>) {
        while let Ok(order) = orders.try_recv() {
            self.obey(order);
        }
    }

    fn end(&mut self, done: EndedRequest) {
        self.dispatcher.end(done, now(&self.tools, self.since));
    }

    /// Waits until there is something to read. Returns whether that can be.
    fn news(&self) -> EventWait {
        let (switch, followed) = (self.tools.switch.clone(), self.dispatcher.followed());
        Box::pin(async move { matches!(switch.events_beyond(followed).await, Ok(Some(_))) })
    }

    fn send(&self, request: Request, done: EndedRequest) {
        let DriverTools { switch, secrets, sender, .. } = &self.tools;
        let (switch, secrets, sender) = (switch.clone(), Arc::clone(secrets), sender.clone());
        let job = Job { switch, secrets, sender, request };
        let mut ending = Ending { ended: self.ended.clone(), done: Some(done) };
        tokio::spawn(async move {
            let report = job.run().await;
            if let Some(done) = &mut ending.done {
                done.report = report;
            }
        });
    }

    /// Has the engine turn an endpoint off whose receiver says that it is gone, again and again until
    /// it has.
    fn report_gone(&self, endpoint: Arc<WebhookEndpoint>) {
        let (switch, orders) = (self.tools.switch.clone(), self.tools.orders.clone());
        tokio::spawn(async move {
            while orders.upgrade().is_some() && !is_turned_off(&switch, &endpoint).await {
                tokio::time::sleep(GONE_REPORT_WAIT).await;
            }
            if let Some(orders) = orders.upgrade() {
                drop(orders.send(DispatcherOrder::Reload(None)).await);
            }
        });
    }

    /// Writes down the changes, and shows others how deliveries do.
    async fn save(&mut self) {
        self.publish();
        let Some(changes) = self.dispatcher.take_changes(self.uptime()) else { return };
        let changes = Arc::new(changes);
        let (deliveries, saved) = (Arc::clone(&self.tools.deliveries), Arc::clone(&changes));
        let saving = tokio::task::spawn_blocking(move || {
            deliveries.save(&saved).map_err(|error| error.to_string())
        });
        let outcome = saving.await.unwrap_or_else(|panicked| Err(panicked.to_string()));
        let changes = Arc::unwrap_or_clone(changes);
        self.dispatcher.end_save(changes, outcome, now(&self.tools, self.since));
        self.publish();
    }

    /// Writes down the places of lanes, if they have changed.
    async fn keep_places(&mut self) {
        self.places_at = self.uptime() + PLACES_INTERVAL;
        let places = match self.dispatcher.places(&self.tools.switch.engine.store) {
            Ok(Some(places)) => places,
            Ok(None) => {
                self.places_at = self.uptime() + TICK;
                return;
            }
            Err(error) => return tracing::warn!(%error, "places of webhooks cannot be read"),
        };
        if self.places.as_ref() == Some(&places) {
            return;
        }
        let (data, kept) = (self.tools.data.clone(), places.clone());
        let writing = tokio::task::spawn_blocking(move || places_file::write(&data, &kept));
        match writing.await.unwrap_or_else(|panicked| Err(io::Error::other(panicked))) {
            Ok(()) => self.places = Some(places),
            Err(error) => tracing::warn!(%error, "`{}` cannot be written", places_file::FILE),
        }
    }

    fn publish(&self) {
        *self.tools.figures.lock() = self.dispatcher.figures(&self.tools.switch.engine.store);
    }

    /// Waits, not for long, for the requests that are under way.
    async fn drain(&mut self) {
        let until = Instant::now() + DRAIN_TIMEOUT;
        while self.dispatcher.under_way() > 0 {
            match tokio::time::timeout_at(until, self.ends.recv()).await {
                Ok(Some(done)) => self.end(done),
                Ok(None) | Err(_) => break,
            }
        }
    }
}

/// The present, for the dispatcher.
fn now(tools: &DriverTools, since: Instant) -> StepContext<'_> {
    let engine = &tools.switch.engine;
    StepContext { tables: &engine.store, time: engine.clock.now(), uptime: since.elapsed() }
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
    let note = AuditNote { actor: Actor::Switch, address: None };
    let command = NotedCommand { note, change };
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

#[cfg(test)]
mod tests {
    use cardswitch_dispatch::attempt::{
        Attempt, AttemptFailure, AttemptKind, AttemptResult, Bodies,
    };
    use cardswitch_dispatch::dispatcher::RequestReport;
    use cardswitch_engine::directory::webhook_endpoint::EndpointState;
    use cardswitch_engine::domain::ids::{
        CompanySlot, Timestamp, WebhookEndpointId, WebhookEndpointSlot,
    };
    use uuid::Uuid;

    use super::*;

    fn done() -> EndedRequest {
        let endpoint = WebhookEndpoint {
            slot: WebhookEndpointSlot(0),
            id: WebhookEndpointId(Uuid::from_u128(1)),
            company: CompanySlot(0),
            app: None,
            url: "http://127.0.0.1:9/".to_owned(),
            description: String::new(),
            sealed_secret: Vec::new(),
            previous_secrets: Vec::new(),
            state: EndpointState::Enabled,
            created_at: Timestamp(0),
            enabled_at: Timestamp(0),
            is_deleted: false,
        };
        let attempt = Attempt {
            id: Uuid::from_u128(2),
            message: Uuid::from_u128(3),
            kind: AttemptKind::Event,
            tries: 1,
            at: Timestamp(7),
            duration_ms: 0,
            result: AttemptResult::Unanswered(AttemptFailure::NotSent),
            again_at: None,
            is_last: false,
            events: Vec::new(),
            bodies: Bodies::NONE,
        };
        let (id, tried) = (endpoint.id, Arc::new(endpoint));
        let report = RequestReport::NOT_SENT;
        EndedRequest { id, attempt, report, tried, asked: None, was_failing: false }
    }

    #[tokio::test]
    async fn a_request_whose_task_panics_has_ended() {
        let (ended, mut ends) = mpsc::unbounded_channel();
        let ending = Ending { ended, done: Some(done()) };
        let task = tokio::spawn(async move {
            let _ending = ending;
            panic!("this is what is tried");
        });
        assert!(task.await.unwrap_err().is_panic());
        let done = ends.recv().await.unwrap();
        assert_eq!(done.report.result, AttemptResult::Unanswered(AttemptFailure::NotSent));
    }
}
