//! Bank transfers: money that comes from the company's bank, or goes there.
//!
//! | | books | balances |
//! |---|---|---|
//! | deposit in transit | bank to transit in | pending credits |
//! | it settles | transit in to funds | ledger, a line |
//! | withdrawal in transit | funds to transit out | debits in transit, so available |
//! | it settles | transit out to bank | ledger, a line |
//! | back out of transit | the first step undone | |
//! | back after settling | between funds and bank, the other way | ledger, a compensating line |

use super::account_money::AccountMoney;
use super::open_transaction::OpenTransaction;
use super::shard_change::ShardChange;
use crate::command::effect::Effect;
use crate::command::network::{ConcludeTransfer, Transfer, TransferConclusion, TransferTiming};
use crate::command::reply::{NetworkReply, TransferOutcome, TransferReply};
use crate::command::{NewTransaction, bank_record};
use crate::decision::{Rule, RuleSet};
use crate::domain::account::AccountBalances;
use crate::domain::ids::TransactionId;
use crate::domain::money::{CurrencyCode, Minor};
use crate::domain::posting::Book;
use crate::domain::response_code::ResponseCode;
use crate::domain::transaction::{
    TransactionFlags, TransactionKind, TransactionProgress, TransactionState, TransferDirection,
};

pub(super) fn execute_transfer(change: &mut ShardChange<'_>, command: &Transfer) -> NetworkReply {
    let Some(&account) = change.state.account_by_id.get(&command.account) else {
        return NetworkReply::Transfer(nothing_done(TransferOutcome::NotFound));
    };
    let seq = change.state.last_transaction.next();
    let mut money = AccountMoney::open(change, account, seq);
    if !money.can_transfer(command.amount) {
        return NetworkReply::Transfer(nothing_done(TransferOutcome::OutOfBounds));
    }
    let failed = judge(command, &money);
    let mut progress = TransactionProgress::empty(TransactionState::Declined);
    let mut outcome = TransferOutcome::Declined;
    if failed.is_empty() {
        money.send(change, command.direction, command.amount);
        progress.state = TransactionState::Pending;
        outcome = TransferOutcome::InTransit;
        if command.timing == TransferTiming::AtOnce {
            money.settle(change, command.direction, command.amount, &mut progress);
            let description = command.bank_account.description.to_string();
            let amount = signed(command.direction, command.amount);
            money.write_line(change, amount, None, description);
            outcome = TransferOutcome::Settled;
        }
    }
    let kind = match command.direction {
        TransferDirection::Deposit => TransactionKind::BankTransfer,
        TransferDirection::Withdrawal => TransactionKind::BankWithdrawal,
    };
    let place = (seq, change.state.account(account).company, account);
    let bank_account = command.bank_account.clone();
    let record = bank_record(change.moment, place, (kind, command.amount), bank_account, failed);
    let reply = money.reply(outcome, record.id, failed.response_code());
    let made = NewTransaction { balances: money.changed(), ..NewTransaction::of(record, progress) };
    change.push(Effect::Transaction(Box::new(made)));
    NetworkReply::Transfer(reply)
}

/// A withdrawal needs its money; credit does not count. A deposit is welcome.
fn judge(command: &Transfer, money: &AccountMoney<'_>) -> RuleSet {
    let mut failed = RuleSet::EMPTY;
    let is_over = command.direction == TransferDirection::Withdrawal
        && command.amount > money.balances.available_balance();
    failed.insert_if(Rule::AvailableCredit, is_over);
    failed
}

pub(super) fn execute_conclude_transfer(
    change: &mut ShardChange<'_>,
    command: &ConcludeTransfer,
) -> NetworkReply {
    let seq = change.moment.ids.open_transaction_id(command.transaction);
    // A refused transfer is told from one that never was.
    let found = seq.and_then(|seq| Some((seq, change.state.transactions.get(seq)?)));
    let Some((seq, open, direction)) =
        found.and_then(|(seq, open)| Some((seq, open, open.kind.transfer_direction()?)))
    else {
        return NetworkReply::Transfer(nothing_done(TransferOutcome::NotFound));
    };
    let mut money = AccountMoney::open(change, open.account, seq);
    // What leaves transit has room there: only the ledger may have none.
    if !money.can_move(open.requested) {
        return NetworkReply::Transfer(nothing_done(TransferOutcome::OutOfBounds));
    }
    let mut progress = open.progress.clone();
    let outcome = match command.conclusion {
        TransferConclusion::Settle => settle(change, open, direction, &mut money, &mut progress),
        TransferConclusion::Return => {
            bring_back(change, open, direction, &mut money, &mut progress)
        }
    };
    let id = change.moment.ids.transaction_id(open.authorized_at, seq);
    let reply = money.reply(outcome, id, open.response_code());
    if progress != open.progress {
        change.push(Effect::TransactionProgress(seq, Box::new(progress)));
    }
    money.close(change);
    NetworkReply::Transfer(reply)
}

