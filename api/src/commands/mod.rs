//! The command line: the arguments of each command, and the place where it is carried out.

pub mod administration;
pub mod app;
#[cfg(test)]
mod at_rest_tests;
pub mod audit;
pub mod backup;
#[cfg(target_os = "linux")]
pub mod bench;
pub mod buy;
pub mod cluster;
pub mod company;
pub mod company_options;
mod config_args;
pub mod decode;
pub mod demo;
pub mod dev;
pub mod dialect;
mod door_security_args;
pub mod explain;
pub mod export;
pub mod feed;
mod home;
mod http_client;
mod http_tls_args;
pub mod init;
mod line_args;
pub mod listen;
mod live_screen;
pub mod manual;
mod manual_page;
pub mod master_key;
pub mod network_key;
pub mod pan_key;
mod remote_switch;
pub mod route;
mod running;
mod secured_line;
pub mod send;
pub mod serve;
mod tls_args;
pub mod token;
pub mod user;
pub mod verify;
pub mod zone_keys;

use std::fmt::Display;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::time::Duration;

use clap::{Parser, Subcommand};
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{Signal, SignalKind, signal};

use cardswitch_secrets::process::keep_files_private;

use self::administration::Administration;

/// An authorization switch for expense cards: ISO 8583 and HTTP network doors, a /v1 admin API,
/// and a simulated card network to try it with.
#[derive(Debug, Parser)]
#[command(name = "cardswitch", version, max_term_width = 100)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: CliCommand,
}

/// The commands of the one binary.
#[derive(Debug, Subcommand)]
pub enum CliCommand {
    /// Show a card program at work: makes one, serves it, and sends it purchases
    Demo(demo::DemoArgs),
    /// Run a switch to develop against, which keeps its data
    Dev(Box<dev::DevArgs>),
    /// Buy something with a card, through the ISO 8583 door
    Buy(buy::BuyArgs),
    /// Measure this machine for a minute: authorizations a second, and their latency
    #[cfg(target_os = "linux")]
    Bench(bench::BenchArgs),
    /// Make a data directory: keys, a company with an account, an administrator, a token, cards
    Init(init::InitArgs),
    /// Serve a data directory: /v1 and /network/v1 over HTTP, the card network over ISO 8583
    Serve(Box<serve::ServeArgs>),
    /// Simulate a card network: send purchases, reversals and presentments to a switch and keep books
    Feed(feed::FeedArgs),
    /// Send one ISO 8583 message and print request and answer field by field
    Send(send::SendArgs),
    /// Recognize captured bytes of a card network, and print their messages field by field
    Decode(decode::DecodeArgs),
    /// Show, check and import ISO 8583 dialects
    Dialect(dialect::DialectCommandArgs),
    /// Show events of a company as they happen, and send them on to a receiver under development
    Listen(listen::ListenArgs),
    /// Keep a company's transactions in a PostgreSQL database up to date
    Export(export::ExportArgs),
    /// Prove a data directory offline: chain whole, replay equals tables, money adds up
    Verify(verify::VerifyArgs),
    /// Copy a data directory, also while its switch runs
    Backup(backup::BackupArgs),
    /// Make a data directory from a backup, also as of a later moment
    Restore(backup::RestoreArgs),
    /// Replace the key that card numbers are sealed under, also while the switch or the cluster runs
    RotatePanKey(pan_key::RotatePanKeyArgs),
    /// Replace the master key, which wraps all others, also while the switch runs
    RotateMasterKey(master_key::RotateMasterKeyArgs),
    /// Print the keys of an ISO 8583 door: check values, and key blocks under the master key
    ZoneKeys(zone_keys::ZoneKeysArgs),
    /// Explain a decision, with the least change that would have approved it
    Explain(explain::ExplainArgs),
    /// The commands of an operator
    #[command(flatten)]
    Administer(Administration),
    /// Run several switches with the same data, on etcd
    #[command(subcommand)]
    Cluster(cluster::ClusterCommand),
    /// Hand messages and requests to the cells that they name: switches that share nothing
    Route(Box<route::RouteArgs>),
    /// Print a script that completes commands and flags in a shell
    Completions(manual::CompletionsArgs),
    /// Print the manual page, or write those of all commands
    Man(manual::ManArgs),
}

/// Why a command failed: one line for the user, and the exit code.
#[derive(Debug, Serialize, Deserialize)]
pub struct Failure {
    /// The cause, in words.
    pub message: String,
    /// 1: the command failed; 2: its arguments are wrong.
    pub exit_code: u8,
}

impl Failure {
    /// It did not work.
    pub fn new(message: impl Display) -> Self {
        Self { message: message.to_string(), exit_code: 1 }
    }

    /// It was asked for wrongly.
    pub fn usage(message: impl Display) -> Self {
        Self { message: message.to_string(), exit_code: 2 }
    }

    /// The same with a reason behind it, if there is one.
    #[must_use]
    pub fn because(mut self, reason: Option<&str>) -> Self {
        if let Some(reason) = reason {
            self.message = format!("{}: {reason}", self.message);
        }
        self
    }
}

/// An error of any other kind: it did not work.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::new(error)
    }
}

