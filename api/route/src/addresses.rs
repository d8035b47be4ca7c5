//! The addresses of one door of a cell: one, or those of all nodes of its cluster.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long an address may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Addresses as `HOST:PORT`. Where one takes no connection, the next one is tried from then on.
#[derive(Debug)]
pub(crate) struct Addresses {
    all: Vec<String>,
    current: AtomicUsize,
}

impl Addresses {
    pub(crate) const fn new(all: Vec<String>) -> Self {
        Self { all, current: AtomicUsize::new(0) }
    }

    /// Connects to the first one that takes a connection.
    /// Errors: none does.
    pub(crate) async fn connect(&self) -> io::Result<TcpStream> {
        let mut failed = io::Error::from(io::ErrorKind::NotFound);
        for _ in &self.all {
            let current = self.current.load(Ordering::Relaxed);
            let address = &self.all[current % self.all.len()];
            match timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    stream.set_nodelay(true)?;
                    return Ok(stream);
                }
                Ok(Err(error)) => failed = error,
                Err(late) => failed = late.into(),
            }
            self.current.store(current.wrapping_add(1), Ordering::Relaxed);
        }
        Err(failed)
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn the_next_address_is_taken_where_one_is_gone() {
        let mut listeners = Vec::new();
        for _ in 0..3 {
            listeners.push(TcpListener::bind("127.0.0.1:0").await.unwrap());
        }
        let texts = listeners.iter().map(|listener| listener.local_addr().unwrap().to_string());
        let addresses = Addresses::new(texts.collect());
        assert!(Addresses::new(Vec::new()).connect().await.is_err());
        for listener in listeners {
            let address = listener.local_addr().unwrap();
            for _ in 0..2 {
                assert_eq!(addresses.connect().await.unwrap().peer_addr().unwrap(), address);
            }
            drop(listener);
        }
        assert!(addresses.connect().await.is_err());
    }
}
