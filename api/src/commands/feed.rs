//! `cardswitch feed`.

mod scenarios;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_feed::{
    ANSWER_TIMEOUT, Carrier, Comparison, FeedOptions, FeedReport, FeedTime, HOSTILE_ANSWER_TIMEOUT,
    Hostility, HttpSource, MishapRates, Portfolio, Progress, Story, VIRTUAL_START_US,
};
use cardswitch_wire::time::parse_time;
use chrono::{DateTime, Utc};
use clap::builder::RangedU64ValueParser;

use self::scenarios::{ScenarioArgs, run_scenarios};
use super::http_client::parse_url;
use super::http_tls_args::HttpTlsArgs;
use super::line_args::LineArgs;
use super::secured_line::SecuredLine;
use super::{Failure, StopSignal, parse_address, parse_lasting};

/// The arguments of `feed`.
#[derive(Debug, clap::Args)]
pub struct FeedArgs {
    /// ISO 8583 address of the switch; of a cluster those of all nodes, with commas between them
    #[arg(
        long,
        value_name = "ADDR",
        value_delimiter = ',',
        default_value = "127.0.0.1:8583",
        value_parser = parse_address
    )]
    connect: Vec<SocketAddr>,
    #[command(flatten)]
    line: LineArgs,
    /// Cards file, as `init --cards-out` writes it; scenarios make cards of their own
    #[arg(long, value_name = "FILE", required_unless_present = "scenario")]
    cards: Option<PathBuf>,
    #[command(flatten)]
    pace: PaceArgs,
    /// Connections to spread purchases over, in real time
    #[arg(long, value_name = "N", default_value = "2", value_parser = connections())]
    connections: usize,
    /// When virtual time starts (RFC 3339); not before the time that the switch has reached, at which
    /// it starts with --http where that is later than the default
    #[arg(long, value_name = "TIME", requires = "speed")]
    start: Option<String>,
    /// HTTP address of the switch: to compare every transaction instead of card balances, and for
    /// what scenarios do beside their messages
    #[arg(long, value_name = "URL", requires = "network_key")]
    http: Option<String>,
    /// Network key for --http, printed by `init`
    #[arg(long, value_name = "KEY", env = "CARDSWITCH_NETWORK_KEY", hide_env_values = true)]
    network_key: Option<String>,
    #[command(flatten)]
    http_tls: HttpTlsArgs,
    #[command(flatten)]
    hostile: HostileArgs,
    #[command(flatten)]
    scenarios: ScenarioArgs,
    /// Print one JSON object as the last line
    #[arg(long)]
    json: bool,
}

/// The arguments of `feed --hostile`.
#[derive(Debug, clap::Args)]
struct HostileArgs {
    /// Put a hostile wire before the switch, of this seed: messages get lost, come late, twice or
    /// in halves, connections break. The books stay exact
    #[arg(long, value_name = "SEED", conflicts_with_all = ["scenario", "speed"])]
    hostile: Option<u64>,
    /// How many messages in a thousand meet each mishap, such as `lost=20,late=5` (lost, late,
    /// copied, cut, vanished, dribbled, noise, stranger) [default: drawn from the seed]
    #[arg(long, value_name = "RATES", requires = "hostile")]
    hostile_rates: Option<MishapRates>,
    /// If the books differ, run again without one mishap after the other, say which of them it
    /// takes, and write the story of one such purchase as a scenario, for which --http is needed
    #[arg(long, requires = "hostile")]
    shrink: bool,
    /// File for that scenario [default: hostile-SEED.toml]
    #[arg(long, value_name = "FILE", requires = "shrink")]
    scenario_out: Option<PathBuf>,
}

impl HostileArgs {
    fn hostility(&self) -> Option<Hostility> {
        let seed = self.hostile?;
        let rates = self.hostile_rates.unwrap_or_else(|| MishapRates::of_seed(seed));
        Some(Hostility { seed, rates })
    }

