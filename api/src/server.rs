//! A switch at work in this process: the engine, the HTTP side and the ISO 8583 door.
//!
//! Starting and stopping are in one place, so that `serve` and `demo` run the very same switch.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cardswitch_engine::engine::Engine;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::adoption::adopt_old_passwords;
use crate::config::{BitmapSetting, ConfigError, DialectSettings, LengthPrefixSetting, Settings};
use crate::control::Control;
use crate::http_server;
use crate::issuing::CardNumbers;
use crate::mail::{self, MailError, Outbox};
use crate::network::listener::{Listener, ListenerOptions};
use crate::network::peers::PeerNetwork;
use crate::opening::{OpeningError, open_engine};
use crate::receipts::{ReceiptFiles, named_receipts};
use crate::state::{ApiConfig, AppState};
use crate::switch::Switch;
use crate::webhooks::addresses::Reach;
use crate::webhooks::deliveries::DeliveriesError;
use crate::webhooks::{Equipment, Webhooks};
use crate::wire::urls::Urls;

use cardswitch_iso8583::{BitmapEncoding, Dialect, LengthPrefix};

/// How often the engine's health is looked at.
const HEALTH_INTERVAL: Duration = Duration::from_millis(200);

/// A running switch.
#[derive(Debug)]
pub struct Server {
    engine: Arc<Engine>,
    http: SocketAddr,
    iso8583: SocketAddr,
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

/// Why a switch cannot be started.
#[derive(Debug)]
pub enum StartError {
    /// A setting is out of range.
    Config(ConfigError),
    /// The data directory.
    Opening(OpeningError),
    /// The query tables cannot follow the journal.
    Tables(String),
    /// The directory of receipts.
    Receipts(io::Error),
    /// The directories of mail, or the mail server.
    Outbox(MailError),
    /// What is kept of deliveries.
    Deliveries(DeliveriesError),
    /// An address cannot be listened at.
    Listen(&'static str, SocketAddr, io::Error),
}

impl std::fmt::Display for StartError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Config(error) => error.fmt(formatter),
            Self::Opening(error) => error.fmt(formatter),
            Self::Tables(reason) => formatter.write_str(reason),
            Self::Receipts(error) => write!(formatter, "the receipts: {error}"),
            Self::Outbox(error) => write!(formatter, "the mail: {error}"),
            Self::Deliveries(error) => error.fmt(formatter),
            Self::Listen(what, address, error) if error.kind() == io::ErrorKind::AddrInUse => {
                write!(formatter, "{what} address {address} is in use")
            }
            Self::Listen(what, address, error) => {
                write!(formatter, "cannot listen for {what} at {address}: {error}")
            }
        }
    }
}

impl std::error::Error for StartError {}

impl Server {
    /// Recovers the data directory and opens both doors; when this returns, both answer.
    pub async fn start(data: &Path, settings: &Settings) -> Result<Self, StartError> {
        let settings = settings.clone().checked().map_err(StartError::Config)?;
        let options = listener_options(&settings).map_err(StartError::Config)?;
        let trusted_proxies = parse_networks("trusted_proxies", &settings.trusted_proxies)
            .map_err(StartError::Config)?;
        // Addresses first: recovering a large directory for a port that is taken helps nobody.
        let http = TcpListener::bind(settings.http)
            .await
            .map_err(|error| StartError::Listen("HTTP", settings.http, error))?;
        let http_address =
            http.local_addr().map_err(|error| StartError::Listen("HTTP", settings.http, error))?;
        let (engine, secrets) =
            open_engine(data, settings.clock, settings.retention).map_err(StartError::Opening)?;
        let (engine, secrets) = (Arc::new(engine), Arc::new(secrets));
        let not_listening = |error| StartError::Listen("ISO 8583", settings.iso8583, error);
        let listener = Listener::bind(options, Arc::clone(&engine) as _, Arc::clone(&secrets))
            .await
            .map_err(not_listening)?;
        let iso8583 = listener.local_addr().map_err(not_listening)?;

        let card_numbers = CardNumbers::new(&settings.bin)
            .ok_or_else(|| StartError::Config(ConfigError::Value("bin", settings.bin.clone())))?;
        let switch = Switch::new(Arc::clone(&engine));
        // Reads that do not wait for the tables, access tokens first of all, must find what a
        // crash took from them.
        while !switch.visible(engine.durable_seq()).await {
            if let Some(reason) = engine.failure().or_else(|| engine.projection_failure()) {
                return Err(StartError::Tables(reason));
            }
        }
        let app_url = settings.app_url_for(http_address);
        let (stop, stopped) = watch::channel(false);
        let (webhooks, deliveries) = Webhooks::start(Equipment {
            switch: switch.clone(),
            secrets: Arc::clone(&secrets),
            data,
            reach: Reach::of_site(&app_url),
            stop: stopped.clone(),
            streams_stop: stopped.clone(),
        })
        .map_err(StartError::Deliveries)?;
        let outbox = Outbox::open_with(data, &app_url, Arc::clone(&secrets), &settings.mail);
        let state = AppState {
            switch,
            secrets,
            config: Arc::new(ApiConfig {
                urls: Urls::with_app(&settings.base_url_for(http_address), &app_url),
                card_numbers,
                compat: settings.compat,
                requisition_network: settings.requisition_network().to_owned(),
                trusted_proxies,
            }),
            receipts: Arc::new(ReceiptFiles::open(data).map_err(StartError::Receipts)?),
            throttle: Arc::default(),
            second_factors: Arc::default(),
            outbox: Arc::new(outbox.map_err(StartError::Outbox)?),
            overviews: Arc::default(),
            webhooks,
        };
        remove_orphans(&state);
        if let Err(error) = adopt_old_passwords(&state).await {
            // Purchases are decided all the same.
            tracing::error!(?error, "administrators of before there were users cannot sign in");
        }
        let control = listen_for_commands(&engine);
        let mut tasks = mail::start(&state, &stopped);
        tasks.push(tokio::spawn(http_server::serve(http, state, stopped.clone())));
        tasks.push(tokio::spawn(listener.run(stopped.clone())));
        tasks.push(deliveries);
        tasks.extend(control.map(|control| tokio::spawn(control.run(stopped))));
        Ok(Self { engine, http: http_address, iso8583, stop, tasks })
    }

