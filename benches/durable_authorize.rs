//! How many durable authorizations a second does one engine give, and how long does each wait?
//!
//! The whole engine on a temporary directory, in process: shard, group commit, journal, and the
//! projector running beside them. Closed loop: as many requests as the window says are in flight,
//! and each answer lets the next request go. Latency is from `submit` to the caller's wake-up.
//! The yardsticks in the same run are what any durable answer costs here: one redb commit of a
//! 100-byte value, and 100 bytes appended to a file with fdatasync.
//! `TMPDIR` chooses the disk; on a tmpfs the figures mean nothing.

use std::fs::File;
use std::io::Write;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use cardswitch_benches::caller::{is_approved, keep_in_flight, open_program, temporary_directory};
use cardswitch_benches::meter::{Latencies, Meter, print_control};
use cardswitch_benches::program::{Purchases, pan_hash};
use cardswitch_engine::engine::Engine;
use criterion::{Criterion, Throughput};
use redb::{Database, TableDefinition};

const CARDS: u64 = 10_000;
const WINDOWS: [usize; 3] = [1, 64, 1_024];
/// Authorizations at each iteration, for each place in the window.
const ROUNDS: u64 = 16;
const VALUE: [u8; 100] = [7; 100];
const VALUES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("values");
/// Keys of the yardstick's table, used in turn, so that its file stays small.
const KEYS: u64 = 256;

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(6))
        .sample_size(20)
        .configure_from_args();
    print_control("before");
    for window in WINDOWS {
        // Just before, on the same disk: the disk is never twice the same.
        let yardsticks = Yardsticks::measure(&mut criterion, window);
        let caller = Caller::open();
        let measured = caller.measure(&mut criterion, window);
        caller.print_projection();
        measured.print(window, &yardsticks);
    }
    print_control("after");
    criterion.final_summary();
}

/// What one window gave.
#[derive(Default)]
struct Measured {
    meter: Meter,
    latencies: Latencies,
}

impl Measured {
    fn print(&self, window: usize, yardsticks: &Yardsticks) {
        let each = self.meter.median_ns();
        let commit = yardsticks.redb_commit.median_ns();
        let append = yardsticks.append.median_ns();
        let (Some(each), Some(commit), Some(append)) = (each, commit, append) else { return };
        let (p50, p99) = (self.latencies.percentile_us(50.0), self.latencies.percentile_us(99.0));
        println!(
            "YARDSTICK before {window} in flight: redb commit {:.1} us, append + fdatasync {:.1} us",
            commit / 1e3,
            append / 1e3
        );
        println!(
            "RATIO {window} in flight: {:.0} authorizations/s, {:.2} in the time of a redb commit; \
             p50 {p50:.1} us ({:.2} commits), p99 {p99:.1} us, of {} answers",
            1e9 / each,
            commit / each,
            p50 * 1e3 / commit,
            self.latencies.count(),
        );
    }
}

/// What a durable answer costs at least.
#[derive(Default)]
struct Yardsticks {
    redb_commit: Meter,
    append: Meter,
}

impl Yardsticks {
    fn measure(criterion: &mut Criterion, before_window: usize) -> Self {
        let mut yardsticks = Self::default();
        let directory = temporary_directory();
        let mut group = criterion.benchmark_group(format!("yardstick_before_{before_window}"));
        group.measurement_time(Duration::from_secs(3)).throughput(Throughput::Elements(1));
        group.bench_function("redb_commit_100_bytes", |bencher| {
            let database = new_database(directory.path());
            let mut key = 0;
            yardsticks.redb_commit.measure(bencher, 1, || {
                key = (key + 1) % KEYS;
                commit_value(&database, key);
            });
        });
        group.bench_function("append_fdatasync_100_bytes", |bencher| {
            let mut file = new_file(directory.path());
            yardsticks.append.measure(bencher, 1, || {
                let written = file.write_all(&VALUE).and_then(|()| file.sync_data());
                assert!(written.is_ok(), "the disk takes it: {written:?}");
            });
        });
        group.finish();
        yardsticks
    }
}

#[expect(clippy::expect_used, reason = "a yardstick that fails must stop the bench")]
fn new_database(directory: &std::path::Path) -> Database {
    let file = tempfile::NamedTempFile::new_in(directory).expect("a file can be made");
    Database::builder().create_file(file.into_file()).expect("an empty file becomes a database")
}

#[expect(clippy::expect_used, reason = "a yardstick that fails must stop the bench")]
fn commit_value(database: &Database, key: u64) {
    let write_txn = database.begin_write().expect("there is one writer");
    {
        let mut values = write_txn.open_table(VALUES).expect("the table is opened once");
        values.insert(key, VALUE.as_slice()).expect("the value is small");
    }
    write_txn.commit().expect("the disk takes it");
}

#[expect(clippy::expect_used, reason = "a yardstick that fails must stop the bench")]
fn new_file(directory: &std::path::Path) -> File {
    tempfile::tempfile_in(directory).expect("a file can be made")
}

/// One caller of an engine, with a window of requests in flight.
struct Caller {
    engine: Engine,
    purchases: Mutex<Purchases>,
    /// Dropped after the engine has let go of it.
    _directory: tempfile::TempDir,
}

impl Caller {
    fn open() -> Self {
        let directory = temporary_directory();
        let engine = open_program(directory.path(), CARDS, pan_hash);
        Self { engine, purchases: Mutex::new(Purchases::new(CARDS, 13)), _directory: directory }
    }

    fn measure(&self, criterion: &mut Criterion, window: usize) -> Measured {
        let mut measured = Measured::default();
        let each_iteration = window as u64 * ROUNDS;
        let mut group = criterion.benchmark_group("durable_authorize");
        group.throughput(Throughput::Elements(each_iteration));
        group.bench_function(format!("{window}_in_flight"), |bencher| {
            let Measured { meter, latencies } = &mut measured;
            meter.measure_timed(bencher, each_iteration, |iterations| {
                self.authorize(window, iterations * each_iteration, latencies)
            });
        });
        group.finish();
        measured
    }

    fn authorize(&self, window: usize, count: u64, latencies: &mut Latencies) -> Duration {
        let mut purchases = self.purchases.lock().unwrap_or_else(PoisonError::into_inner);
        let next = || Some(purchases.next_command());
        let start = Instant::now();
        keep_in_flight(&self.engine, window, count, next, &mut |reply, latency| {
            assert!(is_approved(&reply), "the program approves every purchase: {reply:?}");
            latencies.note(latency);
        });
        start.elapsed()
    }

    /// Tells how far the query tables are behind, and how long they take to come up.
    fn print_projection(&self) {
        let durable = self.engine.durable_seq();
        let behind = durable.0 - self.engine.watermark().applied().0;
        let (reached, waits) = std::sync::mpsc::channel();
        let start = Instant::now();
        self.engine.watermark().on_reached(
            durable,
            Box::new(move || {
                // The receiver waits below, for as long as it takes.
                let _ = reached.send(());
            }),
        );
        let outcome = waits.recv();
        let seconds = start.elapsed().as_secs_f64();
        assert!(outcome.is_ok(), "the watermark wakes whoever waits");
        println!(
            "PROJECTION: {behind} of {} records behind at the end, caught up after {seconds:.1} s",
            durable.0
        );
    }
}
