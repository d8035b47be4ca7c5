//! A server that does nothing but serve: hyper answering one fixed JSON text.

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
use tokio::net::TcpListener;

/// hyper alone: reads the body, parses it as JSON where there is one, answers `answer`.
pub async fn start_hyper(answer: Bytes) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind a port of the loopback");
    let address = listener.local_addr().expect("read the address");
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
