//! A client of etcd, of as much of gRPC as that takes: one request and one answer, on HTTP/2.
//!
//! It is called from threads of its own and blocks: whoever calls has nothing else to do. Calls are
//! made one after the other on one connection, to the first member that takes it.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http2::{Builder as Http2, SendRequest};
use hyper::{HeaderMap, Method, Request, header};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::proto::Call;

/// How long a member may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(300);
/// How long an answer may take; an election of etcd takes about a second.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(1_500);
/// How long it waits before it reports that nobody answers.
const PAUSE: Duration = Duration::from_millis(20);
/// The longest answer: many batches of the largest size. Units: bytes.
const ANSWER_BYTES_MAX: usize = 256 << 20;
/// How much may be on its way without being acknowledged. Units: bytes.
const STREAM_WINDOW_BYTES: u32 = 4 << 20;
/// What comes before a message of gRPC: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;
/// Codes of gRPC that pass: deadline, no space or too much at once, unavailable, as while the members
/// elect their leader.
const PASSING_CODES: [u16; 3] = [4, 8, 14];

/// Why etcd gave no answer that helps.
#[derive(Debug, thiserror::Error)]
pub enum EtcdError {
    /// No member answers, or the one that was asked broke off. What was asked for may have happened.
    #[error("no member of etcd answers: {0}")]
    Unavailable(String),
    /// It answered that it will not do it.
    #[error("etcd refuses with code {code}: {message}")]
    Refused {
        /// The code of gRPC.
        code: u16,
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

    /// Asks, and returns what is answered.
    pub(crate) fn call<C: Call>(&mut self, request: &C) -> Result<C::Answer, EtcdError> {
        let Self { runtime, endpoints, current, connection } = self;
        runtime.block_on(async {
            let asked = timeout(ANSWER_TIMEOUT, async {
                let (mut sender, host) = connect(endpoints, current, connection.take()).await?;
                let answer = ask(&mut sender, &host, request).await?;
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
                let mut http2 = Http2::new(TokioExecutor::new());
                http2.initial_stream_window_size(STREAM_WINDOW_BYTES);
                http2.initial_connection_window_size(STREAM_WINDOW_BYTES);
                let opened = http2.handshake(TokioIo::new(stream)).await;
                let (sender, driver) = opened.map_err(|error| broken(host, &error))?;
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

async fn ask<C: Call>(
    sender: &mut SendRequest<Full<Bytes>>,
    host: &str,
    request: &C,
) -> Result<C::Answer, EtcdError> {
    let request = Request::builder()
        .method(Method::POST)
        .uri(format!("http://{host}{}", C::PATH))
        .header(header::CONTENT_TYPE, "application/grpc")
        .header(header::TE, "trailers")
        .body(Full::new(framed(request)))
        .map_err(|_| EtcdError::Answer("the request cannot be written"))?;
    let answered = sender.send_request(request).await.map_err(|error| broken(host, &error))?;
    let (head, body) = answered.into_parts();
    if !head.status.is_success() {
        return Err(EtcdError::Answer("it is no gRPC"));
    }
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(|error| broken(host, &*error))?;
    check_status(body.trailers().unwrap_or(&head.headers))?;
    let mut message = body.to_bytes();
    if message.len() < PREFIX_BYTES {
        return Err(EtcdError::Answer("it is empty"));
    }
    C::Answer::decode(message.split_off(PREFIX_BYTES))
        .map_err(|_| EtcdError::Answer("it is no message of etcd's"))
}

fn broken(host: &str, error: &dyn std::error::Error) -> EtcdError {
    EtcdError::Unavailable(format!("`{host}`: {error}"))
}

fn framed(request: &impl Message) -> Bytes {
    let len = request.encoded_len();
    let mut frame = BytesMut::with_capacity(PREFIX_BYTES + len);
    frame.put_u8(0);
    // Requests are bounded far below this.
    frame.put_u32(u32::try_from(len).unwrap_or(u32::MAX));
    frame.put(request.encode_to_vec().as_slice());
    frame.freeze()
}

/// Errors: the status that gRPC puts behind an answer, or in its place, is not that all is well.
fn check_status(trailers: &HeaderMap) -> Result<(), EtcdError> {
    let text = |name| trailers.get(name).and_then(|value| value.to_str().ok());
    let code: Option<u16> = text("grpc-status").and_then(|code| code.parse().ok());
    let message = || text("grpc-message").unwrap_or("no reason").to_owned();
    match code {
        Some(0) => Ok(()),
        Some(code) if PASSING_CODES.contains(&code) => Err(EtcdError::Unavailable(message())),
        Some(code) => Err(EtcdError::Refused { code, message: message() }),
        None => Err(EtcdError::Unavailable("the answer broke off".to_owned())),
    }
}

/// The key right behind all that begin with `prefix`.
pub(crate) fn end_of(prefix: &str) -> Bytes {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    Bytes::from(end)
}
