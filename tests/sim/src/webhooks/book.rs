//! The messages that receivers got, and the promises to them.
//!
//! Events of a transaction come in order. None is missing, from the record on that made an endpoint or turned it
//! on. The same message has the same events, and the other way round. Nothing comes twice but after a crash, a
//! failure or a recovery, and nothing that is not in the journal. Where another node of a cluster leads, nothing
//! comes twice that the note before it knows to have arrived. What a recovery was answered for comes again, whatever
//! crashes then.

use std::collections::{BTreeMap, BTreeSet};

use cardswitch_dispatch::attempt::AttemptResult;
use cardswitch_dispatch::dispatcher::{EndedRequest, Request};
use cardswitch_dispatch::schedule::RETRIES_MAX;
use cardswitch_engine::directory::webhook_endpoint::WebhookEndpoint;
use cardswitch_engine::domain::event::{Event, EventNumber};
use cardswitch_engine::domain::ids::{Timestamp, TransactionSeq, WebhookEndpointId};
use cardswitch_engine::store::Snapshot;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

/// Events before the newest by more than this are not promised to an endpoint whose lane is lost.
const SETTLED_US: i64 = 2 * crate::model::DAY;

/// A message on its way to a receiver.
pub(super) struct Letter {
    pub(super) id: WebhookEndpointId,
    pub(super) created_at: Timestamp,
    /// When the endpoint was enabled, as its sender knows.
    pub(super) enabled_at: Timestamp,
    /// It arrives after the switch has given it up: others may have come first.
    pub(super) is_late: bool,
    pub(super) events: Vec<Event>,
}

/// A message that was begun.
struct BegunMessage {
    numbers: Vec<EventNumber>,
    failures: u8,
    /// Of which log: one that was cut is another.
    log: u64,
}

/// One receiver's share.
#[derive(Default)]
struct Arrivals {
    heard: BTreeSet<EventNumber>,
    /// The newest event of each transaction.
    newest: BTreeMap<TransactionSeq, EventNumber>,
    given_up: BTreeSet<EventNumber>,
    /// When it was enabled, as the newest message that arrived has it.
    enabled_at: Timestamp,
    /// No earlier event is promised by some run, which may have begun behind it.
    settled: Option<Timestamp>,
    /// Recoveries by their numbers, with the events that did not come since.
    recoveries: BTreeMap<u64, Recovery>,
}

/// Events that are to come again.
struct Recovery {
    owed: BTreeSet<EventNumber>,
    /// When the endpoint was enabled: one that was turned on later gets the events from then on.
    enabled_at: Timestamp,
    /// Whether it was answered.
    is_promised: bool,
}

/// A recovery that was answered, or was not.
#[derive(Clone, Copy)]
pub(super) struct EndedRecovery {
    pub(super) id: WebhookEndpointId,
    pub(super) number: u64,
    pub(super) is_promised: bool,
}

/// One receiver, as one run of a dispatcher knows it.
#[derive(Clone, Default)]
struct RunArrivals {
    /// Those that the dispatcher knows to have arrived.
    taken: BTreeSet<EventNumber>,
    /// The message of each event.
    carried: BTreeMap<EventNumber, Uuid>,
    /// Messages from before the last recovery, whose end says nothing.
    void: BTreeSet<Uuid>,
    /// Whether events come once more without a fail-over.
    is_recovered: bool,
    /// So many recoveries have begun and not ended: each may be carried out by now.
    recovering: u64,
    /// When it was enabled, as the dispatcher knows.
    noticed: Option<Timestamp>,
    /// No earlier event is promised.
    settled: Option<Timestamp>,
}

/// What one run of a dispatcher knows.
#[derive(Clone, Default)]
pub(super) struct RunBook {
    receivers: BTreeMap<WebhookEndpointId, RunArrivals>,
    /// The last event that was handed to lanes, where this is noted.
    followed: EventNumber,
}

#[derive(Default)]
pub(super) struct Book {
    /// What the next run knows of the runs before: all where one switch is alone, in a cluster what is noted.
    left: RunBook,
    receivers: BTreeMap<WebhookEndpointId, Arrivals>,
    told: BTreeMap<EventNumber, Event>,
    /// Of these, those that were not compared with the log.
    unproven: BTreeSet<EventNumber>,
    messages: BTreeMap<(WebhookEndpointId, Uuid), BegunMessage>,
    names: BTreeMap<(WebhookEndpointId, Vec<EventNumber>), Uuid>,
    log: u64,
    /// Completeness counts behind it.
    cut_at: EventNumber,
    /// No dispatcher has seen that yet.
    is_new_log: bool,
    recoveries: u64,
    trace: Sha256,
}

