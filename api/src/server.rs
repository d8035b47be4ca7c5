//! A switch at work in this process: the engine, the HTTP side, the ISO 8583 door and the address for
//! operators.
//!
//! Starting and stopping are in one place, so that `serve` and `demo` run the very same switch.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cardswitch_edge::descriptors::{self, AddressLimits, DescriptorShares};
use cardswitch_edge::tls::TlsProtocol;
use cardswitch_engine::clock::Stopwatch;
use cardswitch_engine::engine::Engine;
use cardswitch_engine::store::StoreError;
use cardswitch_identity::receipts::{ReceiptFiles, named_receipts};
use cardswitch_identity::state::AppState;
use cardswitch_network::listener::{Listener, ListenerOptions, SwitchShare};
use cardswitch_network::zone::Zone;
use cardswitch_notify::mail::{self, MailError};
use cardswitch_notify::webhooks::deliveries::{DeliveriesError, RemoteDeliveries};
use cardswitch_secrets::Secrets;
use cardswitch_secrets::master_key::rotation::MasterKeys;
use cardswitch_site::overview::{ClusterLine, LiveOverviews};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::commands::administration::Office;
use crate::config::{ConfigError, Settings};
use crate::control::{Control, Desk};
use crate::doors::{listener_options, open_tls, parse_networks};
use crate::faults::open_plan;
use crate::forwarding::LEADER_PATIENCE;
use crate::handler_state::{StateParts, leading_state};
use crate::http_server::{self, HttpSide};
use crate::node_pan_keys::PanKeyNodes;
use crate::opening::{KeyedDirectory, OpeningError, open_engine_watched};
use crate::pan_rotation::{self, Pace, PanRotation, PanRotationError};
use crate::router::RouterParts;
use crate::telemetry::rooms::show_rooms;
use crate::telemetry::watchers::Watchers;
use crate::telemetry::{Telemetry, listener};

/// How often the engine's health is looked at.
const HEALTH_INTERVAL: Duration = Duration::from_millis(200);

/// How often a long recovery tells how far it has come.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// A running switch.
#[derive(Debug)]
pub struct Server {
    engine: Arc<Engine>,
    telemetry: Arc<Telemetry>,
    http: SocketAddr,
    /// The first is the one at `iso8583`.
    iso8583: Vec<DoorAddress>,
    metrics: SocketAddr,
    stop_delay: Duration,
    stop: watch::Sender<bool>,
    /// They end with this value, at the latest.
    doors: JoinSet<()>,
    operators: OperatorListener,
    _iso8583_threads: DoorThreads,
}

/// An ISO 8583 door that listens.
#[derive(Clone, Debug)]
pub struct DoorAddress {
    /// Its name in logs.
    pub name: String,
    /// The address at which it listens.
    pub address: SocketAddr,
}

/// The parts of a switch that were open before its doors.
pub struct SwitchParts {
    /// The engine, which leads.
    pub engine: Engine,
    /// The keys of its directory.
    pub secrets: Secrets,
    /// The listener for operators.
    pub operators: OperatorListener,
    /// Its receipts.
    pub receipts: Arc<ReceiptFiles>,
    /// The other place that keeps the progress of deliveries.
    pub deliveries: Box<dyn RemoteDeliveries>,
    /// The state of its cluster.
    pub cluster: ClusterLine,
    /// The other nodes, as they are given keys of card numbers.
    pub nodes: PanKeyNodes,
}

cardswitch_engine::opaque!(SwitchParts);

/// The listener for operators, which is there before the doors and outlives them.
#[derive(Debug)]
pub struct OperatorListener {
    /// The figures and the health that it shows.
    pub telemetry: Arc<Telemetry>,
    address: SocketAddr,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

/// Threads of their own for the ISO 8583 doors: authorizations find a thread under any load of the
/// API.
#[derive(Debug)]
struct DoorThreads(Option<Runtime>);

impl Drop for DoorThreads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            // Its tasks have ended, or are not waited for; a runtime must not be waited for
            // here.
            runtime.shutdown_background();
        }
    }
}

