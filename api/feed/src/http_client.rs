//! One HTTP connection to a switch, with one request at a time.
//!
//! It knows neither rights nor paths: whoever asks brings them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

use super::FeedError;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The connection, and the runtime that it moves on while somebody waits for an answer.
pub(super) struct HttpClient {
    runtime: Runtime,
    authority: String,
    prefix: String,
    sender: SendRequest<Full<Bytes>>,
}

impl HttpClient {
    /// Connects.
    /// Errors: an address that is none, nobody there.
    pub(super) fn open(url: &str) -> Result<Self, FeedError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(FeedError::Thread)?;
        let bad_url = || FeedError::BadUrl(url.to_owned());
        let uri = Uri::from_str(url).map_err(|_| bad_url())?;
        // A key would travel in clear where the user asked for TLS.
        if uri.scheme_str() != Some("http") {
            return Err(bad_url());
        }
        let authority = uri.authority().ok_or_else(bad_url)?.to_string();
        let address = (uri.host().ok_or_else(bad_url)?, uri.port_u16().unwrap_or(80));
        let sender = runtime.block_on(within_patience(connect(address)))?;
        let prefix = uri.path().trim_end_matches('/').to_owned();
        Ok(Self { runtime, authority, prefix, sender })
    }

    /// Makes a request, and returns the status and the body of its answer.
    /// Errors: a broken connection.
    pub(super) fn exchange(
        &mut self,
        (method, path): (Method, &str),
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Result<(StatusCode, Bytes), FeedError> {
        let content = body.map_or_else(Bytes::new, |body| Bytes::from(body.to_string()));
        let builder = headers
            .iter()
            .fold(Request::builder(), |builder, (name, value)| builder.header(*name, *value));
        let request = builder
            .method(method)
            .uri(format!("{}{path}", self.prefix))
            .header("host", &self.authority)
            .header("content-type", "application/json")
            .body(Full::new(content))
            .map_err(failed)?;
        let sender = &mut self.sender;
        self.runtime.block_on(within_patience(async {
            sender.ready().await.map_err(failed)?;
            let response = sender.send_request(request).await.map_err(failed)?;
            let status = response.status();
            Ok((status, response.into_body().collect().await.map_err(failed)?.to_bytes()))
        }))
    }
}

async fn within_patience<T>(
    asked: impl Future<Output = Result<T, FeedError>>,
) -> Result<T, FeedError> {
    let answered = tokio::time::timeout(PATIENCE, asked).await;
    answered.unwrap_or_else(|_| Err(failed(format_args!("no answer within {PATIENCE:?}"))))
}

async fn connect(address: (&str, u16)) -> Result<SendRequest<Full<Bytes>>, FeedError> {
    let stream = TcpStream::connect(address).await.map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(failed)?;
    // The connection's own error shows in the request that it fails.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

/// The failure of the door for any cause, in its words.
pub(super) fn failed(error: impl fmt::Display) -> FeedError {
    FeedError::Http(error.to_string())
}
