//! The switch's books over HTTP: every transaction of every card that the feed used.
//!
//! Reads GET {url}/network/v1/cards/{card_id}/transactions with a network key, page by page, on one
//! connection.

use chrono::{DateTime, Utc};
use hyper::{Method, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::books::{Books, Difference, PossibleState, State, TransactionView};
use super::http_client::{HttpClient, failed};
use super::portfolio::Portfolio;
use super::report::{ComparedBooks, Comparison};
use super::scenario::Money;
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

/// Compares every transaction; cards that the switch does not know stay unchecked.
/// Errors: no connection, an answer that is not what the door promises.
pub(super) fn compare(
    source: &HttpSource,
    compared: &ComparisonInput<'_>,
) -> Result<(Comparison, Vec<Difference>), FeedError> {
    let mut reader = TransactionReader::open(source)?;
    let (mut cards, mut unchecked, mut differences) = (0, 0, Vec::new());
    for slot in compared.books.cards() {
        let Some(card) = compared.portfolio.card(slot) else { continue };
        let Some(views) = reader.transactions(&card.card_id)? else {
            unchecked += 1;
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
    let compared = ComparedBooks::Transactions;
    Ok((Comparison { compared, cards, unchecked }, differences))
}

/// The clock of a switch; none where it tells none.
/// Errors: no connection, an answer that is not what the door promises.
pub fn clock_of(source: &HttpSource) -> Result<Option<SwitchClock>, FeedError> {
    TransactionReader::open(source)?.get("clock")
}

/// A clock as a switch tells it.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct SwitchClock {
    /// Its time.
    pub now: DateTime<Utc>,
    /// Whether messages move it; else it is the system's.
    pub manual: bool,
}

/// A page as the door renders it.
#[derive(Deserialize)]
struct TransactionPage {
    count: usize,
    results: Vec<DoorRow>,
}

/// A transaction as the door renders it. Amounts are decimals of the account's currency.
#[derive(Deserialize)]
struct DoorRow {
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

struct TransactionReader {
    client: HttpClient,
    authorization: String,
}

impl TransactionReader {
    fn open(source: &HttpSource) -> Result<Self, FeedError> {
        let client = HttpClient::open(source)?;
        Ok(Self { client, authorization: source.authorization() })
    }

    /// All transactions of a card that carry a reference number of twelve digits; none where the
    /// switch does not know the card.
    fn transactions(&mut self, card_id: &str) -> Result<Option<Vec<TransactionView>>, FeedError> {
        let mut views = Vec::new();
        let mut offset = 0;
        loop {
            let Some(page) = self.page(card_id, offset)? else { return Ok(None) };
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

    fn page(&mut self, card_id: &str, offset: usize) -> Result<Option<TransactionPage>, FeedError> {
        self.get(&format!("cards/{card_id}/transactions?limit={PAGE_LEN}&offset={offset}"))
    }

    /// Asks the network door; none where there is nothing.
    fn get<T: DeserializeOwned>(&mut self, what: &str) -> Result<Option<T>, FeedError> {
        let path = format!("/network/v1/{what}");
        let headers = [("authorization", self.authorization.as_str())];
        let (status, body) = self.client.exchange((Method::GET, &path), &headers, None)?;
        match status {
            StatusCode::OK => serde_json::from_slice(&body).map(Some).map_err(failed),
            StatusCode::NOT_FOUND => Ok(None),
            other => Err(failed(format!("status {other}"))),
        }
    }
}

/// A row as the books see it; nothing for a transaction without a reference number.
fn view_of(row: &DoorRow) -> Result<Option<TransactionView>, FeedError> {
    let Some(rrn) = row.rrn.as_deref().and_then(|rrn| rrn.trim().parse().ok()) else {
        return Ok(None);
    };
    let state = match row.state.as_str() {
        "declined" => State::Declined,
        "pending" => State::Pending,
        "completed" => State::Completed,
        "canceled" => State::Canceled,
        other => return Err(failed(format!("unknown state `{other}`"))),
    };
    let world = PossibleState {
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
    let money = Money::parse_any(&amount.to_string());
    let minor = money.map(|money| money.minor.unsigned_abs());
    minor.ok_or_else(|| failed(format!("`{amount}` is not an amount")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_views() {
        let page: TransactionPage = serde_json::from_str(
            r#"{"count":3,"results":[
                {"transaction_id":"t","rrn":"000000000042","acquirer":"400101","state":"pending","amount":-12.34,"held":12.34,"posted":0,"response_code":null,"authorization_id":"A1B2C3"},
                {"rrn":"000000000043","state":"declined","held":0,"posted":0.00,"response_code":1502},
                {"rrn":null,"state":"completed","held":0,"posted":5}]}"#,
        )
        .unwrap();
        let views: Vec<_> = page.results.iter().filter_map(|row| view_of(row).unwrap()).collect();
        let pending = PossibleState { state: State::Pending, held_minor: 1234, posted_minor: 0 };
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
