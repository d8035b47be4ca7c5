//! An ISO 8583 door: accepts connections from allowed peers and serves each on a task of its own.
//!
//! A switch may have several, each with its dialect and its peers. They share the engine, the
//! counters, and the bounds of the whole process.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use cardswitch_acquiring::address_counts::{AddressCounts, AddressPlace};
use cardswitch_acquiring::counters::Counters;
use cardswitch_acquiring::door_parts::{ConnectionBounds, DoorParts};
use cardswitch_acquiring::fault_plan::FaultPlan;
use cardswitch_acquiring::limits::{IDLE_LIMIT_DEFAULT, SLOW_BYTES_MAX_DEFAULT};
use cardswitch_acquiring::peer_board::{DoorNumber, DoorPlate, PeerBoard, PeerLine};
use cardswitch_acquiring::slow_bytes::SlowBytes;
use cardswitch_acquiring::submit::Submit;
use cardswitch_acquiring::zone::Zone;
use cardswitch_edge::descriptors::DescriptorShares;
use cardswitch_edge::peers::PeerNetwork;
use cardswitch_edge::tls::{TlsDoor, peer_name};
use cardswitch_iso8583::Dialect;
use cardswitch_secrets::Secrets;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

use super::connection::{ConnectionTask, stopped};
use super::limits;

/// The options of one door.
#[derive(Clone, Debug)]
pub struct ListenerOptions {
    /// Its name in logs.
    pub name: String,
    /// The address where it listens; port 0 takes a free one.
    pub address: SocketAddr,
    /// The dialect of its peers.
    pub dialect: Dialect,
    /// Its TLS, if it has any.
    pub tls: Option<Arc<TlsDoor>>,
    /// The security of its messages, if it has any.
    pub zone: Option<Arc<Zone>>,
    /// The networks whose peers may connect.
    pub peers: Vec<PeerNetwork>,
    /// The longest silence of a connection.
    pub idle_limit: Duration,
    /// The most connections of one peer; beyond, new ones are closed at once.
    pub connections_per_peer: usize,
}

impl ListenerOptions {
    /// Loopback peers only, the default dialect.
    pub fn at(address: SocketAddr) -> Self {
        Self {
            name: DOOR_NAME_DEFAULT.to_owned(),
            address,
            dialect: Dialect::default(),
            tls: None,
            zone: None,
            peers: PeerNetwork::LOOPBACK.to_vec(),
            idle_limit: IDLE_LIMIT_DEFAULT,
            connections_per_peer: DescriptorShares::default().iso8583.per_address_max,
        }
    }
}

/// The name in logs of the only door of a switch.
pub const DOOR_NAME_DEFAULT: &str = "iso8583";

/// The parts that all doors of a switch share.
#[derive(Clone)]
pub struct SwitchShare {
    engine: Arc<dyn Submit>,
    secrets: Arc<Secrets>,
    places: Arc<Semaphore>,
    slow_bytes: Arc<SlowBytes>,
    /// The counters of the doors.
    pub counters: Arc<Counters>,
    /// The faults that answers meet.
    pub faults: Option<Arc<FaultPlan>>,
    /// The peers of the doors, with their last messages.
    pub board: Arc<PeerBoard>,
}

impl SwitchShare {
    /// For doors to this engine, with the bounds of a process that may have any number of descriptors.
    pub fn new(engine: Arc<dyn Submit>, secrets: Arc<Secrets>) -> Self {
        let connections_max = DescriptorShares::default().iso8583.max;
        Self {
            engine,
            secrets,
            places: Arc::new(Semaphore::new(connections_max)),
            slow_bytes: Arc::new(SlowBytes::new(SLOW_BYTES_MAX_DEFAULT)),
            counters: Arc::default(),
            faults: None,
            board: Arc::default(),
        }
    }

    /// With so many connections in all; beyond, new ones are closed at once.
    #[must_use]
    pub fn with_connections(self, max: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(max)), ..self }
    }
}

cardswitch_engine::opaque!(SwitchShare);

/// A bound listener that does not accept yet.
pub struct Listener {
    socket: TcpListener,
    options: ListenerOptions,
    places: ConnectionPlaces,
    shared: Arc<DoorParts>,
    board: Arc<PeerBoard>,
    number: DoorNumber,
}

cardswitch_engine::opaque!(Listener);

