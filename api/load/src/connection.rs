//! A connection of a client: its socket, the bytes to be sent, and the bytes of half an answer.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::slots::Slots;
use crate::tally::Tally;
use crate::wire::WireAnswer;

/// The longest time of a connection attempt.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest time under load, where everything else waits meanwhile.
pub(crate) const RECONNECT_TIMEOUT: Duration = Duration::from_millis(100);
/// Bytes that are gathered for one connection before they are sent.
const OUT_BYTES_MAX: usize = 128 * 1_024;

/// A connection, used by one client.
#[derive(Debug)]
pub(crate) struct LoadConnection {
    pub(crate) stream: TcpStream,
    pub(crate) out: Vec<u8>,
    /// The start of an answer whose rest has not come.
    pub(crate) rest: Vec<u8>,
    pub(crate) in_flight: u32,
    /// Slots of requests in their order, if answers come in it.
    pub(crate) order: VecDeque<u32>,
    pub(crate) condition: Condition,
}

/// Whether a connection can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    Open,
    /// The switch takes no more for now.
    Full,
    Broken,
}

impl LoadConnection {
    /// Connects.
    /// Errors: those of the socket.
    pub(crate) fn open(address: SocketAddr, timeout: Duration) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, timeout)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            out: Vec::new(),
            rest: Vec::new(),
            in_flight: 0,
            order: VecDeque::new(),
            condition: Condition::Open,
        })
    }

    /// The number of messages that may be appended.
    pub(crate) fn room(&self, in_flight_max: u32) -> u64 {
        if self.condition != Condition::Open || self.out.len() >= OUT_BYTES_MAX {
            return 0;
        }
        in_flight_max.saturating_sub(self.in_flight).into()
    }

    /// Finds the message of an answer and notes how long it took since it was meant to be sent.
    /// Units: nanoseconds of the monotonic clock.
    pub(crate) fn take_answer(
        &mut self,
        answer: WireAnswer,
        slots: &mut Slots,
        tally: &mut Tally,
        (measured_from_ns, now): (u64, u64),
    ) {
        let slot = answer.slot.or_else(|| self.order.pop_front());
        let Some(intended_ns) = slot.and_then(|slot| slots.close(slot)) else {
            tally.counts.unmatched += 1;
            return;
        };
        self.in_flight = self.in_flight.saturating_sub(1);
        if intended_ns >= measured_from_ns {
            tally.note_answer(answer.code, now.saturating_sub(intended_ns));
            tally.counts.elapsed_ns = now - measured_from_ns;
        }
    }
}

/// Whether the socket only had nothing, or no room, at this moment.
pub(crate) fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
