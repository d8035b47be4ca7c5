//! Reads of `/v1` that a node which follows answers from its own tables. Every other request, and
//! reads that it cannot answer, go to the leader.
//!
//! INVARIANT: a node shows the whole state of the cluster at a moment of the last second, and honours the
//! access of such a moment. The proof is the chain as the node heard it, never its own clock.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use cardswitch_cluster::NodeStatus;
use cardswitch_edge::min_seq::{is_read, min_seq_of};
use cardswitch_edge::operation::routes_of;
use cardswitch_edge::request_id::with_request_id;
use cardswitch_edge::switch::Switch;
use cardswitch_identity::auth::check_access;
use cardswitch_identity::state::AppState;
use cardswitch_v1::operations::guarded;

use crate::config::Compat;
use crate::forwarding::Forwarding;
use crate::router::as_clients_expect;

/// How late the tables of a node may be.
const LATE_MAX: Duration = Duration::from_secs(1);
/// How long a read waits here for the record that it must show before it goes to the leader.
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
        self.status.was_newest(self.switch.engine().watermark().applied().0, LATE_MAX)
    }
}

/// The reads as this node answers them, like the leader.
fn local_reads(client: Option<Compat>, state: &AppState) -> Router<AppState> {
    let reads = guarded().filter(|operation| operation.method == "GET");
    let reads = routes_of(reads).route_layer(from_fn_with_state(state.clone(), check_access));
    as_clients_expect(reads, client, state)
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
    use axum::http::StatusCode;
    use serde_json::Value;
    use tower::ServiceExt;

    use super::*;
    use crate::bench::{Bench, amount, id_of, virtual_card};

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
}
