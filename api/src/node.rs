//! A node of a cluster: it follows until it leads, then it is a switch like any other, until a stop or
//! another leader ends that.
//!
//! A node that leads no more begins again as a new process image: nothing outlives its memory,
//! which may be ahead of the chain.

use std::fmt::Display;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use cardswitch_cluster::{
    Beats, ClusterAddress, EtcdError, EtcdNotes, FollowError, FollowerNotices, LeaderEnd, Node,
    NodeRecord, NodeStatus, OpenWindowError, SettingDigests, follow, seek_leader, watch_etcd,
};
use cardswitch_edge::peers::PeerNetwork;
use cardswitch_engine::domain::ids::RecordSeq;
use cardswitch_engine::engine::Engine;
use cardswitch_engine::journal::window::WriterId;
use cardswitch_engine::store::{Store, WaitPurpose, Watermark};
use cardswitch_identity::receipts::{ReceiptFiles, named_receipts};
use cardswitch_network::listener::DOOR_NAME_DEFAULT;
use cardswitch_notify::mail::cluster_mail::NotedMail;
use cardswitch_notify::mail::{MailError, open_directory};
use cardswitch_notify::webhooks::deliveries::DeliveriesError;
use cardswitch_notify::webhooks::notes::{LeaderNotes, NoteBounds, NotedDeliveries, NotesError};
use cardswitch_secrets::Secrets;
use cardswitch_secrets::master_key::rotation::MasterKeys;
use cardswitch_secrets::master_key::source::MasterKeySource;
use tokio::runtime::Handle;
use uuid::Uuid;

use crate::commands::{Failure, StopSignal, announce};
use crate::config::{ConfigError, Settings};
use crate::doors::parse_networks;
use crate::forwarding::{Forwarding, LEADER_PATIENCE};
use crate::handed_backup::BackupDesk;
use crate::handler_state::{StateParts, following_state};
use crate::http_server::HttpSide;
use crate::node_clocks::watch_clocks;
use crate::node_door::{NodeDesk, NodeDoor};
use crate::node_image::begin_again;
use crate::node_mark::{cluster_of, mark};
use crate::node_pan_keys::{FollowerPanKeys, PanKeyNodes};
use crate::node_peers::NodePeers;
use crate::node_renewal::renew;
use crate::node_settings::{digests_of, warn_of_differing};
use crate::opened_files::OpenedFiles;
use crate::opening::{KeyedDirectory, UnusedKey, open_standby, settle_keys};
use crate::server::{
    DoorAddress, HandoverParts, OperatorListener, Server, StartError, SwitchParts, address_line,
    shares_of,
};
use crate::standby_doors::{LeaderSign, StandbyDoors};
use crate::standby_reads::StandbyReads;
use crate::telemetry::Telemetry;
use crate::telemetry::cluster::{line_of, show_cluster};

/// The time for which a leader that has closed its doors goes on with its requests while etcd does not answer.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// Serves a data directory as a node: runs until Ctrl-C or SIGTERM, or until it can go on no more.
pub async fn serve(
    place: KeyedDirectory<'_>,
    mut settings: Settings,
    mut stop: StopSignal,
) -> Result<(), Failure> {
    settings = settings.checked()?;
    let files = OpenedFiles::open(&settings)?;
    let doors = StandbyDoors::bind(settings.http, &files.iso8583).await;
    let mut doors = doors.map_err(|error| Failure::new(format!("cannot listen at {error}")))?;
    // A port that was free is the leader's, too.
    settings.http = doors.http;
    let further = settings.iso8583_doors.iter_mut().map(|door| &mut door.address);
    let own = std::iter::once(&mut settings.iso8583).chain(further);
    own.zip(&doors.iso8583).for_each(|(address, bound)| *address = *bound);
    let files = files.at(&doors.iso8583);
    let address = SocketAddr::new(settings.http.ip(), settings.cluster.port);
    let door = NodeDoor::open(address).await;
    let door = door.map_err(|error| {
        Failure::new(format!("cannot listen for other nodes at {address}: {error}"))
    })?;
    let node = node_of(&settings, door.address)?;
    let operators = OperatorListener::start(&settings).await?;
    let side = standby_side(&settings, &operators.telemetry)?;
    doors.serve(side.clone(), &files);
    show_cluster(&operators.telemetry, &node);
    watch_etcd(&node)?;
    tokio::spawn(watch_clocks(node.clone(), Arc::clone(&door.desk)));
    let is_stopping = Arc::clone(&node.is_stopping);
    let telemetry = &operators.telemetry;
    let (side_in_front, operators_at) = (side.as_ref(), operators.address);
    let fronts = Fronts {
        doors: &doors,
        side: side_in_front,
        door: &door,
        telemetry,
        operators: operators_at,
    };
    let following = follow_until_it_leads(place, (&settings, &files), &node, fronts);
    let led = tokio::select! {
        led = following => led?,
        () = stop.received() => {
            // The work may break off anywhere: its files allow that. What opens them hears of no stop, and the
            // runtime would wait for it.
            if door.desk.get().is_none() {
                std::process::exit(0);
            }
            is_stopping.store(true, Ordering::Release);
            return Ok(());
        }
    };
    let (engine, secrets) = match led {
        FollowEnd::Leads(led) => *led,
        FollowEnd::Stopped => return Ok(()),
        FollowEnd::Behind => {
            let (sought, sign) = (node.clone(), doors.sign());
            std::thread::spawn(move || seek_leader(&sought, &sign));
            tokio::select! {
                () = renew(place, &node.cluster, &telemetry.health_notes) => {
                    return begin_again(place.master_key, &mut stop).await;
                }
                () = stop.received() => return Ok(()),
            }
        }
    };
    doors.close().await;
    drop(side);
    lead(place, (settings, files), node, (engine, secrets, operators, &door), stop).await
}

