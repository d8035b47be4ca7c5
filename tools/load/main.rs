//! Loads a switch over ISO 8583 or HTTP, at a fixed rate or in a closed loop, and tells how long its
//! answers took. It measures and proves nothing: whether the books are right is for `feed` and
//! `verify` to say.

mod arguments;
mod knee;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use cardswitch_benches::installation::{NETWORK_KEY, temporary_directory};
use cardswitch_benches::yardstick::BareDatabase;
use cardswitch_feed::Card;
use cardswitch_load::cards::{CardChoice, read_cards};
use cardswitch_load::http::Http;
use cardswitch_load::iso::{Iso, PurchaseSettings};
use cardswitch_load::latencies::Latencies;
use cardswitch_load::load::Load;
use cardswitch_load::tally::Tally;
use cardswitch_tools::Outcome;
use cardswitch_tools::ground::{Ground, Plan};
use cardswitch_tools::report::{outcome, print_row};
use cardswitch_tools::switch::cpu_ns;
use clap::Parser;
use serde_json::{Value, json};

use arguments::{Arguments, Door};

/// How long redb commits of 100 bytes are measured, on the disk that `TMPDIR` names.
const COMMITS_TIME: Duration = Duration::from_secs(2);
const PERCENTS: [f64; 4] = [50.0, 90.0, 99.0, 99.9];

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("load: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Outcome<()> {
    if arguments.serve {
        return serve_and_load(arguments);
    }
    let choice = if arguments.every_card { CardChoice::Every } else { CardChoice::Ordinary };
    let file = arguments.cards.as_ref().ok_or("--cards is needed")?;
    let cards = read_cards(file, choice)?;
    let carry_out = |rate| carry_out(arguments, rate, &arguments.address, (&cards, &arguments.key));
    let (Some(bound_ms), Some(first)) = (arguments.knee, arguments.rate) else {
        print(arguments, &carry_out(arguments.rate)?, json!(null));
        return Ok(());
    };
    let knee = knee::find(first, |rate| {
        let tally = carry_out(Some(rate))?;
        let is_kept = knee::is_kept(&tally, rate, bound_ms * 1e3);
        let word = if is_kept { "kept" } else { "not kept" };
        println!("{rate:>9}/s {word:<8} {}", outcome(&tally));
        Ok(is_kept)
    });
    match knee? {
        Some(knee) => println!("the greatest rate kept: {knee}/s"),
        None => println!("not even {first}/s is kept"),
    }
    Ok(())
}

/// Loads a switch of the run's own, and compares it with bare commits of redb just before.
fn serve_and_load(arguments: &Arguments) -> Outcome<()> {
    let ground = Ground::make(&Plan::of_cards(arguments.serve_cards))?;
    let switch = ground.serve(&[]);
    let mut database = BareDatabase::create(temporary_directory().path());
    let commits = database.time_commits(COMMITS_TIME);
    let before = cpu_ns(switch.pid())?;
    let address = match arguments.door {
        Door::Iso => switch.iso8583,
        Door::Http => switch.http,
    };
    let tally = carry_out(arguments, arguments.rate, &[address], (&ground.cards, NETWORK_KEY))?;
    let used_ns = cpu_ns(switch.pid())? - before;
    let messages = tally.counts.messages.max(1) as f64;
    let usage = json!({
        "redb_commit_us": percentiles(&commits),
        "switch_cpu_us": used_ns as f64 / 1e3 / messages,
        "switch_resident_bytes": switch.resident_bytes(),
    });
    print(arguments, &tally, usage);
    if !arguments.json {
        let own = &tally.latencies;
        let [p50, p99] = [50.0, 99.0].map(|percent| own.percentile_us(percent) / 1e3);
        let times = |percent| own.percentile_us(percent) / commits.percentile_us(percent);
        let pace = arguments.rate.map(|rate| format!(" --rate {rate}")).unwrap_or_default();
        let (door, connections) = (arguments.door, arguments.connections);
        print_row(
            &format!("`load {door} --serve{pace}`, {connections} connections"),
            &format!(
                "p50 {p50:.2} ms, p99 {p99:.1} ms: {:.1} and {:.0} redb commits",
                times(50.0),
                times(99.0)
            ),
        );
    }
    switch.stop();
    Ok(())
}

/// Errors: nothing was answered, so nothing was measured.
fn carry_out(
    arguments: &Arguments,
    rate: Option<u64>,
    addresses: &[SocketAddr],
    (cards, key): (&[Card], &str),
) -> Outcome<Tally> {
    let purchases = PurchaseSettings {
        amount_min: arguments.amount_min,
        amount_max: arguments.amount_max,
        seed: arguments.seed,
        ..PurchaseSettings::default()
    };
    let load = Load {
        rate,
        connections: arguments.connections,
        in_flight_max: arguments.in_flight.unwrap_or(match arguments.door {
            Door::Iso => u32::MAX,
            Door::Http => 1,
        }),
        warmup: Duration::try_from_secs_f64(arguments.warmup)?,
        measured: Duration::try_from_secs_f64(arguments.seconds)?,
        ..Load::default()
    };
    let tally = match arguments.door {
        Door::Iso => load.carry_out(addresses, Iso::new(cards, purchases)?)?,
        Door::Http => load.carry_out(addresses, Http::new(cards, purchases, key)?)?,
    };
    match (tally.counts.answered, tally.counts.messages) {
        (0, 0) => Err("no message could be sent".into()),
        (0, sent) => Err(format!("none of {sent} messages was answered").into()),
        _ => Ok(tally),
    }
}

fn percentiles(latencies: &Latencies) -> Value {
    let mut values: serde_json::Map<String, Value> = PERCENTS
        .iter()
        .map(|percent| (format!("p{percent}"), latencies.percentile_us(*percent).into()))
        .collect();
    values.insert("max".to_owned(), latencies.max_us().into());
    Value::Object(values)
}

/// Prints a run for a program, or a line of it after the other for a person.
fn print(arguments: &Arguments, tally: &Tally, switch: Value) {
    let counts = &tally.counts;
    let messages = counts.messages.max(1) as f64;
    let run = json!({
        "door": arguments.door.to_string(),
        "rate": arguments.rate,
        "seconds": arguments.seconds,
        "connections": arguments.connections,
        "per_second": tally.per_second(),
        "approved": tally.approved(),
        "counts": counts,
        // From the intended send; in a closed loop from the send.
        "latency_us": percentiles(&tally.latencies),
        "client_cpu_us": counts.cpu_ns as f64 / 1e3 / messages,
        "messages_a_write": messages / counts.writes.max(1) as f64,
    });
    if arguments.json {
        println!("{}", json!({ "run": run, "switch": switch }));
        return;
    }
    for part in [run, switch] {
        for (name, value) in part.as_object().into_iter().flatten() {
            println!("{name:<22} {value}");
        }
    }
}
