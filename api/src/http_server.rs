//! The accept loop of the HTTP side.
//!
//! The number of connections and of requests at work is bounded, both in all and of one address;
//! `http_connection` bounds a single connection. The card network's most frequent requests go past
//! the router. A client with one IPv6 address has 2^64 of them, which count as one.
//!
//! The port is open before the data directory is: until then health is answered, and every other
//! request gets 503 with `Retry-After`.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::MatchedPath;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use cardswitch_acquiring::address_counts::{AddressCounts, AddressPlace};
use cardswitch_edge::client_address::ClientAddress;
use cardswitch_edge::descriptors::ConnectionLimits;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::http_connection::serve_connection;
use cardswitch_edge::min_seq::{SEQ, newest_shown};
use cardswitch_edge::peers::PeerNetwork;
use cardswitch_edge::placed_body::PlacedBody;
use cardswitch_edge::request_id::refusal;
use cardswitch_edge::switch::Switch;
use cardswitch_edge::tls::{TlsDoor, TlsRefusal};
use cardswitch_edge::unread_body::RequestBody;
use cardswitch_engine::clock::Stopwatch;
use cardswitch_engine::meters::LevelGuard;
use cardswitch_identity::oauth;
use cardswitch_network::http::{DoorState, answer_directly, is_direct};
use cardswitch_site::overview::LiveOverviews;
use cardswitch_v1::scim;
use hyper::Request;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tower::ServiceExt;

use crate::router::{self, RouterParts};
use crate::telemetry::Telemetry;
use crate::telemetry::api_meter::NO_ROUTE;
use crate::telemetry::listener::{MonitoredProcess, health_answer};

/// How many requests are worked on at once; further ones are answered 503. The card network's do not
/// count: the engine's queue bounds them.
const REQUESTS_MAX: usize = 1_024;
/// How many of them one address may have, whose bodies may come slowly and whose answers may be taken
/// slowly: the others are for others.
/// The address of a trusted proxy itself has no such bound.
const REQUESTS_PER_ADDRESS_MAX: usize = REQUESTS_MAX / 8;
/// How long requests in flight may take once the server is asked to stop.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(3);
/// How long to wait after a failed accept (no file descriptors left) before the next.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Everything that is served over HTTP, as hyper asks for it.
#[derive(Debug)]
pub struct HttpSide {
    telemetry: Arc<Telemetry>,
    tls: Option<Arc<TlsDoor>>,
    trusted_proxies: Vec<PeerNetwork>,
    connections: ConnectionLimits,
    requests: Arc<Semaphore>,
    requests_of: AddressCounts,
    /// There once the switch has recovered.
    whole: OnceLock<WholeRouter>,
    opened: watch::Sender<bool>,
    /// How long requests wait for that.
    patience: Duration,
}

struct WholeRouter {
    router: Router,
    switch: Switch,
    /// The parts that a following node lacks.
    leader: Option<LeaderParts>,
}

/// The network's door, which goes past the router, and overviews that have no end of their own.
struct LeaderParts {
    door: DoorState,
    overviews: Arc<LiveOverviews>,
}

cardswitch_engine::opaque!(WholeRouter);

impl HttpSide {
    /// A side that tells its health, and nothing else until it is opened.
    pub fn new(
        telemetry: Arc<Telemetry>,
        trusted_proxies: Vec<PeerNetwork>,
        connections: ConnectionLimits,
    ) -> Self {
        Self {
            telemetry,
            tls: None,
            trusted_proxies,
            connections,
            requests: Arc::new(Semaphore::new(REQUESTS_MAX)),
            requests_of: AddressCounts::default(),
            whole: OnceLock::new(),
            opened: watch::Sender::new(false),
            patience: Duration::ZERO,
        }
    }

