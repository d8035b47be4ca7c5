//! Sends one webhook: resolves, connects, posts, reads the answer. No redirect is followed, no
//! connection is kept open, and no setting of the environment takes part.
//!
//! The connection goes to the very address that was judged, so a name that leads elsewhere at the
//! next look-up changes nothing. An answer that never ends is cut off.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cardswitch_acquiring::fault_plan::{FaultPlan, WebhookFault};
use cardswitch_edge::descriptors::SendBounds;
use cardswitch_edge::tls_client::ClientTls;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::sync::{Semaphore, oneshot};
use url::{Host, Url};

use super::addresses::Reach;
use super::attempt::{AttemptFailure, AttemptResult, BODY_KEPT_MAX};

/// How long a receiver may take, from the first look at its name to the head of its answer.
/// Source: the documented 15 seconds.
const SEND_TIMEOUT: Duration = Duration::from_secs(15);
/// How much of an answer's body is read. Units: bytes.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// How long the body of an answer is read.
const BODY_TIMEOUT: Duration = Duration::from_secs(2);
/// How many addresses of a name are tried.
const ADDRESSES_MAX: usize = 3;
/// How long one address may take to take the connection, where there is another.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A request to be made.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The address.
    pub address: String,
    /// `webhook-id`.
    pub id: String,
    /// `webhook-timestamp`. Units: seconds since 1970.
    pub timestamp_s: i64,
    /// `webhook-signature`.
    pub signature: String,
    /// `webhook-sequence`: of each event, its place among those of its transaction.
    pub sequence: String,
    /// The number of the try, from 1.
    pub tries: u8,
    /// The array of events.
    pub body: Bytes,
}

/// The addresses of a name: the system's answer, or a test's.
pub type AddressLookup = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;

/// A resolver of names.
pub(super) type Names = Arc<dyn Fn((String, u16)) -> AddressLookup + Send + Sync>;

/// Sends webhooks; shared by all endpoints.
#[derive(Clone)]
pub struct Sender {
    reach: Reach,
    names: Names,
    tls: Arc<ClientTls>,
    lookups: Arc<Semaphore>,
    later_lookups: Arc<Semaphore>,
    /// The faults of webhooks, for receivers under test.
    faults: Option<Arc<FaultPlan>>,
}

cardswitch_engine::opaque!(Sender);

impl Sender {
    /// A sender that trusts the certificates that the system trusts.
    pub fn new(reach: Reach) -> Self {
        Self::within(reach, SendBounds::default(), None)
    }

    /// The same with so many look-ups at a time, whose webhooks meet these faults.
    pub fn within(reach: Reach, bounds: SendBounds, faults: Option<Arc<FaultPlan>>) -> Self {
        let names = |host| -> AddressLookup {
            Box::pin(async { lookup_host(host).await.map(Iterator::collect) })
        };
        Self { faults, ..Self::with_names(reach, bounds, Arc::new(names)) }
    }

    /// A sender that looks names up by `names`.
    pub fn with_names(reach: Reach, bounds: SendBounds, names: Names) -> Self {
        Self {
            reach,
            names,
            tls: ClientTls::of_system(),
            lookups: Arc::new(Semaphore::new(bounds.lookups)),
            later_lookups: Arc::new(Semaphore::new(bounds.later_lookups)),
            faults: None,
        }
    }

    /// Sends a webhook. A time-out is an outcome like any other.
    pub async fn send(&self, delivery: &Delivery) -> AttemptResult {
        self.send_within(SEND_TIMEOUT, delivery.clone(), Ok).await.0
    }