impl Listener {
    /// Takes the address.
    /// Errors: the address is in use or not this machine's.
    pub async fn bind(options: ListenerOptions, all: &SwitchShare) -> io::Result<Self> {
        let socket = TcpListener::bind(options.address).await?;
        let shared = DoorParts {
            door: options.name.clone(),
            engine: Arc::clone(&all.engine),
            secrets: Arc::clone(&all.secrets),
            dialect: options.dialect.clone(),
            zone: options.zone.clone(),
            faults: all.faults.clone(),
            idle_limit: options.idle_limit,
            bounds: ConnectionBounds::default(),
            slow_bytes: Arc::clone(&all.slow_bytes),
            counters: Arc::clone(&all.counters),
        };
        let places = ConnectionPlaces {
            all: Arc::clone(&all.places),
            of_peers: AddressCounts::default(),
            per_peer_max: options.connections_per_peer,
        };
        let board = Arc::clone(&all.board);
        let number = board.add_door(DoorPlate {
            name: options.name.clone(),
            address: socket.local_addr()?,
            dialect: options.dialect.clone(),
            has_tls: options.tls.is_some(),
            zone: options.zone.clone(),
        });
        Ok(Self { socket, options, places, shared: Arc::new(shared), board, number })
    }

    /// Its name in logs.
    pub fn name(&self) -> &str {
        &self.options.name
    }

    /// The address it listens at.
    /// Errors: the system's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Accepts and serves until `stop` becomes true; then answers what is in flight and returns.
    pub async fn run(self, mut stop: watch::Receiver<bool>) {
        let mut connections = JoinSet::new();
        if let Some(tls) = &self.options.tls {
            connections.spawn(Arc::clone(tls).follow_files(stop.clone()));
        }
        loop {
            let accepted = tokio::select! {
                accepted = self.socket.accept() => accepted,
                () = stopped(&mut stop) => break,
                Some(_) = connections.join_next() => continue,
            };
            match accepted {
                Ok((stream, peer)) => {
                    let Some(stream) = self.admit(stream, peer) else { continue };
                    let place = match self.places.take(peer.ip()) {
                        Ok(place) => place,
                        Err(reason) => {
                            self.refuse(peer, reason);
                            continue;
                        }
                    };
                    let (shared, tls) = (Arc::clone(&self.shared), self.options.tls.clone());
                    let stop = stop.clone();
                    let counters = Arc::clone(&self.shared.counters);
                    counters.connections.add(1);
                    let line = self.board.enter(self.number, peer.ip());
                    connections.spawn(async move {
                        match tls {
                            None => {
                                ConnectionTask::new(stream, peer, line, shared).serve(stop).await
                            }
                            // Apart, so that plain connections need no more memory for it.
                            Some(tls) => {
                                let line = (peer, line);
                                Box::pin(serve_secured(stream, line, shared, &tls, stop)).await;
                            }
                        }
                        counters.connections_closed.add(1);
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
        let refused = self.shared.counters.connections_refused.add(1);
        self.board.note_refused(self.number, peer.ip(), reason);
        if refused.is_power_of_two() {
            let door = self.name();
            tracing::warn!(%peer, door, refused, reason, "connection refused");
        }
    }
}

/// Serves a peer over TLS.
async fn serve_secured(
    stream: TcpStream,
    (peer, line): (SocketAddr, PeerLine),
    shared: Arc<DoorParts>,
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
                line.note_certificate(&name);
                tracing::info!(%peer, name, "peer shows its certificate");
            }
            ConnectionTask::new(stream, peer, line, shared).serve(stop).await;
        }
        Err(refusal) => {
            let cut = shared.counters.add_cut_connection(refusal.reason);
            line.note_cut(&format_args!("the peer {}", refusal.reason));
            if cut.is_power_of_two() {
                let (reason, detail) = (refusal.reason, refusal.detail);
                tracing::warn!(%peer, cut, detail, "connection closed: the peer {reason}");
            }
        }
    }
}

struct ConnectionPlaces {
    all: Arc<Semaphore>,
    of_peers: AddressCounts,
    per_peer_max: usize,
}

struct ConnectionPlace {
    _of_all: OwnedSemaphorePermit,
    _of_peer: AddressPlace,
}

impl ConnectionPlaces {
    /// A place for one more connection of `peer`.
    /// Errors: why there is none.
    fn take(&self, peer: IpAddr) -> Result<ConnectionPlace, &'static str> {
        let of_peer = self.of_peers.take(peer, self.per_peer_max);
        let of_peer = of_peer.ok_or("too many connections of one peer")?;
        let of_all = Arc::clone(&self.all).try_acquire_owned();
        let of_all = of_all.map_err(|_| "too many connections")?;
        Ok(ConnectionPlace { _of_all: of_all, _of_peer: of_peer })
    }
}

#[cfg(test)]
#[path = "listener_tests.rs"]
mod tests;