impl Book {
    /// Whether the log was cut.
    pub(super) const fn is_cut(&self) -> bool {
        self.log > 0
    }

    /// A dispatcher starts where it is alone, with the lanes and the place that its file has.
    pub(super) fn begin_run(
        &mut self,
        kept: &BTreeSet<WebhookEndpointId>,
        followed: EventNumber,
    ) -> RunBook {
        if self.is_new_log && followed <= self.cut_at {
            // The file knows nothing of what is lost, so that messages are named as those that are.
            (self.messages, self.names) = (BTreeMap::new(), BTreeMap::new());
        }
        self.is_new_log = false;
        let mut run = self.left.clone();
        for (id, arrivals) in &mut run.receivers {
            arrivals.forget();
            arrivals.recovering = 0;
            arrivals.noticed = None;
            if !kept.contains(id) {
                arrivals.settled = None;
            }
        }
        run
    }

    /// The dispatcher of the node that leads from now on starts, with the lanes and the place that are noted.
    pub(super) fn take_over(
        &self,
        kept: &BTreeSet<WebhookEndpointId>,
        followed: EventNumber,
        context: &str,
    ) -> RunBook {
        let noted = self.left.followed;
        assert!(followed >= noted, "{context}: it begins at {followed:?}, noted is {noted:?}");
        let mut run = self.left.clone();
        for (id, arrivals) in &mut run.receivers {
            if std::mem::take(&mut arrivals.recovering) > 0 {
                arrivals.forget();
            }
            (arrivals.carried, arrivals.void) = (BTreeMap::new(), BTreeSet::new());
            arrivals.is_recovered = false;
            assert!(arrivals.noticed.is_none() || kept.contains(id), "{context}: {id:?} is lost");
        }
        run
    }

    /// A run has ended and leaves what it knows.
    pub(super) fn end_run(&mut self, run: RunBook) {
        self.left = run;
    }

    /// All that a run knows is noted, of the events up to `followed`.
    pub(super) fn note(&mut self, run: &RunBook, followed: EventNumber) {
        self.left = RunBook { followed, ..run.clone() };
    }

    /// Events may come once more without a crash.
    pub(super) fn forget_run(&mut self, run: &mut RunBook, id: WebhookEndpointId) {
        run.receivers.entry(id).or_default().forget();
        self.left.receivers.entry(id).or_default().forget();
    }

    /// Somebody has the events after one delivered again. Returns the number of the recovery.
    pub(super) fn begin_recovery(
        &mut self,
        run: &mut RunBook,
        (id, after): (WebhookEndpointId, EventNumber),
        snapshot: &Snapshot,
    ) -> u64 {
        self.forget_run(run, id);
        run.receivers.entry(id).or_default().recovering += 1;
        self.recoveries += 1;
        let endpoints = snapshot.all_webhook_endpoints().unwrap();
        let endpoint = endpoints.into_iter().find(|endpoint| endpoint.id == id).unwrap();
        let events = snapshot.events_after(after, usize::MAX).unwrap();
        let own = events.iter().filter(|event| event.company == endpoint.company);
        let owed = own.map(|event| event.number).collect();
        let recovery = Recovery { owed, enabled_at: endpoint.enabled_at, is_promised: false };
        let arrivals = self.receivers.entry(id).or_default();
        arrivals.recoveries.insert(self.recoveries, recovery);
        self.recoveries
    }

    /// A recovery has ended: its events come again if it was answered.
    pub(super) fn end_recovery(&mut self, run: &mut RunBook, ended: EndedRecovery) {
        let EndedRecovery { id, number, is_promised } = ended;
        self.forget_run(run, id);
        let arrivals = run.receivers.entry(id).or_default();
        arrivals.recovering = arrivals.recovering.saturating_sub(1);
        let recoveries = &mut self.receivers.entry(id).or_default().recoveries;
        match recoveries.get_mut(&number) {
            Some(recovery) if is_promised => recovery.is_promised = true,
            _ => drop(recoveries.remove(&number)),
        }
    }

    /// The dispatcher has read the endpoints.
    pub(super) fn notice(&mut self, run: &mut RunBook, snapshot: &Snapshot) {
        let last = snapshot.event_place(snapshot.last_event().unwrap()).unwrap();
        let settled = Timestamp(last.at.unwrap_or_default().0 - SETTLED_US);
        for endpoint in snapshot.all_webhook_endpoints().unwrap() {
            let since = endpoint.is_enabled().then_some(endpoint.enabled_at);
            if run.receivers.entry(endpoint.id).or_default().noticed != since {
                self.forget_run(run, endpoint.id);
            }
            let arrivals = run.receivers.entry(endpoint.id).or_default();
            arrivals.noticed = since;
            let settled = *arrivals.settled.get_or_insert(settled);
            let known = &mut self.receivers.entry(endpoint.id).or_default().settled;
            *known = Some(settled).max(*known);
        }
    }

