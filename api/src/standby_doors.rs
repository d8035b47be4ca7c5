//! The doors of a node that follows.
//!
//! HTTP goes to a `HttpSide` that answers some reads itself and forwards the rest. With TLS, and at ISO 8583
//! doors, connections go to the leader's door of the same name as they are, byte for byte: dialect, TLS and codes
//! are the leader's. Addresses that are no peers of a door are turned away here, since the leader sees this
//! node's address. Files of TLS are read again when they change, so that it can lead with them at once.
//!
//! While no node leads, ISO 8583 connections are closed. A card network treats that as any broken line:
//! it connects again and repeats. HTTP is answered 503 with `Retry-After`.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use cardswitch_cluster::{FollowerNotices, NodeRecord};
use cardswitch_edge::peers::PeerNetwork;
use cardswitch_engine::domain::ids::RecordSeq;
use cardswitch_network::listener::ListenerOptions;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Duration, timeout};

use crate::forwarding::{LEADER_PATIENCE, reach_leader};
use crate::http_server::HttpSide;
use crate::opened_files::OpenedFiles;

/// Connections at a time at a door.
const CONNECTIONS_MAX: usize = 4_096;

#[derive(Clone, Debug)]
enum StandbyDoor {
    /// Requests are answered here, or forwarded.
    Http(Arc<HttpSide>),
    /// Connections are forwarded as they are.
    SecureHttp,
    /// The same.
    Iso8583(Arc<MessageDoor>),
}

/// An ISO 8583 door.
#[derive(Debug)]
struct MessageDoor {
    /// The name of a further door.
    name: Option<String>,
    peers: Vec<PeerNetwork>,
}

/// All doors of a follower.
#[derive(Debug)]
pub struct StandbyDoors {
    /// The address of the HTTP door.
    pub http: SocketAddr,
    /// Addresses of the ISO 8583 doors, the first door first.
    pub iso8583: Vec<SocketAddr>,
    leader: watch::Sender<Option<NodeRecord>>,
    stop: watch::Sender<bool>,
    /// Until they are served.
    listeners: Vec<TcpListener>,
    accepting: JoinSet<()>,
}

impl StandbyDoors {
    /// Takes the address of HTTP and those of the ISO 8583 doors.
    /// Errors: one of them is in use; the error names it.
    pub async fn bind(http: SocketAddr, iso8583: &[ListenerOptions]) -> io::Result<Self> {
        let (mut listeners, mut addresses) = (Vec::new(), Vec::new());
        for address in std::iter::once(http).chain(iso8583.iter().map(|door| door.address)) {
            let listener = TcpListener::bind(address).await;
            let listener = listener
                .map_err(|error| io::Error::new(error.kind(), format!("{address}: {error}")))?;
            addresses.push(listener.local_addr()?);
            listeners.push(listener);
        }
        let (leader, stop) = (watch::Sender::new(None), watch::Sender::new(false));
        let (http, iso8583) = (addresses[0], addresses.split_off(1));
        Ok(Self { http, iso8583, leader, stop, listeners, accepting: JoinSet::new() })
    }

    /// Takes connections: those over HTTP are served by `side` where there is one, and those over ISO 8583
    /// are of the peers that their doors name.
    pub fn serve(&mut self, side: Option<Arc<HttpSide>>, files: &OpenedFiles) {
        for tls in files.tls_doors() {
            self.accepting.spawn(Arc::clone(tls).follow_files(self.stop.subscribe()));
        }
        let http = side.map_or(StandbyDoor::SecureHttp, StandbyDoor::Http);
        let iso8583 = files.iso8583.iter().enumerate().map(|(place, door)| {
            let name = (place > 0).then(|| door.name.clone());
            StandbyDoor::Iso8583(Arc::new(MessageDoor { name, peers: door.peers.clone() }))
        });
        let doors = std::iter::once(http).chain(iso8583);
        for (listener, door) in self.listeners.drain(..).zip(doors) {
            let told = (self.leader.subscribe(), self.stop.subscribe());
            self.accepting.spawn(accept(listener, door, told));
        }
    }

