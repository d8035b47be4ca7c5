//! TLS to a database whose certificate the system trusts, where `sslmode` asks for it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use cardswitch_edge::tls_client::{ClientTls, TlsClient, TlsStream as SecureStream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};

/// Makes connections to hosts by their names.
#[derive(Clone, Copy, Debug)]
pub(super) struct SystemTls;

/// Makes one to this host.
pub(super) struct HostConnector(TlsClient);

/// A connection.
pub(super) struct DatabaseStream(SecureStream<Socket>);

impl MakeTlsConnect<Socket> for SystemTls {
    type Stream = DatabaseStream;
    type TlsConnect = HostConnector;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<HostConnector> {
        ClientTls::of_system().towards(host).map(HostConnector).map_err(io::Error::other)
    }
}

impl TlsConnect<Socket> for HostConnector {
    type Stream = DatabaseStream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<DatabaseStream>> + Send>>;

    fn connect(self, stream: Socket) -> Self::Future {
        Box::pin(async move { self.0.agree_patiently(stream).await.map(DatabaseStream) })
    }
}

impl TlsStream for DatabaseStream {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for DatabaseStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        read: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, read)
    }
}

impl AsyncWrite for DatabaseStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        written: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
