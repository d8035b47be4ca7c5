//! A node that follows until it leads.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cardswitch_engine::clock::{Clock, Stopwatch};
use cardswitch_engine::domain::ids::RecordSeq;
use cardswitch_engine::engine::{Engine, OpenError, Standby, TakeOver};
use cardswitch_engine::journal::JournalError;
use cardswitch_engine::journal::window::{WindowError, WindowTip, WriterId};

use crate::beats::{Beat, LeaderState};
use crate::clocks::ClockStanding;
use crate::members::{NodeRecord, has_twin, list_nodes, report, withdraw};
use crate::patience::{HeardSign, Patience};
use crate::window::{Keys, NOBODY, Pulse};
use crate::{ClusterAddress, EtcdError, EtcdWindow, NodeStatus, OpenWindowError};

/// How often a follower looks at the window.
const LOOK_EVERY: Duration = Duration::from_millis(25);
/// How often it tells how far it has come.
const RECORD_EVERY: Duration = Duration::from_secs(1);
/// How many times a node that has come looks whether another one tells under its name: one that was there before
/// looks no more.
const TWIN_LOOKS: u32 = 3;
/// How long it waits before it lists the nodes again, where the one that leads was not among them.
const SEEK_EVERY: Duration = Duration::from_millis(100);
/// How long a node leaves the lead to others before it looks again.
const YIELD_PAUSE: Duration = Duration::from_millis(500);
/// How many records the tables of a node that takes the lead may lack: more take seconds, for which nobody answers.
const TABLES_LAG_MAX: u64 = 50_000;
/// How often in a row a node leaves the lead to others for its tables: all others may be gone.
const TABLES_YIELDS_MAX: u32 = 4;
/// How long a leader's door may take to accept a connection, where it is asked whether it lives.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(100);
/// How long it may take to answer a request, where etcd cannot tell.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(200);
/// A request that every door answers somehow, one for TLS, too.
const SIGN_REQUEST: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: leader\r\nConnection: close\r\n\r\n";

/// Why a node follows no more.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// The cluster.
    #[error(transparent)]
    Cluster(#[from] OpenWindowError),
    /// Another node has its name.
    #[error("a node named `{0}` runs already: give this one another name")]
    Twin(String),
    /// The window does not reach back to where this node's journal ends.
    #[error("this node is too far behind: {0}")]
    Behind(WindowError),
    /// The leader has other keys.
    #[error("{keys} is not the same at `{leader}`, which leads: all nodes need the same keys")]
    Keys {
        /// The leader.
        leader: String,
        /// The names of the settings.
        keys: String,
    },
    /// The chain of the cluster does not go on where this node's journal ends, or its files fail.
    #[error(transparent)]
    Chain(OpenError),
}

impl FollowError {
    /// Whether the chain of the cluster is another one than this node's.
    pub const fn is_of_chains(&self) -> bool {
        use WindowError::{Foreign, Parted};
        matches!(
            self,
            Self::Chain(OpenError::Journal(JournalError::Window(Parted(_) | Foreign(_))))
        )
    }
}

/// A node of a cluster.
#[derive(Clone, Debug)]
pub struct Node {
    /// The cluster.
    pub cluster: ClusterAddress,
    /// This run of the node.
    pub writer: WriterId,
    /// Its addresses, and its newest record.
    pub record: NodeRecord,
    /// How long a leader may give no sign of life before this node takes over.
    pub leader_silence: Duration,
    /// Its standing in the cluster.
    pub status: Arc<NodeStatus>,
    /// Set to make it stop.
    pub is_stopping: Arc<AtomicBool>,
}

/// The notices to the runner of a follower's doors.
pub trait FollowerNotices {
    /// The node has the cluster's chain, up to this record.
    /// Errors: that cannot be noted.
    fn joined(&self, tip: RecordSeq) -> std::io::Result<()>;

    /// Another node leads, or no node that can be reached.
    fn led_by(&self, leader: Option<NodeRecord>);
}

