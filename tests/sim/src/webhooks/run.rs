//! One run of a dispatcher: the product's steps over a file, requests on their way, and receivers that take
//! messages, refuse them, answer late or never.

use std::sync::Arc;
use std::time::Duration;

use cardswitch_dispatch::attempt::{AttemptFailure, AttemptResult, Bodies};
use cardswitch_dispatch::deliveries::{Deliveries, DeliveriesError};
use cardswitch_dispatch::dispatcher::{
    Dispatcher, DispatcherOrder, DispatcherProgress, EndedRequest, Request, RequestReport,
    StepContext,
};
use cardswitch_dispatch::lane::EndpointHealth;
use cardswitch_engine::directory::webhook_endpoint::WebhookEndpoint;
use cardswitch_engine::domain::event::EventNumber;
use cardswitch_engine::domain::ids::{Timestamp, WebhookEndpointId};
use parking_lot::Mutex;

use super::book::{Book, EndedRecovery, Letter, RunBook};
use super::number_of;
use crate::marks::{Mark, Marks};
use crate::rng::Rng;
use crate::switch_view::SwitchView;

/// A longer lag proves that the lane has read the log itself. Units: events.
const BEHIND_EVENTS: u64 = 300;

/// How a receiver takes messages at present.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mood {
    Healthy,
    Moody,
    Down,
}

/// The receivers, and the network to them.
pub(super) struct Receivers {
    pub(super) context: String,
    pub(super) rng: Rng,
    /// The longest time from one step to the next. Units: milliseconds.
    pub(super) pause_ms: u64,
    /// Their moods, by the number of the endpoint.
    pub(super) moods: Vec<Mood>,
    pub(super) is_calm: bool,
    /// How far their time is ahead of the machine's clock. Units: microseconds.
    pub(super) ahead: i64,
    pub(super) book: Book,
    pub(super) marks: Marks,
}

impl SwitchView {
    /// The present of a dispatcher at this uptime.
    fn at(&self, receivers: &Receivers, uptime: Duration) -> StepContext<'_> {
        let time = Timestamp(self.time.0 + receivers.ahead);
        StepContext { tables: &self.store, time, uptime }
    }
}

/// A request on its way.
enum Flight {
    Unsent(Box<Request>, Box<EndedRequest>),
    /// It arrives, and then the dispatcher learns of it, if it has not given it up.
    Arriving(Letter, Option<(Box<EndedRequest>, AttemptResult)>),
    /// It has ended; without a result there was nothing to tell.
    Ending(Box<EndedRequest>, Option<AttemptResult>),
}

/// The dispatcher, the file below it, and its requests.
pub(super) struct DispatcherRun {
    pub(super) dispatcher: Dispatcher,
    pub(super) deliveries: Arc<Deliveries>,
    pub(super) uptime: Duration,
    pub(super) book: RunBook,
    /// Whether its state is noted for the node that leads next.
    pub(super) is_noted: bool,
    flights: Vec<Flight>,
    /// Recoveries that have ended, which the book has not noted.
    recovered: Arc<Mutex<Vec<EndedRecovery>>>,
}

/// The end of a recovery. It is noted when this is dropped, so also where no answer comes.
struct RecoveryEnding {
    ended: Arc<Mutex<Vec<EndedRecovery>>>,
    recovery: EndedRecovery,
}

impl RecoveryEnding {
    fn answer(mut self, is_on: bool) {
        self.recovery.is_promised = is_on;
    }
}

impl Drop for RecoveryEnding {
    fn drop(&mut self) {
        self.ended.lock().push(self.recovery);
    }
}

impl DispatcherRun {
    pub(super) fn new(
        dispatcher: Dispatcher,
        deliveries: Arc<Deliveries>,
        book: RunBook,
        is_noted: bool,
    ) -> Self {
        let (flights, recovered) = (Vec::new(), Arc::default());
        let uptime = Duration::ZERO;
        Self { dispatcher, deliveries, uptime, book, is_noted, flights, recovered }
    }

    /// It ends with what is on its way: it arrives, or it does not.
    /// Returns what it knows.
    pub(super) fn go_down(self, receivers: &mut Receivers) -> RunBook {
        let Self { flights, book, .. } = self;
        receivers.marks.pass_if(Mark::CrashAmidRequest, !flights.is_empty());
        for flight in flights {
            if let Flight::Arriving(letter, _) = flight
                && receivers.rng.chance(50)
            {
                receivers.book.arrive(&letter, &receivers.context);
            }
        }
        book
    }

