//! One HTTP connection, from its first byte to its last: hyper with bounds of our own.
//!
//! The checks here hold for every request of every listener, so that no handler can forget them:
//! the size and the shape of a head, the discarding of an unread body, and the end of the
//! connection.
//!
//! INVARIANT: a connection with unread bytes is announced to end (`Connection: close`), and ends so that
//! its client can read the answer: see `lingering`.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::http::header::{CONNECTION, HeaderName};
use axum::http::{HeaderValue, Request};
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::AsyncWriteExt;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::door_stream::DoorStream;
use crate::http_stream::PatientStream;
use crate::lingering;
use crate::request_head::check_head;
use crate::request_id::refusal;
use crate::unread_body::RequestBody;

/// The longest head of a request. A connection keeps no more than this of what its client sends
/// ahead of being asked. Hyper itself takes no more than 100 fields. Units: bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// How long the head of a request may take, and how long a connection may rest between two.
const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(10);
/// The value of the `Keep-Alive` header, which tells clients that time.
const KEEP_ALIVE: (HeaderName, HeaderValue) =
    (HeaderName::from_static("keep-alive"), HeaderValue::from_static("timeout=10"));
/// How long a client may take nothing of its answer.
const WRITE_PATIENCE: Duration = Duration::from_secs(30);

/// HTTP/2's own way of saying that only HTTP/1.1 is served: an empty SETTINGS frame, then GOAWAY with
/// the error HTTP_1_1_REQUIRED (RFC 9113, sections 6.5, 6.8 and 7).
const HTTP2_REFUSAL: &[u8] = b"\0\0\0\x04\0\0\0\0\0\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\x0d";

/// Answers the requests on `stream` by `answer` until the client leaves, or the current request's
/// answer is out and `closing` is true. Then `closing` is dropped, also where the client is still
/// sending.
pub async fn serve_connection<S, A, F>(stream: S, answer: A, mut closing: watch::Receiver<bool>)
where
    S: DoorStream,
    A: Fn(Request<RequestBody>) -> F,
    F: Future<Output = Response>,
{
    // Answers are written whole: waiting to fill a segment only delays them.
    drop(stream.socket().set_nodelay(true));
    let is_unread = AtomicBool::new(false);
    let service = service_fn(|request| answer_one(request, &answer, &is_unread));
    let stream = TokioIo::new(PatientStream::new(stream, WRITE_PATIENCE));
    let mut connection = bounded_server().serve_connection(stream, service);
    let ended = tokio::select! {
        ended = &mut connection => Some(ended),
        _ = closing.wait_for(|closing| *closing) => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            Pin::new(&mut connection).graceful_shutdown();
            (&mut connection).await
        }
    };
    drop(closing);
    let mut stream = connection.into_parts().io.into_inner().stream;
    let is_refused = ended.as_ref().is_err_and(hyper::Error::is_parse);
    if ended.is_err_and(|error| error.is_parse_version_h2()) {
        drop(timeout(lingering::SILENCE, stream.write_all(HTTP2_REFUSAL)).await);
    }
    let socket = stream.into_socket().await;
    let is_sending = socket.try_read(&mut [0]).is_ok_and(|bytes| bytes > 0);
    if is_refused || is_sending || is_unread.into_inner() {
        lingering::linger(socket).await;
    }
}

/// The server's side of HTTP/1.1 with bounds on what it keeps of a client.
fn bounded_server() -> http1::Builder {
    let mut server = http1::Builder::new();
    server
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_READ_TIMEOUT)
        .max_header_size(HEAD_BYTES_MAX)
        .max_buf_size(HEAD_BYTES_MAX);
    server
}

/// In the extensions of an answer: its client gets none, and the connection ends.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("a connection ends without an answer, on purpose")]
pub struct Cut;

impl Cut {
    /// An answer that nobody gets.
    pub fn response() -> Response {
        let mut response = Response::default();
        response.extensions_mut().insert(Self);
        response
    }
}

