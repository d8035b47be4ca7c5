//! A switch with a past: a data directory, transactions of its last months from the feed and as many of
//! today as are wanted from the load generator, and people who look at them.

use std::time::Duration;

use cardswitch_feed::Card;
use cardswitch_harness::{Installation, Switch, run_cardswitch, run_cardswitch_reading};
use cardswitch_load::cards::{CardChoice, read_cards};
use cardswitch_load::load::Load;
use cardswitch_tools::Outcome;
use cardswitch_tools::switch::load_door;
use chrono::{TimeDelta, Utc};
use serde_json::{Value, json};

use crate::OPENING_BALANCE;

/// How long purchases are made, and what they may take to be settled: virtual time ends before now.
const DAYS: i64 = 60;
const SETTLING_DAYS: i64 = 18;
pub(super) const PASSWORD: &str = "a heron walks at low tide";
/// How long purchases of today are made before they are counted.
const FILLING: Duration = Duration::from_secs(2);

/// A switch that serves its past.
pub(crate) struct Past {
    pub(crate) switch: Switch,
    pub(crate) cards: Vec<Card>,
    /// The addresses of those who sign in with `PASSWORD`.
    pub(crate) viewers: Vec<String>,
    pub(crate) transactions: u64,
    /// The parts of the addresses of pages.
    card: String,
    transaction: String,
    shared: String,
    /// Dropped after the switch has closed it.
    _installation: Installation,
}

impl Past {
    /// Makes the directory, feeds it in virtual time, serves it in real time and loads what lacks.
    /// Errors: nobody answers.
    pub(crate) fn make(
        (cards, viewers): (u32, usize),
        (fed, transactions): (u64, u64),
    ) -> Outcome<Self> {
        let time = days_ago(DAYS + SETTLING_DAYS + 1);
        let installation = Installation::init_with(
            cards,
            7,
            &["--opening-balance", OPENING_BALANCE, "--time", &time],
        );
        let viewers = (0..viewers).map(|number| add_viewer(&installation, number)).collect();
        println!("feeding {} purchases of {DAYS} days", fed.min(transactions));
        feed(&installation, fed.min(transactions));
        let switch = installation.serve();
        let cards = read_cards(&installation.cards_file(), CardChoice::Ordinary)?;
        let completed = switch.api().get("/v1/transactions?limit=1&state=completed").expect(200);
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let card = word(&completed["results"][0]["card"]["id"]);
        let transaction = word(&completed["results"][0]["id"]);
        let link = json!({ "card": { "id": card } });
        let link = word(&switch.api().post("/v1/shared-links", &link).expect(201)["link"]);
        let shared = url::Url::parse(&link)?.path().to_owned();
        let (in_flight_max, warmup, measured) = (256, Duration::ZERO, FILLING);
        let filling = Load { in_flight_max, warmup, measured, ..Load::default() };
        let mut made = count(&switch)?;
        while made < transactions {
            println!("{made} transactions, making more");
            load_door(switch.iso8583, &cards, &filling)?;
            made = count(&switch)?;
        }
        let (transactions, _installation) = (made, installation);
        Ok(Self { switch, cards, viewers, transactions, card, transaction, shared, _installation })
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

/// Adds somebody who reads everything; returns the address.
fn add_viewer(installation: &Installation, number: usize) -> String {
    let (data, company) = (installation.data(), &installation.credentials.company_id);
    let data = data.to_string_lossy();
    let email = format!("viewer{number}@example.com");
    let mut arguments = vec!["user", "add", "--data", &data, "--company", company];
    arguments.extend(["--first-name", "Ada", "--last-name", "Lovelace", "--role", "accountant"]);
    arguments.extend(["--email", &email, "--password-stdin"]);
    run_cardswitch_reading(&arguments, format!("{PASSWORD}\n")).expect_done();
    email
}

/// Makes purchases, and what follows them, in virtual time.
fn feed(installation: &Installation, purchases: u64) {
    let switch = installation.serve_with(&["--clock", "manual"]);
    let (door, cards) = (switch.iso8583.to_string(), installation.cards_file());
    let cards = cards.to_string_lossy();
    let rate = format!("{:.6}", purchases as f64 / (DAYS * 86_400) as f64);
    let (duration, start) = (format!("{DAYS}d"), days_ago(DAYS + SETTLING_DAYS));
    let mut arguments = vec!["feed", "--connect", &door, "--cards", &cards];
    arguments.extend(["--rate", &rate, "--duration", &duration, "--speed", "max"]);
    arguments.extend(["--start", &start]);
    run_cardswitch(&arguments).expect_done();
    switch.stop();
}

fn count(switch: &Switch) -> Outcome<u64> {
    let listed = switch.api().get("/v1/transactions?limit=1").expect(200);
    listed["count"].as_u64().ok_or_else(|| "a list has no count".into())
}
