//! `cardswitch route`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use cardswitch_edge::descriptors::OPERATOR_CONNECTIONS_MAX;
use cardswitch_edge::tls::{TlsFiles, TlsProtocol};
use cardswitch_edge::tls_client::{ClientTls, ClientTlsFiles};
use cardswitch_engine::domain::cell::Cell;
use cardswitch_network::listener::DOOR_NAME_DEFAULT;
use cardswitch_route::{CellAddresses, Cells, HttpDoor, Iso8583Door, serve, watch_cells};
use cardswitch_secrets::issuing::CardNumbers;
use tokio::sync::watch;

use super::line_args::DialectArgs;
use super::tls_args::{DoorTlsArgs, TlsArgs};
use super::{Failure, StopSignal, announce, parse_address, take_hangups};
use crate::config::{LogFormat, Settings};
use crate::doors::{FIRST, admission, open_tls, parse_networks};
use crate::server::{bind, bind_for_operators};
use crate::telemetry::listener;
use crate::telemetry::log::start_log;
use crate::telemetry::route::RouterTelemetry;
use crate::telemetry::watchers::Watchers;

/// The flags of `route`.
#[derive(Debug, clap::Args)]
pub struct RouteArgs {
    /// Cell and its addresses, such as 01=http://10.0.0.1:8080,iso8583://10.0.0.1:8583; those of one door are tried
    /// in turn, and https:// and iso8583s:// speak TLS. Once for each cell
    #[arg(long = "cell", required = true, value_name = "NN=URL,..")]
    cells: Vec<CellAddresses>,
    #[command(flatten)]
    cell_tls: CellTlsArgs,
    /// Cell of requests and messages that name none: sign-in, the site, echo messages, unknown cards
    #[arg(long, value_name = "NN")]
    home: Cell,
    /// Address of the HTTP door
    #[arg(long, default_value = "127.0.0.1:8080", value_name = "ADDR", value_parser = parse_address)]
    http: SocketAddr,
    /// Address of the ISO 8583 door
    #[arg(long, default_value = "127.0.0.1:8583", value_name = "ADDR", value_parser = parse_address)]
    iso8583: SocketAddr,
    #[command(flatten)]
    dialect: DialectArgs,
    /// Address for /metrics, /healthz and /readyz [default: 127.0.0.1:9464, or a free port if that is in use]
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    metrics: Option<SocketAddr>,
    /// Peers that may connect to the ISO 8583 door: addresses, networks, or `any` [default: this machine]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    iso8583_peers: Vec<String>,
    /// Proxies whose `X-Forwarded-For` counts: addresses, networks
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    trusted_proxies: Vec<String>,
    /// First 6 to 8 digits of the cells' card numbers [default: that of `init`]
    #[arg(long, env = "CARDSWITCH_CARD_BIN", value_delimiter = ',', value_name = "LIST")]
    bin: Vec<String>,
    #[command(flatten)]
    tls: TlsArgs,
    #[command(flatten)]
    iso8583_tls: DoorTlsArgs,
    /// Write the log as JSON, one object a line
    #[arg(long)]
    json: bool,
}

/// TLS of the way to the cells.
#[derive(Debug, clap::Args)]
struct CellTlsArgs {
    /// Authorities of the cells' certificates, in PEM form
    #[arg(long, value_name = "FILE")]
    cell_ca: Option<PathBuf>,
    /// Certificate chain to show to cells that demand one, in PEM form
    #[arg(long, value_name = "FILE", requires_all = ["cell_ca", "cell_key"])]
    cell_certificate: Option<PathBuf>,
    /// Private key of that certificate
    #[arg(long, value_name = "FILE", requires = "cell_certificate")]
    cell_key: Option<PathBuf>,
}

impl CellTlsArgs {
    fn open(self) -> Result<Option<Arc<ClientTls>>, Failure> {
        let Some(authorities) = self.cell_ca else { return Ok(None) };
        let shown = self.cell_certificate.zip(self.cell_key);
        let opened = ClientTls::open(ClientTlsFiles { authorities: Some(authorities), shown });
        opened.map(Some).map_err(|error| Failure::new(format!("TLS to the cells: {error}")))
    }
}

/// Carries out `route`: runs until Ctrl-C or SIGTERM.
/// Errors: the cells contradict each other, or an address is in use.
pub async fn run(args: RouteArgs) -> Result<(), Failure> {
    take_hangups()?;
    start_log(if args.json { LogFormat::Json } else { LogFormat::Human });
    let usual = Settings::default();
    let or = |given: Vec<String>, usual| if given.is_empty() { usual } else { given };
    let (bins, peers) =
        (or(args.bin, vec![usual.bin]), or(args.iso8583_peers, usual.iso8583_peers));
    if let Some(bin) = bins.iter().find(|bin| CardNumbers::new(bin).is_none()) {
        return Err(Failure::usage(format!("`{bin}` is no BIN: write 6 to 8 digits")));
    }
    let (cell_tls, dialect) = (args.cell_tls.open()?, args.dialect.dialect()?);
    let cells = Cells::new(args.cells, args.home, bins, cell_tls.as_ref());
    let cells = cells.map_err(Failure::usage)?;
    let peers = admission(FIRST, args.iso8583, &peers).map_err(Failure::usage)?.peers;
    let proxies =
        parse_networks("trusted_proxies", &args.trusted_proxies).map_err(Failure::usage)?;
    let open = |door, files: Option<TlsFiles>| open_tls(door, files.as_ref()).map_err(Failure::new);
    let http_tls = open(("http", TlsProtocol::Http), args.tls.files())?;
    let iso8583_tls = open((DOOR_NAME_DEFAULT, TlsProtocol::Iso8583), args.iso8583_tls.files())?;
    let mut stop = StopSignal::listen()?;
    let (http, http_address) = bind("HTTP", args.http).await?;
    let (iso8583, iso8583_address) = bind("ISO 8583", args.iso8583).await?;
    let (metrics, metrics_address) = bind_for_operators(args.metrics, args.http).await?;
    announce(format_args!(
        "ready http={http_address} iso8583={iso8583_address} metrics={metrics_address}"
    ));
    let (cells, stopping) = (Arc::new(cells), watch::Sender::new(false));
    if let Some(tls) = cell_tls {
        tokio::spawn(tls.follow_files(stopping.subscribe()));
    }
    let telemetry = Arc::new(RouterTelemetry::new(Arc::clone(&cells), stopping.subscribe()));
    let watchers = Watchers::new(OPERATOR_CONNECTIONS_MAX);
    let ended = watch::Sender::new(false);
    let watched = tokio::spawn(listener::serve(metrics, telemetry, watchers, ended.subscribe()));
    let http_door = HttpDoor::new(Arc::clone(&cells), proxies);
    let iso8583_door = Iso8583Door::new(Arc::clone(&cells), peers, dialect);
    let doors = async {
        tokio::join!(
            serve(http, http_tls, http_door, stopping.subscribe()),
            serve(iso8583, iso8583_tls, iso8583_door, stopping.subscribe()),
            watch_cells(cells, stopping.subscribe()),
        )
    };
    let stopped = async {
        stop.received().await;
        tracing::info!("stopping");
        stopping.send_replace(true);
    };
    tokio::join!(doors, stopped);
    ended.send_replace(true);
    watched.await.map_err(Failure::new)
}
