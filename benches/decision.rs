//! How long does a decision take, and how far is that from the memory it has to read?
//!
//! `decide` over random cards, beside reading one word of each of the same cards' two cache
//! lines in the same order, twice: freely, so that the processor overlaps the reads (what no
//! implementation with this layout can be faster than), and in turn, each read waiting for the
//! one before it (what a decision that shares nothing with its neighbours has to wait for).
//! Cards come as slots; finding a slot is the shard's business (see `shard.rs`).

use std::hint::black_box;
use std::time::Duration;

use cardswitch_benches::meter::{Meter, print_control, print_ratio};
use cardswitch_benches::program::{
    Random, ample_balances, card_records, credentials, decide_purchase,
};
use cardswitch_engine::domain::card::CardRecord;
use cardswitch_engine::domain::credential::PresentedCredentials;
use criterion::{BenchmarkId, Criterion, Throughput};

const CARD_COUNTS: [u64; 2] = [10_000, 1_000_000];
/// Cards met at each iteration.
const BATCH_LEN: usize = 4_096;
/// The order in which cards are met comes round after so many.
const ORDER_LEN: usize = 1 << 20;

fn main() {
    let mut criterion = Criterion::default()
        .measurement_time(Duration::from_secs(4))
        .sample_size(50)
        .configure_from_args();
    print_control("before");
    for cards in CARD_COUNTS {
        compare(&mut criterion, cards);
    }
    print_control("after");
    criterion.final_summary();
}

fn compare(criterion: &mut Criterion, card_count: u64) {
    let cards = card_records(card_count);
    let mut random = Random::new(11);
    let order: Vec<usize> =
        (0..ORDER_LEN).map(|_| usize::try_from(random.below(card_count)).unwrap_or(0)).collect();
    let (mut decided, mut free, mut in_turn) =
        (Meter::default(), Meter::default(), Meter::default());
    let mut group = criterion.benchmark_group("decision");
    group.throughput(Throughput::Elements(BATCH_LEN as u64));
    group.bench_function(BenchmarkId::new("yardstick_random_lines", card_count), |bencher| {
        let mut batches = order.chunks_exact(BATCH_LEN).cycle();
        free.measure(bencher, BATCH_LEN as u64, || read_lines(&cards, next(&mut batches)));
    });
    group.bench_function(BenchmarkId::new("yardstick_lines_in_turn", card_count), |bencher| {
        let mut batches = order.chunks_exact(BATCH_LEN).cycle();
        in_turn
            .measure(bencher, BATCH_LEN as u64, || read_lines_in_turn(&cards, next(&mut batches)));
    });
    group.bench_function(BenchmarkId::new("decide", card_count), |bencher| {
        let mut batches = order.chunks_exact(BATCH_LEN).cycle();
        let credentials = credentials();
        decided.measure(bencher, BATCH_LEN as u64, || {
            decide_all(&cards, next(&mut batches), &credentials)
        });
    });
    group.finish();
    let what = format!("decide over {card_count} cards");
    print_ratio(&what, &decided, "reading their lines freely", &free);
    print_ratio(&what, &decided, "reading their lines in turn", &in_turn);
}

fn next<'a>(batches: &mut impl Iterator<Item = &'a [usize]>) -> &'a [usize] {
    batches.next().unwrap_or(&[])
}

/// One word of each cache line of each card.
fn read_lines(cards: &[CardRecord], batch: &[usize]) -> u64 {
    batch.iter().fold(0, |sum, slot| {
        let card = &cards[*slot];
        sum ^ card.pan_hash.0 ^ card.terms.amount.0.cast_unsigned()
    })
}

/// The same, where the next card is known only when this one was read.
fn read_lines_in_turn(cards: &[CardRecord], batch: &[usize]) -> u64 {
    let nothing = black_box(0);
    batch.iter().fold(0, |sum, slot| {
        let card = &cards[*slot ^ usize::from(sum.to_le_bytes()[0] & nothing)];
        sum ^ card.pan_hash.0 ^ card.terms.amount.0.cast_unsigned()
    })
}

fn decide_all(cards: &[CardRecord], batch: &[usize], credentials: &PresentedCredentials) -> usize {
    let balances = black_box(ample_balances());
    let approved =
        |slot: &&usize| decide_purchase(&cards[**slot], &balances, credentials).is_empty();
    batch.iter().filter(approved).count()
}
