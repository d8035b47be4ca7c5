//! `cardswitch listen`: events of a company as they happen, on a developer's terminal, and handed on
//! to a receiver under development as the webhooks it will get.

use std::time::Duration;

use bytes::Bytes;
use cardswitch_engine::clock::{Clock, Stopwatch};
use cardswitch_notify::webhooks::addresses::Reach;
use cardswitch_notify::webhooks::attempt::AttemptResult;
use cardswitch_notify::webhooks::sender::{Delivery, Sender};
use cardswitch_secrets::issuing::{RandomSource, SystemRandom};
use cardswitch_secrets::webhook_signature::{SignedMessage, WebhookSecret, message_text};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper::header::ACCEPT;
use hyper::{Request, Response, StatusCode};
use serde::Deserialize;
use serde_json::value::RawValue;
use url::Url;
use uuid::Uuid;

use super::http_client::{connect, get, parse_url, refusal};
use super::http_tls_args::{HttpTls, HttpTlsArgs};
use super::{Failure, StopSignal, complain};

/// How long to wait before a stream that broke is asked for again.
const RECONNECT_WAIT: Duration = Duration::from_secs(1);
/// After how long without a sign of life a stream counts as broken.
const SILENCE_MAX: Duration = Duration::from_secs(45);
/// The longest line of a stream. Units: bytes.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// An instant after all events: what follows them is what happens from now on, by any clock.
const AFTER_ALL: &str = "9999-12-31T23:59:59Z";

/// The arguments of `listen`.
#[derive(Debug, clap::Args)]
pub struct ListenArgs {
    /// HTTP address of the switch
    #[arg(
        long,
        env = "CARDSWITCH_URL",
        value_name = "URL",
        default_value = "http://127.0.0.1:8080"
    )]
    url: String,
    /// Access token of the company
    #[arg(long, env = "CARDSWITCH_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    token: String,
    #[command(flatten)]
    http_tls: HttpTlsArgs,
    /// Send each event to this address, as a webhook
    #[arg(long, value_name = "URL")]
    forward_to: Option<String>,
    /// Begin with events from this time on (RFC 3339) [default: now]
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
}

/// An event of the stream, as far as it is looked at.
#[derive(Debug, Deserialize)]
struct StreamedEvent<'a> {
    event: String,
    #[serde(borrow)]
    transaction: &'a RawValue,
    #[serde(borrow)]
    company: &'a RawValue,
    sequence: i64,
    created_at: String,
}

#[derive(Debug, Deserialize)]
struct NamedObject {
    id: Uuid,
}

impl StreamedEvent<'_> {
    /// The event as it is printed: when, what, and the id of its transaction.
    fn line(&self) -> String {
        let Self { event, transaction, created_at, .. } = self;
        let id = serde_json::from_str::<NamedObject>(transaction.get());
        let id = id.map_or_else(|_| transaction.get().to_owned(), |object| object.id.to_string());
        format!("{created_at} {event} {id}")
    }
}

/// Carries out `listen`: runs until Ctrl-C, or until the switch refuses.
pub async fn run(args: ListenArgs) -> Result<(), Failure> {
    let mut stop = StopSignal::listen()?;
    let listener = EventListener::new(&args)?;
    if let Some(forward) = &listener.forward {
        println!("events go to {}, signed with {}", forward.address, forward.secret.text());
    }
    tokio::select! {
        () = stop.received() => Ok(()),
        failure = listener.listen() => Err(failure),
    }
}

/// A page of events, as far as it is looked at.
#[derive(Debug, Deserialize)]
struct EventsPage {
    cursor: String,
}

struct EventListener {
    stream: Url,
    /// The page behind all events, whose place the stream begins at; none where a time is given.
    end: Option<Url>,
    tls: HttpTls,
    token: String,
    forward: Option<Forward>,
}

/// The receiver of handed-on events.
struct Forward {
    address: String,
    secret: WebhookSecret,
    sender: Sender,
}

/// Why a stream ended, or a run of an export.
#[derive(Debug)]
pub(super) enum StreamEnd {
    /// It can be asked for again.
    Broken(String),
    /// It cannot.
    Refused(Failure),
}

impl EventListener {
    fn new(args: &ListenArgs) -> Result<Self, Failure> {
        let base = args.url.trim_end_matches('/');
        let mut stream = parse_url(&format!("{base}/v1/events/stream"))?;
        let mut end = None;
        if let Some(since) = &args.since {
            stream.query_pairs_mut().append_pair("since", since);
        } else {
            end = Some(parse_url(&format!("{base}/v1/events?limit=0&since={AFTER_ALL}"))?);
        }
        let forward = args.forward_to.as_ref().map(|address| -> Result<Forward, Failure> {
            parse_url(address)?;
            let secret = WebhookSecret::draw(&mut SystemRandom)?;
            Ok(Forward { address: address.clone(), secret, sender: Sender::new(Reach::Local) })
        });
        let (tls, token) = (args.http_tls.open([&stream])?, args.token.clone());
        Ok(Self { stream, end, tls, token, forward: forward.transpose()? })
    }

