//! A running switch. Its messages go through either door; cards are made and changed under `/v1`, the clock is
//! turned, and cards, account and transactions are read over HTTP. One connection, one request at a time.

use chrono::{DateTime, Utc};
use hyper::Method;
use serde_json::{Value, json};

use super::file::{Terms, TimeSpan};
use super::http_door;
use super::iso_door::IsoDoor;
use super::money::Money;
use super::step_request::{StepAnswer, StepRequest};
use super::switch::{AccountView, CardView, PlayedSwitch, ScenarioTransaction};
use super::{DoorProtocol, ScenarioOptions};
use crate::FeedError;
use crate::http_client::{HttpClient, failed};
use crate::merchants::ACCOUNT_CURRENCY;
use crate::message::Identity;
use crate::portfolio::Card;

/// Transactions of a card looked at: far more than a scenario makes.
const TRANSACTIONS_MAX: usize = 1000;

/// The rights that a request needs.
#[derive(Debug, Clone, Copy)]
pub(super) enum Access {
    /// The network key.
    Network,
    /// The access token of an administrator.
    Admin,
}

/// An answer of any status.
#[derive(Debug)]
pub(super) struct HttpAnswer {
    pub(super) status: u16,
    pub(super) body: Value,
}

/// The connection.
pub(super) struct SwitchApi<'a> {
    options: &'a ScenarioOptions,
    client: HttpClient,
    /// None where the messages go over HTTP.
    iso_door: Option<IsoDoor>,
}

impl<'a> SwitchApi<'a> {
    /// Connects.
    /// Errors: an address that is none, nobody there.
    pub(super) fn open(options: &'a ScenarioOptions) -> Result<Self, FeedError> {
        let client = HttpClient::open(&options.http)?;
        let iso_door = match options.door {
            DoorProtocol::Iso8583 => Some(IsoDoor::open(options)?),
            DoorProtocol::Http => None,
        };
        Ok(Self { options, client, iso_door })
    }

    /// Makes a request, and returns its answer.
    /// Errors: a broken connection, an answer that is no JSON.
    pub(super) fn call(
        &mut self,
        access: Access,
        place: (Method, &str),
        body: Option<&Value>,
    ) -> Result<HttpAnswer, FeedError> {
        self.exchange(access, place, None, body)
    }

    /// Sends a message of the card network, and returns its answer; the same key makes the same
    /// message a repeat.
    /// Errors: a broken connection, an answer that is no JSON.
    pub(super) fn send(
        &mut self,
        (path, key): (&str, &str),
        body: &Value,
    ) -> Result<HttpAnswer, FeedError> {
        self.exchange(Access::Network, (Method::POST, path), Some(key), Some(body))
    }

    fn exchange(
        &mut self,
        access: Access,
        place: (Method, &str),
        key: Option<&str>,
        body: Option<&Value>,
    ) -> Result<HttpAnswer, FeedError> {
        let authorization = match access {
            Access::Network => self.options.http.authorization(),
            Access::Admin => format!("Token {}", self.options.access_token),
        };
        let authorization = [("authorization", authorization.as_str())];
        let key = key.map(|key| ("idempotency-key", key));
        let headers: Vec<_> = authorization.into_iter().chain(key).collect();
        let (status, bytes) = self.client.exchange(place, &headers, body)?;
        let body = if bytes.is_empty() { Ok(Value::Null) } else { serde_json::from_slice(&bytes) };
        Ok(HttpAnswer { status: status.as_u16(), body: body.map_err(failed)? })
    }

    /// A request that has to succeed.
    /// Errors: it does not, told with the door's own words.
    fn demand(
        &mut self,
        access: Access,
        (method, path): (Method, &str),
        body: Option<&Value>,
    ) -> Result<Value, FeedError> {
        let shown = format!("{method} {path}");
        let HttpAnswer { status, body } = self.call(access, (method, path), body)?;
        if (200..300).contains(&status) {
            return Ok(body);
        }
        let detail = &body["detail"];
        let (message, param) = (&detail["message"], &detail["param"]);
        let message = message.as_str().unwrap_or_default();
        let param = param.as_str().unwrap_or_default();
        Err(failed(format!("{shown}: {status} {param} {message}")))
    }
}

