//! A load on a door, carried out by one client on the caller's thread.

use std::net::SocketAddr;
use std::time::Duration;

use crate::BoxError;
use crate::client::{LoadClient, SendPace, Task};
use crate::clock::now_ns;
use crate::schedule::Schedule;
use crate::tally::Tally;
use crate::wire::Wire;

/// From "connected" to the first message. Units: nanoseconds.
const START_DELAY_NS: u64 = 50_000_000;

/// The pace of a load, and how long it lasts.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Requests a second, whatever comes back; without a rate each goes when an answer has come.
    pub rate: Option<u64>,
    /// Connections, all of one client.
    pub connections: usize,
    /// Requests without an answer that one connection may have.
    pub in_flight_max: u32,
    /// The time before anything is counted.
    pub warmup: Duration,
    /// The time that is counted.
    pub measured: Duration,
    /// The least time between two rounds of sending: requests that become due meanwhile go together.
    pub gather: Duration,
    /// The longest wait for answers after the last request.
    pub patience: Duration,
}

impl Default for Load {
    fn default() -> Self {
        Self {
            rate: None,
            connections: 4,
            in_flight_max: u32::MAX,
            warmup: Duration::from_millis(500),
            measured: Duration::from_secs(10),
            gather: Duration::from_micros(50),
            patience: Duration::from_secs(5),
        }
    }
}

impl Load {
    /// Puts it on the first of these addresses. If there are several, broken connections are
    /// opened again at the next one.
    /// Errors: nobody is there.
    pub fn carry_out<W: Wire>(&self, addresses: &[SocketAddr], wire: W) -> Result<Tally, BoxError> {
        let first = *addresses.first().ok_or("a load needs an address")?;
        let mut client = LoadClient::connect(first, self.connections, wire)?;
        if addresses.len() > 1 {
            client = client.reconnecting(addresses);
        }
        Ok(client.run(&self.task(now_ns() + START_DELAY_NS))?)
    }

    fn task(&self, start_ns: u64) -> Task {
        let duration_ns = nanoseconds(self.warmup + self.measured);
        let schedule = |rate| Schedule { start_ns, rate, duration_ns };
        Task {
            pace: self.rate.map_or(SendPace::ENDLESS, |rate| SendPace::Open(schedule(rate))),
            start_ns,
            measured_from_ns: start_ns + nanoseconds(self.warmup),
            end_ns: start_ns + duration_ns,
            gather_ns: nanoseconds(self.gather),
            in_flight_max: self.in_flight_max,
            patience_ns: nanoseconds(self.patience),
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