    /// Follows the stream, and asks for it again where it broke, behind the last event.
    async fn listen(&self) -> Failure {
        let mut last = None;
        loop {
            let why = match self.follow(&mut last).await {
                StreamEnd::Refused(failure) => return failure,
                StreamEnd::Broken(why) => why,
            };
            complain(format_args!("the stream broke ({why}): asking for it again"));
            tokio::time::sleep(RECONNECT_WAIT).await;
        }
    }

    async fn follow(&self, last: &mut Option<String>) -> StreamEnd {
        match self.try_follow(last).await {
            Ok(end) | Err(end) => end,
        }
    }

    async fn try_follow(&self, last: &mut Option<String>) -> Result<StreamEnd, StreamEnd> {
        if last.is_none()
            && let Some(end) = &self.end
        {
            *last = Some(self.place_of(end).await?);
        }
        let response = self.ask(&self.stream, last.as_deref()).await?;
        Ok(self.read_lines(response, last).await)
    }

    /// The place behind a page of events. Events that happen before the stream is there are behind it, too.
    async fn place_of(&self, page: &Url) -> Result<String, StreamEnd> {
        let body = self.ask(page, None).await?.into_body();
        let body = Limited::new(body, LINE_BYTES_MAX).collect().await;
        let body = body.map_err(|error| StreamEnd::Broken(error.to_string()))?.to_bytes();
        let page: Result<EventsPage, _> = serde_json::from_slice(&body);
        Ok(page.map_err(|error| StreamEnd::Broken(error.to_string()))?.cursor)
    }

    async fn ask(&self, url: &Url, last: Option<&str>) -> Result<Response<Incoming>, StreamEnd> {
        let Some(request) = self.request(url, last) else {
            return Err(StreamEnd::Refused(Failure::usage(
                "the access token has characters none can have",
            )));
        };
        let broken = |error: &dyn std::fmt::Display| StreamEnd::Broken(error.to_string());
        let mut client = connect(url, &self.tls).await.map_err(|error| broken(&error))?;
        let response = client.ask(request).await.map_err(|error| broken(&error))?;
        match response.status() {
            StatusCode::OK => Ok(response),
            status if status.is_server_error() => {
                Err(broken(&format!("the switch answered {status}")))
            }
            _ => Err(StreamEnd::Refused(Failure::new(refusal(response).await))),
        }
    }

    fn request(&self, url: &Url, last: Option<&str>) -> Option<Request<Empty<Bytes>>> {
        let request = get(url, &format!("Token {}", self.token))
            .header(ACCEPT, "text/event-stream, application/json");
        let request = match last {
            Some(last) => request.header("last-event-id", last),
            None => request,
        };
        request.body(Empty::new()).ok()
    }

    async fn read_lines(
        &self,
        mut response: Response<Incoming>,
        last: &mut Option<String>,
    ) -> StreamEnd {
        let mut lines = Lines::default();
        loop {
            let frame = match tokio::time::timeout(SILENCE_MAX, response.frame()).await {
                Ok(Some(Ok(frame))) => frame,
                Ok(Some(Err(error))) => return StreamEnd::Broken(error.to_string()),
                Ok(None) => return StreamEnd::Broken("the switch ended it".to_owned()),
                Err(_) => return StreamEnd::Broken("it fell silent".to_owned()),
            };
            let Some(bytes) = frame.data_ref() else { continue };
            for told in lines.take(bytes) {
                self.tell(&told.data).await;
                *last = Some(told.id);
            }
        }
    }

    /// Prints an event, and hands it on.
    async fn tell(&self, data: &str) {
        let Ok(event) = serde_json::from_str::<StreamedEvent<'_>>(data) else { return };
        let outcome = match &self.forward {
            Some(forward) => forward.send(&event).await,
            None => String::new(),
        };
        println!("{}{outcome}", event.line());
    }
}

