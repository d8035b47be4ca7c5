//! What does the shard spend on an authorization before the journal is involved?
//!
//! Whole purchases (look-up by card number, duplicates, money, books, timers, open transactions) in a
//! shard with the limits of an engine, batch by batch as its loop takes them, without and with the
//! record encoded. Beside it the pure decision over the same cards in the same run, which is the part
//! the rules need.

use std::hint::black_box;
use std::time::{Duration, Instant};

use cardswitch_benches::Must;
use cardswitch_benches::meter::{Bench, Meter, Pace, print_ratio};
use cardswitch_benches::program::{
    BareShard, Program, Purchases, Random, StandardPurchase, ample_balances, card_records,
    is_approved,
};
use cardswitch_engine::command::Command;
use cardswitch_engine::command::effect::Effect;
use cardswitch_engine::command::record::append_record;
use cardswitch_engine::command::reply::Reply;

const CARD_COUNTS: [u64; 2] = [10_000, 1_000_000];
/// Authorizations at each iteration; as many as the shard takes at a time.
const BATCH_LEN: u64 = 512;

pub(crate) fn ask(bench: &mut Bench) {
    let pace = Pace { samples: 20, ..Pace::SHORT.seconds(4) };
    bench.run("shard", pace, |bench| {
        for cards in CARD_COUNTS {
            compare(bench, cards);
        }
    });
}

fn compare(bench: &mut Bench, cards: u64) {
    let decided = measure_decisions(bench, cards);
    let mut line = ShardLine::new(cards);
    let batches = bench.measure_timed(&format!("by_batches/{cards}"), BATCH_LEN, |iterations| {
        line.run(iterations, |shard, commands, replied| {
            shard.take_batch(commands, &mut |_, _, _| {}, replied);
        })
    });
    let mut payload = Vec::with_capacity(1 << 20);
    let name = format!("by_batches_encoded/{cards}");
    let encoded = bench.measure_timed(&name, BATCH_LEN, |iterations| {
        line.run(iterations, |shard, commands, replied| {
            payload.clear();
            let mut encode = |seq, at, effects: &[Effect]| {
                append_record(&mut payload, seq, at, effects).must("encode a record");
            };
            shard.take_batch(commands, &mut encode, replied);
        })
    });
    let yardsticks = [("the decision alone", &decided)];
    print_ratio(&format!("execute + apply, {cards} cards"), &batches, &yardsticks);
    print_ratio(&format!("execute + encode + apply, {cards} cards"), &encoded, &yardsticks);
}

/// A shard and the purchases that come to it.
struct ShardLine {
    shard: BareShard,
    purchases: Purchases,
}

impl ShardLine {
    fn new(cards: u64) -> Self {
        let mut shard = BareShard::bounded();
        shard.found(Program::of_many_companies(cards));
        Self { shard, purchases: Purchases::new(cards, 12) }
    }

    /// Times `take` alone: commands are made and go while the watch stands.
    fn run(
        &mut self,
        iterations: u64,
        mut take: impl FnMut(&mut BareShard, &[Command], &mut dyn FnMut(&Reply)),
    ) -> Duration {
        let mut elapsed = Duration::ZERO;
        for _ in 0..iterations {
            let commands: Vec<_> = (0..BATCH_LEN).map(|_| self.purchases.next_command()).collect();
            let mut approved = 0;
            let start = Instant::now();
            take(&mut self.shard, &commands, &mut |reply| {
                approved += u64::from(is_approved(reply));
            });
            elapsed += start.elapsed();
            assert_eq!(approved, BATCH_LEN, "the program approves every purchase");
        }
        elapsed
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