fn doors_of(settings: &Settings) -> Vec<DoorAddress> {
    let first = DoorAddress { name: DOOR_NAME_DEFAULT.to_owned(), address: settings.iso8583 };
    let further = settings.iso8583_doors.iter();
    let further =
        further.map(|door| DoorAddress { name: door.name.clone(), address: door.address });
    std::iter::once(first).chain(further).collect()
}

fn node_of(settings: &Settings, door: SocketAddr) -> Result<Node, ConfigError> {
    let cluster = settings.cluster.clone();
    let (Some(address), Some(name)) = (cluster.journal, cluster.node) else {
        return Err(ConfigError::NodeUnnamed);
    };
    let reached = |door: SocketAddr| match cluster.peer {
        Some(peer) => Ok(SocketAddr::new(peer, door.port())),
        None if is_anywhere(door.ip()) => {
            let what = "cluster.peer (the address at which other nodes reach this one)";
            Err(ConfigError::Value(what, String::new()))
        }
        None => Ok(door),
    };
    let writer = WriterId(Uuid::new_v4().as_u128());
    let further = settings.iso8583_doors.iter();
    let further = further.map(|door| Ok((door.name.clone(), reached(door.address)?)));
    let further = further.collect::<Result<_, ConfigError>>()?;
    let record = NodeRecord {
        name,
        writer: writer.to_string(),
        http: reached(settings.http)?,
        iso8583: reached(settings.iso8583)?,
        iso8583_doors: further,
        door: reached(door)?,
        // Until its keys are open.
        settings: SettingDigests::default(),
        record: 0,
        at: 0,
    };
    let leader_silence = Duration::from_millis(cluster.leader_silence_ms);
    let (status, is_stopping) = (Arc::default(), Arc::default());
    Ok(Node { cluster: address, writer, record, leader_silence, status, is_stopping })
}

const fn is_anywhere(ip: IpAddr) -> bool {
    ip.is_unspecified()
}

/// The sides of a following node that others see.
#[derive(Clone, Copy, Debug)]
struct Fronts<'a> {
    doors: &'a StandbyDoors,
    side: Option<&'a Arc<HttpSide>>,
    door: &'a NodeDoor,
    telemetry: &'a Arc<Telemetry>,
    operators: SocketAddr,
}

/// The HTTP side of a node that follows; none where TLS ends at the leader.
fn standby_side(
    settings: &Settings,
    telemetry: &Arc<Telemetry>,
) -> Result<Option<Arc<HttpSide>>, ConfigError> {
    if settings.tls.is_some() {
        return Ok(None);
    }
    let shares = shares_of(settings);
    let side = HttpSide::new(Arc::clone(telemetry), proxies_of(settings)?, shares.http);
    Ok(Some(Arc::new(side.waiting(LEADER_PATIENCE))))
}

fn proxies_of(settings: &Settings) -> Result<Vec<PeerNetwork>, ConfigError> {
    parse_networks("trusted_proxies", &settings.trusted_proxies)
}