/// Why a switch cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting is out of range.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The data directory.
    #[error(transparent)]
    Opening(OpeningError),
    /// The query tables cannot follow the journal.
    #[error("{0}")]
    Tables(String),
    /// The keys of card numbers.
    #[error(transparent)]
    PanKeys(PanRotationError),
    /// The keys that doors were given.
    #[error("the exchanged zone keys: {0}")]
    ZoneKeys(StoreError),
    /// The directory of receipts.
    #[error("the receipts: {0}")]
    Receipts(io::Error),
    /// The directories of mail, or the mail server.
    #[error("the mail: {0}")]
    Outbox(MailError),
    /// The stored progress of deliveries.
    #[error(transparent)]
    Deliveries(DeliveriesError),
    /// An address cannot be listened at.
    #[error("{}", not_listening(.0, .1, .2))]
    Listen(&'static str, SocketAddr, io::Error),
    /// The system starts no more threads.
    #[error("cannot start threads: {0}")]
    Threads(io::Error),
}

fn not_listening(what: &str, address: &SocketAddr, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => format!("{what} address {address} is in use"),
        _ => format!("cannot listen for {what} at {address}: {error}"),
    }
}

impl StartError {
    fn is_in_use(&self) -> bool {
        matches!(self, Self::Listen(.., error) if error.kind() == io::ErrorKind::AddrInUse)
    }
}

