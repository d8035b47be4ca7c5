//! A client of HTTP/1.1 on one kept connection, and streams of events that are read as they come.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use cardswitch_tools::{Outcome, fail};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::HOST;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use memchr::memmem;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// A connection.
pub(crate) struct Http {
    address: SocketAddr,
    sender: SendRequest<Full<Bytes>>,
}

impl Http {
    /// Connects.
    /// Errors: nobody is there.
    pub(crate) async fn connect(address: SocketAddr) -> Outcome<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        // It ends with its client, which reports any failure.
        tokio::spawn(connection);
        Ok(Self { address, sender })
    }

    /// Sends a request, and returns the answer as its head has come.
    pub(crate) async fn send(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: String,
    ) -> Outcome<Response<Incoming>> {
        let mut request = Request::builder().method(method).uri(path);
        request = request.header(HOST, self.address.to_string());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        // The answer before may just have come to its end.
        self.sender.ready().await?;
        Ok(self.sender.send_request(request.body(Full::new(body.into()))?).await?)
    }

    /// The whole answer to a GET.
    /// Errors: it is other than 200.
    pub(crate) async fn get(&mut self, path: &str, headers: &[(&str, &str)]) -> Outcome<Bytes> {
        let response = self.send(Method::GET, path, headers, String::new()).await?;
        whole(path, response).await
    }

    /// The whole answer to a POST of JSON.
    /// Errors: it is other than 200 and 201.
    pub(crate) async fn post(
        &mut self,
        path: &str,
        authorization: &str,
        body: String,
    ) -> Outcome<Bytes> {
        let headers = [("authorization", authorization), ("content-type", "application/json")];
        let response = self.send(Method::POST, path, &headers, body).await?;
        whole(path, response).await
    }
}

async fn whole(path: &str, response: Response<Incoming>) -> Outcome<Bytes> {
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    if [StatusCode::OK, StatusCode::CREATED].contains(&status) {
        return Ok(body);
    }
    fail(format!("`{path}` answers {status}: {}", String::from_utf8_lossy(&body)))
}

/// A stream of server-sent events that is read as it comes.
pub(crate) struct EventStream {
    reading: JoinHandle<Outcome<()>>,
    events: Arc<AtomicU64>,
}

/// Opens a stream with one header.
/// Errors: it is not there.
pub(crate) fn follow(
    runtime: &Runtime,
    address: SocketAddr,
    path: &str,
    header: (&str, &str),
) -> Outcome<EventStream> {
    let mut response = runtime.block_on(async {
        let mut client = Http::connect(address).await?;
        client.send(Method::GET, path, &[header], String::new()).await
    })?;
    if response.status() != StatusCode::OK {
        return fail(format!("`{path}` answers {}", response.status()));
    }
    let events = Arc::<AtomicU64>::default();
    let counted = Arc::clone(&events);
    let reading = runtime.spawn(async move {
        while let Some(frame) = response.frame().await {
            let bytes = frame?.into_data().unwrap_or_default();
            // Comments keep the connection only.
            let count = memmem::find_iter(&bytes, b"data:").count();
            counted.fetch_add(count as u64, Ordering::Relaxed);
        }
        fail("a stream of events has ended by itself")
    });
    Ok(EventStream { reading, events })
}

impl EventStream {
    /// Ends it, and returns how many events came.
    /// Errors: it had ended by itself.
    pub(crate) fn end(self, runtime: &Runtime) -> Outcome<u64> {
        if self.reading.is_finished() {
            runtime.block_on(self.reading)??;
        } else {
            self.reading.abort();
        }
        Ok(self.events.load(Ordering::Relaxed))
    }
}