/// Follows until this node leads, and returns its engine; none where it is to stop. Blocks.
/// Errors: the node lacks the next batch, or its chain is another one, or its files fail.
pub fn follow(
    mut standby: Standby,
    mut node: Node,
    doors: &dyn FollowerNotices,
) -> Result<Option<Engine>, FollowError> {
    let directory = standby.engine().directory.id();
    let Some(mut window) = open_window(&node, directory)? else { return Ok(None) };
    let mut patience = Patience::new(node.leader_silence, spread_of(&node.record.name));
    let mut lookout = Lookout::new(&node.cluster, doors);
    let (mut is_silent, mut has_joined, mut yields) = (false, false, 0);
    loop {
        if node.is_stopping.load(Ordering::Acquire) {
            return Ok(None);
        }
        let seen = match lookout.look(&mut node, &mut standby, &mut window) {
            Ok(seen) => seen,
            Err(OpenError::Journal(JournalError::Window(WindowError::Unavailable(why)))) => {
                tracing::warn!(%why, "the cluster's etcd cannot be read");
                // A leader that is silent at its door, too, is not waited for again once etcd answers.
                is_silent = is_silent || !lookout.watched.answers();
                if !is_silent {
                    patience.begin_anew();
                }
                continue;
            }
            Err(OpenError::Journal(JournalError::Window(WindowError::Closed))) => return Ok(None),
            Err(OpenError::Journal(JournalError::Window(behind @ WindowError::Trimmed { .. }))) => {
                return Err(FollowError::Behind(behind));
            }
            Err(error) => return Err(lookout.end(error, &node, &mut window)),
        };
        is_silent = false;
        if lookout.has_twin {
            return Err(FollowError::Twin(node.record.name));
        }
        if !std::mem::replace(&mut has_joined, true) {
            let tip = RecordSeq(standby.tip().last_seq);
            doors.joined(tip).map_err(EtcdError::System).map_err(OpenWindowError::Etcd)?;
        }
        if patience.hear(seen.sign) == HeardSign::AnotherSign {
            lookout.watched.require_same_keys(&node.record)?;
        }
        // The door of a new leader closes for a moment, between following and leading.
        let is_refused = seen.state == Some(LeaderState::Leads) && lookout.watched.is_refused();
        let is_led = seen.tip.writer != NOBODY && seen.state != Some(LeaderState::Gone);
        let clock = node.status.clock();
        let may_lead = clock != ClockStanding::Unchecked;
        if !may_lead || (is_led && !is_refused && !patience.is_over()) {
            yields = 0;
            std::thread::sleep(LOOK_EVERY);
            continue;
        }
        let lag = standby.engine().projection_lag().records;
        if let Some(why) = reason_to_yield(&clock, lag, yields) {
            // The log has it each time that the node would have led.
            tracing::warn!("the leader is silent, and this node does not take over: {why}");
            yields += 1;
            patience.begin_anew();
            std::thread::sleep(YIELD_PAUSE);
            continue;
        }
        let why = match (is_led, is_refused) {
            (false, _) => "nobody leads",
            (true, true) => "the leader's door is closed",
            (true, false) => "the leader is silent",
        };
        tracing::info!(epoch = seen.tip.position.epoch.0 + 1, "{why}: trying to lead");
        match standby.take_over(Box::new(window), &seen.tip) {
            Ok(TakeOver::Leads(engine)) => return Ok(Some(engine)),
            Ok(TakeOver::Follows(still)) => standby = *still,
            Err(OpenError::Journal(JournalError::Window(WindowError::Closed))) => return Ok(None),
            Err(error) => return Err(FollowError::Chain(error)),
        }
        let Some(opened) = open_window(&node, directory)? else { return Ok(None) };
        window = opened;
        patience.begin_anew();
    }
}

