//! The cost of watching a switch for its authorizations: the same load on a switch that nobody
//! watches, and on one with endpoints, streams of events and a scrape of its figures each second,
//! in turns.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use cardswitch_load::load::Load;
use cardswitch_tools::Outcome;
use cardswitch_tools::ground::{Ground, Plan};
use cardswitch_tools::report::{compare_in_turns, grouped};
use cardswitch_tools::switch::load_door;
use tokio::runtime::Runtime;

use crate::LOCAL_WEBHOOKS;
use crate::http::{EventStream, follow};
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
    let without = || {
        let switch = alone.serve(&[]);
        let tally = load_door(switch.iso8583, &alone.cards, &load)?;
        switch.stop();
        Ok(tally)
    };
    let with = || {
        let switch = watched.serve(&LOCAL_WEBHOOKS);
        let authorization = format!("Token {}", switch.credentials().access_token);
        let head = ("authorization", authorization.as_str());
        let follow = |_| follow(switch.http, "/v1/events/stream", head);
        let streams = (0..streams).map(follow).collect::<Outcome<Vec<_>>>()?;
        let tally = thread::scope(|scope| {
            let (stop, stopped) = channel::<()>();
            let figures = switch.watcher();
            scope.spawn(move || {
                while stopped.recv_timeout(SCRAPE_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                    assert_eq!(figures.get("/metrics").status, 200);
                }
            });
            let tally = load_door(switch.iso8583, &watched.cards, &load);
            drop(stop);
            tally
        })?;
        let events = streams.into_iter().map(EventStream::end).sum::<Outcome<u64>>()?;
        println!("{events} events to streams, {} to endpoints", receiver.take_rest().events);
        switch.stop();
        Ok(tally)
    };
    let rate = grouped(rate as f64);
    let measurement = format!(
        "{rate} authorizations/s alone / with {endpoints} endpoints, {streams} streams and scrapes"
    );
    compare_in_turns(&measurement, scale.rounds, &without, &with)
}
