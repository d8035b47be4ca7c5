//! The connections of a door: how many there may be, of all and of one address, over TLS or not, and their end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use cardswitch_acquiring::address_counts::AddressCounts;
use cardswitch_edge::door_stream::DoorStream;
use cardswitch_edge::tls::{TlsDoor, TlsRefusal};
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

/// The service behind an address.
pub trait Door: Send + Sync + 'static {
    /// Whether a peer may connect.
    fn admits(&self, peer: SocketAddr) -> bool;

    /// Serves one connection until it ends, or `stop` turns true.
    fn serve_one<S: DoorStream + 'static>(
        self: Arc<Self>,
        stream: S,
        peer: SocketAddr,
        stop: watch::Receiver<bool>,
    ) -> impl Future<Output = ()> + Send;
}

/// Serves each connection of a door, until `stop` turns true; then waits for a while until all have ended.
pub async fn serve(
    listener: TcpListener,
    tls: Option<Arc<TlsDoor>>,
    door: impl Door,
    mut stop: watch::Receiver<bool>,
) {
    let door = Arc::new(door);
    if let Some(tls) = &tls {
        tokio::spawn(Arc::clone(tls).follow_files(stop.clone()));
    }
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
        if !door.admits(peer) {
            tracing::warn!(%peer, "connection refused: no peer");
            continue;
        }
        let address = peer.ip().to_canonical();
        let Some(of_address) = of_addresses.take(address, CONNECTIONS_PER_ADDRESS_MAX) else {
            tracing::warn!(%address, "too many connections of one address");
            continue;
        };
        let (door, tls, stop) = (Arc::clone(&door), tls.clone(), stop.clone());
        connections.spawn(async move {
            let _places = (place, of_address);
            match tls {
                None => door.serve_one(stream, peer, stop).await,
                Some(tls) => serve_secured(door, stream, peer, &tls, stop).await,
            }
        });
    }
    drop(listener);
    let ended = async { while connections.join_next().await.is_some() {} };
    drop(timeout(DRAIN_WAIT, ended).await);
}

async fn serve_secured(
    door: Arc<impl Door>,
    stream: TcpStream,
    peer: SocketAddr,
    tls: &TlsDoor,
    mut stop: watch::Receiver<bool>,
) {
    let agreed = tokio::select! {
        agreed = tls.accept(stream) => agreed,
        _ = stop.wait_for(|stop| *stop) => return,
    };
    match agreed {
        Ok(stream) => door.serve_one(stream, peer, stop).await,
        Err(TlsRefusal { reason, detail }) => {
            tracing::warn!(%peer, detail, "connection closed: the peer {reason}");
        }
    }
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