/// Why a node that could lead leaves it to others, as it did `yields` times before.
fn reason_to_yield(clock: &ClockStanding, tables_lag: u64, yields: u32) -> Option<String> {
    let is_late = tables_lag > TABLES_LAG_MAX && yields < TABLES_YIELDS_MAX;
    let late = is_late.then(|| format!("its tables lack {tables_lag} records"));
    clock.words().map(str::to_owned).or(late)
}

/// Opens the window, as soon as etcd answers; none where the node is to stop.
fn open_window(node: &Node, directory: [u8; 16]) -> Result<Option<EtcdWindow>, OpenWindowError> {
    while !node.is_stopping.load(Ordering::Acquire) {
        match EtcdWindow::open(&node.cluster, directory, node.writer, &node.is_stopping) {
            Err(OpenWindowError::Etcd(EtcdError::Unavailable(why))) => {
                tracing::warn!(%why, "the cluster's etcd cannot be read");
            }
            opened => return opened.map(Some),
        }
        std::thread::sleep(RECORD_EVERY);
    }
    Ok(None)
}

/// Tells the doors who leads until the node stops: while it is made anew, it does not follow.
pub fn seek_leader(node: &Node, doors: &dyn FollowerNotices) {
    let mut lookout = Lookout::new(&node.cluster, doors);
    let is_stopping = || node.is_stopping.load(Ordering::Acquire);
    while !is_stopping() {
        let opened = EtcdWindow::reach(&node.cluster, node.writer, &node.is_stopping);
        if let Ok(mut window) = opened {
            while !is_stopping()
                && let Ok(Pulse { asked, tip, .. }) = window.pulse()
            {
                node.status.note_tip(&tip, asked);
                lookout.seek(tip.writer, &mut window);
                std::thread::sleep(SEEK_EVERY);
            }
        }
        std::thread::sleep(SEEK_EVERY);
    }
}

/// The result of a look at the window.
struct WindowState {
    tip: WindowTip,
    /// Changes while the leader lives.
    sign: Vec<u8>,
    /// The state in the last beat, if that beat is the leader's.
    state: Option<LeaderState>,
}

/// Looks at the window, and tells what is seen.
struct Lookout<'a> {
    keys: Keys,
    doors: &'a dyn FollowerNotices,
    watched: WatchedLeader,
    /// Since when the node has not told how far it is.
    recorded: Option<Stopwatch>,
    /// How many times it has.
    records: u32,
    /// Whether another node tells under its name.
    has_twin: bool,
}

impl<'a> Lookout<'a> {
    fn new(cluster: &ClusterAddress, doors: &'a dyn FollowerNotices) -> Self {
        let (keys, watched) = (Keys::of(cluster), WatchedLeader::default());
        Self { keys, doors, watched, recorded: None, records: 0, has_twin: false }
    }

    fn look(
        &mut self,
        node: &mut Node,
        standby: &mut Standby,
        window: &mut EtcdWindow,
    ) -> Result<WindowState, OpenError> {
        let Pulse { asked, tip, beat: beat_bytes, .. } =
            window.pulse().map_err(JournalError::Window)?;
        node.status.note_tip(&tip, asked);
        if self.recorded.is_none_or(|since| since.elapsed() > RECORD_EVERY) {
            if (1..=TWIN_LOOKS).contains(&self.records) {
                self.has_twin |= has_twin(&mut window.client, &self.keys, &node.record);
            }
            self.records = self.records.saturating_add(1);
            node.record.reach(standby.tip().last_seq, Clock::System.now().0);
            // The next one tells more.
            drop(report(&mut window.client, &self.keys, &node.record, &node.status));
            self.recorded = Some(Stopwatch::start());
        }
        self.seek(tip.writer, window);
        // Last, for it may take long, and clients ask meanwhile.
        standby.catch_up_to(&tip, window)?;
        let beat: Option<Beat> = serde_json::from_slice(&beat_bytes).ok();
        let beat = beat.filter(|beat| beat.writer == tip.writer.to_string());
        let mut sign = tip.position.to_bytes().to_vec();
        sign.extend(beat_bytes);
        Ok(WindowState { tip, sign, state: beat.map(|beat| beat.state) })
    }