impl PlayedSwitch for SwitchApi<'_> {
    fn clock_us(&mut self) -> Result<i64, FeedError> {
        let clock = self.demand(Access::Network, (Method::GET, "/network/v1/clock"), None)?;
        if clock["manual"] != true {
            let message = "the switch goes by the system's clock; `serve --clock manual` is needed";
            return Err(FeedError::Refused(message.to_owned()));
        }
        time_of(&clock)
    }

    fn set_clock(&mut self, at_us: i64) -> Result<i64, FeedError> {
        let at: Option<DateTime<Utc>> = DateTime::from_timestamp_micros(at_us);
        let now = at.ok_or_else(|| failed("beyond the calendar"))?.to_rfc3339();
        let (path, body) = ("/network/v1/clock", json!({ "now": now }));
        time_of(&self.demand(Access::Network, (Method::POST, path), Some(&body))?)
    }

    fn make_card(&mut self, (name, terms): (&str, &Terms), now_us: i64) -> Result<Card, FeedError> {
        let body = json!({
            "description": format!("Scenario: {name}"),
            "is_virtual": true,
            "allowance": terms_body(terms, now_us),
        });
        let card = self.demand(Access::Admin, (Method::POST, "/v1/cards"), Some(&body))?;
        let card_id = text_of(&card, "id")?;
        let path = format!("/network/v1/cards/{card_id}");
        let mut known = self.demand(Access::Network, (Method::GET, &path), None)?;
        known["pan"] = known["card_number"].take();
        known["allowance_id"] = json!(text_of(&card["allowance"], "id")?);
        serde_json::from_value(known).map_err(failed)
    }

    fn change_allowance(
        &mut self,
        card: &Card,
        terms: &Terms,
        now_us: i64,
    ) -> Result<(), FeedError> {
        let path = format!("/v1/allowances/{}", card.allowance_id);
        let body = terms_body(terms, now_us);
        self.demand(Access::Admin, (Method::PUT, &path), Some(&body)).map(drop)
    }

    fn set_card_state(&mut self, card: &Card, state: &str) -> Result<(), FeedError> {
        let path = format!("/v1/cards/{}", card.card_id);
        let body = json!({ "state": state });
        self.demand(Access::Admin, (Method::PUT, &path), Some(&body)).map(drop)
    }

    fn terminate_card(&mut self, card: &Card) -> Result<(), FeedError> {
        let path = format!("/v1/cards/{}", card.card_id);
        self.demand(Access::Admin, (Method::DELETE, &path), None).map(drop)
    }

    fn account(&mut self) -> Result<(String, AccountView), FeedError> {
        let list = self.demand(Access::Admin, (Method::GET, "/v1/accounts"), None)?;
        let account = &list["results"][0];
        let (own, currency) = (ACCOUNT_CURRENCY.code(), text_of(account, "currency")?);
        if currency != own {
            return Err(FeedError::Refused(format!(
                "the scenario's amounts are in {own}, and the company's account is in {currency}"
            )));
        }
        let view = AccountView {
            ledger: money_of(account, "ledger_balance")?,
            available: money_of(account, "available_balance")?,
            available_credit: money_of(account, "available_credit")?,
            pending_credits: money_of(account, "pending_credits")?,
        };
        Ok((text_of(account, "id")?, view))
    }

    fn card(&mut self, card: &Card) -> Result<CardView, FeedError> {
        let path = format!("/v1/cards/{}", card.card_id);
        let body = self.demand(Access::Admin, (Method::GET, &path), None)?;
        let allowance = &body["allowance"];
        let usage = &allowance["usage"];
        let daily_balance = match usage["daily_balance"].is_null() {
            true => None,
            false => Some(money_of(usage, "daily_balance")?),
        };
        let balance = money_of(allowance, "balance")?;
        Ok(CardView { balance, daily_balance, state: text_of(&body, "state")? })
    }

    fn card_transaction(
        &mut self,
        card: &Card,
        identity: Identity,
    ) -> Result<Option<ScenarioTransaction>, FeedError> {
        let path =
            format!("/network/v1/cards/{}/transactions?limit={TRANSACTIONS_MAX}", card.card_id);
        let page = self.demand(Access::Network, (Method::GET, &path), None)?;
        let number = |row: &Value, key: &str| row[key].as_str().and_then(|text| text.parse().ok());
        let is_ours = |row: &&Value| {
            number(row, "rrn") == Some(identity.rrn)
                && number(row, "stan") == Some(u64::from(identity.stan))
        };
        let row = page["results"].as_array().and_then(|rows| rows.iter().find(is_ours));
        let Some(row) = row else { return Ok(None) };
        let (held, posted) = (money_of(row, "held")?, money_of(row, "posted")?);
        let view = self.transaction(&text_of(row, "transaction_id")?)?;
        Ok(Some(ScenarioTransaction { held: Some(held), posted: Some(posted), ..view }))
    }

    fn transaction(&mut self, id: &str) -> Result<ScenarioTransaction, FeedError> {
        let path = format!("/v1/transactions/{id}");
        let body = self.demand(Access::Admin, (Method::GET, &path), None)?;
        let (state, amount) = (text_of(&body, "state")?, money_of(&body, "amount")?);
        Ok(ScenarioTransaction { state, amount, held: None, posted: None })
    }

    fn transfer(
        &mut self,
        transfer: (&str, Money),
        is_settled: bool,
    ) -> Result<StepAnswer, FeedError> {
        let body = transfer_body(transfer, is_settled);
        self.call(Access::Network, (Method::POST, "/network/v1/transfers"), Some(&body))
            .map(|answer| http_door::answered(&answer))
    }

    fn conclude(&mut self, id: &str, how: &str) -> Result<StepAnswer, FeedError> {
        let path = format!("/network/v1/transfers/{id}/{how}");
        self.call(Access::Network, (Method::POST, &path), None)
            .map(|answer| http_door::answered(&answer))
    }

    fn ask(&mut self, asked: &StepRequest<'_>) -> Result<Option<StepAnswer>, FeedError> {
        match &mut self.iso_door {
            Some(door) => door.ask(asked),
            None => http_door::ask(self, asked).map(Some),
        }
    }
}