    pub(super) fn recover_after(
        &mut self,
        (id, after): (WebhookEndpointId, EventNumber),
        receivers: &mut Receivers,
        view: &SwitchView,
    ) {
        let number = receivers.book.begin_recovery(&mut self.book, (id, after), &view.snapshot());
        let recovery = EndedRecovery { id, number, is_promised: false };
        let ending = RecoveryEnding { ended: Arc::clone(&self.recovered), recovery };
        let reply = move |is_on| ending.answer(is_on);
        self.obey(DispatcherOrder::Recover(id, after, Box::new(reply)), receivers, view);
    }

    pub(super) fn obey(
        &mut self,
        order: DispatcherOrder,
        receivers: &mut Receivers,
        view: &SwitchView,
    ) {
        self.dispatcher.obey(order, view.at(receivers, self.uptime));
        self.note_recovered(receivers);
    }

    fn note_recovered(&mut self, receivers: &mut Receivers) {
        for recovery in self.recovered.lock().drain(..) {
            receivers.marks.pass_if(Mark::RecoveryPromised, recovery.is_promised);
            receivers.book.end_recovery(&mut self.book, recovery);
        }
    }

    pub(super) fn step(
        &mut self,
        receivers: &mut Receivers,
        view: &SwitchView,
    ) -> DispatcherProgress {
        let pause_ms = if receivers.rng.chance(5) { 2_000 } else { receivers.pause_ms };
        let pause = Duration::from_millis(receivers.rng.below(pause_ms));
        self.uptime += pause;
        let progress = self.dispatcher.step(view.at(receivers, self.uptime));
        self.note_recovered(receivers);
        if progress == DispatcherProgress::Reloaded {
            self.dispatcher.rest(self.uptime, pause / 20);
            receivers.book.notice(&mut self.book, &view.snapshot());
        }
        while let Some((request, done)) = self.dispatcher.next_request() {
            self.begin(request, done, receivers);
        }
        progress
    }

    fn begin(&mut self, request: Request, done: EndedRequest, receivers: &mut Receivers) {
        let followed = self.dispatcher.followed().0;
        let oldest = request.content.numbers()[0].0;
        receivers.marks.pass_if(Mark::LaneBehind, oldest + BEHIND_EVENTS < followed);
        receivers.marks.pass_if(Mark::WebhookRetried, request.tries > 1);
        let is_repeated = receivers.book.begin(&mut self.book, &request, &receivers.context);
        receivers.marks.pass_if(Mark::RepeatedAfterFailOver, self.is_noted && is_repeated);
        self.flights.push(Flight::Unsent(Box::new(request), Box::new(done)));
    }

    /// A request that is under way moves. Returns whether one arrived.
    pub(super) fn fly(&mut self, receivers: &mut Receivers, view: &SwitchView) -> bool {
        if self.flights.is_empty() {
            return false;
        }
        let at = receivers.rng.below(self.flights.len() as u64) as usize;
        match self.flights.swap_remove(at) {
            Flight::Unsent(request, done) => self.send(*request, done, receivers, view),
            Flight::Arriving(letter, ending) => {
                receivers.marks.pass_if(Mark::LateArrival, ending.is_none());
                receivers.book.arrive(&letter, &receivers.context);
                let ending = ending.map(|(done, result)| Flight::Ending(done, Some(result)));
                self.flights.extend(ending);
                return true;
            }
            Flight::Ending(done, result) => self.end(*done, result, receivers, view),
        }
        false
    }

    /// Lets every request end.
    pub(super) fn fly_home(&mut self, receivers: &mut Receivers, view: &SwitchView) {
        while !self.flights.is_empty() {
            self.fly(receivers, view);
        }
    }

