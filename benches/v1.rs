//! What do the requests of `/v1` cost while millions of transactions are stored?
//!
//! A whole switch on a prepared directory: one card, a page of cards, a page of transactions (of
//! the company, and of one card), a change of a card or an allowance and a new card, which are
//! answered when they are durable and visible. Beside each, hyper alone answering with a text of the
//! same length over as many connections.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use cardswitch_benches::installation::{
    ACCESS_TOKEN, Installation, stored_cards, stored_transactions,
};
use cardswitch_benches::meter::{Bench, SamplingPlan};
use cardswitch_benches::program::{Random, allowance_id, card_id};
use cardswitch_benches::wire::{BenchSwitch, LoopShape, connect, exchange, measure, runtime};
use cardswitch_benches::yardstick::start_hyper;
use cardswitch_load::http::{Requests, render_request};
use tokio::runtime::Runtime;

/// Connections with one request under way each.
const WINDOWS: [u64; 2] = [1, 16];
/// Cards that requests are about, in turn.
const CARDS_ASKED: usize = 512;
/// Rounds over these cards before the same requests come again: each change differs from the one before.
const ROUNDS: u64 = 2;

/// A kind of request: its name, and how one for a card is rendered in a round.
type Kind = (&'static str, fn(card: u64, round: u64) -> Vec<u8>);

const KINDS: [Kind; 7] = [
    ("get_card", |card, _| get(&format!("/v1/cards/{}", card_id(card).0))),
    ("list_cards", |_, _| get("/v1/cards?limit=50")),
    ("list_transactions", |_, _| get("/v1/transactions?limit=50")),
    ("list_transactions_of_card", |card, _| {
        get(&format!("/v1/transactions?limit=50&card={}", card_id(card).0))
    }),
    ("put_card", |card, round| {
        let body = format!(r#"{{"description":"Travel and more {round}"}}"#);
        render_request("PUT", &format!("/v1/cards/{}", card_id(card).0), &authorization(), &body)
    }),
    ("put_allowance", |card, round| {
        let body = format!(r#"{{"amount":{},"transaction_limit":900}}"#, 5_000 + round);
        let path = format!("/v1/allowances/{}", allowance_id(card).0);
        render_request("PUT", &path, &authorization(), &body)
    }),
    ("create_card", |_, _| {
        let body = r#"{"description":"Lunches","is_virtual":true,"allowance":{"amount":200,"interval":"weekly"}}"#;
        render_request("POST", "/v1/cards", &authorization(), body)
    }),
];

pub(crate) fn ask(bench: &mut Bench) {
    bench.run("v1", SamplingPlan::LONG.seconds(2), |bench| {
        let home = Installation::stored();
        println!("STORED: {} cards, {} transactions", stored_cards(), stored_transactions());
        let runtime = runtime();
        let served = runtime.block_on(BenchSwitch::start(&home.data));
        for kind in KINDS {
            for window in WINDOWS {
                compare(bench, &runtime, &kind, window, served.http());
            }
        }
        runtime.block_on(served.stop());
    });
}

fn compare(bench: &mut Bench, runtime: &Runtime, kind: &Kind, window: u64, switch: SocketAddr) {
    let name = format!("{}/{window}_in_flight", kind.0);
    let requests = requests(kind.1);
    let length = answer_length(switch, &requests);
    let text = format!("\"{}\"", "x".repeat(length.saturating_sub(2)));
    let bare = runtime.block_on(start_hyper(Bytes::from(text)));
    let client = || Requests::new(Arc::clone(&requests));
    let shape = LoopShape { window, connections: window };
    let answered = measure(bench, &format!("yardstick_hyper/{name}"), shape, (bare, client));
    let served = measure(bench, &name, shape, (switch, client));
    println!("YARDSTICK {name}: answers of {length} bytes");
    served.print_beside(&name, "requests", &answered.meter, "hyper alone");
}

fn requests(render: fn(u64, u64) -> Vec<u8>) -> Arc<[Vec<u8>]> {
    let mut random = Random::new(41);
    let cards: Vec<u64> = (0..CARDS_ASKED).map(|_| random.below(stored_cards())).collect();
    (0..ROUNDS).flat_map(|round| cards.iter().map(move |card| render(*card, round))).collect()
}

/// How long the switch's answer to the first request is, head left out.
fn answer_length(switch: SocketAddr, requests: &Arc<[Vec<u8>]>) -> usize {
    let mut client = connect(switch, 1, Requests::new(Arc::clone(requests)));
    exchange(&mut client, 1, 1);
    client.wire.body_bytes
}

fn get(path: &str) -> Vec<u8> {
    render_request("GET", path, &authorization(), "")
}

fn authorization() -> String {
    format!("Token {ACCESS_TOKEN}")
}
