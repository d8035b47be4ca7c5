//! One card's usage and its account's balances while a command changes them.
//!
//! Every step moves the allowance, the day's room, the account and the books together, so that
//! they cannot part; `close` reports the after-images.

use super::account_money::{AccountMoney, CardOfLine};
use super::open_transaction::NamedOnLines;
use super::shard_change::ShardChange;
use super::state::ShardState;
use crate::command::NewTransaction;
use crate::command::effect::Effect;
use crate::domain::allowance::{AllowanceTerms, CardUsage};
use crate::domain::card::SuspensionReason;
use crate::domain::hold::HoldParts;
use crate::domain::ids::{CardSlot, MemberSlot, Timestamp, TransactionSeq};
use crate::domain::merchant::{Mcc, Merchant};
use crate::domain::money::Minor;
use crate::domain::posting::Book;
use crate::domain::transaction::{TransactionFlags, TransactionProgress, TransactionRecord};

/// The purse of one card: its usage, and the account behind it.
pub(super) struct CardMoney<'a> {
    pub(super) slot: CardSlot,
    pub(super) usage: CardUsage,
    pub(super) account: AccountMoney<'a>,
}

impl<'a> CardMoney<'a> {
    /// Opens the purse for changes on behalf of one transaction, as it stands at this moment.
    pub(super) fn open(
        change: &ShardChange<'a>,
        slot: CardSlot,
        transaction: TransactionSeq,
    ) -> Self {
        let record = change.state.card(slot);
        let account = AccountMoney::open(change, record.account, transaction);
        let period_start = account.day.period_start(record.terms.interval);
        let usage = record.usage.rolled_to(period_start, account.day.date);
        Self { slot, usage, account }
    }

