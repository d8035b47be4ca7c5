//! Reversals in the model: of holds, of postings made at once, and of refunds.

use cardswitch_engine::command::network::{OriginalRef, ReversalAmount, Reverse};
use cardswitch_engine::command::reply::{ReversalOutcome, ReversalReply};
use cardswitch_engine::domain::money::{CurrencyCode, Minor};
use cardswitch_engine::domain::network_key::{MessageClass, OriginalKey, RetrievalKey};
use cardswitch_engine::domain::transaction::{TransactionKind, TransactionState};
use cardswitch_engine::limits;

use crate::model::parts::{HeldPart, take_alike, take_last, total};
use crate::model::{DAY, LaterMessage, Model, Purchase, Rate, UnmatchedReversal};

/// Whether a key may mean a message: by all its marks, or by the trace number alone where it leaves out a mark that the
/// message has.
fn may_mean(named: Option<OriginalKey>, own: Option<OriginalKey>) -> bool {
    let (Some(named), Some(own)) = (named, own) else { return false };
    let absent = |key: OriginalKey| key.0 >> 62;
    let number = |key: OriginalKey| key.0 << 2 >> 44;
    named == own || absent(named) & !absent(own) > 0 && number(named) == number(own)
}

impl Model {
    pub(crate) fn reverse(&mut self, at: i64, command: &Reverse) -> ReversalReply {
        let card = command.card.map(|card| self.find_card(card));
        let found = match card {
            Some(None) => None,
            Some(card) => self.find_original(card, &command.original),
            None => self.find_original(None, &command.original),
        };
        let named = (command.original.original_key, command.original.class);
        let about = found.and_then(|found| self.named_message(found, card.flatten(), named));
        let Some((found, later)) = about else {
            // Nobody had the number of an unknown card, so no purchase comes after its reversal.
            if card != Some(None) {
                self.remember_early(at, card.flatten(), command);
            }
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
        let outcome = match later {
            Some(later) => self.give_back_later(found, later, command.amount),
            None => self.give_back(found, command.amount),
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

    /// Remembers a reversal that came first; of too many the oldest is forgotten.
    fn remember_early(&mut self, at: i64, card: Option<usize>, command: &Reverse) {
        let OriginalRef { original_key, class, retrieval_key, .. } = command.original;
        // A purchase that was declined has come: its reference names no other one that may come.
        let has_come = |key: &RetrievalKey| {
            let mut purchases = self.purchases.iter();
            self.declined_references.contains(key)
                || purchases.any(|purchase| purchase.retrieval_key == Some(*key))
        };
        // Of a purchase that has come, a message is meant that has not.
        let known = self.find_original(card, &command.original);
        let known = known.and_then(|found| self.purchases[found].retrieval_key);
        let reference = known.or(retrieval_key.filter(|key| !has_come(key)));
        let is_exact = |key: OriginalKey| key.0 >> 62 == 0;
        let retrieval_key = reference.filter(|_| !original_key.is_some_and(is_exact));
        if original_key.is_none() && retrieval_key.is_none() {
            return;
        }
        self.early.push(UnmatchedReversal {
            card,
            original_key,
            class,
            retrieval_key,
            asked: command.amount,
            expires_at: at + DAY,
        });
        let is_of_card = |early: &UnmatchedReversal| card.is_some() && early.card == card;
        let of_card = self.early.iter().filter(|early| is_of_card(early)).count();
        if of_card > limits::EARLY_REVERSALS_OF_CARD_MAX {
            let oldest = self.early.iter().position(is_of_card).expect("it has too many");
            self.early.remove(oldest);
        }
        if self.early.len() > limits::EARLY_REVERSALS_MAX {
            self.early.remove(0);
        }
    }

    /// The purchase and its later message that a reversal is about; no later message if it is the first. None of a
    /// message that never came.
    fn named_message(
        &self,
        found: usize,
        card: Option<usize>,
        (named, class): (Option<OriginalKey>, Option<MessageClass>),
    ) -> Option<(usize, Option<usize>)> {
        let purchase = &self.purchases[found];
        if named.is_none() {
            return Some((found, None));
        }
        let later_of = |is_meant: &dyn Fn(MessageClass) -> bool| {
            let mut messages = purchase.later.iter();
            messages.rposition(|later| may_mean(named, later.key) && is_meant(later.class()))
        };
        let (of_class, of_any) =
            (later_of(&|of| class.is_none_or(|class| class == of)), later_of(&|_| true));
        let is_first = may_mean(named, purchase.original_key);
        // Of messages with one key the one of the class that is told is meant, where there is one.
        let is_of_class = class == Some(purchase.kind.class()) && !purchase.is_posted_only;
        if is_first && of_class.is_none() && is_of_class {
            return Some((found, None));
        }
        if let Some(later) = of_class.or(of_any) {
            return Some((found, Some(later)));
        }
        if is_first {
            return Some((found, None));
        }
        // A transaction of its own, with the marks of another one.
        let by_key = OriginalRef { original_key: named, ..OriginalRef::default() };
        match self.find_original(card, &by_key) {
            Some(own) => self.named_message(own, card, (named, class)),
            None => purchase.original_key.is_none().then_some((found, None)),
        }
    }

    /// The keys of the messages after a purchase: of those that changed it, and of its refunds.
    pub(crate) fn keys_after(&self, purchase: usize) -> Vec<OriginalKey> {
        let changes = self.purchases[purchase].later.iter().filter_map(|later| later.key);
        let refunds = self.purchases.iter().filter(|refund| refund.refund_of == Some(purchase));
        changes.chain(refunds.filter_map(|refund| refund.original_key)).collect()
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
            let whole = held + purchase.posted;
            let amount = asked_back(purchase.hold_rate, asked, whole)?.min(held);
            purchase.take_newest(amount, false);
            return Ok(self.give_back_held(found, (amount, &[])));
        }
        if purchase.state == TransactionState::Canceled {
            return Ok(0);
        }
        if !purchase.is_at_once() || posted <= 0 {
            return Err(ReversalOutcome::NothingHeld);
        }
        let amount = asked_back(purchase.rate(), asked, purchase.posted)?.min(posted);
        purchase.take_newest(amount, true);
        Ok(self.give_back_posted(found, (amount, &[])))
    }

    /// The newest message of a purchase gives back what a reversal asked before it came. Nothing
    /// where that is too much.
    pub(super) fn give_back_newest(&mut self, found: usize, asked: Option<ReversalAmount>) -> i64 {
        let newest = self.purchases[found].later.len() - 1;
        asked.map_or(0, |asked| self.give_back_later(found, newest, asked).unwrap_or(0))
    }

    /// A later message gives back its own amount, as far as the purchase still has it.
    fn give_back_later(
        &mut self,
        found: usize,
        later: usize,
        asked: ReversalAmount,
    ) -> Result<i64, ReversalOutcome> {
        let purchase = &mut self.purchases[found];
        let (held, posted) = (purchase.held(), (purchase.posted - purchase.refunded).max(0));
        let LaterMessage { left, is_posting, rate, .. } = purchase.later[later];
        let amount = asked_back(rate, asked, left)?;
        let is_canceled = purchase.state == TransactionState::Canceled;
        let open = if is_posting { posted } else { held };
        if left > 0 && open == 0 && !is_canceled {
            return Err(ReversalOutcome::NothingHeld);
        }
        let given_back = amount.min(if is_posting { posted } else { held });
        if given_back > 0 {
            // A refund of a posting leaves less to give back, until it is reversed itself.
            let used_up = if is_posting { given_back } else { amount };
            let parts = self.purchases[found].later[later].give_back(used_up);
            match is_posting {
                true => self.give_back_posted(found, (given_back, &parts)),
                false => self.give_back_held(found, (given_back, &parts)),
            };
        }
        Ok(given_back)
    }

    fn give_back_held(&mut self, found: usize, (amount, parts): (i64, &[HeldPart])) -> i64 {
        let place = self.place_of(self.purchases[found].card);
        let purchase = &mut self.purchases[found];
        if amount > 0 {
            take_alike(&mut purchase.held, (amount, parts), place);
            purchase.close_if_nothing_is_held();
        }
        amount
    }

    fn give_back_posted(&mut self, found: usize, (amount, parts): (i64, &[HeldPart])) -> i64 {
        let place = self.place_of(self.purchases[found].card);
        let purchase = &mut self.purchases[found];
        if amount > 0 {
            let room = amount.min(total(&purchase.cleared));
            take_alike(&mut purchase.cleared, (room, parts), place);
            purchase.posted -= amount;
            purchase.close_if_nothing_is_held();
            let merchant = purchase.merchant.clone();
            self.write_line(found, amount, &merchant);
        }
        amount
    }

    /// A refund is taken back by a line against it, first what no purchase covers; of the rest its
    /// purchase takes the parts again, at their place in time.
    fn take_refund_back(
        &mut self,
        found: usize,
        asked: ReversalAmount,
    ) -> Result<i64, ReversalOutcome> {
        let refund = &self.purchases[found];
        let given = -refund.posted;
        if given == 0 {
            return Ok(0);
        }
        let amount = asked_back(refund.rate(), asked, given)?;
        if amount == 0 {
            return Ok(0);
        }
        let room = (refund.refunded - (given - amount)).max(0);
        if let Some(purchase) = refund.refund_of {
            self.purchases[purchase].refunded -= room;
            let missing = {
                let purchase = &self.purchases[purchase];
                purchase.unrefunded() - total(&purchase.cleared)
            };
            let refund = &mut self.purchases[found];
            refund.refunded -= room;
            let parts = missing.min(total(&refund.given_back));
            let again = take_last(&mut refund.given_back, parts);
            // The rest was given by a presentment behind the refund, and is taken now.
            let now = self.part(self.purchases[purchase].card, missing - parts);
            let cleared = &mut self.purchases[purchase].cleared;
            cleared.extend(again.into_iter().chain(now));
            cleared.sort_by_key(|part| (part.period, part.day));
        }
        self.purchases[found].posted += amount;
        self.purchases[found].close_if_nothing_is_held();
        let merchant = self.purchases[found].merchant.clone();
        self.write_line(found, -amount, &merchant);
        Ok(amount)
    }
}

impl Purchase {
    /// The rate of the message that made it.
    pub(super) fn rate(&self) -> Option<Rate> {
        Rate::of(self.foreign, self.requested)
    }

    /// The newest parts of what is held or posted go, whichever messages added them.
    fn take_newest(&mut self, mut amount: i64, is_posting: bool) {
        for later in self.later.iter_mut().rev().filter(|later| later.is_posting == is_posting) {
            let part = later.left.min(amount);
            later.give_back(part);
            amount -= part;
        }
    }
}

/// The part of `open` that a reversal asks back.
pub(super) fn asked_back(
    rate: Option<Rate>,
    asked: ReversalAmount,
    open: i64,
) -> Result<i64, ReversalOutcome> {
    let whole = i128::from(open);
    let back = match (asked, rate) {
        (ReversalAmount::Full, _) => whole,
        (ReversalAmount::GiveBack(back), _) => i128::from(back.0),
        (ReversalAmount::RemainingOriginal(kept), Some(rate)) if kept.is_amount() => {
            // At the rate of the message, rounded up to the next minor unit.
            let share = i128::from(rate.billed) * i128::from(kept.0);
            let unit = i128::from(rate.asked);
            whole - (share / unit + i128::from(share % unit != 0))
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
