//! Authorizations in the model, and increments of their holds.

use cardswitch_engine::command::network::{
    AuthorizationKind, Authorize, Increment, PartialApproval,
};
use cardswitch_engine::command::reply::{AuthorizationReply, NetworkReply};
use cardswitch_engine::decision::{Rule, RuleSet};
use cardswitch_engine::domain::card::SuspensionReason;
use cardswitch_engine::domain::ids::{Timestamp, TransactionSeq};
use cardswitch_engine::domain::money::{CurrencyCode, Minor};
use cardswitch_engine::domain::network_key::MessageClass;
use cardswitch_engine::domain::response_code::{ResponseCode, SubReason};
use cardswitch_engine::domain::transaction::{TransactionFlags, TransactionKind, TransactionState};
use cardswitch_engine::shard::authorization_id_of;

use super::rules::{Attempt, set_of};
use crate::model::{Decline, IncrementOutcome, LaterMessage, Model, Purchase, Rate};

/// How an authorization ends.
pub(crate) struct Verdict {
    pub(crate) code: ResponseCode,
    pub(crate) sub_reason: SubReason,
    pub(crate) failed: RuleSet,
    pub(crate) flags: TransactionFlags,
    /// The amount approved, where that is a part.
    pub(crate) part: Option<i64>,
}

impl Model {
    pub(crate) fn authorize(&mut self, at: i64, command: &Authorize) -> NetworkReply {
        let facts = &command.facts;
        let Some(card) = self.find_card(facts.card) else { return Self::unknown_card() };
        let (amount, foreign) = match self.amounts(card, &facts.amounts) {
            Ok(amounts) => amounts,
            Err(reply) => return reply,
        };
        self.turn_pages(card, at);
        let (over_minute, over_hour) = self.count_attempt(at, card);
        let kind = match command.kind {
            AuthorizationKind::Cash => TransactionKind::Cash,
            AuthorizationKind::Verification => TransactionKind::Verification,
            _ if amount == 0 => TransactionKind::Verification,
            AuthorizationKind::SingleMessage => TransactionKind::SingleMessagePurchase,
            AuthorizationKind::Purchase => TransactionKind::Purchase,
        };
        let tried = Attempt {
            added_to: 0,
            mcc: facts.merchant.mcc.map(|mcc| mcc.0),
            is_cash: command.kind == AuthorizationKind::Cash,
            credentials: &command.credentials,
            // Whatever a reversal would leave of a request: nobody has got anything yet.
            is_reversed_before: self.asked_before(&facts.trace, kind.class()).is_some(),
            over_minute,
            over_hour,
        };
        let failed = self.failed_rules(at, card, amount, &tried);
        self.count_credentials(at, card, &command.credentials, &failed);
        let part = self.part_allowed(card, &failed).filter(|_| {
            let is_own_currency = foreign.is_none();
            command.partial == PartialApproval::Taken && is_own_currency
        });
        let first = failed.first().filter(|_| part.is_none());
        let mut flags = TransactionFlags::default();
        if part.is_some() {
            flags.insert(TransactionFlags::PARTIALLY_APPROVED);
        }
        let verdict = Verdict {
            code: first.map_or(ResponseCode::Approved, |rule| rule.response_code()),
            sub_reason: first.map_or(SubReason::None, |rule| rule.sub_reason()),
            failed: set_of(&failed),
            flags,
            part,
        };
        self.conclude(at, self.new_purchase(at, card, facts, (kind, amount, foreign)), &verdict)
    }

    /// The most that passes every amount rule, where only those fail.
    fn part_allowed(&self, card_at: usize, failed: &[Rule]) -> Option<i64> {
        let amounts = [
            Rule::TransactionLimit,
            Rule::DailyLimit,
            Rule::AllowanceBalance,
            Rule::AvailableCredit,
        ];
        let card = &self.cards[card_at];
        let company = &self.companies[card.company];
        if !company.allows_partial
            || failed.is_empty()
            || !failed.iter().all(|rule| amounts.contains(rule))
        {
            return None;
        }
        let day = card.terms.daily_limit;
        let day_room =
            if day == Minor::UNLIMITED { i64::MAX } else { day.0 - self.day_spent(card_at) };
        let part = self
            .allowance_balance(card_at)
            .min(card.terms.transaction_limit.0)
            .min(day_room)
            .min(self.available(card.company) + company.credit_limit);
        (part > 0).then_some(part)
    }

