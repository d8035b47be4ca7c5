//! Load for kill tests: acquirers that note every answer they saw before the switch died.

use std::net::SocketAddr;

use cardswitch_harness::{Acquirer, Purchase, Random, TestCard};

/// The number of messages that a connection keeps in flight.
const IN_FLIGHT: usize = 16;

/// A purchase that was sent, and its fate.
#[derive(Debug)]
pub(crate) struct SentPurchase {
    /// The purchase.
    pub(crate) purchase: Purchase,
    /// Its card.
    pub(crate) card_id: String,
    /// The answer that was seen, if one was.
    pub(crate) fate: Fate,
}

/// An acquirer's knowledge of a purchase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fate {
    /// No answer came: anything may be true.
    Unknown,
    /// An approval was seen, with its authorization id.
    Approved(String),
    /// An approval was seen, and its full reversal was sent; whether that was answered is unknown.
    ReversalSent(String),
    /// An approval was seen, and then the answer to its full reversal.
    Reversed(String),
    /// A decline was seen.
    Declined,
}

/// Sends purchases until the switch is gone, and returns them with their answers.
pub(crate) fn run_acquirer(door: SocketAddr, cards: &[TestCard], seed: u64) -> Vec<SentPurchase> {
    let Ok(mut acquirer) = Acquirer::try_connect(door) else { return Vec::new() };
    let mut random = Random::new(seed);
    let mut sent = Vec::new();
    loop {
        let first = sent.len();
        for _ in 0..IN_FLIGHT {
            let card = &cards[random.index(cards.len())];
            let purchase = Purchase::of(card, random.between(1, 100));
            let written = acquirer.send(&purchase.request()).is_ok();
            sent.push(SentPurchase {
                purchase,
                card_id: card.card_id.clone(),
                fate: Fate::Unknown,
            });
            if !written {
                return sent;
            }
        }
        let is_alive = collect_answers(&mut acquirer, &mut sent[first..])
            && reverse_one(&mut acquirer, &mut sent[first..], &mut random);
        if !is_alive {
            return sent;
        }
    }
}

/// Reads an answer for each; false once the switch is gone.
fn collect_answers(acquirer: &mut Acquirer, batch: &mut [SentPurchase]) -> bool {
    for _ in 0..batch.len() {
        let Ok(answer) = acquirer.receive() else { return false };
        let own = batch.iter_mut().find(|sent| Some(sent.purchase.rrn.as_str()) == answer.get(37));
        let own = own.expect("every answer belongs to a message in flight");
        assert_eq!(own.fate, Fate::Unknown, "{} was answered twice", own.purchase.rrn);
        own.fate = match answer.response() {
            "00" => Fate::Approved(answer.expect_approved()),
            // Overload and an unknown outcome are honest answers under load, and say nothing.
            "91" | "96" => Fate::Unknown,
            _ => Fate::Declined,
        };
    }
    true
}

/// Reverses one approval of the batch, if it has one; false once the switch is gone.
fn reverse_one(acquirer: &mut Acquirer, batch: &mut [SentPurchase], random: &mut Random) -> bool {
    let at = random.index(batch.len());
    let Fate::Approved(authorization_id) = batch[at].fate.clone() else { return true };
    batch[at].fate = Fate::ReversalSent(authorization_id.clone());
    if acquirer.send(&batch[at].purchase.reversal(&authorization_id)).is_err() {
        return false;
    }
    let Ok(answer) = acquirer.receive() else { return false };
    if answer.response() == "00" {
        batch[at].fate = Fate::Reversed(authorization_id);
    }
    true
}
