//! How many records a second do the query tables take in, and what do reads cost beside that?
//!
//! A directory whose journal is ahead of its tables by half a million authorizations: an engine is
//! opened on it, which replays them at once, and from then on only its projector has work. Twice:
//! onto young tables, and onto tables with millions of transactions, while somebody reads. Beside it
//! the same bytes as values of bare redb commits, visible by the megabyte and durable at the end.

use std::fs;
use std::time::Instant;

use cardswitch_benches::caller::{ClosedLoopCaller, authorize, read_tables, wait_for_tables};
use cardswitch_benches::installation::{
    CardHashes, Installation, open, stored_cards, stored_transactions, temporary_directory,
};
use cardswitch_benches::meter::{Bench, Meter, SamplingPlan, print_ratio};
use cardswitch_benches::program::{BareShard, Program, Purchases};
use cardswitch_benches::yardstick::BareDatabase;
use cardswitch_engine::command::record::append_record;
use cardswitch_engine::engine::Retention;
use redb::Durability;

const YOUNG_CARDS: u64 = 10_000;
/// How far the journal is ahead, unless the prepared directory was made small.
const AHEAD_MAX: u64 = 500_000;
const WINDOW: usize = 4_096;
/// Bytes of one value and of one visible commit of the yardstick.
const VALUE_BYTES: usize = 250 << 10;
const VALUES_PER_COMMIT: usize = 4;
const TABLES: &str = "store.redb";

pub(crate) fn ask(bench: &mut Bench) {
    bench.run("projection", SamplingPlan::LONG, |bench| {
        let bytes = ahead() * record_bytes();
        println!("YARDSTICK: {} records of {} bytes", ahead(), record_bytes());
        let redb = commit_bare(bench, bytes);
        let program = Program::of_one_company(YOUNG_CARDS);
        let young = Installation::new(program, CardHashes::Simulated);
        let_tables_lag(&young, YOUNG_CARDS);
        measure(bench, &young, ("young", &redb));
        let stored = Installation::stored();
        let_tables_lag(&stored, stored_cards());
        measure(bench, &stored, (&format!("stored/{}", stored_transactions()), &redb));
    });
}

fn ahead() -> u64 {
    stored_transactions().min(AHEAD_MAX)
}

/// Lets the journal be ahead of the tables.
fn let_tables_lag(home: &Installation, cards: u64) {
    let (tables, tables_before) = (home.data.join(TABLES), home.beside(TABLES));
    fs::copy(&tables, &tables_before).expect("copy the tables");
    let mut caller = ClosedLoopCaller::new(home.open(Retention::Forever), WINDOW);
    authorize(&mut caller, &mut Purchases::new(cards, 61), ahead(), &mut |_| {});
    // The file is closed, and written to for the last time, when nobody has the engine.
    drop(caller);
    fs::copy(&tables_before, &tables).expect("put the tables back");
}

fn measure(bench: &mut Bench, home: &Installation, (name, redb): (&str, &Meter)) {
    let projected = bench.once(name, || {
        let engine = open(&home.data, Retention::Forever);
        let start = Instant::now();
        let waiting = engine.durable_seq().0 - engine.watermark.applied().0;
        let readers = read_tables(&engine.store);
        wait_for_tables(&engine);
        let elapsed = start.elapsed();
        readers.finish();
        (waiting, elapsed)
    });
    let compared = [("bare redb commits of its bytes", redb)];
    print_ratio(&format!("{name}: a record into the tables"), &projected, &compared);
}

/// Commits the same bytes without any meaning. Units: for one record.
fn commit_bare(bench: &mut Bench, bytes: u64) -> Meter {
    let directory = temporary_directory();
    let value = vec![7; VALUE_BYTES];
    let values = bytes.div_ceil(VALUE_BYTES as u64);
    bench.once("yardstick_redb", || {
        let mut database = BareDatabase::create_growing(directory.path());
        let start = Instant::now();
        for _ in 0..values / VALUES_PER_COMMIT as u64 {
            database.commit(&[value.as_slice(); VALUES_PER_COMMIT], Durability::None);
        }
        database.commit(&[value.as_slice()], Durability::Immediate);
        (ahead(), start.elapsed())
    })
}

/// How many bytes the record of an ordinary authorization has in the journal.
fn record_bytes() -> u64 {
    let mut shard = BareShard::with_cards(1);
    let mut bytes = Vec::new();
    shard.take_and_encode(&Purchases::new(1, 62).next_command(), |seq, at, effects| {
        append_record(&mut bytes, seq, at, effects).expect("encode a record");
    });
    bytes.len() as u64
}