    const fn state(&self) -> &'a ShardState {
        self.account.state
    }

    pub(super) fn terms(&self) -> &'a AllowanceTerms {
        &self.state().card(self.slot).terms
    }

    pub(super) fn allowance_balance(&self) -> Minor {
        self.usage.allowance_balance(self.terms())
    }

    /// Whether posting so much in either direction keeps every balance in bounds.
    pub(super) fn can_post(&self, amount: Minor) -> bool {
        self.account.can_move(amount) && self.usage.can_take(amount)
    }

    /// Whether holding so much more, or less, keeps what the account holds in bounds.
    pub(super) fn can_hold(&self, amount: Minor) -> bool {
        (self.account.balances.held + amount).is_within_balance_bounds()
    }

    /// The end of a hold that is taken now at a merchant of this category.
    pub(super) fn hold_end(&self, change: &ShardChange<'_>, mcc: Option<Mcc>) -> Timestamp {
        let company = self.state().company(self.state().cards.head(self.slot).company);
        change.moment.at.plus(company.hold_table.lifetime(mcc))
    }

    /// Takes a hold on allowance, day and account in one step. The row of a new transaction says
    /// its hold; an addition to an older one is posted.
    pub(super) fn hold(
        &mut self,
        change: &mut ShardChange<'_>,
        amount: Minor,
        progress: &mut TransactionProgress,
    ) {
        self.usage.take(amount);
        progress.held.push(amount, &self.usage);
        self.account.balances.held += amount;
        if self.account.transaction <= self.state().last_transaction {
            self.account.post(change, Book::Funds, Book::Holds, amount);
        }
    }

    /// Gives back the newest part of a hold.
    pub(super) fn release(
        &mut self,
        change: &mut ShardChange<'_>,
        amount: Minor,
        progress: &mut TransactionProgress,
    ) {
        self.release_parts(change, (amount, &HoldParts::new()), progress);
    }

    /// Gives back an amount of a hold that was taken in these parts; what no part says is the newest.
    pub(super) fn release_parts(
        &mut self,
        change: &mut ShardChange<'_>,
        (amount, parts): (Minor, &HoldParts),
        progress: &mut TransactionProgress,
    ) {
        let (before, usage) = (self.usage, &mut self.usage);
        progress.held.take_alike(amount, parts, &before, |piece| {
            usage.give_back(piece.amount, piece.period, piece.day);
        });
        self.account.balances.held -= amount;
        assert!(self.account.balances.held >= Minor::ZERO, "an account holds nothing below zero");
        self.account.post(change, Book::Holds, Book::Funds, amount);
    }

    /// Settles an amount: first from the open hold, the rest from today's budget. Returns the parts taken.
    pub(super) fn clear(
        &mut self,
        change: &mut ShardChange<'_>,
        amount: Minor,
        progress: &mut TransactionProgress,
    ) -> HoldParts {
        let from_hold = amount.min(progress.held.total());
        let (TransactionProgress { held, cleared, .. }, usage) = (&mut *progress, &self.usage);
        let mut taken = HoldParts::new();
        held.take_oldest(from_hold, |piece| {
            cleared.add(piece, usage);
            taken.add(piece, usage);
        });
        self.account.balances.held -= from_hold;
        self.account.post(change, Book::Holds, Book::NetworkSettlement, from_hold);

        let beyond = amount - from_hold;
        self.usage.take(beyond);
        cleared.push(beyond, &self.usage);
        taken.push(beyond, &self.usage);
        self.account.post(change, Book::Funds, Book::NetworkSettlement, beyond);

        self.account.balances.ledger -= amount;
        progress.posted += amount;
        taken
    }

    /// Takes back an amount that was settled in these parts: the compensating side of `clear`.
    pub(super) fn compensate(
        &mut self,
        change: &mut ShardChange<'_>,
        (amount, parts): (Minor, &HoldParts),
        progress: &mut TransactionProgress,
    ) {
        self.give_room_back((amount, parts), progress);
        progress.posted -= amount;
        self.credit(change, amount);
    }

    /// Brings money from the network into the account.
    pub(super) fn credit(&mut self, change: &mut ShardChange<'_>, amount: Minor) {
        self.account.balances.ledger += amount;
        self.account.post(change, Book::NetworkSettlement, Book::Funds, amount);
    }

    /// Takes money that the network gave out of the account again.
    pub(super) fn debit(&mut self, change: &mut ShardChange<'_>, amount: Minor) {
        self.account.balances.ledger -= amount;
        self.account.post(change, Book::Funds, Book::NetworkSettlement, amount);
    }

    /// Gives back the room of what is posted and refunded, in whichever order the two came. Returns the
    /// parts given.
    pub(super) fn give_refunded_room(&mut self, purchase: &mut TransactionProgress) -> HoldParts {
        let room = purchase.cleared.total() - purchase.unrefunded();
        self.give_room_back((room, &HoldParts::new()), purchase)
    }

    /// Takes back the room of what is posted and no longer refunded: first the oldest part that the refund
    /// gave. Room that a later presentment gave instead is taken in the present period.
    pub(super) fn take_room_again(
        &mut self,
        refund: &mut TransactionProgress,
        purchase: &mut TransactionProgress,
    ) {
        let missing = purchase.unrefunded() - purchase.cleared.total();
        let (usage, given) = (&mut self.usage, &mut refund.cleared);
        let from_refund = missing.min(given.total());
        given.take_oldest(from_refund, |piece| {
            usage.take_again(piece.amount, piece.period, piece.day);
            purchase.cleared.add(piece, usage);
        });
        let rest = missing - from_refund;
        usage.take(rest);
        purchase.cleared.push(rest, usage);
    }

    /// Gives budget back for what was settled in these parts, else newest first, as far as there is any. Returns
    /// the parts given.
    fn give_room_back(
        &mut self,
        (amount, parts): (Minor, &HoldParts),
        progress: &mut TransactionProgress,
    ) -> HoldParts {
        let (before, usage, mut given) = (self.usage, &mut self.usage, HoldParts::new());
        let amount = amount.min(progress.cleared.total());
        progress.cleared.take_alike(amount, parts, &before, |piece| {
            usage.give_back(piece.amount, piece.period, piece.day);
            given.add(piece, usage);
        });
        given
    }

    /// The present holder of the card.
    pub(super) fn holder(&self) -> Option<MemberSlot> {
        self.state().cards.head(self.slot).assigned_to()
    }

    /// Writes the statement line of what was just settled or given back, in the name of the
    /// transaction's `member`: the card may have passed to another since.
    pub(super) fn write_line(
        &mut self,
        change: &mut ShardChange<'_>,
        amount: Minor,
        merchant_name: &str,
        member: Option<MemberSlot>,
    ) {
        self.write_line_of(change, amount, (merchant_name, member), None);
    }

    /// The same of a presentment, with its merchant where that is another one than the transaction's.
    pub(super) fn write_line_of(
        &mut self,
        change: &mut ShardChange<'_>,
        amount: Minor,
        (merchant_name, member): NamedOnLines<'_>,
        merchant: Option<&Merchant>,
    ) {
        let description = self.describe(merchant_name, member);
        let merchant = merchant.cloned().map(Box::new);
        let of_card = CardOfLine { card: Some(self.slot), member, merchant };
        self.account.write_line(change, amount, Some(of_card), description);
    }

    /// Names merchant, card and member. Source: spec "Statement line", description.
    fn describe(&self, merchant_name: &str, member: Option<MemberSlot>) -> String {
        let cards = &self.state().cards;
        let mut parts =
            vec![merchant_name.trim().to_owned(), cards.description(self.slot).to_owned()];
        if let Some(member) = member {
            let member = self.state().directory.members.get(member);
            parts.push(format!("{} {}", member.first_name, member.last_name));
        }
        parts.retain(|part| !part.is_empty());
        parts.join(" - ")
    }

    /// Suspends a single-use card by this purchase.
    pub(super) fn use_up_single_use(&mut self, progress: &mut TransactionProgress) {
        use crate::domain::card::CardState;
        if self.terms().single_use && self.usage.state == CardState::Active {
            self.usage.suspend(SuspensionReason::SingleUse);
            progress.flags.insert(TransactionFlags::CONSUMED_SINGLE_USE);
        }
    }

    /// Reports a new transaction, with the changed numbers of the purse.
    pub(super) fn make(
        self,
        change: &mut ShardChange<'_>,
        record: TransactionRecord,
        progress: TransactionProgress,
    ) {
        let (usage, balances) = (self.changed_usage(), self.account.changed());
        let made = NewTransaction { record, progress, answer: None, usage, balances };
        change.push(Effect::Transaction(Box::new(made)));
    }

    /// Reports the changed numbers of the purse.
    pub(super) fn close(self, change: &mut ShardChange<'_>) {
        let usage = self.changed_usage();
        change.effects.extend(usage.map(|usage| Effect::CardUsage(self.slot, usage)));
        self.account.close(change);
    }

    fn changed_usage(&self) -> Option<CardUsage> {
        let is_changed = self.usage != self.state().card(self.slot).usage;
        is_changed.then_some(self.usage)
    }
}
