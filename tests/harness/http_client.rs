//! A small blocking HTTP/1.1 client over one socket a request: every byte of it is in sight.
//!
//! It asks for `connection: close`, so a body ends with its length, its chunks or the connection.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::source::connect_from;

/// The pause before a question is asked again.
const PAUSE: Duration = Duration::from_millis(50);

/// A request, as far as a test wants to say it.
#[derive(Debug, Clone, Copy)]
pub struct HttpRequest<'a> {
    /// `GET`, `POST`, ..
    pub method: &'a str,
    /// Path and query.
    pub path: &'a str,
    /// Headers beyond host, connection, authorization and content-length.
    pub headers: &'a [(&'a str, &'a str)],
    /// The body as sent.
    pub body: &'a [u8],
}

/// An answer.
#[derive(Debug, Clone)]
pub struct HttpResponse {
    /// The status code.
    pub status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl HttpResponse {
    /// The value of a header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// All values of a header, by its name in lower case.
    pub fn headers_named(&self, name: &str) -> impl Iterator<Item = &str> {
        let named = self.headers.iter().filter(move |(key, _)| key == name);
        named.map(|(_, value)| value.as_str())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("bodies are UTF-8")
    }

    /// The body as it came.
    pub fn bytes(&self) -> &[u8] {
        &self.body
    }

    /// The body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        let kind = self.header("content-type").unwrap_or_default();
        let is_json = ["application/json", "application/scim+json"]
            .iter()
            .any(|known| kind.starts_with(known));
        assert!(is_json, "JSON was expected, not {self:?}");
        serde_json::from_slice(&self.body).expect("a JSON answer parses")
    }

    /// Asserts the status and returns the JSON body (null where it is empty).
    #[track_caller]
    pub fn expect(&self, status: u16) -> Value {
        let shown = String::from_utf8_lossy(&self.body);
        assert_eq!(self.status, status, "the answer was: {shown}");
        if self.body.is_empty() { Value::Null } else { self.json() }
    }

    /// Asserts an error answer of the published shape and returns its `detail`.
    #[track_caller]
    pub fn expect_error(&self, status: u16) -> Value {
        let body = self.expect(status);
        let keys: Vec<_> = body.as_object().expect("an error is an object").keys().collect();
        assert_eq!(keys, ["detail"], "an error has one key: {body:#}");
        let detail = &body["detail"];
        for key in ["code", "message"] {
            let is_said = detail[key].as_str().is_some_and(|text| !text.is_empty());
            assert!(is_said, "an error says its `{key}`: {body:#}");
        }
        assert!(detail["param"].is_string() || detail["param"].is_null(), "param: {body:#}");
        assert!(detail.get("param").is_some(), "param is there even if null: {body:#}");
        assert!(detail["errors"].is_array(), "errors is an array: {body:#}");
        assert!(self.header("request-id").is_some_and(|id| !id.is_empty()), "no request-id");
        detail.clone()
    }
}

/// Sends requests to one address with one Authorization header.
#[derive(Debug, Clone)]
pub struct HttpClient {
    source: Option<Ipv4Addr>,
    address: SocketAddr,
    authorization: Option<String>,
}

impl HttpClient {
    /// A client without an Authorization header.
    pub fn anonymous(address: SocketAddr) -> Self {
        Self { source: None, address, authorization: None }
    }

    /// A client that sends `authorization` as it is.
    pub fn with_authorization(address: SocketAddr, authorization: &str) -> Self {
        Self { source: None, address, authorization: Some(authorization.to_owned()) }
    }

    /// The same client at an address of the loopback.
    #[must_use]
    pub fn at(self, source: Ipv4Addr) -> Self {
        Self { source: Some(source), ..self }
    }

    /// GET.
    #[track_caller]
    pub fn get(&self, path: &str) -> HttpResponse {
        self.send(&HttpRequest { method: "GET", path, headers: &[], body: b"" })
    }

    /// DELETE.
    #[track_caller]
    pub fn delete(&self, path: &str) -> HttpResponse {
        self.send(&HttpRequest { method: "DELETE", path, headers: &[], body: b"" })
    }

    /// POST of a JSON body.
    #[track_caller]
    pub fn post(&self, path: &str, body: &Value) -> HttpResponse {
        self.send_json("POST", path, body)
    }

    /// PUT of a JSON body.
    #[track_caller]
    pub fn put(&self, path: &str, body: &Value) -> HttpResponse {
        self.send_json("PUT", path, body)
    }

    /// PATCH of a JSON body.
    #[track_caller]
    pub fn patch(&self, path: &str, body: &Value) -> HttpResponse {
        self.send_json("PATCH", path, body)
    }

    /// Asks again while no node of a cluster leads for certain, as that error has clients do.
    #[track_caller]
    pub fn when_led(&self, ask: impl Fn(&Self) -> HttpResponse) -> HttpResponse {
        loop {
            let answer = ask(self);
            if answer.status != 503 || answer.json()["detail"]["code"] != "no_leader" {
                return answer;
            }
            thread::sleep(PAUSE);
        }
    }