    /// Receives the leader at each change.
    pub fn leaders(&self) -> watch::Receiver<Option<NodeRecord>> {
        self.leader.subscribe()
    }

    /// Turns true when answers that would never end by themselves are to end.
    pub fn stopped(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    /// The sign by which the doors learn of leaders.
    pub fn sign(&self) -> LeaderSign {
        LeaderSign(self.leader.clone())
    }

    /// Closes the doors and every connection, so that their addresses are free.
    pub async fn close(mut self) {
        self.stop.send_replace(true);
        self.accepting.shutdown().await;
    }
}

/// Tells the doors which node leads.
#[derive(Clone, Debug)]
pub struct LeaderSign(watch::Sender<Option<NodeRecord>>);

impl FollowerNotices for LeaderSign {
    fn joined(&self, _: RecordSeq) -> io::Result<()> {
        Ok(())
    }

    fn led_by(&self, leader: Option<NodeRecord>) {
        match &leader {
            Some(leader) => tracing::info!(node = leader.name, "follows"),
            None => tracing::info!("no node of the cluster leads"),
        }
        self.0.send_replace(leader);
    }
}

async fn accept(
    listener: TcpListener,
    door: StandbyDoor,
    (leaders, stopped): (watch::Receiver<Option<NodeRecord>>, watch::Receiver<bool>),
) {
    // Ends with its connections: dropping the set closes all of them.
    let mut connections = JoinSet::new();
    let mut refused = 0_u64;
    loop {
        while connections.try_join_next().is_some() {}
        if connections.len() >= CONNECTIONS_MAX {
            connections.join_next().await;
        }
        let Ok((client, peer)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        match &door {
            StandbyDoor::Http(side) => {
                let served = Arc::clone(side).serve_one(client, peer.ip(), stopped.clone());
                connections.spawn(served);
            }
            StandbyDoor::SecureHttp => {
                connections.spawn(forward(client, |leader| Some(leader.http), leaders.clone()));
            }
            StandbyDoor::Iso8583(door) if is_admitted(&door.peers, peer.ip()) => {
                let door = Arc::clone(door);
                let at = move |leader: &NodeRecord| door.of(leader);
                connections.spawn(forward(client, at, leaders.clone()));
            }
            StandbyDoor::Iso8583(_) => {
                refused += 1;
                if refused.is_power_of_two() {
                    tracing::warn!(%peer, refused, "ISO 8583 connection refused: no peer");
                }
            }
        }
    }
}

fn is_admitted(peers: &[PeerNetwork], peer: IpAddr) -> bool {
    peers.iter().any(|network| network.contains(peer))
}

impl MessageDoor {
    /// Its address at the leader, if the leader has it.
    fn of(&self, leader: &NodeRecord) -> Option<SocketAddr> {
        let Some(name) = &self.name else { return Some(leader.iso8583) };
        leader.iso8583_doors.get(name).copied()
    }
}

async fn forward(
    mut client: TcpStream,
    door: impl Fn(&NodeRecord) -> Option<SocketAddr>,
    mut leaders: watch::Receiver<Option<NodeRecord>>,
) {
    let reached = reach_leader(&mut leaders, &door, TcpStream::connect);
    let Ok(mut to_leader) = timeout(LEADER_PATIENCE, reached).await else {
        let leader = leaders.borrow();
        if let Some(leader) = leader.as_ref().filter(|leader| door(leader).is_none()) {
            tracing::warn!(node = leader.name, "connection closed: the leader has no such door");
        }
        return;
    };
    let _ = (client.set_nodelay(true), to_leader.set_nodelay(true));
    tokio::select! {
        // The two ends know how it ended.
        _ = copy_bidirectional(&mut client, &mut to_leader) => {}
        // A message that the old leader has not answered by now stays without an answer here.
        _ = leaders.changed() => {}
    }
}
