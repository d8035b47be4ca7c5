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
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::Runtime;

use super::{Carrier, FeedError, HttpSource};

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
    pub(super) fn open(source: &HttpSource) -> Result<Self, FeedError> {
        let HttpSource { url, carrier, .. } = source;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(FeedError::Thread)?;
        let bad_url = || FeedError::BadUrl(url.clone());
        let uri = Uri::from_str(url).map_err(|_| bad_url())?;
        // A key would travel in clear where the user asked for TLS.
        let port = match (uri.scheme_str(), carrier) {
            (Some("http"), None) => 80,
            (Some("https"), Some(_)) => 443,
            _ => return Err(bad_url()),
        };
        let authority = uri.authority().ok_or_else(bad_url)?.to_string();
        let address = (uri.host().ok_or_else(bad_url)?, uri.port_u16().unwrap_or(port));
        let stream = runtime.block_on(within_patience(connect(address)))?;
        let sender = match carrier {
            None => runtime.block_on(within_patience(speak(stream)))?,
            Some(carrier) => carried(&runtime, stream, carrier.as_ref())?,
        };
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

async fn connect(address: (&str, u16)) -> Result<TcpStream, FeedError> {
    let stream = TcpStream::connect(address).await.map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    Ok(stream)
}

/// Call it outside of the runtime: a carrier agrees with the door by one of its own.
fn carried(
    runtime: &Runtime,
    stream: TcpStream,
    carrier: &dyn Carrier,
) -> Result<SendRequest<Full<Bytes>>, FeedError> {
    let near = carrier.carry(stream.into_std().map_err(failed)?).map_err(failed)?;
    near.set_nonblocking(true).map_err(failed)?;
    runtime.block_on(within_patience(async {
        speak(UnixStream::from_std(near).map_err(failed)?).await
    }))
}

async fn speak<S>(stream: S) -> Result<SendRequest<Full<Bytes>>, FeedError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(failed)?;
    // The connection's own error shows in the request that it fails.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

/// The failure of the door for any cause, in its words.
pub(super) fn failed(error: impl fmt::Display) -> FeedError {
    FeedError::Http(error.to_string())
}
