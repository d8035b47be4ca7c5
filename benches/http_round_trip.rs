//! What does an authorization over HTTP cost from socket to socket?
//!
//! Over loopback, closed loop, one authorization a request, in one process with the client: hyper
//! alone, which parses the same JSON and answers a fixed text (the yardstick), and the whole switch
//! on a disk. A connection has one request under way, beyond so many connections some more. Then
//! an open loop: 20,000 requests a second whatever comes back, each timed from when it was due to
//! go, beside single durable blocks just before.

use bytes::Bytes;
use cardswitch_benches::installation::{CardHashes, Installation, NETWORK_KEY, cards};
use cardswitch_benches::meter::{Bench, SamplingPlan};
use cardswitch_benches::program::Program;
use cardswitch_benches::wire::{
    BenchSwitch, LoopShape, OPEN_LOOP_RATE_PER_S, OPEN_LOOP_TIME, measure, open_loop, runtime,
};
use cardswitch_benches::yardstick::{DiskYardstick, start_hyper};
use cardswitch_load::http::Http;
use cardswitch_load::iso::PurchaseSettings;

const CARDS: u64 = 10_000;
const WINDOWS: [u64; 3] = [1, 64, 1_024];
/// More requests in flight than this share connections.
const CONNECTIONS_MAX: u64 = 256;
const OPEN_LOOP_CONNECTIONS: usize = 64;
/// An answer as long as the switch's.
const ANSWER: &[u8] = br#"{"approved":true,"response_code":0,"approved_amount":123.45,"transaction_id":"0190a5a4-0000-7000-8000-000000000000","authorization_id":"123456","allowance_balance":99999999.99,"failed_rules":[]}"#;

pub(crate) fn ask(bench: &mut Bench) {
    bench.run("http_round_trip", SamplingPlan::LONG, |bench| {
        let runtime = runtime();
        let bare = runtime.block_on(start_hyper(Bytes::from_static(ANSWER)));
        let home = Installation::new(Program::of_one_company(CARDS), CardHashes::OfNumbers);
        let served = runtime.block_on(BenchSwitch::start(&home.data));
        for window in WINDOWS {
            let shape = LoopShape { window, connections: window.min(CONNECTIONS_MAX) };
            let (bare_name, name) = (format!("yardstick_hyper/{shape}"), format!("switch/{shape}"));
            let answered = measure(bench, &bare_name, shape, (bare, client));
            let decided = measure(bench, &name, shape, (served.http(), client));
            answered.print_beside(&bare_name, "requests", &answered.meter, "hyper alone");
            decided.print_beside(&name, "requests", &answered.meter, "hyper alone");
        }
        let name = format!("switch/open_loop_{OPEN_LOOP_RATE_PER_S}_per_s");
        let disk = DiskYardstick::take(&name);
        bench.once(&name, || {
            let pace = (OPEN_LOOP_RATE_PER_S, OPEN_LOOP_CONNECTIONS);
            let waited = open_loop(served.http(), pace, client());
            disk.print_open_loop(&name, &waited);
            (waited.count(), OPEN_LOOP_TIME)
        });
        runtime.block_on(served.stop());
    });
}

fn client() -> Http {
    let purchases = PurchaseSettings { amount_max: 20_099, ..PurchaseSettings::default() };
    Http::new(&cards(CARDS), purchases, NETWORK_KEY).expect("make requests")
}
