//! A company as an export reads it: pages of `GET /v1/events` with their transactions, and statement lines.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::time::timeout;
use url::Url;
use uuid::Uuid;

use super::super::Failure;
use super::super::http_client::{
    ANSWER_BYTES_MAX, SwitchConnection, connect, get, parse_url, refusal,
};
use super::super::http_tls_args::HttpTls;
use super::super::listen::StreamEnd;
use super::database::ExportedPlace;
use super::rows::{ExportedEvent, PageRows};

/// Rows of a page, unless these are too long together.
const PAGE_ROWS: usize = 1_000;
/// How long the switch keeps a request that has no event to answer. Units: seconds.
const WAIT_S: u64 = 20;
/// How long a request may take with its answer. A machine that died silently never ends one.
const ANSWER_WITHIN: Duration = Duration::from_secs(WAIT_S + 40);
/// The error of a switch that takes longer.
const NO_ANSWER: &str = "no answer in time";
/// The error of a switch that lacks an exported record.
const RESTORED: &str = "the switch lacks what is exported already: it was restored to an earlier state. \
    `--afresh` removes the company's rows and begins again";
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
    is_place_lost: bool,
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
        let mut read = Vec::with_capacity(pages.len() * PAGE_ROWS);
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

/// A page of a list.
#[derive(Debug, Deserialize)]
struct ListedPage<'a> {
    #[serde(borrow)]
    results: &'a RawValue,
    next: Option<String>,
}

/// An account, by its id.
#[derive(Debug, Deserialize)]
struct AccountRef {
    id: Uuid,
}

/// A statement line among those of its account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct LineMark {
    pub(super) number: i64,
    pub(super) id: Uuid,
}

/// Statement lines of an account that follow each other.
#[derive(Debug)]
pub(super) struct ExportedLines {
    /// A JSON array.
    pub(super) lines: String,
    pub(super) has_more: bool,
    /// The switch's newest record when they were read.
    pub(super) seq: u64,
}

impl ExportedLines {
    /// That the first of them is a line which was exported before.
    /// Errors: it is another one, or there is none.
    pub(super) fn begin_with(&self, exported: LineMark) -> Result<(), StreamEnd> {
        let marks = serde_json::from_str::<Vec<LineMark>>(&self.lines)
            .map_err(|error| StreamEnd::Broken(format!("a page of statement lines: {error}")))?;
        if marks.first() == Some(&exported) { Ok(()) } else { Err(restored()) }
    }
}

/// The company of an export.
#[derive(Debug, Deserialize)]
pub(super) struct ExportedCompany {
    pub(super) id: Uuid,
    pub(super) currency: String,
    pub(super) time_zone: String,
}

/// The body of an answer, and the newest record that it can show; none where it is too long to be read.
type FeedAnswer = Option<(Bytes, u64)>;

/// A connection to a switch.
pub(super) struct Feed {
    url: Url,
    tls: HttpTls,
    authorization: String,
    client: SwitchConnection,
}

impl Feed {
    /// Errors: nobody is there.
    pub(super) async fn open(url: &Url, tls: &HttpTls, token: &str) -> Result<Self, StreamEnd> {
        let (url, tls) = (url.clone(), tls.clone());
        let client = connect_in_time(&url, &tls).await?;
        Ok(Self { url, tls, authorization: format!("Token {token}"), client })
    }