    /// The same side, where requests wait so long for it to open: it will before long.
    #[must_use]
    pub fn waiting(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// The same side over TLS, where there is any.
    #[must_use]
    pub fn over(self, tls: Option<Arc<TlsDoor>>) -> Self {
        Self { tls, ..self }
    }

    /// Serves one connection.
    pub(crate) async fn serve_one(
        self: Arc<Self>,
        stream: TcpStream,
        peer: IpAddr,
        closing: watch::Receiver<bool>,
    ) {
        let side = Arc::clone(&self);
        let answer = move |request| Arc::clone(&side).answer(peer, request);
        let Some(tls) = &self.tls else {
            return serve_connection(stream, answer, closing).await;
        };
        match tls.accept(stream).await {
            Ok(stream) => serve_connection(stream, answer, closing).await,
            Err(TlsRefusal { reason, detail }) => {
                let refused = self.telemetry.tls_refused.add(1);
                if refused.is_power_of_two() {
                    tracing::warn!(%peer, refused, detail, "connection closed: the client {reason}");
                }
            }
        }
    }

    /// From now on everything is answered.
    pub fn open(&self, served: RouterParts) {
        let (door, switch) = (served.state.network_door(), served.state.switch.clone());
        let leader = Some(LeaderParts { door, overviews: Arc::clone(&served.overviews) });
        // The start of a switch opens it once.
        drop(self.whole.set(WholeRouter { router: router::whole(served), switch, leader }));
        self.opened.send_replace(true);
    }

    /// From now on `router` answers, or has another node answer.
    pub fn open_to_follow(&self, router: Router, switch: Switch) {
        drop(self.whole.set(WholeRouter { router, switch, leader: None }));
        self.opened.send_replace(true);
    }

    async fn answer(self: Arc<Self>, peer: IpAddr, request: Request<RequestBody>) -> Response {
        if let Some(response) = health_answer(request.uri().path(), || self.telemetry.health()) {
            return response;
        }
        let (since, method) = (Stopwatch::start(), request.method().clone());
        let path = is_direct(&request).then(|| request.uri().path().to_owned());
        let shown = newest_shown(request.uri().path());
        let mut response = self.answer_whole(peer, request, path.is_some()).await;
        if let (Some(shown), Some(whole)) = (shown, self.whole.get())
            && is_for_known_callers(&response, path.is_some())
        {
            let seq = shown(&whole.switch.engine).0;
            // A response of another node has its own.
            response.headers_mut().entry(SEQ).or_insert_with(|| seq.into());
        }
        let status = response.status().as_u16();
        let matched = response.extensions().get::<MatchedPath>();
        let route = path.as_deref().or_else(|| matched.map(MatchedPath::as_str));
        let api = &self.telemetry.api;
        api.record(&method, route.unwrap_or(NO_ROUTE), status, since.elapsed());
        response
    }

    async fn answer_whole(
        &self,
        peer: IpAddr,
        mut request: Request<RequestBody>,
        is_direct: bool,
    ) -> Response {
        if self.whole.get().is_none() {
            let mut opened = self.opened.subscribe();
            drop(tokio::time::timeout(self.patience, opened.wait_for(|opened| *opened)).await);
        }
        let Some(WholeRouter { router, leader, .. }) = self.whole.get() else {
            return refused(&request, ApiError::recovering()).await;
        };
        if let (true, Some(LeaderParts { door, .. })) = (is_direct, leader) {
            return answer_directly(door, request).await;
        }
        let address = ClientAddress::behind(peer, request.headers(), &self.trusted_proxies);
        let max = self.max_of(address.0, REQUESTS_PER_ADDRESS_MAX);
        let of_address = self.requests_of.take(address.0, max);
        let place = Arc::clone(&self.requests).try_acquire_owned();
        let (Some(of_address), Ok(place)) = (of_address, place) else {
            self.telemetry.busy_refused.add(1);
            return refused(&request, ApiError::busy()).await;
        };
        request.extensions_mut().insert(address);
        match router.clone().oneshot(request.map(Body::new)).await {
            Ok(response) => PlacedBody::of(response, (of_address, place)),
            Err(never) => match never {},
        }
    }

    /// How many of something an address may have.
    fn max_of(&self, address: IpAddr, max: usize) -> usize {
        let is_proxy = self.trusted_proxies.iter().any(|proxy| proxy.contains(address));
        if is_proxy { usize::MAX } else { max }
    }
}

/// Serves HTTP on `listener` until `stop` turns true; then finishes what is in flight.
pub async fn serve(listener: TcpListener, side: Arc<HttpSide>, mut stop: watch::Receiver<bool>) {
    let places = Places::new(Arc::clone(&side));
    let closing = watch::Sender::new(false);
    if let Some(tls) = &side.tls {
        tokio::spawn(Arc::clone(tls).follow_files(stop.clone()));
    }
    loop {
        let accepted = tokio::select! {
            accepted = places.accept(&listener) => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        let Some((stream, peer, place)) = accepted else { continue };
        let side = Arc::clone(&side);
        let closing = closing.subscribe();
        tokio::spawn(async move {
            side.serve_one(stream, peer, closing).await;
            drop(place);
        });
    }
    drop(listener);
    // Streams would have no end of their own.
    if let Some(leader) = side.whole.get().and_then(|whole| whole.leader.as_ref()) {
        leader.overviews.close();
    }
    closing.send_replace(true);
    drop(tokio::time::timeout(DRAIN_TIMEOUT, closing.closed()).await);
}

/// The places of connections: in all, and of one address.
struct Places {
    side: Arc<HttpSide>,
    all: Arc<Semaphore>,
    of_addresses: AddressCounts,
}

/// The place of one connection.
struct ClientPlace {
    _permit: OwnedSemaphorePermit,
    _level: LevelGuard,
    _of_address: AddressPlace,
}

impl Places {
    fn new(side: Arc<HttpSide>) -> Self {
        let all = Arc::new(Semaphore::new(side.connections.max));
        Self { side, all, of_addresses: AddressCounts::default() }
    }

    async fn accept(&self, listener: &TcpListener) -> Option<(TcpStream, IpAddr, ClientPlace)> {
        let permit = Arc::clone(&self.all).acquire_owned().await.ok()?;
        match listener.accept().await {
            Ok((stream, peer)) => {
                let place = self.place(peer.ip().to_canonical(), permit)?;
                Some((stream, peer.ip(), place))
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept an HTTP connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                None
            }
        }
    }

    /// A place for a connection from `address`, where that does not have too many.
    fn place(&self, address: IpAddr, permit: OwnedSemaphorePermit) -> Option<ClientPlace> {
        let max = self.side.max_of(address, self.side.connections.per_address_max);
        let Some(of_address) = self.of_addresses.take(address, max) else {
            let refused = self.side.telemetry.http_refused.add(1);
            if refused.is_power_of_two() {
                tracing::warn!(%address, refused, "too many HTTP connections of one address");
            }
            return None;
        };
        let level = self.side.telemetry.http_connections.enter();
        Some(ClientPlace { _permit: permit, _level: level, _of_address: of_address })
    }
}

/// The refusal of a request that no route sees, in the shape of those behind its path.
async fn refused<B>(request: &Request<B>, error: ApiError) -> Response {
    let path = request.uri().path();
    let response = match path {
        _ if path.starts_with("/v1/oauth/") => oauth::failure(error),
        _ if path.starts_with("/scim/v2/") => scim::failure(error),
        _ => error.into_response(),
    };
    refusal(request.method(), path, response).await
}

/// Whether a response may tell how many records there are: strangers would read from it how busy the
/// switch is. Routes are for callers, unless they refuse one, or the method.
fn is_for_known_callers(response: &Response, is_direct: bool) -> bool {
    let is_refused =
        [StatusCode::UNAUTHORIZED, StatusCode::METHOD_NOT_ALLOWED].contains(&response.status());
    let is_routed = is_direct || response.extensions().get::<MatchedPath>().is_some();
    is_routed && !is_refused
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;
    use crate::test_world;

    const BOUND: ConnectionLimits = ConnectionLimits { max: 400, per_address_max: 200 };

    fn side(proxies: Vec<PeerNetwork>) -> HttpSide {
        HttpSide::new(Arc::default(), proxies, BOUND)
    }

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn places(proxies: &[&str]) -> Places {
        let proxies = proxies.iter().map(|text| text.parse().unwrap()).collect();
        Places::new(Arc::new(side(proxies)))
    }

    fn place(places: &Places, address: IpAddr) -> Option<ClientPlace> {
        let permit = Arc::clone(&places.all).try_acquire_owned().unwrap();
        places.place(address, permit)
    }

    #[test]
    fn one_address_leaves_places_for_others() {
        let places = places(&["10.0.0.9"]);
        let held: Vec<_> =
            (0..BOUND.per_address_max).map(|_| place(&places, address(1)).unwrap()).collect();
        assert!(place(&places, address(1)).is_none());
        assert_eq!(places.side.telemetry.http_refused.now(), 1);
        assert!(place(&places, address(2)).is_some());
        let connections = &places.side.telemetry.http_connections;
        assert_eq!(connections.now(), held.len() as u64);
        drop(held);
        assert_eq!(connections.now(), 0);
        assert!(place(&places, address(1)).is_some(), "places come back");
        assert!(places.of_addresses.is_empty(), "who is gone is forgotten");
    }

    async fn ask(address: std::net::SocketAddr, path: &str) -> String {
        use tokio::io::AsyncReadExt;
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer.to_ascii_lowercase()
    }

    #[tokio::test]
    async fn before_the_recovery_is_done_health_is_told_and_nothing_else() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let telemetry = Arc::<Telemetry>::default();
        let side = Arc::new(HttpSide::new(Arc::clone(&telemetry), Vec::new(), BOUND));
        let (stop, stopped) = watch::channel(false);
        let served = tokio::spawn(serve(listener, Arc::clone(&side), stopped));
        assert!(ask(address, "/healthz").await.starts_with("http/1.1 200"));
        for path in ["/readyz", "/v1/company", "/login", "/network/v1/clock"] {
            let answer = ask(address, path).await;
            assert!(answer.starts_with("http/1.1 503"), "{path}: {answer}");
            assert!(answer.contains("\r\nretry-after: 1\r\n"), "{path}: {answer}");
            assert!(answer.contains("recovering"), "{path}: {answer}");
        }
        // As stock clients and providers read it.
        for (path, shape) in [
            ("/v1/oauth/token", "\"error\":\"temporarily_unavailable\""),
            ("/scim/v2/Users", "urn:ietf:params:scim:api:messages:2.0:error"),
        ] {
            let answer = ask(address, path).await;
            assert!(answer.contains(shape), "{path}: {answer}");
        }
        let bench = crate::bench::Bench::new().await;
        telemetry.set_working(&bench.state.switch.engine, Arc::default());
        side.open(test_world::served(bench.state.clone()));
        assert!(ask(address, "/readyz").await.starts_with("http/1.1 200"));
        let answer = ask(address, "/v1/company").await;
        assert!(answer.starts_with("http/1.1 401"), "{answer}");
        telemetry.set_stopping();
        assert!(ask(address, "/readyz").await.contains("\"stopping\""));
        stop.send_replace(true);
        served.await.unwrap();
    }

    #[tokio::test]
    async fn so_many_requests_are_worked_on_and_no_more() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let side = Arc::new(side(Vec::new()));
        let bench = crate::bench::Bench::new().await;
        side.open(test_world::served(bench.state.clone()));
        let (stop, stopped) = watch::channel(false);
        let served = tokio::spawn(serve(listener, Arc::clone(&side), stopped));
        let at_work = side.requests.try_acquire_many(u32::try_from(REQUESTS_MAX).unwrap()).unwrap();
        let answer = ask(address, "/v1/company").await;
        assert!(answer.starts_with("http/1.1 503") && answer.contains("\"busy\""), "{answer}");
        assert!(answer.contains("\r\nretry-after: 1\r\n"), "{answer}");
        assert_eq!(side.telemetry.busy_refused.now(), 1);
        drop(at_work);
        assert!(ask(address, "/v1/company").await.starts_with("http/1.1 401"));
        stop.send_replace(true);
        served.await.unwrap();
    }

