//! How many bytes does a card take in memory?
//!
//! The resident memory of a fresh process before and after a shard gets a million cards, and with
//! an engine opened on them, tables and journal included. Names and descriptions are short and
//! counted apart; there are no holds and no remembered answers. Beside it stands the record that
//! decisions read, which no layout can do without.

use std::path::Path;

use cardswitch_benches::installation::{CardHashes, Installation, open, stored_cards};
use cardswitch_benches::meter::{Bench, Process, SamplingPlan, resident_bytes};
use cardswitch_benches::program::{BareShard, Program, company_id, new_card, pan_hash};
use cardswitch_engine::domain::card::CardRecord;
use cardswitch_engine::engine::Retention;

pub(crate) fn ask(bench: &mut Bench) {
    bench.run("memory", SamplingPlan::LONG, |_| {
        let cards = stored_cards();
        let name = format!("cards_alone/{cards}");
        print(&name, cards, bytes_of(&["memory", "cards", &cards.to_string()]));
        let name = format!("engine/{cards}");
        let home = Installation::new(Program::of_one_company(cards), CardHashes::Simulated);
        print(&name, cards, bytes_of(&["memory", "engine", &home.data.to_string_lossy()]));
    });
}

/// Prints how many bytes more were resident when there were cards.
pub(crate) fn carry_out(task: &[String]) {
    let before = resident_bytes();
    match task {
        [what, cards] if what == "cards" => {
            let mut shard = BareShard::empty();
            shard.found(Program::of_one_company(cards.parse().unwrap_or(0)));
            println!("{} {}", resident_bytes() - before, shard.state.cards().bytes());
        }
        [_, data] => {
            let _engine = open(Path::new(data), Retention::Recovery);
            // The engine's shard is on a thread of its own: it is counted above.
            println!("{} 0", resident_bytes() - before);
        }
        _ => {}
    }
}

/// Bytes that were resident, and bytes of them that the shard counted as its cards'.
fn bytes_of(task: &[&str]) -> [u64; 2] {
    Process::start(task).read_numbers()
}

fn print(name: &str, cards: u64, [resident, counted]: [u64; 2]) {
    let each = resident as f64 / cards as f64;
    let named = name_bytes();
    println!(
        "RATIO {name}: {each:.0} bytes a card resident, {:.0} without its {named} bytes of text; \
         {:.0} counted; {:.2} times the {} bytes that a decision reads",
        each - named as f64,
        counted as f64 / cards as f64,
        each / size_of::<CardRecord>() as f64,
        size_of::<CardRecord>()
    );
}

/// Bytes of text that every card of the program brings along.
fn name_bytes() -> usize {
    let card = new_card(0, company_id(0), pan_hash(0));
    card.order.texts.named().iter().map(|(_, text)| text.len()).sum()
}
