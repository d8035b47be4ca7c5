//! A program of a known amount of work, for `benches/instructions/check` to count its
//! instructions.
//!
//! `instructions STAGE COUNT` makes the same small card program every time, then takes COUNT
//! purchases through one stage. Two runs with different counts differ by the purchases alone, so
//! that start and end cancel out. Nothing here looks at a clock or a random source.

use std::hint::black_box;
use std::process::ExitCode;

use cardswitch_engine::command::Command;
use cardswitch_engine::command::effect::Effect;
use cardswitch_engine::command::record::append_record;
use cardswitch_program::{
    Asked, BareShard, Program, Purchases, Random, ample_balances, card_records,
};

const CARDS: u64 = 1_000;
const SEED: u64 = 17;
/// As many as the shard takes at a time, at most.
const BATCH_LEN: u64 = 500;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let stage = arguments.next().unwrap_or_default();
    let count = arguments.next().and_then(|count| count.parse().ok());
    match (stage.as_str(), count) {
        ("make_command", Some(count)) => report(make_commands(count)),
        ("decide", Some(count)) => report(decide(count)),
        ("shard", Some(count)) => report(take(count)),
        ("shard_and_record", Some(count)) => report(take_and_record(count)),
        ("engine_batches", Some(count)) => report(take_batches(count)),
        _ => {
            eprintln!(
                "usage: instructions \
                 make_command|decide|shard|shard_and_record|engine_batches COUNT"
            );
            ExitCode::FAILURE
        }
    }
}

/// Prints what came out, so that no work can be optimized away.
fn report(result: u64) -> ExitCode {
    println!("{result}");
    ExitCode::SUCCESS
}

/// What the other stages spend on their own input. Returns something of each command.
fn make_commands(count: u64) -> u64 {
    let mut purchases = Purchases::new(CARDS, SEED);
    (0..count)
        .map(|_| u64::from(matches!(black_box(purchases.next_command()), Command::Tick)))
        .sum()
}

/// The rules alone. Returns how many purchases they approve.
fn decide(count: u64) -> u64 {
    let (cards, balances, asked) = (card_records(CARDS), ample_balances(), Asked::at_start());
    let mut random = Random::new(SEED);
    let mut approved = 0;
    for _ in 0..count {
        let slot = usize::try_from(random.below(CARDS)).unwrap_or(0);
        approved += u64::from(asked.decide(&cards[slot], &balances).is_empty());
    }
    approved
}

/// `execute` and `apply`. Returns the newest record.
fn take(count: u64) -> u64 {
    let (mut shard, mut purchases) = (BareShard::with_cards(CARDS), Purchases::new(CARDS, SEED));
    for _ in 0..count {
        shard.take(&purchases.next_command());
    }
    shard.state.last_seq().0
}

/// `execute`, encode and `apply`. Returns how many bytes the records have.
fn take_and_record(count: u64) -> u64 {
    let (mut shard, mut purchases) = (BareShard::with_cards(CARDS), Purchases::new(CARDS, SEED));
    let (mut payload, mut bytes) = (Vec::with_capacity(1 << 16), 0);
    for _ in 0..count {
        shard.take_and_encode(&purchases.next_command(), |seq, at, effects| {
            payload.clear();
            let written = append_record(&mut payload, seq, at, effects);
            assert!(written.is_ok(), "the effects of one command fit a record");
            bytes += payload.len() as u64;
        });
    }
    bytes
}

/// As `take_and_record` in a shard with the limits of an engine, batch by batch as its loop takes
/// them. Returns how many bytes the records have.
fn take_batches(count: u64) -> u64 {
    let (mut shard, mut purchases) = (BareShard::bounded(), Purchases::new(CARDS, SEED));
    shard.found(Program::of_one_company(CARDS));
    let (mut payload, mut bytes) = (Vec::with_capacity(1 << 20), 0);
    for _ in 0..count / BATCH_LEN {
        let commands: Vec<_> = (0..BATCH_LEN).map(|_| purchases.next_command()).collect();
        payload.clear();
        let mut encode = |seq, at, effects: &[Effect]| {
            let written = append_record(&mut payload, seq, at, effects);
            assert!(written.is_ok(), "the effects of one command fit a record");
        };
        shard.take_batch(&commands, &mut encode, &mut |_| {});
        bytes += payload.len() as u64;
    }
    bytes
}
