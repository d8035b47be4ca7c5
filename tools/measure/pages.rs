//! Pages of the site with many transactions behind them: the time until the last byte on one kept
//! connection, the first paint in Chromium, all bytes of a cold load; and authorizations beside live
//! overviews that are open.

mod past;

use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use cardswitch_harness::{Browser, Credentials};
use cardswitch_load::latencies::Latencies;
use cardswitch_load::load::Load;
use cardswitch_tools::report::{compare_in_turns, grouped};
use cardswitch_tools::switch::load_door;
use cardswitch_tools::{Outcome, fail};
use serde::Deserialize;

use crate::http::{EventStream, Http, follow};
use past::{PASSWORD, Past};

/// The addresses of pages; what is in braces is filled in.
const PAGES: [(&str, &str); 19] = [
    ("overview", "/overview"),
    ("cards", "/cards"),
    ("cards, a text", "/cards?text=travel"),
    ("card", "/cards/{card}"),
    ("transactions", "/transactions"),
    ("transactions, declined", "/transactions?state=declined"),
    ("transactions, deep", "/transactions?offset={half}"),
    ("transactions of a card", "/transactions?card={card}"),
    ("transaction", "/transactions/{transaction}"),
    ("statements", "/statements"),
    ("requisitions", "/requisitions"),
    ("members", "/members"),
    ("dimensions", "/dimensions/categories"),
    ("apps", "/apps"),
    ("tokens", "/tokens"),
    ("webhooks", "/webhooks"),
    ("audit log", "/audit"),
    ("account", "/account"),
    ("shared card", "{shared}"),
];
/// As many streams as one user may have.
const OVERVIEWS_A_USER: usize = 6;

/// How much there is to see, and how often it is looked at.
#[derive(Debug, clap::Args)]
pub(crate) struct Scale {
    /// Transactions, at least
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    transactions: u64,
    /// Transactions of them that the feed makes, with what follows a purchase
    #[arg(long, default_value_t = 50_000, value_name = "N")]
    fed: u64,
    /// Cards
    #[arg(long, default_value_t = 5_000, value_name = "N")]
    cards: u32,
    /// Loads of each page
    #[arg(long, default_value_t = 300, value_name = "N")]
    loads: usize,
    /// Paints of each page
    #[arg(long, default_value_t = 5, value_name = "N")]
    paints: usize,
    /// Live overviews
    #[arg(long, default_value_t = 100, value_name = "N")]
    overviews: usize,
    /// Authorizations a second beside them
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    rate: u64,
    /// Seconds of each load of authorizations
    #[arg(long, default_value_t = 10.0, value_name = "S")]
    seconds: f64,
    /// Rounds, of a load without and one with overviews each
    #[arg(long, default_value_t = 3, value_name = "N")]
    rounds: usize,
}

/// Measures and prints.
pub(crate) fn run(scale: &Scale) -> Outcome<()> {
    let viewers = scale.overviews.div_ceil(OVERVIEWS_A_USER);
    let past = Past::make((scale.cards, viewers), (scale.fed, scale.transactions))?;
    let http = past.switch.http;
    let Credentials { admin_email, admin_password, .. } = past.switch.credentials();
    let cookie = sign_in(http, admin_email, admin_password)?;
    let pages = PAGES.map(|(name, path)| (name, past.fill_in(path)));
    let paints = paint(http, &cookie, (scale.paints, &pages))?;
    println!("\n| page, {} transactions | ms | first paint ms | all KB, cold |", past.transactions);
    println!("|---|---:|---:|---:|");
    for ((name, path), paint) in pages.iter().zip(paints) {
        let took = time_page(http, path, (&cookie, scale.loads))?;
        let [p50, p99] = [50.0, 99.0].map(|percent| took.percentile_us(percent) / 1e3);
        let (first, kilobytes) = (paint.median_ms(), paint.bytes as f64 / 1e3);
        println!("| {name} | {p50:.1} / {p99:.1} | {first:.0} | {kilobytes:.0} |");
    }
    time_authorizations(scale, &past)
}

fn time_page(http: SocketAddr, path: &str, (cookie, loads): (&str, usize)) -> Outcome<Latencies> {
    let headers = [("cookie", cookie), ("accept", "text/html")];
    let (mut client, mut latencies) = (Http::connect(http)?, Latencies::default());
    client.get(path, &headers)?;
    for _ in 0..loads {
        let start = Instant::now();
        client.get(path, &headers)?;
        latencies.note(start.elapsed());
    }
    Ok(latencies)
}

/// A page in a browser that has kept nothing.
#[derive(Deserialize)]
struct Paint {
    /// The first paint of each load. Units: milliseconds.
    paints: Vec<f64>,
    bytes: u64,
}

impl Paint {
    fn median_ms(&self) -> f64 {
        let mut paints = self.paints.clone();
        paints.sort_by(f64::total_cmp);
        paints.get(paints.len() / 2).copied().unwrap_or_default()
    }
}

/// Has Chromium load each page so many times.
fn paint(
    http: SocketAddr,
    cookie: &str,
    (count, pages): (usize, &[(&str, String)]),
) -> Outcome<Vec<Paint>> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/measure/browser.mjs");
    let mut command = Command::new("node");
    command.args([script, &format!("http://{http}"), cookie, &count.to_string()]);
    command.args(pages.iter().map(|(_, path)| path));
    let output = command.stderr(std::process::Stdio::inherit()).output()?;
    if !output.status.success() {
        return fail("the browser failed; it has printed why");
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The same load without and with overviews open.
fn time_authorizations(scale: &Scale, past: &Past) -> Outcome<()> {
    let (measured, http) = (Duration::try_from_secs_f64(scale.seconds)?, past.switch.http);
    let load = Load { rate: Some(scale.rate), measured, ..Load::default() };
    let without = || load_door(past.switch.iso8583, &past.cards, &load);
    let with = || {
        let cookie = |viewer: &String| sign_in(http, viewer, PASSWORD);
        let cookies = past.viewers.iter().map(cookie).collect::<Outcome<Vec<_>>>()?;
        let overview = |number: usize| {
            let cookie = &cookies[number / OVERVIEWS_A_USER];
            follow(http, "/overview/live", ("cookie", cookie))
        };
        let streams = (0..scale.overviews).map(overview).collect::<Outcome<Vec<_>>>()?;
        let tally = without()?;
        let messages = streams.into_iter().map(EventStream::end).sum::<Outcome<u64>>()?;
        println!("{messages} messages to overviews");
        Ok(tally)
    };
    let (rate, overviews) = (grouped(scale.rate as f64), scale.overviews);
    let measurement = format!("{rate} authorizations/s without / with {overviews} live overviews");
    compare_in_turns(&measurement, scale.rounds, &without, &with)
}

/// Signs in by the form, and returns the cookie of the session.
fn sign_in(http: SocketAddr, email: &str, password: &str) -> Outcome<String> {
    let mut browser = Browser::new(http);
    browser.sign_in(email, password);
    let session = browser.cookie("session").ok_or("signing in sets no cookie")?;
    Ok(format!("session={session}"))
}
