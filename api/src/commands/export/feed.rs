//! The events of a company as an export reads them: pages of `GET /v1/events` with their transactions.

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::StatusCode;
use hyper::client::conn::http1::SendRequest;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use url::Url;
use uuid::Uuid;

use super::super::Failure;
use super::super::http_client::{ANSWER_BYTES_MAX, connect, get, parse_url, refusal};
use super::super::listen::StreamEnd;
use super::database::ExportedPlace;
use super::rows::{ExportedEvent, PageRows};

/// Events of a page.
const PAGE_EVENTS: usize = 1_000;
/// How long the switch keeps a request that has no event to answer. Units: seconds.
const WAIT_S: usize = 20;
/// The header with the newest record that an answer can show.
const SEQ: &str = "cardswitch-seq";

/// Events of pages with their transactions, as rows.
#[derive(Debug)]
pub(super) struct ExportedPages {
    pub(super) rows: PageRows,
    pub(super) events: usize,
    /// When the last of them happened.
    pub(super) newest_at: Option<String>,
    /// The place behind it.
    pub(super) next: ExportedPlace,
}

/// A page as the switch answers it. Only its end is read at once: the next page is asked for by it.
#[derive(Debug)]
pub(super) struct AnsweredPage {
    body: Bytes,
    next: ExportedPlace,
}

#[derive(Debug, Deserialize)]
struct PageEnd<'a> {
    #[serde(borrow)]
    results: &'a RawValue,
    cursor: String,
    has_more: bool,
}

#[derive(Debug, Deserialize)]
struct PageEvents<'a> {
    #[serde(borrow)]
    results: Vec<ExportedEvent<'a>>,
}

impl ExportedPages {
    /// The events of pages that follow each other.
    /// Errors: one is none that this build understands.
    pub(super) fn read(pages: &[AnsweredPage]) -> Result<Self, StreamEnd> {
        let mut read = Vec::with_capacity(pages.len() * PAGE_EVENTS);
        for page in pages {
            let PageEvents { results } = serde_json::from_slice(&page.body)
                .map_err(|error| StreamEnd::Broken(format!("a page of events: {error}")))?;
            read.extend(results);
        }
        let newest_at = read.last().map(|event| event.created_at.clone());
        let next = pages.last().map(|page| page.next.clone()).unwrap_or_default();
        Ok(Self { rows: PageRows::of(&read), events: read.len(), newest_at, next })
    }
}

#[derive(Debug, Deserialize)]
struct CompanyId {
    id: Uuid,
}

/// A connection to a switch.
pub(super) struct Feed {
    url: Url,
    authorization: String,
    client: SendRequest<Empty<Bytes>>,
}

impl Feed {
    /// Errors: nobody is there.
    pub(super) async fn open(url: &str, token: &str) -> Result<Self, StreamEnd> {
        let url = parse_url(url).map_err(StreamEnd::Refused)?;
        let client = connect(&url).await.map_err(|error| broken(&url, &error))?;
        Ok(Self { url, authorization: format!("Token {token}"), client })
    }

    /// The company of the events.
    /// Errors: the token opens nothing.
    pub(super) async fn company(&mut self) -> Result<Uuid, StreamEnd> {
        let (body, _) = self.ask("/v1/company").await?;
        let CompanyId { id } = parse(&self.url, &body)?;
        Ok(id)
    }

    /// Hands over the pages behind a place, those that come later too unless `once`.
    /// Errors: the connection breaks, or the switch refuses.
    pub(super) async fn read(
        mut self,
        mut place: ExportedPlace,
        once: bool,
        pages: mpsc::Sender<AnsweredPage>,
    ) -> Result<(), StreamEnd> {
        loop {
            let wait_s = if once { 0 } else { WAIT_S };
            let after = place.cursor.as_ref().map(|cursor| format!("&after={cursor}"));
            let target = format!(
                "/v1/events?expand=transaction&limit={PAGE_EVENTS}&wait_s={wait_s}&min_seq={}{}",
                place.seq,
                after.unwrap_or_default()
            );
            let (body, seq) = self.ask(&target).await?;
            let PageEnd { results, cursor, has_more } = parse(&self.url, &body)?;
            place = ExportedPlace { cursor: Some(cursor), seq: seq.max(place.seq) };
            let is_empty = results.get() == "[]";
            let page = AnsweredPage { body, next: place.clone() };
            let is_gone = !is_empty && pages.send(page).await.is_err();
            // Why nobody takes them, the writer knows.
            if is_gone || (once && !has_more) {
                return Ok(());
            }
        }
    }

    /// The body of an answer, and the newest record that it can show.
    async fn ask(&mut self, target: &str) -> Result<(Bytes, u64), StreamEnd> {
        let url = parse_url(&format!("{}{target}", self.url.as_str().trim_end_matches('/')));
        let url = url.map_err(StreamEnd::Refused)?;
        let request = get(&url, &self.authorization).body(Empty::new());
        let request = request.map_err(|_| {
            StreamEnd::Refused(Failure::usage("the access token has characters none can have"))
        })?;
        self.client.ready().await.map_err(|error| broken(&url, &error))?;
        let answered = self.client.send_request(request).await;
        let answer = answered.map_err(|error| broken(&url, &error))?;
        let status = answer.status();
        if status != StatusCode::OK {
            let passes = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
            let words = refusal(answer).await;
            return Err(match passes {
                true => StreamEnd::Broken(words),
                false => StreamEnd::Refused(Failure::new(words)),
            });
        }
        let seq = answer.headers().get(SEQ).and_then(|seq| seq.to_str().ok()?.parse().ok());
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| broken(&url, &error))?.to_bytes();
        Ok((body, seq.unwrap_or_default()))
    }
}

fn parse<'a, T: Deserialize<'a>>(url: &Url, body: &'a [u8]) -> Result<T, StreamEnd> {
    serde_json::from_slice(body).map_err(|error| broken(url, &error))
}

fn broken(url: &Url, error: &dyn std::fmt::Display) -> StreamEnd {
    StreamEnd::Broken(format!("`{}`: {error}", url.origin().ascii_serialization()))
}
