//! One door of a cell: the way to it, whether it is reached, and counts since the router started.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use cardswitch_engine::domain::cell::Cell;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

#[cfg(test)]
use crate::addresses::Place;
use crate::addresses::{Addresses, ConnectError, PlacedConnection, ReadWrite};

/// A door of a cell.
#[derive(Debug)]
pub(crate) struct CellDoor {
    pub(crate) cell: Cell,
    pub(crate) kind: DoorKind,
    pub(crate) addresses: Addresses,
    pub(crate) meters: Arc<DoorMeters>,
    standing: Mutex<Standing>,
}

/// The kind of a cell's door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoorKind {
    /// Of requests.
    Http,
    /// Of messages.
    Iso8583,
}

/// Whether a door is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// Nobody has tried.
    #[default]
    Unknown,
    /// It takes connections.
    Reached,
    /// It takes none, for this reason.
    Unreached(String),
}

/// Counts of messages or requests.
#[derive(Debug, Default)]
pub(crate) struct DoorMeters {
    connections: AtomicU64,
    forwarded: AtomicU64,
    answered: AtomicU64,
    refused: AtomicU64,
    unanswered: AtomicU64,
}

/// A door of a cell at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellDoorSnapshot {
    /// Its cell.
    pub cell: Cell,
    /// The kind of the door.
    pub kind: DoorKind,
    /// Whether it is reached.
    pub standing: Standing,
    /// Connections to it that are open.
    pub connections: u64,
    /// Messages or requests that were sent to it.
    pub forwarded: u64,
    /// Messages or requests that it has answered.
    pub answered: u64,
    /// Messages or requests that the router refused, since the cell took none or had too many.
    pub refused: u64,
    /// Messages or requests that the cell had taken when it was lost.
    pub unanswered: u64,
}

impl DoorKind {
    /// Its name in figures and logs.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Iso8583 => "iso8583",
        }
    }
}

impl CellDoor {
    pub(crate) fn new(cell: Cell, kind: DoorKind, addresses: Addresses) -> Self {
        Self { cell, kind, addresses, meters: Arc::default(), standing: Mutex::default() }
    }

    /// Connects for traffic.
    /// Errors: no address takes a connection.
    pub(crate) async fn connect(&self) -> Result<CellStream, ConnectError> {
        Ok(self.counted(self.addresses.connect().await?))
    }

    pub(crate) fn counted(&self, (stream, place): PlacedConnection) -> CellStream {
        let meters = Arc::clone(&self.meters);
        meters.connections.fetch_add(1, Ordering::Relaxed);
        CellStream { stream, place, meters }
    }

    /// The door of a cell at these addresses.
    #[cfg(test)]
    pub(crate) fn at(kind: DoorKind, addresses: &[std::net::SocketAddr]) -> Arc<Self> {
        let places = addresses
            .iter()
            .map(|address| Place { address: address.to_string(), is_secured: false });
        let addresses = Addresses::new(places.collect(), None).unwrap();
        Arc::new(Self::new("01".parse().unwrap(), kind, addresses))
    }

    /// Notes whether it is reached, and logs a change.
    pub(crate) fn note(&self, standing: Standing) {
        let mut before = self.standing.lock();
        if *before == standing {
            return;
        }
        let (cell, door) = (self.cell, self.kind.word());
        match &standing {
            Standing::Unreached(reason) => {
                tracing::warn!(%cell, door, reason, "the cell cannot be reached");
            }
            _ => tracing::info!(%cell, door, "the cell is reached"),
        }
        *before = standing;
    }

    pub(crate) fn now(&self) -> CellDoorSnapshot {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let DoorMeters { connections, forwarded, answered, refused, unanswered } = &*self.meters;
        CellDoorSnapshot {
            cell: self.cell,
            kind: self.kind,
            standing: self.standing.lock().clone(),
            connections: read(connections),
            forwarded: read(forwarded),
            answered: read(answered),
            refused: read(refused),
            unanswered: read(unanswered),
        }
    }
}

impl DoorMeters {
    pub(crate) fn note_forwarded(&self, messages: u64) {
        self.forwarded.fetch_add(messages, Ordering::Relaxed);
    }

    pub(crate) fn note_answered(&self) {
        self.answered.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn note_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn note_unanswered(&self) {
        self.unanswered.fetch_add(1, Ordering::Relaxed);
    }
}

/// A connection to a cell, which counts while it is there.
pub(crate) struct CellStream {
    stream: Box<dyn ReadWrite>,
    /// The place of its address.
    pub(crate) place: usize,
    meters: Arc<DoorMeters>,
}

cardswitch_engine::opaque!(CellStream);

impl Drop for CellStream {
    fn drop(&mut self) {
        self.meters.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl AsyncRead for CellStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for CellStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
