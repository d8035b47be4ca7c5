//! HTTP to a switch, as commands speak it: a connection a request, with TLS where the address says so.

use std::error::Error;
use std::time::Duration;
use std::{fmt, io};

use bytes::Bytes;
use cardswitch_edge::tls_client::is_refusal;
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
use tokio::task::JoinHandle;
use tokio::time::timeout;
use url::{Position, Url};

use super::Failure;
use super::http_tls_args::HttpTls;

/// The longest answer that is read whole. Units: bytes.
pub(super) const ANSWER_BYTES_MAX: usize = 16 << 20;
/// The longest refusal. Units: bytes.
const REFUSAL_BYTES_MAX: usize = 64 << 10;
/// How long a connection may take to end after a request on it failed.
const END_WITHIN: Duration = Duration::from_secs(1);

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

/// A connection to a switch; it ends with this value.
pub(super) struct SwitchConnection {
    sender: SendRequest<Empty<Bytes>>,
    /// The error that ends it, if one does; none once that was told.
    end: Option<JoinHandle<Result<(), hyper::Error>>>,
}

impl SwitchConnection {
    /// Sends a request.
    /// Errors: the cause for which no answer comes, in words.
    pub(super) async fn ask(
        &mut self,
        request: Request<Empty<Bytes>>,
    ) -> Result<Response<Incoming>, String> {
        let asked = match self.sender.ready().await {
            Ok(()) => self.sender.send_request(request).await,
            Err(error) => Err(error),
        };
        match asked {
            Ok(response) => Ok(response),
            Err(error) => Err(words_of(&self.cause_of(error).await)),
        }
    }

    /// The error that ended the connection, where there is one: the request only tells that it ended.
    async fn cause_of(&mut self, error: hyper::Error) -> hyper::Error {
        let Some(end) = self.end.take() else { return error };
        match timeout(END_WITHIN, end).await {
            Ok(Ok(Err(cause))) => cause,
            _ => error,
        }
    }
}

/// An error with its causes. A door that wants a certificate says so once it is read from.
fn words_of(error: &hyper::Error) -> String {
    let (mut words, mut refusal) = (Vec::new(), "");
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(cause) = next {
        if cause.downcast_ref().is_some_and(is_refusal) {
            refusal = "the switch asks for a certificate that it believes (--http-certificate): ";
        }
        words.push(cause.to_string());
        next = cause.source();
    }
    // An error of the system repeats the one that it wraps.
    words.dedup();
    format!("{refusal}{}", words.join(": "))
}

/// Connects to the host of an address.
/// Errors: nobody is there, or nobody who is believed.
pub(super) async fn connect(url: &Url, tls: &HttpTls) -> io::Result<SwitchConnection> {
    let (host, port) = url
        .host_str()
        .zip(url.port_or_known_default())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the address has no host"))?;
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((name, port)).await?;
    match tls.towards(url)? {
        Some(tls) => speak(tls.agree(stream).await?).await,
        None => speak(stream).await,
    }
}

async fn speak<S>(stream: S) -> io::Result<SwitchConnection>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    Ok(SwitchConnection { sender, end: Some(tokio::spawn(connection)) })
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
    (url, tls): (&Url, &HttpTls),
    authorization: &str,
) -> Result<Option<T>, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::new(format!("`{url}`: {error}"));
    let request = get(url, authorization).body(Empty::new());
    let request = request.map_err(|_| Failure::usage("a key has characters that none can have"))?;
    let mut client = connect(url, tls).await.map_err(|error| failed(&error))?;
    let response = client.ask(request).await.map_err(|error| failed(&error))?;
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
