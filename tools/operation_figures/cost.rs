//! The cost of watching a switch for its authorizations: the same load on a switch that nobody
//! watches, and on one with endpoints, streams of events and a scrape of its figures each second,
//! in turns.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cardswitch_benches::installation::ACCESS_TOKEN;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::ground::{Ground, Plan};
use crate::outcome::Outcome;
use crate::receiver::Receiver;
use crate::switch_process::{Programs, SwitchProcess};

const SCRAPE_INTERVAL: Duration = Duration::from_secs(1);

/// How much watches, and what.
#[derive(Clone, Debug)]
pub(crate) struct Scale {
    pub(crate) endpoints: usize,
    pub(crate) streams: usize,
    pub(crate) rates: Vec<u64>,
    pub(crate) rounds: usize,
    pub(crate) seconds: f64,
    pub(crate) cards: u64,
}

/// Measures and prints.
pub(crate) fn run(scale: &Scale, programs: &Programs, runtime: &Runtime) -> Outcome<()> {
    println!(
        "\nwatched: {} endpoints, {} streams, figures scraped each second",
        scale.endpoints, scale.streams
    );
    println!(
        "\n| offered/s | round | switch | answered/s | p50 us | p99 us | p99.9 us | events to endpoints | bytes to streams |"
    );
    println!("|---:|---:|---|---:|---:|---:|---:|---:|---:|");
    let receiver = Receiver::start(runtime)?;
    let urls: Vec<_> = (0..scale.endpoints).map(|number| receiver.url(number)).collect();
    let plan = Plan { cards: scale.cards, companies: 1, endpoints: Vec::new(), purchases: 0 };
    let alone = Ground::make(&plan)?;
    let watched = Ground::make(&Plan { endpoints: urls, ..plan })?;
    for rate in &scale.rates {
        for round in 1..=scale.rounds {
            let switch = SwitchProcess::start(&alone, programs)?;
            let cells = switch.load(*rate, scale.seconds)?.cells();
            switch.stop()?;
            println!("| {rate} | {round} | alone | {cells} | |");

            let switch = SwitchProcess::start(&watched, programs)?;
            let watchers = Watchers::begin(&switch, scale.streams, runtime);
            let cells = switch.load(*rate, scale.seconds)?.cells();
            let bytes = runtime.block_on(watchers.end())?;
            receiver.until_silent();
            switch.stop()?;
            let events = receiver.take()?.events;
            println!("| {rate} | {round} | watched | {cells} {events} | {bytes} |");
        }
    }
    Ok(())
}

/// Streams and scrapes, until they are ended.
struct Watchers {
    tasks: Vec<JoinHandle<std::io::Result<()>>>,
    streamed: Arc<AtomicU64>,
}

impl Watchers {
    fn begin(switch: &SwitchProcess, streams: usize, runtime: &Runtime) -> Self {
        let streamed = Arc::new(AtomicU64::new(0));
        let (http, metrics) = (switch.http, switch.metrics);
        let mut tasks: Vec<_> =
            (0..streams).map(|_| runtime.spawn(follow(http, Arc::clone(&streamed)))).collect();
        tasks.push(runtime.spawn(scrape(metrics)));
        Self { tasks, streamed }
    }

    /// Ends them and returns what came over the streams. Units: bytes.
    /// Errors: one had ended by itself.
    async fn end(self) -> Outcome<u64> {
        for task in self.tasks {
            if task.is_finished() {
                task.await??;
                return Err("a stream has ended by itself".into());
            }
            task.abort();
        }
        Ok(self.streamed.load(Ordering::Relaxed))
    }
}

/// Reads the stream of events.
async fn follow(http: SocketAddr, streamed: Arc<AtomicU64>) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(http).await?;
    let head = format!(
        "GET /v1/events/stream HTTP/1.1\r\nhost: figures\r\nauthorization: Token {ACCESS_TOKEN}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    let mut bytes = vec![0; 64 << 10];
    let mut is_begun = false;
    loop {
        let read = stream.read(&mut bytes).await?;
        if read == 0 || (!is_begun && !bytes.starts_with(b"HTTP/1.1 200")) {
            let said = String::from_utf8_lossy(&bytes[..read]).into_owned();
            return Err(std::io::Error::other(format!("a stream of events says `{said}`")));
        }
        is_begun = true;
        streamed.fetch_add(read as u64, Ordering::Relaxed);
    }
}

/// Asks for the figures again and again.
async fn scrape(metrics: SocketAddr) -> std::io::Result<()> {
    let mut tick = tokio::time::interval(SCRAPE_INTERVAL);
    loop {
        tick.tick().await;
        let mut stream = TcpStream::connect(metrics).await?;
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\nhost: figures\r\nconnection: close\r\n\r\n")
            .await?;
        let mut text = Vec::new();
        stream.read_to_end(&mut text).await?;
        if !text.starts_with(b"HTTP/1.1 200") {
            return Err(std::io::Error::other("the figures are not told"));
        }
    }
}
