//! An account's balances and books while a command changes them.
//!
//! A card's money (`card_money`) and a transfer's (`execute_transfer`) move through it.

use super::shard_change::ShardChange;
use super::state::ShardState;
use crate::command::Moment;
use crate::command::effect::Effect;
use crate::domain::account::AccountBalances;
use crate::domain::business_date::DayWindow;
use crate::domain::ids::{AccountSlot, CardSlot, LineSeq, MemberSlot, TransactionSeq};
use crate::domain::merchant::Merchant;
use crate::domain::money::{CurrencyCode, Minor};
use crate::domain::posting::{Book, Posting, StatementLine};

/// The balances of an account, on behalf of one transaction.
pub(super) struct AccountMoney<'a> {
    pub(super) state: &'a ShardState,
    pub(super) moment: &'a Moment<'a>,
    pub(super) slot: AccountSlot,
    pub(super) transaction: TransactionSeq,
    pub(super) balances: AccountBalances,
    /// The company's day at this moment.
    pub(super) day: DayWindow,
    lines: u64,
}

/// The card of a statement line, its member, and a merchant other than the transaction's.
#[derive(Default)]
pub(super) struct CardOfLine {
    pub(super) card: Option<CardSlot>,
    pub(super) member: Option<MemberSlot>,
    pub(super) merchant: Option<Box<Merchant>>,
}

impl<'a> AccountMoney<'a> {
    pub(super) fn open(
        change: &ShardChange<'a>,
        slot: AccountSlot,
        transaction: TransactionSeq,
    ) -> Self {
        let (state, moment) = (change.state, change.moment);
        let account = state.account(slot);
        let day = state.day_at(account.company, moment.at);
        Self { state, moment, slot, transaction, balances: account.balances, day, lines: 0 }
    }

    pub(super) fn currency(&self) -> CurrencyCode {
        self.state.account(self.slot).currency
    }

    pub(super) fn credit_limit(&self) -> Minor {
        self.state.account(self.slot).credit_limit
    }

    /// Whether moving so much in either direction keeps the ledger in bounds.
    pub(super) fn can_move(&self, amount: Minor) -> bool {
        amount.is_amount()
            && (self.balances.ledger - amount).is_within_balance_bounds()
            && (self.balances.ledger + amount).is_within_balance_bounds()
    }

    /// Moves money between books. Nothing is posted for nothing.
    pub(super) fn post(&self, change: &mut ShardChange<'_>, from: Book, to: Book, amount: Minor) {
        if amount.is_positive() {
            let (account, transaction) = (self.slot, self.transaction);
            change.push(Effect::Posting(Posting { account, transaction, from, to, amount }));
        }
    }

    /// Writes the statement line of what was just settled or came back, for a card where there is one.
    pub(super) fn write_line(
        &mut self,
        change: &mut ShardChange<'_>,
        amount: Minor,
        card: Option<CardOfLine>,
        description: String,
    ) {
        let CardOfLine { card, member, merchant } = card.unwrap_or_default();
        self.balances.line_count += 1;
        self.lines += 1;
        let seq = LineSeq(self.state.last_line.0 + self.lines);
        change.push(Effect::StatementLine(Box::new(StatementLine {
            seq,
            id: self.moment.ids.line_id(self.moment.at, seq),
            account: self.slot,
            number: self.balances.line_count,
            amount,
            transaction: self.transaction,
            card,
            member,
            description,
            merchant,
            posted_on: self.day.date,
            posted_at: self.moment.at,
        })));
    }

    /// The new balances, if they changed.
    pub(super) fn changed(&self) -> Option<AccountBalances> {
        let is_changed = self.balances != self.state.account(self.slot).balances;
        is_changed.then_some(self.balances)
    }

    /// Reports the new balances, if they changed.
    pub(super) fn close(&self, change: &mut ShardChange<'_>) {
        let changed = self.changed();
        change.effects.extend(changed.map(|new| Effect::AccountBalances(self.slot, new)));
    }
}