/// Why a node follows no more.
enum FollowEnd {
    /// It leads.
    Leads(Box<(Engine, Secrets)>),
    /// It was told to stop.
    Stopped,
    /// The window begins behind the newest batch that it has.
    Behind,
}

/// Opens the directory and follows.
async fn follow_until_it_leads(
    place: KeyedDirectory<'_>,
    (settings, files): (&Settings, &OpenedFiles),
    node: &Node,
    fronts: Fronts<'_>,
) -> Result<FollowEnd, Failure> {
    let (data, master_key) = (place.data.to_owned(), place.master_key.clone());
    let (retention, mut node, sign) = (settings.retention, node.clone(), fronts.doors.sign());
    let (telemetry, desk) = (Arc::clone(fronts.telemetry), Arc::clone(&fronts.door.desk));
    let (side, settings, files) = (fronts.side.cloned(), settings.clone(), files.clone());
    let addresses = address_line(settings.http, &doors_of(&settings), fronts.operators);
    let ready = format!("follows {addresses} node={}", node.record.name);
    let (leaders, stopped) = (fronts.doors.leaders(), fronts.doors.stopped());
    let runtime = Handle::current();
    let following = tokio::task::spawn_blocking(move || {
        let place = KeyedDirectory { data: &data, master_key: &master_key };
        let (standby, secrets) =
            open_standby(place, retention, &node.cluster, &telemetry.recovery)?;
        node.record.settings = digests_of(&secrets, &settings, &files);
        announce(ready);
        let receipts = open_receipts(&data, (&node, secrets.clone()), runtime)?;
        if let Some(side) = side {
            let parts = StateParts {
                secrets: Arc::new(secrets.clone()),
                receipts: Arc::clone(&receipts),
                trusted_proxies: proxies_of(&settings)?,
                shares: shares_of(&settings),
                // A following node answers no message and sends no webhook.
                faults: None,
                telemetry: Arc::clone(&telemetry),
                stopped,
            };
            let engine = standby.engine().for_reading();
            let state = following_state(&data, &settings, settings.http, (engine, parts))?;
            let (switch, status) = (state.switch.clone(), Arc::clone(&node.status));
            let forwarding = Arc::new(Forwarding::new(leaders));
            let compat = settings.compat;
            let reads = StandbyReads { forwarding, switch: switch.clone(), status, compat };
            side.open_to_follow(reads.routes(state), switch);
        }
        let store = Arc::clone(&standby.engine().store);
        let pan_keys =
            FollowerPanKeys::new((data.clone(), secrets.clone()), store, Arc::clone(&node.status));
        let pan_keys = Arc::new(pan_keys);
        drop(desk.set(NodeDesk {
            secrets: secrets.clone(),
            pan_keys: Arc::clone(&pan_keys),
            receipts: Arc::clone(&receipts),
            master_keys: Arc::new(MasterKeys::new(&data, master_key)),
            joining: tokio::sync::Mutex::default(),
            backups: OnceLock::new(),
        }));
        telemetry.set_following();
        let tables = (Arc::clone(&standby.engine().store), Arc::clone(&standby.engine().watermark));
        let (cluster, own) = (node.cluster.clone(), node.record.clone());
        let followed = StandbyParts { sign, data: data.clone(), cluster, own, receipts, tables };
        let (was_node, own) = (cluster_of(&data)?.is_some(), standby.engine().for_reading());
        let end = follow(standby, node, &followed);
        pan_keys.close();
        let engine = match end {
            Ok(Some(engine)) => engine,
            Ok(None) => return Ok(FollowEnd::Stopped),
            Err(behind @ FollowError::Behind(_)) => {
                tracing::warn!("{behind}");
                return Ok(FollowEnd::Behind);
            }
            Err(error) if is_etcd_behind(&error, was_node) => {
                return Err(etcd_behind(&error, own.durable_seq()));
            }
            Err(error) => return Err(Failure::new(error)),
        };
        Ok(FollowEnd::Leads(Box::new((engine, secrets))))
    });
    following.await?
}

/// Whether etcd lacks what this node's journal has, as after its loss; a node has been one of its cluster before.
fn is_etcd_behind(error: &FollowError, was_node: bool) -> bool {
    match error {
        FollowError::Cluster(OpenWindowError::Absent(_)) => was_node,
        error => error.is_of_chains(),
    }
}

