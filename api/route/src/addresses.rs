//! The addresses of one door of a cell: one, or those of all nodes of its cluster.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cardswitch_edge::tls_client::{ClientTls, NoDoorNameError, TlsClient};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long an address may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// How long it may take then until TLS is agreed on.
const AGREE_TIMEOUT: Duration = Duration::from_secs(3);

/// A connection to a cell: a socket, or TLS over one.
pub(crate) trait ReadWrite: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> ReadWrite for S {}

/// An address as a command line has it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// As `HOST:PORT`.
    pub(crate) address: String,
    /// Whether TLS is spoken there.
    pub(crate) is_secured: bool,
}

/// Addresses in turn. After one that takes no connection or does not serve, the next one is tried from then on.
#[derive(Debug)]
pub(crate) struct Addresses {
    all: Vec<(String, Option<TlsClient>)>,
    /// The place of the one that is tried first.
    current: AtomicUsize,
}

/// A connection, and the place of the address that took it.
pub(crate) type PlacedConnection = (Box<dyn ReadWrite>, usize);

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
#[error("{address}: {error}")]
pub(crate) struct ConnectError {
    /// The address that was tried last.
    address: String,
    error: io::Error,
}

impl Addresses {
    /// `tls` is for those places that speak it.
    /// Errors: no certificate can be for one of these.
    pub(crate) fn new(
        places: Vec<Place>,
        tls: Option<&Arc<ClientTls>>,
    ) -> Result<Self, NoDoorNameError> {
        let all = places.into_iter().map(|Place { address, is_secured }| {
            let host = address.rsplit_once(':').map_or(&*address, |(host, _)| host);
            let tls = tls.filter(|_| is_secured).map(|tls| tls.towards(host)).transpose()?;
            Ok((address, tls))
        });
        Ok(Self { all: all.collect::<Result<_, _>>()?, current: AtomicUsize::new(0) })
    }

    /// Connects to the first one that takes a connection.
    /// Errors: none does.
    pub(crate) async fn connect(&self) -> Result<PlacedConnection, ConnectError> {
        let mut failed = None;
        for _ in &self.all {
            let current = self.current();
            let (address, tls) = &self.all[current];
            match connect(address, tls.as_ref()).await {
                Ok(stream) => return Ok((stream, current)),
                Err(error) => failed = Some(ConnectError { address: address.clone(), error }),
            }
            self.leave(current);
        }
        // INVARIANT: a door has an address.
        Err(failed.expect("an address was tried"))
    }

    /// The place of the address that is tried first.
    pub(crate) fn current(&self) -> usize {
        self.current.load(Ordering::Relaxed)
    }

    /// The number of addresses.
    pub(crate) const fn len(&self) -> usize {
        self.all.len()
    }

    /// Goes on to the next address, unless another connection has done so.
    pub(crate) fn leave(&self, place: usize) {
        let next = (place + 1) % self.all.len();
        // Failing, it has been left already.
        let _ = self.current.compare_exchange(place, next, Ordering::Relaxed, Ordering::Relaxed);
    }
}

async fn connect(address: &str, tls: Option<&TlsClient>) -> io::Result<Box<dyn ReadWrite>> {
    let stream = timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await??;
    stream.set_nodelay(true)?;
    Ok(match tls {
        None => Box::new(stream),
        Some(tls) => Box::new(timeout(AGREE_TIMEOUT, tls.agree(stream)).await??),
    })
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn an_address_is_left_once_however_many_connections_it_ended() {
        let places =
            ["a:1", "b:1"].map(|address| Place { address: address.to_owned(), is_secured: false });
        let addresses = Addresses::new(places.into(), None).unwrap();
        for (left, current) in [(0, 1), (0, 1), (1, 0)] {
            addresses.leave(left);
            assert_eq!(addresses.current(), current);
        }
    }

    #[tokio::test]
    async fn the_next_address_is_taken_where_one_is_gone() {
        let mut listeners = Vec::new();
        for _ in 0..3 {
            listeners.push(TcpListener::bind("127.0.0.1:0").await.unwrap());
        }
        let places = listeners.iter().map(|listener| {
            let address = listener.local_addr().unwrap().to_string();
            Place { address, is_secured: false }
        });
        let addresses = Addresses::new(places.collect(), None).unwrap();
        for listener in listeners {
            for _ in 0..2 {
                let (connected, accepted) = tokio::join!(addresses.connect(), listener.accept());
                assert!(connected.is_ok() && accepted.is_ok());
            }
            drop(listener);
        }
        assert!(addresses.connect().await.is_err());
    }
}
