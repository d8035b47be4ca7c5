//! How fast webhooks leave: a log full of events that endpoints were not told of, and a switch with
//! nothing else to do. Beside it the switch's own client posting the same bodies to the same receiver,
//! as many at a time as there are endpoints (a switch sends an endpoint one message at a time).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use cardswitch_notify::webhooks::addresses::Reach;
use cardswitch_notify::webhooks::deliveries::AttemptResult;
use cardswitch_notify::webhooks::sender::{Delivery, Sender};
use tokio::runtime::Runtime;

use crate::ground::{Ground, Plan};
use crate::outcome::{Outcome, fail};
use crate::receiver::{ReceivedDeliveries, Receiver};
use crate::switch_process::{Programs, SwitchProcess};

/// A stand-in for the signature of a message, as long as one.
const SIGNATURE: &str = "v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

/// How much is delivered.
#[derive(Clone, Debug)]
pub(crate) struct Scale {
    /// To so many endpoints of one company; one run each.
    pub(crate) endpoints: Vec<usize>,
    /// To all of them together.
    pub(crate) events: u64,
    pub(crate) cards: u64,
}

/// Measures and prints.
pub(crate) fn run(scale: &Scale, programs: &Programs, runtime: &Runtime) -> Outcome<()> {
    println!(
        "\n| endpoints | events/s | requests/s | events a request | client alone: events/s | requests/s | of the client's events |"
    );
    println!("|---:|---:|---:|---:|---:|---:|---:|");
    for endpoints in &scale.endpoints {
        let receiver = Receiver::start(runtime)?;
        let told = deliver(*endpoints, scale, programs, &receiver)?;
        let alone = post_again(*endpoints, &told, &receiver, runtime)?;
        let [own, bare] = [&told, &alone].map(|noted| noted.events as f64 / noted.seconds());
        println!(
            "| {endpoints} | {own:.0} | {:.0} | {:.1} | {bare:.0} | {:.0} | {:.2} |",
            told.requests as f64 / told.seconds(),
            told.events as f64 / told.requests as f64,
            alone.requests as f64 / alone.seconds(),
            own / bare,
        );
    }
    Ok(())
}

/// Has a switch tell everything that has happened.
fn deliver(
    endpoints: usize,
    scale: &Scale,
    programs: &Programs,
    receiver: &Receiver,
) -> Outcome<ReceivedDeliveries> {
    let purchases = (scale.events / endpoints as u64).max(1);
    let ground = Ground::make(&Plan {
        cards: scale.cards,
        companies: 1,
        endpoints: (0..endpoints).map(|number| receiver.url(number)).collect(),
        purchases,
    })?;
    let switch = SwitchProcess::start(&ground, programs)?;
    let told = receiver.take_all(purchases * endpoints as u64)?;
    switch.stop()?;
    Ok(told)
}

/// The same without a switch: as many requests, with the bodies that it has sent.
fn post_again(
    at_once: usize,
    told: &ReceivedDeliveries,
    receiver: &Receiver,
    runtime: &Runtime,
) -> Outcome<ReceivedDeliveries> {
    let (next, wanted) = (Arc::new(AtomicUsize::new(0)), usize::try_from(told.requests)?);
    let bodies: Arc<[(String, Bytes)]> = told.bodies.clone().into();
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
    let alone = receiver.take()?;
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
