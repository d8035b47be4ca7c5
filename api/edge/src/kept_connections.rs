//! Connections to other servers that are kept for the next request: HTTP/1.1, one request at a time on each.

use std::io;

use hyper::body::Body;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};

/// The connections that rest, each with the place that it leads to.
#[derive(Debug)]
pub struct KeptConnections<K, B>(Mutex<Vec<KeptConnection<K, B>>>);

/// A connection.
#[derive(Debug)]
pub struct KeptConnection<K, B> {
    place: K,
    /// Sends requests on it.
    pub sender: SendRequest<B>,
}

impl<K, B> Default for KeptConnections<K, B> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: PartialEq, B> KeptConnections<K, B> {
    /// A resting connection to `place`. Closed connections are forgotten, and so are connections to
    /// places that `is_left` names.
    pub fn take(&self, place: &K, is_left: impl Fn(&K) -> bool) -> Option<KeptConnection<K, B>> {
        let mut kept = self.0.lock();
        kept.retain(|kept| !kept.sender.is_closed() && !is_left(&kept.place));
        let is_resting =
            |kept: &KeptConnection<K, B>| kept.place == *place && kept.sender.is_ready();
        let resting = kept.iter().position(is_resting)?;
        Some(kept.swap_remove(resting))
    }

    /// Keeps one, which is taken again once its last answer is read.
    pub fn keep(&self, connection: KeptConnection<K, B>) {
        self.0.lock().push(connection);
    }
}

impl<K, B> KeptConnection<K, B>
where
    B: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
{
    /// A connection over `stream`, which leads to `place`.
    /// Errors: it breaks at once.
    pub async fn over<S>(stream: S, place: K) -> io::Result<Self>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (mut sender, driver) =
            http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        tokio::spawn(async move { drop(driver.await) });
        sender.ready().await.map_err(io::Error::other)?;
        Ok(Self { place, sender })
    }
}