impl Forward {
    /// Sends an event as a webhook. Returns what came of it, in words.
    async fn send(&self, event: &StreamedEvent<'_>) -> String {
        let StreamedEvent { event: name, transaction, company, sequence, .. } = event;
        let body =
            format!(r#"[{{"event":"{name}","transaction":{transaction},"company":{company}}}]"#);
        let now = Clock::System.now();
        let id = message_text(SystemRandom.id(now).unwrap_or_default());
        let timestamp_s = now.0.div_euclid(1_000_000);
        let message = SignedMessage { id: &id, timestamp_s, body: body.as_bytes() };
        let signature = self.secret.sign(&message);
        let delivery = Delivery {
            address: self.address.clone(),
            timestamp_s,
            signature,
            sequence: sequence.to_string(),
            tries: 1,
            body: body.clone().into(),
            id,
        };
        let watch = Stopwatch::start();
        let result = self.sender.send(&delivery).await;
        let took_ms = watch.elapsed().as_millis();
        match result {
            AttemptResult::Answered(status) => format!(" -> {status} in {took_ms} ms"),
            AttemptResult::Unanswered(failure) => format!(" -> no answer: {failure:?}"),
        }
    }
}

/// An event of the stream, not yet read.
#[derive(Debug, PartialEq, Eq)]
struct RawEvent {
    id: String,
    data: String,
}

/// The lines of a stream as they come in pieces. Source: HTML, "Server-sent events".
#[derive(Debug, Default)]
struct Lines {
    rest: Vec<u8>,
    id: String,
    data: String,
}

impl Lines {
    /// The events that end within these bytes.
    fn take(&mut self, bytes: &[u8]) -> Vec<RawEvent> {
        self.rest.extend_from_slice(bytes);
        let mut told = Vec::new();
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\r', '\n']);
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match name {
                "id" => value.clone_into(&mut self.id),
                "data" => self.data.push_str(value),
                "" if line.is_empty() && !self.data.is_empty() => {
                    told.push(RawEvent {
                        id: self.id.clone(),
                        data: std::mem::take(&mut self.data),
                    });
                }
                _ => {}
            }
        }
        if self.rest.len() > LINE_BYTES_MAX {
            // Nothing of ours is as long: it is no line of such a stream.
            self.rest.clear();
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn an_event_is_printed_with_the_id_of_its_transaction() {
        let data = r#"{"event":"transaction.created","transaction":{"id":"00000000-0000-7000-8000-000000000001"},
            "company":{"id":"00000000-0000-0000-0000-000000000005"},"sequence":7,"cursor":"a",
            "created_at":"2026-03-04T20:00:00.000000Z"}"#;
        let event: StreamedEvent<'_> = serde_json::from_str(data).unwrap();
        assert_eq!(
            event.line(),
            "2026-03-04T20:00:00.000000Z transaction.created 00000000-0000-7000-8000-000000000001"
        );
    }

    #[test]
    fn events_are_read_however_they_are_cut() {
        let stream = ": hello\n\nid: a\nevent: x\ndata: {\"n\": 1}\n\n:\n\nid:b\r\ndata:2\r\n\r\nid: c\ndata: 3";
        let expected = [("a", "{\"n\": 1}"), ("b", "2")]
            .map(|(id, data)| RawEvent { id: id.to_owned(), data: data.to_owned() });
        for piece in 1..stream.len() {
            let mut lines = Lines::default();
            let told: Vec<_> =
                stream.as_bytes().chunks(piece).flat_map(|bytes| lines.take(bytes)).collect();
            assert_eq!(told, expected, "in pieces of {piece}");
        }
    }

    /// Answers requests one after another, each by the next of these lines. Returns their heads.
    async fn answer(listener: &TcpListener, answers: &[&str]) -> Vec<String> {
        let mut heads = Vec::new();
        for body in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let (mut head, mut piece) = (Vec::new(), [0; 1024]);
            while !head.ends_with(b"\r\n\r\n") {
                let length = stream.read(&mut piece).await.unwrap();
                head.extend_from_slice(&piece[..length]);
            }
            heads.push(String::from_utf8(head).unwrap());
            let answer = format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{body}");
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
        heads
    }

    /// Once, a stream that broke before its first event was asked for again from "now" on.
    #[tokio::test]
    async fn a_stream_that_breaks_goes_on_where_it_began() {
        let switch = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let args = ListenArgs {
            url: format!("http://{}", switch.local_addr().unwrap()),
            token: "t".to_owned(),
            http_tls: HttpTlsArgs::default(),
            forward_to: None,
            since: None,
        };
        let listener = EventListener::new(&args).unwrap();
        let place = r#"{"results":[],"cursor":"begin","has_more":false}"#;
        let answers = [place, "", "id: next\ndata: {}\n\n", ""];
        let heads = tokio::select! {
            heads = answer(&switch, &answers) => heads,
            failure = listener.listen() => panic!("{failure:?}"),
        };
        let rows = [("/v1/events?", None), ("/v1/events/stream", Some("begin"))];
        let rows = rows.into_iter().chain([("/v1/events/stream", Some("begin"))]);
        let rows = rows.chain([("/v1/events/stream", Some("next"))]);
        for ((path, last), head) in rows.zip(&heads) {
            assert!(head.starts_with(&format!("GET {path}")), "{head}");
            let told = head.lines().find_map(|line| line.strip_prefix("last-event-id: "));
            assert_eq!(told, last, "{head}");
        }
    }
}
