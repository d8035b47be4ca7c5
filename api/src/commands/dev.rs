//! `cardswitch dev`: a switch to develop against, at fixed addresses, that keeps what is in it.
//!
//! It lives in the user's state directory, `cardswitch/dev` in `XDG_STATE_HOME`, else in
//! `~/.local/state`. A file in it tells `buy` where the switch is, and that this command made the
//! directory.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use cardswitch_engine::data_directory::{DataDirectory, DirectoryError};
use cardswitch_secrets::private_file::replace;
use serde::{Deserialize, Serialize};

use super::home::{Home, Program, WayIn};
use super::serve::run_until_stopped;
use super::{Failure, StopSignal};
use crate::config::{Settings, read_settings};
use crate::install::Credentials;
use crate::server::{Server, StartError};
use crate::setting_args::SettingArgs;
use crate::telemetry::log::start_log;

/// As many test cards as bring about every response code once.
const CARDS: usize = 39;
const ACCESS_FILE: &str = "dev.json";

/// The arguments of `dev`.
#[derive(Debug, clap::Args)]
pub struct DevArgs {
    /// Begin anew: removes everything that an earlier `dev` kept
    #[arg(long)]
    reset: bool,
    #[command(flatten)]
    settings: SettingArgs,
}

/// The addresses of the switch of `dev`.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct DevAddresses {
    /// Start of HTTP addresses.
    pub(super) url: String,
    /// The ISO 8583 door; none before the first start.
    pub(super) iso8583: Option<SocketAddr>,
}

/// The addresses of the switch of this user's `dev`, and its credentials; none where there is none.
pub(super) fn find_access() -> Option<(DevAddresses, Credentials)> {
    let home = Home::at(directory().ok()?);
    Some((read_access(&home.path)?, home.credentials().ok()??))
}

fn read_access(directory: &Path) -> Option<DevAddresses> {
    let text = std::fs::read_to_string(directory.join(ACCESS_FILE)).ok()?;
    serde_json::from_str(&text).ok()
}

fn keep_access(directory: &Path, access: &DevAddresses) -> Result<(), Failure> {
    let path = directory.join(ACCESS_FILE);
    let text = serde_json::to_vec(access)?;
    replace(&path, &text).map_err(|error| Failure::new(format!("`{}`: {error}", path.display())))
}

/// Source: XDG Base Directory Specification; a path that is not absolute counts as absent.
fn directory() -> Result<PathBuf, Failure> {
    let absolute =
        |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
        .ok_or_else(|| Failure::new("neither XDG_STATE_HOME nor HOME is a directory"))?;
    Ok(state.join("cardswitch").join("dev"))
}

/// Carries out `dev`: runs until Ctrl-C or SIGTERM.
pub async fn run(args: DevArgs) -> Result<(), Failure> {
    let home = Home::at(directory()?);
    let path = home.path.as_path();
    refuse_second(path)?;
    if args.reset {
        reset(path)?;
    }
    if !path.exists() {
        std::fs::create_dir_all(path)
            .map_err(|error| Failure::new(format!("`{}`: {error}", path.display())))?;
        keep_access(path, &DevAddresses::default())?;
    }
    let file = read_settings(None, Some(path))?;
    let settings = args.settings.over(file).map_err(Failure::usage)?;
    let settings = Settings { allow_local_webhooks: true, ..settings };
    start_log(settings.log);
    let stop = StopSignal::listen()?;
    let program = Program { cards: CARDS, seed: None, at: None };
    let credentials = home.install_if_needed(program, |line| println!("{line}")).await?;
    let server = Server::start(path, &settings).await.map_err(not_started)?;
    let url = format!("http://{}", server.http);
    keep_access(path, &DevAddresses { url: url.clone(), iso8583: Some(server.iso8583()) })?;
    println!("serving {url} and ISO 8583 at {}", server.iso8583());
    println!("data in {}; `--reset` begins anew", path.display());
    let portfolio = home.portfolio()?;
    let way_in =
        WayIn { server: &server, credentials: &credentials, portfolio: &portfolio, is_known: true };
    way_in.lines().iter().for_each(|line| println!("{line}"));
    run_until_stopped(server, stop).await
}

/// Errors: another `dev` runs.
fn refuse_second(path: &Path) -> Result<(), Failure> {
    let Err(DirectoryError::InUse(_)) = DataDirectory::open(path) else { return Ok(()) };
    let DevAddresses { url, iso8583 } = read_access(path).unwrap_or_default();
    let iso8583 = iso8583.map(|address| format!(" and ISO 8583 at {address}")).unwrap_or_default();
    Err(Failure::new(format!("`cardswitch dev` runs already: {url}{iso8583}")))
}

/// Errors: the directory was made by somebody else.
fn reset(path: &Path) -> Result<(), Failure> {
    if !path.exists() {
        return Ok(());
    }
    if read_access(path).is_none() {
        let what = "was not made by `cardswitch dev`: it is left alone";
        return Err(Failure::new(format!("`{}` {what}", path.display())));
    }
    std::fs::remove_dir_all(path)
        .map_err(|error| Failure::new(format!("`{}`: {error}", path.display())))
}

fn not_started(error: StartError) -> Failure {
    match error {
        StartError::Listen(..) => {
            Failure::new(format!("{error}: --http, --iso8583 and --metrics take other addresses"))
        }
        error => Failure::new(error),
    }
}
