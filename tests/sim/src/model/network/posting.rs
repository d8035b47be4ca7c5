//! The postings of the model: presentments and refunds.

use cardswitch_engine::command::network::{
    CardRef, MessageAmounts, Present, PresentmentNumber, Refund,
};
use cardswitch_engine::command::reply::{NetworkReply, PostingOutcome, PostingReply};
use cardswitch_engine::domain::money::{CurrencyCode, Minor};
use cardswitch_engine::domain::network_key::{MessageClass, OriginalKey};
use cardswitch_engine::domain::response_code::SubReason;
use cardswitch_engine::domain::transaction::{TransactionFlags, TransactionKind, TransactionState};

use crate::model::parts::{HeldPart, take_first, take_last, total};
use crate::model::{LaterMessage, Model, Purchase, Rate};

impl Purchase {
    /// What is posted and refunded takes no room, whichever of the two came first.
    fn give_refunded_room(&mut self) -> Vec<HeldPart> {
        let too_much = total(&self.cleared) - self.unrefunded();
        take_last(&mut self.cleared, too_much)
    }

    /// One of several is known by its number, which posts once. An only one is known by key and amount; behind the
    /// last one by its amount alone, of which something is still posted. One that names no amount is of any.
    fn is_posted_before(&self, command: &Present, amount: Option<i64>) -> bool {
        if self.kind == TransactionKind::SingleMessagePurchase {
            return true;
        }
        if command.number.count > 1 {
            let mut numbered = self.presented.iter().filter(|presented| presented.count > 1);
            return numbered.any(|presented| presented.number == command.number.number);
        }
        let key = own_key(command);
        let postings = self.later.iter().filter(|later| later.is_posting);
        postings.zip(&self.presented).any(|(posting, presented)| {
            let is_of_key = key.is_some() && posting.key == key && presented.count == 1;
            let is_taken_back = posting.amount > 0 && posting.left == 0;
            let is_of_amount = amount.is_none_or(|amount| posting.amount == amount);
            is_of_amount && (is_of_key || (self.is_final && !is_taken_back))
        })
    }

    pub(super) fn unrefunded(&self) -> i64 {
        (self.posted - self.refunded).max(0)
    }
}

fn own_key(command: &Present) -> Option<OriginalKey> {
    command.facts.as_ref()?.trace.original_key
}

impl Model {
    pub(crate) fn present(&mut self, at: i64, command: &Present) -> NetworkReply {
        let named: Option<CardRef> = command.facts.as_ref().map(|facts| facts.card);
        let card = named.and_then(|card| self.find_card(card));
        if named.is_some() && card.is_none() {
            return Self::not_posted(PostingOutcome::UnknownCard);
        }
        let found = self
            .find_original(card, &command.original)
            .filter(|found| self.purchases[*found].kind != TransactionKind::Refund);
        let (found, amount, rate) = match (found, &command.facts, card) {
            (Some(found), ..) => {
                let purchase = &self.purchases[found];
                let owner = purchase.card;
                self.turn_pages(owner, at);
                let presented = self.presented_amount(found, command.amounts.as_ref());
                let amount = presented.as_ref().ok().map(|(amount, _)| *amount);
                if self.purchases[found].is_posted_before(command, amount) {
                    return self.posting(found, PostingOutcome::AlreadyPosted, 0);
                }
                match presented {
                    Ok((amount, rate)) => (found, amount, rate),
                    Err(reply) => return reply,
                }
            }
            (None, Some(facts), Some(card)) if command.amounts.is_some() => {
                let (amount, foreign) = match self.amounts(card, &facts.amounts) {
                    Ok(amounts) => amounts,
                    Err(reply) => return reply,
                };
                if !Self::can_post(amount) {
                    return Self::not_posted(PostingOutcome::OutOfBounds);
                }
                self.turn_pages(card, at);
                let kind = TransactionKind::Purchase;
                let mut purchase = self.new_purchase(at, card, facts, (kind, amount, foreign));
                self.last_seq += 1;
                self.use_up(&mut purchase);
                purchase.is_posted_only = true;
                self.purchases.push(purchase);
                (self.purchases.len() - 1, amount, Rate::of(foreign, amount))
            }
            _ => return Self::not_posted(PostingOutcome::NotFound),
        };
        if !Self::can_post(amount) {
            return Self::not_posted(PostingOutcome::OutOfBounds);
        }
        let known = &self.purchases[found];
        let is_forced = known.presented.is_empty() && known.held.is_empty();
        let key = own_key(command);
        let (left, parts) = (amount, Vec::new());
        let message = LaterMessage { key, is_posting: true, amount, left, parts, rate };
        self.settle(found, command.number, message);
        let used_up = TransactionFlags::CONSUMED_SINGLE_USE;
        if is_forced && !self.purchases[found].flags.contains(used_up) {
            let mut purchase = self.purchases[found].clone();
            self.use_up(&mut purchase);
            self.purchases[found] = purchase;
        }
        let named = command.facts.as_ref().map(|facts| facts.merchant.name.to_string());
        let of_purchase = || self.purchases[found].merchant.clone();
        let merchant = named.filter(|name| !name.is_empty()).unwrap_or_else(of_purchase);
        self.write_line(found, -amount, &merchant);
        let facts = command.facts.as_ref();
        let asked = facts.and_then(|facts| {
            let marks = (facts.trace.original_key, self.purchases[found].retrieval_key);
            self.asked_before_message(marks, MessageClass::Financial)
        });
        let given_back = self.give_back_newest(found, asked);
        self.posted(found, amount - given_back)
    }