    #[tokio::test]
    async fn slow_bodies_of_one_address_leave_others_served() {
        use tokio::io::AsyncReadExt;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let proxies = vec!["127.0.0.1".parse().unwrap()];
        let side = Arc::new(side(proxies));
        let bench = crate::bench::Bench::new().await;
        side.open(test_world::served(bench.state.clone()));
        let (stop, stopped) = watch::channel(false);
        let served = tokio::spawn(serve(listener, Arc::clone(&side), stopped));
        let send = async |client: &str, head: &str| {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let head = format!("{head} HTTP/1.1\r\nhost: a\r\nx-forwarded-for: {client}\r\n");
            let rest =
                "content-type: application/x-www-form-urlencoded\r\ncontent-length: 9\r\n\r\n";
            stream.write_all(format!("{head}{rest}").as_bytes()).await.unwrap();
            stream
        };
        let mut slow = Vec::new();
        for place in 0..REQUESTS_PER_ADDRESS_MAX {
            slow.push(send(&format!("2001:db8::{place:x}"), "POST /login").await);
        }
        let at_work = || side.requests_of.of("2001:db8::".parse().unwrap());
        for _ in 0..500 {
            if at_work() < slow.len() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        assert_eq!(at_work(), slow.len());
        for (client, status) in [("2001:db8::ffff", "503"), ("2001:db8:0:1::1", "401")] {
            let mut stream = send(client, "GET /v1/company").await;
            let mut answer = [0; 12];
            stream.read_exact(&mut answer).await.unwrap();
            assert_eq!(&answer[9..], status.as_bytes(), "{client}");
        }
        drop(slow);
        stop.send_replace(true);
        served.await.unwrap();
    }

    /// Clients that took none of their answers were memory without a bound.
    #[tokio::test]
    async fn an_answer_that_nobody_takes_keeps_its_place() {
        use axum::routing::get;
        use tokio::io::AsyncReadExt;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let side = Arc::new(side(Vec::new()));
        let bench = crate::bench::Bench::new().await;
        let long = || vec![b'x'; 64 << 20];
        let router = Router::new()
            .route("/long", get(async move || long()))
            .route("/live", get(async move || ([("content-type", "text/event-stream")], long())));
        side.open_to_follow(router, bench.state.switch.clone());
        let (stop, stopped) = watch::channel(false);
        let served = tokio::spawn(serve(listener, Arc::clone(&side), stopped));
        for (path, count) in [("/long", 1), ("/live", 0)] {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let head = format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            let mut answer = [0; 12];
            stream.read_exact(&mut answer).await.unwrap();
            assert_eq!(&answer, b"HTTP/1.1 200");
            assert_eq!(REQUESTS_MAX - side.requests.available_permits(), count, "{path}");
            assert_eq!(side.requests_of.of(address.ip()), count, "{path}");
            drop(stream);
            while !side.requests_of.is_empty() {
                tokio::task::yield_now().await;
            }
        }
        stop.send_replace(true);
        served.await.unwrap();
    }

    #[test]
    fn a_proxy_may_have_all_places() {
        let places = places(&["10.0.0.9"]);
        let beyond = BOUND.per_address_max + 1;
        let held: Vec<_> = (0..beyond).map(|_| place(&places, address(9))).collect();
        assert!(held.iter().all(Option::is_some));
    }
}
