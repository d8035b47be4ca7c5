//! `cardswitch serve`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use cardswitch_cluster::ClusterAddress;
use cardswitch_edge::tls::TlsFiles;
use cardswitch_notify::mail::settings::SmtpUrl;
use cardswitch_secrets::master_key::source::MasterKeyArgs;

use super::{Failure, StopSignal, parse_address};
use crate::config::{
    ClockSetting, Compat, ConfigError, LogFormat, RetentionSetting, Settings, read_settings,
};
use crate::doors::LengthSetting;
use crate::node;
use crate::opening::KeyedDirectory;
use crate::server::Server;
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
    /// Address for HTTP; port 0 takes a free one [default: 127.0.0.1:8080]
    #[arg(long, env = "CARDSWITCH_HTTP", value_name = "ADDR", value_parser = parse_address)]
    http: Option<SocketAddr>,
    /// Certificate chain of the HTTP address, in PEM form: HTTP is served over TLS
    #[arg(long, env = "CARDSWITCH_TLS_CERTIFICATE", value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// Private key of that certificate
    #[arg(long, env = "CARDSWITCH_TLS_KEY", value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Authorities in PEM form: clients over HTTP must show a certificate of one of them
    #[arg(long, env = "CARDSWITCH_TLS_CLIENT_CA", value_name = "FILE", requires = "tls_key")]
    tls_client_ca: Option<PathBuf>,
    /// Address for ISO 8583; port 0 takes a free one [default: 127.0.0.1:8583]
    #[arg(long, env = "CARDSWITCH_ISO8583", value_name = "ADDR", value_parser = parse_address)]
    iso8583: Option<SocketAddr>,
    /// ISO 8583 dialect: default, ascii-hex, ebcdic, bcd, 1993, or a dialect file [default: default]
    #[arg(long, env = "CARDSWITCH_DIALECT", value_name = "NAME|FILE")]
    dialect: Option<String>,
    /// Length before each ISO 8583 message, such as binary4, ascii4 or `bcd4 inclusive` [default: that
    /// of the dialect]
    #[arg(long, env = "CARDSWITCH_LENGTH", value_name = "FORM")]
    length: Option<LengthSetting>,
    /// Whether a TPDU stands before each ISO 8583 message [default: as the dialect says]
    #[arg(
        long,
        env = "CARDSWITCH_TPDU",
        value_name = "TPDU",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    tpdu: Option<bool>,
    /// Address that clients see, for the links in answers [default: that of --http]
    #[arg(long, env = "CARDSWITCH_BASE_URL", value_name = "URL")]
    base_url: Option<String>,
    /// Address of the site, where shared links lead [default: that of --base-url]
    #[arg(long, env = "CARDSWITCH_APP_URL", value_name = "URL")]
    app_url: Option<String>,
    /// Proxies whose X-Forwarded-For is believed: addresses or networks, with commas between them
    #[arg(
        long,
        env = "CARDSWITCH_TRUSTED_PROXIES",
        value_name = "NETWORKS",
        value_delimiter = ','
    )]
    trusted_proxies: Option<Vec<String>>,
    /// Follow the habits of older clients of such an API, too
    #[arg(long, env = "CARDSWITCH_COMPAT", value_name = "CLIENT")]
    compat: Option<Compat>,
    /// Mail server, such as smtps://user@mail.example.com; the password is better in the file or in
    /// the environment [default: none, letters are files in `outbox`]
    #[arg(long, env = "CARDSWITCH_SMTP_URL", value_name = "URL", hide_env_values = true)]
    smtp_url: Option<SmtpUrl>,
    /// File with the password of the mail server
    #[arg(long, env = "CARDSWITCH_SMTP_PASSWORD_FILE", value_name = "FILE")]
    smtp_password_file: Option<PathBuf>,
    /// Whom letters are from, such as "Cards <no-reply@example.com>" [default: no-reply at the site]
    #[arg(long, env = "CARDSWITCH_MAIL_FROM", value_name = "ADDRESS")]
    mail_from: Option<String>,
    /// Clock: the system's, or one that simulations move [default: system]
    #[arg(long, env = "CARDSWITCH_CLOCK", value_name = "CLOCK")]
    clock: Option<ClockSetting>,
    /// How much of the journal is kept: a size, `recovery` or `forever` [default: 256MiB]
    #[arg(long, env = "CARDSWITCH_RETENTION", value_name = "HOW")]
    retention: Option<RetentionSetting>,
    /// Log format, on stderr; RUST_LOG sets the level [default: human]
    #[arg(long, env = "CARDSWITCH_LOG", value_name = "FORMAT")]
    log: Option<LogFormat>,
    /// Address for /metrics, /healthz and /readyz [default: 127.0.0.1:9464]
    #[arg(long, env = "CARDSWITCH_METRICS", value_name = "ADDR", value_parser = parse_address)]
    metrics: Option<SocketAddr>,
    /// Let webhooks go to this machine and to private networks, too: for a switch that is tried out
    #[arg(
        long,
        env = "CARDSWITCH_ALLOW_LOCAL_WEBHOOKS",
        value_name = "ALLOW",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    allow_local_webhooks: Option<bool>,
    /// Requests a second that an access token may make, 0 for any number [default: 500]
    #[arg(long, env = "CARDSWITCH_TOKEN_REQUESTS_PER_S", value_name = "N")]
    token_requests_per_s: Option<u32>,
    /// Seconds to go on taking requests after /readyz has said `stopping` [default: 0]
    #[arg(long, env = "CARDSWITCH_STOP_DELAY_S", value_name = "SECONDS")]
    stop_delay_s: Option<u64>,
    /// Cluster to be a node of, such as etcd://10.0.0.1:2379,10.0.0.2:2379/prod
    #[arg(long, env = "CARDSWITCH_JOURNAL", value_name = "URL")]
    journal: Option<ClusterAddress>,
    /// Name of this node in its cluster
    #[arg(long, env = "CARDSWITCH_NODE", value_name = "NAME")]
    node: Option<String>,
    /// Address at which other nodes reach the doors of this one [default: that of the doors]
    #[arg(long, env = "CARDSWITCH_PEER", value_name = "ADDR")]
    peer: Option<IpAddr>,
    /// Print the configuration that results, as TOML, and exit
    #[arg(long)]
    print_config: bool,
}

