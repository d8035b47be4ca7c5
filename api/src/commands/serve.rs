//! `cardswitch serve`.

use std::path::PathBuf;

use cardswitch_edge::tls::TlsFiles;
use cardswitch_secrets::master_key::source::MasterKeyArgs;

use super::{Failure, StopSignal};
use crate::config::read_settings;
use crate::node;
use crate::opening::KeyedDirectory;
use crate::server::Server;
use crate::setting_args::SettingArgs;
use crate::telemetry::log::start_log;

/// What `serve` takes; each flag overrides the environment, which overrides the file.
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
    /// Certificate chain of the HTTP address, in PEM form: HTTP is served over TLS
    #[arg(long, env = "CARDSWITCH_TLS_CERTIFICATE", value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// Private key of that certificate
    #[arg(
        long,
        env = "CARDSWITCH_TLS_KEY",
        hide_env_values = true,
        value_name = "FILE",
        requires = "tls_certificate"
    )]
    tls_key: Option<PathBuf>,
    /// Authorities in PEM form: clients over HTTP must show a certificate of one of them
    #[arg(long, env = "CARDSWITCH_TLS_CLIENT_CA", value_name = "FILE", requires = "tls_key")]
    tls_client_ca: Option<PathBuf>,
    /// Print the configuration that results, as TOML, and exit
    #[arg(long)]
    print_config: bool,
}

/// Carries out `serve`: runs until Ctrl-C or SIGTERM, or until the journal fails.
pub async fn run(args: ServeArgs) -> Result<(), Failure> {
    let mut file = read_settings(args.config.as_deref(), Some(&args.data)).map_err(Failure::new)?;
    if let (Some(certificate), Some(key)) = (args.tls_certificate, args.tls_key) {
        file.tls = Some(TlsFiles { certificate, key, client_ca: args.tls_client_ca });
    }
    let settings = args.settings.over(file).map_err(Failure::new)?;
    if args.print_config {
        print!("{}", toml::to_string(&settings).map_err(Failure::new)?);
        return Ok(());
    }
    start_log(settings.log);
    let mut stop = StopSignal::listen()?;
    let place = KeyedDirectory { data: &args.data, master_key: &args.master_key.source() };
    if settings.cluster.journal.is_some() {
        return node::serve(place, settings, stop).await;
    }
    let server = tokio::select! {
        started = Server::start(place, &settings) => started.map_err(Failure::new)?,
        // Nothing was taken yet, and the files are such that a start may break off anywhere. The
        // thread that reads them would be waited for at any other end.
        () = stop.received() => std::process::exit(0),
    };
    println!("ready {}", server.addresses());
    run_until_stopped(server, stop).await
}

/// Lets a switch run until Ctrl-C or SIGTERM.
/// Errors: its journal fails.
pub(super) async fn run_until_stopped(server: Server, mut stop: StopSignal) -> Result<(), Failure> {
    let failure = tokio::select! {
        () = stop.received() => None,
        reason = server.failed() => Some(reason),
    };
    if failure.is_none() {
        tracing::info!("stopping");
    }
    server.stop().await;
    failure.map_or(Ok(()), |reason| {
        Err(Failure::new(format!("stopped, because it can keep nothing any more: {reason}")))
    })
}