fn etcd_behind(error: &FollowError, newest: RecordSeq) -> Failure {
    let why = match error {
        FollowError::Cluster(OpenWindowError::Absent(cluster)) => {
            format!("`{cluster}` is no cluster any more")
        }
        error => error.to_string(),
    };
    Failure::new(format!(
        "{why}. If etcd was lost or put back: stop all nodes, `cardswitch cluster leave` each, and \
         `cardswitch cluster adopt` the one with the newest record under a new name; this one has record {}. \
         Else make this node anew with `cardswitch cluster join`",
        newest.0
    ))
}

fn open_receipts(
    data: &Path,
    (node, secrets): (&Node, Secrets),
    runtime: Handle,
) -> Result<Arc<ReceiptFiles>, Failure> {
    let (own, status) = (node.record.name.clone(), Arc::clone(&node.status));
    let files =
        ReceiptFiles::open(data).map_err(|error| Failure::new(StartError::Receipts(error)))?;
    Ok(Arc::new(files.with_peers(Box::new(NodePeers { own, status, secrets, runtime }))))
}

/// The parts that act while the node follows.
struct StandbyParts {
    sign: LeaderSign,
    data: PathBuf,
    cluster: ClusterAddress,
    own: NodeRecord,
    receipts: Arc<ReceiptFiles>,
    tables: (Arc<Store>, Arc<Watermark>),
}

/// Fetches the receipts that were handed in while this node was away.
fn fetch_receipts(receipts: &ReceiptFiles, store: &Store) {
    match store.read().and_then(|tables| named_receipts(&tables)) {
        Ok(named) => receipts.fetch_missing(&named),
        Err(error) => tracing::warn!(%error, "receipts are fetched when they are asked for"),
    }
}

impl FollowerNotices for StandbyParts {
    fn joined(&self, tip: RecordSeq) -> io::Result<()> {
        let (receipts, (store, watermark)) = (Arc::clone(&self.receipts), self.tables.clone());
        let reached = watermark.clone();
        let fetch = move || drop(std::thread::spawn(move || fetch_receipts(&receipts, &store)));
        reached.on_reached(tip, WaitPurpose::Read, Box::new(fetch));
        mark(&self.data, &self.cluster, Some(&self.own.name)).map_err(io::Error::other)
    }

    fn led_by(&self, leader: Option<NodeRecord>) {
        if let Some(leader) = &leader {
            warn_of_differing(&self.own, leader);
        }
        self.sign.led_by(leader);
    }
}

async fn lead(
    place: KeyedDirectory<'_>,
    checked: (Settings, OpenedFiles),
    mut node: Node,
    (engine, secrets, operators, door): (Engine, Secrets, OperatorListener, &NodeDoor),
    mut stop: StopSignal,
) -> Result<(), Failure> {
    let is_stopping = Arc::clone(&node.is_stopping);
    node.record.settings = digests_of(&secrets, &checked.0, &checked.1);
    // It shows that it lives before it opens its doors, or another node would lose patience.
    let served = Arc::<OnceLock<Weak<Engine>>>::default();
    let newest = newest_record(Arc::clone(&served), Arc::clone(&node.status));
    let cluster = line_of(&node);
    let nodes = PanKeyNodes { node: node.clone(), secrets: secrets.clone() };
    let signs = (newest, engine.log_stall());
    let (beats, handover) = match take_over(place.data, node, signs).await {
        Err(TakeOverError::Lost(reason)) => {
            return lose_lead(reason, place.master_key, &mut stop).await;
        }
        taken => taken?,
    };
    // It may wait long for the tables.
    let settled = tokio::task::spawn_blocking(move || {
        settle_keys(&engine, &secrets, UnusedKey::Dropped).map(|()| (engine, secrets))
    });
    let (engine, secrets) = settled.await??;
    let desk = door.desk.get().ok_or_else(|| Failure::new("the node has no receipts"))?;
    let (receipts, master_keys) = (Arc::clone(&desk.receipts), Arc::clone(&desk.master_keys));
    let opened =
        SwitchParts { engine, secrets, operators, receipts, handover, cluster, nodes, master_keys };
    let server = match Server::start_with(place, checked, Some(opened)).await {
        Err(
            reason @ (StartError::Deliveries(DeliveriesError::Elsewhere(_))
            | StartError::Outbox(MailError::Write(_))),
        ) => return lose_lead(reason, place.master_key, &mut stop).await,
        started => started?,
    };
    beats.announce_doors();
    drop(served.set(Arc::downgrade(&server.engine)));
    let permit = Arc::clone(&server.backups);
    drop(desk.backups.set(BackupDesk::new(&server.engine, desk.secrets.clone(), permit)));
    announce(format_args!("ready {}", server.addresses()));
    let end = tokio::select! {
        () = stop.received() => LeadEnd::Stopped,
        reason = server.failed() => LeadEnd::Lost(reason),
        end = beats.ended() => match end {
            LeaderEnd::Fenced(writer) => {
                LeadEnd::Lost(format!("another node leads, as writer {writer}"))
            }
            LeaderEnd::Gone(why) => LeadEnd::Lost(why),
            LeaderEnd::SteppedDown => LeadEnd::SteppedDown,
        },
    };
    if let LeadEnd::Lost(reason) = end {
        return lose_lead(reason, &desk.master_keys.source(), &mut stop).await;
    }
    tracing::info!("stopping");
    beats.announce_stop();
    // Normal work: etcd is waited for as long as ever.
    let mut is_told_again = false;
    let again = async {
        stop.received().await;
        is_told_again = true;
    };
    let kept = server.announce_stop(again).await;
    let patience = close_after_patience(is_stopping);
    server.close().await;
    patience.abort();
    drop(tokio::task::spawn_blocking(move || beats.finish()).await);
    kept.map_err(Failure::new)?;
    if end == LeadEnd::SteppedDown && !is_told_again {
        return begin_again(&desk.master_keys.source(), &mut stop).await;
    }
    Ok(())
}

