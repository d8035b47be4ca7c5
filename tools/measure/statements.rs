//! An account of many statement lines, downloaded in each format from a real switch: the time until
//! the last byte, the size, and how much the peak of the switch's memory grows. Each format has a
//! process of its own, warmed up with a short statement.

use std::fs;
use std::time::{Duration, Instant};

use cardswitch_feed::Card;
use cardswitch_load::cards::{Choice, read_cards};
use cardswitch_tools::report::{each, grouped, print_row, short};
use cardswitch_tools::switch::{Switch, init};
use cardswitch_tools::{Outcome, fail};
use http_body_util::BodyExt;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::http::Http;

const FORMATS: [&str; 3] = ["csv", "ofx", "pdf"];
/// As many as stay well below the longest body.
const BATCH_LEN: u64 = 100;
const MERCHANTS: [&str; 5] =
    ["Harbor Grocery", "Blue Bottle Coffee", "Café Müller", "Northwind Air", "東京書店"];

/// How many lines.
#[derive(Debug, clap::Args)]
pub(crate) struct Scale {
    /// Lines of the statement
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    lines: u64,
}

/// A downloaded statement.
struct Download {
    bytes: u64,
    elapsed: Duration,
    grown_bytes: u64,
}

/// Measures and prints.
pub(crate) fn run(scale: &Scale, runtime: &Runtime) -> Outcome<()> {
    let directory = TempDir::new()?;
    let (data, cards) = (directory.path().join("data"), directory.path().join("cards.jsonl"));
    let credentials = init(&data, &cards, &["--cards", "200", "--seed", "7"])?;
    let text = |name: &str| credentials[name].as_str().unwrap_or_default();
    let switch = Switch::serve(&data, &[])?;
    let key = format!("Bearer {}", text("network_key"));
    runtime.block_on(fill(&switch, &key, (&read_cards(&cards, Choice::Ordinary)?, scale.lines)))?;
    switch.stop()?;
    let path = |format| format!("/v1/accounts/{}/statement.{format}", text("account_id"));
    let token = format!("Token {}", text("access_token"));
    let mut downloads = Vec::new();
    for format in FORMATS {
        let switch = Switch::serve(&data, &[])?;
        downloads.push(runtime.block_on(download(&switch, &path(format), &token))?);
        switch.stop()?;
    }
    let megabytes = |bytes: u64| short(bytes as f64 / 1e6);
    print_row(
        &format!("statement of {} lines, CSV / OFX / PDF", grouped(scale.lines as f64)),
        &format!(
            "{} s; {} MB; process + {} MB",
            each(&downloads, |one| short(one.elapsed.as_secs_f64())),
            each(&downloads, |one| megabytes(one.bytes)),
            each(&downloads, |one| megabytes(one.grown_bytes)),
        ),
    );
    Ok(())
}

/// Posts forced presentments: each is one statement line.
async fn fill(switch: &Switch, key: &str, (cards, lines): (&[Card], u64)) -> Outcome<()> {
    let mut client = Http::connect(switch.http).await?;
    for start in (0..lines).step_by(usize::try_from(BATCH_LEN)?) {
        let batch = (start..lines.min(start + BATCH_LEN)).map(|number| presentment(cards, number));
        let batch = Value::Array(batch.collect());
        let answers = client.post("/network/v1/batch", key, batch.to_string()).await?;
        let answers: Vec<Value> = serde_json::from_slice(&answers)?;
        if let Some(refused) = answers.iter().find(|answer| answer["outcome"] != "posted") {
            return fail(format!("a presentment is refused: {refused}"));
        }
    }
    Ok(())
}

fn presentment(cards: &[Card], number: u64) -> Value {
    let place = |len: usize| usize::try_from(number).unwrap_or(0) % len;
    json!({
        "type": "presentment",
        "card_number": cards[place(cards.len())].pan,
        "amount": format!("{}.{:02}", 1 + number % 9, number % 100),
        "rrn": format!("{number:012}"),
        "acquirer": "400001",
        "merchant": {
            "mid": format!("M{}", number % 97),
            "mcc": 5411,
            "name": MERCHANTS[place(MERCHANTS.len())],
            "city": "Austin",
            "state": "TX",
            "country": "US",
            "zip": "78701",
        },
    })
}

/// Reads a statement as it comes and keeps none of it.
async fn download(switch: &Switch, path: &str, token: &str) -> Outcome<Download> {
    let mut client = Http::connect(switch.http).await?;
    let headers = [("authorization", token)];
    client.get(&format!("{path}?end_date=2020-01-31"), &headers).await?;
    // Forgets the peak. Source: proc(5), clear_refs.
    fs::write(format!("/proc/{}/clear_refs", switch.pid()), "5")?;
    let before = switch.usage()?.resident_bytes_max;
    let start = Instant::now();
    let mut response = client.send(Method::GET, path, &headers, String::new()).await?;
    if response.status() != StatusCode::OK {
        return fail(format!("`{path}` answers {}", response.status()));
    }
    let mut bytes = 0;
    while let Some(frame) = response.frame().await {
        bytes += frame?.data_ref().map_or(0, bytes::Bytes::len) as u64;
    }
    let elapsed = start.elapsed();
    let grown_bytes = switch.usage()?.resident_bytes_max - before;
    Ok(Download { bytes, elapsed, grown_bytes })
}
