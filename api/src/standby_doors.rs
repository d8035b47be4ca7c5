//! The doors of a node that follows: what comes in goes to the leader as it is, byte for byte.
//!
//! Where nobody leads, HTTP is answered 503 with `Retry-After`, and ISO 8583 connections are closed,
//! which a card network takes as it takes any broken line: it connects again and repeats.

use std::io;
use std::net::SocketAddr;

use cardswitch_cluster::Leader;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Duration, timeout};

/// How long the leader may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a client waits for somebody to lead.
const LEADER_PATIENCE: Duration = Duration::from_secs(3);
/// How often a leader that is not reached is tried again.
const RETRY_EVERY: Duration = Duration::from_millis(25);
/// Connections forwarded at a time, of both doors.
const CONNECTIONS_MAX: usize = 4_096;
/// How much of a request is read before it is refused. Units: bytes.
const REFUSED_READ_BYTES: usize = 4_096;
const NO_LEADER: &str = "{\"status\":503,\"code\":\"no_leader\",\
    \"title\":\"No node of the cluster leads\",\"detail\":\"Try again.\"}";

/// A door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ForwardedDoor {
    Http,
    Iso8583,
}

/// Both doors of a follower.
#[derive(Debug)]
pub struct StandbyDoors {
    http: SocketAddr,
    iso8583: SocketAddr,
    leader: watch::Sender<Option<Leader>>,
    accepting: JoinSet<()>,
}

impl StandbyDoors {
    /// Takes both addresses and forwards what comes there.
    /// Errors: one of them is in use.
    pub async fn open(http: SocketAddr, iso8583: SocketAddr) -> io::Result<Self> {
        let (leader, leaders) = watch::channel(None);
        let mut accepting = JoinSet::new();
        let mut addresses = [http, iso8583];
        for (door, address) in
            [ForwardedDoor::Http, ForwardedDoor::Iso8583].into_iter().zip(&mut addresses)
        {
            let listener = TcpListener::bind(*address).await?;
            *address = listener.local_addr()?;
            accepting.spawn(accept(listener, door, leaders.clone()));
        }
        let [http, iso8583] = addresses;
        Ok(Self { http, iso8583, leader, accepting })
    }

    /// Where HTTP is taken.
    #[must_use]
    pub const fn http(&self) -> SocketAddr {
        self.http
    }

    /// Where ISO 8583 is taken.
    #[must_use]
    pub const fn iso8583(&self) -> SocketAddr {
        self.iso8583
    }

    /// Whom the doors are told of leaders by.
    #[must_use]
    pub fn sign(&self) -> LeaderSign {
        LeaderSign(self.leader.clone())
    }

    /// Closes the doors and every connection, so that their addresses are free.
    pub async fn close(mut self) {
        self.accepting.shutdown().await;
    }
}

/// Tells the doors who leads.
#[derive(Clone, Debug)]
pub struct LeaderSign(watch::Sender<Option<Leader>>);

impl LeaderSign {
    /// Another node leads, or nobody that can be reached.
    pub fn led_by(&self, leader: Option<Leader>) {
        match &leader {
            Some(leader) => tracing::info!(node = leader.name, "follows"),
            None => tracing::info!("no node of the cluster leads"),
        }
        self.0.send_replace(leader);
    }
}

async fn accept(
    listener: TcpListener,
    door: ForwardedDoor,
    leaders: watch::Receiver<Option<Leader>>,
) {
    // Ends with its connections: whoever drops the set closes all of them.
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        if connections.len() >= CONNECTIONS_MAX {
            connections.join_next().await;
        }
        let Ok((client, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        connections.spawn(forward(client, door, leaders.clone()));
    }
}

async fn forward(
    mut client: TcpStream,
    door: ForwardedDoor,
    mut leaders: watch::Receiver<Option<Leader>>,
) {
    let reached = timeout(LEADER_PATIENCE, reach_leader(door, &mut leaders)).await;
    let Ok(mut to_leader) = reached else {
        return refuse(client, door).await;
    };
    let _ = (client.set_nodelay(true), to_leader.set_nodelay(true));
    tokio::select! {
        // How it ended is for the two ends to know.
        _ = copy_bidirectional(&mut client, &mut to_leader) => {}
        // What the old leader has not answered by now nobody will answer here.
        _ = leaders.changed() => {}
    }
}

/// Connects to whoever leads, as soon as that works: a change of leader takes a moment.
async fn reach_leader(
    door: ForwardedDoor,
    leaders: &mut watch::Receiver<Option<Leader>>,
) -> TcpStream {
    loop {
        let leader = leaders.borrow_and_update().clone();
        let address = leader.map(|leader| match door {
            ForwardedDoor::Http => leader.http,
            ForwardedDoor::Iso8583 => leader.iso8583,
        });
        if let Some(address) = address
            && let Ok(Ok(connected)) = timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await
        {
            return connected;
        }
        // Who leads is not there yet, or not any more.
        drop(timeout(RETRY_EVERY, leaders.changed()).await);
    }
}

async fn refuse(mut client: TcpStream, door: ForwardedDoor) {
    if door == ForwardedDoor::Iso8583 {
        return;
    }
    // A client that has sent a request reads its answer.
    let mut request = [0; REFUSED_READ_BYTES];
    let said = timeout(CONNECT_TIMEOUT, client.read(&mut request)).await;
    if matches!(said, Ok(Ok(1..))) {
        // Whoever is gone needs no answer.
        drop(client.write_all(no_leader().as_bytes()).await);
        drop(client.shutdown().await);
    }
}

fn no_leader() -> String {
    format!(
        "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n\
         Content-Type: application/problem+json\r\nContent-Length: {}\r\n\r\n{NO_LEADER}",
        NO_LEADER.len()
    )
}
