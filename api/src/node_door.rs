//! The door for other nodes of the cluster: receipts, and everything with which a new node begins.
//!
//! | request | answer |
//! |---|---|
//! | `GET /key` | the wrapped data key: only the master key opens it |
//! | `GET /clock/NONCE` | the time here, see `node_clocks` |
//! | `GET /receipts/DIGEST` | the content |
//! | `PUT /receipts/DIGEST` | 204 once it is durable |
//! | `PUT /pan-keys/EPOCH` | 204 once they are durable, see `node_pan_keys` |
//! | `GET /backup/size` | of the node that leads: about so many bytes; 507 if it has no room to make one |
//! | `GET /backup` | of the node that leads: a backup made now, see `handed_backup`; 503 while it makes another |
//!
//! Each is signed with a key that every node has (see `node_call`), the first with the master key, which is all
//! that a node has before it joins; others are refused. No body is read and no key fetched for a head without
//! time and tag, or with a time of long ago. There is no TLS: the traffic of nodes belongs on a
//! network of their own, like the connections that doors forward.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{Method, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use cardswitch_edge::http_connection::serve_connection;
use cardswitch_edge::request_body::{ReadableBody, read_upload};
use cardswitch_engine::backup::CopyError;
use cardswitch_identity::receipts::{RECEIPT_BYTES_MAX, ReceiptFiles};
use cardswitch_secrets::Secrets;
use cardswitch_secrets::hex::array_from_hex;
use cardswitch_secrets::master_key::rotation::MasterKeys;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::handed_backup::{BackupDesk, HandOutError, size_of_backup};
use crate::node_call::{claimed_at, is_from_node, is_recent, signed_at};
use crate::node_clocks::{CLOCK_PATH, tell_time};
use crate::node_pan_keys::{FollowerPanKeys, PAN_KEYS_PATH};
use crate::telemetry::watchers::Watchers;

/// Connections at a time; of more, the oldest of the busiest address is closed.
const CONNECTIONS_MAX: usize = 32;
/// How long to wait after a failed accept before the next.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// The path of the wrapped data key.
pub const KEY_PATH: &str = "/key";
/// The path of a backup.
pub const BACKUP_PATH: &str = "/backup";
/// The path of its size.
pub const BACKUP_SIZE_PATH: &str = "/backup/size";
/// How long a node waits before it asks for a backup again, where another one is under way. Units: seconds.
pub const BACKUP_AGAIN_S: u64 = 2;
const FOLLOWS: &str = "the node follows: ask the one that leads";
const BUSY: &str = "the node makes another backup: ask again";
const NOT_OPEN: &str = "the node has not opened its data directory yet";
const OTHER_MASTER: &str =
    "the request is not signed with this cluster's master key, or the clocks differ";
const STRANGER: &str =
    "the request is not of a node of this cluster: the keys differ, or the clocks";

/// The door, open until this value is dropped.
#[derive(Debug)]
pub struct NodeDoor {
    /// The address at which it listens.
    pub address: SocketAddr,
    /// The cell for the parts that answer requests, filled once they are there.
    pub desk: Arc<OnceLock<NodeDesk>>,
    _stop: watch::Sender<bool>,
    _accepting: JoinSet<()>,
}

/// The parts of a node that carry out requests of other nodes.
#[derive(Debug)]
pub struct NodeDesk {
    /// The keys of all nodes.
    pub secrets: Secrets,
    /// The receipts of this one.
    pub receipts: Arc<ReceiptFiles>,
    /// Its keys of card numbers.
    pub pan_keys: Arc<FollowerPanKeys>,
    /// Its master key, which an operator may replace.
    pub master_keys: Arc<MasterKeys>,
    /// Held while the master key is read, which may take a command.
    pub joining: tokio::sync::Mutex<()>,
    /// The backups, where this one leads.
    pub backups: OnceLock<BackupDesk>,
}

impl NodeDoor {
    /// Listens; there is nothing to answer yet.
    /// Errors: the address is in use.
    pub async fn open(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let (stop, stopped) = watch::channel(false);
        let (desk, mut accepting) = (Arc::default(), JoinSet::new());
        accepting.spawn(accept(listener, Arc::clone(&desk), stopped));
        Ok(Self { address, desk, _stop: stop, _accepting: accepting })
    }
}

async fn accept(
    listener: TcpListener,
    desk: Arc<OnceLock<NodeDesk>>,
    stopped: watch::Receiver<bool>,
) {
    let mut connections = Watchers::new(CONNECTIONS_MAX);
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let (desk, stopped) = (Arc::clone(&desk), stopped.clone());
        connections.enter(peer.ip(), async move {
            let answer = |request| answer(request, Arc::clone(&desk));
            serve_connection(stream, answer, stopped).await;
        });
    }
}