/// The body of a transfer.
pub(super) fn transfer_body((account_id, amount): (&str, Money), is_settled: bool) -> Value {
    json!({
        "account_id": account_id,
        "amount": amount.decimal(),
        "bank_account": { "description": "Scenario", "name": "Checking", "number": "000123" },
        "settled": is_settled,
    })
}

/// The terms as `/v1` takes them; terms without a value are left out.
fn terms_body(terms: &Terms, now_us: i64) -> Value {
    let time = |span: TimeSpan| {
        DateTime::from_timestamp_micros(span.after_us(now_us))
            .map(|at: DateTime<Utc>| json!(at.to_rfc3339()))
    };
    let amount = |amount: Money| json!(amount.decimal());
    let given = [
        ("amount", terms.amount.map(amount)),
        ("interval", terms.interval.as_ref().map(|interval| json!(interval))),
        ("daily_limit", terms.daily_limit.map(amount)),
        ("transaction_limit", terms.transaction_limit.map(amount)),
        ("single_use", terms.single_use.map(|single_use| json!(single_use))),
        ("scope", terms.scope.as_ref().map(|scope| json!(scope))),
        ("start_time", terms.starts_in.and_then(time)),
        ("end_time", terms.ends_in.and_then(time)),
    ];
    let given = given.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    Value::Object(given.collect())
}

fn time_of(clock: &Value) -> Result<i64, FeedError> {
    let now = DateTime::parse_from_rfc3339(&text_of(clock, "now")?).map_err(failed)?;
    Ok(now.timestamp_micros())
}

fn text_of(body: &Value, key: &str) -> Result<String, FeedError> {
    let text = body[key].as_str();
    text.map(str::to_owned).ok_or_else(|| failed(format!("an answer without `{key}`")))
}

/// An amount of the account's currency.
pub(super) fn money_of(body: &Value, key: &str) -> Result<Money, FeedError> {
    let money = Money::parse_any(&body[key].to_string());
    money.ok_or_else(|| failed(format!("`{key}` of an answer is no amount: {}", body[key])))
}
