//! The stream under a connection: a socket, or TLS over one.

use std::future::Future;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;

use crate::lingering;

/// A connection's stream.
pub trait DoorStream: AsyncRead + AsyncWrite + Unpin + Send {
    /// Whether bytes that were written may wait in the stream until it is flushed.
    const KEEPS_WRITTEN: bool;

    /// The socket below.
    fn socket(&self) -> &TcpStream;

    /// The socket below, after the stream's own goodbye.
    fn into_socket(self) -> impl Future<Output = TcpStream> + Send;
}

impl DoorStream for TcpStream {
    const KEEPS_WRITTEN: bool = false;

    fn socket(&self) -> &TcpStream {
        self
    }

    async fn into_socket(self) -> TcpStream {
        self
    }
}

impl DoorStream for TlsStream<TcpStream> {
    const KEEPS_WRITTEN: bool = true;

    fn socket(&self) -> &TcpStream {
        self.get_ref().0
    }

    async fn into_socket(mut self) -> TcpStream {
        // A failure does not matter: a peer that is gone needs no goodbye.
        drop(timeout(lingering::SILENCE, self.shutdown()).await);
        self.into_inner().0
    }
}
