//! What does the shard spend on an authorization before the journal is involved?
//!
//! Whole purchases (look-up by card number, duplicates, money, books, timers, open transactions) in a
//! shard with the limits of an engine, batch by batch as its loop takes them, without and with the
//! record encoded. Beside it the pure decision over the same cards in the same run, which is the part
//! the rules need.

use std::hint::black_box;
use std::time::Duration;

use cardswitch_benches::meter::{Bench, Meter, SamplingPlan, print_ratio};
use cardswitch_benches::program::{
    BareShard, Program, Purchases, Random, StandardPurchase, ample_balances, card_records,
};
use cardswitch_engine::command::record::append_record;

const CARD_COUNTS: [u64; 2] = [10_000, 1_000_000];
/// Authorizations at each iteration; as many as the shard takes at a time.
const BATCH_LEN: u64 = 512;

pub(crate) fn ask(bench: &mut Bench) {
    let plan = SamplingPlan { samples: 20, ..SamplingPlan::SHORT.seconds(4) };
    bench.run("shard", plan, |bench| {
        for cards in CARD_COUNTS {
            compare(bench, cards);
        }
    });
}

fn compare(bench: &mut Bench, cards: u64) {
    let decided = measure_decisions(bench, cards);
    let mut line = ShardLine::new(cards);
    let mut measure = |name: &str, is_encoded| {
        bench.measure_timed(&format!("{name}/{cards}"), BATCH_LEN, |iterations| {
            line.run(iterations, is_encoded)
        })
    };
    let (batches, encoded) = (measure("by_batches", false), measure("by_batches_encoded", true));
    let yardsticks = [("the decision alone", &decided)];
    print_ratio(&format!("execute + apply, {cards} cards"), &batches, &yardsticks);
    print_ratio(&format!("execute + encode + apply, {cards} cards"), &encoded, &yardsticks);
}

/// A shard, the purchases that come to it, and their records.
struct ShardLine {
    shard: BareShard,
    purchases: Purchases,
    payload: Vec<u8>,
}

impl ShardLine {
    fn new(cards: u64) -> Self {
        let mut shard = BareShard::bounded();
        shard.found(Program::of_many_companies(cards));
        Self { shard, purchases: Purchases::new(cards, 12), payload: Vec::with_capacity(1 << 20) }
    }

    /// Times the shard alone: commands are made and go while the watch stands.
    fn run(&mut self, iterations: u64, is_encoded: bool) -> Duration {
        let Self { shard, purchases, payload } = self;
        let batch = |_| {
            let commands: Vec<_> = (0..BATCH_LEN).map(|_| purchases.next_command()).collect();
            payload.clear();
            shard.time_batch(&commands, &mut |seq, at, effects| {
                if is_encoded {
                    append_record(payload, seq, at, effects).expect("encode a record");
                }
            })
        };
        (0..iterations).map(batch).sum()
    }
}

fn measure_decisions(bench: &mut Bench, cards: u64) -> Meter {
    let records = card_records(cards);
    let (balances, asked) = (black_box(ample_balances()), black_box(StandardPurchase::at_start()));
    let mut random = Random::new(12);
    bench.measure(&format!("yardstick_decide/{cards}"), BATCH_LEN, || {
        let slots = (0..BATCH_LEN).map(|_| usize::try_from(random.below(cards)).unwrap_or(0));
        let approved = |slot: &usize| asked.decide(&records[*slot], &balances).is_empty();
        slots.filter(approved).count()
    })
}
