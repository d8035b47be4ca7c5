//! A switch at work in this process: the engine, the HTTP side, the ISO 8583 door and the address for
//! operators.
//!
//! Starting and stopping are in one place, so that `serve` and `demo` run the very same switch.

mod door_threads;
mod operator_listener;
mod parts;
mod recovery;
mod resumption;
mod sockets;
mod start_error;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use cardswitch_engine::engine::Engine;
use cardswitch_network::listener::SwitchShare;
use cardswitch_notify::mail;
use cardswitch_site::overview::LiveOverviews;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

pub use self::door_threads::DoorAddress;
use self::door_threads::DoorThreads;
pub(crate) use self::door_threads::address_line;
pub use self::operator_listener::OperatorListener;
pub use self::parts::{HandoverParts, SwitchParts};
use self::parts::{StartParts, begin, receipts_of};
use self::recovery::recover;
use self::resumption::{keep_receipts, resume_keys};
pub(crate) use self::sockets::{bind, bind_for_operators, shares_of};
pub use self::start_error::StartError;
use crate::commands::administration::Office;
use crate::config::Settings;
use crate::control::{Control, Desk};
use crate::doors::parse_networks;
use crate::handler_state::{StateParts, leading_state};
use crate::http_server::{self, HttpSide};
use crate::opened_files::OpenedFiles;
use crate::opening::KeyedDirectory;
use crate::pan_rotation;
use crate::router::RouterParts;
use crate::telemetry::Telemetry;
use crate::telemetry::rooms::show_rooms;

/// How often the engine's health is looked at.
const HEALTH_INTERVAL: Duration = Duration::from_millis(200);

/// A running switch.
#[derive(Debug)]
pub struct Server {
    /// The engine.
    pub engine: Arc<Engine>,
    telemetry: Arc<Telemetry>,
    /// The address of the HTTP door.
    pub http: SocketAddr,
    /// The first is the one at `iso8583`.
    iso8583: Vec<DoorAddress>,
    /// The address that shows figures and health.
    pub metrics: SocketAddr,
    stop_delay: Duration,
    stop: watch::Sender<bool>,
    /// They end with this value, at the latest.
    doors: JoinSet<()>,
    operators: OperatorListener,
    /// The permit of the one backup that is made at a time.
    pub backups: Arc<Semaphore>,
    _iso8583_threads: DoorThreads,
}