    /// Sends anything.
    #[track_caller]
    pub fn send(&self, request: &HttpRequest<'_>) -> HttpResponse {
        let mut stream = self.connect().expect("the HTTP door is open");
        stream.set_nodelay(true).expect("a socket takes TCP_NODELAY");
        let mut bytes = self.head_of(request).into_bytes();
        bytes.extend_from_slice(request.body);
        stream.write_all(&bytes).expect("the HTTP door reads");
        read_response(&mut BufReader::new(stream))
    }

    /// Sends anything; none where the switch was gone before its answer was whole.
    pub fn try_send(&self, request: &HttpRequest<'_>) -> Option<HttpResponse> {
        let mut stream = self.connect().ok()?;
        stream.set_nodelay(true).ok()?;
        let mut bytes = self.head_of(request).into_bytes();
        bytes.extend_from_slice(request.body);
        stream.write_all(&bytes).ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok()?;
        is_whole(&answer).then(|| read_response(&mut answer.as_slice()))
    }

    fn connect(&self) -> io::Result<TcpStream> {
        match self.source {
            Some(source) => connect_from(source, self.address),
            None => TcpStream::connect(self.address),
        }
    }

    fn send_json(&self, method: &str, path: &str, body: &Value) -> HttpResponse {
        let headers = &[("content-type", "application/json")];
        self.send(&HttpRequest { method, path, headers, body: body.to_string().as_bytes() })
    }

    fn head_of(&self, request: &HttpRequest<'_>) -> String {
        let HttpRequest { method, path, headers, body } = request;
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-length: {}\r\n",
            self.address,
            body.len()
        );
        if let Some(authorization) = &self.authorization {
            head.push_str(&format!("authorization: {authorization}\r\n"));
        }
        for (name, value) in *headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        head
    }
}

/// Sends `bytes` as they are and reads every answer until the switch ends the connection; none where
/// it ended otherwise than by its end (a reset).
#[track_caller]
pub fn exchange_raw(address: SocketAddr, bytes: &[u8]) -> Option<Vec<HttpResponse>> {
    let mut stream = TcpStream::connect(address).expect("the HTTP door is open");
    // The switch may have judged before all is sent; then it goes on reading.
    stream.write_all(bytes).ok()?;
    let mut answers = Vec::new();
    stream.read_to_end(&mut answers).ok()?;
    let mut rest = answers.as_slice();
    let mut responses = Vec::new();
    while !rest.is_empty() {
        responses.push(read_response(&mut rest));
    }
    Some(responses)
}

/// Reads one answer.
pub fn read_response(reader: &mut impl BufRead) -> HttpResponse {
    let status_line = read_line(reader);
    let status = status_line.split(' ').nth(1).expect("a status line has a status");
    let status = status.parse().expect("a status is a number");
    let mut response = HttpResponse { status, headers: read_headers(reader), body: Vec::new() };
    let chunked = response.header("transfer-encoding").is_some_and(|coding| coding == "chunked");
    if chunked {
        response.body = read_chunks(reader);
    } else if let Some(length) = response.header("content-length") {
        response.body = vec![0; length.parse().expect("a length is a number")];
        reader.read_exact(&mut response.body).expect("a body is as long as announced");
    } else {
        reader.read_to_end(&mut response.body).expect("a body ends with its connection");
    }
    response
}

/// Whether an answer has all of its body, as far as its head says how long that is.
fn is_whole(answer: &[u8]) -> bool {
    const HEAD_END: &[u8] = b"\r\n\r\n";
    let end = answer.windows(HEAD_END.len()).position(|window| window == HEAD_END);
    let Some(end) = end else { return false };
    let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length = length.map(|length| length.trim().parse::<usize>());
    length.is_none_or(|length| length == Ok(answer.len() - end - HEAD_END.len()))
}

fn read_headers(reader: &mut impl BufRead) -> Vec<(String, String)> {
    let mut headers = Vec::new();
    loop {
        let line = read_line(reader);
        if line.is_empty() {
            return headers;
        }
        let (name, value) = line.split_once(':').expect("a header has a colon");
        headers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
    }
}

fn read_chunks(reader: &mut impl BufRead) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let size = usize::from_str_radix(read_line(reader).trim(), 16).expect("a chunk size");
        let mut chunk = vec![0; size];
        reader.read_exact(&mut chunk).expect("a chunk is as long as announced");
        body.extend_from_slice(&chunk);
        assert_eq!(read_line(reader), "", "a chunk ends with an empty line");
        if size == 0 {
            return body;
        }
    }
}

fn read_line(reader: &mut impl BufRead) -> String {
    let mut line = String::new();
    reader.read_line(&mut line).expect("an answer is text up to its body");
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_breaks_off_is_not_whole() {
        let answer = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}";
        assert!((0..answer.len()).all(|cut| !is_whole(&answer[..cut])));
        assert!(is_whole(answer));
        assert!(is_whole(b"HTTP/1.1 204 No Content\r\n\r\n"));
    }

    #[test]
    fn reads_lengths_chunks_and_bodies_that_end_with_the_connection() {
        let answers = [
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}trailing",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n{}",
        ];
        for answer in answers {
            let response = read_response(&mut answer.as_bytes());
            assert_eq!((response.status, response.text().as_str()), (200, "{}"), "{answer:?}");
        }
    }
}
