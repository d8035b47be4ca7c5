//! The address for operators: `/metrics`, `/healthz`, `/readyz`.
//!
//! It has a listener of its own, because readers of figures are not users of the API. It answers
//! from before the recovery until after the last request. Watchers need only a handful of
//! connections and short requests, so their limits are tight. A new connection always has a place:
//! an old one makes room.

use std::future::ready;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, Method, Request, StatusCode};
use axum::response::{IntoResponse, Response};
use cardswitch_edge::http_connection::serve_connection;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::exposition::CONTENT_TYPE as EXPOSITION;
use super::health::Health;
use super::watchers::Watchers;

/// How long a connection lives: a watcher comes again.
const CONNECTION_LIFE_MAX: Duration = Duration::from_secs(600);
/// How long to wait after a failed accept before the next.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// When to ask again after a refusal. Units: seconds.
const RETRY_AFTER_S: u32 = 1;

/// A process that operators look at.
pub trait MonitoredProcess: Send + Sync + 'static {
    /// Whether it can work.
    fn health(&self) -> Health;

    /// All figures, as the text that Prometheus reads.
    fn exposition(&self) -> String;
}

/// Serves figures and health on `socket` until `stop` turns true.
pub async fn serve(
    socket: TcpListener,
    telemetry: Arc<impl MonitoredProcess>,
    mut watchers: Watchers,
    mut stop: watch::Receiver<bool>,
) {
    loop {
        let accepted = tokio::select! {
            accepted = accept(&socket) => accepted,
            _ = stop.wait_for(|stop| *stop) => return,
        };
        let Some((stream, address)) = accepted else { continue };
        let telemetry = Arc::clone(&telemetry);
        let stop = stop.clone();
        watchers.enter(address, async move {
            let answer = |request: Request<_>| {
                ready(answer(&*telemetry, request.method(), request.uri().path()))
            };
            let connection = serve_connection(stream, answer, stop);
            drop(tokio::time::timeout(CONNECTION_LIFE_MAX, connection).await);
        });
    }
}

async fn accept(socket: &TcpListener) -> Option<(TcpStream, IpAddr)> {
    match socket.accept().await {
        Ok((stream, peer)) => Some((stream, peer.ip())),
        Err(error) => {
            tracing::warn!(%error, "cannot accept a connection for metrics");
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

fn answer(telemetry: &impl MonitoredProcess, method: &Method, path: &str) -> Response {
    if method != Method::GET && method != Method::HEAD {
        let mut response = StatusCode::METHOD_NOT_ALLOWED.into_response();
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    if path == "/metrics" {
        let content_type = HeaderValue::from_static(EXPOSITION);
        return ([(CONTENT_TYPE, content_type)], Body::from(telemetry.exposition()))
            .into_response();
    }
    health_answer(path, || telemetry.health()).unwrap_or_else(|| {
        let paths = "/metrics, /healthz and /readyz are here\n";
        (StatusCode::NOT_FOUND, paths).into_response()
    })
}

/// The answer to a question about health, where `path` is one.
pub fn health_answer(path: &str, health: impl FnOnce() -> Health) -> Option<Response> {
    let (status, health) = match path {
        "/healthz" => {
            let health = health();
            (health.liveness(), health)
        }
        "/readyz" => {
            let health = health();
            (health.readiness(), health)
        }
        _ => return None,
    };
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    let mut response = (status, headers, health.body().to_string()).into_response();
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(RETRY_AFTER_S));
    }
    Some(response)
}

/// The address to listen at: the one given, else its own port. If HTTP takes a free port, so does
/// this, so that several switches on one machine need no more settings.
pub fn address_for(told: Option<SocketAddr>, http: SocketAddr) -> SocketAddr {
    const PORT: u16 = 9464;
    let port = if http.port() == 0 { 0 } else { PORT };
    told.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], port)))
}

#[cfg(test)]
mod tests {
    use cardswitch_engine::command::Command;
    use cardswitch_engine::command::admin::AdminCommand;
    use cardswitch_engine::command::reply::Reply;
    use cardswitch_engine::submission::{Envelope, ReplyPort};
    use parking_lot::{Condvar, Mutex};

