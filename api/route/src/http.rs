//! The HTTP door: each request goes to its cell with its body as it comes, and its answer comes back so.
//!
//! A request that a kept connection never took is sent again. Of another that broke off, the outcome is
//! unknown unless it only reads, and its client learns that. A node that finds no leader says so: its client
//! learns that too, and the next request goes to the next node.

use std::error::Error;
use std::fmt::Display;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{Request, Response, StatusCode};
use cardswitch_edge::client_address::ClientAddress;
use cardswitch_edge::door_stream::DoorStream;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::hop_by_hop::{hand_back, hand_on};
use cardswitch_edge::http_connection::serve_connection;
use cardswitch_edge::kept_connections::{KeptConnection, KeptConnections};
use cardswitch_edge::min_seq::is_read;
use cardswitch_edge::peers::PeerNetwork;
use cardswitch_edge::request_id::refusal;
use cardswitch_edge::tls_client::is_refusal;
use cardswitch_edge::unread_body::RequestBody;
use cardswitch_engine::domain::cell::Cell;
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::accepting::Door;
use crate::cells::Cells;

/// How long a cell may take until it begins to answer: longer than any request waits there.
const ANSWER_PATIENCE: Duration = Duration::from_secs(120);
/// The longest body of a 503 that is read here. Units: bytes.
const REFUSAL_BYTES_MAX: u64 = 4 * 1_024;
/// The time for that body, which is there with its head.
const REFUSAL_WAIT: Duration = Duration::from_secs(5);
/// The code in the body of a node that finds no leader.
const NO_LEADER: &[u8] = br#""no_leader""#;

/// A cell, and the place of an address among those of its door.
type DoorPlace = (Cell, usize);
type CellConnection = KeptConnection<DoorPlace, RequestBody>;

/// The way to all cells, for requests.
#[derive(Debug)]
pub struct HttpDoor {
    cells: Arc<Cells>,
    trusted_proxies: Vec<PeerNetwork>,
    kept: KeptConnections<DoorPlace, RequestBody>,
}

impl HttpDoor {
    /// The way to `cells`, for clients that may stand behind these proxies.
    pub fn new(cells: Arc<Cells>, trusted_proxies: Vec<PeerNetwork>) -> Self {
        Self { cells, trusted_proxies, kept: KeptConnections::default() }
    }

    async fn answer(&self, peer: IpAddr, request: Request<RequestBody>) -> Response<Body> {
        let (mut parts, body) = request.into_parts();
        let address = ClientAddress::behind(peer, &parts.headers, &self.trusted_proxies);
        parts.extensions.insert(address);
        let cell = self.cells.of_request(&parts.headers, parts.uri.path());
        let answered = self.ask(cell, &parts, &body).await;
        self.count(cell, &answered);
        match answered {
            Ok(answer) => hand_back(answer, std::convert::identity),
            Err(unanswered) => {
                let error = match unanswered {
                    NoAnswer::CellDown => ApiError::cell_down(),
                    NoAnswer::OutcomeUnknown => ApiError::outcome_unknown(),
                    NoAnswer::NoRequest(error) => error,
                };
                refusal(&parts.method, parts.uri.path(), error).await
            }
        }
    }

    fn count<T>(&self, cell: Cell, answered: &Result<T, NoAnswer>) {
        let door = &self.cells.doors(cell).http;
        match answered {
            Ok(_) => {
                door.forwarded.add(1);
                door.answered.add(1);
            }
            Err(NoAnswer::CellDown) => _ = door.refused.add(1),
            Err(NoAnswer::OutcomeUnknown) => {
                door.forwarded.add(1);
                door.unanswered.add(1);
            }
            Err(NoAnswer::NoRequest(_)) => {}
        }
    }

    /// Errors: the cell is not there, or was lost before it answered.
    async fn ask(
        &self,
        cell: Cell,
        parts: &Parts,
        body: &RequestBody,
    ) -> Result<Response<Body>, NoAnswer> {
        let is_repeatable = is_read(&parts.method) && body.is_end_stream();
        loop {
            let current = (cell, self.cells.doors(cell).http.addresses.current());
            let kept = self.kept.take(&current, |_| false);
            let is_kept = kept.is_some();
            let (mut connection, place) = match kept {
                Some(kept) => (kept, current),
                None => self.connect(cell).await?,
            };
            let request = hand_on(parts, body.clone()).map_err(NoAnswer::NoRequest)?;
            let answering = connection.sender.try_send_request(request);
            let mut broken = match timeout(ANSWER_PATIENCE, answering).await {
                Ok(Ok(answer)) => {
                    self.kept.keep(connection);
                    return self.judge(answer, place).await;
                }
                Ok(Err(broken)) => broken,
                Err(_) => return Err(NoAnswer::OutcomeUnknown),
            };
            if let Some(error) = refusal_of(broken.error()) {
                tracing::warn!(%cell, %error, "the HTTP connection to the cell was refused");
                return Err(NoAnswer::CellDown);
            }
            tracing::debug!(%cell, error = %broken.error(), "a request was not answered");
            let is_unsent = broken.take_message().is_some();
            // A kept connection may have ended meanwhile; a new one that breaks is a cell that goes down.
            match (is_unsent || is_repeatable, is_kept) {
                (true, true) => {}
                (true, false) => return Err(NoAnswer::CellDown),
                (false, _) => return Err(NoAnswer::OutcomeUnknown),
            }
        }
    }