impl Server {
    /// Recovers the data directory and opens both doors; when this returns, both answer. Health is
    /// answered from the beginning.
    pub async fn start<'a>(
        place: impl Into<KeyedDirectory<'a>>,
        settings: &Settings,
    ) -> Result<Self, StartError> {
        Self::start_with(place.into(), settings, None).await
    }

    /// As `start`, with an engine of the directory that is open already, and its keys.
    pub async fn start_with(
        place: KeyedDirectory<'_>,
        settings: &Settings,
        opened: Option<SwitchParts>,
    ) -> Result<Self, StartError> {
        let data = place.data;
        let settings = settings.clone().checked()?;
        let shares = shares_of(&settings);
        let options = listener_options(&settings, &shares)?;
        let faults = open_plan(settings.faults.as_deref())?;
        let trusted_proxies = parse_networks("trusted_proxies", &settings.trusted_proxies)?;
        let tls = open_tls(("http", TlsProtocol::Http), settings.tls.as_ref())?;
        // Addresses first: recovery of a large directory is in vain when the port is taken.
        let (http, http_address) = bind("HTTP", settings.http).await?;
        let StartParts { operators, opened, receipts, elsewhere, cluster, nodes, patience } =
            begin(opened, &settings).await?;
        let telemetry = Arc::clone(&operators.telemetry);
        let (stop, stopped) = watch::channel(false);
        let mut doors = JoinSet::new();
        let side = HttpSide::new(Arc::clone(&telemetry), trusted_proxies.clone(), shares.http);
        let side = Arc::new(side.over(tls).waiting(patience));
        doors.spawn(http_server::serve(http, Arc::clone(&side), stopped.clone()));

        let (engine, secrets) = match opened {
            Some(opened) => opened,
            None => recover(place, &settings, &telemetry).await?,
        };
        let (engine, secrets) = (Arc::new(engine), Arc::new(secrets));
        let threads = DoorThreads::start()?;
        let zones: Vec<_> = options.iter().filter_map(|door| door.zone.clone()).collect();
        let all = SwitchShare::new(Arc::clone(&engine) as _, Arc::clone(&secrets))
            .with_connections(shares.iso8583.max)
            .with_faults(faults.clone());
        let (listeners, iso8583) = threads.bind_all(options, &all).await?;
        let parts = StateParts {
            secrets,
            receipts: receipts_of(data, receipts)?,
            trusted_proxies,
            shares,
            faults,
            telemetry: Arc::clone(&telemetry),
            stopped: stopped.clone(),
        };
        let made = leading_state(data, &settings, http_address, (&engine, parts, elsewhere)).await;
        let (state, deliveries) = made?;
        resume_zones(&zones, &state).map_err(StartError::ZoneKeys)?;
        let pan_keys = keep_pan_keys(data, &state, nodes).await.map_err(StartError::PanKeys)?;
        settle_receipts(&state);
        let overviews = Arc::new(LiveOverviews::new(shares.streams_max).of_cluster(cluster));
        let mut tasks = mail::start(&state.mail_desk(), &stopped);
        tasks.push(deliveries);
        show_rooms(&telemetry, (&state, &pan_keys));
        tasks.push(tokio::spawn(pan_rotation::run(Arc::clone(&pan_keys), stopped.clone())));
        let master_keys = MasterKeys::new(data, place.master_key.clone());
        let secrets = Arc::clone(&state.secrets);
        let office = Office::new(state.switch.clone(), state.config.urls.clone(), &settings);
        let desk = Desk::new(Arc::clone(&engine), secrets, pan_keys, master_keys, office);
        let control = listen_for_commands(desk);
        tasks.extend(control.map(|control| tokio::spawn(control.run(stopped.clone()))));
        // A task that panicked has printed why.
        tasks.into_iter().for_each(|task| drop(doors.spawn(async move { drop(task.await) })));
        side.open(RouterParts { state, overviews, peers: all.board(), compat: settings.compat });
        threads.run(listeners, &stopped, &mut doors);
        // Ready from here on: all doors answer.
        telemetry.set_working(&engine, all.counters());
        Ok(Self {
            engine,
            telemetry,
            http: http_address,
            iso8583,
            metrics: operators.address,
            stop_delay: Duration::from_secs(settings.stop_delay_s),
            stop,
            doors,
            operators,
            _iso8583_threads: threads,
        })
    }

    /// The address of the HTTP door.
    #[must_use]
    pub const fn http(&self) -> SocketAddr {
        self.http
    }

    /// The address of the ISO 8583 door of the setting `iso8583`.
    #[must_use]
    pub fn iso8583(&self) -> SocketAddr {
        // INVARIANT: that door always stands, as the first one.
        self.iso8583.first().map_or(self.http, |door| door.address)
    }

    /// The line that says where it answers: `http=ADDR iso8583=ADDR metrics=ADDR`, then
    /// `iso8583.NAME=ADDR` of each further door.
    #[must_use]
    pub fn addresses(&self) -> String {
        address_line(self.http, &self.iso8583, self.metrics)
    }

    /// The address that shows figures and health.
    #[must_use]
    pub const fn metrics(&self) -> SocketAddr {
        self.metrics
    }

    /// Resolves when the engine has failed, with the reason. Tables that stand still are no
    /// reason to stop authorizing: that is logged, once.
    pub async fn failed(&self) -> String {
        let mut is_told = false;
        loop {
            if let Some(reason) = self.engine.failure() {
                return reason;
            }
            if let Some(reason) = self.engine.projection_failure().filter(|_| !is_told) {
                tracing::error!(%reason, "reads are old until the switch is restarted");
                is_told = true;
            }
            tokio::time::sleep(HEALTH_INTERVAL).await;
        }
    }

    /// The engine.
    #[must_use]
    pub const fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Why the engine has failed, if it has.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.engine.failure()
    }

    /// Announces the stop, goes on for the configured delay, then stops reading, answers the requests
    /// in flight and writes the last checkpoint.
    pub async fn stop(mut self) {
        self.telemetry.set_stopping();
        if self.engine.failure().is_none() {
            // A load balancer learns of it meanwhile and sends no more requests.
            tokio::time::sleep(self.stop_delay).await;
        }
        self.stop.send_replace(true);
        // A task that panicked has printed why; the engine is still to be shut down.
        while self.doors.join_next().await.is_some() {}
        let engine = self.engine;
        drop(tokio::task::spawn_blocking(move || engine.shut_down()).await);
        self.operators.stop.send_replace(true);
        while self.operators.tasks.join_next().await.is_some() {}
    }
}

/// Without the socket everything works but its own requests.
fn listen_for_commands(desk: Desk) -> Option<Control> {
    let listening = Control::listen(desk);
    listening.map_err(|error| tracing::warn!(%error, "commands cannot reach this switch")).ok()
}