    fn scenario_out(&self) -> PathBuf {
        let by_default = || format!("hostile-{}.toml", self.hostile.unwrap_or_default()).into();
        self.scenario_out.clone().unwrap_or_else(by_default)
    }
}

/// How fast and how long purchases come; the same for `feed` and `demo`.
#[derive(Clone, Debug, clap::Args)]
pub struct PaceArgs {
    /// Purchases a second; in virtual time, the mean of a day
    #[arg(long, value_name = "N", value_parser = parse_rate)]
    pub rate: Option<f64>,
    /// Duration of the purchases (30s, 5m, 3d); in virtual time, virtual
    #[arg(long, value_name = "TIME", value_parser = parse_lasting)]
    pub duration: Option<Duration>,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Virtual time, so many times as fast as real time, or `max`; needs a switch on a manual clock
    #[arg(long, value_name = "N|max")]
    pub speed: Option<Speed>,
}

/// How fast virtual time passes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// As fast as the switch answers.
    Max,
    /// So many virtual seconds a second.
    Times(f64),
}

impl std::str::FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "max" {
            return Ok(Self::Max);
        }
        let times = text.trim_end_matches('x').parse().ok();
        let times = times.filter(|times: &f64| times.is_finite() && *times > 0.0);
        times.map(Self::Times).ok_or_else(|| format!("`{text}` is neither a number nor `max`"))
    }
}

fn connections() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=cardswitch_feed::CONNECTIONS_MAX as u64)
}

/// A rate that `feed` will take, so that `demo` makes nothing for one that it will not.
fn parse_rate(text: &str) -> Result<f64, String> {
    let is_rate = |rate: &f64| *rate > 0.0 && *rate <= cardswitch_feed::RATE_MAX;
    text.parse()
        .ok()
        .filter(is_rate)
        .ok_or_else(|| "write a number above 0, up to 100000000".to_owned())
}

/// The mean rate of a virtual day: some thousand purchases.
const VIRTUAL_RATE: f64 = 0.05;
const REAL_RATE: f64 = 100.0;
const VIRTUAL_DURATION: Duration = Duration::from_secs(3 * 86_400);
const REAL_DURATION: Duration = Duration::from_secs(60);

impl PaceArgs {
    /// The rate asked for, or one that suits the clock.
    pub fn rate(&self) -> f64 {
        self.rate.unwrap_or(if self.speed.is_some() { VIRTUAL_RATE } else { REAL_RATE })
    }

    /// The duration asked for, or one that suits the clock.
    pub fn duration(&self) -> Duration {
        let usual = if self.speed.is_some() { VIRTUAL_DURATION } else { REAL_DURATION };
        self.duration.unwrap_or(usual)
    }

    /// The clock of the run.
    pub fn time(&self, start: DateTime<Utc>, connections: usize) -> FeedTime {
        match self.speed {
            None => FeedTime::Real { connections },
            Some(Speed::Max) => FeedTime::Virtual { start, speed: None },
            Some(Speed::Times(times)) => FeedTime::Virtual { start, speed: Some(times) },
        }
    }
}

/// Carries out `feed`: exits 1 where the books differ or none could be checked, or a scenario goes otherwise than it expects.
pub async fn run(args: FeedArgs) -> Result<(), Failure> {
    let http = http_source(&args)?;
    let Some(cards) = &args.cards else {
        if args.connect.len() != 1 {
            return Err(Failure::usage("scenarios are played at one address: give one --connect"));
        }
        let line = args.line.line(args.connect)?;
        return run_scenarios(line, http, args.scenarios, args.json).await;
    };
    let portfolio = Portfolio::read(cards)?;
    let asked = args.start.as_deref().map(parse_start).transpose()?;
    let start = match &args.pace.speed {
        Some(_) => virtual_start(asked, http.clone()).await?,
        None => default_start(),
    };
    let hostility = args.hostile.hostility();
    let options = FeedOptions {
        rate_per_s: args.pace.rate(),
        duration: args.pace.duration(),
        seed: args.pace.seed,
        time: args.pace.time(start, args.connections),
        http,
        answer_timeout: hostility.map_or(ANSWER_TIMEOUT, |_| HOSTILE_ANSWER_TIMEOUT),
        hostility,
        ..FeedOptions::new(args.line.line(args.connect)?, portfolio)
    };
    if let Some(Hostility { seed, rates }) = hostility {
        eprintln!("hostile wire of seed {seed}, in a thousand messages: {rates}");
    }
    let report = run_until_stopped(options.clone(), Arc::new(Progress::default())).await?;
    if !args.json {
        print!("{}", report.to_text());
    }
    let told = match args.hostile.shrink && !report.differences.is_empty() {
        true => tell(shrink(options, report.story.clone()).await?, &args.hostile.scenario_out()),
        false => Ok(()),
    };
    if args.json {
        println!("{}", report.to_json());
    }
    told.and(judge(&report))
}