async fn lose_lead(
    reason: impl Display,
    master_key: &MasterKeySource,
    stop: &mut StopSignal,
) -> Result<(), Failure> {
    tracing::warn!(%reason, "this node leads no more: it begins again");
    begin_again(master_key, stop).await
}

/// Shows that the node lives, and takes over what its cluster keeps for the node that leads.
async fn take_over(
    data: &Path,
    node: Node,
    (newest, log_stall): (
        impl Fn() -> u64 + Send + 'static,
        impl Fn() -> Duration + Send + 'static,
    ),
) -> Result<(Beats, HandoverParts), TakeOverError> {
    let data = data.to_path_buf();
    let taken = tokio::task::spawn_blocking(move || {
        let beats = Beats::start(node.clone(), newest, log_stall)?;
        let notes = LeaderNotes::new(EtcdNotes::open(&node)?, NoteBounds::ETCD);
        let notes = Arc::new(notes);
        let directory = open_directory(&data).map_err(TakeOverError::Mail)?;
        let mail = NotedMail::take_over(Arc::clone(&notes), &directory, std::thread::sleep)?;
        let deliveries = Box::new(NotedDeliveries(notes));
        Ok((beats, HandoverParts { deliveries, mail: Arc::new(mail) }))
    });
    taken.await.unwrap_or_else(|error| Err(TakeOverError::Lost(error.to_string())))
}

/// Why a node does not open its doors as the leader.
#[derive(Debug, thiserror::Error)]
enum TakeOverError {
    /// It leads no more, or cannot know.
    #[error("{0}")]
    Lost(String),
    /// There is no window to use.
    #[error(transparent)]
    Window(OpenWindowError),
    /// The directory of mail.
    #[error("the mail: {0}")]
    Mail(io::Error),
}

impl From<OpenWindowError> for TakeOverError {
    fn from(error: OpenWindowError) -> Self {
        match error {
            OpenWindowError::Etcd(EtcdError::Unavailable(reason)) => Self::Lost(reason),
            error => Self::Window(error),
        }
    }
}

impl From<NotesError<EtcdError>> for TakeOverError {
    fn from(error: NotesError<EtcdError>) -> Self {
        match error {
            NotesError::Files(error) => Self::Mail(error),
            error => Self::Lost(error.to_string()),
        }
    }
}

/// The newest record that this node has, also before its doors are open.
fn newest_record(
    served: Arc<OnceLock<Weak<Engine>>>,
    status: Arc<NodeStatus>,
) -> impl Fn() -> u64 + Send {
    move || {
        let engine = served.get().and_then(Weak::upgrade);
        engine.map_or_else(|| status.chain_record(), |engine| engine.durable_seq().0)
    }
}

/// Why a node leads no more.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LeadEnd {
    /// The process was told to stop.
    Stopped,
    /// It was asked to let another node lead.
    SteppedDown,
    /// The lead is lost: no record of this node is written any more.
    Lost(String),
}

/// Gives up on etcd if it keeps the node from stopping.
fn close_after_patience(is_stopping: Arc<AtomicBool>) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        tokio::time::sleep(STOP_PATIENCE).await;
        is_stopping.store(true, Ordering::Release);
    })
}
