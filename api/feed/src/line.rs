//! The line to an ISO 8583 door: its addresses, the spelling of its messages, and their security on
//! the way.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use cardswitch_iso8583::Dialect;

use super::FeedError;
use super::addresses::DoorAddresses;

/// The longest time of a connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// A line to a door.
#[derive(Clone, Debug)]
pub struct Line {
    /// The addresses of the door.
    pub door: DoorAddresses,
    /// The spelling of messages; with a carrier, that towards the carrier.
    pub dialect: Dialect,
    /// The carrier between messages and the door, if any.
    pub carrier: Option<Arc<dyn Carrier>>,
}

/// The security of a line: TLS, codes that authenticate messages.
pub trait Carrier: fmt::Debug + Send + Sync {
    /// Carries bytes written to the returned stream on to the door at the end of `to`, secured; the
    /// door's bytes come from it.
    /// Errors: no agreement with the door.
    fn carry(&self, to: TcpStream) -> io::Result<UnixStream>;
}

impl Line {
    /// A line to a door of the default dialect, without a carrier.
    pub fn to(door: impl Into<DoorAddresses>) -> Self {
        Self { door: door.into(), dialect: Dialect::default(), carrier: None }
    }

    /// A new connection.
    /// Errors: those of the socket and of the carrier, at the last address.
    pub(super) fn open(&self) -> Result<LineStream, FeedError> {
        self.door.connect(|address| self.open_at(address))
    }

    fn open_at(&self, address: SocketAddr) -> io::Result<LineStream> {
        let stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)?;
        stream.set_nodelay(true)?;
        match &self.carrier {
            None => Ok(LineStream::Plain(stream)),
            Some(carrier) => carrier.carry(stream).map(LineStream::Carried),
        }
    }
}

/// A connection of a line.
#[derive(Debug)]
pub(super) enum LineStream {
    Plain(TcpStream),
    Carried(UnixStream),
}

/// Both kinds have the same methods, and no trait in common.
macro_rules! either {
    ($stream:expr, $own:ident => $call:expr) => {
        match $stream {
            LineStream::Plain($own) => $call,
            LineStream::Carried($own) => $call,
        }
    };
}

impl LineStream {
    /// A second handle on the same connection.
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Plain(stream) => stream.try_clone().map(Self::Plain),
            Self::Carried(stream) => stream.try_clone().map(Self::Carried),
        }
    }

    pub(super) fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        either!(self, stream => stream.set_read_timeout(timeout))
    }

    pub(super) fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        either!(self, stream => stream.set_write_timeout(timeout))
    }

    /// Ends the connection for all its handles.
    pub(super) fn shutdown(&self) -> io::Result<()> {
        either!(self, stream => stream.shutdown(Shutdown::Both))
    }
}

impl Read for LineStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        either!(self, stream => stream.read(buffer))
    }
}

impl Write for LineStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        either!(self, stream => stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        either!(self, stream => stream.flush())
    }
}
