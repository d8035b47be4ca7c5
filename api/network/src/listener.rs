//! The ISO 8583 door: accepts connections from allowed peers and serves each on a task of its own.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use cardswitch_edge::address_counts::{AddressCounts, AddressPlace};
use cardswitch_edge::descriptors::{ConnectionBound, DescriptorShares};
use cardswitch_edge::peers::PeerNetwork;
use cardswitch_edge::switch::Submit;
use cardswitch_edge::tls::{TlsDoor, peer_name};
use cardswitch_iso8583::Dialect;
use cardswitch_secrets::Secrets;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

use super::connection::{Connection, stopped};
use super::counters::Counters;
use super::limits;
use super::session::Shared;
use super::slow_bytes::SlowBytes;
use super::zone::Zone;

/// How a listener behaves.
#[derive(Clone, Debug)]
pub struct ListenerOptions {
    /// Where it listens; port 0 takes a free one.
    pub address: SocketAddr,
    /// How its peers spell their messages.
    pub dialect: Dialect,
    /// Its TLS, where it has any.
    pub tls: Option<Arc<TlsDoor>>,
    /// The security of its messages, where it has any.
    pub zone: Option<Arc<Zone>>,
    /// Who may connect.
    pub peers: Vec<PeerNetwork>,
    /// How long a connection may be silent.
    pub idle_limit: Duration,
    /// How many connections it holds, and how many of one peer; beyond, new ones are closed at once.
    pub connections: ConnectionBound,
    /// How many bytes wait for slow peers in all; beyond, the connection of such a peer is closed.
    pub slow_bytes_max: usize,
}

impl ListenerOptions {
    /// Loopback peers only, the default dialect.
    #[must_use]
    pub fn at(address: SocketAddr) -> Self {
        Self {
            address,
            dialect: Dialect::default(),
            tls: None,
            zone: None,
            peers: PeerNetwork::LOOPBACK.to_vec(),
            idle_limit: limits::IDLE_LIMIT_DEFAULT,
            connections: DescriptorShares::default().iso8583,
            slow_bytes_max: limits::SLOW_BYTES_MAX_DEFAULT,
        }
    }
}

/// A bound listener that does not accept yet.
pub struct Listener {
    socket: TcpListener,
    options: ListenerOptions,
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Listener").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Listener {
    /// Takes the address.
    /// Errors: the address is in use or not this machine's.
    pub async fn bind(
        options: ListenerOptions,
        engine: Arc<dyn Submit>,
        secrets: Arc<Secrets>,
    ) -> io::Result<Self> {
        let socket = TcpListener::bind(options.address).await?;
        let shared = Shared {
            engine,
            secrets,
            dialect: options.dialect,
            zone: options.zone.clone(),
            idle_limit: options.idle_limit,
            slow_bytes: Arc::new(SlowBytes::new(options.slow_bytes_max)),
            counters: Arc::default(),
        };
        Ok(Self { socket, options, shared: Arc::new(shared) })
    }

    /// The address it listens at.
    /// Errors: the system's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// What it has seen.
    #[must_use]
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.shared.counters)
    }

    /// Accepts and serves until `stop` becomes true; then answers what is in flight and returns.
    pub async fn run(self, mut stop: watch::Receiver<bool>) {
        let mut connections = JoinSet::new();
        let places = Places::new(self.options.connections);
        loop {
            let accepted = tokio::select! {
                accepted = self.socket.accept() => accepted,
                () = stopped(&mut stop) => break,
                Some(_) = connections.join_next() => continue,
            };
            match accepted {
                Ok((stream, peer)) => {
                    let Some(stream) = self.admit(stream, peer) else { continue };
                    let place = match places.take(peer.ip()) {
                        Ok(place) => place,
                        Err(reason) => {
                            self.refuse(peer, reason);
                            continue;
                        }
                    };
                    let (shared, tls) = (Arc::clone(&self.shared), self.options.tls.clone());
                    let stop = stop.clone();
                    let counters = self.counters();
                    counters.add_connection();
                    connections.spawn(async move {
                        match tls {
                            None => Connection::new(stream, peer, shared).serve(stop).await,
                            // Apart, so that plain connections need no more memory for it.
                            Some(tls) => {
                                Box::pin(serve_secured(stream, peer, shared, &tls, stop)).await;
                            }
                        }
                        counters.end_connection();
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(limits::ACCEPT_REST).await;
                }
            }
        }
        while connections.join_next().await.is_some() {}
    }

    /// Lets a connection of an allowed peer in.
    fn admit(&self, stream: TcpStream, peer: SocketAddr) -> Option<TcpStream> {
        if !self.options.peers.iter().any(|network| network.contains(peer.ip())) {
            self.refuse(peer, "the peer is not allowed");
            return None;
        }
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%peer, %error, "connection ended");
            return None;
        }
        Some(stream)
    }

    /// Counts a refused connection and logs it, ever more seldom.
    fn refuse(&self, peer: SocketAddr, reason: &str) {
        let refused = self.shared.counters.add_refused_connection();
        if refused.is_power_of_two() {
            tracing::warn!(%peer, refused, reason, "connection refused");
        }
    }
}

/// Serves a peer over TLS.
async fn serve_secured(
    stream: TcpStream,
    peer: SocketAddr,
    shared: Arc<Shared>,
    tls: &TlsDoor,
    mut stop: watch::Receiver<bool>,
) {
    let agreed = tokio::select! {
        agreed = tls.accept(stream) => agreed,
        () = stopped(&mut stop) => return,
    };
    match agreed {
        Ok(stream) => {
            if let Some(name) = peer_name(&stream) {
                tracing::info!(%peer, name, "peer shows its certificate");
            }
            Connection::new(stream, peer, shared).serve(stop).await;
        }
        Err(refusal) => {
            let cut = shared.counters.add_cut_connection(refusal.reason);
            if cut.is_power_of_two() {
                let (reason, detail) = (refusal.reason, refusal.detail);
                tracing::warn!(%peer, cut, detail, "connection closed: the peer {reason}");
            }
        }
    }
}

/// The places of connections.
struct Places {
    all: Arc<Semaphore>,
    of_peers: AddressCounts,
    per_peer_max: usize,
}

/// The place of one connection.
struct Place {
    _of_all: OwnedSemaphorePermit,
    _of_peer: AddressPlace,
}

impl Places {
    fn new(bound: ConnectionBound) -> Self {
        let all = Arc::new(Semaphore::new(bound.max));
        Self { all, of_peers: AddressCounts::default(), per_peer_max: bound.per_address_max }
    }

    /// A place for one more connection of `peer`.
    /// Errors: why there is none.
    fn take(&self, peer: IpAddr) -> Result<Place, &'static str> {
        let of_peer = self.of_peers.take(peer, self.per_peer_max);
        let of_peer = of_peer.ok_or("too many connections of one peer")?;
        let of_all = Arc::clone(&self.all).try_acquire_owned();
        let of_all = of_all.map_err(|_| "too many connections")?;
        Ok(Place { _of_all: of_all, _of_peer: of_peer })
    }
}

#[cfg(test)]
#[path = "listener_tests.rs"]
mod tests;
