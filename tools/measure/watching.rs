//! The cost of watching a switch for its authorizations: the same load on a switch that nobody
//! watches, and on one with endpoints, streams of events and a scrape of its figures each second,
//! in turns.

use std::net::SocketAddr;
use std::time::Duration;

use cardswitch_benches::installation::ACCESS_TOKEN;
use cardswitch_load::load::Load;
use cardswitch_tools::Outcome;
use cardswitch_tools::ground::{Ground, Plan};
use cardswitch_tools::report::{grouped, print_beside};
use cardswitch_tools::switch::Switch;
use tokio::runtime::Runtime;

use crate::LOCAL_WEBHOOKS;
use crate::http::{Http, follow};
use crate::receiver::Receiver;

const SCRAPE_INTERVAL: Duration = Duration::from_secs(1);

/// How much watches, and what.
#[derive(Debug, clap::Args)]
pub(crate) struct Scale {
    /// Authorizations a second
    #[arg(long, default_value_t = 5_000, value_name = "N")]
    rate: u64,
    /// Rounds, of a load without and one with watchers each
    #[arg(long, default_value_t = 3, value_name = "N")]
    rounds: usize,
    /// Endpoints
    #[arg(long, default_value_t = 4, value_name = "N")]
    endpoints: usize,
    /// Streams of events
    #[arg(long, default_value_t = 4, value_name = "N")]
    streams: usize,
    /// Seconds of each load
    #[arg(long, default_value_t = 20.0, value_name = "S")]
    seconds: f64,
    /// Cards of the directory
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    cards: u64,
}

/// Measures and prints.
pub(crate) fn run(scale: &Scale, runtime: &Runtime) -> Outcome<()> {
    let Scale { rate, endpoints, streams, cards, .. } = *scale;
    let receiver = Receiver::start(runtime)?;
    let urls: Vec<_> = (0..endpoints).map(|number| receiver.url(number)).collect();
    let alone = Ground::make(&Plan::of_cards(cards))?;
    let watched = Ground::make(&Plan { endpoints: urls, ..Plan::of_cards(cards) })?;
    let measured = Duration::try_from_secs_f64(scale.seconds)?;
    let load = Load { rate: Some(rate), measured, ..Load::default() };
    let [mut without, mut with] = [Vec::new(), Vec::new()];
    for _ in 0..scale.rounds {
        let switch = Switch::serve(&alone.data, &[])?;
        without.push(switch.load(&alone.cards, &load)?);
        switch.stop()?;

        let switch = Switch::serve(&watched.data, &LOCAL_WEBHOOKS)?;
        let authorization = format!("Token {ACCESS_TOKEN}");
        let head = ("authorization", authorization.as_str());
        let follow = |_| follow(runtime, switch.http, "/v1/events/stream", head);
        let streams = (0..streams).map(follow).collect::<Outcome<Vec<_>>>()?;
        let scraping = runtime.spawn(scrape(switch.metrics));
        with.push(switch.load(&watched.cards, &load)?);
        let events = streams.into_iter().map(|stream| stream.end(runtime)).sum::<Outcome<u64>>()?;
        scraping.abort();
        println!("{events} events to streams, {} to endpoints", receiver.take_rest().events);
        switch.stop()?;
    }
    print_beside(
        &format!(
            "{} authorizations/s alone / with {endpoints} endpoints, {} streams and scrapes",
            grouped(rate as f64),
            scale.streams
        ),
        &without,
        &with,
    );
    Ok(())
}

/// Asks for the figures again and again, until it is ended.
async fn scrape(metrics: SocketAddr) -> Outcome<()> {
    let mut tick = tokio::time::interval(SCRAPE_INTERVAL);
    let mut client = Http::connect(metrics).await?;
    loop {
        tick.tick().await;
        client.get("/metrics", &[]).await?;
    }
}
