//! The least cost of a durable answer on this disk, measured beside the contenders.

use std::io::Write;
use std::time::{Duration, Instant};

use cardswitch_benches::installation::temporary_directory;
use cardswitch_benches::meter::Latencies;
use redb::{Database, TableDefinition};

use crate::outcome::Outcome;

const VALUE: [u8; 100] = [7; 100];
const VALUES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("values");
/// Keys used in turn, so that the file stays small.
const KEYS: u64 = 256;

/// Medians of one taking. Units: microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Yardsticks {
    pub(crate) redb_commit_us: f64,
    pub(crate) append_us: f64,
}

impl Yardsticks {
    /// Commits 100 bytes with redb, then appends 100 bytes with fdatasync, each for so long.
    pub(crate) fn take(each: Duration) -> Outcome<Self> {
        Ok(Self { redb_commit_us: redb_commit_us(each)?, append_us: append_us(each)? })
    }

    /// The medians of several takings.
    pub(crate) fn median(takings: &[Self]) -> Option<Self> {
        Some(Self {
            redb_commit_us: median(takings.iter().map(|taking| taking.redb_commit_us))?,
            append_us: median(takings.iter().map(|taking| taking.append_us))?,
        })
    }
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

fn redb_commit_us(duration: Duration) -> Outcome<f64> {
    let directory = temporary_directory();
    let database = Database::create(directory.path().join("yardstick.redb"))?;
    let mut key = 0;
    median_us(duration, || {
        key = (key + 1) % KEYS;
        let write_txn = database.begin_write()?;
        write_txn.open_table(VALUES)?.insert(key, VALUE.as_slice())?;
        Ok(write_txn.commit()?)
    })
}

fn append_us(duration: Duration) -> Outcome<f64> {
    let directory = temporary_directory();
    let mut file = std::fs::File::create_new(directory.path().join("yardstick"))?;
    median_us(duration, || {
        file.write_all(&VALUE)?;
        Ok(file.sync_data()?)
    })
}

fn median_us(duration: Duration, mut work: impl FnMut() -> Outcome<()>) -> Outcome<f64> {
    let mut latencies = Latencies::default();
    let start = Instant::now();
    while start.elapsed() < duration {
        let before = Instant::now();
        work()?;
        latencies.note(before.elapsed());
    }
    Ok(latencies.percentile_us(50.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_of_each_yardstick_by_itself() {
        let taking = |redb_commit_us, append_us| Yardsticks { redb_commit_us, append_us };
        let takings = [taking(1.0, 30.0), taking(3.0, 10.0), taking(2.0, 20.0)];
        let median = Yardsticks::median(&takings).unwrap();
        assert_eq!((median.redb_commit_us, median.append_us), (2.0, 20.0));
        assert!(Yardsticks::median(&[]).is_none());
    }

    #[test]
    fn both_are_taken() {
        let taken = Yardsticks::take(Duration::from_millis(20)).unwrap();
        assert!(taken.redb_commit_us > 0.0 && taken.append_us > 0.0, "{taken:?}");
    }
}
