//! Measures cardswitch, PostgreSQL, Redis and TigerBeetle making the same durable authorizations,
//! one after the other on this machine and this disk. README.md tells what is compared, and what is
//! fair.
//!
//! Servers are started on directories and ports of their own and are ended with the run.

mod cardswitch;
mod closed_loop;
mod conformity;
mod outcome;
mod peer;
mod plot;
mod postgresql;
mod program;
mod redis;
mod report;
mod resp;
mod server;
mod tigerbeetle;
mod yardsticks;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use cardswitch_benches::meter::print_control;
use cardswitch_benches::program::{self as benches_program, CardDraw};
use clap::Parser;

use crate::cardswitch::{EmbeddedEngine, Iso8583Switch, check_held};
use crate::closed_loop::{Discipline, PeerFigures, Tally};
use crate::outcome::{Outcome, fail};
use crate::peer::{Books, Load, Peer};
use crate::postgresql::{Postgresql, Tuning};
use crate::program::{Program, Purchases};
use crate::redis::Redis;
use crate::report::{Cell, Contender, Report, time};
use crate::tigerbeetle::Tigerbeetle;
use crate::yardsticks::Yardsticks;

/// The seed of every stream of purchases.
const SEED: u64 = 13;
/// How long each yardstick is taken, each time.
const YARDSTICK: Duration = Duration::from_secs(2);

/// Measures cardswitch beside PostgreSQL, Redis and TigerBeetle doing the same work.
#[derive(Debug, Parser)]
#[command(name = "peers", version)]
struct Arguments {
    /// Seconds measured in each cell; a fifth of it more for each warm-up.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Cards in the program.
    #[arg(long, default_value_t = 10_000)]
    cards: u64,
    /// Popularity of the card of rank k is 1 / k^ZIPF, between 0 and 1; without it all are alike.
    #[arg(long)]
    zipf: Option<f64>,
    /// Only these; repeat or separate with commas.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Contender>,
    /// Purchases in flight.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 64, 1_024])]
    windows: Vec<usize>,
    /// Microseconds that a commit of PostgreSQL waits for others.
    #[arg(long, default_value_t = 0)]
    commit_delay_us: u32,
    /// The server's program of TigerBeetle 0.17.9 or later; it is left out without one.
    #[arg(long, env = "CARDSWITCH_TIGERBEETLE")]
    tigerbeetle: Option<PathBuf>,
    /// Where peers.json and peers.svg go; with `--zipf` peers-zipf.json and peers-zipf.svg.
    #[arg(long, default_value = "tools/peers")]
    out: PathBuf,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("peers: {}", with_sources(&*error));
            ExitCode::FAILURE
        }
    }
}

/// The text of an error and of its sources: a database tells its reason there.
fn with_sources(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text += &format!(": {error}");
        source = error.source();
    }
    text
}

fn run(arguments: &Arguments) -> Outcome<()> {
    if arguments.cards == 0 || arguments.windows.contains(&0) || arguments.seconds == 0 {
        return fail("cards, windows and seconds are at least 1");
    }
    if arguments.zipf.is_some_and(|theta| theta <= 0.0 || theta >= 1.0) {
        return fail("a skew is between 0 and 1");
    }
    let mut run = Run {
        arguments,
        cells: Vec::new(),
        yardsticks: Vec::new(),
        servers: Vec::new(),
        left_out: Vec::new(),
    };
    print_control("before");
    for contender in Contender::ALL {
        if arguments.only.is_empty() || arguments.only.contains(&contender) {
            run.take_yardsticks()?;
            run.measure(contender)
                .map_err(|error| format!("{}: {}", contender.title(), with_sources(&*error)))?;
        }
    }
    run.take_yardsticks()?;
    print_control("after");
    write_report(&run.into_report()?, &arguments.out)
}

/// A run as far as it has come.
struct Run<'a> {
    arguments: &'a Arguments,
    cells: Vec<Cell>,
    yardsticks: Vec<Yardsticks>,
    servers: Vec<String>,
    left_out: Vec<String>,
}

