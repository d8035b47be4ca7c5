//! Scratch: steady state of a shard with limits, with prefetch as in the loop.
use std::time::Instant;
use cardswitch_benches::meter::print_control;
use cardswitch_benches::program::{START, Purchases, Random, founding, pan_hash};
use cardswitch_engine::command::Command;
use cardswitch_engine::command::record::append_record;
use cardswitch_engine::domain::public_id::IdMint;
use cardswitch_engine::shard::{CacheLimits, Moment, ShardState, execute, look_ahead};

fn main() {
    let cards: u64 = std::env::args().filter_map(|a| a.parse().ok()).next().unwrap_or(1_000_000);
    let limits = CacheLimits { recent_transactions: 262_144, loaded_transactions: 65_536, answers: 65_536, message_keys: 32 << 20 };
    let mut state = ShardState::with_limits(limits);
    let ids = IdMint::new([7; 16], 0);
    let mut at = START;
    let mut effects = Vec::new();
    state.go_live();
    for command in founding(cards, pan_hash) {
        at = at.plus(1);
        execute(&state, &Moment { at, ids: &ids }, &command, &mut effects);
        let seq = state.last_seq().next();
        state.apply_record(seq, at, &effects);
        effects.clear();
    }
    println!("{} bytes a card", state.cards().bytes() as u64 / cards);
    let mut purchases = Purchases::new(cards, 12);
    let mut payload = Vec::with_capacity(1 << 20);
    print_control("before");
    let rounds: usize = if cards <= 1000 { 40 } else { 2400 };
    let mut wanted = 0;
    let mut samples = Vec::new();
    let mut parts = [0u128; 3];
    for round in 0..rounds {
        let commands: Vec<Command> = (0..512).map(|_| purchases.next_command()).collect();
        let start = Instant::now();
        payload.clear();
        for position in 0..commands.len() {
            look_ahead(&state, |position| commands.get(position), position);
            at = at.plus(1);
            wanted += u32::from(state.wanting(&ids, &commands[position]).is_some());
            execute(&state, &Moment { at, ids: &ids }, &commands[position], &mut effects);
            let seq = state.last_seq().next();
            append_record(&mut payload, seq, at, &effects).unwrap();
            state.apply_record(seq, at, &effects);
            effects.clear();
        }
        state.evict(state.last_seq());
        let elapsed = start.elapsed();
        if round > rounds / 3 { samples.push(elapsed.as_nanos() as u64 / 512); }
    }
    let _ = &mut parts;
    samples.sort_unstable();
    println!("{wanted} wanted");
    println!("whole: median {} p10 {} p90 {} ns", samples[samples.len() / 2], samples[samples.len() / 10], samples[samples.len() * 9 / 10]);
    print_control("after");
    let _ = Random::new(1);
}
