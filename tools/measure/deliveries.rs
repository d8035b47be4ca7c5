//! How fast webhooks leave: a log full of events that endpoints were not told of, and a switch with
//! nothing else to do. Beside it the switch's own client posting the same bodies to the same receiver,
//! as many at a time as there are endpoints (a switch sends an endpoint one message at a time).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use cardswitch_notify::webhooks::addresses::Reach;
use cardswitch_notify::webhooks::attempt::AttemptResult;
use cardswitch_notify::webhooks::sender::{Delivery, Sender};
use cardswitch_tools::ground::{Ground, Plan};
use cardswitch_tools::report::{each, print_row, short, thousands};
use cardswitch_tools::{Outcome, fail};
use tokio::runtime::Runtime;

use crate::LOCAL_WEBHOOKS;
use crate::receiver::{Arrivals, Receiver};

/// A stand-in for the signature of a message, as long as one.
const SIGNATURE: &str = "v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

/// How much is delivered.
#[derive(Debug, clap::Args)]
pub(crate) struct Scale {
    /// Endpoints of one company, a hundred at most; one run each
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16, 64], value_name = "N")]
    endpoints: Vec<usize>,
    /// Events to all endpoints together
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    events: u64,
    /// Cards of the directory
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    cards: u64,
}

/// Measures and prints.
pub(crate) fn run(scale: &Scale, runtime: &Runtime) -> Outcome<()> {
    let mut rates = Vec::new();
    for endpoints in &scale.endpoints {
        let receiver = Receiver::start(runtime)?;
        let own = deliver(*endpoints, scale, &receiver)?;
        let alone = post_again(*endpoints, &own, &receiver, runtime)?;
        rates.push((own.per_second(), own.per_second() / alone.per_second()));
        println!(
            "{endpoints} endpoints: {} events in {} requests; the client alone {} events/s",
            own.events,
            own.requests,
            thousands(alone.per_second())
        );
    }
    let endpoints = each(&scale.endpoints, ToString::to_string);
    print_row(
        &format!("webhooks to a loopback receiver, {endpoints} endpoints"),
        &format!(
            "{} events/s: {} of the client alone",
            each(&rates, |(rate, _)| thousands(*rate)),
            each(&rates, |(_, ratio)| short(*ratio)),
        ),
    );
    Ok(())
}

/// Has a switch deliver everything that has happened.
fn deliver(endpoints: usize, scale: &Scale, receiver: &Receiver) -> Outcome<Arrivals> {
    let purchases = (scale.events / endpoints.max(1) as u64).max(1);
    let urls = (0..endpoints).map(|number| receiver.url(number)).collect();
    let plan = Plan { endpoints: urls, purchases, ..Plan::of_cards(scale.cards) };
    let ground = Ground::make(&plan)?;
    let switch = ground.serve(&LOCAL_WEBHOOKS);
    let arrivals = receiver.take_all(purchases * endpoints as u64)?;
    switch.stop();
    Ok(arrivals)
}

/// The same without a switch: as many requests, with the bodies that it has sent.
fn post_again(
    at_once: usize,
    own: &Arrivals,
    receiver: &Receiver,
    runtime: &Runtime,
) -> Outcome<Arrivals> {
    let (next, wanted) = (Arc::new(AtomicUsize::new(0)), usize::try_from(own.requests)?);
    let bodies: Arc<[(String, Bytes)]> = own.bodies.clone().into();
    let sender = Sender::new(Reach::Local);
    let posters = (0..at_once).map(|number| {
        let (next, bodies, sender) = (Arc::clone(&next), Arc::clone(&bodies), sender.clone());
        let address = receiver.url(number);
        runtime.spawn(async move {
            loop {
                let turn = next.fetch_add(1, Ordering::Relaxed);
                if turn >= wanted {
                    return Ok(());
                }
                let (sequence, body) = &bodies[turn % bodies.len()];
                let result = sender.send(&delivery(&address, sequence, body)).await;
                if !matches!(result, AttemptResult::Answered(200)) {
                    return Err(format!("the receiver answered the client: {result:?}"));
                }
            }
        })
    });
    for poster in posters.collect::<Vec<_>>() {
        runtime.block_on(poster)??;
    }
    let alone = receiver.take();
    if alone.requests == wanted as u64 {
        return Ok(alone);
    }
    fail(format!("{} of {wanted} requests of the client came", alone.requests))
}

fn delivery(address: &str, sequence: &str, body: &Bytes) -> Delivery {
    Delivery {
        address: address.to_owned(),
        id: "msg_00000000-0000-0000-0000-000000000000".to_owned(),
        timestamp_s: 1_795_262_400,
        signature: SIGNATURE.to_owned(),
        sequence: sequence.to_owned(),
        tries: 1,
        body: body.clone(),
    }
}
