//! Pages of the site with many transactions behind them: the time until the last byte on one kept
//! connection, the first paint in Chromium, all bytes of a cold load; and authorizations beside live
//! overviews that are open.

mod past;

use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use cardswitch_load::latencies::Latencies;
use cardswitch_load::load::Load;
use cardswitch_tools::report::{grouped, print_beside};
use cardswitch_tools::{Outcome, fail};
use http_body_util::BodyExt;
use hyper::header::SET_COOKIE;
use hyper::{Method, Response, StatusCode};
use serde::Deserialize;
use tokio::runtime::Runtime;

use crate::http::{Http, follow};
use past::{Past, Person};

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
    cards: u64,
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
pub(crate) fn run(scale: &Scale, runtime: &Runtime) -> Outcome<()> {
    let viewers = scale.overviews.div_ceil(OVERVIEWS_A_USER);
    let past = Past::make(runtime, (scale.cards, viewers), (scale.fed, scale.transactions))?;
    let http = past.switch.http;
    let cookie = runtime.block_on(sign_in(http, &past.administrator))?;
    let pages = PAGES.map(|(name, path)| (name, past.fill_in(path)));
    let paints = paint(http, &cookie, (scale.paints, &pages))?;
    println!("\n| page, {} transactions | ms | first paint ms | all KB, cold |", past.transactions);
    println!("|---|---:|---:|---:|");
    for ((name, path), paint) in pages.iter().zip(paints) {
        let took = runtime.block_on(time_page(http, path, (&cookie, scale.loads)))?;
        let [p50, p99] = [50.0, 99.0].map(|percent| took.percentile_us(percent) / 1e3);
        let (first, kilobytes) = (paint.median_ms(), paint.bytes as f64 / 1e3);
        println!("| {name} | {p50:.1} / {p99:.1} | {first:.0} | {kilobytes:.0} |");
    }
    time_authorizations(scale, runtime, &past)
}

async fn time_page(
    http: SocketAddr,
    path: &str,
    (cookie, loads): (&str, usize),
) -> Outcome<Latencies> {
    let headers = [("cookie", cookie), ("accept", "text/html")];
    let (mut client, mut latencies) = (Http::connect(http).await?, Latencies::default());
    client.get(path, &headers).await?;
    for _ in 0..loads {
        let start = Instant::now();
        client.get(path, &headers).await?;
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

/// The same load without and with overviews open, in turns: what the machine does besides hits both.
fn time_authorizations(scale: &Scale, runtime: &Runtime, past: &Past) -> Outcome<()> {
    let measured = Duration::try_from_secs_f64(scale.seconds)?;
    let load = Load { rate: Some(scale.rate), measured, ..Load::default() };
    let [mut without, mut with] = [Vec::new(), Vec::new()];
    for _ in 0..scale.rounds {
        without.push(past.switch.load(&past.cards, &load)?);
        let http = past.switch.http;
        let cookie = |viewer| runtime.block_on(sign_in(http, viewer));
        let cookies = past.viewers.iter().map(cookie).collect::<Outcome<Vec<_>>>()?;
        let overview = |number: usize| {
            let cookie = &cookies[number / OVERVIEWS_A_USER];
            follow(runtime, http, "/overview/live", ("cookie", cookie))
        };
        let streams = (0..scale.overviews).map(overview).collect::<Outcome<Vec<_>>>()?;
        with.push(past.switch.load(&past.cards, &load)?);
        let messages =
            streams.into_iter().map(|stream| stream.end(runtime)).sum::<Outcome<u64>>()?;
        println!("{messages} messages to overviews");
    }
    print_beside(
        &format!(
            "{} authorizations/s without / with {} live overviews",
            grouped(scale.rate as f64),
            scale.overviews
        ),
        &without,
        &with,
    );
    Ok(())
}

/// Signs in by the form, and returns the cookie of the session.
async fn sign_in(http: SocketAddr, person: &Person) -> Outcome<String> {
    let mut client = Http::connect(http).await?;
    let form = client.send(Method::GET, "/login", &[], String::new()).await?;
    let cookie = cookie_of(&form, "")?;
    let page = String::from_utf8(form.into_body().collect().await?.to_bytes().to_vec())?;
    let csrf = page.split_once("name=\"csrf\" value=\"").and_then(|(_, rest)| rest.split_once('"'));
    let csrf = csrf.ok_or("the form has no value against forgery")?.0;
    let body = url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs([("csrf", csrf), ("email", &person.email), ("password", &person.password)])
        .finish();
    let headers = [
        ("cookie", cookie.as_str()),
        ("origin", &format!("http://{http}")),
        ("content-type", "application/x-www-form-urlencoded"),
    ];
    let answer = client.send(Method::POST, "/login", &headers, body).await?;
    if answer.status() != StatusCode::SEE_OTHER {
        return fail(format!("signing in answers {}", answer.status()));
    }
    cookie_of(&answer, "session")
}

/// The first cookie of an answer whose name begins so.
fn cookie_of<B>(answer: &Response<B>, prefix: &str) -> Outcome<String> {
    let cookies =
        answer.headers().get_all(SET_COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut cookies = cookies.filter_map(|cookie| cookie.split(';').next());
    let found = cookies.find(|cookie| cookie.starts_with(prefix));
    Ok(found.ok_or("an answer sets no such cookie")?.to_owned())
}
