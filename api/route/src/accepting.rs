//! The connections of a door: how many there may be, of all and of one address, and their end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use cardswitch_edge::address_counts::AddressCounts;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Connections at a time at a door.
const CONNECTIONS_MAX: usize = 4_096;
/// How many of them one address may have.
const CONNECTIONS_PER_ADDRESS_MAX: usize = CONNECTIONS_MAX / 2;
/// How long a door rests after the system refused a connection.
const ACCEPT_REST: Duration = Duration::from_millis(50);
/// How long connections may take to end once the door is closed.
const DRAIN_WAIT: Duration = Duration::from_secs(3);

/// Serves each connection by `serve`, until `stop` turns true; then waits for a while until all have ended.
pub(crate) async fn accept_until<F>(
    listener: TcpListener,
    mut stop: watch::Receiver<bool>,
    serve: impl Fn(TcpStream, SocketAddr) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let of_addresses = AddressCounts::default();
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &places) => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        while connections.try_join_next().is_some() {}
        let Some((place, stream, peer)) = accepted else { continue };
        let address = peer.ip().to_canonical();
        let Some(of_address) = of_addresses.take(address, CONNECTIONS_PER_ADDRESS_MAX) else {
            tracing::warn!(%address, "too many connections of one address");
            continue;
        };
        let served = serve(stream, peer);
        connections.spawn(async move {
            let _places = (place, of_address);
            served.await;
        });
    }
    drop(listener);
    let ended = async { while connections.join_next().await.is_some() {} };
    drop(timeout(DRAIN_WAIT, ended).await);
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> Option<(tokio::sync::OwnedSemaphorePermit, TcpStream, SocketAddr)> {
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, peer)) => Some((place, stream, peer)),
        Err(error) => {
            tracing::warn!(%error, "cannot accept a connection");
            sleep(ACCEPT_REST).await;
            None
        }
    }
}