    /// Leaves the address of a node that finds no leader.
    /// Errors: such an answer broke off.
    async fn judge(
        &self,
        answer: Response<Incoming>,
        (cell, place): DoorPlace,
    ) -> Result<Response<Body>, NoAnswer> {
        let (parts, body) = answer.into_parts();
        let is_short = body.size_hint().upper().is_some_and(|bytes| bytes <= REFUSAL_BYTES_MAX);
        if parts.status != StatusCode::SERVICE_UNAVAILABLE || !is_short {
            return Ok(Response::from_parts(parts, Body::new(body)));
        }
        let whole = tokio::time::timeout(REFUSAL_WAIT, body.collect()).await;
        let whole = whole.map_err(|_| NoAnswer::OutcomeUnknown)?;
        let body = whole.map_err(|_| NoAnswer::OutcomeUnknown)?.to_bytes();
        if body.windows(NO_LEADER.len()).any(|part| part == NO_LEADER) {
            self.cells.doors(cell).http.addresses.leave(place);
        }
        Ok(Response::from_parts(parts, Body::from(body)))
    }

    async fn connect(&self, cell: Cell) -> Result<(CellConnection, DoorPlace), NoAnswer> {
        let refused = |error: &dyn Display| {
            tracing::debug!(%cell, %error, "the cell takes no HTTP connection");
            NoAnswer::CellDown
        };
        let stream = self.cells.doors(cell).http.connect().await;
        let stream = stream.map_err(|error| refused(&error))?;
        let place = (cell, stream.place);
        let connection = KeptConnection::over(stream, place).await;
        Ok((connection.map_err(|error| refused(&error))?, place))
    }
}

/// Why a request has no answer of its cell.
enum NoAnswer {
    /// The cell has not taken it.
    CellDown,
    /// The cell had taken it, or may have.
    OutcomeUnknown,
    /// It cannot be handed on.
    NoRequest(ApiError),
}

/// The cell's refusal of the router's certificate: the cell has read nothing then.
fn refusal_of(error: &hyper::Error) -> Option<&io::Error> {
    error.source()?.downcast_ref().filter(|error| is_refusal(error))
}

impl Door for HttpDoor {
    fn admits(&self, _peer: SocketAddr) -> bool {
        true
    }

    async fn serve_one<S: DoorStream + 'static>(
        self: Arc<Self>,
        stream: S,
        peer: SocketAddr,
        stop: watch::Receiver<bool>,
    ) {
        let answer = |request| self.answer(peer.ip(), request);
        serve_connection(stream, answer, stop).await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    /// A node that answers every request so.
    async fn node(status: &str, body: &str) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let answer = answer.clone();
                tokio::spawn(async move {
                    while stream.read(&mut [0; 1_024]).await.unwrap_or(0) > 0 {
                        stream.write_all(answer.as_bytes()).await.unwrap();
                    }
                });
            }
        });
        address
    }

    /// A router before a cell of these nodes.
    async fn router(nodes: [SocketAddr; 2]) -> SocketAddr {
        let [first, second] = nodes;
        let cell = format!("01=http://{first},http://{second},iso8583://127.0.0.1:1");
        let cells = Cells::new(vec![cell.parse().unwrap()], "01".parse().unwrap(), vec![], None);
        let door = Arc::new(HttpDoor::new(Arc::new(cells.unwrap()), vec![]));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (_runs, stop) = watch::channel(false);
            loop {
                let (stream, peer) = listener.accept().await.unwrap();
                tokio::spawn(Arc::clone(&door).serve_one(stream, peer, stop.clone()));
            }
        });
        address
    }

    /// A node that had lost its leader was asked for ever.
    #[tokio::test]
    async fn a_node_that_finds_no_leader_is_left_and_one_that_is_busy_is_not() {
        for (code, later) in [("no_leader", "200"), ("overloaded", "503")] {
            let refusal = format!("{{\"detail\":{{\"code\":\"{code}\"}}}}");
            let router = router([node("503", &refusal).await, node("200", "{}").await]).await;
            for (status, body) in [("503", &*refusal), (later, ""), (later, "")] {
                let mut client = TcpStream::connect(router).await.unwrap();
                let request = b"GET /v1/cards HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
                client.write_all(request).await.unwrap();
                let mut answer = String::new();
                client.read_to_string(&mut answer).await.unwrap();
                assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{code}: {answer}");
                assert!(answer.ends_with(body), "{code}: {answer}");
            }
        }
    }
}
