//! What does an ISO 8583 message cost from socket to socket?
//!
//! Over loopback, closed loop: so many requests in flight over one connection or several. Three
//! servers behind the same client and the same bytes: one that sends every frame back (the
//! yardstick: sockets, scheduling and the client itself), the door with a stand-in for the engine
//! that approves at once (adds the codec and the mapping), and the whole switch on a disk (adds
//! the shard and the journal). Latency is from the write to the read that brings the answer.
//! Then an open loop: 20,000 requests a second whatever comes back, each timed from when it was
//! due to go, beside single durable blocks just before; and again while the API is asked 50 times a
//! second.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use cardswitch_acquiring::submit::Submit;
use cardswitch_benches::installation::{ACCESS_TOKEN, CardHashes, Installation, cards, secrets};
use cardswitch_benches::meter::{Bench, Latencies, LoopFigures, SamplingPlan};
use cardswitch_benches::program::{Program, card_id};
use cardswitch_benches::wire::{
    BenchSwitch, EnginelessDoor, LoopShape, OPEN_LOOP_RATE_PER_S, OPEN_LOOP_TIME, measure,
    open_loop, runtime,
};
use cardswitch_benches::yardstick::DiskYardstick;
use cardswitch_engine::command::Command;
use cardswitch_engine::command::network::NetworkCommand;
use cardswitch_engine::command::reply::{AuthorizationReply, NetworkReply, Reply};
use cardswitch_engine::decision::RuleSet;
use cardswitch_engine::domain::money::{CurrencyCode, Minor};
use cardswitch_engine::domain::response_code::{ResponseCode, SubReason};
use cardswitch_engine::submission::{Envelope, SubmitError};
use cardswitch_load::echo;
use cardswitch_load::http::{Requests, render_request};
use cardswitch_load::iso::{Iso, PurchaseSettings};
use tokio::runtime::Runtime;

const CARDS: u64 = 10_000;
/// Requests in flight in all, over so many connections.
const SHAPES: [(u64, u64); 4] = [(1, 1), (64, 1), (1_024, 1), (1_024, 4)];
const OPEN_LOOP_CONNECTIONS: usize = 2;
const API_RATE_PER_S: u64 = 50;

pub(crate) fn ask(bench: &mut Bench) {
    bench.run("iso8583_round_trip", SamplingPlan::LONG, |bench| {
        let runtime = runtime();
        let echo = echo::start(echo::send_back).expect("start an echo");
        let door = runtime.block_on(EnginelessDoor::open(Arc::new(Approver), &secrets()));
        for (window, connections) in SHAPES {
            let shape = LoopShape { window, connections };
            let echoed = measure(bench, &format!("yardstick_echo/{shape}"), shape, (echo, client));
            let name = format!("door/{shape}");
            let answered = measure(bench, &name, shape, (door.address, client));
            let name = format!("switch/{shape}");
            let home = install();
            let served = runtime.block_on(BenchSwitch::start(&home.data));
            let decided = measure(bench, &name, shape, (served.iso8583(), client));
            runtime.block_on(served.stop());
            print(&format!("echo/{shape}"), &echoed, &echoed);
            print(&format!("door/{shape}"), &answered, &echoed);
            print(&name, &decided, &echoed);
        }
        runtime.block_on(door.close());
        for is_beside_api in [false, true] {
            send_by_the_clock(bench, &runtime, is_beside_api);
        }
    });
}

fn install() -> Installation {
    Installation::new(Program::of_one_company(CARDS), CardHashes::OfNumbers)
}

fn client() -> Iso {
    let purchases = PurchaseSettings { amount_max: 20_099, ..PurchaseSettings::default() };
    Iso::new(&cards(CARDS), purchases).expect("make messages")
}

fn send_by_the_clock(bench: &mut Bench, runtime: &Runtime, is_beside_api: bool) {
    let beside = if is_beside_api { "_beside_50_of_the_api" } else { "" };
    let name = format!("switch/open_loop_{OPEN_LOOP_RATE_PER_S}_per_s{beside}");
    let disk = DiskYardstick::take(&name);
    bench.once(&name, || {
        let home = install();
        let served = runtime.block_on(BenchSwitch::start(&home.data));
        let api = is_beside_api.then(|| ask_the_api(served.http()));
        let pace = (OPEN_LOOP_RATE_PER_S, OPEN_LOOP_CONNECTIONS);
        let waited = open_loop(served.iso8583(), pace, client());
        let asked = api.map(|api| api.join().expect("be answered to the end"));
        runtime.block_on(served.stop());
        disk.print_open_loop(&name, &waited);
        if let Some(asked) = asked {
            println!("READS {name}: requests of the API {asked}");
        }
        (waited.count(), OPEN_LOOP_TIME)
    });
}

/// Has the API asked so many times a second, on a thread of its own: lists, and changes of a card.
fn ask_the_api(address: SocketAddr) -> JoinHandle<Latencies> {
    let authorization = format!("Token {ACCESS_TOKEN}");
    let get = |path: &str| render_request("GET", path, &authorization, "");
    let card = format!("/v1/cards/{}", card_id(7).0);
    let body = r#"{"description":"Travel and more"}"#;
    let requests = Requests::new(Arc::new([
        get("/v1/transactions"),
        get("/v1/cards?limit=50"),
        get("/v1/transactions?state=declined"),
        render_request("PUT", &card, &authorization, body),
        get(&format!("/v1/transactions?card={}", card_id(7).0)),
    ]));
    std::thread::spawn(move || open_loop(address, (API_RATE_PER_S, 1), requests))
}

fn print(name: &str, measured: &LoopFigures, echo: &LoopFigures) {
    measured.print_beside(name, "messages", &echo.meter, "the echo's time");
}

/// Stands in for the engine: approves at once, on the caller's thread.
struct Approver;

impl Submit for Approver {
    fn submit(&self, envelopes: Vec<Envelope>) -> Result<(), SubmitError> {
        for Envelope { command, tag, port } in &envelopes {
            port.deliver(*tag, approved(amount_of(&command.command)));
        }
        if let Some(last) = envelopes.last() {
            last.port.flush();
        }
        Ok(())
    }
}

fn amount_of(command: &Command) -> Minor {
    let Command::Network(request) = command else { return Minor::ZERO };
    let NetworkCommand::Authorize(authorize) = &request.command else { return Minor::ZERO };
    authorize.facts.amounts.amount
}

/// Approves the whole amount: less would be a partial approval.
fn approved(amount: Minor) -> Reply {
    Reply::Network(NetworkReply::Authorization(AuthorizationReply {
        transaction: None,
        response_code: ResponseCode::Approved,
        sub_reason: SubReason::None,
        failed_rules: RuleSet::EMPTY,
        approved: amount,
        authorization_id: None,
        allowance_balance: Minor(1),
        currency: CurrencyCode(840),
    }))
}
