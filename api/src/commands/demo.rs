//! `cardswitch demo`: a whole card program on a data directory of its own.

use std::path::PathBuf;
use std::sync::Arc;

use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::verify::verify;
use cardswitch_feed::{FeedOptions, FeedReport, HttpSource, Line, Progress};
use serde_json::{Value, json};

use super::Failure;
use super::feed::{PaceArgs, default_start, judge, run_until_stopped};
use super::home::{Home, Program, WayIn};
use super::live_screen::LiveScreen;
use crate::config::{ClockSetting, Settings};
use crate::server::Server;

const CONNECTIONS: usize = 2;

/// The arguments of `demo`.
#[derive(Debug, clap::Args)]
pub struct DemoArgs {
    /// Data directory; made if it is not there [default: a temporary one, removed afterwards]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    #[command(flatten)]
    pace: PaceArgs,
    /// Test cards to make
    #[arg(long, value_name = "N", default_value_t = 200)]
    cards: usize,
    /// Print one JSON object as the last line
    #[arg(long)]
    json: bool,
}

/// Carries out `demo`: makes a directory if need be, serves it, feeds it, verifies it.
pub async fn run(args: DemoArgs) -> Result<(), Failure> {
    let home = args.data.clone();
    let home = home.map_or_else(|| Home::temporary(&std::env::temp_dir(), "demo"), Home::at);
    // On virtual time the program begins before its first purchase, in virtual time, too.
    let at = args.pace.speed.map(|_| Timestamp(default_start().timestamp_micros() - 1_000_000));
    let program = Program { cards: args.cards, seed: Some(args.pace.seed), at };
    let credentials = home.install_if_needed(program, |line| say(&args, line)).await?;
    let portfolio = home.portfolio()?;
    let server = Server::start(home.path.as_path(), &settings(&args)).await?;
    say(
        &args,
        &format!(
            "serving http://{} and ISO 8583 at {} on {}",
            server.http,
            server.iso8583(),
            home.path.display()
        ),
    );
    let way_in = WayIn {
        server: &server,
        credentials: &credentials,
        portfolio: &portfolio,
        is_known: false,
    };
    tell_the_way_in(&args, &home, &way_in);
    let options = FeedOptions {
        rate_per_s: args.pace.rate(),
        duration: args.pace.duration(),
        seed: args.pace.seed,
        time: args.pace.time(default_start(), CONNECTIONS),
        http: Some(HttpSource {
            url: format!("http://{}", server.http),
            network_key: credentials.network_key,
            carrier: None,
        }),
        ..FeedOptions::new(Line::to(server.iso8583()), portfolio)
    };
    let progress = Arc::new(Progress::default());
    let screen = LiveScreen::start(Arc::clone(&progress), options.duration);
    let outcome = run_until_stopped(options, progress).await;
    screen.finish().await;
    let engine_failure = server.failure();
    server.close().await;
    if let Some(reason) = engine_failure {
        return Err(Failure::new(format!("the switch stopped: {reason}")));
    }
    conclude(&args, &home, &outcome?)
}

/// The way in, and for how long it is there.
fn tell_the_way_in(args: &DemoArgs, home: &Home, way_in: &WayIn<'_>) {
    way_in.lines().iter().for_each(|line| say(args, line));
    let ends = "The site stops when this command ends: `--duration 1h` gives you longer";
    if home.is_temporary {
        say(args, &format!("{ends}, `dev` keeps what is there"));
    } else {
        say(args, &format!("{ends}, `serve --data` serves the directory without it"));
    }
}

/// Verifies the directory and reports.
fn conclude(args: &DemoArgs, home: &Home, report: &FeedReport) -> Result<(), Failure> {
    say(args, "verifying the data directory");
    let verification = verify(&home.path)?;
    let wrong = verification.figures.iter().find(|figure| !figure.is_right());
    let verdict = wrong.map_or_else(|| "ok".to_owned(), |figure| figure.name.clone());
    let state_hash = verification.state_hash.to_string();
    if !args.json {
        print!("{}", report.to_text());
        println!("verify: {verdict}, {} figures compared", verification.figures.len());
        println!("state hash: {state_hash}");
    } else {
        println!("{}", with_verdict(report.to_json(), &verdict, &state_hash));
    }
    if wrong.is_some() {
        return Err(Failure::new(format!("verify: {verdict} differs")));
    }
    judge(report)
}

fn with_verdict(mut report: Value, verdict: &str, state_hash: &str) -> Value {
    if let Some(members) = report.as_object_mut() {
        members.insert("verify".to_owned(), json!(verdict));
        members.insert("state_hash".to_owned(), json!(state_hash));
    }
    report
}

/// With `--json` only the last line goes to stdout.
fn say(args: &DemoArgs, line: &str) {
    if args.json {
        eprintln!("{line}");
    } else {
        println!("{line}");
    }
}

fn settings(args: &DemoArgs) -> Settings {
    let any_port = "127.0.0.1:0".parse().unwrap_or(Settings::default().http);
    let clock = if args.pace.speed.is_some() { ClockSetting::Manual } else { ClockSetting::System };
    Settings {
        http: any_port,
        iso8583: any_port,
        clock,
        allow_local_webhooks: true,
        ..Settings::default()
    }
}