    /// Why the node follows no more. One that is refused for its chain leaves the list of nodes.
    fn end(&self, error: OpenError, node: &Node, window: &mut EtcdWindow) -> FollowError {
        let error = FollowError::Chain(error);
        if error.is_of_chains() {
            let withdrawn = withdraw(&mut window.client, &self.keys, &node.record);
            withdrawn.unwrap_or_else(|why| tracing::warn!(%why, "the node stays listed"));
        }
        error
    }

    /// Finds the leader, unless it is known.
    fn seek(&mut self, leader: WriterId, window: &mut EtcdWindow) {
        if self.watched.is_sought(leader) {
            let nodes = list_nodes(&mut window.client, &self.keys);
            self.watched.seek(leader, nodes, self.doors);
        }
    }
}

/// A connection to the leader's door: where it breaks and no other is accepted, the process is dead,
/// which is known long before its silence is.
#[derive(Debug, Default)]
struct WatchedLeader {
    writer: Option<WriterId>,
    /// When it was sought in vain: etcd gave no list, or one without it.
    missed: Option<Stopwatch>,
    record: Option<NodeRecord>,
    connection: Option<TcpStream>,
}

impl WatchedLeader {
    fn is_sought(&self, writer: WriterId) -> bool {
        let is_due = self.missed.is_some_and(|since| since.elapsed() > SEEK_EVERY);
        self.writer != Some(writer) || is_due
    }

    /// Finds the node of the run `writer` in a list of all nodes, and tells who leads.
    fn seek(
        &mut self,
        writer: WriterId,
        nodes: Result<Vec<NodeRecord>, EtcdError>,
        doors: &dyn FollowerNotices,
    ) {
        let nodes = nodes.unwrap_or_else(|error| {
            tracing::warn!(%error, "the nodes of the cluster cannot be listed");
            Vec::new()
        });
        let leader = nodes.iter().find(|node| node.is_of(writer)).cloned();
        let is_missed = leader.is_none() && writer != NOBODY;
        if leader.is_some() || self.writer != Some(writer) {
            doors.led_by(leader.clone());
        }
        let missed = is_missed.then(Stopwatch::start);
        *self = Self { writer: Some(writer), missed, record: leader, connection: None };
    }

    /// Errors: the leader, which lives, has other keys than this node.
    fn require_same_keys(&self, own: &NodeRecord) -> Result<(), FollowError> {
        let Some(leader) = &self.record else { return Ok(()) };
        let keys = Vec::from_iter(own.settings.differing_keys(&leader.settings)).join(", ");
        let is_same = keys.is_empty();
        is_same.then_some(()).ok_or_else(|| FollowError::Keys { leader: leader.name.clone(), keys })
    }

    fn http(&self) -> Option<SocketAddr> {
        self.record.as_ref().map(|leader| leader.http)
    }

    /// Whether the leader answers at its door; true where the door's address is unknown.
    fn answers(&self) -> bool {
        let Some(http) = self.http() else { return true };
        let ask = || {
            let mut connection = TcpStream::connect_timeout(&http, CONNECT_TIMEOUT)?;
            connection.set_read_timeout(Some(ANSWER_TIMEOUT))?;
            connection.write_all(SIGN_REQUEST)?;
            connection.read(&mut [0])
        };
        ask().is_ok()
    }

    /// Whether the leader's door was open, and is not any more.
    fn is_refused(&mut self) -> bool {
        let Some(http) = self.http() else { return false };
        if self.connection.as_ref().is_some_and(is_open) {
            return false;
        }
        let was_open = self.connection.take().is_some();
        match TcpStream::connect_timeout(&http, CONNECT_TIMEOUT) {
            Ok(connection) => {
                let is_watchable = connection.set_nonblocking(true).is_ok();
                self.connection = is_watchable.then_some(connection);
                false
            }
            Err(error) => was_open && error.kind() == ErrorKind::ConnectionRefused,
        }
    }
}