    /// A request begins. Returns whether an event comes once more that another run delivered.
    pub(super) fn begin(&mut self, run: &mut RunBook, request: &Request, context: &str) -> bool {
        let (id, message, log) = (request.endpoint.id, request.message, self.log);
        let numbers = request.content.numbers();
        let heard = &self.receivers.entry(id).or_default().heard;
        let arrivals = run.receivers.entry(id).or_default();
        let is_repeat =
            |number: &EventNumber| heard.contains(number) && !arrivals.carried.contains_key(number);
        let is_repeated = !arrivals.is_recovered && numbers.iter().any(is_repeat);
        for number in numbers {
            if arrivals.recovering > 0 {
                // It may be from before the recovery is carried out, which has its events come again.
                arrivals.void.insert(message);
                continue;
            }
            assert!(!arrivals.taken.contains(number), "{context}: {number:?} comes once more");
            let carried = *arrivals.carried.entry(*number).or_insert(message);
            assert_eq!(carried, message, "{context}: {number:?} changes its message");
        }
        let begun = || BegunMessage { numbers: numbers.to_vec(), failures: 0, log };
        let known = self.messages.entry((id, message)).or_insert_with(begun);
        assert_eq!(known.numbers, numbers, "{context}: {message} has other events");
        assert_eq!(known.log, log, "{context}: {message} is of the log before");
        let name = *self.names.entry((id, numbers.to_vec())).or_insert(message);
        assert_eq!(name, message, "{context}: {numbers:?} have another message");
        is_repeated
    }

    /// A message arrives at its receiver.
    pub(super) fn arrive(&mut self, letter: &Letter, context: &str) {
        let arrivals = self.receivers.entry(letter.id).or_default();
        arrivals.enabled_at = arrivals.enabled_at.max(letter.enabled_at);
        for event in &letter.events {
            let number = event.number;
            assert!(event.at > letter.created_at, "{context}: {number:?} was before the endpoint");
            let known = *self.told.entry(number).or_insert(*event);
            assert_eq!(known, *event, "{context}: an event was taken back");
            self.unproven.insert(number);
            self.trace.update(format!("{} {}", letter.id.0, number.0));
            arrivals.end_debt(number);
            if !arrivals.heard.insert(number) {
                continue;
            }
            let newest = arrivals.newest.entry(event.transaction).or_default();
            // A former leader does not know that the endpoint was turned off and on.
            let is_outdated = letter.enabled_at < arrivals.enabled_at;
            // Nor that the next one, for which nothing was noted, has begun behind it.
            let is_settled = Some(event.at) < arrivals.settled;
            // What an old copy has and nobody was sent comes only by `recover`, behind what is new.
            let is_of_copy = number <= self.cut_at;
            let is_excused = letter.is_late
                || is_outdated
                || is_settled
                || is_of_copy
                || arrivals.given_up.contains(&number);
            let is_next = *newest < number;
            assert!(is_next || is_excused, "{context}: {number:?} comes behind {newest:?}");
            *newest = number.max(*newest);
        }
    }

    /// The dispatcher learns how a request has ended.
    /// Returns whether its message can be given up now.
    pub(super) fn end(
        &mut self,
        run: &mut RunBook,
        done: &EndedRequest,
        result: Option<&AttemptResult>,
    ) -> bool {
        let message = done.attempt.message;
        let Some(begun) = self.messages.get_mut(&(done.id, message)) else { return false };
        let run = run.receivers.entry(done.id).or_default();
        match result {
            Some(AttemptResult::Answered(200..=299)) if !run.void.contains(&message) => {
                run.taken.extend(&begun.numbers);
            }
            Some(AttemptResult::Answered(200..=299)) | None => {}
            Some(_) => {
                begun.failures = begun.failures.saturating_add(1);
                if begun.failures > RETRIES_MAX {
                    let arrivals = self.receivers.entry(done.id).or_default();
                    arrivals.given_up.extend(&begun.numbers);
                    begun.numbers.iter().for_each(|number| arrivals.end_debt(*number));
                    return true;
                }
            }
        }
        false
    }

    /// Compares the events that were told with the log, which shows all that is durable.
    pub(super) fn prove(&mut self, snapshot: &Snapshot, context: &str) {
        for number in std::mem::take(&mut self.unproven) {
            let event = snapshot.events_after(EventNumber(number.0 - 1), 1).unwrap();
            assert_eq!(event.first(), self.told.get(&number), "{context}: an event is taken back");
        }
    }