    /// The company of the events.
    /// Errors: the token opens nothing.
    pub(super) async fn company(&mut self) -> Result<ExportedCompany, StreamEnd> {
        let (body, _) = self.ask("/v1/company").await?.unwrap_or_default();
        parse(&self.url, &body)
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
            let (body, seq) = self.page(&place, wait_s).await?;
            let PageEnd { results, cursor, has_more, is_place_lost } = parse(&self.url, &body)?;
            if is_place_lost {
                return Err(restored());
            }
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

    /// Asks whether the switch has what is exported up to a place.
    /// Errors: it lacks some of it, or the connection breaks.
    pub(super) async fn prove(&mut self, place: &ExportedPlace) -> Result<(), StreamEnd> {
        let (body, _) = self.page(place, 0).await?;
        let PageEnd { is_place_lost, .. } = parse(&self.url, &body)?;
        if is_place_lost { Err(restored()) } else { Ok(()) }
    }

    /// The page behind a place.
    async fn page(
        &mut self,
        place: &ExportedPlace,
        wait_s: u64,
    ) -> Result<(Bytes, u64), StreamEnd> {
        let after = place.cursor.as_ref().map(|cursor| format!("&after={cursor}"));
        let (seq, after) = (place.seq, after.unwrap_or_default());
        let list = format!("/v1/events?expand=transaction&wait_s={wait_s}&min_seq={seq}{after}");
        self.ask_for_rows(&list).await
    }

    /// The accounts of the company, as of a record or later.
    pub(super) async fn accounts(&mut self, seq: u64) -> Result<Vec<Uuid>, StreamEnd> {
        let (body, _) = self.ask_for_rows(&format!("/v1/accounts?min_seq={seq}")).await?;
        let page: ListedPage<'_> = parse(&self.url, &body)?;
        let accounts: Vec<AccountRef> = parse(&self.url, page.results.get().as_bytes())?;
        Ok(accounts.into_iter().map(|account| account.id).collect())
    }

    /// The lines of an account behind a number, as of a record or later.
    pub(super) async fn lines_behind(
        &mut self,
        account: Uuid,
        number: i64,
        seq: u64,
    ) -> Result<ExportedLines, StreamEnd> {
        let list = format!(
            "/v1/accounts/{account}/statement-lines?ordering=number&number__gt={number}&min_seq={seq}"
        );
        let (body, seq) = self.ask_for_rows(&list).await?;
        let page: ListedPage<'_> = parse(&self.url, &body)?;
        let (lines, has_more) = (page.results.get().to_owned(), page.next.is_some());
        Ok(ExportedLines { lines, has_more, seq })
    }

    /// A page of a list, with fewer rows where all would be too long.
    async fn ask_for_rows(&mut self, list: &str) -> Result<(Bytes, u64), StreamEnd> {
        let mut limit = PAGE_ROWS;
        while limit > 0 {
            if let Some(page) = self.ask(&format!("{list}&limit={limit}")).await? {
                return Ok(page);
            }
            limit /= 2;
            // The rest of the long answer is still under way.
            self.client = connect_in_time(&self.url, &self.tls).await?;
        }
        let words = format!("a row of {list} is longer than {ANSWER_BYTES_MAX} bytes");
        Err(StreamEnd::Refused(Failure::new(words)))
    }

    async fn ask(&mut self, target: &str) -> Result<FeedAnswer, StreamEnd> {
        self.ask_within(ANSWER_WITHIN, target).await
    }

    async fn ask_within(&mut self, bound: Duration, target: &str) -> Result<FeedAnswer, StreamEnd> {
        let late = Err(broken(&self.url, &NO_ANSWER));
        timeout(bound, self.ask_without_bound(target)).await.unwrap_or(late)
    }

    async fn ask_without_bound(&mut self, target: &str) -> Result<FeedAnswer, StreamEnd> {
        let url = parse_url(&format!("{}{target}", self.url.as_str().trim_end_matches('/')));
        let url = url.map_err(StreamEnd::Refused)?;
        let request = get(&url, &self.authorization).body(Empty::new());
        let request = request.map_err(|_| {
            StreamEnd::Refused(Failure::usage("the access token has characters none can have"))
        })?;
        let answered = self.client.ask(request).await;
        let answer = answered.map_err(|error| broken(&url, &error))?;
        let status = answer.status();
        if status != StatusCode::OK {
            let passes = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
            let refused = refusal(answer).await;
            return Err(match passes {
                true => StreamEnd::Broken(refused.to_string()),
                false if refused.is_of("min_seq", "out_of_range") => restored(),
                false => StreamEnd::Refused(Failure::new(refused)),
            });
        }
        let seq = answer.headers().get(SEQ).and_then(|seq| seq.to_str().ok()?.parse().ok());
        match Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await {
            Ok(body) => Ok(Some((body.to_bytes(), seq.unwrap_or_default()))),
            Err(error) if error.is::<LengthLimitError>() => Ok(None),
            Err(error) => Err(broken(&url, &error)),
        }
    }
}

fn restored() -> StreamEnd {
    StreamEnd::Refused(Failure::new(RESTORED))
}

async fn connect_in_time(url: &Url, tls: &HttpTls) -> Result<SwitchConnection, StreamEnd> {
    match timeout(ANSWER_WITHIN, connect(url, tls)).await {
        Ok(connected) => connected.map_err(|error| broken(url, &error)),
        Err(_) => Err(broken(url, &NO_ANSWER)),
    }
}

fn parse<'a, T: Deserialize<'a>>(url: &Url, body: &'a [u8]) -> Result<T, StreamEnd> {
    serde_json::from_slice(body).map_err(|error| broken(url, &error))
}

fn broken(url: &Url, error: &dyn std::fmt::Display) -> StreamEnd {
    StreamEnd::Broken(format!("`{}`: {error}", url.origin().ascii_serialization()))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    /// Answers a target with a status and a body; none never.
    type Answers = fn(&str) -> Option<(u16, String)>;

    /// A switch in name, and what it was asked.
    struct FakeSwitch {
        url: String,
        asked: Arc<Mutex<Vec<String>>>,
    }

    impl FakeSwitch {
        async fn start(answers: Answers) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}", listener.local_addr().unwrap());
            let asked = Arc::<Mutex<Vec<String>>>::default();
            let log = Arc::clone(&asked);
            tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(serve(stream, answers, Arc::clone(&log)));
                }
            });
            Self { url, asked }
        }

        async fn feed(&self) -> Feed {
            let url = parse_url(&self.url).unwrap();
            Feed::open(&url, &HttpTls::default(), "token").await.unwrap()
        }
    }

    /// Answers requests until the client goes.
    async fn serve(stream: TcpStream, answers: Answers, asked: Arc<Mutex<Vec<String>>>) {
        let mut lines = BufReader::new(stream).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let Some(target) = line.strip_prefix("GET ") else { continue };
            let target = target.trim_end_matches(" HTTP/1.1").to_owned();
            asked.lock().unwrap().push(target.clone());
            let Some((status, body)) = answers(&target) else {
                return std::future::pending().await;
            };
            let head = format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\n\r\n", body.len());
            let answer = [head, body].concat();
            if lines.get_mut().write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    }

    /// Once, an export asked for the same page again and again.
    #[tokio::test]
    async fn a_page_that_is_too_long_is_asked_for_in_parts() {
        let switch = FakeSwitch::start(|target| {
            let has_more = !target.contains("after=c");
            let is_long = has_more && ["=1000", "=500"].iter().any(|limit| target.contains(limit));
            let body = match is_long {
                true => " ".repeat(ANSWER_BYTES_MAX + 1),
                false => format!(
                    r#"{{"results": [1], "cursor": "c", "has_more": {has_more}, "is_place_lost": false}}"#
                ),
            };
            Some((200, body))
        })
        .await;
        let (pages, mut read) = mpsc::channel(8);
        switch.feed().await.read(ExportedPlace::default(), true, pages).await.unwrap();
        assert!(read.recv().await.is_some() && read.recv().await.is_some());
        let asked = switch.asked.lock().unwrap();
        let limits = asked.iter().map(|target| target.rsplit('=').next().unwrap());
        assert_eq!(limits.collect::<Vec<_>>(), ["1000", "500", "250", "1000"]);
    }

    /// Once, the error named a parameter that nobody had set.
    #[tokio::test]
    async fn a_restored_switch_is_called_so() {
        let switch = FakeSwitch::start(|target| {
            let param = if target.contains("min_seq=7") { "min_seq" } else { "after" };
            let detail = r#"{"code": "out_of_range", "message": "no", "param": "PARAM"}"#;
            Some((400, format!(r#"{{"detail": {}}}"#, detail.replace("PARAM", param))))
        })
        .await;
        let rows = [(7, RESTORED), (0, "the switch refuses (400 Bad Request): no")];
        for (seq, expected) in rows {
            let (pages, _read) = mpsc::channel(1);
            let place = ExportedPlace { cursor: None, seq };
            let end = switch.feed().await.read(place, true, pages).await;
            let Err(StreamEnd::Refused(failure)) = end else { panic!("{end:?}") };
            assert_eq!(failure.message, expected);
        }
    }

    /// Once, an export waited for ever for a machine that had lost its power.
    #[tokio::test]
    async fn a_switch_that_falls_silent_is_given_up() {
        let switch = FakeSwitch::start(|_| None).await;
        let mut feed = switch.feed().await;
        let asked = feed.ask_within(Duration::from_millis(50), "/v1/company").await;
        let Err(StreamEnd::Broken(why)) = asked else { panic!("{asked:?}") };
        assert!(why.ends_with(NO_ANSWER), "{why}");
    }
}
