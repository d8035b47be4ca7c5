//! Receivers of webhooks on the loopback: one that takes everything and notes when, and one that takes
//! connections and never answers.
//!
//! Of each event a webhook tells the instant at which its command was accepted (`webhook-sequence`).
//! From there, by the clock of this machine, until the last byte of the request is there, is its delay.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::HeaderMap;
use axum::serve::ListenerExt;
use bytes::Bytes;
use cardswitch_load::latencies::Latencies;
use cardswitch_tools::{Outcome, fail};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// How many bodies are kept, to be sent again by the yardstick.
const KEPT_MAX: usize = 2_000;
/// After so long without a webhook no further one is waited for.
const SILENCE: Duration = Duration::from_secs(3);
/// An address at which nobody listens.
pub(crate) const REFUSING: &str = "http://127.0.0.1:1/refused";

/// Takes webhooks.
pub(crate) struct Receiver {
    address: SocketAddr,
    arrivals: Arc<Mutex<Arrivals>>,
}

/// The deliveries since the last look.
#[derive(Clone, Default)]
pub(crate) struct Arrivals {
    pub(crate) requests: u64,
    pub(crate) events: u64,
    first_at: Option<Instant>,
    last_at: Option<Instant>,
    /// Of each event.
    pub(crate) delays: Latencies,
    /// The first requests: `webhook-sequence` and body.
    pub(crate) bodies: Vec<(String, Bytes)>,
}

impl Arrivals {
    /// Events a second, from the first request to the last.
    pub(crate) fn per_second(&self) -> f64 {
        let time = self.first_at.zip(self.last_at).map(|(first, last)| last - first);
        self.events as f64 / time.unwrap_or_default().as_secs_f64().max(1e-9)
    }

    /// Units: milliseconds.
    pub(crate) fn delay_ms(&self, percent: f64) -> f64 {
        self.delays.percentile_us(percent) / 1e3
    }

    fn note(&mut self, sequence: &str, body: Bytes) {
        let now = Instant::now();
        self.requests += 1;
        self.first_at.get_or_insert(now);
        self.last_at = Some(now);
        let wall = SystemTime::now();
        for at in sequence.split(',').filter_map(|at| at.parse().ok()) {
            self.events += 1;
            let accepted_at = UNIX_EPOCH + Duration::from_micros(at);
            self.delays.note(wall.duration_since(accepted_at).unwrap_or_default());
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
        let (address, arrivals) = (listener.local_addr()?, Arc::<Mutex<Arrivals>>::default());
        let own = Arc::clone(&arrivals);
        let take = async move |headers: HeaderMap, body: Bytes| {
            let sequence = headers.get("webhook-sequence").and_then(|value| value.to_str().ok());
            lock(&own).note(sequence.unwrap_or_default(), body);
        };
        let router = Router::new().fallback(take).layer(DefaultBodyLimit::disable());
        // Without it an answer waits for the other side's acknowledgement.
        let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
        runtime.spawn(async move { axum::serve(listener, router).await });
        Ok(Self { address, arrivals })
    }

    /// The address of endpoint number `number`.
    pub(crate) fn url(&self, number: usize) -> String {
        format!("http://{}/hook/{number}", self.address)
    }

    /// Takes the deliveries since the last look; the counts begin anew.
    pub(crate) fn take(&self) -> Arrivals {
        std::mem::take(&mut lock(&self.arrivals))
    }

    /// Waits until so many events have come since the last look, and returns them.
    /// Errors: no further ones come.
    pub(crate) fn take_all(&self, events: u64) -> Outcome<Arrivals> {
        self.wait(|count| count >= events, SILENCE * 10);
        let arrivals = self.take();
        if arrivals.events >= events {
            return Ok(arrivals);
        }
        fail(format!("{} of {events} events came, and then none", arrivals.events))
    }

    /// Waits until nothing has come for a while, and returns what came before.
    pub(crate) fn take_rest(&self) -> Arrivals {
        self.wait(|_| false, SILENCE);
        self.take()
    }

    /// Waits until the count of events is as wanted, or has not changed for so long.
    fn wait(&self, is_enough: impl Fn(u64) -> bool, silence: Duration) {
        let (mut count, mut changed_at) = (lock(&self.arrivals).events, Instant::now());
        while !is_enough(count) && changed_at.elapsed() < silence {
            thread::sleep(Duration::from_millis(20));
            let now = lock(&self.arrivals).events;
            if now != count {
                (count, changed_at) = (now, Instant::now());
            }
        }
    }
}

fn lock(arrivals: &Mutex<Arrivals>) -> MutexGuard<'_, Arrivals> {
    arrivals.lock().unwrap_or_else(PoisonError::into_inner)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_event_of_a_webhook_has_its_delay() {
        let mut arrivals = Arrivals::default();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros();
        arrivals.note(&format!("{},{}", now - 5_000_000, now - 9_000_000), Bytes::from("[]"));
        assert_eq!((arrivals.requests, arrivals.events), (1, 2));
        assert!(arrivals.delay_ms(50.0) >= 5_000.0 && arrivals.delay_ms(99.0) >= 9_000.0);
        assert!(arrivals.delay_ms(50.0) < arrivals.delay_ms(99.0));
    }
}
