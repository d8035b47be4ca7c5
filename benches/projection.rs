//! How many records a second do the query tables take in, and what do reads cost beside that?
//!
//! A directory whose journal is ahead of its tables by half a million authorizations: an engine is
//! opened on it, which replays them at once, and from then on only its projector has work. Twice:
//! onto young tables, and onto tables with millions of transactions; somebody reads meanwhile, and
//! once more when all is quiet. Beside it the same bytes as values of bare redb commits, visible
//! by the megabyte and durable at the end, and written to a file.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cardswitch_benches::Must;
use cardswitch_benches::caller::{Caller, Readers, authorize, wait_for_tables};
use cardswitch_benches::installation::{
    CardHashes, StoredDirectory, install, open, stored_cards, stored_transactions,
    temporary_directory,
};
use cardswitch_benches::meter::{Bench, Meter, Pace, print_ratio};
use cardswitch_benches::program::{BareShard, Program, Purchases};
use cardswitch_benches::yardstick::{BareAppend, BareDatabase};
use cardswitch_engine::command::record::append_record;
use cardswitch_engine::engine::Retention;
use redb::Durability;
use tempfile::TempDir;

const YOUNG_CARDS: u64 = 10_000;
/// How far the journal is ahead, unless the prepared directory was made small.
const AHEAD_MAX: u64 = 500_000;
const WINDOW: usize = 4_096;
/// Bytes of one value and of one visible commit of the yardstick.
const VALUE_BYTES: usize = 250 << 10;
const VALUES_PER_COMMIT: usize = 4;
const QUIET_READS: Duration = Duration::from_secs(2);
const TABLES: &str = "store.redb";

pub(crate) fn ask(bench: &mut Bench) {
    bench.run("projection", Pace::LONG, |bench| {
        let (young, stored) = ("young".to_owned(), format!("stored/{}", stored_transactions()));
        if !bench.wants(&young) && !bench.wants(&stored) {
            return;
        }
        let bytes = ahead() * record_bytes();
        println!("YARDSTICK: {} records of {} bytes", ahead(), record_bytes());
        let yardsticks = Yardsticks::take(bench, bytes);
        if bench.wants(&young) {
            let directory = temporary_directory();
            let program = Program::of_one_company(YOUNG_CARDS);
            let data = install(directory.path(), program, CardHashes::Simulated);
            LaggingDirectory::prepare(directory, data, YOUNG_CARDS).measure(
                bench,
                &young,
                &yardsticks,
            );
        }
        if bench.wants(&stored) {
            let directory = temporary_directory();
            let data = StoredDirectory::prepare().copy_to(directory.path());
            LaggingDirectory::prepare(directory, data, stored_cards()).measure(
                bench,
                &stored,
                &yardsticks,
            );
        }
    });
}

fn ahead() -> u64 {
    stored_transactions().min(AHEAD_MAX)
}

/// A data directory whose journal is ahead of its tables.
struct LaggingDirectory {
    data: PathBuf,
    _directory: TempDir,
}

impl LaggingDirectory {
    fn prepare(directory: TempDir, data: PathBuf, cards: u64) -> Self {
        let tables_before = directory.path().join(TABLES);
        fs::copy(data.join(TABLES), &tables_before).must("copy the tables");
        let engine = Arc::new(open(&data, Retention::Forever));
        let mut caller = Caller::new(Arc::clone(&engine), WINDOW);
        authorize(&mut caller, &mut Purchases::new(cards, 61), ahead(), &mut |_| {});
        // The file is closed, and written to for the last time, when nobody has the engine.
        drop(caller);
        drop(engine);
        fs::copy(&tables_before, data.join(TABLES)).must("put the tables back");
        Self { data, _directory: directory }
    }

    fn measure(&self, bench: &mut Bench, name: &str, yardsticks: &Yardsticks) {
        let projected = bench.once(name, || {
            let engine = open(&self.data, Retention::Forever);
            let start = Instant::now();
            let waiting = engine.durable_seq().0 - engine.watermark().applied().0;
            let readers = Readers::start(engine.store());
            wait_for_tables(&engine);
            let elapsed = start.elapsed();
            println!("READS {name}, beside the projector: {}", readers.finish());
            let readers = Readers::start(engine.store());
            std::thread::sleep(QUIET_READS);
            println!("READS {name}, when all is quiet: {}", readers.finish());
            (waiting, elapsed)
        });
        let compared =
            [("bare redb commits of its bytes", &yardsticks.redb), ("a file", &yardsticks.file)];
        print_ratio(&format!("{name}: a record into the tables"), &projected, &compared);
    }
}

/// The same bytes without any meaning. Units: for one record.
struct Yardsticks {
    redb: Meter,
    file: Meter,
}

impl Yardsticks {
    fn take(bench: &mut Bench, bytes: u64) -> Self {
        let directory = temporary_directory();
        let value = vec![7; VALUE_BYTES];
        let values = bytes.div_ceil(VALUE_BYTES as u64);
        let redb = bench.once("yardstick_redb", || {
            let mut database = BareDatabase::create_growing(directory.path());
            let start = Instant::now();
            for _ in 0..values / VALUES_PER_COMMIT as u64 {
                database.commit(&[value.as_slice(); VALUES_PER_COMMIT], Durability::None);
            }
            database.commit(&[value.as_slice()], Durability::Immediate);
            (ahead(), start.elapsed())
        });
        let file = bench.once("yardstick_file", || {
            let mut file = BareAppend::create(directory.path());
            let start = Instant::now();
            (0..values).for_each(|_| file.write(&value));
            file.sync();
            (ahead(), start.elapsed())
        });
        Self { redb, file }
    }
}

/// How many bytes the record of an ordinary authorization has in the journal.
fn record_bytes() -> u64 {
    let mut shard = BareShard::with_cards(1);
    let mut bytes = Vec::new();
    shard.take_and_encode(&Purchases::new(1, 62).next_command(), |seq, at, effects| {
        append_record(&mut bytes, seq, at, effects).must("encode a record");
    });
    bytes.len() as u64
}