impl OperatorListener {
    /// The address for operators.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Opens the address for operators, and tells there that the switch recovers.
    /// Errors: the address was chosen and is in use.
    pub async fn start(settings: &Settings) -> Result<Self, StartError> {
        let telemetry = Arc::<Telemetry>::default();
        let (socket, address) = bind_for_operators(settings.metrics, settings.http).await?;
        let (stop, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        let watchers = Watchers::new(shares_of(settings).operators_max);
        tasks.spawn(listener::serve(socket, Arc::clone(&telemetry), watchers, stopped));
        Ok(Self { telemetry, address, stop, tasks })
    }
}

/// `http=ADDR iso8583=ADDR metrics=ADDR`, then `iso8583.NAME=ADDR` of each further door.
pub(crate) fn address_line(
    http: SocketAddr,
    iso8583: &[DoorAddress],
    metrics: SocketAddr,
) -> String {
    // INVARIANT: the door of the setting `iso8583` always stands, as the first one.
    let first = iso8583.first().map_or(http, |door| door.address);
    let line = format!("http={http} iso8583={first} metrics={metrics}");
    iso8583.iter().skip(1).fold(line, |line, DoorAddress { name, address }| {
        format!("{line} iso8583.{name}={address}")
    })
}

/// How the process's descriptors are shared out.
pub(crate) fn shares_of(settings: &Settings) -> DescriptorShares {
    let per_address = AddressLimits {
        http: settings.http_connections_per_address,
        iso8583: settings.iso8583_connections_per_peer,
    };
    DescriptorShares::of(descriptors::raise_limit(), per_address)
}

impl DoorThreads {
    fn start() -> Result<Self, StartError> {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.thread_name("iso8583").enable_all().build();
        runtime.map(|runtime| Self(Some(runtime))).map_err(StartError::Threads)
    }

    /// Takes the addresses of all doors.
    async fn bind_all(
        &self,
        options: Vec<ListenerOptions>,
        all: &SwitchShare,
    ) -> Result<(Vec<Listener>, Vec<DoorAddress>), StartError> {
        let (mut listeners, mut addresses) = (Vec::new(), Vec::new());
        for options in options {
            let (listener, address) = self.bind(options, all.clone()).await?;
            addresses.push(DoorAddress { name: listener.name().to_owned(), address });
            listeners.push(listener);
        }
        Ok((listeners, addresses))
    }

    /// Takes the address of a door, on its threads.
    async fn bind(
        &self,
        options: ListenerOptions,
        all: SwitchShare,
    ) -> Result<(Listener, SocketAddr), StartError> {
        let address = options.address;
        let refused = |error| StartError::Listen("ISO 8583", address, error);
        let Some(runtime) = &self.0 else {
            return Err(refused(io::ErrorKind::NotConnected.into()));
        };
        let bound = runtime.spawn(async move { Listener::bind(options, &all).await }).await;
        let listener = bound.map_err(|error| refused(error.into()))?.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        Ok((listener, address))
    }

