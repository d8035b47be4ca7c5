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

use crate::forwarding::Forwarding;

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
}

impl StandbyReads {
    /// All that is asked of the node over HTTP.
    pub fn routes(self, state: AppState) -> Router {
        let forwarding = Arc::clone(&self.forwarding);
        let reads = guarded().filter(|operation| operation.method == "GET");
        let reads = routes_of(reads)
            .route_layer(from_fn_with_state(state.clone(), check_access))
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
