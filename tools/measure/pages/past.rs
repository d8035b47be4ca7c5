//! A switch with a past: a data directory, transactions of its last months from the feed and as many of
//! today as are wanted from the load generator, and people who look at them.

use std::path::PathBuf;
use std::time::Duration;

use cardswitch_feed::Card;
use cardswitch_load::cards::{Choice, read_cards};
use cardswitch_load::load::Load;
use cardswitch_tools::Outcome;
use cardswitch_tools::switch::{Switch, init, run};
use chrono::{TimeDelta, Utc};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::http::Http;

/// How long purchases are made, and what they may take to be settled: virtual time ends before now.
const DAYS: i64 = 60;
const SETTLING_DAYS: i64 = 18;
const PASSWORD: &str = "a heron walks at low tide";
/// How long purchases of today are made before they are counted.
const FILLING: Duration = Duration::from_secs(2);

/// Somebody who signs in.
pub(crate) struct Person {
    pub(crate) email: String,
    pub(crate) password: String,
}

/// A switch that serves its past.
pub(crate) struct Past {
    pub(crate) switch: Switch,
    pub(crate) cards: Vec<Card>,
    pub(crate) administrator: Person,
    pub(crate) viewers: Vec<Person>,
    pub(crate) transactions: u64,
    /// The parts of the addresses of pages.
    card: String,
    transaction: String,
    shared: String,
    /// Dropped after the switch has closed it.
    _directory: TempDir,
}

impl Past {
    /// Makes the directory, feeds it in virtual time, serves it in real time and loads what lacks.
    /// Errors: a command fails.
    pub(crate) fn make(
        runtime: &Runtime,
        (cards, viewers): (u64, usize),
        (fed, transactions): (u64, u64),
    ) -> Outcome<Self> {
        let directory = TempDir::new()?;
        let place = |name| directory.path().join(name);
        let (data, file): (PathBuf, PathBuf) = (place("data"), place("cards.jsonl"));
        let (count, time) = (cards.to_string(), days_ago(DAYS + SETTLING_DAYS + 1));
        let credentials = init(&data, &file, &["--cards", &count, "--time", &time])?;
        let text = |name: &str| credentials[name].as_str().unwrap_or_default().to_owned();
        let data_text = data.to_string_lossy();
        let add = |number| add_viewer(&data_text, &text("company_id"), number);
        let viewers = (0..viewers).map(add).collect::<Outcome<Vec<_>>>()?;
        println!("feeding {} purchases of {DAYS} days", fed.min(transactions));
        feed(&data, &file.to_string_lossy(), fed.min(transactions))?;
        let switch = Switch::serve(&data, &[])?;
        let cards = read_cards(&file, Choice::Ordinary)?;
        let api =
            Api { runtime, switch: &switch, token: format!("Token {}", text("access_token")) };
        let completed = api.ask("/v1/transactions?limit=1&state=completed", None)?;
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let card = word(&completed["results"][0]["card"]["id"]);
        let transaction = word(&completed["results"][0]["id"]);
        let link = json!({ "card": { "id": card } });
        let link = word(&api.ask("/v1/shared-links", Some(&link))?["link"]);
        let shared = url::Url::parse(&link)?.path().to_owned();
        let filling = Load {
            in_flight_max: 256,
            warmup: Duration::ZERO,
            measured: FILLING,
            ..Load::default()
        };
        let mut made = api.count()?;
        while made < transactions {
            println!("{made} transactions, making more");
            switch.load(&cards, &filling)?;
            made = api.count()?;
        }
        let administrator = Person { email: text("admin_email"), password: text("admin_password") };
        let (transactions, _directory) = (made, directory);
        Ok(Self {
            switch,
            cards,
            administrator,
            viewers,
            transactions,
            card,
            transaction,
            shared,
            _directory,
        })
    }

    /// The address of a page.
    pub(crate) fn fill_in(&self, path: &str) -> String {
        path.replace("{card}", &self.card)
            .replace("{transaction}", &self.transaction)
            .replace("{shared}", &self.shared)
            .replace("{half}", &(self.transactions / 2).to_string())
    }
}

fn days_ago(days: i64) -> String {
    (Utc::now() - TimeDelta::days(days)).format("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn add_viewer(data: &str, company: &str, number: usize) -> Outcome<Person> {
    let email = format!("viewer{number}@example.com");
    let name = ["--first-name", "Ada", "--last-name", "Lovelace", "--role", "accountant"];
    let mut arguments = vec!["user", "add", "--data", data, "--company", company];
    arguments.extend(["--email", &email, "--password-stdin"].into_iter().chain(name));
    run(&arguments, PASSWORD)?;
    Ok(Person { email, password: PASSWORD.to_owned() })
}

/// Makes purchases, and what follows them, in virtual time.
fn feed(data: &std::path::Path, cards: &str, purchases: u64) -> Outcome<()> {
    let switch = Switch::serve(data, &["--clock", "manual"])?;
    let (door, rate) = (switch.iso8583.to_string(), purchases as f64 / (DAYS * 86_400) as f64);
    let (rate, duration, start) =
        (format!("{rate:.6}"), format!("{DAYS}d"), days_ago(DAYS + SETTLING_DAYS));
    let pace = ["--rate", &rate, "--duration", &duration, "--speed", "max", "--start", &start];
    let mut arguments = vec!["feed", "--connect", &door, "--cards", cards];
    arguments.extend(pace);
    run(&arguments, "")?;
    switch.stop()
}

/// Requests of `/v1`.
struct Api<'a> {
    runtime: &'a Runtime,
    switch: &'a Switch,
    token: String,
}

impl Api<'_> {
    /// The answer to a POST where there is a body, else to a GET.
    fn ask(&self, path: &str, body: Option<&Value>) -> Outcome<Value> {
        self.runtime.block_on(async {
            let mut client = Http::connect(self.switch.http).await?;
            let answer = match body {
                Some(body) => client.post(path, &self.token, body.to_string()).await?,
                None => client.get(path, &[("authorization", &self.token)]).await?,
            };
            Ok(serde_json::from_slice(&answer)?)
        })
    }

    fn count(&self) -> Outcome<u64> {
        let listed = self.ask("/v1/transactions?limit=1", None)?;
        listed["count"].as_u64().ok_or_else(|| "a list has no count".into())
    }
}
