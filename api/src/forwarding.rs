//! Requests that a following node hands to the leader, and their answers on the way back.
//!
//! While no node leads, a request waits. A request whose connection breaks is sent again where nothing can
//! happen twice: if it is a read, or has an idempotency key that counts. The outcome of any other is unknown,
//! and the client learns that. Connections to the leader are kept for the next request.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use cardswitch_cluster::NodeRecord;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::hop_by_hop::{hand_back, hand_on};
use cardswitch_edge::idempotency_header::IDEMPOTENCY_KEY;
use cardswitch_edge::input::BODY_BYTES_MAX;
use cardswitch_edge::kept_connections::{KeptConnection, KeptConnections};
use cardswitch_edge::min_seq::is_read;
use cardswitch_edge::request_body::{read_body, read_upload};
use cardswitch_identity::receipts::RECEIPT_BYTES_MAX;
use http_body_util::Full;
use hyper::body::{Frame, Incoming, SizeHint};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

/// How long the leader may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// The time that a client waits for a leader.
pub(crate) const LEADER_PATIENCE: Duration = Duration::from_secs(3);
/// How often a leader that is not reached is tried again.
const RETRY_EVERY: Duration = Duration::from_millis(25);
/// The longest body that is handed on: a receipt, and the fields around it. Units: bytes.
const FORWARDED_BYTES_MAX: usize = RECEIPT_BYTES_MAX + BODY_BYTES_MAX;
/// The way to the leader, for requests.
#[derive(Debug)]
pub struct Forwarding {
    leaders: watch::Receiver<Option<NodeRecord>>,
    kept: KeptConnections<SocketAddr, Full<Bytes>>,
}

type LeaderConnection = KeptConnection<SocketAddr, Full<Bytes>>;

impl Forwarding {
    /// The way to the leaders that `leaders` names.
    pub fn new(leaders: watch::Receiver<Option<NodeRecord>>) -> Self {
        Self { leaders, kept: KeptConnections::default() }
    }

    /// Has the leader answer a request.
    pub async fn forward(&self, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        let is_small = body.size_hint().upper().is_some_and(|bytes| bytes <= BODY_BYTES_MAX as u64);
        let body = match is_small {
            true => read_body(body, BODY_BYTES_MAX).await,
            false => read_upload(body, FORWARDED_BYTES_MAX).await,
        };
        let answer = async { self.ask(&parts, body?).await };
        answer.await.unwrap_or_else(IntoResponse::into_response)
    }

    /// Errors: no node leads, or the outcome is unknown.
    async fn ask(&self, parts: &Parts, body: Bytes) -> Result<Response, ApiError> {
        let is_repeatable = is_repeatable(parts);
        let until = Instant::now() + LEADER_PATIENCE;
        let mut leaders = self.leaders.clone();
        loop {
            let reached = timeout_at(until, self.reach(&mut leaders)).await;
            let mut to_leader = reached.map_err(|_| ApiError::no_leader())?;
            let request = hand_on(parts, Full::new(body.clone()))?;
            let is_unsent = tokio::select! {
                answered = to_leader.sender.try_send_request(request) => match answered {
                    Ok(answer) => {
                        // It is taken for the next request once this answer is read.
                        self.kept.keep(to_leader);
                        return Ok(hand_back_while_led(answer, leaders));
                    }
                    Err(mut broken) => broken.take_message().is_some(),
                },
                // The old leader answers no request any more that it has not answered by now.
                _ = leaders.changed() => false,
            };
            if !is_unsent && !is_repeatable {
                return Err(ApiError::outcome_unknown());
            }
        }
    }

    async fn reach(&self, leaders: &mut watch::Receiver<Option<NodeRecord>>) -> LeaderConnection {
        let connect = |leader: SocketAddr| async move {
            match self.kept.take(&leader, |other| *other != leader) {
                Some(kept) => Ok(kept),
                None => {
                    let stream = TcpStream::connect(leader).await?;
                    stream.set_nodelay(true)?;
                    KeptConnection::over(stream, leader).await
                }
            }
        };
        reach_leader(leaders, |leader| Some(leader.http), connect).await
    }
}