/// Carries out a command.
pub async fn run(cli: Cli) -> Result<(), Failure> {
    if !matches!(cli.command, CliCommand::Completions(_) | CliCommand::Man(_)) {
        keep_files_private();
    }
    match cli.command {
        CliCommand::Demo(args) => demo::run(args).await,
        CliCommand::Dev(args) => dev::run(*args).await,
        CliCommand::Buy(args) => buy::run(args).await,
        #[cfg(target_os = "linux")]
        CliCommand::Bench(args) => bench::run(args).await,
        CliCommand::Init(args) => init::run(args).await,
        CliCommand::Serve(args) => serve::run(*args).await,
        CliCommand::Feed(args) => feed::run(args).await,
        CliCommand::Send(args) => send::run(args).await,
        CliCommand::Decode(args) => decode::run(&args),
        CliCommand::Dialect(args) => dialect::run(&args),
        CliCommand::Listen(args) => listen::run(args).await,
        CliCommand::Export(args) => export::run(args).await,
        CliCommand::Verify(args) => verify::run(&args),
        CliCommand::Backup(args) => backup::back_up(args).await,
        CliCommand::Restore(args) => backup::restore(&args),
        CliCommand::RotatePanKey(args) => pan_key::run(args).await,
        CliCommand::RotateMasterKey(args) => master_key::run(args).await,
        CliCommand::ZoneKeys(args) => zone_keys::run(&args),
        CliCommand::Explain(args) => explain::run(&args),
        CliCommand::Administer(command) => administration::run(command).await,
        CliCommand::Cluster(command) => cluster::run(command).await,
        CliCommand::Route(args) => route::run(*args).await,
        CliCommand::Completions(args) => manual::print_completions(&args),
        CliCommand::Man(args) => manual::print_manual(&args),
    }
}

/// Prints a line about a process at work, which goes on if nobody takes it: the reader may be gone, the disk full.
pub(crate) fn announce(line: impl Display) {
    if let Err(error) = writeln!(io::stdout(), "{line}") {
        tracing::warn!(%error, "`{line}` could not be printed");
    }
}

/// As `announce`, on stderr: for commands that have no log.
pub(crate) fn complain(line: impl Display) {
    drop(writeln!(io::stderr(), "{line}"));
}

/// Parses `500ms`, `30s`, `5m`, `8h`, `3d`; a bare number is seconds.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits_end = text.find(|symbol: char| !symbol.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits_end);
    let number: u64 = number.parse().map_err(|_| format!("`{text}` is no duration"))?;
    let unit_ms: u64 = match unit {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(format!("`{unit}` is no unit of time: use ms, s, m, h or d")),
    };
    let ms = number.checked_mul(unit_ms).ok_or_else(|| format!("`{text}` is too long"))?;
    Ok(Duration::from_millis(ms))
}

/// As `parse_duration`, for what lasts some time.
pub fn parse_lasting(text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text)?;
    if duration.is_zero() { Err("write more than 0".to_owned()) } else { Ok(duration) }
}

/// Parses a number above 0.
pub fn parse_count(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| "write a number above 0".to_owned())
}

/// Parses an address with its port.
pub fn parse_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "write IP:PORT, such as 127.0.0.1:8080".to_owned())
}

/// Takes SIGHUP from now on, until the process ends: it asks for files to be read again, and never ends a switch.
/// Call it before anything else. Whoever has such files waits for the signal, too.
/// Errors: the system refuses.
pub(crate) fn take_hangups() -> Result<(), Failure> {
    let mut hangup = signal(SignalKind::hangup()).map_err(Failure::new)?;
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            tracing::info!(
                "SIGHUP: doors with TLS read its files again; settings are read at a start"
            );
        }
    });
    Ok(())
}

/// The wish to stop: Ctrl-C or SIGTERM. From the moment this is made neither ends the process by
/// itself, so make it before anybody is told that there is something to stop.
#[derive(Debug)]
pub struct StopSignal {
    interrupt: Signal,
    terminate: Signal,
}

impl StopSignal {
    /// Listens for both signals.
    /// Errors: the system refuses.
    pub fn listen() -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(Failure::new);
        let interrupt = listen(SignalKind::interrupt())?;
        Ok(Self { interrupt, terminate: listen(SignalKind::terminate())? })
    }

    /// Resolves when one of them comes.
    pub async fn received(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    /// Whether one of them has come that nobody has taken note of.
    pub async fn has_come(&mut self) -> bool {
        tokio::select! {
            biased;
            () = self.received() => true,
            () = std::future::ready(()) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{getpid, kill_process};

    use super::*;

    #[test]
    fn durations_have_units() {
        for (text, ms) in [("5", 5_000), ("250ms", 250), ("2m", 120_000), ("3d", 259_200_000)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(ms)));
        }
        for text in ["", "s", "5w", "-1s", "99999999999999999999d"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_lasts_and_what_counts_is_above_zero() {
        assert!(parse_lasting("1ms").is_ok() && parse_lasting("0s").is_err());
        let refused = parse_count("0").unwrap_err();
        assert!(parse_count("1").is_ok() && refused == "write a number above 0", "{refused}");
    }

    #[test]
    fn addresses_are_numbers_with_a_port() {
        assert!(parse_address("127.0.0.1:0").is_ok() && parse_address("[::1]:8583").is_ok());
        for text in ["", "8080", "localhost:8080", "127.0.0.1"] {
            assert!(parse_address(text).is_err(), "{text}");
        }
    }

    /// Once, a node that was told to stop while it lost the lead became a new process image, which followed for ever.
    #[tokio::test]
    async fn a_signal_that_nobody_waited_for_has_come() {
        let mut stop = StopSignal::listen().unwrap();
        assert!(!stop.has_come().await);
        kill_process(getpid(), rustix::process::Signal::TERM).unwrap();
        while !stop.has_come().await {
            tokio::task::yield_now().await;
        }
        assert!(!stop.has_come().await, "it counts once");
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}
