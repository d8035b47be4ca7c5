//! The accept loop of the HTTP side: hyper with limits of our own.
//!
//! `axum::serve` has no time-outs at all; here the time for a header, the number of connections and
//! the way a connection ends are bounded. What the card network asks most often goes past the router.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tower::ServiceExt;

use crate::auth::client_address::ClientAddress;
use crate::network::http::{answer_directly, is_direct};
use crate::router;
use crate::state::AppState;

/// How many HTTP connections there may be; further ones wait to be accepted.
const CONNECTIONS_MAX: usize = 10_000;
/// How long the head of a request may take.
const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(10);
/// How long requests in flight may take once the server is asked to stop.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(3);
/// How long to wait after a failed accept (no file descriptors left) before the next.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Everything that is served over HTTP, as hyper asks for it.
#[derive(Clone)]
struct Site(Arc<Inner>);

struct Inner {
    state: AppState,
    router: Router,
}

impl Site {
    async fn answer(
        self,
        peer: IpAddr,
        mut request: Request<Incoming>,
    ) -> Result<Response, Infallible> {
        let Inner { state, router } = &*self.0;
        if is_direct(&request) {
            return Ok(answer_directly(state, request).await);
        }
        let trusted = &state.config.trusted_proxies;
        let address = ClientAddress::behind(peer, request.headers(), trusted);
        request.extensions_mut().insert(address);
        router.clone().oneshot(request.map(Body::new)).await
    }
}

/// Serves HTTP on `listener` until `stop` turns true; then finishes what is in flight.
pub async fn serve(listener: TcpListener, state: AppState, mut stop: watch::Receiver<bool>) {
    let overviews = Arc::clone(&state.overviews);
    let site = Site(Arc::new(Inner { router: router::whole(state.clone()), state }));
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let drain = GracefulShutdown::new();
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEADER_READ_TIMEOUT);
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &connections) => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        let Some(Accepted { stream, peer, permit }) = accepted else { continue };
        let site = site.clone();
        let service = service_fn(move |request| site.clone().answer(peer, request));
        let watched = drain.watch(server.serve_connection(TokioIo::new(stream), service));
        tokio::spawn(async move {
            // A connection that breaks is the client's business; the handlers have answered.
            drop(watched.await);
            drop(permit);
        });
    }
    drop(listener);
    // Streams would have no end of their own.
    overviews.close();
    drop(tokio::time::timeout(DRAIN_TIMEOUT, drain.shutdown()).await);
}

/// A new connection.
struct Accepted {
    stream: TcpStream,
    peer: IpAddr,
    permit: OwnedSemaphorePermit,
}

async fn accept(listener: &TcpListener, connections: &Arc<Semaphore>) -> Option<Accepted> {
    let permit = Arc::clone(connections).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, peer)) => {
            // Answers are written whole: waiting to fill a segment only delays them.
            drop(stream.set_nodelay(true));
            Some(Accepted { stream, peer: peer.ip(), permit })
        }
        Err(error) => {
            tracing::warn!(%error, "cannot accept an HTTP connection");
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}
