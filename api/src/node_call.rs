//! A request of one node to another: its sending, and the proof that it comes from a node.
//!
//! `cardswitch-time` has the microseconds since 1970, `cardswitch-tag` a tag of all of the request under a
//! key that every node has, or under the master key where a node joins. The asking node proves the
//! answer: contents have digests, and the time its own tag.

use std::net::SocketAddr;
use std::time::Duration;

use axum::http::{HeaderMap, Method, Request, StatusCode, header};
use bytes::Bytes;
use cardswitch_engine::clock::Clock;
use cardswitch_secrets::NodeCallKey;
use cardswitch_secrets::hex::{array_from_hex, to_hex};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use sha2::{Digest, Sha256};
use tokio::net::TcpStream;
use tokio::time::timeout;
use zeroize::Zeroizing;

const TIME: &str = "cardswitch-time";
const TAG: &str = "cardswitch-tag";
const TAG_BYTES: usize = 16;
/// How old a request may be, and how far clocks may be apart.
const AGE_MAX: Duration = Duration::from_secs(60);
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The failure of a request to a node.
#[derive(Debug, thiserror::Error)]
pub enum NodeCallError {
    /// It is not there, or broke off.
    #[error("the node at {0} does not answer: {1}")]
    Silent(SocketAddr, String),
    /// It refuses.
    #[error("the node at {0} answers {1}: {2}")]
    Refused(SocketAddr, StatusCode, String),
}

/// The request to a node.
#[derive(Clone, Debug)]
pub struct NodeCall {
    /// The method.
    pub method: Method,
    /// The path.
    pub path: String,
    /// The body.
    pub body: Bytes,
}

impl NodeCall {
    /// A request without a body.
    pub const fn get(path: String) -> Self {
        Self { method: Method::GET, path, body: Bytes::new() }
    }

    /// Asks a node, and returns its answer of at most so many bytes.
    /// Errors: it does not answer, or refuses.
    pub async fn ask(
        self,
        node: SocketAddr,
        key: &impl NodeCallKey,
        bytes_max: usize,
    ) -> Result<Bytes, NodeCallError> {
        let silent = |why: &dyn std::fmt::Display| NodeCallError::Silent(node, why.to_string());
        let asked = async {
            let answer = self.send(node, key).await?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), bytes_max).collect().await;
            let body = body.map_err(|error| silent(&error))?.to_bytes();
            if status.is_success() {
                return Ok(body);
            }
            let said = String::from_utf8_lossy(&body).into_owned();
            Err(NodeCallError::Refused(node, status, said))
        };
        timeout(ANSWER_TIMEOUT, asked).await.map_err(|_| silent(&"it is too slow"))?
    }

    /// Sends the request, signed.
    /// Errors: the node cannot be reached.
    pub async fn send(
        self,
        node: SocketAddr,
        key: &impl NodeCallKey,
    ) -> Result<axum::http::Response<Incoming>, NodeCallError> {
        let silent = |why: &dyn std::fmt::Display| NodeCallError::Silent(node, why.to_string());
        let connected = timeout(CONNECT_TIMEOUT, TcpStream::connect(node)).await;
        let stream = connected.map_err(|_| silent(&"it takes no connection"))?;
        let stream = TokioIo::new(stream.map_err(|error| silent(&error))?);
        let (mut sender, driver) =
            http1::handshake(stream).await.map_err(|error| silent(&error))?;
        tokio::spawn(async move { drop(driver.await) });
        let (time, digest) = (Clock::System.now().0.to_string(), Sha256::digest(&self.body));
        let tag = key.node_call_tag(&parts(&self.method, &self.path, &time, &digest));
        let request = Request::builder()
            .method(self.method.clone())
            .uri(&self.path)
            .header(header::HOST, node.to_string())
            .header(header::CONTENT_LENGTH, self.body.len())
            .header(TIME, time)
            .header(TAG, to_hex(&tag).as_str());
        let request = request.body(Full::new(self.body)).map_err(|error| silent(&error))?;
        sender.send_request(request).await.map_err(|error| silent(&error))
    }
}

/// Whether a request came from a holder of the key, not long ago.
pub fn is_from_node(
    key: &impl NodeCallKey,
    request: (&Method, &str),
    headers: &HeaderMap,
    body: &[u8],
) -> bool {
    signed_at(key, request, headers, body).is_some_and(is_recent)
}

/// Whether a request was signed not long ago, by the sender's clock.
pub fn is_recent(signed_at: i64) -> bool {
    Duration::from_micros(signed_at.abs_diff(Clock::System.now().0)) <= AGE_MAX
}

/// The time at which a holder of the key signed a request, by the holder's clock.
pub fn signed_at(
    key: &impl NodeCallKey,
    (method, path): (&Method, &str),
    headers: &HeaderMap,
    body: &[u8],
) -> Option<i64> {
    let SignedHead { time, at, tag } = SignedHead::of(headers)?;
    let digest = Sha256::digest(body);
    key.is_node_call(&parts(method, path, time, &digest), &*tag).then_some(at)
}

/// The time at which a request claims to be signed; none where its head is not that of a signed one.
pub fn claimed_at(headers: &HeaderMap) -> Option<i64> {
    SignedHead::of(headers).map(|head| head.at)
}

/// The part of a head that signs a request, unproven.
struct SignedHead<'a> {
    time: &'a str,
    at: i64,
    tag: Zeroizing<[u8; TAG_BYTES]>,
}

impl<'a> SignedHead<'a> {
    fn of(headers: &'a HeaderMap) -> Option<Self> {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let time = text(TIME)?;
        Some(Self { time, at: time.parse().ok()?, tag: array_from_hex(text(TAG)?)? })
    }
}

fn parts<'a>(method: &'a Method, path: &'a str, time: &'a str, digest: &'a [u8]) -> [&'a [u8]; 7] {
    [method.as_str().as_bytes(), b"\n", path.as_bytes(), b"\n", time.as_bytes(), b"\n", digest]
}