/// The HTTP address that was named, with its key and its TLS.
/// Errors: an address that is none, a file that cannot be used.
fn http_source(args: &FeedArgs) -> Result<Option<HttpSource>, Failure> {
    let url = args.http.as_deref().map(parse_url).transpose()?;
    let tls = args.http_tls.open(&url)?;
    let Some((url, network_key)) = url.zip(args.network_key.clone()) else { return Ok(None) };
    let carrier = |tls| Arc::new(SecuredLine::new(Some(tls), None)) as Arc<dyn Carrier>;
    let carrier = tls.towards(&url)?.map(carrier);
    Ok(Some(HttpSource { url: url.into(), network_key, carrier }))
}

/// Leaves out one mishap after the other as long as the books differ without it. Returns the story of
/// the last difference.
async fn shrink(
    mut options: FeedOptions,
    mut story: Option<Story>,
) -> Result<Option<Story>, Failure> {
    let Some(mut hostility) = options.hostility else { return Ok(story) };
    let tried: Vec<_> = hostility.rates.active().collect();
    for (mishap, _) in tried {
        let without = Hostility { rates: hostility.rates.without(mishap), ..hostility };
        options.hostility = Some(without);
        let report = run_until_stopped(options.clone(), Arc::new(Progress::default())).await?;
        let differences = report.differences.len();
        println!("without {mishap}: {differences} differences");
        if differences > 0 {
            hostility = without;
            story = report.story.or(story);
        }
    }
    println!("it takes: {}", hostility.rates);
    Ok(story)
}

/// Tells the story of a difference, and writes its scenario.
/// Errors: a file that cannot be written.
fn tell(story: Option<Story>, path: &Path) -> Result<(), Failure> {
    let Some(story) = story else {
        println!(
            "no story: no difference is of one purchase; balances tell of cards, --http of each"
        );
        return Ok(());
    };
    print!("{story}");
    if let Some(scenario) = story.scenario {
        fs::write(path, scenario)
            .map_err(|error| Failure::new(format!("cannot write {}: {error}", path.display())))?;
        println!("scenario: {}", path.display());
    }
    Ok(())
}

/// Runs the feed on a thread of its own; Ctrl-C and SIGTERM end it early but orderly.
pub async fn run_until_stopped(
    options: FeedOptions,
    progress: Arc<Progress>,
) -> Result<FeedReport, Failure> {
    let run = stoppable(progress, move |progress| cardswitch_feed::run(&options, progress));
    run.await?.map_err(Failure::new)
}

/// Does work on a thread of its own; Ctrl-C and SIGTERM ask it to stop.
async fn stoppable<T: Send + 'static>(
    progress: Arc<Progress>,
    work: impl FnOnce(&Progress) -> T + Send + 'static,
) -> Result<T, Failure> {
    let watched = Arc::clone(&progress);
    let mut stop = StopSignal::listen()?;
    let stopper = tokio::spawn(async move {
        stop.received().await;
        watched.stop();
    });
    let outcome = tokio::task::spawn_blocking(move || work(&progress)).await;
    stopper.abort();
    Ok(outcome?)
}

