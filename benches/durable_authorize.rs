//! How many durable authorizations a second does one engine give, and how long does each wait?
//!
//! The whole engine on a disk, in process: shard, group commit, journal, and the projector running
//! beside them. Closed loop: as many requests as the window says are in flight, and each answer
//! lets the next request go. Latency is from `submit` to the caller's wake-up. Twice: a young
//! directory with few cards, and one with many cards and millions of stored transactions, which
//! somebody reads meanwhile. Just before each window stands what any durable answer costs here.
//! `TMPDIR` chooses the disk; on a tmpfs the figures mean nothing.

use std::sync::Arc;

use cardswitch_benches::caller::{
    ClosedLoopCaller, Companion, authorize, read_tables, wait_for_tables, watch_lag,
};
use cardswitch_benches::installation::{
    CardHashes, Installation, stored_cards, stored_transactions,
};
use cardswitch_benches::meter::{Bench, LoopFigures, SamplingPlan};
use cardswitch_benches::program::{Program, Purchases};
use cardswitch_benches::yardstick::DiskYardstick;
use cardswitch_engine::engine::{Engine, Retention};

const FEW_CARDS: u64 = 10_000;
const WINDOWS: [usize; 4] = [1, 64, 1_024, 8_192];
/// Authorizations at each iteration, for each place in the window.
const ROUNDS: u64 = 16;

pub(crate) fn ask(bench: &mut Bench) {
    bench.run("durable_authorize", SamplingPlan::LONG.seconds(5), |bench| {
        for window in WINDOWS {
            let name = format!("{window}_in_flight/young");
            let yardstick = DiskYardstick::take(&name);
            // Each window has an engine of its own: nothing is left of the one before.
            let program = Program::of_one_company(FEW_CARDS);
            let home = Installation::new(program, CardHashes::Simulated);
            let engine = home.open(Retention::Recovery);
            let load = Load { engine: &engine, cards: FEW_CARDS, is_read: false };
            load.measure(bench, &name, window, &yardstick);
        }
        measure_stored(bench);
    });
}

fn measure_stored(bench: &mut Bench) {
    let home = Installation::stored();
    println!("STORED: {} cards, {} transactions", stored_cards(), stored_transactions());
    let engine = home.open(Retention::Recovery);
    for window in WINDOWS {
        let name = format!("{window}_in_flight/stored");
        let yardstick = DiskYardstick::take(&name);
        let load = Load { engine: &engine, cards: stored_cards(), is_read: true };
        load.measure(bench, &name, window, &yardstick);
    }
}

/// The load on one engine.
struct Load<'a> {
    engine: &'a Arc<Engine>,
    cards: u64,
    is_read: bool,
}

impl Load<'_> {
    fn measure(&self, bench: &mut Bench, name: &str, window: usize, yardstick: &DiskYardstick) {
        let each_iteration = window as u64 * ROUNDS;
        let mut caller = ClosedLoopCaller::new(Arc::clone(self.engine), window);
        let mut purchases = Purchases::new(self.cards, 13 + window as u64);
        let monitor = watch_lag(self.engine);
        let readers = self.is_read.then(|| read_tables(&self.engine.store));
        let mut measured = LoopFigures::default();
        let latencies = &mut measured.latencies;
        measured.meter = bench.measure_timed(name, each_iteration, |iterations| {
            let count = iterations * each_iteration;
            authorize(&mut caller, &mut purchases, count, &mut |waited| latencies.note(waited))
        });
        let lag = monitor.finish();
        readers.into_iter().for_each(Companion::finish);
        wait_for_tables(self.engine);
        print(name, &measured, yardstick);
        println!("PROJECTION {name}: tables at most {:.0} ms behind", lag.as_secs_f64() * 1e3);
    }
}

fn print(name: &str, measured: &LoopFigures, yardstick: &DiskYardstick) {
    let Some(each) = measured.meter.median_ns() else { return };
    let block_us = yardstick.0.percentile_us(50.0);
    println!(
        "RATIO {name}: {:.0} authorizations/s, {:.2} in the time of a durable block; {} ({:.2} blocks)",
        1e9 / each,
        block_us * 1e3 / each,
        measured.latencies,
        measured.latencies.percentile_us(50.0) / block_us
    );
}