    /// The first event of each endpoint that is missing since its message was given up.
    /// Panics: where one is missing that was not given up.
    pub(super) fn first_given_up(
        &self,
        run: &RunBook,
        snapshot: &Snapshot,
        context: &str,
    ) -> Vec<(WebhookEndpointId, EventNumber)> {
        let mut first = Vec::new();
        for (endpoint, missing) in self.missing(run, snapshot) {
            let arrivals = self.receivers.get(&endpoint.id);
            for number in &missing {
                let is_given_up =
                    arrivals.is_some_and(|arrivals| arrivals.given_up.contains(number));
                assert!(is_given_up, "{context}: {number:?} is missing at {:?}", endpoint.id);
            }
            first.extend(missing.first().map(|number| (endpoint.id, *number)));
        }
        first
    }

    /// Panics: where an event is missing.
    pub(super) fn audit(&self, run: &RunBook, snapshot: &Snapshot, context: &str) {
        for (endpoint, missing) in self.missing(run, snapshot) {
            assert!(missing.is_empty(), "{context}: {missing:?} are missing at {:?}", endpoint.id);
            let arrivals = self.receivers.get(&endpoint.id);
            let recoveries = arrivals.into_iter().flat_map(|arrivals| arrivals.recoveries.values());
            let is_due = |recovery: &&Recovery| {
                recovery.is_promised && recovery.enabled_at == endpoint.enabled_at
            };
            for Recovery { owed, .. } in recoveries.filter(is_due) {
                let id = endpoint.id;
                assert!(owed.is_empty(), "{context}: {owed:?} were recovered at {id:?}");
            }
        }
    }

    /// The promised events that did not arrive.
    fn missing(
        &self,
        run: &RunBook,
        snapshot: &Snapshot,
    ) -> Vec<(WebhookEndpoint, Vec<EventNumber>)> {
        let all = snapshot.events_after(EventNumber(0), usize::MAX).unwrap();
        let endpoints = snapshot.all_webhook_endpoints().unwrap();
        let enabled = endpoints.into_iter().filter(WebhookEndpoint::is_enabled);
        let missing = enabled.map(|endpoint| {
            let heard = self.receivers.get(&endpoint.id).map(|arrivals| &arrivals.heard);
            let from = run.promised_from(&endpoint);
            let promised = all.iter().filter(|event| {
                event.company == endpoint.company && event.at >= from && event.number > self.cut_at
            });
            let numbers = promised.map(|event| event.number);
            let is_heard = |number: &EventNumber| heard.is_some_and(|heard| heard.contains(number));
            let missing = numbers.filter(|number| !is_heard(number)).collect();
            (endpoint, missing)
        });
        missing.collect()
    }

    /// See `Webhooks::cut`.
    pub(super) fn cut(&mut self, snapshot: &Snapshot, context: &str) {
        let last = snapshot.last_event().unwrap();
        self.unproven = self.told.keys().copied().filter(|number| *number <= last).collect();
        self.prove(snapshot, context);
        (self.cut_at, self.log, self.is_new_log) = (last, self.log + 1, true);
        let lost = self.told.split_off(&last.next());
        self.names.clear();
        for arrivals in self.receivers.values_mut() {
            arrivals.heard.split_off(&last.next());
            arrivals.given_up.split_off(&last.next());
            arrivals.newest.clear();
            arrivals.recoveries.clear();
            arrivals.settled = None;
            for number in &arrivals.heard {
                arrivals.newest.insert(self.told[number].transaction, *number);
            }
        }
        drop(lost);
    }

    pub(super) fn trace(&self) -> [u8; 32] {
        self.trace.clone().finalize().into()
    }
}

impl RunBook {
    /// Earlier events are not promised to an endpoint.
    pub(super) fn promised_from(&self, endpoint: &WebhookEndpoint) -> Timestamp {
        let arrivals = self.receivers.get(&endpoint.id);
        let settled = arrivals.and_then(|arrivals| arrivals.settled);
        endpoint.enabled_at.max(settled.unwrap_or(Timestamp::MIN))
    }
}

impl Arrivals {
    /// An event that was to come again has come, or was given up.
    fn end_debt(&mut self, number: EventNumber) {
        for recovery in self.recoveries.values_mut() {
            recovery.owed.remove(&number);
        }
    }
}

impl RunArrivals {
    fn forget(&mut self) {
        self.taken.clear();
        self.void.extend(std::mem::take(&mut self.carried).into_values());
        self.is_recovered = true;
    }
}
