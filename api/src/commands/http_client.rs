//! HTTP to a switch, as commands speak it: a connection a request, with TLS where the address says so.

use std::{fmt, io};

use bytes::Bytes;
use cardswitch_notify::webhooks::sender::connect_securely;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, HOST};
use hyper::http::request::Builder;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use url::{Position, Url};

use super::Failure;

/// The longest answer that is read whole. Units: bytes.
pub(super) const ANSWER_BYTES_MAX: usize = 16 << 20;
/// The longest refusal. Units: bytes.
const REFUSAL_BYTES_MAX: usize = 64 << 10;

/// Parses the address of a switch, or of something at it.
/// Errors: it is none.
pub(super) fn parse_url(text: &str) -> Result<Url, Failure> {
    let url = Url::parse(text)
        .map_err(|error| Failure::usage(format!("`{text}` is no address: {error}")))?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        _ => Err(Failure::usage(format!("`{text}` is no address: it begins with http or https"))),
    }
}

/// Connects to the host of an address. The connection ends with what is returned.
/// Errors: nobody is there, or nobody whom the system trusts.
pub(super) async fn connect(url: &Url) -> io::Result<SendRequest<Empty<Bytes>>> {
    let (host, port) = url
        .host_str()
        .zip(url.port_or_known_default())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the address has no host"))?;
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((name, port)).await?;
    if url.scheme() == "https" {
        speak(connect_securely(name, stream).await?).await
    } else {
        speak(stream).await
    }
}

async fn speak<S>(stream: S) -> io::Result<SendRequest<Empty<Bytes>>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (client, connection) = handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    // Its own error shows in the request that it fails.
    tokio::spawn(async move { drop(connection.await) });
    Ok(client)
}

/// A GET of an address.
pub(super) fn get(url: &Url, authorization: &str) -> Builder {
    Request::get(&url[Position::BeforePath..Position::AfterQuery])
        .header(HOST, &url[Position::BeforeHost..Position::AfterPort])
        .header(AUTHORIZATION, authorization)
}

/// Gets a JSON object; none where there is no such object.
/// Errors: nobody answers, or the switch refuses.
pub(super) async fn get_json<T: DeserializeOwned>(
    url: &Url,
    authorization: &str,
) -> Result<Option<T>, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::new(format!("`{url}`: {error}"));
    let request = get(url, authorization).body(Empty::new());
    let request = request.map_err(|_| Failure::usage("a key has characters that none can have"))?;
    let mut client = connect(url).await.map_err(|error| failed(&error))?;
    let response = client.send_request(request).await.map_err(|error| failed(&error))?;
    match response.status() {
        StatusCode::OK => {
            let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
            let body = body.map_err(|error| failed(&error))?.to_bytes();
            serde_json::from_slice(&body).map(Some).map_err(|error| failed(&error))
        }
        StatusCode::NOT_FOUND => Ok(None),
        _ => Err(Failure::new(refusal(response).await)),
    }
}

/// A refusal, in the words of the switch.
#[derive(Debug)]
pub(super) struct HttpRefusal {
    status: StatusCode,
    detail: Value,
}

impl HttpRefusal {
    /// Whether a parameter is the only fault, for the reason of a code.
    pub(super) fn is_of(&self, param: &str, code: &str) -> bool {
        self.detail["param"] == param && self.detail["code"] == code
    }
}

impl fmt::Display for HttpRefusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = self.detail["message"].as_str().unwrap_or("without a word");
        write!(formatter, "the switch refuses ({}): {message}", self.status)
    }
}

/// Reads the answer that refuses a request.
pub(super) async fn refusal(response: Response<Incoming>) -> HttpRefusal {
    let status = response.status();
    let body = Limited::new(response.into_body(), REFUSAL_BYTES_MAX).collect().await;
    let text = body.map(|body| body.to_bytes()).unwrap_or_default();
    let mut parsed: Value = serde_json::from_slice(&text).unwrap_or_default();
    HttpRefusal { status, detail: parsed["detail"].take() }
}
