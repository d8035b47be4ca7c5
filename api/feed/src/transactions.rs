//! The switch's books over HTTP: every transaction of every card that the feed used.
//!
//! Reads GET {url}/network/v1/cards/{card_id}/transactions with a network key, page by page, on one
//! connection.

use std::str::FromStr;

use chrono::{DateTime, Utc};
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

use super::books::{Books, Difference, State, TransactionView, World};
use super::merchants::ACCOUNT_CURRENCY;
use super::portfolio::Portfolio;
use super::{FeedError, HttpSource};

/// Transactions asked for at a time.
const PAGE_LEN: usize = 1000;

/// The sides of the comparison: the ledger, the cards it is about, the run's own reference numbers.
pub(super) struct ComparisonInput<'a> {
    pub(super) books: &'a Books,
    pub(super) portfolio: &'a Portfolio,
    pub(super) now_us: u64,
    pub(super) owns_rrn: &'a dyn Fn(u64) -> bool,
}

/// Compares every transaction. Returns the number of cards that were looked at, and of those that
/// the switch does not know.
/// Errors: no connection, an answer that is not what the door promises.
pub(super) fn compare(
    source: &HttpSource,
    compared: &ComparisonInput<'_>,
) -> Result<(usize, usize, Vec<Difference>), FeedError> {
    runtime()?.block_on(compare_all(source, compared))
}

/// The time of a switch on a manual clock; none where it goes by the system's.
/// Errors: no connection, an answer that is not what the door promises.
pub fn manual_clock(source: &HttpSource) -> Result<Option<DateTime<Utc>>, FeedError> {
    let runtime = runtime()?;
    let clock = async { Reader::open(source).await?.get::<Clock>("clock").await };
    let clock = runtime.block_on(clock)?;
    Ok(clock.filter(|clock| clock.manual).map(|clock| clock.now))
}

#[derive(Deserialize)]
struct Clock {
    now: DateTime<Utc>,
    manual: bool,
}

fn runtime() -> Result<Runtime, FeedError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
    runtime.map_err(|source| FeedError::Thread { source })
}

async fn compare_all(
    source: &HttpSource,
    compared: &ComparisonInput<'_>,
) -> Result<(usize, usize, Vec<Difference>), FeedError> {
    let mut reader = Reader::open(source).await?;
    let (mut cards, mut unknown, mut differences) = (0, 0, Vec::new());
    for slot in compared.books.cards() {
        let Some(card) = compared.portfolio.card(slot) else { continue };
        let Some(views) = reader.transactions(&card.card_id).await? else {
            unknown += 1;
            continue;
        };
        cards += 1;
        let found = compared.books.compare(slot, &views, compared.now_us, compared.owns_rrn);
        differences.extend(found.into_iter().map(|mismatch| Difference {
            card_id: card.card_id.clone(),
            rrn: Some(format!("{:012}", mismatch.rrn)),
            expected: mismatch.expected,
            found: mismatch.found,
        }));
    }
    Ok((cards, unknown, differences))
}

/// A page as the door renders it.
#[derive(Deserialize)]
struct Page {
    count: usize,
    results: Vec<Row>,
}

/// A transaction as the door renders it. Amounts are decimals of the account's currency.
#[derive(Deserialize)]
struct Row {
    #[serde(default)]
    rrn: Option<String>,
    state: String,
    held: serde_json::Number,
    posted: serde_json::Number,
    #[serde(default)]
    response_code: Option<u16>,
    /// None where the door tells of none.
    #[serde(default)]
    flags: Option<Vec<String>>,
}

struct Reader<'a> {
    source: &'a HttpSource,
    authority: String,
    sender: SendRequest<Empty<Bytes>>,
}

impl<'a> Reader<'a> {
    async fn open(source: &'a HttpSource) -> Result<Self, FeedError> {
        let bad_url = || FeedError::BadUrl { url: source.url.clone() };
        let uri = Uri::from_str(&source.url).map_err(|_| bad_url())?;
        let authority = uri.authority().ok_or_else(bad_url)?.to_string();
        let address = (uri.host().ok_or_else(bad_url)?, uri.port_u16().unwrap_or(80));
        let failed = |error: std::io::Error| FeedError::Http { message: error.to_string() };
        let stream = TcpStream::connect(address).await.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(http_error)?;
        // The connection's own error shows in the request that it fails.
        tokio::spawn(async move { drop(connection.await) });
        Ok(Self { source, authority, sender })
    }

    /// All transactions of a card that carry a reference number of twelve digits; none where the
    /// switch does not know the card.
    async fn transactions(
        &mut self,
        card_id: &str,
    ) -> Result<Option<Vec<TransactionView>>, FeedError> {
        let mut views = Vec::new();
        let mut offset = 0;
        loop {
            let Some(page) = self.page(card_id, offset).await? else { return Ok(None) };
            let len = page.results.len();
            for row in page.results {
                views.extend(view_of(&row)?);
            }
            offset += len;
            if len == 0 || offset >= page.count {
                return Ok(Some(views));
            }
        }
    }

