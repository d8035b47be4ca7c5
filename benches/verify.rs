//! What does it cost to prove a data directory?
//!
//! `verify` walks the journal's chain, folds every record, restores the state from the tables,
//! brings those up to date in memory, compares both part by part, and adds up every account. A
//! young directory with a million purchases, all of its journal kept. The yardstick reads the same
//! files in order.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cardswitch_benches::Must;
use cardswitch_benches::installation::{
    CardHashes, authorize_many, files_below, install, open, stored_transactions,
    temporary_directory,
};
use cardswitch_benches::meter::{Bench, Meter, Pace, print_ratio};
use cardswitch_benches::program::{Program, Purchases};
use cardswitch_engine::engine::Retention;
use cardswitch_engine::verify::verify;

const CARDS: u64 = 10_000;
/// Unless the prepared directory was made small.
const PURCHASES_MAX: u64 = 1_000_000;

pub(crate) fn ask(bench: &mut Bench) {
    bench.run("verify", Pace::LONG, |bench| {
        let purchases = stored_transactions().min(PURCHASES_MAX);
        let name = format!("{purchases}_purchases");
        let directory = temporary_directory();
        let data = install(directory.path(), Program::of_one_company(CARDS), CardHashes::Simulated);
        let engine = Arc::new(open(&data, Retention::Forever));
        authorize_many(&engine, &mut Purchases::new(CARDS, 61), purchases);
        engine.shut_down();
        // The last handle releases the directory.
        drop(engine);
        let (mut read, mut replayed) = (Meter::default(), 0);
        let verified = bench.once(&name, || {
            let start = Instant::now();
            let found = verify(&data).must("verify a directory");
            let elapsed = start.elapsed();
            assert!(found.is_ok(), "the books agree: {:#?}", found.figures);
            replayed = found.replayed;
            read.note(replayed, read_files(&data));
            (replayed, elapsed)
        });
        print_ratio(
            &format!("verify, each of {replayed} records"),
            &verified,
            &[("reading the files", &read)],
        );
    });
}

fn read_files(data: &Path) -> Duration {
    let start = Instant::now();
    for path in files_below(data) {
        let file = File::open(path).must("open a file");
        io::copy(&mut io::BufReader::with_capacity(1 << 20, file.take(u64::MAX)), &mut io::sink())
            .must("read a file");
    }
    start.elapsed()
}
