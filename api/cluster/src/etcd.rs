//! A client of etcd, of as much of gRPC as that takes: one request and one answer, on HTTP/2.
//!
//! It blocks, so its callers run on threads of their own. Calls are
//! made one after the other on one connection, to the first member that takes it.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http2::{Builder as Http2, SendRequest};
use hyper::header::HeaderValue;
use hyper::{HeaderMap, Method, Request, header};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::ClusterAddress;
use crate::address::AnsweringMember;
use crate::credentials::{EtcdCredentials, secure};
use crate::proto::RpcCall;

/// How long a member may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(300);
/// How long an answer may take; an election of etcd takes about a second.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(1_500);
/// The same for requests that another member can take at once: reads, and requests that a member
/// answers by itself.
const READ_TIMEOUT: Duration = Duration::from_millis(500);
/// The same of a look that is repeated all the time. A member that is asked while the members elect their leader may
/// not answer after the election either.
const LOOK_TIMEOUT: Duration = Duration::from_millis(250);
/// How often all members are asked until one answers.
const ROUNDS: usize = 2;
/// The wait before it reports that no member answers.
const PAUSE: Duration = Duration::from_millis(20);
/// The longest answer: many batches of the largest size. Units: bytes.
const ANSWER_BYTES_MAX: usize = 256 << 20;
/// How much may be on its way without being acknowledged. Units: bytes.
const STREAM_WINDOW_BYTES: u32 = 4 << 20;
/// The prefix of a message of gRPC: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;
/// Codes of gRPC that pass: unknown, as of a proposal that raft drops where etcd's leader stops, deadline, no space
/// or too much at once, unavailable, as while the members elect their leader.
const PASSING_CODES: [u16; 4] = [2, 4, 8, 14];
/// The code of gRPC for a token that counts for nothing.
const UNAUTHENTICATED: u16 = 16;

