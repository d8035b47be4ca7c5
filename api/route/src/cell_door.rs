//! One door of a cell: the way to it, whether it is reached, and counts since the router started.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use cardswitch_engine::domain::cell::Cell;
use cardswitch_engine::meters::{Count, Level, LevelGuard};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

#[cfg(test)]
use crate::addresses::Place;
use crate::addresses::{Addresses, ConnectError, PlacedConnection, ReadWrite};

/// A door of a cell.
#[derive(Debug)]
pub struct CellDoor {
    /// Its cell.
    pub cell: Cell,
    /// The kind of the door.
    pub kind: DoorKind,
    pub(crate) addresses: Addresses,
    standing: Mutex<Standing>,
    /// Connections to it that are open.
    pub connections: Level,
    /// Messages or requests that were sent to it.
    pub forwarded: Count,
    /// Messages or requests that it has answered.
    pub answered: Count,
    /// Messages or requests that the router refused, since the cell took none or had too many.
    pub refused: Count,
    /// Messages or requests that the cell had taken when it was lost.
    pub unanswered: Count,
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
        Self {
            cell,
            kind,
            addresses,
            standing: Mutex::default(),
            connections: Level::default(),
            forwarded: Count::default(),
            answered: Count::default(),
            refused: Count::default(),
            unanswered: Count::default(),
        }
    }

    /// Connects for traffic.
    /// Errors: no address takes a connection.
    pub(crate) async fn connect(&self) -> Result<CellStream, ConnectError> {
        Ok(self.counted(self.addresses.connect().await?))
    }

    pub(crate) fn counted(&self, (stream, place): PlacedConnection) -> CellStream {
        CellStream { stream, place, _level: self.connections.enter() }
    }

    #[cfg(test)]
    pub(crate) fn at(kind: DoorKind, addresses: &[std::net::SocketAddr]) -> std::sync::Arc<Self> {
        let places = addresses
            .iter()
            .map(|address| Place { address: address.to_string(), is_secured: false });
        let addresses = Addresses::new(places.collect(), None).unwrap();
        std::sync::Arc::new(Self::new("01".parse().unwrap(), kind, addresses))
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

    /// Whether it is reached.
    pub fn standing(&self) -> Standing {
        self.standing.lock().clone()
    }
}

/// A connection to a cell, which counts while it is there.
pub(crate) struct CellStream {
    stream: Box<dyn ReadWrite>,
    /// The place of its address.
    pub(crate) place: usize,
    _level: LevelGuard,
}

cardswitch_engine::opaque!(CellStream);

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
