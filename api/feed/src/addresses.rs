//! The addresses of a switch's ISO 8583 door: a single one, or those of all nodes of a cluster.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::FeedError;

/// Addresses of one door. After one that takes no connection, the next one is tried from then on.
#[derive(Debug, Clone)]
pub struct DoorAddresses {
    all: Vec<SocketAddr>,
    current: Arc<AtomicUsize>,
}

impl DoorAddresses {
    /// The first one, which stands for all in reports.
    pub fn first(&self) -> Option<SocketAddr> {
        self.all.first().copied()
    }

    /// Connects by `open` to the first one that takes a connection.
    /// Errors: none does.
    pub(super) fn connect<C>(
        &self,
        open: impl Fn(SocketAddr) -> io::Result<C>,
    ) -> Result<C, FeedError> {
        let mut failed = FeedError::Refused("an address is needed".to_owned());
        for _ in &self.all {
            let current = self.current.load(Ordering::Relaxed);
            let address = self.all[current % self.all.len()];
            match open(address) {
                Ok(connection) => return Ok(connection),
                Err(source) => failed = FeedError::Connect { address, source },
            }
            self.current.store(current + 1, Ordering::Relaxed);
        }
        Err(failed)
    }
}

impl From<Vec<SocketAddr>> for DoorAddresses {
    fn from(all: Vec<SocketAddr>) -> Self {
        Self { all, current: Arc::default() }
    }
}

impl From<SocketAddr> for DoorAddresses {
    fn from(address: SocketAddr) -> Self {
        vec![address].into()
    }
}

impl fmt::Display for DoorAddresses {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<_> = self.all.iter().map(ToString::to_string).collect();
        formatter.write_str(&texts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_next_address_is_taken_where_one_is_gone() {
        let [gone, first, second] = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let all = [&gone, &first, &second].map(|listener| listener.local_addr().unwrap()).to_vec();
        drop(gone);
        let addresses = DoorAddresses::from(all);
        let connect = || addresses.connect(TcpStream::connect);
        let connections = [(); 2].map(|()| connect().unwrap());
        first.accept().unwrap();
        first.accept().unwrap();
        drop((first, connections));
        connect().unwrap();
        second.accept().unwrap();
        drop(second);
        let error = connect().unwrap_err().to_string();
        assert!(error.starts_with("cannot connect to 127.0.0.1:"), "{error}");
    }
}
