//! Events on request: in pages, with or without a wait for the next event, and as a stream. An
//! extension beside webhooks, with the same events in the same order.
//!
//! A place in the log is an opaque text. A client that keeps the last one misses nothing.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::http::HeaderMap;
use axum::response::sse::{Event as Line, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::{Answer, ListQuery};
use cardswitch_edge::json::Json;
use cardswitch_edge::lasting_access::LastingAccess;
use cardswitch_engine::domain::event::{Event, EventNumber, EventPlace};
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::store::query::EventPage;
use cardswitch_engine::store::{Snapshot, StoreError};
use cardswitch_identity::auth::{Call, Caller};
use cardswitch_identity::state::AppState;
use cardswitch_notify::webhooks::StreamPlace;
use cardswitch_notify::webhooks::composing::{EventBody, EventObject};
use cardswitch_notify::webhooks::cursor::{parse_cursor, render_cursor};
use cardswitch_wire::fault::Flaw;
use cardswitch_wire::queries;
use cardswitch_wire::query::Query;
use cardswitch_wire::time::render_time;
use futures_util::stream;
use serde::Serialize;
use serde_json::json;
use tokio::time::Instant;
use utoipa::ToSchema;

use super::transactions::TransactionBody;
use super::view::read_view;
use crate::words;

/// The default length of a page. Units: events.
const LIMIT_DEFAULT: usize = 100;
/// The greatest length of a page. Units: events.
const LIMIT_MAX: usize = 1_000;
/// The longest wait of a request for an event. Units: seconds.
const WAIT_S_MAX: usize = 30;
/// The most events, of all companies, that are scanned for one page.
const SCANNED_MAX: usize = 50_000;
/// How many of them one look at the tables scans: a millisecond of a thread that others share.
const SCANNED_AT_ONCE: usize = 2_000;
/// The most events of other companies that are scanned again for a place that stays.
const UNSHOWN_MAX: u64 = 10_000;
/// The pause of a stream between two looks for events; events of the pause are sent together.
const STREAM_PAUSE: Duration = Duration::from_millis(100);
/// The interval between two signs of life of a silent stream.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// The most events that a stream reads at a time.
const STREAM_EVENTS_MAX: usize = 100;

/// An event in a page or a stream.
#[derive(Debug, Serialize, ToSchema)]
pub struct ListedEvent {
    /// The kind of event.
    #[schema(value_type = words::EventName)]
    event: &'static str,
    transaction: EventTransaction,
    company: EventObject,
    /// Rises with each event of a transaction.
    sequence: i64,
    /// The place behind it.
    cursor: String,
    created_at: String,
}

/// The transaction of an event.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum EventTransaction {
    /// With `expand`: as it is now, which may be later than the event.
    Whole(Box<TransactionBody>),
    /// By its id.
    Named(EventObject),
}

/// A page of events.
#[derive(Debug, Serialize, ToSchema)]
pub struct EventsBody {
    /// The events, the oldest first.
    results: Vec<ListedEvent>,
    /// The place behind the page: `after` of the next request.
    cursor: String,
    /// Whether there is more already, or so much to look through that this is not known.
    has_more: bool,
    /// Whether the event before `after` is lost: the switch was restored to an earlier state. Without `min_seq` a node
    /// may just be behind. The page begins at the event's instant then.
    is_place_lost: bool,
}

queries! {
    /// The parameters of a list of events.
    EventFilters |query| _ = parse_list(query, |_| None);
    /// The parameters of a stream of events.
    StreamFilters |query| _ = parse_start(query, STREAM_START, |_| None);
}

/// A list of events as it is asked for.
struct ListedEvents {
    start: Start,
    limit: usize,
    wait_s: usize,
    /// Whether transactions are shown whole.
    is_expanded: bool,
}

/// The meaning of `after` and `since` for a list.
const LIST_START: [&str; 2] = [
    "Events behind this place: the `cursor` of an earlier answer. Without it, from the first one.",
    "Events from this instant on; `after` comes before it.",
];
/// The meaning of `after` and `since` for a stream.
const STREAM_START: [&str; 2] = [
    "Behind this place; the header `Last-Event-ID` comes before it. Without either, with what\nhappens from now on.",
    "With what happened then or later; `after` comes before it.",
];

