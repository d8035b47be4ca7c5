//! Servers that do nothing but serve: an echo, and hyper answering one fixed JSON text.

use std::convert::Infallible;
use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::Must;

const READ_BYTES: usize = 64 << 10;

/// Sends back whatever comes, on every connection.
pub async fn start_echo() -> SocketAddr {
    let (listener, address) = listen().await;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(echo(stream));
        }
    });
    address
}

async fn echo(mut stream: TcpStream) {
    drop(stream.set_nodelay(true));
    let mut buffer = vec![0; READ_BYTES];
    while let Ok(read) = stream.read(&mut buffer).await {
        if read == 0 || stream.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

/// hyper alone: reads the body, parses it as JSON where there is one, answers `answer`.
pub async fn start_hyper(answer: Bytes) -> SocketAddr {
    let (listener, address) = listen().await;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            drop(stream.set_nodelay(true));
            let answer = answer.clone();
            let service = service_fn(move |request| answer_fixed(request, answer.clone()));
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            tokio::spawn(connection);
        }
    });
    address
}

async fn answer_fixed(
    request: Request<Incoming>,
    answer: Bytes,
) -> Result<Response<Full<Bytes>>, Infallible> {
    // A body that breaks off ends its connection by itself.
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    if !body.is_empty() {
        let parsed: Result<serde_json::Value, _> = serde_json::from_slice(&body);
        assert!(parsed.is_ok(), "clients send JSON: {parsed:?}");
    }
    let mut response = Response::new(Full::new(answer));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.must("bind a port of the loopback");
    let address = listener.local_addr().must("read the address");
    (listener, address)
}
