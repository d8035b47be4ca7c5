//! Sends at a fixed rate whatever comes back, and times each request from when it was due to go: a
//! request behind a stall is counted as waiting.

use std::net::SocketAddr;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::connection::{Client, Connection, NUMBERS};
use crate::Must;
use crate::meter::Latencies;

/// Sends `rate_per_s` requests a second for a while, over these connections in turn.
#[must_use]
pub fn open_loop<C: Client + 'static>(
    address: SocketAddr,
    connections: u64,
    rate_per_s: u32,
    duration: Duration,
    client: impl Fn(u64) -> C,
) -> Latencies {
    let each = Schedule {
        start: Instant::now() + Duration::from_millis(50),
        rate_per_s,
        connections,
        count: u64::from(rate_per_s) * duration.as_secs() / connections,
    };
    assert!(each.count < NUMBERS, "each request of a connection has a number of its own");
    let opened: Vec<_> = (0..connections)
        .map(|place| {
            let sender = Connection::open(address, client(place));
            let receiver = sender.reading_half(client(place));
            (sender, each.receive_on(place, receiver))
        })
        .collect();
    let (mut senders, receivers): (Vec<_>, Vec<_>) = opened.into_iter().unzip();
    each.send_over(&mut senders);
    let mut all = Latencies::default();
    for receiver in receivers {
        all.add(&receiver.join().must("read to the end"));
    }
    all
}

#[derive(Clone, Copy)]
struct Schedule {
    start: Instant,
    rate_per_s: u32,
    connections: u64,
    /// Requests of each connection.
    count: u64,
}

impl Schedule {
    /// When request `number` of a connection is due: connections take turns.
    fn due(&self, place: u64, number: u64) -> Instant {
        let nth = number * self.connections + place;
        let nanoseconds = u128::from(nth) * 1_000_000_000 / u128::from(self.rate_per_s);
        self.start + Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }

    fn send_over<C: Client>(&self, senders: &mut [Connection<C>]) {
        let mut is_done = false;
        while !is_done {
            let now = Instant::now();
            let mut next_due = None;
            for (place, sender) in (0..).zip(&mut *senders) {
                while sender.sent() < self.count && self.due(place, sender.sent()) <= now {
                    sender.push();
                }
                sender.flush();
                let next = (sender.sent() < self.count).then(|| self.due(place, sender.sent()));
                next_due = [next_due, next].into_iter().flatten().min();
            }
            is_done = next_due.is_none();
            if let Some(due) = next_due {
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
            }
        }
    }

    fn receive_on<C: Client + 'static>(
        self,
        place: u64,
        mut receiver: Connection<C>,
    ) -> JoinHandle<Latencies> {
        std::thread::spawn(move || {
            let mut latencies = Latencies::default();
            let mut received = 0;
            while received < self.count {
                let mut now = None;
                received += receiver.receive(|number| {
                    let now = *now.get_or_insert_with(Instant::now);
                    latencies.note(now.saturating_duration_since(self.due(place, number)));
                });
            }
            latencies
        })
    }
}
