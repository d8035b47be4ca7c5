//! Keeps so many requests in flight over some connections: one goes when an answer has come.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::connection::{Client, Connection, NUMBERS};
use crate::Must;
use crate::meter::{Bench, Latencies, LoopFigures};

/// Requests of one connection whose time of sending is known. Numbers come round at a multiple.
const REMEMBERED: usize = 10_000;
const _: () = assert!(NUMBERS.is_multiple_of(REMEMBERED as u64));
/// Requests at each iteration, for each place in the window.
const ROUNDS: u64 = 16;

/// Some connections of one thread, which serves them in turn.
#[derive(Debug)]
pub struct ClosedLoop<C> {
    lanes: Vec<Lane<C>>,
}

#[derive(Debug)]
struct Lane<C> {
    connection: Connection<C>,
    sent_at: Vec<Instant>,
    in_flight: u64,
}

impl<C: Client> ClosedLoop<C> {
    /// Opens the connections; `client` is told which it is for.
    #[must_use]
    pub fn open(address: SocketAddr, connections: u64, client: impl Fn(u64) -> C) -> Self {
        let lanes = (0..connections).map(|place| Lane {
            connection: Connection::open(address, client(place)),
            sent_at: vec![Instant::now(); REMEMBERED],
            in_flight: 0,
        });
        Self { lanes: lanes.collect() }
    }

    /// Sends `count` requests, at most `window` of them unanswered at a time on all connections
    /// together, and waits for their answers.
    pub fn exchange(&mut self, window: u64, count: u64, latencies: &mut Latencies) -> Duration {
        let start = Instant::now();
        let share = window / self.lanes.len() as u64;
        assert!(share > 0, "each connection has something to do");
        let mut to_send = count;
        let mut in_flight = 0;
        while to_send > 0 || in_flight > 0 {
            for lane in &mut self.lanes {
                if lane.in_flight > 0 {
                    in_flight -= lane.receive(latencies);
                }
                let sent = (share - lane.in_flight).min(to_send);
                lane.send(sent);
                to_send -= sent;
                in_flight += sent;
            }
        }
        start.elapsed()
    }
}

impl<C: Client> Lane<C> {
    fn send(&mut self, count: u64) {
        let now = Instant::now();
        for _ in 0..count {
            self.sent_at[place_of(self.connection.sent())] = now;
            self.connection.push();
        }
        self.connection.flush();
        self.in_flight += count;
    }

    fn receive(&mut self, latencies: &mut Latencies) -> u64 {
        let mut now = None;
        let sent_at = &self.sent_at;
        let received = self.connection.receive(|number| {
            let now = *now.get_or_insert_with(Instant::now);
            latencies.note(now.saturating_duration_since(sent_at[place_of(number)]));
        });
        self.in_flight -= received;
        received
    }
}

fn place_of(number: u64) -> usize {
    usize::try_from(number % REMEMBERED as u64).must("find the place of a request")
}

/// Measures one server with so many requests in flight over these connections.
pub fn measure<C: Client>(
    bench: &mut Bench,
    name: &str,
    window: u64,
    open: impl FnOnce() -> ClosedLoop<C>,
) -> LoopFigures {
    let mut measured = LoopFigures::default();
    if !bench.wants(name) {
        return measured;
    }
    let mut clients = open();
    let each_iteration = window * ROUNDS;
    let latencies = &mut measured.latencies;
    measured.meter = bench.measure_timed(name, each_iteration, |iterations| {
        clients.exchange(window, iterations * each_iteration, latencies)
    });
    measured
}
