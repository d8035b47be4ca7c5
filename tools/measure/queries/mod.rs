//! The cost of lists of transactions, beside PostgreSQL with the indexes an expert would give it:
//! the same rows in both, the same questions, in one run. `tools/README.md` describes the comparison.
//!
//! Every answer of one is compared with the other's: count and page.

mod history;
mod postgresql;
mod question;
mod store;

use std::time::{Duration, Instant};

use cardswitch_benches::program::Random;
use cardswitch_load::latencies::Latencies;
use cardswitch_tools::report::{grouped, time};
use cardswitch_tools::{Outcome, fail};

use history::History;
use postgresql::Postgresql;
use question::{Cell, Question, cells};
use store::CardswitchStore;

/// Asked before anything is measured, so that caches are warm.
const WARM_UP: usize = 20;
/// More questions than this tell nothing more about p99.
const QUESTIONS_MAX: usize = 2_000;
/// Answers that are compared, of each cell.
const COMPARED: usize = 5;

/// How many transactions, and for how long.
#[derive(Debug, clap::Args)]
pub(crate) struct Scale {
    /// Stored transactions, 1,000 or more; PostgreSQL is measured with the last number
    #[arg(long, value_delimiter = ',', default_values_t = [1_000_000, 5_000_000], value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u64).range(1_000..))]
    sizes: Vec<u64>,
    /// Seconds measured in each cell, of each of both
    #[arg(long, default_value_t = 2.0, value_name = "S")]
    seconds: f64,
}

/// Measures and prints.
pub(crate) fn run(scale: &Scale) -> Outcome<()> {
    let budget = Duration::try_from_secs_f64(scale.seconds)?;
    let mut rows: Vec<String> = Vec::new();
    let mut largest = None;
    for size in &scale.sizes {
        let history = History::new(*size);
        let stored = CardswitchStore::fill(&history)?;
        println!("{size} transactions are stored");
        for (place, cell) in cells(&history).iter().enumerate() {
            if place == rows.len() {
                rows.push(format!("| {} ", cell.name));
            }
            let questions = questions_of(cell);
            let own = measure(&questions, budget, |question| stored.answer(question).map(drop))?;
            rows[place] += &format!("| {} ", pair(&own));
        }
        largest = Some((history, stored));
    }
    let Some((history, stored)) = largest else { return fail("there is no size") };
    let peer = Postgresql::fill(&history)?;
    let nothing = measure(&[()], budget, |()| peer.answer_nothing())?;
    println!("YARDSTICK an empty statement of PostgreSQL: {}", pair(&nothing));
    let sizes: Vec<String> = scale.sizes.iter().map(|size| grouped(*size as f64)).collect();
    println!("\n| filter | {} | PostgreSQL |", sizes.join(" | "));
    println!("|---|{}", "---:|".repeat(sizes.len() + 1));
    for (cell, row) in cells(&history).iter().zip(rows) {
        let questions = questions_of(cell);
        compare(cell, &questions, (&stored, &peer))?;
        let other = measure(&questions, budget, |question| peer.answer(question).map(drop))?;
        println!("{row}| {} |", pair(&other));
    }
    Ok(())
}

fn questions_of(cell: &Cell<'_>) -> Vec<Question> {
    let mut random = Random::new(7);
    (0..QUESTIONS_MAX).map(|_| cell.question(&mut random)).collect()
}

/// Errors: the two do not answer the same.
fn compare(
    cell: &Cell<'_>,
    questions: &[Question],
    (stored, peer): (&CardswitchStore, &Postgresql),
) -> Outcome<()> {
    for question in questions.iter().take(COMPARED) {
        let (own, other) = (stored.answer(question)?, peer.answer(question)?);
        if own != other {
            let name = &cell.name;
            return fail(format!("{name}: {question:?} gives {own:?} here and {other:?} there"));
        }
    }
    Ok(())
}

fn pair(latencies: &Latencies) -> String {
    [50.0, 99.0].map(|percent| time(latencies.percentile_us(percent))).join(" / ")
}

/// Asks again and again, until the time is up.
fn measure<Q>(
    questions: &[Q],
    budget: Duration,
    mut ask: impl FnMut(&Q) -> Outcome<()>,
) -> Outcome<Latencies> {
    let mut turns = questions.iter().cycle();
    let start = Instant::now();
    for question in turns.by_ref().take(WARM_UP) {
        ask(question)?;
        if start.elapsed() > budget / 4 {
            break;
        }
    }
    let (start, mut latencies) = (Instant::now(), Latencies::default());
    for question in turns.take(QUESTIONS_MAX) {
        let asked_at = Instant::now();
        ask(question)?;
        latencies.note(asked_at.elapsed());
        if start.elapsed() > budget {
            break;
        }
    }
    Ok(latencies)
}
