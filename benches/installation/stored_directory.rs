//! A data directory with millions of transactions: made once, then copied for each use.
//!
//! `CARDSWITCH_BENCH_CARDS` and `CARDSWITCH_BENCH_TRANSACTIONS` make it smaller,
//! `CARDSWITCH_BENCH_STORED` names a directory where it is kept for the bench files that follow.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use cardswitch_engine::engine::{Engine, Retention};
use tempfile::TempDir;

use super::{CardHashes, install, open, temporary_directory};
use crate::Must;
use crate::caller::{Caller, authorize, wait_for_tables};
use crate::program::{Program, Purchases};

const CARDS: u64 = 1_000_000;
const TRANSACTIONS: u64 = 5_000_000;
/// Commands in flight while it is filled.
const WINDOW: usize = 4_096;
/// The tables are waited for after so many: nobody is served meanwhile.
const FILL_STEP: u64 = 100_000;
/// Stands in a directory that is whole.
const DONE: &str = "done";

/// How many cards it has.
#[must_use]
pub fn stored_cards() -> u64 {
    from_environment("CARDSWITCH_BENCH_CARDS").unwrap_or(CARDS)
}

/// How many transactions it has.
#[must_use]
pub fn stored_transactions() -> u64 {
    from_environment("CARDSWITCH_BENCH_TRANSACTIONS").unwrap_or(TRANSACTIONS)
}

fn from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().must("read a number from the environment"))
}

/// The directory; gone with the value unless it is kept.
#[derive(Debug)]
pub struct StoredDirectory {
    data: PathBuf,
    _directory: Option<TempDir>,
}

impl StoredDirectory {
    /// Finds the one that is kept, or makes one.
    #[must_use]
    pub fn prepare() -> Self {
        let (cards, transactions) = (stored_cards(), stored_transactions());
        let Some(kept) = std::env::var_os("CARDSWITCH_BENCH_STORED") else {
            let directory = temporary_directory();
            let data = fill(directory.path(), cards, transactions);
            return Self { data, _directory: Some(directory) };
        };
        let place = PathBuf::from(kept).join(format!("{cards}-{transactions}"));
        if place.join(DONE).exists() {
            return Self { data: place.join("data"), _directory: None };
        }
        if place.exists() {
            fs::remove_dir_all(&place).must("remove a directory that was left unfinished");
        }
        fs::create_dir_all(&place).must("make a directory");
        let data = fill(&place, cards, transactions);
        fs::write(place.join(DONE), b"").must("mark the directory as whole");
        Self { data, _directory: None }
    }

    /// Copies it below `parent`, and returns the copy's place.
    #[must_use]
    pub fn copy_to(&self, parent: &Path) -> PathBuf {
        let copy = parent.join("data");
        copy_directory(&self.data, &copy);
        copy
    }
}

/// Copies a directory with all that is below it.
pub(super) fn copy_directory(from: &Path, to: &Path) {
    for file in files_below(from) {
        let copy = to.join(file.strip_prefix(from).must("stay below the directory"));
        fs::create_dir_all(copy.parent().unwrap_or(to)).must("make a directory");
        fs::copy(file, copy).must("copy a file");
    }
}

/// All files of a directory, those of directories in it, too.
#[must_use]
pub fn files_below(directory: &Path) -> Vec<PathBuf> {
    let (mut files, mut directories) = (Vec::new(), vec![directory.to_owned()]);
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).must("list a directory") {
            let path = entry.must("list a directory").path();
            if path.is_dir() { directories.push(path) } else { files.push(path) }
        }
    }
    files
}

fn fill(parent: &Path, cards: u64, transactions: u64) -> PathBuf {
    let start = Instant::now();
    let data = install(parent, Program::of_one_company(cards), CardHashes::Simulated);
    let engine = Arc::new(open(&data, Retention::Recovery));
    authorize_many(&engine, &mut Purchases::new(cards, 21), transactions);
    engine.shut_down();
    println!(
        "PREPARED: {cards} cards, {transactions} transactions in {:.0} s, {} MiB on disk",
        start.elapsed().as_secs_f64(),
        directory_bytes(&data) >> 20
    );
    data
}

/// Authorizes so many purchases, and waits until the tables show them.
pub fn authorize_many(engine: &Arc<Engine>, purchases: &mut Purchases, count: u64) {
    let mut caller = Caller::new(Arc::clone(engine), WINDOW);
    let mut left = count;
    while left > 0 {
        let step = left.min(FILL_STEP);
        authorize(&mut caller, purchases, step, &mut |_| {});
        wait_for_tables(engine);
        left -= step;
    }
}

/// How many bytes the files of a directory have.
#[must_use]
pub fn directory_bytes(directory: &Path) -> u64 {
    files_below(directory).iter().filter_map(|file| Some(file.metadata().ok()?.len())).sum()
}
