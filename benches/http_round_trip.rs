//! What does an authorization over HTTP cost from socket to socket?
//!
//! Over loopback, closed loop, one authorization a request, in one process with the client: hyper
//! alone, which parses the same JSON and answers a fixed text (the yardstick), and the whole switch
//! on a disk. A connection has one request under way, beyond so many connections some more. Then
//! an open loop: 20,000 requests a second whatever comes back, each timed from when it was due to
//! go, beside single durable blocks just before.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cardswitch_benches::installation::{CardHashes, NETWORK_KEY, install, temporary_directory};
use cardswitch_benches::meter::{Bench, Pace};
use cardswitch_benches::program::Program;
use cardswitch_benches::wire::{
    BenchSwitch, ClosedLoop, HttpClient, Iso8583Client, measure, open_loop, runtime,
};
use cardswitch_benches::yardstick::{DiskYardstick, start_hyper};

const CARDS: u64 = 10_000;
const WINDOWS: [u64; 3] = [1, 64, 1_024];
/// More requests in flight than this share connections.
const CONNECTIONS_MAX: u64 = 256;
const OPEN_LOOP_RATE_PER_S: u32 = 20_000;
const OPEN_LOOP_TIME: Duration = Duration::from_secs(5);
const OPEN_LOOP_CONNECTIONS: u64 = 64;
/// An answer as long as the switch's.
const ANSWER: &[u8] = br#"{"approved":true,"response_code":0,"approved_amount":123.45,"transaction_id":"0190a5a4-0000-7000-8000-000000000000","authorization_id":"123456","allowance_balance":99999999.99,"failed_rules":[]}"#;
const APPROVED: &[u8] = br#""approved":true"#;

pub(crate) fn ask(bench: &mut Bench) {
    bench.run("http_round_trip", Pace::LONG, |bench| {
        let runtime = runtime();
        let cards = Iso8583Client::cards(CARDS);
        let client =
            |place| HttpClient::of_purchases(Arc::clone(&cards), place, NETWORK_KEY, APPROVED);
        let bare = runtime.block_on(start_hyper(Bytes::from_static(ANSWER)));
        let directory = temporary_directory();
        let program = Program::of_one_company(CARDS);
        let data = install(directory.path(), program, CardHashes::OfNumbers);
        let served = runtime.block_on(BenchSwitch::start(&data));
        for window in WINDOWS {
            let connections = window.min(CONNECTIONS_MAX);
            let shape = format!("{window}_in_flight_over_{connections}");
            let loop_to =
                |address: SocketAddr| move || ClosedLoop::open(address, connections, client);
            let (bare_name, name) = (format!("yardstick_hyper/{shape}"), format!("switch/{shape}"));
            let answered = measure(bench, &bare_name, window, loop_to(bare));
            let decided = measure(bench, &name, window, loop_to(served.http()));
            answered.print_beside(&bare_name, "requests", &answered.meter, "hyper alone");
            decided.print_beside(&name, "requests", &answered.meter, "hyper alone");
        }
        let name = format!("switch/open_loop_{OPEN_LOOP_RATE_PER_S}_per_s");
        let disk = DiskYardstick::take(bench, &name);
        bench.once(&name, || {
            let (connections, rate) = (OPEN_LOOP_CONNECTIONS, OPEN_LOOP_RATE_PER_S);
            let waited = open_loop(served.http(), connections, rate, OPEN_LOOP_TIME, client);
            disk.print_open_loop(&name, &waited);
            (waited.count(), OPEN_LOOP_TIME)
        });
        runtime.block_on(served.stop());
    });
}