/// Reads where a list starts, how long it is, for how long it waits and what it shows.
fn parse_list(
    query: &mut Query,
    parse_place: impl FnOnce(&str) -> Option<EventPlace>,
) -> ListedEvents {
    let start = parse_start(query, LIST_START, parse_place);
    let about = "Number of events at most; more than 1000 count as 1000.";
    let limit = query.count("limit", about, LIMIT_DEFAULT).min(LIMIT_MAX);
    let about =
        "Time to wait for an event if there is none; more than 30 count as 30. Units: seconds.";
    let wait_s = query.count("wait_s", about, 0).min(WAIT_S_MAX);
    let about = "`transaction`: shows each transaction whole, as it is now, in place of its id.";
    let expanded = query.words(("expand", "objects"), about, &["transaction"], |word| {
        (word == "transaction").then_some(())
    });
    ListedEvents { start, limit, wait_s, is_expanded: !expanded.is_empty() }
}

/// List events, the oldest first, and wait for the next one if asked to.
#[utoipa::path(
    get, path = "/v1/events", params(EventFilters), responses((status = 200, body = EventsBody)),
)]
pub async fn list_events(
    call: Call,
    ListQuery { mut query, .. }: ListQuery,
) -> Answer<Json<EventsBody>> {
    let Call(state, caller) = &call;
    let parse = |text: &str| parse_cursor(&state.secrets, caller.company.id, text);
    let ListedEvents { start, limit, wait_s, is_expanded } = parse_list(&mut query, parse);
    query.finish()?;
    let reading = if wait_s > 0 { TableChoice::AsItIs } else { TableChoice::Durable };
    // A waiting request takes a place, like a stream, and one of those for requests at work.
    let _place = match wait_s {
        0 => None,
        _ => Some(state.webhooks.take_page_place(caller.company.slot)?),
    };
    let wait = Duration::from_secs(u64::try_from(wait_s).unwrap_or_default());
    let page = async {
        let mut place = start.resolve(state, reading).await?.unwrap_or_default();
        let page = next_page(state, caller, (&mut place, limit), Instant::now() + wait).await?;
        Ok::<_, ApiError>((steady(page, place.after), place.is_lost))
    };
    let mut access = caller.lasting_access(&state.switch);
    let (page, is_place_lost) = access.during(page).await.ok_or_else(ApiError::unauthorized)??;
    let next = match page.events.last() {
        Some(event) if event.number == page.next => place_of(event),
        _ => state.switch.read_at_once(|snapshot| snapshot.event_place(page.next))?,
    };
    let mut body = render_page(state, caller, (&page, is_place_lost), next)?;
    if is_expanded {
        expand(&mut body, &page, &call).await?;
    }
    Ok(Json(body))
}

/// Shows the transactions of a page whole.
async fn expand(body: &mut EventsBody, page: &EventPage, call: &Call) -> Result<(), ApiError> {
    let whole = read_view(call, |view| {
        let rows = view.snapshot.transactions(page.events.iter().map(|event| event.transaction))?;
        let whole = rows.iter().map(|row| row.as_ref().map(|row| TransactionBody::new(row, view)));
        whole.map(Option::transpose).collect::<Result<Vec<_>, StoreError>>()
    });
    for (shown, whole) in body.results.iter_mut().zip(whole.await?) {
        if let Some(whole) = whole {
            shown.transaction = EventTransaction::Whole(Box::new(whole));
        }
    }
    Ok(())
}

/// The page with its end behind the last event it shows, so that the place does not tell of what
/// happens at other companies; unless so much does that it would be looked through over and over.
fn steady(page: EventPage, after: EventNumber) -> EventPage {
    let shown = page.events.last().map_or(after, |event| event.number);
    let is_near = page.next.0.saturating_sub(shown.0) <= UNSHOWN_MAX;
    if (page.is_end || !page.events.is_empty()) && is_near {
        EventPage { next: shown, ..page }
    } else {
        page
    }
}

/// The place from which a client reads.
enum Start {
    /// At this place.
    At(EventPlace),
    /// At this instant.
    Since(Timestamp),
    /// It does not say.
    Unsaid,
}

