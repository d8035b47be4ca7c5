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
use std::time::Duration;

use cardswitch_benches::Must;
use cardswitch_benches::installation::{
    ACCESS_TOKEN, CardHashes, install, secrets, temporary_directory,
};
use cardswitch_benches::meter::{Bench, Latencies, LoopFigures, Pace};
use cardswitch_benches::program::{Program, card_id};
use cardswitch_benches::wire::{
    BenchSwitch, ClosedLoop, Door, HttpClient, Iso8583Client, measure, open_loop, render_request,
    runtime,
};
use cardswitch_benches::yardstick::{DiskYardstick, start_echo};
use cardswitch_edge::switch::Submit;
use cardswitch_engine::command::Command;
use cardswitch_engine::command::network::NetworkCommand;
use cardswitch_engine::command::reply::{AuthorizationReply, NetworkReply, Reply};
use cardswitch_engine::decision::RuleSet;
use cardswitch_engine::domain::money::{CurrencyCode, Minor};
use cardswitch_engine::domain::response_code::{ResponseCode, SubReason};
use cardswitch_engine::submission::{Envelope, SubmitError};
use tokio::runtime::Runtime;

const CARDS: u64 = 10_000;
/// Requests in flight in all, over so many connections.
const SHAPES: [(u64, u64); 4] = [(1, 1), (64, 1), (1_024, 1), (1_024, 4)];
const OPEN_LOOP_RATE_PER_S: u32 = 20_000;
const OPEN_LOOP_TIME: Duration = Duration::from_secs(5);
const OPEN_LOOP_CONNECTIONS: u64 = 2;
const API_RATE_PER_S: u32 = 50;

pub(crate) fn ask(bench: &mut Bench) {
    bench.run("iso8583_round_trip", Pace::LONG, |bench| {
        let runtime = runtime();
        let cards = Iso8583Client::cards(CARDS);
        let client = |place| Iso8583Client::new(Arc::clone(&cards), place);
        let echo = runtime.block_on(start_echo());
        let door = runtime.block_on(Door::open(Arc::new(Approver), &secrets()));
        for (window, connections) in SHAPES {
            let shape = format!("{window}_in_flight_over_{connections}");
            let loop_to = |address| move || ClosedLoop::open(address, connections, client);
            let echoed = measure(bench, &format!("yardstick_echo/{shape}"), window, loop_to(echo));
            let answered = measure(bench, &format!("door/{shape}"), window, loop_to(door.address));
            let name = format!("switch/{shape}");
            let mut decided = LoopFigures::default();
            if bench.wants(&name) {
                let directory = temporary_directory();
                let program = Program::of_one_company(CARDS);
                let data = install(directory.path(), program, CardHashes::OfNumbers);
                let served = runtime.block_on(BenchSwitch::start(&data));
                decided = measure(bench, &name, window, loop_to(served.iso8583()));
                runtime.block_on(served.stop());
            }
            print(&format!("echo/{shape}"), &echoed, &echoed);
            print(&format!("door/{shape}"), &answered, &echoed);
            print(&name, &decided, &echoed);
        }
        runtime.block_on(door.close());
        for is_beside_api in [false, true] {
            send_by_the_clock(bench, &runtime, &cards, is_beside_api);
        }
    });
}

fn send_by_the_clock(
    bench: &mut Bench,
    runtime: &Runtime,
    cards: &Arc<[[u8; 16]]>,
    is_beside_api: bool,
) {
    let beside = if is_beside_api { "_beside_50_of_the_api" } else { "" };
    let name = format!("switch/open_loop_{OPEN_LOOP_RATE_PER_S}_per_s{beside}");
    let disk = DiskYardstick::take(bench, &name);
    bench.once(&name, || {
        let directory = temporary_directory();
        let program = Program::of_one_company(CARDS);
        let data = install(directory.path(), program, CardHashes::OfNumbers);
        let served = runtime.block_on(BenchSwitch::start(&data));
        let api = is_beside_api.then(|| ask_the_api(served.http()));
        let (connections, rate) = (OPEN_LOOP_CONNECTIONS, OPEN_LOOP_RATE_PER_S);
        let client = |place| Iso8583Client::new(Arc::clone(cards), place);
        let waited = open_loop(served.iso8583(), connections, rate, OPEN_LOOP_TIME, client);
        let asked = api.map(|api| api.join().must("be answered to the end"));
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
    let requests: Arc<[Vec<u8>]> = Arc::new([
        get("/v1/transactions"),
        get("/v1/cards?limit=50"),
        get("/v1/transactions?state=declined"),
        render_request("PUT", &card, &authorization, body),
        get(&format!("/v1/transactions?card={}", card_id(7).0)),
    ]);
    std::thread::spawn(move || {
        let client = |_| HttpClient::of_requests(Arc::clone(&requests));
        open_loop(address, 1, API_RATE_PER_S, OPEN_LOOP_TIME, client)
    })
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
