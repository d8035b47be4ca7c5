//! What does it cost to prove a data directory?
//!
//! `verify` walks the journal's chain, folds every record, restores the state from the tables,
//! brings those up to date in memory, compares both part by part, and adds up every account. A
//! young directory with a million purchases, all of its journal kept. The yardstick reads the same
//! files in order.

use std::time::Instant;

use cardswitch_benches::installation::{
    CardHashes, Installation, authorize_many, directory_bytes, files_below, read_files,
    stored_transactions,
};
use cardswitch_benches::meter::{Bench, Meter, SamplingPlan, print_ratio};
use cardswitch_benches::program::{Program, Purchases};
use cardswitch_engine::engine::Retention;
use cardswitch_engine::verify::verify;

const CARDS: u64 = 10_000;
/// Unless the prepared directory was made small.
const PURCHASES_MAX: u64 = 1_000_000;

pub(crate) fn ask(bench: &mut Bench) {
    bench.run("verify", SamplingPlan::LONG, |bench| {
        let purchases = stored_transactions().min(PURCHASES_MAX);
        let name = format!("{purchases}_purchases");
        let home = Installation::new(Program::of_one_company(CARDS), CardHashes::Simulated);
        let engine = home.open(Retention::Forever);
        authorize_many(&engine, &mut Purchases::new(CARDS, 61), purchases);
        engine.shut_down();
        // The last handle releases the directory.
        drop(engine);
        let (mut read, mut replayed) = (Meter::default(), 0);
        let verified = bench.once(&name, || {
            let start = Instant::now();
            let found = verify(&home.data).expect("verify a directory");
            let elapsed = start.elapsed();
            assert!(found.is_ok(), "the books agree: {:#?}", found.figures);
            replayed = found.replayed;
            let bytes = directory_bytes(&home.data);
            read.note(replayed, read_files(&files_below(&home.data), bytes));
            (replayed, elapsed)
        });
        print_ratio(
            &format!("verify, each of {replayed} records"),
            &verified,
            &[("reading the files", &read)],
        );
    });
}
