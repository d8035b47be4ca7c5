//! A data directory with millions of transactions: made once, then copied for each use.
//!
//! `CARDSWITCH_BENCH_CARDS` and `CARDSWITCH_BENCH_TRANSACTIONS` make it smaller,
//! `CARDSWITCH_BENCH_STORED` names a directory where it is kept for the bench files that follow.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cardswitch_engine::engine::{Engine, Retention};

use super::{CardHashes, install, open};
use crate::caller::{ClosedLoopCaller, authorize, wait_for_tables};
use crate::program::{Program, Purchases};

const CARDS: u64 = 1_000_000;
const TRANSACTIONS: u64 = 5_000_000;
/// Commands in flight while it is filled.
const WINDOW: usize = 4_096;
/// The tables are waited for after so many: nobody is served meanwhile.
const FILL_STEP: u64 = 100_000;
const READ_BYTES: usize = 1 << 20;
/// Stands in a directory that is whole.
const DONE: &str = "done";

/// How many cards it has.
pub fn stored_cards() -> u64 {
    from_environment("CARDSWITCH_BENCH_CARDS").unwrap_or(CARDS)
}

/// How many transactions it has.
pub fn stored_transactions() -> u64 {
    from_environment("CARDSWITCH_BENCH_TRANSACTIONS").unwrap_or(TRANSACTIONS)
}

fn from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("read a number from the environment"))
}

/// Makes one below `parent`, or copies the one that is kept; returns its place.
pub(super) fn make_below(parent: &Path) -> PathBuf {
    let (cards, transactions) = (stored_cards(), stored_transactions());
    let Some(kept) = std::env::var_os("CARDSWITCH_BENCH_STORED") else {
        return fill(parent, cards, transactions);
    };
    let place = PathBuf::from(kept).join(format!("{cards}-{transactions}"));
    if !place.join(DONE).exists() {
        if place.exists() {
            fs::remove_dir_all(&place).expect("remove a directory that was left unfinished");
        }
        fs::create_dir_all(&place).expect("make a directory");
        fill(&place, cards, transactions);
        fs::write(place.join(DONE), b"").expect("mark the directory as whole");
    }
    let copy = parent.join("data");
    let copied = Command::new("cp").arg("-r").arg(place.join("data")).arg(&copy).status();
    assert!(copied.expect("run cp").success(), "a directory is copied");
    copy
}

/// All files of a directory, those of directories in it, too.
pub fn files_below(directory: &Path) -> Vec<PathBuf> {
    let (mut files, mut directories) = (Vec::new(), vec![directory.to_owned()]);
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).expect("list a directory") {
            let path = entry.expect("list a directory").path();
            if path.is_dir() { directories.push(path) } else { files.push(path) }
        }
    }
    files
}

fn fill(parent: &Path, cards: u64, transactions: u64) -> PathBuf {
    let start = Instant::now();
    let data = install(parent, Program::of_one_company(cards), CardHashes::Simulated, Vec::new());
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
    let mut caller = ClosedLoopCaller::new(Arc::clone(engine), WINDOW);
    let mut left = count;
    while left > 0 {
        let step = left.min(FILL_STEP);
        authorize(&mut caller, purchases, step, &mut |_| {});
        wait_for_tables(engine);
        left -= step;
    }
}

/// Reads so many bytes of files, in order, from the first again where they end; returns how long that
/// took.
pub fn read_files(paths: &[PathBuf], bytes: u64) -> Duration {
    let (mut buffer, mut left) = (vec![0; READ_BYTES], bytes);
    let start = Instant::now();
    let mut paths = paths.iter().cycle();
    while left > 0 {
        let path = paths.next().expect("read some files");
        let mut file = File::open(path).expect("open a file").take(left);
        while let read @ 1.. = file.read(&mut buffer).expect("read a file") {
            left -= read as u64;
        }
    }
    start.elapsed()
}

/// How many bytes the files of a directory have.
pub fn directory_bytes(directory: &Path) -> u64 {
    files_below(directory).iter().filter_map(|file| Some(file.metadata().ok()?.len())).sum()
}
