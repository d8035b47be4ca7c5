//! `cardswitch route`.

use std::net::SocketAddr;
use std::sync::Arc;

use cardswitch_edge::descriptors::raise_limit;
use cardswitch_engine::domain::cell::Cell;
use cardswitch_route::{CellAddresses, Cells, HttpDoor, serve_http, serve_iso8583};
use cardswitch_secrets::issuing::CardNumbers;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::{Failure, StopSignal, parse_address};
use crate::config::{LogFormat, Settings};
use crate::doors::{FIRST, admission, parse_networks};
use crate::telemetry::log::start_log;

/// The flags of `route`.
#[derive(Debug, clap::Args)]
pub struct RouteArgs {
    /// Cell and its addresses, such as 01=http://10.0.0.1:8080,iso8583://10.0.0.1:8583; those of one door are tried
    /// in turn. Once for each cell
    #[arg(long = "cell", required = true, value_name = "NN=URL,..")]
    cells: Vec<CellAddresses>,
    /// Cell of what names none: sign-in, the site, echo messages, unknown cards
    #[arg(long, value_name = "NN")]
    home: Cell,
    /// Address of the HTTP door
    #[arg(long, default_value = "127.0.0.1:8080", value_name = "ADDR", value_parser = parse_address)]
    http: SocketAddr,
    /// Address of the ISO 8583 door, which speaks the default dialect
    #[arg(long, default_value = "127.0.0.1:8583", value_name = "ADDR", value_parser = parse_address)]
    iso8583: SocketAddr,
    /// Who may connect to the ISO 8583 door: addresses, networks, or `any` [default: this machine]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    iso8583_peers: Vec<String>,
    /// Proxies whose `X-Forwarded-For` counts: addresses, networks
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    trusted_proxies: Vec<String>,
    /// First 6 to 8 digits of the cells' card numbers [default: that of `init`]
    #[arg(long, env = "CARDSWITCH_CARD_BIN", value_delimiter = ',', value_name = "LIST")]
    bin: Vec<String>,
    /// Write the log as JSON, one object a line
    #[arg(long)]
    json: bool,
}

/// Carries out `route`: runs until Ctrl-C or SIGTERM.
/// Errors: the cells contradict each other, or an address is in use.
pub async fn run(args: RouteArgs) -> Result<(), Failure> {
    start_log(if args.json { LogFormat::Json } else { LogFormat::Human });
    let usual = Settings::default();
    let or = |given: Vec<String>, usual| if given.is_empty() { usual } else { given };
    let (bins, peers) =
        (or(args.bin, vec![usual.bin]), or(args.iso8583_peers, usual.iso8583_peers));
    if let Some(bin) = bins.iter().find(|bin| CardNumbers::new(bin).is_none()) {
        return Err(Failure::usage(format!("`{bin}` is no BIN: write 6 to 8 digits")));
    }
    let cells = Cells::new(args.cells, args.home, bins).map_err(Failure::usage)?;
    let peers = admission(FIRST, args.iso8583, &peers).map_err(Failure::usage)?.peers;
    let proxies =
        parse_networks("trusted_proxies", &args.trusted_proxies).map_err(Failure::usage)?;
    raise_limit();
    let mut stop = StopSignal::listen()?;
    let (http, iso8583) = (bind("HTTP", args.http).await?, bind("ISO 8583", args.iso8583).await?);
    let (http_address, iso8583_address) =
        (http.local_addr().map_err(Failure::new)?, iso8583.local_addr().map_err(Failure::new)?);
    println!("ready http={http_address} iso8583={iso8583_address}");
    let (cells, stopping) = (Arc::new(cells), watch::Sender::new(false));
    let door = HttpDoor::new(Arc::clone(&cells), proxies);
    let doors = async {
        tokio::join!(
            serve_http(http, door, stopping.subscribe()),
            serve_iso8583(iso8583, cells, peers, stopping.subscribe()),
        )
    };
    let stopped = async {
        stop.received().await;
        tracing::info!("stopping");
        stopping.send_replace(true);
    };
    tokio::join!(doors, stopped);
    Ok(())
}

async fn bind(what: &str, address: SocketAddr) -> Result<TcpListener, Failure> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|error| Failure::new(format!("cannot listen for {what} at {address}: {error}")))
}
