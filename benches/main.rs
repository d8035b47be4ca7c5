//! All benches in one program: linking the whole switch once is slow enough.
//!
//! `cargo bench -p cardswitch-benches` runs them one after the other, with a filter those whose names
//! contain it; `benches/run` gives each a process of its own. A bench that needs a fresh process
//! or one to kill starts this program again with a task.

mod decision;
mod durable_authorize;
mod hand_off;
mod http_round_trip;
mod iso8583_round_trip;
mod journal;
mod life_cycle;
mod memory;
mod projection;
mod restart;
mod shard;
mod v1;
mod verify;

use cardswitch_benches::meter::{Bench, task};
use cardswitch_secrets::process::WipingAllocator;

/// The allocator of the switch.
#[global_allocator]
static ALLOCATOR: WipingAllocator = WipingAllocator;

fn main() {
    if let Some(task) = task() {
        return carry_out(&task);
    }
    let Some(mut bench) = Bench::from_arguments() else { return };
    decision::ask(&mut bench);
    shard::ask(&mut bench);
    life_cycle::ask(&mut bench);
    hand_off::ask(&mut bench);
    journal::ask(&mut bench);
    projection::ask(&mut bench);
    durable_authorize::ask(&mut bench);
    restart::ask(&mut bench);
    verify::ask(&mut bench);
    iso8583_round_trip::ask(&mut bench);
    http_round_trip::ask(&mut bench);
    v1::ask(&mut bench);
    memory::ask(&mut bench);
    bench.finish();
}

fn carry_out(task: &[String]) {
    match task {
        [name, task @ ..] if name == "restart" => restart::carry_out(task),
        [name, task @ ..] if name == "memory" => memory::carry_out(task),
        _ => {}
    }
}