/// The place where a reading of events goes on.
#[derive(Clone, Copy)]
struct ReadingPlace {
    /// The event before it.
    after: EventNumber,
    /// The instant before which nothing is shown: one yet to come keeps back what happens until then.
    since: Timestamp,
    /// Whether the log lacks the event behind which the client was.
    is_lost: bool,
}

impl ReadingPlace {
    const fn behind(after: EventNumber) -> Self {
        Self { after, since: Timestamp::MIN, is_lost: false }
    }

    /// Takes events away that happened too early, and goes on behind them.
    fn skip_early(&mut self, page: &mut EventPage) {
        let early = page.events.partition_point(|event| event.at < self.since);
        if let Some(last) = page.events.drain(..early).next_back() {
            self.after = last.number;
        }
    }
}

impl Default for ReadingPlace {
    fn default() -> Self {
        Self::behind(EventNumber::default())
    }
}

/// The choice of tables to read.
#[derive(Clone, Copy)]
enum TableChoice {
    /// Tables that show everything that is durable by now.
    Durable,
    /// The newest tables at hand. A client that waits for news needs no fresher ones.
    AsItIs,
}

impl Start {
    async fn resolve(
        self,
        state: &AppState,
        reading: TableChoice,
    ) -> Result<Option<ReadingPlace>, StoreError> {
        let read = |snapshot: &Snapshot| {
            Ok(Some(match self {
                Self::At(place) => ReadingPlace {
                    is_lost: !snapshot.has_place(place)?,
                    ..ReadingPlace::behind(snapshot.resume_after(place)?)
                },
                Self::Since(since) => {
                    ReadingPlace { since, ..ReadingPlace::behind(snapshot.first_event_at(since)?) }
                }
                Self::Unsaid => return Ok(None),
            }))
        };
        match reading {
            TableChoice::Durable => state.switch.read(read).await,
            TableChoice::AsItIs => state.switch.read_at_once(read),
        }
    }
}

fn not_a_cursor() -> Flaw {
    Flaw::new("not_a_cursor", "must be the `cursor` of an earlier answer")
}

fn parse_start(
    query: &mut Query,
    [after, since]: [&str; 2],
    parse_place: impl FnOnce(&str) -> Option<EventPlace>,
) -> Start {
    let schema = || json!({"type": "string", "pattern": "^[A-Za-z0-9_-]{40,}$"});
    query.describe("after", after, schema);
    let after = query.parsed("after", parse_place, not_a_cursor);
    let since = query.time("since", since);
    match (after, since) {
        (Some(place), _) => Start::At(place),
        (None, Some(at)) => Start::Since(at),
        (None, None) => Start::Unsaid,
    }
}

/// The events after a place, as soon as there are some, or at `until`. The place moves behind events
/// that are not shown.
async fn next_page(
    state: &AppState,
    caller: &Caller,
    (place, limit): (&mut ReadingPlace, usize),
    until: Instant,
) -> Result<EventPage, ApiError> {
    let (company, mut after) = (caller.company.slot, place.after);
    let mut stop = state.webhooks.streams_stop.clone();
    loop {
        let mut page =
            match state.webhooks.newest_events_after(&state.switch, (company, after), limit)? {
                Some(page) => page,
                None => {
                    let scan = |after, limit| {
                        state.switch.read_at_once(|snapshot| {
                            snapshot.company_events_after(company, after, limit, SCANNED_AT_ONCE)
                        })
                    };
                    scanned_page((after, limit), scan).await?
                }
            };
        place.skip_early(&mut page);
        let is_late = Instant::now() >= until || *stop.borrow();
        if !page.events.is_empty() || is_late || limit == 0 {
            return Ok(page);
        }
        after = page.next;
        if page.is_end {
            let stopped = async { drop(stop.wait_for(|stop| *stop).await) };
            tokio::select! {
                newest = state.switch.events_beyond(after) => drop(newest?),
                () = tokio::time::sleep_until(until) => {}
                () = stopped => {}
            }
            // The pause gathers events that come together into one answer.
            tokio::time::sleep_until(until.min(Instant::now() + STREAM_PAUSE)).await;
        } else {
            tokio::task::yield_now().await;
        }
    }
}

