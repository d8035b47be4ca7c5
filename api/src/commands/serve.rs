//! `cardswitch serve`.

use std::path::PathBuf;

use cardswitch_secrets::master_key::source::MasterKeyArgs;

use super::door_security_args::DoorSecurityArgs;
use super::tls_args::TlsArgs;
use super::{Failure, StopSignal, announce, take_hangups};
use crate::config::read_settings;
use crate::node;
use crate::opening::KeyedDirectory;
use crate::server::Server;
use crate::setting_args::SettingArgs;
use crate::telemetry::log::start_log;

/// The flags of `serve`; each overrides the environment, which overrides the file.
#[derive(Debug, clap::Args)]
pub struct ServeArgs {
    /// Data directory, made by `cardswitch init`
    #[arg(long, env = "CARDSWITCH_DATA", value_name = "DIR")]
    data: PathBuf,
    #[command(flatten)]
    master_key: MasterKeyArgs,
    /// Configuration file [default: cardswitch.toml in the data directory]
    #[arg(long, env = "CARDSWITCH_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    settings: SettingArgs,
    #[command(flatten)]
    tls: TlsArgs,
    #[command(flatten)]
    door_security: DoorSecurityArgs,
    /// Print the resulting configuration, as TOML, and exit
    #[arg(long)]
    print_config: bool,
}

/// Carries out `serve`: runs until Ctrl-C or SIGTERM, or until the journal fails.
pub async fn run(args: ServeArgs) -> Result<(), Failure> {
    take_hangups()?;
    let mut file = read_settings(args.config.as_deref(), Some(&args.data))?;
    file.tls = args.tls.files().or(file.tls);
    args.door_security.over(&mut file);
    let settings = args.settings.over(file).map_err(Failure::usage)?;
    if args.print_config {
        print!("{}", toml::to_string(&settings)?);
        return Ok(());
    }
    start_log(settings.log);
    let mut stop = StopSignal::listen()?;
    let place = KeyedDirectory { data: &args.data, master_key: &args.master_key.source() };
    if settings.cluster.journal.is_some() {
        return node::serve(place, settings, stop).await;
    }
    let server = tokio::select! {
        started = Server::start(place, &settings) => started?,
        // Nothing was taken yet, and the files are such that a start may break off anywhere. The
        // thread that reads them would be waited for at any other end.
        () = stop.received() => std::process::exit(0),
    };
    announce(format_args!("ready {}", server.addresses()));
    run_until_stopped(server, stop).await
}

/// Lets a switch run until Ctrl-C or SIGTERM.
/// Errors: its journal fails.
pub(super) async fn run_until_stopped(server: Server, mut stop: StopSignal) -> Result<(), Failure> {
    tokio::select! {
        () = stop.received() => tracing::info!("stopping"),
        _ = server.failed() => {}
    }
    let kept = server.announce_stop(stop.received()).await;
    server.close().await;
    kept.map_err(|reason| {
        Failure::new(format!("stopped, because it can keep nothing any more: {reason}"))
    })
}
