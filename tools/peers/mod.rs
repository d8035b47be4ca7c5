//! cardswitch, PostgreSQL, Redis and TigerBeetle make the same durable authorizations, one after the other on this
//! machine and this disk. README.md tells what is compared, and what is fair.
//!
//! Servers are started on directories and ports of their own and are ended with the run.

mod cardswitch;
mod closed_loop;
mod conformity;
mod peer;
mod postgresql;
mod program;
mod redis;
mod report;
mod rules;
mod shard;
mod tigerbeetle;

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use cardswitch_benches::installation::temporary_directory;
use cardswitch_benches::program::{CardDraw, Draws, Purchases};
use cardswitch_benches::yardstick::{BareDatabase, time_each};
use cardswitch_tools::{Outcome, fail};
use clap::ValueEnum;

use cardswitch::{EmbeddedEngine, Iso8583Switch};
use closed_loop::{Discipline, PeerFigures, Tally, keep_in_flight};
use peer::{Books, Load, Peer};
use postgresql::Postgresql;
use program::Program;
use redis::Redis;
use report::{Contender, Report};
use tigerbeetle::Tigerbeetle;

/// The seed of every stream of purchases.
const SEED: u64 = 13;
/// How long a redb commit of 100 bytes is measured, each time, and 100 bytes appended with fdatasync.
const YARDSTICK: Duration = Duration::from_secs(2);

/// How long, with how many cards, and who.
#[derive(Debug, clap::Args)]
pub(crate) struct Scale {
    /// Seconds measured in each cell; a fifth of it more for each warm-up
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Cards in the program
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    cards: u64,
    /// Popularity of the card of rank k is 1 / k^ZIPF, between 0 and 1; without it all are alike
    #[arg(long)]
    zipf: Option<f64>,
    /// The server's program of TigerBeetle 0.17.9 or later; it is left out without one
    #[arg(long, env = "CARDSWITCH_TIGERBEETLE")]
    tigerbeetle: Option<PathBuf>,
    /// Only these; repeat or separate with commas
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Contender>,
    /// Purchases in flight, 1 or more
    #[arg(long, value_delimiter = ',', default_values_t = [1, 64, 1_024])]
    windows: Vec<usize>,
}

/// Measures and prints.
pub(crate) fn run(scale: &Scale) -> Outcome<()> {
    if scale.windows.contains(&0) {
        return fail("a window is at least 1");
    }
    if scale.zipf.is_some_and(|theta| theta <= 0.0 || theta >= 1.0) {
        return fail("a skew is between 0 and 1");
    }
    // The one thread of the clients of peers is this one.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut run = Run { scale, report: Report::default() };
    for contender in Contender::value_variants().iter().copied() {
        if scale.only.is_empty() || scale.only.contains(&contender) {
            let directory = temporary_directory();
            let commits = BareDatabase::create(directory.path()).time_commits(YARDSTICK);
            let mut file = tempfile::tempfile_in(directory.path())?;
            let mut append = || file.write_all(&[7; 100]).and_then(|()| file.sync_data());
            let appends = time_each(YARDSTICK, || append().expect("write to the disk"));
            println!("YARDSTICK redb commit {commits}; append + fdatasync {appends}");
            run.report.commits_us.push(commits.percentile_us(50.0));
            let measured = runtime.block_on(run.measure(contender));
            measured.map_err(|error| format!("{}: {error}", contender.title()))?;
        }
    }
    println!("\n{}", run.report.to_markdown(scale.cards, &scale.windows));
    Ok(())
}

/// A run as far as it has come.
struct Run<'a> {
    scale: &'a Scale,
    report: Report,
}