/// Why etcd gave no answer that helps.
#[derive(Debug, thiserror::Error)]
pub enum EtcdError {
    /// No member answers, or the member asked broke off. The request may have taken effect.
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
    /// No member is reached by TLS, or its files are not there.
    #[error("etcd by TLS: {0}")]
    Tls(String),
    /// The answer is not understood.
    #[error("etcd's answer is not understood: {0}")]
    Answer(&'static str),
    /// The system gives no threads or sockets.
    #[error("cannot talk to etcd: {0}")]
    System(#[from] std::io::Error),
}

/// A connection to an etcd.
#[derive(Debug)]
pub(crate) struct EtcdClient {
    /// There until this value is dropped.
    runtime: Option<Runtime>,
    endpoints: Vec<String>,
    credentials: EtcdCredentials,
    /// The member that is asked next.
    current: usize,
    answering: AnsweringMember,
    /// Whether it has answered that it cannot do anything now.
    is_unable: bool,
    connection: Option<EtcdMember>,
    /// The token of the signed-in user, where etcd has users.
    token: Option<HeaderValue>,
}

/// A member that a connection leads to.
#[derive(Debug)]
struct EtcdMember {
    sender: SendRequest<Full<Bytes>>,
    /// Such as `http://10.0.0.1:2379`.
    address: String,
    /// Ends with the connection, and tells why.
    driver: JoinHandle<hyper::Result<()>>,
}

impl EtcdClient {
    /// A client of the members of a cluster; it connects when it is first used.
    /// Errors: the files of TLS cannot be used.
    pub(crate) fn new(address: &ClusterAddress) -> Result<Self, EtcdError> {
        Ok(Self {
            runtime: Some(Builder::new_current_thread().enable_all().build()?),
            endpoints: address.endpoints.clone(),
            answering: address.answering.clone(),
            credentials: EtcdCredentials::read(&address.access)?,
            current: address.answering.place(),
            is_unable: false,
            connection: None,
            token: None,
        })
    }

    /// Asks, and returns the answer.
    pub(crate) fn call<C: RpcCall>(&mut self, request: &C) -> Result<C::Answer, EtcdError> {
        self.call_within(ANSWER_TIMEOUT, request)
    }

    /// As `call`, of a read, which is asked again soon where a member is silent.
    pub(crate) fn read<C: RpcCall>(&mut self, request: &C) -> Result<C::Answer, EtcdError> {
        self.call_within(READ_TIMEOUT, request)
    }

    /// As `read`, for a look that is repeated all the time.
    pub(crate) fn look<C: RpcCall>(&mut self, request: &C) -> Result<C::Answer, EtcdError> {
        self.call_within(LOOK_TIMEOUT, request)
    }

    /// Asks one member after the other until one answers, which is asked from then on: one may take
    /// connections and be silent. It must be something that a member answers by itself.
    pub(crate) fn call_any<C: RpcCall>(&mut self, request: &C) -> Result<C::Answer, EtcdError> {
        let mut answer = self.read(request);
        for _ in 1..ROUNDS * self.endpoints.len() {
            if !matches!(answer, Err(EtcdError::Unavailable(_))) {
                break;
            }
            answer = self.read(request);
        }
        answer
    }

    fn call_within<C: RpcCall>(
        &mut self,
        patience: Duration,
        request: &C,
    ) -> Result<C::Answer, EtcdError> {
        let Self { runtime, endpoints, credentials, current, is_unable, connection, token, .. } =
            self;
        let Some(runtime) = runtime else { return Err(EtcdError::Answer("it is gone")) };
        runtime.block_on(async {
            let asked = timeout(patience, async {
                let mut member =
                    connect(endpoints, credentials, current, connection.take()).await?;
                let answer = member.ask_as(credentials, token, request).await?;
                *connection = Some(member);
                Ok::<_, EtcdError>(answer)
            });
            let answer = asked.await.unwrap_or_else(|_| {
                Err(EtcdError::Unavailable(format!("`{}` is silent", endpoints[*current])))
            });
            let was_unable = std::mem::take(is_unable);
            let why = match answer {
                Err(EtcdError::Unavailable(why)) => why,
                Err(EtcdError::Refused { code, message }) if PASSING_CODES.contains(&code) => {
                    // A member that answers is asked once more: another one may be silent.
                    *is_unable = !was_unable;
                    message
                }
                answer => {
                    self.answering.note(*current);
                    return answer;
                }
            };
            if !*is_unable {
                *current = (*current + 1) % endpoints.len();
            }
            tokio::time::sleep(PAUSE).await;
            Err(EtcdError::Unavailable(why))
        })
    }
}

impl Drop for EtcdClient {
    fn drop(&mut self) {
        // Also on a thread of another runtime, which must not wait.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Uses the connection there is, or connects to the first member that takes one.
/// Errors: `Tls` where every member is there and none is reached by TLS.
async fn connect(
    endpoints: &[String],
    credentials: &EtcdCredentials,
    current: &mut usize,
    connection: Option<EtcdMember>,
) -> Result<EtcdMember, EtcdError> {
    if let Some(mut member) = connection
        && member.sender.ready().await.is_ok()
    {
        return Ok(member);
    }
    if let Some(tls) = &credentials.tls {
        // Certificates end while a node runs.
        tls.read_changes();
    }
    let mut refused = None;
    for _ in 0..endpoints.len() {
        match timeout(CONNECT_TIMEOUT, reach(&endpoints[*current], credentials)).await {
            Ok(Ok(member)) => return Ok(member),
            // A silent member may be a trusted one: silence is the fault to report, for it may
            // pass.
            Ok(Err(EtcdError::Tls(_))) if matches!(refused, Some(EtcdError::Unavailable(_))) => {}
            Ok(Err(error)) => refused = Some(error),
            Err(_) => {
                let silent = format!("`{}` takes no connection", endpoints[*current]);
                refused = Some(EtcdError::Unavailable(silent));
            }
        }
        *current = (*current + 1) % endpoints.len();
    }
    Err(refused.unwrap_or(EtcdError::Answer("no member is named")))
}

async fn reach(host: &str, credentials: &EtcdCredentials) -> Result<EtcdMember, EtcdError> {
    let stream = TcpStream::connect(host).await.map_err(|error| broken(host, &error))?;
    stream.set_nodelay(true)?;
    match &credentials.tls {
        None => speak(format!("http://{host}"), stream).await,
        Some(tls) => speak(format!("https://{host}"), secure(tls, host, stream).await?).await,
    }
}

async fn speak(
    address: String,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<EtcdMember, EtcdError> {
    let mut http2 = Http2::new(TokioExecutor::new());
    http2.initial_stream_window_size(STREAM_WINDOW_BYTES);
    http2.initial_connection_window_size(STREAM_WINDOW_BYTES);
    let opened = http2.handshake(TokioIo::new(stream)).await;
    let (sender, driver) = opened.map_err(|error| broken(&address, &error))?;
    Ok(EtcdMember { sender, address, driver: tokio::spawn(driver) })
}

impl EtcdMember {
    /// Asks as the configured user, if any, who signs in first, and again when the token has
    /// expired.
    async fn ask_as<C: RpcCall>(
        &mut self,
        credentials: &EtcdCredentials,
        token: &mut Option<HeaderValue>,
        request: &C,
    ) -> Result<C::Answer, EtcdError> {
        if token.is_some() {
            match self.ask(token.as_ref(), request).await {
                Err(EtcdError::Refused { code, message }) if has_run_out(code, &message) => {}
                answered => return answered,
            }
        }
        if let Some(sign_in) = credentials.sign_in()? {
            let signed_in = self.ask(None, &sign_in).await?;
            let wrong = |_| EtcdError::Answer("its token is no header");
            *token = Some(HeaderValue::try_from(signed_in.token).map_err(wrong)?);
        }
        self.ask(token.as_ref(), request).await
    }

    async fn ask<C: RpcCall>(
        &mut self,
        token: Option<&HeaderValue>,
        request: &C,
    ) -> Result<C::Answer, EtcdError> {
        let Self { sender, address, driver } = self;
        let mut asked = Request::builder()
            .method(Method::POST)
            .uri(format!("{address}{}", C::PATH))
            .header(header::CONTENT_TYPE, "application/grpc")
            .header(header::TE, "trailers");
        if let Some(token) = token {
            asked = asked.header("token", token);
        }
        let asked = asked
            .body(Full::new(framed(request)))
            .map_err(|_| EtcdError::Answer("the request cannot be written"))?;
        let answered = match sender.send_request(asked).await {
            Ok(answered) => answered,
            Err(error) => {
                // Why a connection ended, its driver knows best: a member refuses certificates by that.
                let ended = timeout(PAUSE, driver).await;
                let why = ended.ok().and_then(Result::ok).and_then(Result::err);
                return Err(broken(address, &why.unwrap_or(error)));
            }
        };
        let (head, body) = answered.into_parts();
        if !head.status.is_success() {
            return Err(EtcdError::Answer("it is no gRPC"));
        }
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| broken(address, &*error))?;
        check_status(body.trailers().unwrap_or(&head.headers))?;
        let mut message = body.to_bytes();
        if message.len() < PREFIX_BYTES {
            return Err(EtcdError::Answer("it is empty"));
        }
        C::Answer::decode(message.split_off(PREFIX_BYTES))
            .map_err(|_| EtcdError::Answer("it is no message of etcd's"))
    }
}

/// Whether a token counts no more: it is too old, or users were changed since.
fn has_run_out(code: u16, message: &str) -> bool {
    code == UNAUTHENTICATED || message.contains("revision of auth store is old")
}

fn broken(host: &str, error: &dyn std::error::Error) -> EtcdError {
    // An error of hyper leaves out its cause when it is printed.
    let cause = std::iter::successors(error.source(), |error| error.source()).last();
    let cause = cause.map(|cause| format!(": {cause}")).unwrap_or_default();
    EtcdError::Unavailable(format!("`{host}`: {error}{cause}"))
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
