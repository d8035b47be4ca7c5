//! An account of many statement lines, downloaded in each format from a real switch: the time until
//! the last byte, the size, and how much the peak of the switch's memory grows. Each format has a
//! process of its own, warmed up with a short statement.

use std::fs;
use std::time::{Duration, Instant};

use cardswitch_benches::meter::number_in;
use cardswitch_feed::Card;
use cardswitch_harness::{Installation, Switch};
use cardswitch_load::cards::{CardChoice, read_cards};
use cardswitch_tools::report::{each, grouped, print_row, short};
use cardswitch_tools::{Outcome, fail};
use serde_json::{Value, json};

use crate::OPENING_BALANCE;

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
pub(crate) fn run(scale: &Scale) -> Outcome<()> {
    let installation = Installation::init_with(200, 7, &["--opening-balance", OPENING_BALANCE]);
    let cards = read_cards(&installation.cards_file(), CardChoice::Ordinary)?;
    let switch = installation.serve();
    fill(&switch, &cards, scale.lines)?;
    switch.stop();
    let account = &installation.credentials.account_id;
    let mut downloads = Vec::new();
    for format in FORMATS {
        let switch = installation.serve();
        let path = format!("/v1/accounts/{account}/statement.{format}");
        downloads.push(download(&switch, &path)?);
        switch.stop();
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
fn fill(switch: &Switch, cards: &[Card], lines: u64) -> Outcome<()> {
    for start in (0..lines).step_by(usize::try_from(BATCH_LEN)?) {
        let batch = (start..lines.min(start + BATCH_LEN)).map(|number| presentment(cards, number));
        let batch = Value::Array(batch.collect());
        let answers = switch.network_api().post("/network/v1/batch", &batch).expect(200);
        let mut answers = answers.as_array().into_iter().flatten();
        if let Some(refused) = answers.find(|answer| answer["outcome"] != "posted") {
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

fn download(switch: &Switch, path: &str) -> Outcome<Download> {
    let read = |path: &str| {
        let answer = switch.api().get(path);
        if answer.status == 200 {
            return Ok(answer.bytes().len() as u64);
        }
        fail(format!("`{path}` answers {}", answer.status))
    };
    let peak = || number_in(&format!("/proc/{}/status", switch.pid()), "VmHWM:") << 10;
    read(&format!("{path}?end_date=2020-01-31"))?;
    // Forgets the peak. Source: proc(5), clear_refs.
    fs::write(format!("/proc/{}/clear_refs", switch.pid()), "5")?;
    let (before, start) = (peak(), Instant::now());
    let bytes = read(path)?;
    Ok(Download { bytes, elapsed: start.elapsed(), grown_bytes: peak() - before })
}