    /// Sends a webhook that `check` approves once the connection stands: access is checked behind
    /// every wait, and a receiver can make the switch wait. Returns the beginning of the answer's
    /// body, too.
    pub async fn send_checked(
        &self,
        delivery: Delivery,
        check: impl FnOnce(Delivery) -> Result<Delivery, AttemptFailure> + Send,
    ) -> (AttemptResult, Vec<u8>) {
        let drawn = self.faults.as_ref().and_then(|faults| faults.draw_webhook());
        let Some(drawn) = drawn else {
            return self.send_within(SEND_TIMEOUT, delivery, check).await;
        };
        tracing::info!(id = delivery.id, fault = %drawn.fault, "a webhook meets a fault of the plan");
        if drawn.fault == WebhookFault::Late {
            tokio::time::sleep(drawn.delay).await;
            return self.send_within(SEND_TIMEOUT, delivery, check).await;
        }
        let mut sent = None;
        let keep = |delivery| check(delivery).inspect(|checked| sent = Some(checked.clone()));
        let result = self.send_within(SEND_TIMEOUT, delivery, keep).await;
        if let Some(again) = sent {
            self.send(&again).await;
        }
        result
    }

    async fn send_within(
        &self,
        timeout: Duration,
        delivery: Delivery,
        check: impl FnOnce(Delivery) -> Result<Delivery, AttemptFailure> + Send,
    ) -> (AttemptResult, Vec<u8>) {
        let (head, came) = oneshot::channel();
        let mut post = std::pin::pin!(self.post(delivery, check, head));
        // The head of the answer ends this limit; reading the rest away has a limit of its own.
        let ended = tokio::time::timeout(timeout, async {
            tokio::select! {
                biased;
                ended = &mut post => Some(ended),
                Ok(()) = came => None,
            }
        });
        let ended = match ended.await {
            Ok(Some(ended)) => ended,
            Ok(None) => post.await,
            Err(_) => Err(AttemptFailure::TooSlow),
        };
        match ended {
            Ok((status, body)) => (AttemptResult::Answered(status), body),
            Err(failure) => (AttemptResult::Unanswered(failure), Vec::new()),
        }
    }

    /// Posts, and says by `head` when that of the answer has come.
    async fn post(
        &self,
        delivery: Delivery,
        check: impl FnOnce(Delivery) -> Result<Delivery, AttemptFailure> + Send,
        head: oneshot::Sender<()>,
    ) -> Result<(u16, Vec<u8>), AttemptFailure> {
        let url = Url::parse(&delivery.address).map_err(|_| AttemptFailure::NotSent)?;
        let stream = self.connect(&url, delivery.tries).await?;
        if url.scheme() == "https" {
            let host = url.host_str().ok_or(AttemptFailure::NotSent)?;
            let tls = self.tls.towards(host).map_err(|_| AttemptFailure::Tls)?;
            let stream = tls.agree_patiently(stream).await.map_err(|_| AttemptFailure::Tls)?;
            exchange(stream, request_for(&url, &check(delivery)?)?, head).await
        } else {
            exchange(stream, request_for(&url, &check(delivery)?)?, head).await
        }
    }

    async fn connect(&self, url: &Url, tries: u8) -> Result<TcpStream, AttemptFailure> {
        let addresses = self.resolve(url, tries).await?;
        let mut failure = AttemptFailure::NotReachable;
        for address in addresses.into_iter().take(ADDRESSES_MAX) {
            match tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    drop(stream.set_nodelay(true));
                    return Ok(stream);
                }
                Ok(Err(_)) => failure = AttemptFailure::NotReachable,
                Err(_) => failure = AttemptFailure::TooSlow,
            }
        }
        Err(failure)
    }

    /// The addresses that may be connected to; a name of which one may not is not trusted at all.
    async fn resolve(&self, url: &Url, tries: u8) -> Result<Vec<SocketAddr>, AttemptFailure> {
        let port = url.port_or_known_default().ok_or(AttemptFailure::NotSent)?;
        let found: Vec<SocketAddr> = match url.host().ok_or(AttemptFailure::NotSent)? {
            Host::Ipv4(address) => vec![(address, port).into()],
            Host::Ipv6(address) => vec![(address, port).into()],
            Host::Domain(name) => {
                let places = if tries > 1 { &self.later_lookups } else { &self.lookups };
                self.look_up(Arc::clone(places), (name.to_owned(), port)).await?
            }
        };
        if found.is_empty() {
            return Err(AttemptFailure::NoSuchHost);
        }
        let is_allowed = found.iter().all(|address| self.reach.includes(address.ip()));
        if is_allowed { Ok(found) } else { Err(AttemptFailure::NotPublic) }
    }

    /// The addresses of a name, looked up once there is a place. The place is taken until the
    /// system has answered, even if the request has ended.
    async fn look_up(
        &self,
        places: Arc<Semaphore>,
        host: (String, u16),
    ) -> Result<Vec<SocketAddr>, AttemptFailure> {
        let place = places.acquire_owned().await.map_err(|_| AttemptFailure::NotSent)?;
        let addresses = (self.names)(host);
        let looking = tokio::spawn(async move {
            let found = addresses.await;
            drop(place);
            found
        });
        let found = looking.await.map_err(|_| AttemptFailure::NotSent)?;
        found.map_err(|_| AttemptFailure::NoSuchHost)
    }
}

