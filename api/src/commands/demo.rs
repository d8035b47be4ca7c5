//! `cardswitch demo`: a whole card program on a data directory of its own.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::verify::verify;
use cardswitch_feed::{FeedOptions, FeedReport, HttpSource, Portfolio, Progress};
use cardswitch_secrets::issuing::CardNumbers;
use cardswitch_secrets::master_key::data_key::DATA_KEY_FILE;
use cardswitch_secrets::master_key::source::MasterKeySource;
use cardswitch_secrets::private_file::create_private;
use serde_json::{Value, json};

use super::Failure;
use super::feed::{PaceArgs, default_start, judge, run_until_stopped};
use super::init::{demo_company, random_source};
use super::live_screen::LiveScreen;
use crate::config::{ClockSetting, Settings};
use crate::install::{Credentials, Installation, install};
use crate::server::Server;

const CARDS_FILE: &str = "cards.jsonl";
const CREDENTIALS_FILE: &str = "credentials.json";
const CONNECTIONS: usize = 2;

/// What `demo` takes.
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
    let home = Home::open(args.data.as_deref())?;
    let credentials = home.install_if_needed(&args).await?;
    let portfolio = Portfolio::read(&home.path.join(CARDS_FILE)).map_err(Failure::new)?;
    let server =
        Server::start(home.path.as_path(), &settings(&args)).await.map_err(Failure::new)?;
    say(
        &args,
        &format!(
            "serving http://{} and ISO 8583 at {} on {}",
            server.http(),
            server.iso8583(),
            home.path.display()
        ),
    );
    tell_the_way_in(&args, &home, &server, &credentials);
    let options = FeedOptions {
        rate_per_s: args.pace.rate(),
        duration: args.pace.duration(),
        seed: args.pace.seed,
        time: args.pace.time(default_start(), CONNECTIONS),
        http: Some(HttpSource {
            url: format!("http://{}", server.http()),
            network_key: credentials.network_key,
        }),
        ..FeedOptions::new(server.iso8583(), portfolio)
    };
    let progress = Arc::new(Progress::default());
    let screen = LiveScreen::start(Arc::clone(&progress), options.duration);
    let outcome = run_until_stopped(options, progress).await;
    screen.finish().await;
    let engine_failure = server.failure();
    server.stop().await;
    if let Some(reason) = engine_failure {
        return Err(Failure::new(format!("the switch stopped: {reason}")));
    }
    conclude(&args, &home, &outcome?)
}

/// Where the site is, who comes in, and for how long it is there.
fn tell_the_way_in(args: &DemoArgs, home: &Home, server: &Server, credentials: &Credentials) {
    say(args, &format!("sign in at http://{}/login", server.http()));
    say(args, &format!("  e-mail    {}", credentials.admin_email));
    say(args, &format!("  password  {}", credentials.admin_password));
    let ends = "The site stops when this command ends: `--duration 1h` gives you longer";
    if home.is_temporary {
        say(args, &format!("{ends}, `--data DIR` keeps what is there"));
    } else {
        say(args, &format!("{ends}, `serve --data` serves the directory without it"));
    }
}

/// Verifies the directory and reports.
fn conclude(args: &DemoArgs, home: &Home, report: &FeedReport) -> Result<(), Failure> {
    say(args, "verifying the data directory");
    let verification = verify(&home.path).map_err(Failure::new)?;
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

/// Where a demonstration lives.
struct Home {
    path: PathBuf,
    is_temporary: bool,
}

impl Drop for Home {
    fn drop(&mut self) {
        if self.is_temporary {
            // What is left behind in a temporary place harms nobody.
            drop(std::fs::remove_dir_all(&self.path));
        }
    }
}

impl Home {
    fn open(data: Option<&Path>) -> Result<Self, Failure> {
        if let Some(path) = data {
            return Ok(Self { path: path.to_owned(), is_temporary: false });
        }
        let name = format!("cardswitch-demo-{}", std::process::id());
        Ok(Self { path: std::env::temp_dir().join(name), is_temporary: true })
    }

    /// Makes the directory unless an earlier demonstration did; returns what opens it.
    async fn install_if_needed(&self, args: &DemoArgs) -> Result<Credentials, Failure> {
        let credentials_path = self.path.join(CREDENTIALS_FILE);
        if let Ok(text) = std::fs::read_to_string(&credentials_path) {
            return serde_json::from_str(&text).map_err(|error| {
                Failure::new(format!("`{}`: {error}", credentials_path.display()))
            });
        }
        // What `init` made has no credentials file: its secrets were shown once, not kept.
        if self.path.join(DATA_KEY_FILE).exists() {
            let what = "is a data directory that `demo` did not make: `serve` it, and `feed` it";
            return Err(Failure::new(format!("`{}` {what}", self.path.display())));
        }
        say(args, &format!("making {} test cards", args.cards));
        std::fs::create_dir_all(&self.path)
            .map_err(|error| Failure::new(format!("`{}`: {error}", self.path.display())))?;
        let installation = self.installation(args)?;
        let mut random = random_source(Some(args.pace.seed));
        let credentials =
            install(&installation, random.as_mut(), &|_| {}).await.map_err(Failure::new)?;
        let text = serde_json::to_string(&credentials).map_err(Failure::new)?;
        create_private(&credentials_path)
            .and_then(|mut file: File| writeln!(file, "{text}"))
            .map_err(|error| Failure::new(format!("`{}`: {error}", credentials_path.display())))?;
        Ok(credentials)
    }

    fn installation(&self, args: &DemoArgs) -> Result<Installation, Failure> {
        let settings = Settings::default();
        let card_numbers = CardNumbers::new(&settings.bin)
            .ok_or_else(|| Failure::new("the default BIN is none"))?;
        // On virtual time the program begins before its first purchase, in virtual time, too.
        let at = args.pace.speed.map(|_| Timestamp(default_start().timestamp_micros() - 1_000_000));
        Ok(Installation {
            data: self.path.clone(),
            company: demo_company().order()?,
            admin_email: "admin@example.com".to_owned(),
            card_numbers,
            network: settings.network,
            cards: args.cards,
            cards_out: Some(self.path.join(CARDS_FILE)),
            at,
            master_key: MasterKeySource::InDirectory,
        })
    }
}
