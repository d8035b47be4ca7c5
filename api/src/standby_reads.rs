//! Reads of `/v1` that a node which follows answers from its own tables. Every other request, and
//! reads that it cannot answer, go to the leader.
//!
//! INVARIANT: a node shows the whole state of the cluster at a moment of the last second, and honours the
//! access of such a moment. The proof is the chain as the node heard it, never its own clock.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Query as UriQuery, Request, State};
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use cardswitch_cluster::NodeStatus;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::min_seq::{is_read, min_seq_of};
use cardswitch_edge::operation::routes_of;
use cardswitch_edge::request_id::with_request_id;
use cardswitch_edge::switch::Switch;
use cardswitch_edge::write_error::WriteError;
use cardswitch_engine::domain::event::EventNumber;
use cardswitch_identity::auth::{Call, check_access};
use cardswitch_identity::state::AppState;
use cardswitch_notify::webhooks::cursor::parse_cursor;
use cardswitch_v1::operations::guarded;
use tokio::time::timeout;

use crate::config::Compat;
use crate::forwarding::Forwarding;
use crate::router::as_clients_expect;

/// How late the tables of a node may be.
const LATE_MAX: Duration = Duration::from_secs(1);
/// How long a read waits here for the record or event that it must show before it goes to the leader.
const REACH_WAIT: Duration = Duration::from_secs(1);

/// Reads of a node that follows.
#[derive(Clone, Debug)]
pub struct StandbyReads {
    /// The way to the leader.
    pub forwarding: Arc<Forwarding>,
    /// The tables.
    pub switch: Switch,
    /// How the node stands.
    pub status: Arc<NodeStatus>,
    /// The older client whose habits are followed besides.
    pub compat: Option<Compat>,
}

impl StandbyReads {
    /// All that is asked of the node over HTTP.
    pub fn routes(self, state: AppState) -> Router {
        let forwarding = Arc::clone(&self.forwarding);
        let reads = local_reads(self.compat, &state)
            .route_layer(from_fn(with_request_id))
            .route_layer(from_fn_with_state(self, here_or_there));
        let forward = move |request| {
            let forwarding = Arc::clone(&forwarding);
            async move { forwarding.forward(request).await }
        };
        reads.fallback(forward).with_state(state)
    }

    async fn can_answer(&self, (method, uri): (&Method, &Uri)) -> bool {
        if !is_read(method) || !self.is_level() {
            return false;
        }
        match min_seq_of(uri) {
            Ok(Some(seq)) => self.switch.visible_within(seq, REACH_WAIT).await,
            Ok(None) => true,
            Err(_) => false,
        }
    }

    fn is_level(&self) -> bool {
        self.status.was_newest(self.switch.engine.watermark.applied().0, LATE_MAX)
    }
}

/// The reads as this node answers them, like the leader.
fn local_reads(client: Option<Compat>, state: &AppState) -> Router<AppState> {
    let reads = guarded().filter(|operation| operation.method == "GET");
    let (of_events, others): (Vec<_>, Vec<_>) =
        reads.partition(|operation| operation.path.starts_with("/v1/events"));
    let reads = routes_of(of_events.into_iter())
        .route_layer(from_fn_with_state(state.clone(), behind_known_events))
        .merge(routes_of(others.into_iter()))
        .route_layer(from_fn_with_state(state.clone(), check_access));
    as_clients_expect(reads, client, state)
}

/// Refuses a place in the event log that this node has not reached, for now: from its own last event on, it would
/// show again what the client has seen elsewhere.
async fn behind_known_events(
    State(state): State<AppState>,
    Call(_, caller): Call,
    request: Request,
    next: Next,
) -> Response {
    let number = |text: String| {
        parse_cursor(&state.secrets, caller.company.id, &text).map(|place| place.number.0)
    };
    let newest = places_of(&request).into_iter().filter_map(number).max();
    if let Some(before) = newest.and_then(|newest| newest.checked_sub(1)) {
        let reached = state.switch.events_beyond(EventNumber(before));
        if !matches!(timeout(REACH_WAIT, reached).await, Ok(Ok(Some(_)))) {
            return ApiError::from(WriteError::NotVisibleYet).into_response();
        }
    }
    next.run(request).await
}

/// The places in the event log that a request names.
fn places_of(request: &Request) -> Vec<String> {
    let parameters = UriQuery::<Vec<(String, String)>>::try_from_uri(request.uri());
    let parameters = parameters.map(|UriQuery(parameters)| parameters).unwrap_or_default();
    let after = parameters.into_iter().filter(|(name, _)| name == "after").map(|(_, text)| text);
    let last = request.headers().get("last-event-id").and_then(|text| text.to_str().ok());
    after.chain(last.map(str::to_owned)).collect()
}

async fn here_or_there(
    State(reads): State<StandbyReads>,
    request: Request,
    next: Next,
) -> Response {
    if !reads.can_answer((request.method(), request.uri())).await {
        return reads.forwarding.forward(request).await;
    }
    let (parts, body) = request.into_parts();
    let again = parts.clone();
    let answer = next.run(Request::from_parts(parts, body)).await;
    // A token may be newer than the tables, some reads need state that only the leader has, and a node
    // that has joined just now may lack a key.
    let of_leader = [
        StatusCode::UNAUTHORIZED,
        StatusCode::SERVICE_UNAVAILABLE,
        StatusCode::INTERNAL_SERVER_ERROR,
    ];
    if of_leader.contains(&answer.status()) {
        return reads.forwarding.forward(Request::from_parts(again, Body::empty())).await;
    }
    answer
}

