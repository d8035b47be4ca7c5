//! How long does a switch take to come back?
//!
//! A directory with millions of transactions; a process that authorizes a million more and is
//! killed (SIGKILL) while it does; a fresh process that opens what is left. Timed from the start
//! of that process to its engine's readiness. Twice: as the kill left it, and with the tables as
//! they were before the million, which is what a kill leaves where no checkpoint came in between,
//! so that the whole million is replayed. The yardstick reads as many bytes of the same files in
//! order, as often as needed, and does nothing with them.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cardswitch_benches::caller::{ClosedLoopCaller, authorize};
use cardswitch_benches::installation::{
    Installation, files_below, open, read_files, stored_cards, stored_transactions,
};
use cardswitch_benches::meter::{
    Bench, Meter, Process, SamplingPlan, bytes_read, print_ratio, resident_bytes,
};
use cardswitch_benches::program::Purchases;
use cardswitch_engine::engine::Retention;

/// Authorizations after the tables' checkpoint, unless the prepared directory was made small.
const REPLAYED_MAX: u64 = 1_000_000;
const WINDOW: usize = 4_096;
/// The authorizations in the middle of which it is killed.
const FURTHER: u64 = 100_000_000;
const TABLES: &str = "store.redb";

pub(crate) fn ask(bench: &mut Bench) {
    bench.run("restart", SamplingPlan::LONG, |bench| {
        let home = Installation::stored();
        let (data, tables_before) = (&home.data, home.beside(TABLES));
        fs::copy(data.join(TABLES), &tables_before).expect("copy the tables");
        load_and_kill(data);
        measure(bench, &name("killed"), data);
        fs::copy(&tables_before, data.join(TABLES)).expect("put the tables back");
        measure(bench, &name("replays_all"), data);
    });
}

fn name(what: &str) -> String {
    format!("{what}/{}_cards_{}_transactions", stored_cards(), stored_transactions())
}

pub(crate) fn carry_out(task: &[String]) {
    match task {
        [what, data] if what == "load" => load(Path::new(data)),
        [_, data] => open_once(Path::new(data)),
        _ => {}
    }
}

/// Authorizes until it is killed; prints a line when there is enough to replay.
fn load(data: &Path) {
    let engine = Arc::new(open(data, Retention::Forever));
    let mut purchases = Purchases::new(stored_cards(), 51);
    let mut caller = ClosedLoopCaller::new(engine, WINDOW);
    let replayed = stored_transactions().min(REPLAYED_MAX);
    authorize(&mut caller, &mut purchases, replayed, &mut |_| {});
    println!("{replayed}");
    authorize(&mut caller, &mut purchases, FURTHER, &mut |_| {});
}

fn load_and_kill(data: &Path) {
    let mut process = Process::start(&["restart", "load", &data.to_string_lossy()]);
    let [_] = process.read_numbers();
    process.kill();
}

/// Opens an engine and prints: records not in the tables as it opened, bytes read, bytes resident.
fn open_once(data: &Path) {
    let engine = open(data, Retention::Forever);
    // The projector has begun already, so a few records may be missing here.
    let behind = engine.durable_seq().0 - engine.watermark.applied().0;
    println!("{behind} {} {}", bytes_read(), resident_bytes());
    // The parent process kills this one now: a tidy end is another question.
    std::thread::sleep(Duration::from_secs(60));
}

fn measure(bench: &mut Bench, name: &str, data: &Path) {
    let mut read = Meter::default();
    let opened = bench.once(name, || {
        let start = Instant::now();
        let mut process = Process::start(&["restart", "open", &data.to_string_lossy()]);
        let [behind, bytes, resident] = process.read_numbers();
        let elapsed = start.elapsed();
        process.kill();
        println!(
            "REPLAYED {name}: about {behind} records, {} MiB read, {} MiB resident",
            bytes >> 20,
            resident >> 20
        );
        let mut files = files_below(&data.join("journal"));
        files.insert(0, data.join(TABLES));
        read.note(1, read_files(&files, bytes));
        (1, elapsed)
    });
    print_ratio(&format!("{name}: open"), &opened, &[("reading as many bytes", &read)]);
}
