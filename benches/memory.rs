//! How many bytes does a card take in memory?
//!
//! What the process has resident before and after a shard gets a million cards, and, where an
//! engine is opened on them, with every cache that is bounded but not used yet. The cards' names,
//! descriptions and addresses are as short as can be and counted apart; there are no holds and no
//! remembered answers. The yardstick is the bytes of what a card is made of, laid side by side.

use std::sync::Arc;

use cardswitch_benches::installation::{CardHashes, Installed, stored_cards};
use cardswitch_benches::meter::{Bench, Pace, resident_bytes};
use cardswitch_benches::program::{BareShard, Program, company_id, new_card, pan_hash};
use cardswitch_engine::domain::card::CardRecord;

fn main() {
    Bench::run("memory", Pace::LONG, |bench| {
        let cards = stored_cards();
        let name = format!("shard/{cards}");
        if bench.wants(&name) {
            let before = resident_bytes();
            let mut shard = BareShard::empty();
            shard.found(Program::of_one_company(cards));
            print(&name, cards, resident_bytes() - before);
            drop(shard);
        }
        let name = format!("engine/{cards}");
        if bench.wants(&name) {
            let before = resident_bytes();
            let program = Program::of_one_company(cards);
            let installed = Installed::new(program, CardHashes::Simulated);
            print(&name, cards, resident_bytes().saturating_sub(before));
            drop(Arc::clone(&installed.engine));
        }
    });
}

fn print(name: &str, cards: u64, bytes: u64) {
    let each = bytes as f64 / cards as f64;
    let named = name_bytes();
    println!(
        "RATIO {name}: {each:.0} bytes a card resident, {:.0} without its {named} bytes of name; \
         the record that decisions read has {}",
        each - named as f64,
        size_of::<CardRecord>()
    );
}

/// Bytes of text that every card of the program brings along.
fn name_bytes() -> usize {
    let card = new_card(0, company_id(0), pan_hash(0));
    card.description.len() + card.billing_name.len()
}
