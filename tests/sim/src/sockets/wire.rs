//! A simulated stream between an acquirer and the switch. Bytes come late and in pieces of any size, or no more;
//! the acquirer takes few at a time, or none.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use cardswitch_acquiring::connection::PeerStream;

use crate::rng::Rng;

/// Says that a connection was woken.
#[derive(Default)]
pub(super) struct Alarm(AtomicBool);

impl Alarm {
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns whether it rang since it was asked last.
    pub(super) fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// How the acquirer ends a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WireEnd {
    /// It sends no more, and still reads.
    Finished,
    /// It is gone: nothing is read and written any more.
    Reset,
}

/// The stream of one connection, with the acquirer's end of it.
pub(super) struct Wire {
    rng: Rng,
    /// Sent, and not arrived.
    under_way: VecDeque<u8>,
    arrived: VecDeque<u8>,
    end: Option<WireEnd>,
    /// The bytes that the switch's end keeps until it is flushed. Only of streams that do so.
    unflushed: Vec<u8>,
    keeps_written: bool,
    /// Written by the switch, and not read by the acquirer.
    unread: VecDeque<u8>,
    /// So many of these fit.
    room: usize,
    /// The longest piece that is read or written at once.
    piece_max: u64,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Wire {
    pub(super) fn new(mut rng: Rng) -> Self {
        let keeps_written = rng.chance(20);
        let (room, piece_max) = (1 << (4 + rng.below(10)), 1 << rng.below(12));
        Self {
            rng,
            under_way: VecDeque::new(),
            arrived: VecDeque::new(),
            end: None,
            unflushed: Vec::new(),
            keeps_written,
            unread: VecDeque::new(),
            room,
            piece_max,
            reader: None,
            writer: None,
        }
    }

    /// Makes room for all that is written.
    pub(super) fn widen(&mut self) {
        self.room = usize::MAX;
        wake(&mut self.writer);
    }

    pub(super) fn send(&mut self, bytes: &[u8]) {
        self.under_way.extend(bytes);
    }

    /// Lets so many bytes arrive at most. Returns whether any did.
    pub(super) fn arrive(&mut self, count: usize) -> bool {
        let count = count.min(self.under_way.len());
        self.arrived.extend(self.under_way.drain(..count));
        if count > 0 {
            wake(&mut self.reader);
        }
        count > 0
    }

    /// The end comes behind all that was sent; a reset overtakes it.
    pub(super) fn end(&mut self, end: WireEnd) {
        if self.is_reset() {
            return;
        }
        self.end = Some(end);
        wake(&mut self.reader);
        wake(&mut self.writer);
    }

    pub(super) const fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    pub(super) fn is_reset(&self) -> bool {
        self.end == Some(WireEnd::Reset)
    }

    /// Whether the acquirer has left no room for more.
    pub(super) fn is_full(&self) -> bool {
        self.unread.len() + self.unflushed.len() >= self.room
    }

    /// Reads so many bytes at most, as the acquirer.
    pub(super) fn read(&mut self, count: usize) -> Vec<u8> {
        let count = count.min(self.unread.len());
        if count > 0 {
            wake(&mut self.writer);
        }
        self.unread.drain(..count).collect()
    }

    fn piece(&mut self, bytes: usize) -> usize {
        bytes.min(1 + self.rng.below(self.piece_max) as usize)
    }
}

impl PeerStream for Wire {
    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        space: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        if self.is_reset() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if self.arrived.is_empty() {
            if self.end == Some(WireEnd::Finished) && self.under_way.is_empty() {
                return Poll::Ready(Ok(0));
            }
            self.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        let count = self.piece(self.arrived.len().min(space.capacity() - space.len()));
        space.extend(self.arrived.drain(..count));
        Poll::Ready(Ok(count))
    }

    fn poll_write(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.is_reset() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let free = self.room.saturating_sub(self.unread.len() + self.unflushed.len());
        if free == 0 {
            self.writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        let count = self.piece(free.min(bytes.len()));
        match self.keeps_written {
            true => self.unflushed.extend(&bytes[..count]),
            false => self.unread.extend(&bytes[..count]),
        }
        Poll::Ready(Ok(count))
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.unread.extend(self.unflushed.drain(..));
        Poll::Ready(Ok(()))
    }
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}