    /// Serves the doors on its threads.
    fn run(
        &self,
        listeners: Vec<Listener>,
        stopped: &watch::Receiver<bool>,
        doors: &mut JoinSet<()>,
    ) {
        let Some(runtime) = &self.0 else { return };
        for listener in listeners {
            doors.spawn_on(listener.run(stopped.clone()), runtime.handle());
        }
    }
}

/// Binds the address of the figures, `told` or the default, for a process that serves HTTP at
/// `http`.
/// Errors: the address was chosen and is in use.
pub(crate) async fn bind_for_operators(
    told: Option<SocketAddr>,
    http: SocketAddr,
) -> Result<(TcpListener, SocketAddr), StartError> {
    let address = listener::address_for(told, http);
    match bind("metrics", address).await {
        // The operator did not choose it, so it is no reason not to authorize.
        Err(error) if error.is_in_use() && told.is_none() => {
            tracing::warn!(%address, "in use, so figures are told at another port");
            bind("metrics", SocketAddr::new(address.ip(), 0)).await
        }
        bound => bound,
    }
}

/// Takes an address.
/// Errors: it is in use.
pub(crate) async fn bind(
    what: &'static str,
    address: SocketAddr,
) -> Result<(TcpListener, SocketAddr), StartError> {
    let refused = |error| StartError::Listen(what, address, error);
    let socket = TcpListener::bind(address).await.map_err(refused)?;
    let address = socket.local_addr().map_err(refused)?;
    Ok((socket, address))
}

/// The beginning of a start: the listener for operators, and the parts that a node has open
/// already.
struct StartParts {
    operators: OperatorListener,
    opened: Option<(Engine, Secrets)>,
    receipts: Option<Arc<ReceiptFiles>>,
    elsewhere: Option<Box<dyn RemoteDeliveries>>,
    cluster: Option<ClusterLine>,
    nodes: Option<PanKeyNodes>,
    /// How long requests wait until it answers.
    patience: Duration,
}

async fn begin(opened: Option<SwitchParts>, settings: &Settings) -> Result<StartParts, StartError> {
    Ok(match opened {
        Some(SwitchParts { engine, secrets, operators, receipts, deliveries, cluster, nodes }) => {
            StartParts {
                operators,
                opened: Some((engine, secrets)),
                receipts: Some(receipts),
                elsewhere: Some(deliveries),
                cluster: Some(cluster),
                nodes: Some(nodes),
                // A node that takes over is open in a moment.
                patience: LEADER_PATIENCE,
            }
        }
        None => StartParts {
            operators: OperatorListener::start(settings).await?,
            opened: None,
            receipts: None,
            elsewhere: None,
            cluster: None,
            nodes: None,
            patience: Duration::ZERO,
        },
    })
}

fn receipts_of(
    data: &Path,
    opened: Option<Arc<ReceiptFiles>>,
) -> Result<Arc<ReceiptFiles>, StartError> {
    let open = || ReceiptFiles::open(data).map(Arc::new).map_err(StartError::Receipts);
    opened.map_or_else(open, Ok)
}

/// Opens the data directory beside everything else, and tells now and then how far it has come.
async fn recover(
    place: KeyedDirectory<'_>,
    settings: &Settings,
    telemetry: &Telemetry,
) -> Result<(Engine, Secrets), StartError> {
    let (data, master_key) = (place.data.to_owned(), place.master_key.clone());
    let (clock, retention) = (settings.clock, settings.retention);
    let progress = Arc::clone(&telemetry.recovery);
    let opening = tokio::task::spawn_blocking(move || {
        let place = KeyedDirectory { data: &data, master_key: &master_key };
        open_engine_watched(place, clock, retention, &progress)
    });
    let since = Stopwatch::start();
    tokio::pin!(opening);
    loop {
        match tokio::time::timeout(PROGRESS_INTERVAL, &mut opening).await {
            Ok(Ok(opened)) => {
                return opened.inspect(tell_of_journal).map_err(StartError::Opening);
            }
            Ok(Err(panicked)) => return Err(StartError::Tables(panicked.to_string())),
            Err(_) => {
                let now = telemetry.recovery.now();
                let (stage, took_s) = (now.stage.word(), since.elapsed().as_secs());
                let (replayed, to_replay) = (now.replayed, now.to_replay);
                tracing::info!(stage, replayed, to_replay, took_s, "recovering");
            }
        }
    }
}

/// Logs the engine's notes on the journal for the operator.
fn tell_of_journal((engine, _): &(Engine, Secrets)) {
    for note in engine.journal_notes() {
        tracing::warn!("journal: {note}");
    }
}

/// The keys of card numbers, of which the engine knows now.
async fn keep_pan_keys(
    data: &Path,
    state: &AppState,
    nodes: Option<PanKeyNodes>,
) -> Result<Arc<PanRotation>, PanRotationError> {
    let (switch, secrets) = (state.switch.clone(), Arc::clone(&state.secrets));
    let pan_keys = PanRotation::new(switch, secrets, data, Pace::Gentle)?.with_nodes(nodes);
    pan_keys.resume().await?;
    Ok(Arc::new(pan_keys))
}

/// Lets doors go on with the keys that were exchanged in earlier runs and on other nodes.
fn resume_zones(zones: &[Arc<Zone>], state: &AppState) -> Result<(), StoreError> {
    state.switch.read_at_once(|tables| {
        zones.iter().try_for_each(|zone| zone.resume(tables, &state.secrets))
    })
}

/// Removes the files of receipts that no record names, on a thread of its own; a node fetches those that
/// it lacks.
fn settle_receipts(state: &AppState) {
    let (switch, receipts) = (state.switch.clone(), Arc::clone(&state.receipts));
    drop(tokio::task::spawn_blocking(move || {
        let removed = match switch.read_at_once(named_receipts) {
            Ok(named) => {
                receipts.fetch_missing(&named);
                receipts.remove_orphans(&named).map_err(|error| error.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        match removed {
            Ok(0) => {}
            Ok(count) => tracing::info!(count, "removed files of receipts that nothing names"),
            Err(error) => tracing::warn!(%error, "files of receipts that nothing names stay"),
        }
    }));
}