    fn send(
        &mut self,
        request: Request,
        done: Box<EndedRequest>,
        receivers: &mut Receivers,
        view: &SwitchView,
    ) {
        let (applied, durable) = (view.applied, view.durable);
        assert!(applied <= durable, "{}: {applied:?} is told of", receivers.context);
        let addressed = request.content.address(&view.snapshot(), &request.endpoint).unwrap();
        let id = request.endpoint.id;
        let Some(addressed) = addressed else {
            self.flights.push(Flight::Ending(done, None));
            return;
        };
        let numbers: Vec<_> = addressed.events.iter().map(|event| event.number).collect();
        assert_eq!(numbers, request.content.numbers(), "{}: events are missing", receivers.context);
        let WebhookEndpoint { created_at, enabled_at, .. } = addressed.endpoint;
        let events = addressed.events;
        let letter = Letter { id, created_at, enabled_at, is_late: false, events };
        let flights = receivers.take(letter, done);
        self.flights.extend(flights);
    }

    fn end(
        &mut self,
        mut done: EndedRequest,
        result: Option<AttemptResult>,
        receivers: &mut Receivers,
        view: &SwitchView,
    ) {
        let is_given_up = receivers.book.end(&mut self.book, &done, result.as_ref());
        receivers.marks.pass_if(Mark::WebhookGivenUp, is_given_up);
        let untold = AttemptResult::Unanswered(AttemptFailure::NothingToTell);
        let result = result.unwrap_or(untold);
        done.report = RequestReport { result, duration_ms: 1, bodies: Bodies::NONE };
        self.dispatcher.end(done, view.at(receivers, self.uptime));
    }

    pub(super) fn save_if_due(&mut self, receivers: &mut Receivers, view: &SwitchView) {
        if self.dispatcher.is_save_due(self.uptime) {
            self.save(receivers, view);
        }
    }

    pub(super) fn save(&mut self, receivers: &mut Receivers, view: &SwitchView) {
        let followed = self.dispatcher.followed();
        let Some(changes) = self.dispatcher.take_changes(self.uptime) else { return };
        let outcome = self.deliveries.save(&changes);
        let is_unsaved = matches!(outcome, Err(DeliveriesError::Database(_)));
        receivers.marks.pass_if(Mark::WebhooksUnsaved, is_unsaved);
        if self.is_noted && outcome.is_ok() {
            receivers.book.note(&self.book, followed);
        }
        let outcome = outcome.map_err(|error| error.to_string());
        self.dispatcher.end_save(changes, outcome, view.at(receivers, self.uptime));
        self.note_recovered(receivers);
    }

    pub(super) fn is_quiet(&mut self, receivers: &mut Receivers, view: &SwitchView) -> bool {
        let snapshot = view.snapshot();
        let endpoints = snapshot.all_webhook_endpoints().unwrap();
        let ids = endpoints.iter().filter(|endpoint| endpoint.is_enabled());
        let ids: Vec<_> = ids.map(|endpoint| endpoint.id).collect();
        let is_alone = ids.is_empty();
        let healths = Arc::new(Mutex::new(Vec::new()));
        let shown = Arc::clone(&healths);
        let order = DispatcherOrder::Health(ids, Box::new(move |found| *shown.lock() = found));
        self.obey(order, receivers, view);
        let is_behind =
            |health: &Option<EndpointHealth>| health.is_none_or(|health| health.is_behind);
        let is_read = self.dispatcher.followed() >= snapshot.last_event().unwrap();
        self.dispatcher.figures(&view.store).pending == 0
            && (is_read || is_alone)
            && !healths.lock().iter().any(is_behind)
    }
}

impl Receivers {
    /// What becomes of a message that is sent.
    fn take(&mut self, mut letter: Letter, done: Box<EndedRequest>) -> Vec<Flight> {
        let taken = match self.moods[number_of(letter.id)] {
            _ if self.is_calm => 100,
            Mood::Healthy => 92,
            Mood::Moody => 50,
            Mood::Down => 0,
        };
        let broken = AttemptResult::Unanswered;
        let result = match self.rng.below(100) {
            draw if draw < taken => AttemptResult::Answered(204),
            _ => match self.rng.below(5) {
                0 => AttemptResult::Answered(500),
                1 => broken(AttemptFailure::Broken),
                2 => broken(AttemptFailure::TooSlow),
                3 => {
                    letter.is_late = true;
                    let given_up = Flight::Ending(done, Some(broken(AttemptFailure::TooSlow)));
                    return vec![Flight::Arriving(letter, None), given_up];
                }
                _ => return vec![Flight::Ending(done, Some(broken(AttemptFailure::NotReachable)))],
            },
        };
        vec![Flight::Arriving(letter, Some((done, result)))]
    }
}
