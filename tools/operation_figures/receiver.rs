//! Receivers of webhooks on the loopback: one that takes everything and notes when, and one that takes
//! connections and never answers.
//!
//! Of each event a webhook tells the instant at which its command was accepted (`webhook-sequence`).
//! From there, by the clock of this machine, until the last byte of the request is there, is its delay.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use hdrhistogram::Histogram;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

use crate::outcome::{Outcome, fail};

/// How many bodies are kept, to be sent again by the yardstick.
const KEPT_MAX: usize = 2_000;
/// After so long without a webhook no further one is waited for.
const SILENCE: Duration = Duration::from_secs(3);
/// The longest delay that is told apart. Units: microseconds.
const DELAY_US_MAX: u64 = 3_600_000_000;

/// Takes webhooks.
pub(crate) struct Receiver {
    address: SocketAddr,
    noted: Arc<Mutex<ReceivedDeliveries>>,
}

/// The deliveries since the last look.
#[derive(Clone)]
pub(crate) struct ReceivedDeliveries {
    pub(crate) requests: u64,
    pub(crate) events: u64,
    pub(crate) bytes: u64,
    first_at: Option<Instant>,
    last_at: Option<Instant>,
    /// Of each event. Units: microseconds.
    delays: Histogram<u64>,
    /// The first requests: `webhook-sequence` and body.
    pub(crate) bodies: Vec<(String, Bytes)>,
}

impl ReceivedDeliveries {
    fn nothing() -> Outcome<Self> {
        Ok(Self {
            requests: 0,
            events: 0,
            bytes: 0,
            first_at: None,
            last_at: None,
            delays: Histogram::new_with_bounds(1, DELAY_US_MAX, 3)?,
            bodies: Vec::new(),
        })
    }

    /// From the first request to the last. Units: seconds.
    pub(crate) fn seconds(&self) -> f64 {
        let time = self.first_at.zip(self.last_at).map(|(first, last)| last - first);
        time.unwrap_or_default().as_secs_f64().max(1e-9)
    }

    /// Units: milliseconds.
    pub(crate) fn delay_ms(&self, percent: f64) -> f64 {
        self.delays.value_at_percentile(percent) as f64 / 1e3
    }

    fn note(&mut self, sequence: &str, body: Bytes) {
        let now = Instant::now();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall_us = u64::try_from(wall.as_micros()).unwrap_or(u64::MAX);
        self.requests += 1;
        self.bytes += body.len() as u64;
        self.first_at.get_or_insert(now);
        self.last_at = Some(now);
        for at in sequence.split(',').filter_map(|at| at.parse::<u64>().ok()) {
            self.events += 1;
            self.delays.saturating_record(wall_us.saturating_sub(at));
        }
        if self.bodies.len() < KEPT_MAX {
            self.bodies.push((sequence.to_owned(), body));
        }
    }
}

impl Receiver {
    /// Starts one on a free port.
    /// Errors: there is none.
    pub(crate) fn start(runtime: &Runtime) -> Outcome<Self> {
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
        let (address, noted) =
            (listener.local_addr()?, Arc::new(Mutex::new(ReceivedDeliveries::nothing()?)));
        let own = Arc::clone(&noted);
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&own)));
            }
        });
        Ok(Self { address, noted })
    }

    /// The address of endpoint number `number`.
    pub(crate) fn url(&self, number: usize) -> String {
        format!("http://{}/hook/{number}", self.address)
    }

    /// Takes the deliveries since the last look; the counts begin anew.
    pub(crate) fn take(&self) -> Outcome<ReceivedDeliveries> {
        let nothing = ReceivedDeliveries::nothing()?;
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(std::mem::replace(&mut noted, nothing))
    }

    fn events(&self) -> u64 {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner).events
    }

    /// Waits until so many events have come since the last look, and returns what came.
    /// Errors: no further ones come.
    pub(crate) fn take_all(&self, events: u64) -> Outcome<ReceivedDeliveries> {
        let (mut count, mut changed_at) = (self.events(), Instant::now());
        while count < events {
            thread::sleep(Duration::from_millis(20));
            let now = self.events();
            if now > count {
                (count, changed_at) = (now, Instant::now());
            } else if changed_at.elapsed() > SILENCE * 10 {
                return fail(format!("{count} of {events} events came, and then none"));
            }
        }
        self.take()
    }

    /// Waits until nothing has come for a while.
    pub(crate) fn until_silent(&self) {
        let (mut count, mut changed_at) = (self.events(), Instant::now());
        while changed_at.elapsed() < SILENCE {
            thread::sleep(Duration::from_millis(50));
            let now = self.events();
            if now != count {
                (count, changed_at) = (now, Instant::now());
            }
        }
    }
}

async fn serve(stream: TcpStream, noted: Arc<Mutex<ReceivedDeliveries>>) {
    // Without it an answer waits for the other side's acknowledgement.
    drop(stream.set_nodelay(true));
    let service = service_fn(|request| take(request, Arc::clone(&noted)));
    // A connection that breaks is the sender's to notice.
    drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
}

async fn take(
    request: Request<Incoming>,
    noted: Arc<Mutex<ReceivedDeliveries>>,
) -> Result<Response<Empty<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let sequence = head.headers.get("webhook-sequence").and_then(|value| value.to_str().ok());
    let mut answer = Response::new(Empty::new());
    match body.collect().await {
        Ok(body) => {
            let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
            noted.note(sequence.unwrap_or_default(), body.to_bytes());
        }
        Err(_) => *answer.status_mut() = StatusCode::BAD_REQUEST,
    }
    Ok(answer)
}

/// Starts a receiver that takes every connection and never answers. Returns its address.
/// Errors: there is no free port.
pub(crate) fn start_silent(runtime: &Runtime) -> Outcome<String> {
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
    let url = format!("http://{}/silent", listener.local_addr()?);
    runtime.spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut bytes = [0; 4096];
                while stream.read(&mut bytes).await.is_ok_and(|read| read > 0) {}
            });
        }
    });
    Ok(url)
}

/// An address at which nobody listens.
pub(crate) const REFUSING: &str = "http://127.0.0.1:1/refused";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_event_of_a_webhook_has_its_delay() {
        let mut noted = ReceivedDeliveries::nothing().unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros();
        noted.note(&format!("{},{}", now - 5_000_000, now - 9_000_000), Bytes::from("[]"));
        assert_eq!((noted.requests, noted.events, noted.bytes), (1, 2, 2));
        assert!(noted.delay_ms(50.0) >= 5_000.0 && noted.delay_ms(99.0) >= 9_000.0);
        assert!(noted.delay_ms(50.0) < noted.delay_ms(99.0));
    }
}