#[cfg(test)]
mod tests {
    use cardswitch_edge::descriptors::DescriptorShares;
    use cardswitch_engine::domain::event::EventPlace;
    use cardswitch_engine::domain::ids::{CompanyId, Timestamp};
    use cardswitch_engine::store::Snapshot;
    use cardswitch_notify::webhooks::Webhooks;
    use cardswitch_notify::webhooks::addresses::Reach;
    use cardswitch_notify::webhooks::cursor::render_cursor;
    use serde_json::{Value, json};
    use tokio::sync::watch;
    use tower::ServiceExt;

    use super::*;
    use crate::bench::{Bench, COMPANY, amount, id_of, virtual_card};

    async fn read(bench: &Bench, client: Option<Compat>, path: &str) -> (StatusCode, Value) {
        let request = Request::get(path).header("authorization", "Token admin");
        let routes = local_reads(client, &bench.state).with_state(bench.state.clone());
        let response = routes.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let status = response.status();
        let body = axum::body::to_bytes(response.into_body(), 100_000).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap())
    }

    /// Once, `card[]=A` at a follower found the purchases of every card.
    #[tokio::test]
    async fn habits_of_an_older_client_are_followed_here_too() {
        let bench = Bench::new().await;
        let cards = [bench.order(virtual_card()).await, bench.order(virtual_card()).await];
        for card in &cards {
            assert!(bench.authorize(card, amount(100)).await);
        }
        let path = format!("/v1/transactions?card[]={}", id_of(&cards[0]));
        let (_, list) = read(&bench, Some(Compat::LegacyClient), &path).await;
        assert_eq!(list["count"], 1, "{list}");
        assert_eq!(list["transactions"][0]["card"]["id"], cards[0]["id"]);
        // The opening balance is a transaction, too.
        assert_eq!(read(&bench, None, &path).await.1["count"], 3);
    }

    /// A look at a number is a record, which only the leader makes.
    #[tokio::test]
    async fn a_look_at_a_number_is_left_to_the_leader() {
        let mut bench = Bench::new().await;
        let card = bench.order(virtual_card()).await;
        bench.state.switch = Switch::new(Arc::new(bench.state.switch.engine.for_reading()));
        let path = format!("/v1/cards/{}", id_of(&card));
        assert_eq!(read(&bench, None, &path).await.0, StatusCode::OK);
        let (status, body) = read(&bench, None, &format!("{path}/number")).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{body}");
    }

    /// Once, a node that follows showed every endpoint as one without trouble: only the leader delivers.
    #[tokio::test]
    async fn how_deliveries_do_is_left_to_the_leader() {
        let mut bench = Bench::new().await;
        let new = json!({"delivery_url": "https://hooks.example.com/cards"});
        let (status, made) = bench.ask("POST", "/v1/webhook-endpoints", new).await;
        assert_eq!(status, 201, "{made}");
        let paths =
            ["/v1/webhook-endpoints".to_owned(), format!("/v1/webhook-endpoints/{}", id_of(&made))];
        for path in &paths {
            assert_eq!(read(&bench, None, path).await.0, StatusCode::OK);
        }
        let (shares, (_, stopped)) = (DescriptorShares::default(), watch::channel(true));
        bench.state.webhooks = Webhooks::elsewhere(Reach::Local, &shares, stopped);
        for path in &paths {
            let (status, body) = read(&bench, None, path).await;
            assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{body}");
        }
    }

    /// Once, a node that had not yet read event 2 gave event 1 again to a client that had seen both elsewhere.
    #[tokio::test]
    async fn a_place_beyond_the_own_log_is_left_to_the_leader() {
        let bench = Bench::new().await;
        let card = bench.order(virtual_card()).await;
        assert!(bench.authorize(&card, amount(100)).await);
        let newest = bench.state.switch.read(Snapshot::last_event).await.unwrap().0;
        let place = |number: u64| {
            let place = EventPlace { number: EventNumber(number), at: Some(Timestamp(0)) };
            render_cursor(&bench.state.secrets, CompanyId(COMPANY), place).unwrap()
        };
        let rows = [
            ("/v1/events".to_owned(), StatusCode::OK),
            (format!("/v1/events?after={}", place(0)), StatusCode::OK),
            (format!("/v1/events?after={}", place(newest)), StatusCode::OK),
            (format!("/v1/events?after={}", place(newest + 1)), StatusCode::SERVICE_UNAVAILABLE),
            (
                format!("/v1/events/stream?after={}", place(newest + 1)),
                StatusCode::SERVICE_UNAVAILABLE,
            ),
            ("/v1/events?after=x".to_owned(), StatusCode::BAD_REQUEST),
        ];
        for (path, expected) in rows {
            let (status, body) = read(&bench, None, &path).await;
            assert_eq!(status, expected, "{path}: {body}");
        }
        let request = Request::get("/").header("last-event-id", "x").body(Body::empty());
        assert_eq!(places_of(&request.unwrap()), ["x"]);
    }
}
