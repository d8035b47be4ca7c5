//! How long does a decision take, and how far is that from the memory it has to read?
//!
//! Decisions over random cards, each found by its number, beside two yardsticks over the same cards
//! in the same order: the cache lines alone that any such decision has to read (see
//! `yardstick::lines`), and decisions over cards that stand in an array and are found by their
//! place, without an index. The second is the bound for few cards, the first for many. By batches,
//! as the shard does it, and singly, which shows the gain of batches.

use std::hint::black_box;

use cardswitch_benches::meter::{Bench, Meter, SamplingPlan, print_ratio};
use cardswitch_benches::program::{
    CardBook, Program, StandardPurchase, ample_balances, card_records, pan_hash,
};
use cardswitch_benches::yardstick::{CardLines, LineOrder};
use cardswitch_engine::domain::card::CardRecord;

const CARD_COUNTS: [u64; 3] = [10_000, 1_000_000, 5_000_000];
/// Cards whose lines are fetched together.
const BATCH_LEN: usize = 32;
/// Batches at each iteration.
const BATCHES: usize = 128;

pub(crate) fn ask(bench: &mut Bench) {
    bench.run("decision", SamplingPlan::SHORT, |bench| {
        for cards in CARD_COUNTS {
            compare(bench, cards);
        }
    });
}

fn compare(bench: &mut Bench, cards: u64) {
    let lines = measure_lines(bench, cards);
    let dense = measure_dense(bench, cards);
    let (batched, singly) = measure_decisions(bench, cards);
    let yardsticks = [("its lines alone", &lines), ("dense slots without an index", &dense)];
    print_ratio(&format!("decision over {cards} cards, by batches"), &batched, &yardsticks);
    print_ratio(&format!("decision over {cards} cards, singly"), &singly, &yardsticks);
}

fn measure_decisions(bench: &mut Bench, cards: u64) -> (Meter, Meter) {
    let book = CardBook::new(Program::of_many_companies(cards));
    let mut order = LineOrder::new(cards);
    let (pans, asked) = (order.map(pan_hash), StandardPurchase::at_start());
    let batched = bench.measure(&format!("by_batches/{cards}"), elements(), || {
        let decide = |_| book.decide_batch(&pans[order.next_range(BATCH_LEN)], black_box(&asked));
        assert_eq!((0..BATCHES).map(decide).sum::<usize>(), BATCHES * BATCH_LEN);
    });
    let singly = bench.measure(&format!("singly/{cards}"), elements(), || {
        let decide = |_| book.decide_singly(&pans[order.next_range(BATCH_LEN)], black_box(&asked));
        assert_eq!((0..BATCHES).map(decide).sum::<usize>(), BATCHES * BATCH_LEN);
    });
    (batched, singly)
}

fn measure_lines(bench: &mut Bench, cards: u64) -> Meter {
    let lines = CardLines::new(cards, Program::of_many_companies(cards).companies());
    let mut order = LineOrder::new(cards);
    let hashes = order.map(|card| pan_hash(card).0);
    let mut slots = Vec::with_capacity(BATCH_LEN);
    bench.measure(&format!("yardstick_lines/{cards}"), elements(), || {
        (0..BATCHES).fold(0, |sum, _| {
            sum ^ lines.read_batch(&hashes[order.next_range(BATCH_LEN)], &mut slots)
        })
    })
}

fn measure_dense(bench: &mut Bench, cards: u64) -> Meter {
    let records: Vec<CardRecord> = card_records(cards);
    let mut order = LineOrder::new(cards);
    let slots = order.map(|card| usize::try_from(card).unwrap_or(0));
    let (balances, asked) = (black_box(ample_balances()), black_box(StandardPurchase::at_start()));
    bench.measure(&format!("yardstick_dense_slots/{cards}"), elements(), || {
        let range = order.next_range(BATCHES * BATCH_LEN);
        let approved = |slot: &&usize| asked.decide(&records[**slot], &balances).is_empty();
        slots[range].iter().filter(approved).count()
    })
}

const fn elements() -> u64 {
    (BATCHES * BATCH_LEN) as u64
}
