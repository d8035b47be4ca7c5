//! A client that speaks HTTP without TLS to a door of HTTP over TLS: it is told so.

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::lingering::linger;

/// How long a client may wait before its first byte.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
const PLAIN_REFUSAL: &str = "This address speaks TLS: begin with https://\n";

/// Whether a client begins as one without TLS does: by a method.
pub(crate) async fn speaks_plain(stream: &TcpStream) -> bool {
    let mut first = [0];
    let peeked = timeout(HELLO_TIMEOUT, stream.peek(&mut first)).await;
    matches!(peeked, Ok(Ok(1))) && first[0].is_ascii_uppercase()
}

/// Tells such a client what it would have to do.
pub(crate) async fn refuse_plain(mut stream: TcpStream) {
    let refusal = format!(
        "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\n\
         Content-Length: {}\r\n\r\n{PLAIN_REFUSAL}",
        PLAIN_REFUSAL.len()
    );
    drop(stream.write_all(refusal.as_bytes()).await);
    linger(stream).await;
}