    pub(crate) fn increment(&mut self, at: i64, command: &Increment) -> NetworkReply {
        let named = command.card.map(|card| self.find_card(card));
        let found = match named {
            Some(None) => None,
            Some(card) => self.find_original(card, &command.original),
            None => self.find_original(None, &command.original),
        };
        let Some(found) = found.filter(|found| self.purchases[*found].held() > 0) else {
            return match &command.otherwise {
                Some(authorize) => self.authorize(at, authorize),
                None if named == Some(None) => Self::unknown_card(),
                None => Self::declined_without(SubReason::NotPending),
            };
        };
        let card = self.purchases[found].card;
        let (amount, foreign) = match self.amounts(card, &command.amounts) {
            Ok(amounts) => amounts,
            Err(reply) => return reply,
        };
        self.turn_pages(card, at);
        let (over_minute, over_hour) = self.count_attempt(at, card);
        let mcc = command.mcc.map(|mcc| mcc.0).or(self.purchases[found].mcc);
        let marks = (command.own_key, self.purchases[found].retrieval_key);
        let tried = Attempt {
            added_to: self.purchases[found].held() + self.purchases[found].posted,
            mcc,
            is_cash: false,
            credentials: &command.credentials,
            is_reversed_before: self
                .asked_before_message(marks, MessageClass::Authorization)
                .is_some(),
            over_minute,
            over_hour,
        };
        let mut failed = self.failed_rules(at, card, amount, &tried);
        let used_up = self.purchases[found].flags.contains(TransactionFlags::CONSUMED_SINGLE_USE);
        if used_up && self.cards[card].reason == SuspensionReason::SingleUse {
            failed.retain(|rule| *rule != Rule::CardSuspended);
        }
        self.count_credentials(at, card, &command.credentials, &failed);
        let first = failed.first();
        self.increments.push(IncrementOutcome {
            seq: self.purchases[found].seq,
            at,
            amount,
            added_to: tried.added_to,
            failed: set_of(&failed),
        });
        if first.is_none() {
            let parts = self.part(card, amount);
            self.purchases[found].held.extend(&parts);
            let (key, rate) = (command.own_key, Rate::of(foreign, amount));
            let later = LaterMessage { key, is_posting: false, amount, left: amount, parts, rate };
            self.purchases[found].later.push(later);
            let of_hold = self.purchases[found].mcc.or(mcc);
            self.purchases[found].expires_at = at + self.hold_lifetime(card, of_hold);
        }
        let seq = self.purchases[found].seq;
        NetworkReply::Authorization(AuthorizationReply {
            transaction: Some(self.id_of(found)),
            response_code: first.map_or(ResponseCode::Approved, |rule| rule.response_code()),
            sub_reason: first.map_or(SubReason::None, |rule| rule.sub_reason()),
            failed_rules: set_of(&failed),
            approved: Minor(if first.is_none() { amount } else { 0 }),
            authorization_id: first.is_none().then(|| authorization_id_of(TransactionSeq(seq))),
            allowance_balance: Minor(self.allowance_balance(card)),
            currency: self.currency(card),
        })
    }

    /// Enters a new purchase into the books, where it was approved, and answers.
    pub(crate) fn conclude(
        &mut self,
        at: i64,
        mut purchase: Purchase,
        verdict: &Verdict,
    ) -> NetworkReply {
        self.last_seq += 1;
        let Purchase { card, seq, requested, .. } = purchase;
        let amount = verdict.part.unwrap_or(requested);
        let is_approved = verdict.code == ResponseCode::Approved;
        purchase.flags = verdict.flags;
        if is_approved {
            match purchase.kind {
                TransactionKind::Verification => purchase.state = TransactionState::Canceled,
                TransactionKind::SingleMessagePurchase => {
                    purchase.cleared = self.part(card, amount);
                    purchase.posted = amount;
                    (purchase.state, purchase.is_final) = (TransactionState::Completed, true);
                }
                _ => {
                    purchase.held = self.part(card, amount);
                    purchase.state = TransactionState::Pending;
                }
            }
            if purchase.kind != TransactionKind::Verification {
                self.use_up(&mut purchase);
            }
            let is_settled = purchase.kind == TransactionKind::SingleMessagePurchase;
            let merchant = purchase.merchant.clone();
            self.purchases.push(purchase);
            if is_settled {
                self.write_line(self.purchases.len() - 1, -amount, &merchant);
            }
        } else {
            self.declined_references.extend(purchase.retrieval_key);
            let decline = |member| Decline { seq, at, card, member, code: verdict.code };
            self.declines.extend(purchase.member.map(decline));
        }
        NetworkReply::Authorization(AuthorizationReply {
            transaction: Some(self.ids.transaction_id(Timestamp(at), TransactionSeq(seq))),
            response_code: verdict.code,
            sub_reason: verdict.sub_reason,
            failed_rules: verdict.failed,
            approved: Minor(if is_approved { amount } else { 0 }),
            authorization_id: is_approved.then(|| authorization_id_of(TransactionSeq(seq))),
            allowance_balance: Minor(self.allowance_balance(card)),
            currency: self.currency(card),
        })
    }

    pub(crate) fn unknown_card() -> NetworkReply {
        Self::declined_without(SubReason::UnknownCard)
    }

    fn declined_without(sub_reason: SubReason) -> NetworkReply {
        NetworkReply::Authorization(AuthorizationReply {
            transaction: None,
            response_code: ResponseCode::Declined,
            sub_reason,
            failed_rules: RuleSet::EMPTY,
            approved: Minor::ZERO,
            authorization_id: None,
            allowance_balance: Minor::ZERO,
            currency: CurrencyCode::default(),
        })
    }
}
