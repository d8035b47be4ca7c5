//! `cardswitch bench`: what this machine gives, in a minute: authorizations a second, and how long one
//! waits at half of that rate, each beside what the machine does without a switch.
//!
//! Switch and client share the processors. The data directory is a temporary one.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cardswitch_feed::{Card, Portfolio};
use cardswitch_load::blocks::{BLOCK_BYTES, PreallocatedFile};
use cardswitch_load::iso::{Iso, PurchaseSettings};
use cardswitch_load::latencies::Latencies;
use cardswitch_load::load::Load;
use cardswitch_load::tally::Tally;
use cardswitch_load::{BoxError, echo};

use super::home::{Home, Program};
use super::{Failure, StopSignal, parse_duration};
use crate::config::Settings;
use crate::server::Server;

const CONNECTIONS: usize = 4;
/// Unanswered authorizations of a connection, where as many as possible are answered.
const IN_FLIGHT_MAX: u32 = 256;
/// How often it is looked whether the tables have caught up.
const LAG_INTERVAL: Duration = Duration::from_millis(100);

/// The arguments of `bench`.
#[derive(Debug, clap::Args)]
pub struct BenchArgs {
    /// Duration of all measurements together, a second at least
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_measured)]
    duration: Duration,
    /// Directory on the disk to measure, for a data directory of its own [default: that of temporary
    /// files]
    #[arg(long = "in", value_name = "DIR")]
    place: Option<PathBuf>,
    /// Cards to buy with
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    cards: usize,
}

/// A shorter run ends before its loads have begun, so its figures would be of nothing.
const DURATION_MIN: Duration = Duration::from_secs(1);

fn parse_measured(text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text)?;
    if duration < DURATION_MIN { Err("write at least 1s".to_owned()) } else { Ok(duration) }
}

/// The loads of a run. Parts of the whole time, in percent.
const LOAD_PERCENT: u32 = 40;
const ECHO_PERCENT: u32 = 5;
const BLOCKS_PERCENT: u32 = 10;
const _: () = assert!(2 * (LOAD_PERCENT + ECHO_PERCENT) + BLOCKS_PERCENT == 100);

/// Carries out `bench`.
/// Errors: the directory is not there, the switch does not start, or leaves authorizations unanswered.
pub async fn run(args: BenchArgs) -> Result<(), Failure> {
    let mut stop = StopSignal::listen()?;
    let place = args.place.clone().unwrap_or_else(std::env::temp_dir);
    // One that is not there is a slip of the pen.
    if !place.is_dir() {
        return Err(Failure::usage(format!("`{}` is no directory", place.display())));
    }
    let home = Home::temporary(&place, "bench");
    tokio::select! {
        outcome = run_in(&args, &place, &home) => return outcome,
        () = stop.received() => {}
    }
    drop(home);
    // The load would be waited for at any other end.
    std::process::exit(1)
}

async fn run_in(args: &BenchArgs, place: &Path, home: &Home) -> Result<(), Failure> {
    let program = Program { cards: args.cards, seed: Some(1), at: None };
    home.install_if_needed(program, |line| println!("{line}")).await?;
    let portfolio = home.portfolio()?;
    let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
    let settings = Settings { http: any_port, iso8583: any_port, ..Settings::default() };
    let server = Server::start(home.path.as_path(), &settings).await?;
    let measured = measure(args, &server, (&portfolio, home.path.clone())).await;
    server.close().await;
    let BenchFigures { most, echo_most, half_rate, half, echo_half, blocks } = measured?;
    let machine = Machine::of(place);
    let (rate, echo_rate) = (most.per_second(), echo_most.per_second());
    let [p99, echo_p99, block_p99] =
        [&half.latencies, &echo_half.latencies, &blocks].map(|each| each.percentile_us(99.0) / 1e3);
    let block_rate = 1e6 / blocks.percentile_us(50.0).max(1.0);
    whole(&[&most, &half])?;
    println!("{machine}");
    println!(
        "authorizations     {rate:.0}/s, each durable before its answer, over {CONNECTIONS} connections"
    );
    println!(
        "  yardsticks       an echo {echo_rate:.0}/s; durable writes of 4 KiB, one at a time, {block_rate:.0}/s"
    );
    println!("p99 at {half_rate}/s    {p99:.2} ms, from when each was due");
    println!(
        "  yardsticks       an echo {echo_p99:.2} ms; a durable write of 4 KiB {block_p99:.2} ms"
    );
    println!(
        "cardswitch {} bench {:?}: {rate:.0} authorizations/s (echo {echo_rate:.0}/s, 4 KiB writes {block_rate:.0}/s), \
         p99 {p99:.2} ms at {half_rate}/s (echo {echo_p99:.2} ms, 4 KiB write {block_p99:.2} ms) on {machine}",
        env!("CARGO_PKG_VERSION"),
        args.duration,
    );
    Ok(())
}