    /// Where HTTP is served.
    #[must_use]
    pub const fn http(&self) -> SocketAddr {
        self.http
    }

    /// Where ISO 8583 is served.
    #[must_use]
    pub const fn iso8583(&self) -> SocketAddr {
        self.iso8583
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

    /// Why the engine has failed, if it has.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.engine.failure()
    }

    /// Stops reading, answers what is in flight, writes the last checkpoint.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        for task in self.tasks {
            // A task that panicked has printed why; the engine is still to be shut down.
            drop(task.await);
        }
        let engine = self.engine;
        drop(tokio::task::spawn_blocking(move || engine.shut_down()).await);
    }
}

/// Without the socket everything works but what is asked by it.
fn listen_for_commands(engine: &Arc<Engine>) -> Option<Control> {
    let listening = Control::listen(Arc::clone(engine));
    listening.map_err(|error| tracing::warn!(%error, "commands cannot reach this switch")).ok()
}

/// Removes the files of receipts that nothing names, beside everything else.
fn remove_orphans(state: &AppState) {
    let (switch, receipts) = (state.switch.clone(), Arc::clone(&state.receipts));
    drop(tokio::task::spawn_blocking(move || {
        let removed = match switch.read_at_once(named_receipts) {
            Ok(named) => receipts.remove_orphans(&named).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match removed {
            Ok(0) => {}
            Ok(count) => tracing::info!(count, "removed files of receipts that nothing names"),
            Err(error) => tracing::warn!(%error, "files of receipts that nothing names stay"),
        }
    }));
}

fn listener_options(settings: &Settings) -> Result<ListenerOptions, ConfigError> {
    let peers = parse_networks("iso8583_peers", &settings.iso8583_peers)?;
    Ok(ListenerOptions {
        dialect: dialect(settings.dialect),
        peers,
        idle_limit: Duration::from_secs(settings.iso8583_idle_timeout_s),
        ..ListenerOptions::at(settings.iso8583)
    })
}

/// Addresses and networks, as the setting `name` has them.
fn parse_networks(name: &'static str, texts: &[String]) -> Result<Vec<PeerNetwork>, ConfigError> {
    let parse = |text: &String| text.parse().map_err(|_| ConfigError::Value(name, text.clone()));
    texts.iter().map(parse).collect()
}

fn dialect(settings: DialectSettings) -> Dialect {
    Dialect {
        bitmap: match settings.bitmap {
            BitmapSetting::Binary => BitmapEncoding::Binary,
            BitmapSetting::Hex => BitmapEncoding::HexText,
        },
        length_prefix: match settings.length_prefix {
            LengthPrefixSetting::TwoBytes => LengthPrefix::TwoBytes,
            LengthPrefixSetting::FourBytes => LengthPrefix::FourBytes,
            LengthPrefixSetting::FourDigits => LengthPrefix::FourDigits,
        },
        tpdu: settings.tpdu,
    }
}
