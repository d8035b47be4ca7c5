//! How long does a switch take to come back?
//!
//! A directory with millions of transactions; a process that authorizes a million more and is
//! killed (SIGKILL) while it does; a fresh process that opens what is left. Timed from the start
//! of that process to its engine's readiness. Twice: as the kill left it, and with the tables as
//! they were before the million, which is what a kill leaves where no checkpoint came in between,
//! so that the whole million is replayed. The yardstick reads as many bytes of the same files in
//! order, as often as needed, and does nothing with them.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cardswitch_benches::Must;
use cardswitch_benches::caller::{Caller, authorize};
use cardswitch_benches::installation::{
    StoredDirectory, files_below, open, stored_cards, stored_transactions, temporary_directory,
};
use cardswitch_benches::meter::{
    Bench, Meter, Pace, Process, bytes_read, print_ratio, resident_bytes,
};
use cardswitch_benches::program::Purchases;
use cardswitch_engine::engine::Retention;

/// Authorizations after the tables' checkpoint, unless the prepared directory was made small.
const REPLAYED_MAX: u64 = 1_000_000;
const WINDOW: usize = 4_096;
/// The authorizations in the middle of which it is killed.
const FURTHER: u64 = 100_000_000;
const READ_BYTES: usize = 1 << 20;
const TABLES: &str = "store.redb";

pub(crate) fn ask(bench: &mut Bench) {
    bench.run("restart", Pace::LONG, |bench| {
        let directory = temporary_directory();
        let data = StoredDirectory::prepare().copy_to(directory.path());
        let tables_before = directory.path().join(TABLES);
        fs::copy(data.join(TABLES), &tables_before).must("copy the tables");
        load_and_kill(&data);
        measure(bench, &name("killed"), &data);
        fs::copy(&tables_before, data.join(TABLES)).must("put the tables back");
        measure(bench, &name("replays_all"), &data);
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
    let mut caller = Caller::new(engine, WINDOW);
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
    let behind = engine.durable_seq().0 - engine.watermark().applied().0;
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
        read.note(1, read_files(data, bytes));
        (1, elapsed)
    });
    print_ratio(&format!("{name}: open"), &opened, &[("reading as many bytes", &read)]);
}

/// Reads so many bytes of the tables and the journal, from the start again where they end.
fn read_files(data: &Path, bytes: u64) -> Duration {
    let mut buffer = vec![0; READ_BYTES];
    let mut left = bytes;
    let segments = files_below(&data.join("journal"));
    let paths: Vec<PathBuf> = [data.join(TABLES)].into_iter().chain(segments).collect();
    let start = Instant::now();
    while left > 0 {
        let before = left;
        for path in &paths {
            let mut file = File::open(path).must("open a file");
            while left > 0 {
                let read = file.read(&mut buffer).must("read a file") as u64;
                if read == 0 {
                    break;
                }
                left -= read.min(left);
            }
        }
        assert!(left < before, "the files have content");
    }
    start.elapsed()
}