/// Checks the result of a run.
/// Errors: the reason why the run is a failure.
pub fn judge(report: &FeedReport) -> Result<(), Failure> {
    if let Some(first) = report.differences.first() {
        return Err(Failure::new(format!(
            "{} book differences; the first, of card {}: expected {}, found {}",
            report.differences.len(),
            first.card_id,
            first.expected,
            first.found,
        )));
    }
    let counts = &report.counts;
    let answered = counts.approved + counts.declined.values().sum::<u64>() + counts.unknown;
    if answered == 0 && counts.unanswered > 0 {
        return Err(Failure::new(format!(
            "no purchase was answered, and {} messages were not",
            counts.unanswered
        )));
    }
    let Comparison { cards, unchecked, .. } = report.comparison;
    if report.ended_early.is_none() && cards == 0 && unchecked > 0 {
        return Err(Failure::new(format!(
            "no book could be checked: the switch tells nothing of the {unchecked} cards that were used"
        )));
    }
    match &report.ended_early {
        Some(reason) => Err(Failure::new(format!("ended early: {reason}"))),
        None => Ok(()),
    }
}

/// The start of virtual time. A manual clock does not go back: all earlier messages would be
/// stamped with one instant.
/// Errors: the switch goes by the system's clock, or its own has passed the start that was asked for.
async fn virtual_start(
    asked: Option<DateTime<Utc>>,
    http: Option<HttpSource>,
) -> Result<DateTime<Utc>, Failure> {
    let Some(source) = http else {
        if asked.is_none() {
            eprintln!(
                "virtual time starts at {}. A switch whose clock is later stamps everything with that \
                 instant: name --http, and the feed starts at its clock, or --start",
                written(default_start())
            );
        }
        return Ok(asked.unwrap_or_else(default_start));
    };
    let clock = tokio::task::spawn_blocking(move || cardswitch_feed::clock_of(&source)).await??;
    if clock.is_some_and(|clock| !clock.manual) {
        return Err(Failure::usage(
            "--speed needs a switch on a manual clock: this one goes by the system's, so no hold would expire \
             and no day would end",
        ));
    }
    start_after(asked, clock.map(|clock| clock.now))
}

fn start_after(
    asked: Option<DateTime<Utc>>,
    clock: Option<DateTime<Utc>>,
) -> Result<DateTime<Utc>, Failure> {
    let clock = clock.unwrap_or_default();
    match asked {
        None => Ok(default_start().max(clock)),
        Some(start) if start >= clock => Ok(start),
        Some(start) => Err(Failure::usage(format!(
            "--start {} is before the switch's clock, {}: purchases would all be stamped with that instant",
            written(start),
            written(clock)
        ))),
    }
}

fn written(at: DateTime<Utc>) -> String {
    at.format("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn parse_start(text: &str) -> Result<DateTime<Utc>, Failure> {
    let at = parse_time(text).and_then(to_utc);
    at.ok_or_else(|| Failure::usage(format!("`{text}` is no RFC 3339 time")))
}

fn to_utc(at: Timestamp) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp_micros(at.0)
}

/// When virtual time starts unless said otherwise.
pub fn default_start() -> DateTime<Utc> {
    DateTime::from_timestamp_micros(VIRTUAL_START_US).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_time_starts_where_the_clock_of_the_switch_stands() {
        let later = default_start() + chrono::Duration::days(300);
        assert_eq!(start_after(None, None).unwrap(), default_start());
        assert_eq!(start_after(None, Some(later)).unwrap(), later);
        assert_eq!(start_after(Some(later), Some(default_start())).unwrap(), later);
        assert!(start_after(Some(default_start()), Some(later)).is_err());
    }

    #[test]
    fn speeds_are_numbers_or_max() {
        assert_eq!("max".parse(), Ok(Speed::Max));
        assert_eq!("60".parse(), Ok(Speed::Times(60.0)));
        assert_eq!("60x".parse(), Ok(Speed::Times(60.0)));
        for text in ["", "0", "-1", "fast", "inf"] {
            assert!(text.parse::<Speed>().is_err(), "{text}");
        }
    }
}