impl Server {
    /// Recovers the data directory and opens both doors; when this returns, both answer. Health is
    /// answered from the beginning.
    pub async fn start<'a>(
        place: impl Into<KeyedDirectory<'a>>,
        settings: &Settings,
    ) -> Result<Self, StartError> {
        let settings = settings.clone().checked()?;
        let files = OpenedFiles::open(&settings)?;
        Self::start_with(place.into(), (settings, files), None).await
    }

    /// As `start`, with the files of checked settings, and perhaps an engine of the directory that is open already,
    /// and its keys.
    pub async fn start_with(
        place: KeyedDirectory<'_>,
        (settings, files): (Settings, OpenedFiles),
        opened: Option<SwitchParts>,
    ) -> Result<Self, StartError> {
        let data = place.data;
        let shares = shares_of(&settings);
        let OpenedFiles { iso8583: options, http_tls: tls, faults } = files;
        let trusted_proxies = parse_networks("trusted_proxies", &settings.trusted_proxies)?;
        // Addresses first: recovery of a large directory is in vain when the port is taken.
        let (http, http_address) = bind("HTTP", settings.http).await?;
        let begun = begin(opened, place, &settings).await?;
        let StartParts { operators, opened, receipts, handover, patience, .. } = begun;
        let telemetry = Arc::clone(&operators.telemetry);
        let ((stop, stopped), mut doors) = (watch::channel(false), JoinSet::new());
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
        let mut all = SwitchShare::new(Arc::clone(&engine) as _, Arc::clone(&secrets))
            .with_connections(shares.iso8583.max);
        all.faults.clone_from(&faults);
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
        let made = leading_state(data, &settings, http_address, (&engine, parts, handover)).await;
        let (state, deliveries) = made?;
        let pan_keys = resume_keys(data, &state, &zones, begun.nodes).await?;
        let overviews = Arc::new(LiveOverviews::new(shares.streams_max, begun.cluster));
        let mut tasks = mail::start(&state.mail_desk(), &stopped);
        tasks.push(deliveries);
        show_rooms(&telemetry, (&state, &pan_keys));
        tasks.push(tokio::spawn(pan_rotation::run(Arc::clone(&pan_keys), stopped.clone())));
        let (secrets, master_keys) = (Arc::clone(&state.secrets), begun.master_keys);
        let office = Office::with_mail(state.mail_desk(), &settings);
        let desk = Desk::new(Arc::clone(&engine), secrets, pan_keys, master_keys, office);
        let (backups, control) = (Arc::clone(&desk.backups), listen_for_commands(desk));
        tasks.push(keep_receipts(&state, &backups, &stopped));
        tasks.extend(control.map(|control| tokio::spawn(control.run(stopped.clone()))));
        // A task that panicked has printed why.
        tasks.into_iter().for_each(|task| drop(doors.spawn(async move { drop(task.await) })));
        side.open(RouterParts { state, overviews, peers: all.board, compat: settings.compat });
        threads.run(listeners, &stopped, &mut doors);
        // Ready from here on: all doors answer.
        telemetry.set_working(&engine, all.counters);
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
            backups,
            _iso8583_threads: threads,
        })
    }

    /// The address of the ISO 8583 door of the setting `iso8583`.
    pub fn iso8583(&self) -> SocketAddr {
        // INVARIANT: that door always stands, as the first one.
        self.iso8583.first().map_or(self.http, |door| door.address)
    }

    /// The line that says where it answers: `http=ADDR iso8583=ADDR metrics=ADDR`, then
    /// `iso8583.NAME=ADDR` of each further door.
    pub fn addresses(&self) -> String {
        address_line(self.http, &self.iso8583, self.metrics)
    }

    /// Resolves when the engine has failed, with the reason. Tables that stand still and a clock behind the
    /// journal are no reason to stop authorizing: each is logged, once.
    pub async fn failed(&self) -> String {
        let (mut is_told, mut is_clock_told, mut is_late_told) = (false, false, false);
        loop {
            if let Some(reason) = self.engine.failure() {
                return reason;
            }
            if let Some(reason) = self.engine.projection_failure().filter(|_| !is_told) {
                tracing::error!(%reason, "reads are old until the switch is restarted");
                is_told = true;
            }
            if let Some(behind) = self.engine.clock_behind().filter(|_| !is_clock_told) {
                let behind_s = behind.as_secs();
                tracing::error!(
                    behind_s,
                    "time stands still until the clock is past the journal's end"
                );
                is_clock_told = true;
            }
            let are_late = self.engine.store.late_holds.are_any();
            if are_late && !is_late_told {
                tracing::error!("holds end late: rows of purchases cannot be read");
            }
            is_late_told = are_late;
            tokio::time::sleep(HEALTH_INTERVAL).await;
        }
    }

    /// Why the engine has failed, if it has.
    pub fn failure(&self) -> Option<String> {
        self.engine.failure()
    }

    /// Announces the stop, and goes on for the configured delay, at most until `again`.
    /// Errors: the reason why the engine failed before or meanwhile.
    pub async fn announce_stop(&self, again: impl Future<Output = ()>) -> Result<(), String> {
        self.telemetry.set_stopping();
        tokio::select! {
            biased;
            reason = self.failed() => Err(reason),
            () = again => Ok(()),
            // A load balancer learns of it meanwhile and sends no more requests.
            () = tokio::time::sleep(self.stop_delay) => Ok(()),
        }
    }

    /// Stops reading, answers the requests in flight and writes the last checkpoint.
    pub async fn close(mut self) {
        self.stop.send_replace(true);
        // A task that panicked has printed why; the engine is still to be shut down.
        while self.doors.join_next().await.is_some() {}
        let engine = self.engine;
        drop(tokio::task::spawn_blocking(move || engine.shut_down()).await);
        self.operators.close().await;
    }
}

/// Without the socket everything works but its own requests.
fn listen_for_commands(desk: Desk) -> Option<Control> {
    let listening = Control::listen(desk);
    listening.map_err(|error| tracing::warn!(%error, "commands cannot reach this switch")).ok()
}