/// The page that `scan` finds behind an event, a part of the log at a time.
/// INVARIANT: others have their turn between two parts, and each part has a view of the tables of its
/// own. So a long log stops no thread, and an access that ends ends the scan.
async fn scanned_page(
    (after, limit): (EventNumber, usize),
    scan: impl Fn(EventNumber, usize) -> Result<EventPage, StoreError>,
) -> Result<EventPage, StoreError> {
    let mut page = EventPage { events: Vec::new(), next: after, is_end: false };
    let mut scanned = 0;
    while !page.is_end && scanned < SCANNED_MAX {
        if scanned > 0 {
            tokio::task::yield_now().await;
        }
        let from = page.next;
        let EventPage { events, next, is_end } = scan(from, limit - page.events.len())?;
        page.events.extend(events);
        (page.next, page.is_end) = (next, is_end);
        scanned += SCANNED_AT_ONCE;
        // It ended before its bound, at an event for which the page has no room.
        if next.0 - from.0 < SCANNED_AT_ONCE as u64 {
            break;
        }
    }
    Ok(page)
}

fn render_page(
    state: &AppState,
    caller: &Caller,
    (page, is_place_lost): (&EventPage, bool),
    next: EventPlace,
) -> Result<EventsBody, ApiError> {
    let results = page.events.iter().map(|event| render_event(state, caller, event));
    Ok(EventsBody {
        results: results.collect::<Result<_, _>>()?,
        cursor: cursor_of(state, caller, next)?,
        has_more: !page.is_end,
        is_place_lost,
    })
}

fn render_event(state: &AppState, caller: &Caller, event: &Event) -> Result<ListedEvent, ApiError> {
    let EventBody { event: name, transaction, company } = EventBody::new(event, caller.company.id);
    Ok(ListedEvent {
        event: name,
        transaction: EventTransaction::Named(transaction),
        company,
        sequence: event.at.0,
        cursor: cursor_of(state, caller, place_of(event))?,
        created_at: render_time(event.at),
    })
}

const fn place_of(event: &Event) -> EventPlace {
    EventPlace { number: event.number, at: Some(event.at) }
}

fn cursor_of(state: &AppState, caller: &Caller, place: EventPlace) -> Result<String, ApiError> {
    let cursor = render_cursor(&state.secrets, caller.company.id, place);
    cursor.map_err(|error| ApiError::internal(&error))
}

/// Stream events as server-sent events, each with its place as `id`.
#[utoipa::path(
    get, path = "/v1/events/stream", params(StreamFilters),
    responses((status = 200, content_type = "text/event-stream", body = String)),
)]
pub async fn stream_events(
    Call(state, caller): Call,
    headers: HeaderMap,
    ListQuery { mut query, .. }: ListQuery,
) -> Answer<Response> {
    let parse = |text: &str| parse_cursor(&state.secrets, caller.company.id, text);
    let start = parse_start(&mut query, STREAM_START, parse);
    query.finish()?;
    let last = headers.get("last-event-id").map(|value| value.to_str().unwrap_or("?"));
    let last = last.filter(|text| !text.is_empty()).map(|text| {
        let flaw = || ApiError::invalid_field("Last-Event-ID", not_a_cursor());
        parse_cursor(&state.secrets, caller.company.id, text).ok_or_else(flaw)
    });
    // The place where a stream broke comes before the one where it began.
    let start = last.transpose()?.map_or(start, Start::At);
    let from = match start.resolve(&state, TableChoice::AsItIs).await? {
        Some(place) => place,
        None => ReadingPlace::behind(state.switch.read(Snapshot::last_event).await?),
    };
    let place = state.webhooks.take_stream_place(caller.company.slot)?;
    let access = caller.lasting_access(&state.switch);
    let ready = VecDeque::new();
    let state = AppState::clone(&state);
    let follower = Follower { state, caller, access, from, ready, _place: place };
    let lines = stream::unfold(follower, |mut follower| async move {
        let line = follower.next_line().await?;
        Some((Ok::<_, Infallible>(line), follower))
    });
    let mut response =
        Sse::new(lines).keep_alive(KeepAlive::new().interval(HEARTBEAT)).into_response();
    // Proxies that gather answers would hold events back.
    response.headers_mut().insert("x-accel-buffering", axum::http::HeaderValue::from_static("no"));
    Ok(response)
}

