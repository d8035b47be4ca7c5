//! What does the shard spend on an authorization before the journal is involved?
//!
//! `execute` and `apply` of whole purchases (look-up by card number, duplicates, money, books,
//! timers, open transactions), and the same with the record encoded; beside the pure decision over
//! the same cards in the same run, which is the part the rules need.

use std::hint::black_box;
use std::time::{Duration, Instant};

use cardswitch_benches::meter::{Meter, print_control, print_ratio};
use cardswitch_benches::program::{
    BareShard, Purchases, Random, ample_balances, card_records, credentials, decide_purchase,
};
use cardswitch_engine::command::Command;
use cardswitch_engine::command::record::append_record;
use cardswitch_engine::command::reply::{NetworkReply, Reply};
use criterion::{BenchmarkId, Criterion, Throughput};

const CARD_COUNTS: [u64; 2] = [10_000, 1_000_000];
/// Authorizations at each iteration; as many as the shard takes at a time.
const BATCH_LEN: u64 = 512;
/// A shard keeps every purchase it approved, so it starts afresh after so many.
const SHARD_AGE_MAX: u64 = 300_000;

fn main() {
    let mut criterion = Criterion::default()
        .measurement_time(Duration::from_secs(5))
        .sample_size(20)
        .configure_from_args();
    print_control("before");
    for cards in CARD_COUNTS {
        compare(&mut criterion, cards);
    }
    print_control("after");
    criterion.final_summary();
}

fn compare(criterion: &mut Criterion, cards: u64) {
    let (mut decided, mut applied, mut encoded) =
        (Meter::default(), Meter::default(), Meter::default());
    let mut aging = AgingShard::new(cards);
    let mut group = criterion.benchmark_group("shard");
    group.throughput(Throughput::Elements(BATCH_LEN));
    group.bench_function(BenchmarkId::new("yardstick_decide", cards), |bencher| {
        measure_decisions(bencher, cards, &mut decided);
    });
    group.bench_function(BenchmarkId::new("execute_apply", cards), |bencher| {
        applied.measure_timed(bencher, BATCH_LEN, |iterations| {
            aging.run(iterations, |shard, command| shard.take(command))
        });
    });
    group.bench_function(BenchmarkId::new("execute_encode_apply", cards), |bencher| {
        let mut payload = Vec::with_capacity(1 << 20);
        encoded.measure_timed(bencher, BATCH_LEN, |iterations| {
            aging.run(iterations, |shard, command| {
                shard.take_and_encode(command, |seq, at, effects| {
                    payload.clear();
                    let written = append_record(&mut payload, seq, at, effects);
                    assert!(written.is_ok(), "the effects of one command fit a record");
                })
            })
        });
    });
    group.finish();
    let decision = "the decision alone";
    print_ratio(&format!("execute + apply, {cards} cards"), &applied, decision, &decided);
    print_ratio(&format!("execute + encode + apply, {cards} cards"), &encoded, decision, &decided);
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

fn is_approved(reply: &Reply) -> bool {
    matches!(reply, Reply::Network(NetworkReply::Authorization(reply))
        if reply.response_code.is_approved())
}

fn measure_decisions(bencher: &mut criterion::Bencher<'_>, card_count: u64, meter: &mut Meter) {
    let cards = card_records(card_count);
    let credentials = credentials();
    let balances = black_box(ample_balances());
    let mut random = Random::new(12);
    meter.measure(bencher, BATCH_LEN, || {
        let slots = (0..BATCH_LEN).map(|_| usize::try_from(random.below(card_count)).unwrap_or(0));
        let approved =
            |slot: &usize| decide_purchase(&cards[*slot], &balances, &credentials).is_empty();
        slots.filter(approved).count()
    });
}
