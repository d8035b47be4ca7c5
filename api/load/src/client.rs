//! A client: one thread that keeps many connections busy. Everything that is due goes out in few
//! writes, everything that has come is read at once, and it sleeps in between.
//!
//! The client shares its processors with the switch, so it may not cost much: no locks, no
//! allocation for a message, one look at the clock for a batch. Latency is taken from the instant
//! a message was *meant* to be sent, so a switch that stalls cannot make the client wait politely
//! and measure nothing (coordinated omission).

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};

use crate::clock::{SECOND_NS, now_ns, thread_cpu_ns, unix_ns};
use crate::connection::{
    CONNECT_TIMEOUT, Condition, LoadConnection, RECONNECT_TIMEOUT, is_passing,
};
use crate::schedule::Schedule;
use crate::slots::Slots;
use crate::tally::Tally;
use crate::wire::Wire;

/// Messages that go to one connection before the next one has its turn.
const TURN_LEN_MAX: u64 = 8;
/// Bytes asked of a connection at a time.
const READ_BYTES: usize = 256 * 1_024;
/// Connections that are looked at in one wake-up.
const EVENTS_MAX: usize = 256;
/// The time after the end in which messages due before it are still sent. Units: nanoseconds.
const SENDING_GRACE_NS: u64 = SECOND_NS;
/// The time between two tries to open a broken connection again. Units: nanoseconds.
const RECONNECT_PAUSE_NS: u64 = SECOND_NS / 100;

/// The pace of messages.
#[derive(Debug, Clone, Copy)]
pub enum SendPace {
    /// At their instants, answered or not.
    Open(Schedule),
    /// Each as soon as the answer to an earlier one makes room, so many in all.
    Closed(u64),
}

impl SendPace {
    /// A closed loop that only time ends.
    pub const ENDLESS: Self = Self::Closed(u64::MAX);
}

/// The task of a client.
#[derive(Debug, Clone, Copy)]
pub struct Task {
    /// The pace of its messages.
    pub pace: SendPace,
    /// Units, here and below: nanoseconds of the monotonic clock.
    pub start_ns: u64,
    /// Messages meant for before this are sent, but not counted.
    pub measured_from_ns: u64,
    /// Nothing is meant for later.
    pub end_ns: u64,
    /// The least time between two rounds of sending. Messages that become due in between go
    /// together.
    pub gather_ns: u64,
    /// Messages without an answer that one connection may have.
    pub in_flight_max: u32,
    /// The longest wait for answers after the last message. Units: nanoseconds.
    pub patience_ns: u64,
}

/// A client with its connections.
#[derive(Debug)]
pub struct LoadClient<W> {
    /// The protocol's side of the client.
    pub wire: W,
    connections: Vec<LoadConnection>,
    poll: OwnedFd,
    slots: Slots,
    tally: Tally,
    /// Messages sent so far.
    sent: u64,
    /// The earliest instant of the next round of sending. Units: nanoseconds of the monotonic
    /// clock.
    next_round_ns: u64,
    /// The connection whose turn it is.
    turn: usize,
    /// Connections that have bytes to send.
    touched: Vec<usize>,
    /// The buffer that bytes are read to.
    incoming: Vec<u8>,
    /// The addresses at which broken connections are opened again, the next one first; empty where
    /// they are not.
    again: VecDeque<SocketAddr>,
    /// The instant of the next try. Units: nanoseconds of the monotonic clock.
    again_ns: u64,
}

impl Task {
    /// The instant from which on nothing is sent any more.
    fn last_call_ns(&self) -> u64 {
        match self.pace {
            SendPace::Open(_) => self.end_ns + SENDING_GRACE_NS,
            SendPace::Closed(_) => self.end_ns,
        }
    }

    /// The number of messages in all.
    fn total(&self) -> u64 {
        match self.pace {
            SendPace::Open(schedule) => schedule.total(),
            SendPace::Closed(count) => count,
        }
    }

    /// The instant from which on no answer is waited for.
    fn give_up_ns(&self) -> u64 {
        self.last_call_ns() + self.patience_ns
    }
}

