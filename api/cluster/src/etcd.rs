//! A client of etcd's JSON gateway, which answers on the same port as its gRPC.
//!
//! It is called from threads of its own and blocks: whoever calls has nothing else to do. Calls are
//! made one after the other on one connection, to the first member that takes it.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request, header};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

/// How long a member may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(300);
/// How long an answer may take; an election of etcd takes about a second.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(1_500);
/// How long it waits before it reports that nobody answers.
const PAUSE: Duration = Duration::from_millis(20);
/// The longest answer: many batches of the largest size. Units: bytes.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// Why etcd gave no answer that helps.
#[derive(Debug, thiserror::Error)]
pub enum EtcdError {
    /// No member answers, or the one that was asked broke off. What was asked for may have happened.
    #[error("no member of etcd answers: {0}")]
    Unavailable(String),
    /// It answered that it will not do it.
    #[error("etcd answers {status}: {message}")]
    Refused {
        /// The status of HTTP.
        status: u16,
        /// Its words.
        message: String,
    },
    /// What it answered is not understood.
    #[error("etcd's answer is not understood: {0}")]
    Answer(&'static str),
    /// The system gives no threads or sockets.
    #[error("cannot talk to etcd: {0}")]
    System(#[from] std::io::Error),
}

/// A connection to an etcd.
#[derive(Debug)]
pub(crate) struct EtcdClient {
    runtime: Runtime,
    endpoints: Vec<String>,
    /// The member that is asked next.
    current: usize,
    connection: Option<SendRequest<Full<Bytes>>>,
}

impl EtcdClient {
    /// A client of these members; it connects when it is first used.
    pub(crate) fn new(endpoints: &[String]) -> Result<Self, EtcdError> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Self { runtime, endpoints: endpoints.to_vec(), current: 0, connection: None })
    }

    /// Posts to the gateway and returns what it answers.
    pub(crate) fn call(&mut self, path: &str, body: &Value) -> Result<Value, EtcdError> {
        let Self { runtime, endpoints, current, connection } = self;
        let body = Bytes::from(serde_json::to_vec(body).unwrap_or_default());
        runtime.block_on(async {
            let asked = timeout(ANSWER_TIMEOUT, async {
                let (mut sender, host) = connect(endpoints, current, connection.take()).await?;
                let answer = post(&mut sender, &host, (path, body)).await?;
                *connection = Some(sender);
                Ok::<_, EtcdError>(answer)
            });
            let answer = asked.await.unwrap_or_else(|_| {
                Err(EtcdError::Unavailable(format!("`{}` is silent", endpoints[*current])))
            });
            if let Err(EtcdError::Unavailable(_)) = &answer {
                *current = (*current + 1) % endpoints.len();
                tokio::time::sleep(PAUSE).await;
            }
            answer
        })
    }
}

/// Uses the connection there is, or connects to the first member that takes one.
async fn connect(
    endpoints: &[String],
    current: &mut usize,
    connection: Option<SendRequest<Full<Bytes>>>,
) -> Result<(SendRequest<Full<Bytes>>, String), EtcdError> {
    if let Some(mut open) = connection
        && open.ready().await.is_ok()
    {
        return Ok((open, endpoints[*current].clone()));
    }
    let mut refused = String::new();
    for _ in 0..endpoints.len() {
        let host = &endpoints[*current];
        match timeout(CONNECT_TIMEOUT, TcpStream::connect(host)).await {
            Ok(Ok(stream)) => {
                stream.set_nodelay(true)?;
                let opened = handshake(TokioIo::new(stream)).await;
                let (sender, driver) =
                    opened.map_err(|error| EtcdError::Unavailable(error.to_string()))?;
                tokio::spawn(async move { drop(driver.await) });
                return Ok((sender, host.clone()));
            }
            Ok(Err(error)) => refused = format!("`{host}`: {error}"),
            Err(_) => refused = format!("`{host}` takes no connection"),
        }
        *current = (*current + 1) % endpoints.len();
    }
    Err(EtcdError::Unavailable(refused))
}

async fn post(
    sender: &mut SendRequest<Full<Bytes>>,
    host: &str,
    (path, body): (&str, Bytes),
) -> Result<Value, EtcdError> {
    let broken =
        |error: &dyn std::fmt::Display| EtcdError::Unavailable(format!("`{host}`: {error}"));
    let request = Request::builder()
        .method(Method::POST)
        .uri(path)
        .header(header::HOST, host)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(body))
        .map_err(|_| EtcdError::Answer("the request cannot be written"))?;
    let response = sender.send_request(request).await.map_err(|error| broken(&error))?;
    let status = response.status();
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(|error| broken(&error))?.to_bytes();
    if status.is_success() {
        return serde_json::from_slice(&body).map_err(|_| EtcdError::Answer("it is no JSON"));
    }
    let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
    let message = answer["error"].as_str().unwrap_or("no reason").to_owned();
    // Codes of gRPC: 4 deadline, 8 no space or too much at once, 14 unavailable, as while the members
    // elect their leader. All of them pass.
    match answer["code"].as_u64() {
        Some(4 | 8 | 14) => Err(EtcdError::Unavailable(message)),
        _ => Err(EtcdError::Refused { status: status.as_u16(), message }),
    }
}

/// Bytes as the gateway writes them.
pub(crate) fn encoded(bytes: impl AsRef<[u8]>) -> Value {
    Value::String(STANDARD.encode(bytes))
}

/// Bytes that the gateway wrote; nothing stands for none.
pub(crate) fn decoded(value: &Value) -> Result<Vec<u8>, EtcdError> {
    let text = value.as_str().unwrap_or_default();
    STANDARD.decode(text).map_err(|_| EtcdError::Answer("it is no base64"))
}

/// The key right behind all that begin with `prefix`.
pub(crate) fn end_of(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}
