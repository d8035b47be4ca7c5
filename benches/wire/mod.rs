//! Clients of the doors, those of `cardswitch_load`, and their counterpart. Every answer is a success,
//! and an approval where it is one to an authorization: else there is no figure.

mod switch;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use cardswitch_load::client::{LoadClient, SendPace, Task};
use cardswitch_load::clock::now_ns;
use cardswitch_load::latencies::Latencies;
use cardswitch_load::load::Load;
use cardswitch_load::tally::Tally;
use cardswitch_load::wire::Wire;
pub use switch::{BenchSwitch, EnginelessDoor, runtime};

use crate::meter::{Bench, LoopFigures};

/// Requests at each iteration, for each place in the window.
const ROUNDS: u64 = 16;
/// Answers that come later are none. Units: nanoseconds.
const PATIENCE_NS: u64 = 60_000_000_000;
/// The rate of an open loop of authorizations.
pub const OPEN_LOOP_RATE_PER_S: u64 = 20_000;
/// How long an open loop is measured.
pub const OPEN_LOOP_TIME: Duration = Duration::from_secs(5);
/// The codes of answers as they should be: approvals, echoes, successes.
const EXPECTED: [&str; 5] = ["00", "0", "echo", "200", "201"];

/// A closed loop: so many requests in flight, over so many connections.
#[derive(Clone, Copy, Debug)]
pub struct LoopShape {
    /// Requests in flight on all connections together.
    pub window: u64,
    /// Connections of one thread.
    pub connections: u64,
}

impl std::fmt::Display for LoopShape {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}_in_flight_over_{}", self.window, self.connections)
    }
}

/// Connects a client of one thread.
pub fn connect<W: Wire>(address: SocketAddr, connections: u64, wire: W) -> LoadClient<W> {
    let connections = usize::try_from(connections).expect("count connections");
    LoadClient::connect(address, connections, wire).expect("connect to the server")
}

/// Sends so many requests and waits for their answers.
pub fn exchange<W: Wire>(client: &mut LoadClient<W>, count: u64, in_flight_max: u64) -> Tally {
    let start_ns = now_ns();
    let task = Task {
        pace: SendPace::Closed(count),
        start_ns,
        measured_from_ns: start_ns,
        end_ns: u64::MAX - PATIENCE_NS,
        gather_ns: 0,
        in_flight_max: u32::try_from(in_flight_max).expect("count requests"),
        patience_ns: PATIENCE_NS,
    };
    let tally = client.run(&task).expect("use the sockets");
    check(&tally);
    assert_eq!(tally.counts.answered, count, "every request is answered");
    tally
}

/// Measures one server in a closed loop.
pub fn measure<W: Wire>(
    bench: &mut Bench,
    name: &str,
    shape: LoopShape,
    (address, wire): (SocketAddr, impl FnOnce() -> W),
) -> LoopFigures {
    let mut measured = LoopFigures::default();
    let mut client = connect(address, shape.connections, wire());
    let each_iteration = shape.window * ROUNDS;
    let latencies = &mut measured.latencies;
    measured.meter = bench.measure_timed(name, each_iteration, |iterations| {
        let (start, count) = (Instant::now(), iterations * each_iteration);
        let tally = exchange(&mut client, count, shape.window / shape.connections);
        let elapsed = start.elapsed();
        latencies.add(&tally.latencies);
        elapsed
    });
    measured
}

/// Sends at a fixed rate whatever comes back; each request is timed from when it was due, also one that
/// is not answered in time.
pub fn open_loop<W: Wire>(
    address: SocketAddr,
    (rate, connections): (u64, usize),
    wire: W,
) -> Latencies {
    let (rate, warmup, measured) = (Some(rate), Duration::ZERO, OPEN_LOOP_TIME);
    let load = Load { rate, connections, warmup, measured, ..Load::default() };
    let tally = load.carry_out(&[address], wire).expect("load the server");
    check(&tally);
    tally.latencies.clone()
}

fn check(tally: &Tally) {
    let counts = &tally.counts;
    let is_expected = |(code, _): &(String, u64)| EXPECTED.contains(&code.as_str());
    assert_eq!(counts.broken_connections, 0, "no connection breaks");
    assert!(counts.codes.iter().all(is_expected), "not as it should be: {:?}", counts.codes);
}
