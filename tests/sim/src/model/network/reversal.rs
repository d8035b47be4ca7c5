//! Reversals in the model: of holds, of postings made at once, and of refunds.

use cardswitch_engine::command::network::{ReversalAmount, Reverse};
use cardswitch_engine::command::reply::{ReversalOutcome, ReversalReply};
use cardswitch_engine::domain::money::{CurrencyCode, Minor};
use cardswitch_engine::domain::transaction::{TransactionKind, TransactionState};

use crate::model::{DAY, Model, Purchase, UnmatchedReversal, take_last, total};

impl Model {
    pub(crate) fn reverse(&mut self, at: i64, command: &Reverse) -> ReversalReply {
        let card = command.card.map(|card| self.find_card(card));
        let found = match card {
            Some(None) => None,
            Some(card) => self.find_original(card, &command.original),
            None => self.find_original(None, &command.original),
        };
        let Some(found) = found else {
            let (original_key, retrieval_key) =
                (command.original.original_key, command.original.retrieval_key);
            self.early.push(UnmatchedReversal {
                original_key,
                retrieval_key,
                expires_at: at + DAY,
            });
            return ReversalReply {
                outcome: ReversalOutcome::NotFound,
                transaction: None,
                given_back: Minor::ZERO,
                remaining: Minor::ZERO,
                allowance_balance: Minor::ZERO,
                currency: CurrencyCode::default(),
            };
        };
        let card = self.purchases[found].card;
        self.turn_pages(card, at);
        // A later message of the purchase is taken back by its own amount, from what is held.
        let named = command.original.original_key;
        let first = self.purchases[found].original_key;
        let is_later = named.is_some_and(|named| first.is_some_and(|first| first != named));
        let is_refund = self.purchases[found].kind == TransactionKind::Refund;
        let outcome = match (is_later && !is_refund, self.purchases[found].held(), command) {
            (true, 1.., Reverse { amount: ReversalAmount::Full, amounts: Some(amounts), .. }) => {
                match self.amounts(card, amounts) {
                    Ok((own, _)) => {
                        let held = self.purchases[found].held();
                        self.give_back(found, ReversalAmount::GiveBack(Minor(own.min(held))))
                    }
                    Err(_) => Err(ReversalOutcome::AmountOutOfRange),
                }
            }
            (true, 0, _) if self.purchases[found].state != TransactionState::Canceled => {
                Err(ReversalOutcome::NothingHeld)
            }
            _ => self.give_back(found, command.amount),
        };
        ReversalReply {
            outcome: outcome.err().unwrap_or(ReversalOutcome::Reversed),
            transaction: Some(self.id_of(found)),
            given_back: Minor(outcome.unwrap_or(0)),
            remaining: Minor(self.purchases[found].held()),
            allowance_balance: Minor(self.allowance_balance(card)),
            currency: self.currency(card),
        }
    }

    pub(super) fn give_back(
        &mut self,
        found: usize,
        asked: ReversalAmount,
    ) -> Result<i64, ReversalOutcome> {
        if self.purchases[found].kind == TransactionKind::Refund {
            return self.take_refund_back(found, asked);
        }
        let purchase = &mut self.purchases[found];
        let (held, posted) = (purchase.held(), purchase.posted - purchase.refunded);
        if held > 0 {
            let amount = asked_back(purchase, asked, held)?;
            take_last(&mut purchase.held, amount);
            purchase.close_if_nothing_is_held();
            return Ok(amount);
        }
        if purchase.state == TransactionState::Canceled {
            return Ok(0);
        }
        if !purchase.is_at_once() || posted <= 0 {
            return Err(ReversalOutcome::NothingHeld);
        }
        let amount = asked_back(purchase, asked, posted)?;
        if amount > 0 {
            let room = amount.min(total(&purchase.cleared));
            take_last(&mut purchase.cleared, room);
            purchase.posted -= amount;
            purchase.close_if_nothing_is_held();
            let merchant = purchase.merchant.clone();
            self.write_line(found, amount, &merchant);
        }
        Ok(amount)
    }

    /// A refund is taken back by a line against it; its purchase takes the room again, today.
    fn take_refund_back(
        &mut self,
        found: usize,
        asked: ReversalAmount,
    ) -> Result<i64, ReversalOutcome> {
        let refund = &self.purchases[found];
        let (card, given) = (refund.card, -refund.posted);
        if given == 0 {
            return Ok(0);
        }
        let amount = asked_back(refund, asked, given)?;
        if amount == 0 {
            return Ok(0);
        }
        let room = amount.min(refund.refunded);
        if let Some(purchase) = refund.refund_of {
            let again = self.part(card, room);
            self.purchases[purchase].cleared.extend(again);
            self.purchases[purchase].refunded -= room;
            self.purchases[found].refunded -= room;
        }
        self.purchases[found].posted += amount;
        self.purchases[found].close_if_nothing_is_held();
        let merchant = self.purchases[found].merchant.clone();
        self.write_line(found, -amount, &merchant);
        Ok(amount)
    }
}

/// The part of `open` that a reversal asks back.
fn asked_back(
    purchase: &Purchase,
    asked: ReversalAmount,
    open: i64,
) -> Result<i64, ReversalOutcome> {
    let whole = i128::from(open);
    let back = match (asked, purchase.foreign) {
        (ReversalAmount::Full, _) => whole,
        (ReversalAmount::GiveBack(back), _) => i128::from(back.0),
        (ReversalAmount::RemainingOriginal(kept), Some(foreign))
            if foreign.amount.0 > 0 && kept.is_amount() =>
        {
            // At the rate of the authorization, rounded up to the next minor unit.
            let share = i128::from(purchase.requested) * i128::from(kept.0);
            let rate = i128::from(foreign.amount.0);
            whole - (share / rate + i128::from(share % rate != 0))
        }
        (ReversalAmount::Remaining(kept) | ReversalAmount::RemainingOriginal(kept), _) => {
            if !kept.is_amount() {
                return Err(ReversalOutcome::AmountOutOfRange);
            }
            whole - i128::from(kept.0)
        }
    };
    if (0..=whole).contains(&back) {
        Ok(back as i64)
    } else {
        Err(ReversalOutcome::AmountOutOfRange)
    }
}
