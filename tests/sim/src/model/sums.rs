//! The sums of the model: each is taken anew, over everything that was ever booked.

use cardswitch_engine::domain::transaction::TransactionState;

use super::parts::HeldPart;
use super::{Model, Purchase, Transfer};

impl Model {
    fn parts_of(&self, card: usize) -> impl Iterator<Item = &HeldPart> {
        let purchases = self.purchases.iter().filter(move |purchase| purchase.card == card);
        purchases.flat_map(|purchase| purchase.held.iter().chain(&purchase.cleared))
    }

    /// The part of the current period's budget that the card has used.
    pub fn spent(&self, card: usize) -> i64 {
        let period = self.cards[card].period;
        self.parts_of(card).filter(|part| part.period == period).map(|part| part.amount).sum()
    }

    pub fn day_spent(&self, card: usize) -> i64 {
        let today = self.cards[card].today;
        self.parts_of(card).filter(|part| part.day == today).map(|part| part.amount).sum()
    }

    pub fn allowance_balance(&self, card: usize) -> i64 {
        self.cards[card].terms.amount.0 - self.spent(card)
    }

    pub fn ledger(&self, company: usize) -> i64 {
        self.companies[company].lines.iter().map(|line| line.amount).sum()
    }

    /// The amount held for all purchases of a company.
    pub fn holds(&self, company: usize) -> i64 {
        let is_theirs = |purchase: &&Purchase| self.cards[purchase.card].company == company;
        self.purchases.iter().filter(is_theirs).map(Purchase::held).sum()
    }

    /// The amounts of a company's pending transfers: in, and out.
    pub fn in_transit(&self, company: usize) -> (i64, i64) {
        let is_pending = |transfer: &&Transfer| {
            transfer.company == company && transfer.state == TransactionState::Pending
        };
        let amounts = || self.transfers.iter().filter(is_pending).map(|transfer| transfer.amount);
        (
            amounts().map(|amount| amount.max(0)).sum(),
            amounts().map(|amount| (-amount).max(0)).sum(),
        )
    }

    /// The amount that a company may spend without credit.
    pub fn available(&self, company: usize) -> i64 {
        self.ledger(company) - self.holds(company) - self.in_transit(company).1
    }
}
