//! The cost of lists of transactions, beside PostgreSQL with the indexes an expert would give it:
//! the same rows in both, the same questions, in one run. README.md describes the comparison.
//!
//! Every answer of one is compared with the other's: count and page.

mod history;
#[path = "../peers/outcome.rs"]
mod outcome;
mod postgresql;
mod question;
#[path = "../peers/server.rs"]
mod server;
mod store;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use cardswitch_benches::meter::print_control;
use cardswitch_benches::program::Random;
use clap::Parser;

use crate::history::History;
use crate::outcome::{Outcome, fail};
use crate::postgresql::Postgresql;
use crate::question::{Cell, QueryAnswer, Question, cells};
use crate::store::CardswitchStore;

/// Asked before anything is measured, so that caches are warm.
const WARM_UP: usize = 20;
/// More questions than this tell nothing more about p99.
const QUESTIONS_MAX: usize = 2_000;
/// Answers that are compared, of each cell.
const COMPARED: usize = 5;

/// Measures lists of transactions beside PostgreSQL.
#[derive(Debug, Parser)]
#[command(name = "query-figures", version)]
struct Arguments {
    /// Stored transactions; repeat or separate with commas.
    #[arg(long, value_delimiter = ',', default_values_t = [10_000, 1_000_000, 5_000_000])]
    sizes: Vec<u64>,
    /// Seconds measured in each cell, of each of both.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Leave PostgreSQL out.
    #[arg(long)]
    alone: bool,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("query-figures: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Outcome<()> {
    if arguments.sizes.iter().any(|size| *size < 1_000) {
        return fail("a size is at least 1,000");
    }
    let budget = Duration::try_from_secs_f64(arguments.seconds)?;
    print_control("before");
    for size in &arguments.sizes {
        measure_size(*size, budget, arguments.alone)?;
    }
    print_control("after");
    Ok(())
}

fn measure_size(size: u64, budget: Duration, alone: bool) -> Outcome<()> {
    let history = History::new(size);
    let start = Instant::now();
    let store = CardswitchStore::fill(&history)?;
    println!("FILLED cardswitch: {size} transactions in {:.0?}", start.elapsed());
    let peer = if alone { None } else { Some(fill_peer(&history)?) };
    if let Some(peer) = &peer {
        let empty = measure(budget / 2, || peer.answer_nothing())?;
        println!("YARDSTICK PostgreSQL, a prepared statement that reads nothing: {empty}");
    }
    println!("\n| {size} transactions | count | cardswitch p50 | p99 | PostgreSQL p50 | p99 |");
    println!("|---|---|---|---|---|---|");
    for cell in cells(&history) {
        measure_cell(&cell, &store, peer.as_ref(), budget)?;
    }
    println!();
    Ok(())
}

fn fill_peer(history: &History) -> Outcome<Postgresql> {
    let start = Instant::now();
    let peer = Postgresql::fill(history)?;
    println!("FILLED PostgreSQL: the same rows and its indexes in {:.0?}", start.elapsed());
    Ok(peer)
}

fn measure_cell(
    cell: &Cell<'_>,
    store: &CardswitchStore,
    peer: Option<&Postgresql>,
    budget: Duration,
) -> Outcome<()> {
    let mut random = Random::new(7);
    let questions: Vec<Question> = (0..QUESTIONS_MAX).map(|_| cell.question(&mut random)).collect();
    let own = measure_questions(&questions, budget, |question| store.answer(question))?;
    let mut line = format!("| {} | {} | {}", cell.name(), own.count, own.latency);
    if let Some(peer) = peer {
        compare(cell, &questions, store, peer)?;
        let other = measure_questions(&questions, budget, |question| peer.answer(question))?;
        line += &format!(" | {}", other.latency);
    } else {
        line += " | | ";
    }
    println!("{line} |");
    Ok(())
}

/// Errors: the two do not answer the same.
fn compare(
    cell: &Cell<'_>,
    questions: &[Question],
    store: &CardswitchStore,
    peer: &Postgresql,
) -> Outcome<()> {
    for question in questions.iter().take(COMPARED) {
        let (own, other) = (store.answer(question)?, peer.answer(question)?);
        if own != other {
            let name = cell.name();
            return fail(format!("{name}: {question:?} gives {own:?} here and {other:?} there"));
        }
    }
    Ok(())
}

/// The result of a cell's questions.
struct CellFigures {
    /// The median count of matching rows.
    count: u64,
    latency: Latency,
}

fn measure_questions(
    questions: &[Question],
    budget: Duration,
    mut answer: impl FnMut(&Question) -> Outcome<QueryAnswer>,
) -> Outcome<CellFigures> {
    let mut counts = Vec::new();
    let mut turns = questions.iter().cycle();
    let latency = measure(budget, || {
        let Some(question) = turns.next() else { return fail("there are no questions") };
        counts.push(answer(question)?.count);
        Ok(())
    })?;
    counts.sort_unstable();
    Ok(CellFigures { count: counts[counts.len() / 2], latency })
}

/// How long something took.
struct Latency {
    p50: Duration,
    p99: Duration,
    asked: usize,
}

impl std::fmt::Display for Latency {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} | {}", short(self.p50), short(self.p99))?;
        // Of few, the 99th percentile is the greatest.
        if self.asked < 100 { write!(formatter, " (of {})", self.asked) } else { Ok(()) }
    }
}

fn short(time: Duration) -> String {
    let micros = time.as_secs_f64() * 1e6;
    if micros < 1_000.0 { format!("{micros:.0} us") } else { format!("{:.1} ms", micros / 1e3) }
}

/// Does something again and again, until the time is up.
fn measure(budget: Duration, mut ask: impl FnMut() -> Outcome<()>) -> Outcome<Latency> {
    let start = Instant::now();
    for _ in 0..WARM_UP {
        ask()?;
        if start.elapsed() > budget / 4 {
            break;
        }
    }
    let start = Instant::now();
    let mut times = Vec::new();
    while times.is_empty() || (start.elapsed() < budget && times.len() < QUESTIONS_MAX) {
        let asked_at = Instant::now();
        ask()?;
        times.push(asked_at.elapsed());
    }
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)];
    Ok(Latency { p50: at(50), p99: at(99), asked: times.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cardswitch_answers_every_cell() {
        let history = History::new(3_000);
        let store = CardswitchStore::fill(&history).unwrap();
        let mut random = Random::new(3);
        for cell in cells(&history) {
            let question = cell.question(&mut random);
            let found = store.answer(&question).unwrap();
            let expected = question.answer_slowly(&history);
            assert_eq!(found, expected, "{}: {question:?}", cell.name());
        }
    }
}