impl Run<'_> {
    fn take_yardsticks(&mut self) -> Outcome<()> {
        let taken = Yardsticks::take(YARDSTICK)?;
        let (commit, append) = (time(taken.redb_commit_us), time(taken.append_us));
        println!("YARDSTICK redb commit {commit}, append + fdatasync {append}");
        self.yardsticks.push(taken);
        Ok(())
    }

    fn measure(&mut self, contender: Contender) -> Outcome<()> {
        let purchases = Purchases::over(self.draw(), SEED);
        match contender {
            Contender::Cardswitch => self.measure_in_process(),
            Contender::Iso8583 => self.measure_over_iso8583(purchases),
            Contender::Postgresql => {
                let tuning = self.tuning(Discipline::CardsToLanes);
                self.measure_peer(contender, Postgresql::start(tuning, purchases)?)
            }
            Contender::PostgresqlOneEach => {
                let tuning = self.tuning(Discipline::OneEach);
                self.measure_peer(contender, Postgresql::start(tuning, purchases)?)
            }
            Contender::Redis => self.measure_peer(contender, Redis::start(purchases)?),
            Contender::Tigerbeetle => match &self.arguments.tigerbeetle {
                Some(server) => self.measure_peer(contender, Tigerbeetle::at(server, purchases)?),
                None if self.arguments.only.contains(&contender) => {
                    fail("CARDSWITCH_TIGERBEETLE names no server program")
                }
                None => {
                    let without = "TigerBeetle, as CARDSWITCH_TIGERBEETLE names no server program";
                    self.left_out.push(without.to_owned());
                    Ok(())
                }
            },
        }
    }

    /// How purchases are spread over the cards.
    fn draw(&self) -> CardDraw {
        let Arguments { cards, zipf, .. } = *self.arguments;
        zipf.map_or(CardDraw::uniform(cards), |theta| CardDraw::zipf(cards, theta))
    }

    fn tuning(&self, discipline: Discipline) -> Tuning {
        Tuning { discipline, commit_delay_us: self.arguments.commit_delay_us }
    }

    fn measure_in_process(&mut self) -> Outcome<()> {
        let purchases = benches_program::Purchases::over(self.draw(), SEED);
        let mut engine = EmbeddedEngine::open(self.arguments.cards, purchases)?;
        let tally = self.measure_windows(Contender::Cardswitch, &[1], |load| {
            Ok(engine.measure(load.window, load.duration))
        })?;
        check_held(&tally, engine.held_minor()?)?;
        print_checked(Contender::Cardswitch, &tally);
        Ok(())
    }

    fn measure_over_iso8583(&mut self, purchases: Purchases) -> Outcome<()> {
        let mut switch = Iso8583Switch::open(self.arguments.cards, purchases)?;
        let tally = self.measure_windows(Contender::Iso8583, &[1], |load| {
            switch.measure(load.window, load.duration)
        })?;
        check_held(&tally, switch.held_minor()?)?;
        print_checked(Contender::Iso8583, &tally);
        switch.close()
    }

    fn measure_peer(&mut self, contender: Contender, mut peer: impl Peer) -> Outcome<()> {
        let rules = conformity::check(&mut peer, chrono::Utc::now().timestamp_micros())?;
        let durability = peer.durability()?;
        println!("PEER {durability}; answers {rules} rows of rules as cardswitch does");
        self.servers.push(durability);
        peer.found(&Program::ordinary(self.arguments.cards))?;
        let connections = peer.connections();
        let tally = self.measure_windows(contender, connections, |load| peer.measure(load))?;
        check_books(&tally, &peer.books()?)?;
        peer.crash()?;
        let recovered = check_books(&tally, &peer.books()?);
        recovered.map_err(|error| format!("after a crash: {error}"))?;
        print_checked(contender, &tally);
        Ok(())
    }

    /// Measures every window and returns all that was answered, warm-ups included.
    fn measure_windows(
        &mut self,
        contender: Contender,
        connections: &[usize],
        mut measure: impl FnMut(Load) -> Outcome<PeerFigures>,
    ) -> Outcome<Tally> {
        let yardsticks = *self.yardsticks.last().ok_or("the disk was not measured before")?;
        let mut tally = Tally::default();
        let mut measure = |load| -> Outcome<PeerFigures> {
            let measured = measure(load)?;
            tally.add(&measured.tally);
            Ok(measured)
        };
        for window in self.arguments.windows.clone() {
            let load = self.fastest(window, connections, &mut measure)?;
            let measured = measure(load)?;
            let cell = Cell::new(contender, load, &measured, yardsticks);
            println!("CELL {cell}");
            self.cells.push(cell);
        }
        Ok(tally)
    }

    /// Warms up with each number of connections, and returns the load of the fastest.
    fn fastest(
        &self,
        window: usize,
        connections: &[usize],
        measure: &mut impl FnMut(Load) -> Outcome<PeerFigures>,
    ) -> Outcome<Load> {
        let duration = Duration::from_secs(self.arguments.seconds);
        let mut fastest = (0.0, Load { window, connections: 1, duration });
        for connections in connections.iter().copied().filter(|connections| *connections <= window)
        {
            let per_second =
                measure(Load { window, connections, duration: duration / 5 })?.per_second();
            if per_second > fastest.0 {
                fastest = (per_second, Load { window, connections, duration });
            }
        }
        Ok(fastest.1)
    }

    fn into_report(self) -> Outcome<Report> {
        let yardsticks = Yardsticks::median(&self.yardsticks).ok_or("nothing was measured")?;
        Ok(Report {
            cells: self.cells,
            yardsticks,
            machine: machine(),
            date: chrono::Utc::now().date_naive().to_string(),
            cards: self.arguments.cards,
            seconds: self.arguments.seconds,
            zipf: self.arguments.zipf,
            servers: self.servers,
            left_out: self.left_out,
        })
    }
}