async fn answer(request: Request<impl ReadableBody>, desk: Arc<OnceLock<NodeDesk>>) -> Response {
    let (parts, body) = request.into_parts();
    let Some(desk) = desk.get() else {
        return (StatusCode::SERVICE_UNAVAILABLE, NOT_OPEN).into_response();
    };
    let is_clock = parts.method == Method::GET && parts.uri.path().starts_with(CLOCK_PATH);
    // A node with a wrong clock has to hear it, however old its request seems.
    if !claimed_at(&parts.headers).is_some_and(|at| is_clock || is_recent(at)) {
        return (StatusCode::FORBIDDEN, STRANGER).into_response();
    }
    if parts.method != Method::PUT && !body.is_end_stream() {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    }
    let body = match read_upload(body, RECEIPT_BYTES_MAX).await {
        Ok(body) => body,
        Err(error) => return error.into_response(),
    };
    let (method, path) = (&parts.method, parts.uri.path());
    if (method, path) == (&Method::GET, KEY_PATH) {
        return wrapped_key(desk, &parts, &body).await;
    }
    if is_clock {
        return match signed_at(&desk.secrets, (method, path), &parts.headers, &body) {
            Some(_) => tell_time(&desk.secrets, path).into_response(),
            None => (StatusCode::FORBIDDEN, STRANGER).into_response(),
        };
    }
    if !is_from_node(&desk.secrets, (method, path), &parts.headers, &body) {
        return (StatusCode::FORBIDDEN, STRANGER).into_response();
    }
    let digest = path.strip_prefix("/receipts/").and_then(array_from_hex);
    match digest {
        Some(digest) => receipt(desk, method, *digest, body).await,
        None if (method, path) == (&Method::GET, BACKUP_PATH) => backup(desk),
        None if (method, path) == (&Method::GET, BACKUP_SIZE_PATH) => backup_size(desk).await,
        None if *method == Method::PUT => take_pan_keys(desk, path, body).await,
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn take_pan_keys(desk: &NodeDesk, path: &str, body: Bytes) -> Response {
    let epoch = path.strip_prefix(PAN_KEYS_PATH).and_then(|epoch| epoch.parse().ok());
    let Some(epoch) = epoch else { return StatusCode::NOT_FOUND.into_response() };
    let pan_keys = Arc::clone(&desk.pan_keys);
    match tokio::task::spawn_blocking(move || pan_keys.take(epoch, &body)).await {
        Ok(Ok(())) => StatusCode::NO_CONTENT.into_response(),
        Ok(Err(error)) if error.passes() => {
            (StatusCode::CONFLICT, error.to_string()).into_response()
        }
        Ok(Err(error)) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// The master key is read for each request: it does not stay in memory.
async fn wrapped_key(desk: &NodeDesk, parts: &Parts, body: &Bytes) -> Response {
    let master_keys = Arc::clone(&desk.master_keys);
    let read = {
        let _one_at_a_time = desk.joining.lock().await;
        tokio::task::spawn_blocking(move || master_keys.read()).await
    };
    match read {
        Ok(Ok((master, _))) if !is_from_node(&master, target_of(parts), &parts.headers, body) => {
            (StatusCode::FORBIDDEN, OTHER_MASTER).into_response()
        }
        Ok(Ok((_, wrapped))) => wrapped.render().into_response(),
        failed => {
            let why = failed.map(|read| read.err().map(|error| error.to_string()));
            tracing::error!(?why, "a node that joins gets no key");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

fn target_of(parts: &Parts) -> (&Method, &str) {
    (&parts.method, parts.uri.path())
}

fn backup(desk: &NodeDesk) -> Response {
    match desk.backups.get().map_or(Err(HandOutError::Gone), BackupDesk::hand_out) {
        Ok(pieces) => Body::from_stream(pieces).into_response(),
        Err(HandOutError::Gone) => (StatusCode::CONFLICT, FOLLOWS).into_response(),
        Err(HandOutError::Busy) => {
            let again = [(header::RETRY_AFTER, BACKUP_AGAIN_S.to_string())];
            (StatusCode::SERVICE_UNAVAILABLE, again, BUSY).into_response()
        }
    }
}

async fn backup_size(desk: &NodeDesk) -> Response {
    let Some(engine) = desk.backups.get().and_then(BackupDesk::engine) else {
        return (StatusCode::CONFLICT, FOLLOWS).into_response();
    };
    match tokio::task::spawn_blocking(move || size_of_backup(&engine)).await {
        Ok(Ok(bytes)) => bytes.to_string().into_response(),
        Ok(Err(error @ CopyError::NoRoom { .. })) => {
            (StatusCode::INSUFFICIENT_STORAGE, error.to_string()).into_response()
        }
        Ok(Err(error)) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn receipt(desk: &NodeDesk, method: &Method, digest: [u8; 32], body: Bytes) -> Response {
    let (receipts, is_get) = (Arc::clone(&desk.receipts), method == Method::GET);
    if !is_get && method != Method::PUT {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    let done = tokio::task::spawn_blocking(move || {
        if is_get {
            return receipts.read_here(&digest);
        }
        let kept = receipts.keep_here(&body)?;
        let other = || io::Error::other("the content is not what its name says");
        if kept == digest { Ok(Vec::new()) } else { Err(other()) }
    });
    match done.await {
        Ok(Ok(content)) if is_get => Body::from(content).into_response(),
        Ok(Ok(_)) => StatusCode::NO_CONTENT.into_response(),
        Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => {
            StatusCode::NOT_FOUND.into_response()
        }
        Ok(Err(error)) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use cardswitch_engine::clock::Clock;
    use cardswitch_secrets::master_key::MasterKey;
    use cardswitch_secrets::master_key::data_key::WrappedKey;
    use cardswitch_secrets::master_key::source::MasterKeySource;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;
    use crate::node_call::NodeCall;
    use crate::test_world::{TestSwitch, make_keyed_directory};

    async fn ask_for_key(door: &NodeDoor, key: &Path) -> Option<WrappedKey> {
        let master = MasterKey::read(key).unwrap();
        let asked = NodeCall::get(KEY_PATH.to_owned()).ask(door.address, &master, 4_096).await;
        let text = asked.ok()?;
        let wrapped = WrappedKey::parse(&mut String::from_utf8_lossy(&text).lines()).unwrap();
        wrapped.open_with(&master, key).unwrap();
        Some(wrapped)
    }

    struct OpenedDoor {
        door: NodeDoor,
        master_keys: Arc<MasterKeys>,
        _switch: TestSwitch,
    }

    async fn open_door(data: &Path, source: MasterKeySource) -> OpenedDoor {
        let switch = TestSwitch::start(Clock::System, Vec::new()).await;
        make_keyed_directory(data);
        let secrets = Secrets::from_root([3; 32]);
        let store = Arc::clone(&switch.state.switch.engine.store);
        let place = (data.to_path_buf(), secrets.clone());
        let pan_keys = FollowerPanKeys::new(place, store, Arc::default());
        let master_keys = Arc::new(MasterKeys::new(data, source));
        let door = NodeDoor::open("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let desk = NodeDesk {
            secrets,
            receipts: Arc::clone(&switch.state.receipts),
            pan_keys: Arc::new(pan_keys),
            master_keys: Arc::clone(&master_keys),
            joining: tokio::sync::Mutex::default(),
            backups: OnceLock::new(),
        };
        door.desk.set(desk).unwrap();
        OpenedDoor { door, master_keys, _switch: switch }
    }

    /// The status of the answer to a head, behind which no body comes.
    async fn status_of(door: &NodeDoor, head: &str) -> String {
        let mut stream = TcpStream::connect(door.address).await.unwrap();
        stream.write_all(format!("{head}\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer[9..]).into_owned()
    }

    /// Once, the door waited for a body of 10 MiB, and ran the command of the master key, before it looked at time and
    /// tag.
    #[tokio::test]
    async fn a_head_that_no_node_sends_is_refused_before_anything_is_read() {
        let home = tempfile::tempdir().unwrap();
        let (data, trace) = (home.path().join("data"), home.path().join("trace"));
        let command = format!("touch {}; cat {}/master.key", trace.display(), data.display());
        let opened = open_door(&data, MasterKeySource::Command(command)).await;
        let now = Clock::System.now().0;
        let signed =
            |at: i64| format!("cardswitch-time: {at}\r\ncardswitch-tag: {}", "0".repeat(32));
        let (fresh, old) = (signed(now), signed(now - 61_000_000));
        let put =
            format!("PUT /receipts/{} HTTP/1.1\r\nhost: x\r\ncontent-length: 9", "0".repeat(64));
        let get = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: x");
        for (head, expected) in [
            (put.clone(), "403"),
            (format!("{put}\r\n{old}"), "403"),
            (format!("{put}\r\n{}", fresh.trim_end_matches('0')), "403"),
            (get(KEY_PATH), "403"),
            (format!("{}\r\n{old}", get(KEY_PATH)), "403"),
            (format!("{}\r\n{fresh}\r\ncontent-length: 9", get(KEY_PATH)), "413"),
            (format!("{}\r\n{fresh}\r\ncontent-length: 9", get("/clock/x")), "413"),
        ] {
            assert_eq!(status_of(&opened.door, &head).await, expected, "{head}");
        }
        assert!(!trace.exists(), "the command ran");
        let head = format!("{}\r\n{fresh}", get(KEY_PATH));
        assert_eq!(status_of(&opened.door, &head).await, "403");
        assert!(trace.exists(), "only the key tells that the tag is wrong");
    }

    /// Once, the door asked for the key from which the node had started, also after an operator had replaced it:
    /// nobody joined any more.
    #[tokio::test]
    async fn a_node_joins_with_the_master_key_that_is_in_use_now() {
        let home = tempfile::tempdir().unwrap();
        let (data, second) = (home.path().join("data"), home.path().join("second"));
        let opened = open_door(&data, MasterKeySource::InDirectory).await;
        let OpenedDoor { door, master_keys, .. } = &opened;
        let first = data.join("master.key");
        assert!(ask_for_key(door, &first).await.is_some());
        master_keys.rotate(Some(&second)).unwrap();
        assert!(ask_for_key(door, &second).await.is_some());
        assert!(ask_for_key(door, &first).await.is_none());
    }
}
