//! The end of a connection whose peer may be sending still: a socket that is closed over unread bytes is
//! reset, and a reset discards what the peer has not read yet.

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long a peer that has its last answer may go on sending.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How long it may be silent, or take nothing of its last bytes.
pub const SILENCE: Duration = Duration::from_secs(5);
/// How much it may send: all of it is thrown away.
const BYTES_MAX: usize = 32 * 1024 * 1024;

/// Ends a connection whose client may be sending still.
pub async fn linger(mut stream: TcpStream) {
    drop(stream.shutdown().await);
    drop(timeout(TIMEOUT, discard(&stream)).await);
}

async fn discard(stream: &TcpStream) {
    let mut bytes = 0;
    while bytes < BYTES_MAX
        && let Ok(Ok(())) = timeout(SILENCE, stream.readable()).await
    {
        // The buffer is gone while it waits: thousands of connections may linger.
        match stream.try_read(&mut [0; 16 * 1024]) {
            Ok(0) => return,
            Ok(read) => bytes += read,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}
