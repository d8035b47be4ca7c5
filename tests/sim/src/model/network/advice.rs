//! Advices in the model: a hold that is completed, or a purchase that others have decided.

use cardswitch_engine::command::network::{AdviceOutcome, Advise, ReversalAmount};
use cardswitch_engine::command::reply::{AuthorizationReply, NetworkReply};
use cardswitch_engine::decision::{Rule, RuleSet};
use cardswitch_engine::domain::credential::PresentedCredentials;
use cardswitch_engine::domain::ids::TransactionSeq;
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::domain::network_key::MessageClass;
use cardswitch_engine::domain::response_code::{ResponseCode, SubReason};
use cardswitch_engine::domain::transaction::{TransactionFlags, TransactionKind};
use cardswitch_engine::shard::authorization_id_of;

use super::authorization::Verdict;
use super::reversal::asked_back;
use super::rules::{Attempt, set_of};
use crate::model::parts::take_last;
use crate::model::{Answer, DAY, LaterMessage, Model, Purchase, Rate};

impl Model {
    pub(crate) fn advise(&mut self, at: i64, command: &Advise) -> NetworkReply {
        let facts = &command.facts;
        let Some(card) = self.find_card(facts.card) else { return Self::unknown_card() };
        let (amount, foreign) = match self.amounts(card, &facts.amounts) {
            Ok(amounts) => amounts,
            Err(reply) => return reply,
        };
        if let Some(reply) = self.approved_before(command, amount) {
            return reply;
        }
        self.turn_pages(card, at);
        let named = self.find_original(Some(card), &command.original);
        if let Some(known) = named.filter(|found| self.is_told_again(*found, command, amount)) {
            return self.approval(known, amount);
        }
        let held = named
            .filter(|found| self.purchases[*found].held() > 0)
            .filter(|_| command.outcome == AdviceOutcome::Approved);
        let (key, rate) = (facts.trace.original_key, Rate::of(foreign, amount));
        if let Some(held) = held {
            let (left, parts) = (amount, Vec::new());
            let completion = LaterMessage { key, is_posting: false, amount, left, parts, rate };
            let marks = (facts.trace.original_key, self.purchases[held].retrieval_key);
            let asked = self.asked_before_message(marks, MessageClass::Authorization);
            return self.complete_hold(held, completion, asked);
        }
        let asked = self.asked_before(&facts.trace, MessageClass::Authorization);
        let left = amount - asked.map_or(0, |asked| asked_back(rate, asked, amount).unwrap_or(0));
        // What a reversal leaves of an advice counts; an advice of which nothing is left is none.
        let is_gone = asked.is_some() && left <= 0;
        let tried = Attempt {
            added_to: 0,
            mcc: facts.merchant.mcc.map(|mcc| mcc.0),
            is_cash: command.is_cash,
            credentials: &PresentedCredentials::NONE,
            is_reversed_before: is_gone,
            over_minute: false,
            over_hour: false,
        };
        let failed = self.failed_rules(at, card, amount, &tried);
        let (code, sub_reason) = if failed.contains(&Rule::ReversedBefore) {
            (ResponseCode::Declined, SubReason::ReversedBefore)
        } else if failed.contains(&Rule::OutOfBounds) {
            (ResponseCode::Declined, SubReason::OutOfBounds)
        } else if command.outcome == AdviceOutcome::Declined {
            (ResponseCode::Declined, SubReason::DeclinedByNetwork)
        } else {
            (ResponseCode::Approved, SubReason::None)
        };
        let flags = TransactionFlags::ADVICE;
        let verdict =
            Verdict { code, sub_reason, failed: set_of(&failed), flags, part: Some(left) };
        let kind =
            if amount == 0 { TransactionKind::Verification } else { TransactionKind::Purchase };
        self.conclude(at, self.new_purchase(at, card, facts, (kind, amount, foreign)), &verdict)
    }

    /// What an approved advice's own request was answered, if that was approved whole.
    fn approved_before(&self, command: &Advise, amount: i64) -> Option<NetworkReply> {
        let is_approved = command.outcome == AdviceOutcome::Approved;
        let request = command.request.as_deref().filter(|_| is_approved)?;
        match self.said_before(request)? {
            NetworkReply::Authorization(reply)
                if reply.response_code == ResponseCode::Approved && reply.approved.0 == amount =>
            {
                Some(NetworkReply::Authorization(reply))
            }
            _ => None,
        }
    }

    /// Whether an approved advice has the marks of the message that made a purchase, which was approved whole.
    fn is_told_again(&self, found: usize, command: &Advise, amount: i64) -> bool {
        let (purchase, own) = (&self.purchases[found], command.facts.trace.original_key);
        let is_whole = purchase.requested == amount
            && !purchase.flags.contains(TransactionFlags::PARTIALLY_APPROVED);
        let is_its_own = own.is_some() && purchase.original_key == own;
        let is_purchase = purchase.kind == TransactionKind::Purchase;
        command.outcome == AdviceOutcome::Approved && is_its_own && is_purchase && is_whole
    }

    fn approval(&self, found: usize, approved: i64) -> NetworkReply {
        let Purchase { seq, card, .. } = self.purchases[found];
        NetworkReply::Authorization(AuthorizationReply {
            transaction: Some(self.id_of(found)),
            response_code: ResponseCode::Approved,
            sub_reason: SubReason::None,
            failed_rules: RuleSet::EMPTY,
            approved: Minor(approved),
            authorization_id: Some(authorization_id_of(TransactionSeq(seq))),
            allowance_balance: Minor(self.allowance_balance(card)),
            currency: self.currency(card),
        })
    }

    /// A request that comes behind the advice that made its purchase hears what the advice heard. If a reversal came
    /// before both and took a part, the request is declined for that.
    pub(super) fn answer_request_of(&mut self, at: i64, command: &Advise, reply: &NetworkReply) {
        let Some(fingerprint) = command.request.as_deref().copied() else { return };
        let NetworkReply::Authorization(told) = reply else { return };
        let is_part = self.purchases.last().is_some_and(|made| made.requested != told.approved.0);
        let is_approved = told.response_code == ResponseCode::Approved;
        if (is_approved && is_part) || self.said_before(&fingerprint).is_some() {
            return;
        }
        self.answers.push(Answer { fingerprint, expires_at: at + DAY, reply: reply.clone() });
    }

    fn complete_hold(
        &mut self,
        pending: usize,
        completion: LaterMessage,
        asked: Option<ReversalAmount>,
    ) -> NetworkReply {
        let amount = completion.left;
        if !Self::can_post(amount) {
            return NetworkReply::FormatError(SubReason::OutOfBounds);
        }
        let (card, held) = (self.purchases[pending].card, self.purchases[pending].held());
        // The amount is that of the whole purchase, of which a part may be presented.
        let left = (amount - self.purchases[pending].posted).max(0);
        if left > held {
            let added = self.part(card, left - held);
            self.purchases[pending].held.extend(added);
        } else {
            take_last(&mut self.purchases[pending].held, held - left);
        }
        let purchase = &mut self.purchases[pending];
        for earlier in purchase.later.iter_mut().filter(|earlier| !earlier.is_posting) {
            earlier.give_back(earlier.left);
        }
        let currency = |rate: Option<Rate>| rate.map(|rate| rate.currency);
        if currency(purchase.hold_rate) == currency(completion.rate) {
            purchase.hold_rate = completion.rate;
        }
        purchase.later.push(completion);
        purchase.close_if_nothing_is_held();
        let given_back = self.give_back_newest(pending, asked);
        self.approval(pending, amount - given_back)
    }
}