impl Run<'_> {
    async fn measure(&mut self, contender: Contender) -> Outcome<()> {
        let Scale { cards, zipf, .. } = *self.scale;
        let draw = zipf.map_or(CardDraw::uniform(cards), |theta| CardDraw::zipf(cards, theta));
        let draws = Draws::over(draw.clone(), SEED);
        match contender {
            Contender::Cardswitch => {
                let mut engine = EmbeddedEngine::open(cards, Purchases::drawn(draw, SEED));
                let measure = async |load| Ok(engine.measure(load));
                let tally = self.measure_windows(contender, &[1], measure).await?;
                check_books(&tally, &engine.books(&tally)?)
            }
            Contender::Iso8583 => {
                let switch = Iso8583Switch::open(cards, &draw)?;
                let measure = async |load| switch.measure(load);
                let tally = self.measure_windows(contender, &[1], measure).await?;
                check_books(&tally, &switch.stop(&tally)?)
            }
            Contender::Postgresql => {
                let peer = Postgresql::start(Discipline::CardsToLanes)?;
                self.measure_peer(contender, peer, draws).await
            }
            Contender::PostgresqlOneEach => {
                let peer = Postgresql::start(Discipline::OneEach)?;
                self.measure_peer(contender, peer, draws).await
            }
            Contender::Redis => self.measure_peer(contender, Redis::start()?, draws).await,
            Contender::Tigerbeetle => match &self.scale.tigerbeetle {
                Some(server) => self.measure_peer(contender, Tigerbeetle::at(server)?, draws).await,
                None => {
                    println!("LEFT OUT TigerBeetle: CARDSWITCH_TIGERBEETLE names no program");
                    Ok(())
                }
            },
        }
    }

    async fn measure_peer(
        &mut self,
        contender: Contender,
        mut peer: impl Peer,
        mut draws: Draws,
    ) -> Outcome<()> {
        let rules = conformity::check(&mut peer, chrono::Utc::now().timestamp_micros()).await?;
        println!("PEER {}; {rules} rows of rules as cardswitch", peer.durability().await?);
        peer.found(&Program::ordinary(self.scale.cards)).await?;
        let connections = peer.connections();
        let measure = async |load: Load| {
            let lanes = peer.connect(load.connections).await?;
            keep_in_flight(lanes, peer.discipline(), &mut draws, load).await
        };
        let tally = self.measure_windows(contender, connections, measure).await?;
        check_books(&tally, &peer.books().await?)?;
        peer.crash().await?;
        let recovered = check_books(&tally, &peer.books().await?);
        recovered.map_err(|error| format!("after a crash: {error}").into())
    }

    /// Measures every window and returns all that was answered, warm-ups included.
    async fn measure_windows(
        &mut self,
        contender: Contender,
        connections: &[usize],
        mut measure: impl AsyncFnMut(Load) -> Outcome<PeerFigures>,
    ) -> Outcome<Tally> {
        self.report.begin(contender);
        let (mut tally, duration) = (Tally::default(), Duration::from_secs(self.scale.seconds));
        for window in self.scale.windows.iter().copied() {
            // Each number of connections is a warm-up; the fastest is measured.
            let mut fastest = (0.0, Load { window, connections: 1, duration });
            for connections in connections.iter().copied().filter(|count| *count <= window) {
                let load = Load { window, connections, duration };
                let warm_up = measure(Load { duration: duration / 5, ..load }).await?;
                tally.add(&warm_up.tally);
                if warm_up.per_second() > fastest.0 {
                    fastest = (warm_up.per_second(), load);
                }
            }
            let figures = measure(fastest.1).await?;
            tally.add(&figures.tally);
            self.report.add(fastest.1, &figures);
        }
        Ok(tally)
    }
}

/// Checks that a peer has stored the sums that it has answered, to the last minor unit.
/// Errors: the sums differ.
fn check_books(tally: &Tally, books: &Books) -> Outcome<()> {
    if *books == Books::of(tally) && tally.approvals == tally.answers {
        return Ok(());
    }
    fail(format!("it has stored {books:?}, but answered {tally:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn books_must_agree_to_the_minor_unit() {
        let tally = Tally { answers: 2, approvals: 2, approved_minor: 300 };
        let books = Books::of(&tally);
        assert!(check_books(&tally, &books).is_ok());
        assert!(check_books(&tally, &Books { account_held_minor: 299, ..books }).is_err());
        assert!(check_books(&tally, &Books { cards_spent_minor: 301, ..books }).is_err());
        assert!(check_books(&tally, &Books { transactions_held: 1, ..books }).is_err());
        assert!(check_books(&Tally { answers: 3, ..tally }, &books).is_err());
    }
}
