//! The HTTP door: each request goes to its cell with its body as it comes, and its answer comes back so.
//!
//! A request that a kept connection never took is sent again. Of another that broke off, the outcome is
//! unknown unless it only reads, and its client learns that.

use std::error::Error;
use std::fmt::Display;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{Request, Response};
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
use hyper::body::{Body as _, Incoming};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::accepting::Door;
use crate::cells::Cells;

/// How long a cell may take until it begins to answer: longer than any request waits there.
const ANSWER_PATIENCE: Duration = Duration::from_secs(120);

/// The way to all cells, for requests.
#[derive(Debug)]
pub struct HttpDoor {
    cells: Arc<Cells>,
    trusted_proxies: Vec<PeerNetwork>,
    kept: KeptConnections<Cell, RequestBody>,
}

impl HttpDoor {
    /// The way to `cells`, for clients that may stand behind these proxies.
    #[must_use]
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
            Ok(answer) => hand_back(answer, Body::new),
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
        let meters = &self.cells.doors(cell).http.meters;
        match answered {
            Ok(_) => {
                meters.note_forwarded(1);
                meters.note_answered();
            }
            Err(NoAnswer::CellDown) => meters.note_refused(),
            Err(NoAnswer::OutcomeUnknown) => {
                meters.note_forwarded(1);
                meters.note_unanswered();
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
    ) -> Result<Response<Incoming>, NoAnswer> {
        let is_repeatable = is_read(&parts.method) && body.is_end_stream();
        loop {
            let kept = self.kept.take(&cell, |_| false);
            let is_kept = kept.is_some();
            let mut connection = match kept {
                Some(kept) => kept,
                None => self.connect(cell).await?,
            };
            let request = hand_on(parts, body.clone()).map_err(NoAnswer::NoRequest)?;
            let answering = connection.sender.try_send_request(request);
            let mut broken = match timeout(ANSWER_PATIENCE, answering).await {
                Ok(Ok(answer)) => {
                    self.kept.keep(connection);
                    return Ok(answer);
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

    async fn connect(&self, cell: Cell) -> Result<KeptConnection<Cell, RequestBody>, NoAnswer> {
        let refused = |error: &dyn Display| {
            tracing::warn!(%cell, %error, "the cell takes no HTTP connection");
            NoAnswer::CellDown
        };
        let stream = self.cells.doors(cell).http.connect().await;
        let stream = stream.map_err(|error| refused(&error))?;
        KeptConnection::over(stream, cell).await.map_err(|error| refused(&error))
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