/// Settles a transfer in transit; a settled one stays as it is.
fn settle(
    change: &mut ShardChange<'_>,
    open: &OpenTransaction,
    direction: TransferDirection,
    money: &mut AccountMoney<'_>,
    progress: &mut TransactionProgress,
) -> TransferOutcome {
    match progress.state {
        TransactionState::Pending => {
            money.settle(change, direction, open.requested, progress);
            let amount = signed(direction, open.requested);
            money.write_line(change, amount, None, open.merchant_name.to_string());
            TransferOutcome::Settled
        }
        TransactionState::Completed => TransferOutcome::Settled,
        TransactionState::Declined | TransactionState::Canceled => TransferOutcome::WrongState,
    }
}

/// Brings a transfer back: one in transit as if it had not gone, a settled one by a line against
/// it.
fn bring_back(
    change: &mut ShardChange<'_>,
    open: &OpenTransaction,
    direction: TransferDirection,
    money: &mut AccountMoney<'_>,
    progress: &mut TransactionProgress,
) -> TransferOutcome {
    match progress.state {
        TransactionState::Pending => money.recall(change, direction, open.requested),
        TransactionState::Completed => {
            money.compensate(change, direction, open.requested, progress);
            let amount = -signed(direction, open.requested);
            money.write_line(change, amount, None, open.merchant_name.to_string());
        }
        TransactionState::Canceled => return TransferOutcome::Returned,
        TransactionState::Declined => return TransferOutcome::WrongState,
    }
    progress.state = TransactionState::Canceled;
    progress.flags.insert(TransactionFlags::RETURNED);
    TransferOutcome::Returned
}

/// The amount that a transfer adds to the ledger.
fn signed(direction: TransferDirection, amount: Minor) -> Minor {
    match direction {
        TransferDirection::Deposit => amount,
        TransferDirection::Withdrawal => -amount,
    }
}

fn nothing_done(outcome: TransferOutcome) -> TransferReply {
    TransferReply {
        outcome,
        transaction: None,
        response_code: ResponseCode::Declined,
        available_balance: Minor::ZERO,
        currency: CurrencyCode::default(),
    }
}

impl AccountMoney<'_> {
    /// Whether a transfer of so much keeps every balance in bounds, in either direction.
    fn can_transfer(&self, amount: Minor) -> bool {
        let AccountBalances { debits_in_transit, credits_in_transit, .. } = self.balances;
        amount.is_positive()
            && self.can_move(amount)
            && (debits_in_transit + amount).is_within_balance_bounds()
            && (credits_in_transit + amount).is_within_balance_bounds()
    }

    /// Puts money into transit.
    fn send(&mut self, change: &mut ShardChange<'_>, direction: TransferDirection, amount: Minor) {
        match direction {
            TransferDirection::Deposit => {
                self.balances.credits_in_transit += amount;
                self.post(change, Book::Bank, Book::TransitIn, amount);
            }
            TransferDirection::Withdrawal => {
                self.balances.debits_in_transit += amount;
                self.post(change, Book::Funds, Book::TransitOut, amount);
            }
        }
    }

    /// Takes money out of transit to where it came from.
    fn recall(
        &mut self,
        change: &mut ShardChange<'_>,
        direction: TransferDirection,
        amount: Minor,
    ) {
        let origin = match direction {
            TransferDirection::Deposit => Book::Bank,
            TransferDirection::Withdrawal => Book::Funds,
        };
        self.leave_transit(change, direction, amount, origin);
    }

    fn leave_transit(
        &mut self,
        change: &mut ShardChange<'_>,
        direction: TransferDirection,
        amount: Minor,
        to: Book,
    ) {
        let (sum, book) = match direction {
            TransferDirection::Deposit => (&mut self.balances.credits_in_transit, Book::TransitIn),
            TransferDirection::Withdrawal => {
                (&mut self.balances.debits_in_transit, Book::TransitOut)
            }
        };
        *sum -= amount;
        assert!(*sum >= Minor::ZERO, "no more leaves transit than was sent");
        self.post(change, book, to, amount);
    }

    /// Takes money out of transit to where it goes.
    fn settle(
        &mut self,
        change: &mut ShardChange<'_>,
        direction: TransferDirection,
        amount: Minor,
        progress: &mut TransactionProgress,
    ) {
        let goal = match direction {
            TransferDirection::Deposit => Book::Funds,
            TransferDirection::Withdrawal => Book::Bank,
        };
        self.leave_transit(change, direction, amount, goal);
        self.balances.ledger += signed(direction, amount);
        progress.posted -= signed(direction, amount);
        progress.state = TransactionState::Completed;
        progress.is_final = true;
        progress.posted_at = Some(self.moment.at);
    }

    /// Moves settled money the other way.
    fn compensate(
        &mut self,
        change: &mut ShardChange<'_>,
        direction: TransferDirection,
        amount: Minor,
        progress: &mut TransactionProgress,
    ) {
        match direction {
            TransferDirection::Deposit => self.post(change, Book::Funds, Book::Bank, amount),
            TransferDirection::Withdrawal => self.post(change, Book::Bank, Book::Funds, amount),
        }
        self.balances.ledger -= signed(direction, amount);
        progress.posted += signed(direction, amount);
    }

    fn reply(
        &self,
        outcome: TransferOutcome,
        id: TransactionId,
        response_code: ResponseCode,
    ) -> TransferReply {
        TransferReply {
            outcome,
            transaction: Some(id),
            response_code,
            available_balance: self.balances.available_balance(),
            currency: self.currency(),
        }
    }
}
