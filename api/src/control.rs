//! The socket by which commands on the same machine ask a running switch to do something:
//! `control.sock` in the data directory.
//!
//! One JSON object a line each way; a connection is for one request. The system decides which users
//! may ask: the user that the switch runs as, and root.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::reply::Reply;
use cardswitch_engine::engine::Engine;
use cardswitch_secrets::Secrets;
use cardswitch_secrets::master_key::rotation::{MasterKeyReport, MasterKeys};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Mutex, MutexGuard, Semaphore, SemaphorePermit, watch};
use tokio::time::timeout;

use crate::backup::{CopyReport, back_up};
use crate::commands::administration::{Office, carry_out_by};
use crate::install::by_operator;
use crate::pan_rotation::PanRotation;

/// The socket's name.
const SOCKET: &str = "control.sock";
/// The longest request. Units: bytes.
const REQUEST_BYTES_MAX: u64 = 64 * 1024;
/// How long a request may take to arrive.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// How many connections are looked at at a time; others wait.
const CONNECTIONS_MAX: usize = 8;

/// The requests.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ControlRequest {
    /// To make a backup.
    BackUp {
        /// The absolute path of the backup, as the switch sees it.
        to: PathBuf,
    },
    /// Another key for card numbers.
    RotatePanKey,
    /// How far re-sealing has come.
    PanKeyProgress,
    /// The keys of card numbers, with the number of cards that need each.
    PanKeyReport,
    /// The order to forget all keys but the newest.
    ForgetPanKeys,
    /// Another master key.
    RotateMasterKey {
        /// The absolute path of the new key; without one it takes the place of the old key.
        place: Option<PathBuf>,
    },
    /// A command of an operator, an `Administration`.
    Administer(Value),
}

/// The object that was requested, or why the request was refused or failed.
pub type ControlAnswer = Result<Value, String>;

/// The listening side.
#[derive(Debug)]
pub struct Control {
    listener: UnixListener,
    path: PathBuf,
    desk: Arc<Desk>,
    connections: Arc<Semaphore>,
}

/// The parts of the switch that carry out requests.
#[derive(Debug)]
pub struct Desk {
    engine: Arc<Engine>,
    secrets: Arc<Secrets>,
    pan_keys: Arc<PanRotation>,
    master_keys: Arc<MasterKeys>,
    office: Office,
    /// The permit to make a backup, also for a node that joins. Whoever forgets a key takes it, too, since a copy
    /// made meanwhile may need that key.
    pub backups: Arc<Semaphore>,
    /// Held while the permit serves a command: a stop waits for that, and not for nodes that join.
    commanded: Mutex<()>,
}

impl Desk {
    /// The desk of a running switch.
    pub fn new(
        engine: Arc<Engine>,
        secrets: Arc<Secrets>,
        pan_keys: Arc<PanRotation>,
        master_keys: Arc<MasterKeys>,
        office: Office,
    ) -> Self {
        let (backups, commanded) = (Arc::new(Semaphore::new(1)), Mutex::default());
        Self { engine, secrets, pan_keys, master_keys, office, backups, commanded }
    }

    /// The permit for a command.
    /// Errors: a backup is under way.
    fn try_begin(&self) -> Result<(SemaphorePermit<'_>, MutexGuard<'_, ()>), &'static str> {
        let (permit, turn) = (self.backups.try_acquire(), self.commanded.try_lock());
        permit.ok().zip(turn.ok()).ok_or("a backup is under way")
    }
}

impl Control {
    /// Listens in the directory of the engine, whose lock keeps other switches away.
    /// Errors: the system refuses, as where the path is too long for a socket.
    pub fn listen(desk: Desk) -> io::Result<Self> {
        let path = desk.engine.directory.path().join(SOCKET);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        Ok(Self { listener, path, desk: Arc::new(desk), connections })
    }

    /// Answers until it is to stop; a backup that is under way is finished.
    pub async fn run(self, mut stopped: watch::Receiver<bool>) {
        loop {
            let permit = Arc::clone(&self.connections).acquire_owned().await;
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                _ = stopped.wait_for(|stopped| *stopped) => break,
            };
            let Ok((stream, _)) = accepted else {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let desk = Arc::clone(&self.desk);
            tokio::spawn(async move {
                let _permit = permit;
                if let Err(error) = converse(stream, &desk).await {
                    tracing::warn!(%error, "a request by the control socket broke off");
                }
            });
        }
        drop(fs::remove_file(&self.path));
        // Its holder is at work.
        drop(self.desk.commanded.lock().await);
    }
}