    use super::*;
    use crate::bench::Bench;
    use crate::telemetry::Telemetry;

    async fn text_of(response: Response) -> String {
        let bytes = axum::body::to_bytes(response.into_body(), 1_000_000).await.unwrap();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn a_switch_that_recovers_is_alive_but_not_ready() {
        let telemetry = Telemetry::default();
        let ask = |path: &str| answer(&telemetry, &Method::GET, path);
        assert_eq!(ask("/healthz").status(), 200);
        let response = ask("/readyz");
        assert_eq!(response.status(), 503);
        assert_eq!(response.headers()[RETRY_AFTER], "1");
        assert_eq!(text_of(response).await, r#"{"status":"recovering","stage":"reading"}"#);
        let figures = text_of(ask("/metrics")).await;
        assert!(figures.contains("\ncardswitch_ready 0\n"), "{figures}");
        assert!(figures.contains("\ncardswitch_state{state=\"recovering\"} 1\n"), "{figures}");
    }

    /// Blocks the thread that brings an answer until it is released.
    #[derive(Default)]
    struct HeldPort {
        is_free: Mutex<bool>,
        freed: Condvar,
    }

    impl HeldPort {
        fn let_go(&self) {
            *self.is_free.lock() = true;
            self.freed.notify_all();
        }
    }

    impl ReplyPort for HeldPort {
        fn deliver(&self, _: u64, _: Reply) {
            let mut is_free = self.is_free.lock();
            while !*is_free {
                self.freed.wait(&mut is_free);
            }
        }
    }

    /// Nothing is answered, so commits wait, then the shard does, then what comes.
    #[tokio::test]
    async fn a_switch_that_cannot_keep_up_is_overloaded_until_it_has() {
        let Bench { state, .. } = &Bench::new().await;
        let engine = &state.switch.engine;
        let telemetry = Telemetry::default();
        telemetry.set_working(engine, Arc::default());
        let ask = |path: &str| answer(&telemetry, &Method::GET, path);
        assert_eq!(ask("/readyz").status(), 200);
        let port = Arc::new(HeldPort::default());
        let envelope = |_| {
            let command = AdminCommand::SetNetworkKey([7; 32]);
            let command = Command::Admin(Box::new(command)).into();
            Envelope { command, tag: 0, port: Arc::clone(&port) as Arc<dyn ReplyPort> }
        };
        let overloaded = loop {
            // Refused where it is full already.
            let _ = engine.submit((0..512).map(envelope).collect());
            let response = ask("/readyz");
            if response.status() == 503 {
                break response;
            }
        };
        assert_eq!(overloaded.headers()[RETRY_AFTER], "1");
        assert_eq!(text_of(overloaded).await, r#"{"status":"overloaded"}"#);
        assert_eq!(ask("/healthz").status(), 200, "it is alive, and to be left alone");
        port.let_go();
        while ask("/readyz").status() != 200 {
            tokio::task::yield_now().await;
        }
        assert_eq!(text_of(ask("/readyz")).await, r#"{"status":"ready"}"#);
    }

    #[test]
    fn nothing_else_is_answered() {
        let telemetry = Telemetry::default();
        let rows = [
            (Method::GET, "/", 404),
            (Method::GET, "/v1/cards", 404),
            (Method::POST, "/metrics", 405),
            (Method::DELETE, "/readyz", 405),
            (Method::HEAD, "/healthz", 200),
        ];
        for (method, path, status) in rows {
            assert_eq!(answer(&telemetry, &method, path).status(), status, "{method} {path}");
        }
    }

    #[test]
    fn several_switches_on_one_machine_have_free_ports() {
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        let rows = [
            (None, "127.0.0.1:8080", "127.0.0.1:9464"),
            (None, "0.0.0.0:8080", "127.0.0.1:9464"),
            (None, "127.0.0.1:0", "127.0.0.1:0"),
            (Some("10.0.0.1:9000"), "127.0.0.1:0", "10.0.0.1:9000"),
        ];
        for (told, http, expected) in rows {
            assert_eq!(address_for(told.map(address), address(http)), address(expected));
        }
    }
}