/// Whether nothing can happen twice, however often the leader is asked.
fn is_repeatable(parts: &Parts) -> bool {
    let has_key = parts.headers.contains_key(IDEMPOTENCY_KEY);
    is_read(&parts.method) || (has_key && counts_keys(parts.uri.path()))
}

/// Whether an idempotency key counts at a path. A second exchange of a code revokes the token of the
/// first, and a clock that is moved on twice goes too far.
fn counts_keys(path: &str) -> bool {
    let is_exempt = ["/v1/oauth/", "/network/v1/clock"].iter().any(|begin| path.starts_with(begin));
    let is_keyed =
        ["/v1/", "/scim/v2/", "/network/v1/"].iter().any(|begin| path.starts_with(begin));
    is_keyed && !is_exempt
}

/// Connects to the leader, as soon as that works: a change of leader takes a moment.
pub(crate) async fn reach_leader<T, F: Future<Output = io::Result<T>>>(
    leaders: &mut watch::Receiver<Option<NodeRecord>>,
    door: impl Fn(&NodeRecord) -> Option<SocketAddr>,
    connect: impl Fn(SocketAddr) -> F,
) -> T {
    loop {
        let address = leaders.borrow_and_update().as_ref().and_then(&door);
        if let Some(address) = address
            && let Ok(Ok(connected)) = timeout(CONNECT_TIMEOUT, connect(address)).await
        {
            return connected;
        }
        // The leader is not there yet, or not any more.
        drop(timeout(RETRY_EVERY, leaders.changed()).await);
    }
}

fn hand_back_while_led(
    answer: Response<Incoming>,
    mut leaders: watch::Receiver<Option<NodeRecord>>,
) -> Response {
    let replaced = Box::pin(async move { drop(leaders.changed().await) });
    hand_back(answer, |body| Body::new(LeadersBody { body, replaced }))
}

/// The body of an answer, which ends with an error when its leader is replaced: that one may be
/// silent for ever.
struct LeadersBody {
    body: Incoming,
    replaced: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl HttpBody for LeadersBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(axum::Error::new)));
        }
        self.replaced.as_mut().poll(context).map(|()| {
            let replaced = io::Error::from(io::ErrorKind::ConnectionAborted);
            Some(Err(axum::Error::new(replaced)))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use axum::http::Method;
    use cardswitch_edge::required_access::RequiredAccess;
    use cardswitch_network::http;
    use cardswitch_v1::operations::OPERATIONS;

    use super::*;

    fn is_repeated(method: Method, path: &str, key: Option<&str>) -> bool {
        let request = Request::builder().method(method).uri(path);
        let request =
            key.into_iter().fold(request, |request, key| request.header(IDEMPOTENCY_KEY, key));
        is_repeatable(&request.body(()).unwrap().into_parts().0)
    }

    /// An exchange of a code had a key, which counts for nothing there: sent again, it revoked the token that
    /// was just issued.
    #[test]
    fn a_request_is_repeated_where_its_key_counts() {
        for operation in OPERATIONS.iter().filter(|operation| operation.method != "GET") {
            let path = operation.path.replace(['{', '}'], "");
            let expected = operation.needed != RequiredAccess::Open;
            assert_eq!(is_repeated(Method::POST, &path, Some("one")), expected, "{path}");
            assert!(!is_repeated(Method::POST, &path, None), "{path}");
        }
        for path in http::document().paths.paths.keys() {
            let path = path.replace(['{', '}'], "");
            let expected = path != "/network/v1/clock";
            assert_eq!(is_repeated(Method::POST, &path, Some("one")), expected, "{path}");
        }
        for path in ["/scim/v2/Users", "/scim/v2/Users/one"] {
            assert!(is_repeated(Method::PATCH, path, Some("one")), "{path}");
            assert!(!is_repeated(Method::PATCH, path, None), "{path}");
        }
        for path in ["/login", "/cards/new", "/v1", "/v10/cards"] {
            assert!(!is_repeated(Method::POST, path, Some("one")), "{path}");
            assert!(is_repeated(Method::GET, path, None), "{path}");
        }
    }
}
