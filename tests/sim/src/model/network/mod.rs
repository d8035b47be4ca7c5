//! The network commands of the model: each message once, then by its kind. Shared by several kinds are here:
//! amounts in the card's currency, and the beginning of a purchase.

mod advice;
mod authorization;
mod inquiry;
mod posting;
mod reversal;
mod rules;

use cardswitch_engine::command::network::{
    MessageAmounts, NetworkCommand, NetworkRequest, PurchaseFacts,
};
use cardswitch_engine::command::reply::NetworkReply;
use cardswitch_engine::domain::card::{CardState, SuspensionReason};
use cardswitch_engine::domain::money::{CurrencyAmount, CurrencyCode};
use cardswitch_engine::domain::network_key::{DuplicateWindow, Fingerprint};
use cardswitch_engine::domain::response_code::SubReason;
use cardswitch_engine::domain::transaction::{TransactionFlags, TransactionKind, TransactionState};

use super::{Answer, DAY, MINUTE, Model, Purchase, Rate};

pub(crate) const AMOUNT_MAX: i64 = 10_000_000_000_000_000;

impl Model {
    pub(crate) fn network(&mut self, at: i64, request: &NetworkRequest) -> NetworkReply {
        if let Some(reply) = request.fingerprint.and_then(|print| self.said_before(&print)) {
            return reply;
        }
        let last_seq = self.last_seq;
        let reply = match &request.command {
            NetworkCommand::Authorize(command) => self.authorize(at, command),
            NetworkCommand::Increment(command) => self.increment(at, command),
            NetworkCommand::Advise(command) => self.advise(at, command),
            NetworkCommand::Reverse(command) => NetworkReply::Reversal(self.reverse(at, command)),
            NetworkCommand::Present(command) => self.present(at, command),
            NetworkCommand::Refund(command) => self.refund(at, command),
            NetworkCommand::InquireBalance(command) => self.inquire(at, command),
            NetworkCommand::Transfer(command) => self.transfer(at, command),
            NetworkCommand::ConcludeTransfer(command) => self.conclude_transfer(command),
        };
        let is_understood = !matches!(reply, NetworkReply::FormatError(_));
        if let Some(fingerprint) = request.fingerprint.filter(|_| is_understood) {
            let lives = match fingerprint.window {
                DuplicateWindow::Day => DAY,
                DuplicateWindow::RepeatsOnly { .. } => 10 * MINUTE,
            };
            let reply = reply.clone();
            self.answers.push(Answer { fingerprint, expires_at: at + lives, reply });
        }
        if let NetworkCommand::Advise(command) = &request.command
            && self.last_seq > last_seq
        {
            self.answer_request_of(at, command, &reply);
        }
        reply
    }

    /// The first reply to a message that was sent before, or that it is not the same.
    pub fn said_before(&self, asked: &Fingerprint) -> Option<NetworkReply> {
        let newest_first = || self.answers.iter().rev();
        let same_key = newest_first().find(|answer| answer.fingerprint.key == asked.key);
        if asked.window != (DuplicateWindow::RepeatsOnly { is_repeat: false })
            && let Some(answer) = same_key
        {
            let is_same = answer.fingerprint.content == asked.content;
            return Some(if is_same { answer.reply.clone() } else { NetworkReply::Conflict });
        }
        asked.trace?;
        let same_trace = newest_first().find(|answer| answer.fingerprint.trace == asked.trace)?;
        (same_trace.fingerprint.content != asked.content).then_some(NetworkReply::Conflict)
    }

    fn currency(&self, card: usize) -> CurrencyCode {
        CurrencyCode(self.companies[self.cards[card].company].currency)
    }

    fn amounts(
        &self,
        card: usize,
        amounts: &MessageAmounts,
    ) -> Result<(i64, Option<CurrencyAmount>), NetworkReply> {
        let own = self.currency(card);
        let asked = amounts.currency.unwrap_or(own);
        if asked == own {
            let is_other = |it: CurrencyAmount| it.currency != own || it.amount != amounts.amount;
            return match amounts.billing.is_some_and(is_other) {
                true => Err(NetworkReply::FormatError(SubReason::BillingConflict)),
                false => Ok((amounts.amount.0, None)),
            };
        }
        match amounts.billing {
            // Both are nothing, or none is.
            Some(billing)
                if billing.currency == own && (billing.amount.0 != 0) == (amounts.amount.0 > 0) =>
            {
                let foreign = CurrencyAmount { amount: amounts.amount, currency: asked };
                Ok((billing.amount.0, Some(foreign)))
            }
            _ => Err(NetworkReply::FormatError(SubReason::BillingAmountMissing)),
        }
    }

    fn can_post(amount: i64) -> bool {
        (0..=AMOUNT_MAX).contains(&amount)
    }

    fn new_purchase(
        &self,
        at: i64,
        card: usize,
        facts: &PurchaseFacts,
        (kind, requested, foreign): (TransactionKind, i64, Option<CurrencyAmount>),
    ) -> Purchase {
        let mcc = facts.merchant.mcc.map(|mcc| mcc.0);
        Purchase {
            seq: self.last_seq + 1,
            at,
            card,
            member: self.cards[card].holder,
            merchant: facts.merchant.name.to_string(),
            kind,
            state: TransactionState::Declined,
            held: Vec::new(),
            cleared: Vec::new(),
            given_back: Vec::new(),
            requested,
            foreign,
            hold_rate: Rate::of(foreign, requested),
            posted: 0,
            refunded: 0,
            presented: Vec::new(),
            later: Vec::new(),
            is_final: false,
            is_posted_only: false,
            expires_at: at + self.hold_lifetime(card, mcc),
            flags: TransactionFlags::default(),
            original_key: facts.trace.original_key,
            retrieval_key: facts.trace.retrieval_key,
            mcc,
            refund_of: None,
        }
    }

    /// The lifetime of a hold, by the company's table: the category, its group, all others.
    fn hold_lifetime(&self, card: usize, mcc: Option<u16>) -> i64 {
        let table = &self.companies[self.cards[card].company].hold_table;
        let days_of = |merchants| {
            let term = table.terms().iter().find(|term| term.merchants == merchants);
            term.map(|term| term.days)
        };
        let group = match mcc {
            Some(3351..=3500 | 7512 | 7513 | 7519) => Some(2),
            Some(3501..=3999 | 7011 | 7012 | 7032 | 7033) => Some(3),
            _ => None,
        };
        let usual = if group.is_some() { 30 } else { table.others().unwrap_or(7) };
        let days = mcc.and_then(days_of).or_else(|| days_of(group?)).unwrap_or(usual);
        i64::from(days) * DAY
    }

    fn use_up(&mut self, purchase: &mut Purchase) {
        let card = &mut self.cards[purchase.card];
        if card.terms.single_use && card.state == CardState::Active {
            (card.state, card.reason) = (CardState::Suspended, SuspensionReason::SingleUse);
            purchase.flags.insert(TransactionFlags::CONSUMED_SINGLE_USE);
        }
    }
}
