//! The cards of a program as a shard keeps them, with the accounts that pay for them, and nothing
//! else of the shard: what a decision over a batch of purchases touches.

use cardswitch_engine::domain::account::AccountBalances;
use cardswitch_engine::domain::card::{CardProfile, CardRecord, PanHash};
use cardswitch_engine::domain::ids::{AccountSlot, CardSlot, CompanySlot};
use cardswitch_engine::shard::cards::Cards;

use super::{Program, START, StandardPurchase, ample_balances, card_record, company_id, new_card};

/// Cards found by their numbers, and their accounts.
#[derive(Debug)]
pub struct CardBook {
    cards: Cards,
    accounts: Vec<AccountBalances>,
}

impl CardBook {
    /// The cards of a program, in the order in which they are issued.
    pub fn new(program: Program) -> Self {
        let accounts = usize::try_from(program.companies()).expect("address the accounts");
        let mut cards = Cards::default();
        for card in 0..program.cards {
            let company = u32::try_from(card / program.cards_per_company).expect("count companies");
            let record = CardRecord { account: AccountSlot(company), ..card_record(card) };
            cards.issue(&profile(card, CompanySlot(company), &record), record);
        }
        Self { cards, accounts: vec![ample_balances(); accounts] }
    }

    /// Decides a purchase on each of these cards, found as the engine finds many. Returns how many
    /// are approved.
    pub fn decide_batch(&self, pans: &[PanHash], asked: &StandardPurchase) -> usize {
        let mut approved = 0;
        self.cards.find_each(pans, |_, found| {
            approved += usize::from(found.is_some_and(|card| self.is_approved(card, asked)));
        });
        approved
    }

    /// The same one after the other, each card found when it is its turn.
    pub fn decide_singly(&self, pans: &[PanHash], asked: &StandardPurchase) -> usize {
        let is_approved = |pan: &&PanHash| {
            let slot = self.cards.find_by_pan(**pan);
            slot.is_some_and(|slot| self.is_approved(self.cards.record(slot), asked))
        };
        pans.iter().filter(is_approved).count()
    }

    fn is_approved(&self, card: &CardRecord, asked: &StandardPurchase) -> bool {
        asked.decide(card, &self.accounts[card.account.index()]).is_empty()
    }
}

fn profile(card: u64, company: CompanySlot, record: &CardRecord) -> CardProfile {
    let new = new_card(card, company_id(u64::from(company.0)), record.pan_hash);
    let order = new.order;
    CardProfile {
        slot: CardSlot(u32::try_from(card).expect("count cards")),
        id: new.id,
        allowance_id: new.allowance_id,
        company,
        texts: order.texts.map(ToString::to_string),
        is_virtual: order.is_virtual,
        last_four: new.last_four,
        created_at: START,
        ..CardProfile::default()
    }
}