async fn answer_one<F: Future<Output = Response>>(
    request: Request<Incoming>,
    answer: impl Fn(Request<RequestBody>) -> F,
    is_unread: &AtomicBool,
) -> Result<Response, Cut> {
    let (parts, body) = request.into_parts();
    let (mut response, may_go_on) = match check_head(parts.version, &parts.headers) {
        Ok(()) => {
            let body = RequestBody::new(body, &parts.headers);
            // Boxed: its state would be part of every connection, also of one at rest.
            let response = Box::pin(answer(Request::from_parts(parts, body.clone()))).await;
            (response, body.discard_rest().await)
        }
        // The end of its body is open to doubt.
        Err(error) => (refusal(&parts.method, parts.uri.path(), error).await, false),
    };
    let (name, value) = match may_go_on {
        true => KEEP_ALIVE,
        false => (CONNECTION, HeaderValue::from_static("close")),
    };
    response.headers_mut().insert(name, value);
    is_unread.fetch_or(!may_go_on, Ordering::Relaxed);
    match response.extensions().get::<Cut>() {
        Some(cut) => Err(*cut),
        None => Ok(response),
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::StatusCode;
    use axum::response::IntoResponse;
    use tokio::io::AsyncReadExt;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::request_body::read_body;

    /// The bytes that a client reads until the end, after it sent `request` as a whole. `answer`
    /// answers the requests.
    async fn exchange<F>(
        answer: impl Fn(Request<RequestBody>) -> F,
        request: &[u8],
    ) -> std::io::Result<String>
    where
        F: Future<Output = Response>,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let mut client = TcpStream::connect(listener.local_addr()?).await?;
        let (stream, _) = listener.accept().await?;
        let closing = watch::Sender::new(false);
        // It leaves when it has read the end, so nobody lingers for it.
        let talk = async move {
            client.write_all(request).await?;
            let mut answers = String::new();
            client.read_to_string(&mut answers).await.map(|_| answers)
        };
        let served = serve_connection(stream, answer, closing.subscribe());
        let (answers, ()) = tokio::join!(talk, served);
        answers
    }

    fn request(fields: &str, body_bytes: usize) -> Vec<u8> {
        let head =
            format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {body_bytes}\r\n{fields}\r\n");
        [head.into_bytes(), vec![b'x'; body_bytes]].concat()
    }

    /// After an answer of any status the next request is answered too, or the answer announced the
    /// end.
    #[tokio::test]
    async fn no_answer_leaves_a_body_in_the_way_of_the_next_request() {
        let statuses = [200, 204, 303, 400, 401, 403, 404, 405, 413, 415, 429, 431, 500, 503];
        for status in statuses.map(|status| StatusCode::from_u16(status).unwrap()) {
            for (bytes, is_kept) in
                [(0, true), (1, true), (64 << 10, true), (65_537, false), (4 << 20, false)]
            {
                let refuse = |_| std::future::ready(status.into_response());
                let next = request("connection: close\r\n", 0);
                let sent = [request("", bytes), next].concat();
                let answers = exchange(refuse, &sent).await.unwrap().to_ascii_lowercase();
                let count = answers.matches("http/1.1 ").count();
                assert_eq!(count, if is_kept { 2 } else { 1 }, "{status} {bytes}: {answers}");
                let announced = answers.matches("connection: close\r\n").count();
                assert_eq!(announced, 1, "{status} {bytes}: {answers}");
            }
        }
    }

    #[tokio::test]
    async fn an_answer_that_is_cut_ends_the_connection_without_a_byte() {
        let cut = |_| std::future::ready(Cut::response());
        assert_eq!(exchange(cut, &request("", 1)).await.unwrap(), "");
    }

    #[tokio::test]
    async fn a_body_that_was_read_in_part_counts_as_unread() {
        let read_some = |request: Request<RequestBody>| async {
            let mut body = Body::new(request.into_body());
            drop(http_body_util::BodyExt::frame(&mut body).await);
            StatusCode::OK.into_response()
        };
        let sent = [request("", 60_000), request("connection: close\r\n", 0)].concat();
        let answers = exchange(read_some, &sent).await.unwrap();
        assert_eq!(answers.matches("HTTP/1.1 200").count(), 2, "{answers}");
        let answers = exchange(read_some, &request("", 2 << 20)).await.unwrap();
        assert!(answers.contains("connection: close"), "{answers}");
    }

    #[tokio::test]
    async fn a_body_that_is_too_long_is_refused_before_it_is_asked_for() {
        let read = |request: Request<RequestBody>| async {
            match read_body(request.into_body(), 10).await {
                Ok(_) => StatusCode::OK.into_response(),
                Err(error) => error.into_response(),
            }
        };
        let head =
            b"POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 11\r\n\r\n";
        let answers = exchange(read, head).await.unwrap();
        assert!(answers.starts_with("HTTP/1.1 413") && answers.contains("connection: close"));
        let taken = [
            &b"POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\n"[..],
            b"connection: close\r\ncontent-length: 2\r\n\r\n{}",
        ]
        .concat();
        let answers = exchange(read, &taken).await.unwrap();
        assert!(answers.starts_with("HTTP/1.1 100"), "{answers}");
        assert!(answers.contains("HTTP/1.1 200"), "{answers}");
    }
}