/// The outcome of the loads.
struct BenchFigures {
    most: Tally,
    echo_most: Tally,
    /// Units: authorizations a second.
    half_rate: u64,
    half: Tally,
    echo_half: Tally,
    /// Durable writes, one after the other.
    blocks: Latencies,
}

async fn measure(
    args: &BenchArgs,
    server: &Server,
    (portfolio, directory): (&Portfolio, PathBuf),
) -> Result<BenchFigures, Failure> {
    let ordinary = portfolio.ordinary.iter().filter_map(|slot| portfolio.card(*slot));
    let cards: Vec<Card> = ordinary.cloned().collect();
    let part = |percent| args.duration * percent / 100;
    let echo = echo::start(echo::send_back)?;
    let beside = async |address, rate, percent| {
        let (cards, time) = (cards.clone(), part(percent));
        blocking(move || load(address, &cards, rate, time)).await
    };
    let time = part(BLOCKS_PERCENT);
    let blocks = blocking(move || write_blocks(&directory, time)).await?;
    let echo_most = beside(echo, None, ECHO_PERCENT).await?;
    println!("as many authorizations as are answered, for {:?}", part(LOAD_PERCENT));
    let most = beside(server.iso8583(), None, LOAD_PERCENT).await?;
    let half_rate = half_of(most.per_second());
    while server.engine.projection_lag().records > 0 && server.failure().is_none() {
        tokio::time::sleep(LAG_INTERVAL).await;
    }
    let echo_half = beside(echo, Some(half_rate), ECHO_PERCENT).await?;
    println!("{half_rate} authorizations a second, for {:?}", part(LOAD_PERCENT));
    let half = beside(server.iso8583(), Some(half_rate), LOAD_PERCENT).await?;
    Ok(BenchFigures { most, echo_most, half_rate, half, echo_half, blocks })
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BoxError> + Send + 'static,
) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work).await?.map_err(Failure::new)
}

/// Loads a door, at a rate or as fast as it answers.
/// Errors: nobody is there.
fn load(
    address: SocketAddr,
    cards: &[Card],
    rate: Option<u64>,
    time: Duration,
) -> Result<Tally, BoxError> {
    let load = Load {
        rate,
        connections: CONNECTIONS,
        in_flight_max: if rate.is_some() { u32::MAX } else { IN_FLIGHT_MAX },
        // Caches fill first.
        warmup: time / 10,
        measured: time - time / 10,
        ..Load::default()
    };
    load.carry_out(&[address], Iso::new(cards, PurchaseSettings::default())?)
}

/// Errors: those of the disk.
fn write_blocks(directory: &Path, time: Duration) -> Result<Latencies, BoxError> {
    let mut file = PreallocatedFile::create(directory)?;
    let (mut latencies, start) = (Latencies::default(), Instant::now());
    while start.elapsed() < time || latencies.count() == 0 {
        let before = Instant::now();
        file.write_durably(&[7; BLOCK_BYTES])?;
        latencies.note(before.elapsed());
    }
    Ok(latencies)
}