/// Carries out `serve`: runs until Ctrl-C or SIGTERM, or until the journal fails.
pub async fn run(args: ServeArgs) -> Result<(), Failure> {
    let settings = settings(&args).map_err(Failure::new)?;
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

fn settings(args: &ServeArgs) -> Result<Settings, ConfigError> {
    let mut settings = read_settings(args.config.as_deref(), Some(&args.data))?;
    settings.http = args.http.unwrap_or(settings.http);
    settings.iso8583 = args.iso8583.unwrap_or(settings.iso8583);
    if let (Some(certificate), Some(key)) = (&args.tls_certificate, &args.tls_key) {
        let (certificate, key) = (certificate.clone(), key.clone());
        settings.tls = Some(TlsFiles { certificate, key, client_ca: args.tls_client_ca.clone() });
    }
    settings.dialect = args.dialect.clone().unwrap_or(settings.dialect);
    settings.length = args.length.or(settings.length);
    settings.tpdu = args.tpdu.or(settings.tpdu);
    settings.base_url = args.base_url.clone().or(settings.base_url);
    settings.app_url = args.app_url.clone().or(settings.app_url);
    settings.trusted_proxies = args.trusted_proxies.clone().unwrap_or(settings.trusted_proxies);
    settings.compat = args.compat.or(settings.compat);
    let mail = &mut settings.mail;
    mail.smtp_url = args.smtp_url.clone().or(mail.smtp_url.take());
    mail.smtp_password_file = args.smtp_password_file.clone().or(mail.smtp_password_file.take());
    mail.from = args.mail_from.clone().or(mail.from.take());
    settings.clock = args.clock.unwrap_or(settings.clock);
    settings.retention = args.retention.unwrap_or(settings.retention);
    settings.log = args.log.unwrap_or(settings.log);
    settings.metrics = args.metrics.or(settings.metrics);
    settings.allow_local_webhooks =
        args.allow_local_webhooks.unwrap_or(settings.allow_local_webhooks);
    settings.token_requests_per_s =
        args.token_requests_per_s.unwrap_or(settings.token_requests_per_s);
    settings.stop_delay_s = args.stop_delay_s.unwrap_or(settings.stop_delay_s);
    let cluster = &mut settings.cluster;
    cluster.journal = args.journal.clone().or(cluster.journal.take());
    cluster.node = args.node.clone().or(cluster.node.take());
    cluster.peer = args.peer.or(cluster.peer);
    settings.checked()
}