/// The reader of a stream.
struct Follower {
    state: AppState,
    caller: Caller,
    access: LastingAccess,
    from: ReadingPlace,
    ready: VecDeque<ListedEvent>,
    _place: StreamPlace,
}

impl Follower {
    /// The next event as a line of the stream; none where it ends: the switch stops, the token is
    /// revoked, or nothing can be read. A slow reader takes lines long after they were read, so access
    /// is asked for each.
    async fn next_line(&mut self) -> Option<Line> {
        while self.ready.is_empty() {
            if *self.state.webhooks.streams_stop.borrow() {
                return None;
            }
            let until = Instant::now() + HEARTBEAT;
            let from = (&mut self.from, STREAM_EVENTS_MAX);
            let page = next_page(&self.state, &self.caller, from, until);
            let page = self.access.during(page).await?.ok()?;
            self.from.after = page.next;
            for event in &page.events {
                self.ready.push_back(render_event(&self.state, &self.caller, event).ok()?);
            }
        }
        let event = self.ready.pop_front().filter(|_| self.access.is_open())?;
        let line = Line::default().id(&event.cursor).event(event.event);
        line.json_data(&event).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use cardswitch_engine::domain::event::EventKind;
    use cardswitch_engine::domain::ids::{CompanySlot, TransactionId, TransactionSeq};
    use uuid::Uuid;

    use super::*;

    fn event(number: u64) -> Event {
        Event {
            number: EventNumber(number),
            at: Timestamp(0),
            kind: EventKind::Created,
            transaction: TransactionSeq(number),
            transaction_id: TransactionId(Uuid::from_u128(1)),
            company: CompanySlot(0),
        }
    }

    /// A reader whose company is quiet held its thread until the end of the log.
    #[tokio::test]
    async fn others_have_their_turn_while_a_long_log_is_scanned() {
        let parts = Cell::new(0);
        let scan = |after: EventNumber, _| {
            parts.set(parts.get() + 1);
            let next = EventNumber(after.0 + SCANNED_AT_ONCE as u64);
            Ok(EventPage { events: Vec::new(), next, is_end: false })
        };
        let page = scanned_page((EventNumber(0), 9), scan);
        let (page, seen) = tokio::join!(page, async { parts.get() });
        assert_eq!(seen, 1, "others come behind the first part");
        assert_eq!((page.unwrap().next.0, parts.get()), (50_000, 25), "a page has an end");
    }

    #[tokio::test]
    async fn parts_of_a_scan_are_one_page() {
        let log = [1, 2_500, 4_100, 9_000].map(event);
        let scan = |after: EventNumber, limit: usize| {
            let end = after.0 + SCANNED_AT_ONCE as u64;
            let mut page = EventPage { events: Vec::new(), next: after, is_end: end >= 9_000 };
            for event in log.iter().filter(|event| event.number > after && event.number.0 <= end) {
                if page.events.len() == limit {
                    let next = EventNumber(event.number.0 - 1);
                    return Ok(EventPage { next, is_end: false, ..page });
                }
                page.next = event.number;
                page.events.push(*event);
            }
            page.next = EventNumber(end.min(9_000));
            Ok(page)
        };
        let rows = [
            (0, 9, (&[1, 2_500, 4_100, 9_000][..], 9_000, true)),
            (0, 1, (&[1], 2_499, false)),
            (0, 2, (&[1, 2_500], 4_099, false)),
            (0, 4, (&[1, 2_500, 4_100, 9_000], 9_000, true)),
            (1, 2, (&[2_500, 4_100], 8_999, false)),
            (9_000, 2, (&[], 9_000, true)),
        ];
        for (after, limit, (numbers, next, is_end)) in rows {
            let page = scanned_page((EventNumber(after), limit), scan).await.unwrap();
            let found: Vec<_> = page.events.iter().map(|event| event.number.0).collect();
            assert_eq!((&found[..], page.next.0, page.is_end), (numbers, next, is_end), "{after}");
        }
    }
}