#[expect(clippy::cast_possible_truncation, reason = "a cast from a float saturates")]
#[expect(clippy::cast_sign_loss, reason = "a cast from a float saturates")]
fn half_of(rate: f64) -> u64 {
    ((rate / 2.0) as u64).max(1)
}

/// Errors: some authorizations were not approved, so the figures say something else.
fn whole(tallies: &[&Tally]) -> Result<(), Failure> {
    let sum = |count: fn(&Tally) -> u64| tallies.iter().map(|tally| count(tally)).sum::<u64>();
    let declined = sum(|tally| {
        let others = tally.counts.codes.iter().filter(|(code, _)| code != "00");
        others.map(|(_, count)| count).sum()
    });
    let broken = sum(|tally| tally.counts.broken_connections);
    // They are in the percentiles, with the time that they waited.
    let late = sum(|tally| tally.counts.unanswered + tally.counts.unsent);
    if late > 0 {
        println!("{late} authorizations were not answered in time");
    }
    if declined + broken == 0 {
        return Ok(());
    }
    let what = format!("{declined} authorizations declined, {broken} connections broken");
    Err(Failure::new(format!("the figures are of no use: {what}")))
}

/// The machine that was measured.
struct Machine {
    processor: String,
    cores: usize,
    kernel: String,
    file_system: String,
}

impl Machine {
    /// This machine, with the file system of a directory. Source: proc(5).
    fn of(directory: &Path) -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let unknown = || "unknown".to_owned();
        let processors = read("/proc/cpuinfo");
        let named = processors.lines().find_map(|line| line.strip_prefix("model name"));
        Self {
            processor: named
                .map_or_else(unknown, |name| name.trim_start_matches([' ', '\t', ':']).to_owned()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            file_system: file_system_of(directory, &read("/proc/mounts")).unwrap_or_else(unknown),
        }
    }
}

impl std::fmt::Display for Machine {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { processor, cores, kernel, file_system } = self;
        let build = if cfg!(debug_assertions) { ", a build that is not optimized" } else { "" };
        write!(formatter, "{processor}, {cores} cores, Linux {kernel}, {file_system}{build}")
    }
}

/// The type of the innermost mount that a directory is in.
fn file_system_of(directory: &Path, mounts: &str) -> Option<String> {
    let directory = directory.canonicalize().ok()?;
    let rows = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        Some((Path::new(fields.next()?), fields.next()?))
    });
    let around = rows.filter(|(mount, _)| directory.starts_with(mount));
    // Of mounts over one another the last one is seen.
    around.max_by_key(|(mount, _)| mount.components().count()).map(|(_, kind)| kind.to_owned())
}

#[cfg(test)]
mod tests {
    use cardswitch_load::wire::AnswerCode;

    use super::*;

    #[test]
    fn a_file_system_is_that_of_the_innermost_mount() {
        let mounts = "/dev/vda / ext4 rw 0 0\ntmpfs / tmpfs rw 0 0\nproc /proc proc rw 0 0\n";
        for (directory, expected) in [("/", "tmpfs"), ("/proc/self", "proc")] {
            assert_eq!(file_system_of(Path::new(directory), mounts).as_deref(), Some(expected));
        }
        assert_eq!(file_system_of(Path::new("/"), ""), None);
    }

    #[test]
    fn figures_of_declines_are_of_no_use() {
        let tally = |code: &[u8]| {
            let mut tally = Tally::default();
            tally.note_answer(AnswerCode::new(code), 1_000);
            tally.finish()
        };
        assert!(whole(&[&tally(b"00"), &tally(b"00")]).is_ok());
        let refused = whole(&[&tally(b"00"), &tally(b"61")]).unwrap_err().message;
        assert!(refused.contains("1 authorizations declined"), "{refused}");
    }
}