    async fn page(&mut self, card_id: &str, offset: usize) -> Result<Option<Page>, FeedError> {
        self.get(&format!("cards/{card_id}/transactions?limit={PAGE_LEN}&offset={offset}")).await
    }

    /// Asks the network door; none where there is nothing.
    async fn get<T: DeserializeOwned>(&mut self, what: &str) -> Result<Option<T>, FeedError> {
        let base = self.source.url.trim_end_matches('/');
        let path = format!(
            "{}/network/v1/{what}",
            base.split_once("://")
                .and_then(|(_, rest)| rest.split_once('/'))
                .map_or(String::new(), |(_, prefix)| format!("/{prefix}"))
        );
        let request = Request::get(path)
            .header("host", &self.authority)
            .header("authorization", format!("Bearer {}", self.source.network_key))
            .body(Empty::new())
            .map_err(|error| FeedError::Http { message: error.to_string() })?;
        self.sender.ready().await.map_err(http_error)?;
        let response = self.sender.send_request(request).await.map_err(http_error)?;
        let status = response.status();
        let body = response.into_body().collect().await.map_err(http_error)?.to_bytes();
        match status {
            StatusCode::OK => serde_json::from_slice(&body)
                .map(Some)
                .map_err(|error| FeedError::Http { message: error.to_string() }),
            StatusCode::NOT_FOUND => Ok(None),
            other => Err(FeedError::Http { message: format!("status {other}") }),
        }
    }
}

/// A row as the books see it; nothing for a transaction without a reference number.
fn view_of(row: &Row) -> Result<Option<TransactionView>, FeedError> {
    let Some(rrn) = row.rrn.as_deref().and_then(|rrn| rrn.trim().parse().ok()) else {
        return Ok(None);
    };
    let state = match row.state.as_str() {
        "declined" => State::Declined,
        "pending" => State::Pending,
        "completed" => State::Completed,
        "canceled" => State::Canceled,
        other => return Err(FeedError::Http { message: format!("unknown state `{other}`") }),
    };
    let world = World {
        state,
        held_minor: minor_units(&row.held)?,
        posted_minor: minor_units(&row.posted)?,
    };
    let response_code = row.response_code.or(match state {
        State::Declined => None,
        _ => Some(0),
    });
    let over_refunded =
        row.flags.as_ref().map(|flags| flags.iter().any(|flag| flag == "over_refunded"));
    Ok(Some(TransactionView { rrn, world, response_code, over_refunded }))
}

/// A decimal amount in minor units; the sign says only which way it counts.
fn minor_units(amount: &serde_json::Number) -> Result<u64, FeedError> {
    let exponent = u32::from(ACCOUNT_CURRENCY.exponent().unwrap_or(0));
    let bad_amount = || FeedError::Http { message: format!("`{amount}` is not an amount") };
    let decimal = Decimal::from_str(&amount.to_string()).map_err(|_| bad_amount())?;
    let minor = decimal.abs() * Decimal::from(10_u64.pow(exponent));
    if !minor.fract().is_zero() {
        return Err(bad_amount());
    }
    minor.to_u64().ok_or_else(bad_amount)
}

fn http_error(error: hyper::Error) -> FeedError {
    FeedError::Http { message: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_views() {
        let page: Page = serde_json::from_str(
            r#"{"count":3,"results":[
                {"transaction_id":"t","rrn":"000000000042","acquirer":"400101","state":"pending","amount":-12.34,"held":12.34,"posted":0,"response_code":null,"authorization_id":"A1B2C3"},
                {"rrn":"000000000043","state":"declined","held":0,"posted":0.00,"response_code":1502},
                {"rrn":null,"state":"completed","held":0,"posted":5}]}"#,
        )
        .unwrap();
        let views: Vec<_> = page.results.iter().filter_map(|row| view_of(row).unwrap()).collect();
        let pending = World { state: State::Pending, held_minor: 1234, posted_minor: 0 };
        assert_eq!(views.len(), 2);
        let response_code = Some(0);
        let view = TransactionView { rrn: 42, world: pending, response_code, over_refunded: None };
        assert_eq!(views[0], view);
        assert_eq!(views[1].response_code, Some(1502));
    }

    #[test]
    fn an_amount_with_too_many_decimals_is_refused() {
        let number: serde_json::Number = serde_json::from_str("1.005").unwrap();
        assert!(minor_units(&number).is_err());
        let number: serde_json::Number = serde_json::from_str("-20.10").unwrap();
        assert_eq!(minor_units(&number).unwrap(), 2010);
    }
}