    /// The amount of a presentment. One that names none is about the hold, and refused if there is none.
    fn presented_amount(
        &self,
        found: usize,
        named: Option<&MessageAmounts>,
    ) -> Result<(i64, Option<Rate>), NetworkReply> {
        let purchase = &self.purchases[found];
        match named {
            Some(amounts) => self
                .amounts(purchase.card, amounts)
                .map(|(amount, foreign)| (amount, Rate::of(foreign, amount))),
            None if purchase.held() == 0 => Err(NetworkReply::FormatError(SubReason::NothingHeld)),
            None => Ok((purchase.held(), purchase.hold_rate)),
        }
    }

    fn settle(&mut self, found: usize, number: PresentmentNumber, mut message: LaterMessage) {
        let amount = message.left;
        let card = self.purchases[found].card;
        let held = self.purchases[found].held();
        let beyond = self.part(card, (amount - held).max(0));
        let purchase = &mut self.purchases[found];
        if purchase.is_final {
            purchase.flags.insert(TransactionFlags::AFTER_FINAL);
        } else if held == 0 {
            purchase.flags.insert(TransactionFlags::FORCED);
        } else if amount > held {
            purchase.flags.insert(TransactionFlags::OVER_CLEARED);
        }
        message.parts = take_first(&mut purchase.held, amount.min(held));
        message.parts.extend(beyond);
        purchase.cleared.extend(&message.parts);
        // What was held may be older than the room that a refund gave and that was taken again.
        purchase.cleared.sort_by_key(|part| (part.period, part.day));
        purchase.posted += amount;
        purchase.give_refunded_room();
        purchase.presented.push(number);
        purchase.later.push(message);
        purchase.is_final |= number.number >= number.count;
        if purchase.is_final {
            purchase.held.clear();
        }
        purchase.state = TransactionState::Completed;
    }

    pub(crate) fn refund(&mut self, at: i64, command: &Refund) -> NetworkReply {
        let facts = &command.facts;
        let Some(card) = self.find_card(facts.card) else {
            return Self::not_posted(PostingOutcome::UnknownCard);
        };
        let (amount, foreign) = match self.amounts(card, &facts.amounts) {
            Ok(amounts) => amounts,
            Err(reply) => return reply,
        };
        if !Self::can_post(amount) {
            return Self::not_posted(PostingOutcome::OutOfBounds);
        }
        self.turn_pages(card, at);
        let kind = TransactionKind::Refund;
        let mut refund = self.new_purchase(at, card, facts, (kind, amount, foreign));
        let marks = (facts.trace.original_key, facts.trace.retrieval_key);
        let asked = self.asked_before_message(marks, MessageClass::Financial);
        let original = self
            .find_original(Some(card), &command.original)
            .filter(|found| self.purchases[*found].kind != TransactionKind::Refund);
        if let Some(found) = original {
            (refund.refund_of, refund.member) = (Some(found), self.purchases[found].member);
        }
        if let Some(found) = refund.refund_of {
            let purchase = &mut self.purchases[found];
            let refundable = (purchase.held() + purchase.posted - purchase.refunded).max(0);
            if amount > refundable {
                refund.flags.insert(TransactionFlags::OVER_REFUNDED);
            }
            let given_back = amount.min(refundable);
            purchase.refunded += given_back;
            refund.refunded = given_back;
            refund.given_back = purchase.give_refunded_room();
        }
        refund.posted = -amount;
        (refund.state, refund.is_final) = (TransactionState::Completed, true);
        self.last_seq += 1;
        self.purchases.push(refund);
        let refund = self.purchases.len() - 1;
        self.write_line(refund, amount, &facts.merchant.name);
        let taken_back = asked.map_or(0, |asked| self.give_back(refund, asked).unwrap_or(0));
        self.posted(refund, amount - taken_back)
    }

    fn posted(&self, purchase: usize, amount: i64) -> NetworkReply {
        self.posting(purchase, PostingOutcome::Posted, amount)
    }

    fn posting(&self, purchase: usize, outcome: PostingOutcome, amount: i64) -> NetworkReply {
        let card = self.purchases[purchase].card;
        NetworkReply::Posting(PostingReply {
            outcome,
            transaction: Some(self.id_of(purchase)),
            posted: Minor(amount),
            allowance_balance: Minor(self.allowance_balance(card)),
            currency: self.currency(card),
        })
    }

    fn not_posted(outcome: PostingOutcome) -> NetworkReply {
        NetworkReply::Posting(PostingReply {
            outcome,
            transaction: None,
            posted: Minor::ZERO,
            allowance_balance: Minor::ZERO,
            currency: CurrencyCode::default(),
        })
    }
}