/// Checks that a peer has stored the sums that it has answered, to the last minor unit.
/// Errors: the sums differ.
fn check_books(tally: &Tally, books: &Books) -> Outcome<()> {
    let answered = Books {
        account_held_minor: tally.approved_minor,
        cards_spent_minor: tally.approved_minor,
        transactions_held_minor: tally.approved_minor,
        transactions_held: tally.approvals,
    };
    if *books == answered && tally.approvals == tally.answers {
        return Ok(());
    }
    fail(format!("it has stored {books:?}, but answered {tally:?}"))
}

fn print_checked(contender: Contender, tally: &Tally) {
    println!(
        "CHECKED {}: the holds stored are those of the {} approvals answered",
        contender.title(),
        tally.approvals
    );
}

fn write_report(report: &Report, directory: &Path) -> Outcome<()> {
    println!("\n{}", report.to_markdown());
    let json = serde_json::to_string_pretty(&report.to_json())? + "\n";
    let name = if report.zipf.is_some() { "peers-zipf" } else { "peers" };
    let path = |extension| directory.join(name).with_extension(extension);
    let (table, plot) = (path("json"), path("svg"));
    fs::write(&table, json)?;
    fs::write(&plot, plot::draw(report))?;
    println!("written: {}, {}", table.display(), plot.display());
    Ok(())
}

/// The description of this machine, as far as the system tells.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("unknown processor", |line| line.trim_matches([' ', '\t', ':']));
    format!("{cores} cores, {model}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn books_must_agree_to_the_minor_unit() {
        let tally = Tally { answers: 2, approvals: 2, approved_minor: 300 };
        let books = Books {
            account_held_minor: 300,
            cards_spent_minor: 300,
            transactions_held_minor: 300,
            transactions_held: 2,
        };
        assert!(check_books(&tally, &books).is_ok());
        assert!(check_books(&tally, &Books { account_held_minor: 299, ..books }).is_err());
        assert!(check_books(&tally, &Books { cards_spent_minor: 301, ..books }).is_err());
        assert!(check_books(&tally, &Books { transactions_held: 1, ..books }).is_err());
        assert!(check_books(&Tally { answers: 3, ..tally }, &books).is_err());
    }

    #[test]
    fn arguments_name_contenders_and_windows() {
        let parse = |line: &str| Arguments::try_parse_from(line.split(' '));
        let arguments = parse("peers --only redis,iso8583 --windows 1,8 --cards 5").unwrap();
        assert_eq!(arguments.only, [Contender::Redis, Contender::Iso8583]);
        assert_eq!(arguments.windows, [1, 8]);
        assert!(parse("peers --only oracle").is_err());
        assert!(run(&parse("peers --windows 0").unwrap()).is_err());
        assert!(run(&parse("peers --zipf 1").unwrap()).is_err());
    }
}
