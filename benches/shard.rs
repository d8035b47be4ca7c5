//! What does the shard spend on an authorization before the journal is involved?
//!
//! `execute` and `apply` of whole purchases (look-up by card number, duplicates, money, books,
//! timers, open transactions), and the same with the record encoded; beside the pure decision over
//! the same cards in the same run, which is the part the rules need.

use std::hint::black_box;
use std::time::{Duration, Instant};

use cardswitch_benches::meter::{Bench, Meter, Pace, print_ratio};
use cardswitch_benches::program::{
    BareShard, Purchases, Random, ample_balances, card_records, credentials, decide_purchase,
    is_approved,
};
use cardswitch_engine::command::Command;
use cardswitch_engine::command::record::append_record;
use cardswitch_engine::command::reply::Reply;

const CARD_COUNTS: [u64; 2] = [10_000, 1_000_000];
/// Authorizations at each iteration; as many as the shard takes at a time.
const BATCH_LEN: u64 = 512;
/// A bare shard keeps every purchase it approved, so it starts afresh after so many.
const SHARD_AGE_MAX: u64 = 300_000;

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
    let (apply, encode) =
        (format!("execute_apply/{cards}"), format!("execute_encode_apply/{cards}"));
    if !bench.wants(&apply) && !bench.wants(&encode) {
        return;
    }
    let mut aging = AgingShard::new(cards);
    let applied = bench.measure_timed(&apply, BATCH_LEN, |iterations| {
        aging.run(iterations, |shard, command| shard.take(command))
    });
    let mut payload = Vec::with_capacity(1 << 20);
    let encoded = bench.measure_timed(&encode, BATCH_LEN, |iterations| {
        aging.run(iterations, |shard, command| {
            shard.take_and_encode(command, |seq, at, effects| {
                payload.clear();
                let written = append_record(&mut payload, seq, at, effects);
                assert!(written.is_ok(), "the effects of one command fit a record");
            })
        })
    });
    let yardsticks = [("the decision alone", &decided)];
    print_ratio(&format!("execute + apply, {cards} cards"), &applied, &yardsticks);
    print_ratio(&format!("execute + encode + apply, {cards} cards"), &encoded, &yardsticks);
}

/// A shard that is replaced by a young one before its open transactions pile up.
struct AgingShard {
    young: BareShard,
    shard: BareShard,
    purchases: Purchases,
    age: u64,
}

impl AgingShard {
    fn new(cards: u64) -> Self {
        let young = BareShard::with_cards(cards);
        Self { shard: young.clone(), young, purchases: Purchases::new(cards, 12), age: 0 }
    }

    /// Times `take` alone: commands are made, and the shard is renewed, while the watch stands.
    fn run(
        &mut self,
        iterations: u64,
        mut take: impl FnMut(&mut BareShard, &Command) -> Reply,
    ) -> Duration {
        let mut elapsed = Duration::ZERO;
        for _ in 0..iterations {
            if self.age + BATCH_LEN > SHARD_AGE_MAX {
                self.shard = self.young.clone();
                self.age = 0;
            }
            self.age += BATCH_LEN;
            let commands: Vec<_> = (0..BATCH_LEN).map(|_| self.purchases.next_command()).collect();
            let start = Instant::now();
            let approved = commands
                .iter()
                .filter(|command| is_approved(&take(&mut self.shard, command)))
                .count();
            elapsed += start.elapsed();
            assert_eq!(approved as u64, BATCH_LEN, "the program approves every purchase");
        }
        elapsed
    }
}

fn measure_decisions(bench: &mut Bench, cards: u64) -> Meter {
    let name = format!("yardstick_decide/{cards}");
    if !bench.wants(&name) {
        return Meter::default();
    }
    let records = card_records(cards);
    let credentials = credentials();
    let balances = black_box(ample_balances());
    let mut random = Random::new(12);
    bench.measure(&name, BATCH_LEN, || {
        let slots = (0..BATCH_LEN).map(|_| usize::try_from(random.below(cards)).unwrap_or(0));
        let approved =
            |slot: &usize| decide_purchase(&records[*slot], &balances, &credentials).is_empty();
        slots.filter(approved).count()
    })
}