fn request_for(url: &Url, delivery: &Delivery) -> Result<Request<Full<Bytes>>, AttemptFailure> {
    let host = &url[url::Position::BeforeHost..url::Position::AfterPort];
    let target = &url[url::Position::BeforePath..url::Position::AfterQuery];
    Request::post(target)
        .header(HOST, host)
        .header(USER_AGENT, concat!("cardswitch/", env!("CARGO_PKG_VERSION")))
        .header(CONTENT_TYPE, "application/json")
        .header(CONTENT_LENGTH, delivery.body.len())
        .header("webhook-id", &delivery.id)
        .header("webhook-timestamp", delivery.timestamp_s)
        .header("webhook-signature", &delivery.signature)
        .header("webhook-sequence", &delivery.sequence)
        .header("webhook-attempt", u16::from(delivery.tries))
        .body(Full::new(delivery.body.clone()))
        .map_err(|_| AttemptFailure::NotSent)
}

/// Sends the request and reads the answer, or the beginning of a long one.
async fn exchange<S>(
    stream: S,
    request: Request<Full<Bytes>>,
    head: oneshot::Sender<()>,
) -> Result<(u16, Vec<u8>), AttemptFailure>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let broken = |_: hyper::Error| AttemptFailure::Broken;
    let (mut client, connection) = http1::Builder::new()
        .max_buf_size(ANSWER_BYTES_MAX)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(broken)?;
    // The connection goes on for as long as this does, and not a moment longer.
    let mut connection = std::pin::pin!(connection);
    let mut answer = std::pin::pin!(async {
        let response = client.send_request(request).await.map_err(broken)?;
        let status = response.status().as_u16();
        // The waiting task may have given up.
        let _ = head.send(());
        // The status is the answer, whatever comes of the rest: that is read so that a receiver that
        // writes one sees no broken pipe, and its beginning kept for people.
        let mut body = Vec::new();
        drop(tokio::time::timeout(BODY_TIMEOUT, read_away(response, &mut body)).await);
        Ok((status, body))
    });
    tokio::select! {
        biased;
        told = &mut answer => told,
        // The part of the answer that has come by then is still to be read.
        _ = &mut connection => answer.await,
    }
}

/// Reads an answer's body to its end, or as much of it as is read. Keeps the beginning.
async fn read_away(mut response: Response<Incoming>, kept: &mut Vec<u8>) {
    let mut bytes = 0;
    while bytes <= ANSWER_BYTES_MAX {
        let Some(Ok(frame)) = response.frame().await else { break };
        let data = frame.data_ref().map_or(&[][..], |data| data);
        let left = BODY_KEPT_MAX.saturating_sub(kept.len());
        kept.extend_from_slice(&data[..data.len().min(left)]);
        bytes += data.len();
    }
}

#[cfg(test)]
#[path = "sender_tests.rs"]
mod tests;