impl<W: Wire> LoadClient<W> {
    /// Connects so many times.
    /// Errors: those of the sockets.
    pub fn connect(address: SocketAddr, connections: usize, wire: W) -> io::Result<Self> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let connections = (0..connections)
            .map(|at| {
                let connection = LoadConnection::open(address, CONNECT_TIMEOUT)?;
                epoll::add(&poll, &connection.stream, mark(at), epoll::EventFlags::IN)?;
                Ok(connection)
            })
            .collect::<io::Result<Vec<_>>>()?;
        Ok(Self {
            wire,
            connections,
            poll,
            slots: Slots::new(),
            tally: Tally::default(),
            sent: 0,
            next_round_ns: 0,
            turn: 0,
            touched: Vec::new(),
            incoming: vec![0; READ_BYTES],
            again: VecDeque::new(),
            again_ns: 0,
        })
    }

    /// The same client, which opens broken connections again at these addresses, one after the other.
    #[must_use]
    pub fn reconnecting(self, addresses: &[SocketAddr]) -> Self {
        Self { again: addresses.iter().copied().collect(), ..self }
    }

    /// Sends and receives until the end, and returns the results.
    /// Errors: those of the system; broken connections are counted instead.
    pub fn run(&mut self, task: &Task) -> io::Result<Tally> {
        // Timers of a thread are late by fifty microseconds unless it asks for better.
        rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
        thread::sleep(Duration::from_nanos(task.start_ns.saturating_sub(now_ns())));
        let cpu_before = thread_cpu_ns();
        (self.sent, self.next_round_ns) = (0, 0);
        let mut events = Vec::with_capacity(EVENTS_MAX);
        loop {
            let now = now_ns();
            let wake_at = self.send_round(task, now)?;
            if self.is_over(task, now) {
                self.tally.counts.cpu_ns = thread_cpu_ns() - cpu_before;
                return Ok(self.finish(task));
            }
            let wake_at = wake_at.min(self.reconnect(now)?);
            self.receive_until(task, wake_at, &mut events)?;
        }
    }

    /// Sends what may go now. Returns when to look again at the latest.
    fn send_round(&mut self, task: &Task, now: u64) -> io::Result<u64> {
        if now >= task.last_call_ns() {
            return Ok(task.give_up_ns());
        }
        let SendPace::Open(schedule) = task.pace else {
            self.send(task, task.total() - self.sent, now)?;
            return Ok(task.last_call_ns());
        };
        if self.sent == schedule.total() {
            return Ok(task.give_up_ns());
        }
        if now < self.next_round_ns {
            return Ok(self.next_round_ns);
        }
        let due = schedule.due(now) - self.sent;
        let sent = self.send(task, due, now)?;
        if sent > 0 {
            self.next_round_ns = now + task.gather_ns;
        }
        if sent < due && !self.has_room(task) {
            // An answer, or a socket that takes more, wakes the client before.
            return Ok(task.last_call_ns());
        }
        Ok(schedule.intended_ns(self.sent).max(self.next_round_ns))
    }

    /// Whether there is nothing to be waited for any more.
    fn is_over(&self, task: &Task, now: u64) -> bool {
        let all_sent = now >= task.last_call_ns() || self.sent == task.total();
        let is_open = |one: &LoadConnection| one.condition != Condition::Broken;
        let is_alive = !self.again.is_empty() || self.connections.iter().any(is_open);
        now >= task.give_up_ns() || !is_alive || (all_sent && self.slots.waiting == 0)
    }

    fn has_room(&self, task: &Task) -> bool {
        self.connections.iter().any(|connection| connection.room(task.in_flight_max) > 0)
    }

    /// Sends up to so many messages, a few to each connection in turn. Returns how many had room.
    fn send(&mut self, task: &Task, count: u64, now: u64) -> io::Result<u64> {
        if count == 0 {
            return Ok(0);
        }
        self.wire.set_time(unix_ns());
        let (sent_before, mut full_in_a_row) = (self.sent, 0);
        while self.sent - sent_before < count && full_in_a_row < self.connections.len() {
            let left = count - (self.sent - sent_before);
            let room =
                self.connections[self.turn].room(task.in_flight_max).min(left).min(TURN_LEN_MAX);
            full_in_a_row = if room == 0 { full_in_a_row + 1 } else { 0 };
            if !self.write_requests(task, room, now) {
                break;
            }
            self.turn = (self.turn + 1) % self.connections.len();
        }
        while let Some(at) = self.touched.pop() {
            self.flush(at)?;
        }
        Ok(self.sent - sent_before)
    }

    /// Appends requests to the connection whose turn it is. Returns false where no slot is free.
    fn write_requests(&mut self, task: &Task, count: u64, now: u64) -> bool {
        let connection = &mut self.connections[self.turn];
        if count > 0 && connection.out.is_empty() {
            self.touched.push(self.turn);
        }
        for _ in 0..count {
            let intended_ns = match task.pace {
                SendPace::Open(schedule) => schedule.intended_ns(self.sent),
                SendPace::Closed(_) => now,
            };
            let Some(slot) = self.slots.open(intended_ns) else { return false };
            self.wire.write(&mut connection.out, slot);
            if W::IN_ORDER {
                connection.order.push_back(slot);
            }
            connection.in_flight += 1;
            self.sent += 1;
        }
        true
    }

    /// Sends what is gathered for a connection, as far as it is taken.
    fn flush(&mut self, at: usize) -> io::Result<()> {
        let Self { connections, poll, tally, .. } = self;
        let connection = &mut connections[at];
        if connection.out.is_empty() || connection.condition == Condition::Broken {
            return Ok(());
        }
        tally.counts.writes += 1;
        let taken = match connection.stream.write(&connection.out) {
            Ok(taken) => taken,
            Err(error) if is_passing(&error) => 0,
            Err(_) => return self.break_off(at),
        };
        connection.out.drain(..taken);
        let is_full = !connection.out.is_empty();
        if is_full != (connection.condition == Condition::Full) {
            connection.condition = if is_full { Condition::Full } else { Condition::Open };
            let interest =
                if is_full { epoll::EventFlags::OUT } else { epoll::EventFlags::empty() };
            let interest = interest | epoll::EventFlags::IN;
            epoll::modify(&*poll, &connection.stream, mark(at), interest)?;
        }
        Ok(())
    }

    /// Waits for what comes, at most until then, and receives it.
    fn receive_until(
        &mut self,
        task: &Task,
        wake_at_ns: u64,
        events: &mut Vec<epoll::Event>,
    ) -> io::Result<()> {
        let patience = timespec(wake_at_ns.saturating_sub(now_ns()));
        match epoll::wait(&self.poll, spare_capacity(events), Some(&patience)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in events.drain(..) {
            let at = usize::try_from(event.data.u64()).unwrap_or(usize::MAX);
            let flags = event.flags;
            if flags.contains(epoll::EventFlags::OUT) {
                self.flush(at)?;
            }
            if flags.intersects(!epoll::EventFlags::OUT) {
                self.receive(task, at)?;
            }
        }
        Ok(())
    }

    /// Reads once from a connection, and takes all answers that are there.
    fn receive(&mut self, task: &Task, at: usize) -> io::Result<()> {
        let Self { wire, connections, slots, tally, incoming, .. } = self;
        let connection = &mut connections[at];
        if connection.condition == Condition::Broken {
            return Ok(());
        }
        let kept = connection.rest.len();
        tally.counts.reads += 1;
        let came = match connection.stream.read(&mut incoming[kept..]) {
            Ok(0) => return self.break_off(at),
            Ok(came) => came,
            Err(error) if is_passing(&error) => return Ok(()),
            Err(_) => return self.break_off(at),
        };
        incoming[..kept].copy_from_slice(&connection.rest);
        let now = now_ns();
        let mut unread = &incoming[..kept + came];
        loop {
            match wire.read(unread) {
                Ok(Some(answer)) => {
                    unread = &unread[answer.bytes..];
                    connection.take_answer(answer, slots, tally, (task.measured_from_ns, now));
                }
                Ok(None) if unread.len() < READ_BYTES => break,
                _ => return self.break_off(at),
            }
        }
        connection.rest.clear();
        connection.rest.extend_from_slice(unread);
        Ok(())
    }

    /// Opens broken connections again. Returns when to try the next time.
    fn reconnect(&mut self, now: u64) -> io::Result<u64> {
        let is_broken = |one: &LoadConnection| one.condition == Condition::Broken;
        let Some(at) = self.connections.iter().position(is_broken) else { return Ok(u64::MAX) };
        let Some(&address) = self.again.front() else { return Ok(u64::MAX) };
        if now < self.again_ns {
            return Ok(self.again_ns);
        }
        self.again_ns = now + RECONNECT_PAUSE_NS;
        match LoadConnection::open(address, RECONNECT_TIMEOUT) {
            Ok(connection) => {
                epoll::add(&self.poll, &connection.stream, mark(at), epoll::EventFlags::IN)?;
                self.connections[at] = connection;
            }
            Err(_) => self.again.rotate_left(1),
        }
        Ok(self.again_ns)
    }

    /// Gives a connection up: requests in flight on it stay unanswered.
    fn break_off(&mut self, at: usize) -> io::Result<()> {
        let connection = &mut self.connections[at];
        connection.condition = Condition::Broken;
        self.tally.counts.broken_connections += 1;
        Ok(epoll::delete(&self.poll, &connection.stream)?)
    }

    /// Notes what was never answered or sent, with the time it has waited.
    fn finish(&mut self, task: &Task) -> Tally {
        let now = now_ns();
        let mut tally = std::mem::take(&mut self.tally);
        let is_measured = |intended_ns: &u64| *intended_ns >= task.measured_from_ns;
        for intended_ns in self.slots.waiting_since().filter(is_measured) {
            tally.note_unanswered(now.saturating_sub(intended_ns));
        }
        if let SendPace::Open(schedule) = task.pace {
            // With all connections broken the run ends early, and no message has waited less for that.
            let last_call = now.max(task.last_call_ns());
            let unsent = (self.sent..schedule.total()).map(|number| schedule.intended_ns(number));
            for intended_ns in unsent.filter(is_measured) {
                tally.note_unsent(last_call.saturating_sub(intended_ns));
            }
        }
        tally.counts.messages = self.sent;
        tally.finish()
    }
}

/// The mark of a connection in events.
fn mark(at: usize) -> epoll::EventData {
    epoll::EventData::new_u64(at as u64)
}

fn timespec(ns: u64) -> Timespec {
    let part = |value: u64| i64::try_from(value).unwrap_or(0);
    Timespec { tv_sec: part(ns / SECOND_NS), tv_nsec: part(ns % SECOND_NS) }
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