async fn converse(mut stream: UnixStream, desk: &Arc<Desk>) -> io::Result<()> {
    let answer = if is_allowed(&stream, desk.engine.directory.path())? {
        let (reading, _) = stream.split();
        let mut line = String::new();
        let mut reading = BufReader::new(reading.take(REQUEST_BYTES_MAX));
        timeout(REQUEST_TIMEOUT, reading.read_line(&mut line)).await??;
        match serde_json::from_str(&line) {
            Ok(request) => carry_out(request, desk).await,
            Err(error) => Err(format!("not a request: {error}")),
        }
    } else {
        Err("only the user that the switch runs as may ask".to_owned())
    };
    let mut line = serde_json::to_vec(&answer)?;
    line.push(b'\n');
    stream.write_all(&line).await
}

/// Whether the caller is the owner of the directory, or root.
fn is_allowed(stream: &UnixStream, data: &Path) -> io::Result<bool> {
    let asking = stream.peer_cred()?.uid();
    Ok(asking == 0 || asking == fs::metadata(data)?.uid())
}

async fn carry_out(request: ControlRequest, desk: &Arc<Desk>) -> ControlAnswer {
    let keys = &desk.pan_keys;
    match request {
        ControlRequest::BackUp { to } => object(make_backup(to, desk).await?),
        ControlRequest::RotatePanKey => object(keys.rotate().await.map_err(in_words)?),
        ControlRequest::PanKeyProgress => object(keys.progress()),
        ControlRequest::PanKeyReport => object(keys.report().await.map_err(in_words)?),
        ControlRequest::ForgetPanKeys => {
            let _permit = desk.try_begin()?;
            object(keys.forget().await.map_err(in_words)?)
        }
        ControlRequest::RotateMasterKey { place } => {
            object(rotate_master_key(place, Arc::clone(desk)).await?)
        }
        ControlRequest::Administer(command) => {
            let command = serde_json::from_value(command);
            let command = command.map_err(|error| format!("not a command: {error}"))?;
            object(carry_out_by(command, &desk.office).await)
        }
    }
}

fn object(answer: impl Serialize) -> ControlAnswer {
    serde_json::to_value(answer).map_err(in_words)
}

fn in_words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

async fn rotate_master_key(
    place: Option<PathBuf>,
    desk: Arc<Desk>,
) -> Result<MasterKeyReport, String> {
    if place.as_ref().is_some_and(|place| !place.is_absolute()) {
        return Err("the place of a master key is an absolute path".to_owned());
    }
    let keys = Arc::clone(&desk.master_keys);
    let rotate = move || keys.rotate(place.as_deref());
    let rotated = tokio::task::spawn_blocking(rotate).await;
    let rotated = rotated.map_err(|_| "the replacement of the master key broke off")?;
    let report = rotated.map_err(in_words)?;
    tracing::info!(id = report.master_key_id, "another master key opens the directory");
    note("master_key.rotated", &desk).await;
    Ok(report)
}

/// Leaves the audit event of an act that is done.
async fn note(action: &'static str, desk: &Desk) {
    let noted = desk.office.switch.ask(by_operator(AdminCommand::NoteAct(action))).await;
    if !matches!(noted, Ok(Reply::Done(_))) {
        tracing::error!(action, "the audit log of the switch may lack this");
    }
}

async fn make_backup(to: PathBuf, desk: &Desk) -> Result<CopyReport, String> {
    let _permit = desk.try_begin()?;
    let (engine, secrets) = (Arc::clone(&desk.engine), Arc::clone(&desk.secrets));
    if !to.is_absolute() {
        return Err("the place of a backup is an absolute path".to_owned());
    }
    let made = tokio::task::spawn_blocking(move || back_up(&engine, &secrets, &to)).await;
    let report = made.map_err(|_| "the backup broke off")?.map_err(in_words)?;
    tracing::info!(records = report.records, bytes = report.bytes, "made a backup");
    for name in &report.damaged_receipts {
        tracing::error!(name, "a receipt is damaged; the backup is without it");
    }
    note("backup.made", desk).await;
    Ok(report)
}

/// Asks the switch that runs on a data directory.
/// Errors: none answers there.
pub async fn ask(data: &Path, request: &ControlRequest) -> io::Result<ControlAnswer> {
    let mut stream = UnixStream::connect(data.join(SOCKET)).await?;
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    stream.write_all(&line).await?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).await?;
    if answer.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_str(&answer)?)
}