fn is_open(connection: &TcpStream) -> bool {
    match connection.peek(&mut [0]) {
        Ok(len) => len > 0,
        Err(error) => error.kind() == ErrorKind::WouldBlock,
    }
}

/// A number below 1 that differs from node to node.
fn spread_of(name: &str) -> f64 {
    let sum = name.bytes().fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    f64::from(sum % 1_000) / 1_000.0
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use parking_lot::Mutex;

    use super::*;
    use crate::members::tests::node;

    /// The names of those who led, by the notices.
    #[derive(Default)]
    struct Notices(Mutex<Vec<Option<String>>>);

    impl FollowerNotices for Notices {
        fn joined(&self, _: RecordSeq) -> std::io::Result<()> {
            Ok(())
        }

        fn led_by(&self, leader: Option<NodeRecord>) {
            self.0.lock().push(leader.map(|leader| leader.name));
        }
    }

    /// Once, a follower that could not list the nodes when another one took the lead forwarded nothing any more: it
    /// looked once for each leader.
    #[test]
    fn a_leader_that_was_not_found_is_sought_again() {
        let (mut watched, doors) = (WatchedLeader::default(), Notices::default());
        let (first, second) = (WriterId(1), WriterId(2));
        let sought_later = |watched: &WatchedLeader, writer| {
            std::thread::sleep(2 * SEEK_EVERY);
            watched.is_sought(writer)
        };
        watched.seek(NOBODY, Ok(vec![node("a", first)]), &doors);
        assert!(!sought_later(&watched, NOBODY), "nobody is to be found");
        assert!(watched.is_sought(first));
        watched.seek(first, Err(EtcdError::Unavailable("it elects".to_owned())), &doors);
        assert!(sought_later(&watched, first));
        watched.seek(first, Ok(vec![node("b", second)]), &doors);
        assert!(sought_later(&watched, first), "its record comes later");
        watched.seek(first, Ok(vec![node("b", second), node("a", first)]), &doors);
        assert!(!sought_later(&watched, first));
        assert!(watched.is_sought(second));
        assert_eq!(*doors.0.lock(), [None, None, Some("a".to_owned())], "each is told once");
    }

    /// Once, a node whose tables were far behind led as soon as any other, and answered nothing for seconds.
    #[test]
    fn a_node_leaves_the_lead_to_others_for_its_clock_and_for_a_while_for_its_tables() {
        let level = ClockStanding::Level;
        assert_eq!(reason_to_yield(&level, TABLES_LAG_MAX, 0), None);
        assert!(reason_to_yield(&level, TABLES_LAG_MAX + 1, TABLES_YIELDS_MAX - 1).is_some());
        assert_eq!(reason_to_yield(&level, u64::MAX, TABLES_YIELDS_MAX), None, "nobody else leads");
        let apart = ClockStanding::Apart("its clock is wrong".to_owned());
        assert!(reason_to_yield(&apart, 0, u32::MAX).is_some());
    }

    fn watched(http: Option<SocketAddr>) -> WatchedLeader {
        let record = http.map(|http| NodeRecord { http, ..node("leader", WriterId(1)) });
        WatchedLeader { record, ..WatchedLeader::default() }
    }

    #[test]
    fn a_leader_answers_where_its_door_says_anything_at_all() {
        assert!(watched(None).answers(), "nobody knows where its door is");
        let door = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = door.local_addr().unwrap();
        // The system takes connections for a process that is stopped.
        assert!(!watched(Some(address)).answers());
        let answering = std::thread::spawn(move || {
            drop(door.accept());
            let (mut connection, _) = door.accept().unwrap();
            connection.write_all(b"HTTP/1.1 503").unwrap();
        });
        assert!(watched(Some(address)).answers());
        answering.join().unwrap();
        assert!(!watched(Some(address)).answers(), "nobody listens");
    }
}
