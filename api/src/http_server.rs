//! The accept loop of the HTTP side: hyper with limits of our own.
//!
//! `axum::serve` has no time-outs at all; here the time for a header, the number of connections and
//! the way a connection ends are bounded.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

/// How many HTTP connections there may be; further ones wait to be accepted.
const CONNECTIONS_MAX: usize = 10_000;
/// How long the head of a request may take.
const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(10);
/// How long requests in flight may take once the server is asked to stop.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(3);
/// How long to wait after a failed accept (no file descriptors left) before the next.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves HTTP on `listener` until `stop` turns true; then finishes what is in flight.
pub async fn serve(listener: TcpListener, router: Router, mut stop: watch::Receiver<bool>) {
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let drain = GracefulShutdown::new();
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEADER_READ_TIMEOUT);
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &connections) => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        let Some((stream, permit)) = accepted else { continue };
        let service = TowerToHyperService::new(router.clone());
        let watched = drain.watch(server.serve_connection(TokioIo::new(stream), service));
        tokio::spawn(async move {
            // A connection that breaks is the client's business; the handlers have answered.
            drop(watched.await);
            drop(permit);
        });
    }
    drop(listener);
    drop(tokio::time::timeout(DRAIN_TIMEOUT, drain.shutdown()).await);
}

async fn accept(
    listener: &TcpListener,
    connections: &Arc<Semaphore>,
) -> Option<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let permit = Arc::clone(connections).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _peer)) => {
            // Answers are written whole: waiting to fill a segment only delays them.
            drop(stream.set_nodelay(true));
            Some((stream, permit))
        }
        Err(error) => {
            tracing::warn!(%error, "cannot accept an HTTP connection");
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}
