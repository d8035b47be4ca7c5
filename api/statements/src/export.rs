//! Reads the lines of a statement from the first to the last, a page at a time.
//!
//! Each page has a view of the tables of its own, gone before the page is written: an export may
//! take as long as its reader likes and keeps nothing in the tables alive.

use cardswitch_edge::error::ApiError;
use cardswitch_edge::switch::Switch;
use cardswitch_engine::directory::member::Member;
use cardswitch_engine::domain::account::Account;
use cardswitch_engine::domain::business_date::BusinessDate;
use cardswitch_engine::domain::card::CardProfile;
use cardswitch_engine::domain::company::Company;
use cardswitch_engine::domain::ids::{AccountId, AccountSlot, Timestamp};
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::domain::posting::StatementLine;
use cardswitch_engine::domain::transaction::{TransactionKind, TransferDirection};
use cardswitch_engine::store::query::{LineFilter, LineSpan, TransactionRow};
use cardswitch_engine::store::{Snapshot, StoreError};

use super::dates::Period;

/// How many lines one look at the tables reads: a few milliseconds of a thread that others share.
const PAGE_LINES: usize = 250;
/// How many where only their amounts are wanted.
const SUM_LINES: usize = 1_000;

/// An account's lines over some days, and what stands above them.
#[derive(Clone, Debug)]
pub struct Export {
    /// The company of the account.
    pub company: Company,
    /// The account.
    pub account: Account,
    /// The amount that may be spent from it now, without credit.
    pub available_balance: Minor,
    /// The days.
    pub period: Period,
    /// The moment the statement was asked for.
    pub drawn_at: Timestamp,
    /// The ledger balance before the first line.
    pub opening: Minor,
    /// The ledger balance behind what was read.
    pub balance: Minor,
    switch: Switch,
    span: LineSpan,
}

/// A line and the ledger balance behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The line.
    pub line: StatementLine,
    /// The balance.
    pub balance: Minor,
}

/// The objects that a line refers to.
#[derive(Clone, Debug)]
pub(super) struct Background {
    /// The transaction of the line.
    pub origin: TransactionRow,
    /// The card behind it.
    pub card: Option<CardProfile>,
    /// The member behind it.
    pub member: Option<Member>,
}

/// The facts of an account that are read before its lines.
struct AccountFacts {
    account: Account,
    available_balance: Minor,
    /// All its money, after all its lines.
    ledger: Minor,
    line_count: u64,
    span: LineSpan,
}

impl Export {
    /// The lines of a company's account over these days, none where there is no such account.
    /// Errors: the tables cannot be read.
    /// Cost: reads the lines before the first or from the first on, whichever are fewer.
    pub async fn prepare(
        switch: &Switch,
        company: &Company,
        account: AccountId,
        period: Period,
    ) -> Result<Option<Self>, ApiError> {
        let filter =
            LineFilter { from: Some(period.start), to: Some(period.end), ..LineFilter::default() };
        let facts = switch.read(|snapshot| {
            let row = snapshot.account_by_id(company.slot, account)?;
            let Some(row) = row else { return Ok(None) };
            let span = snapshot.line_span(row.account.slot, &filter)?;
            Ok(Some(AccountFacts {
                available_balance: row.balances.available_balance(),
                ledger: row.balances.ledger,
                line_count: row.balances.line_count,
                account: row.account,
                span,
            }))
        });
        let Some(facts) = facts.await? else { return Ok(None) };
        let opening = balance_before(switch, &facts).await?;
        Ok(Some(Self {
            company: company.clone(),
            account: facts.account,
            available_balance: facts.available_balance,
            period,
            drawn_at: switch.engine.now(),
            opening,
            balance: opening,
            switch: switch.clone(),
            span: facts.span,
        }))
    }

    /// How many lines are left to read.
    pub fn lines_left(&self) -> u64 {
        let numbers = self.span.numbers();
        numbers.end.saturating_sub(numbers.start)
    }

    /// Reads the next lines and hands them over with the view they were read in; none at the end.
    pub fn next_page<T, E: From<StoreError>>(
        &mut self,
        take: impl FnOnce(&Snapshot, &[Entry]) -> Result<T, E>,
    ) -> Result<Option<T>, E> {
        if self.lines_left() == 0 {
            return Ok(None);
        }
        // Lines that one read has shown, every later one shows.
        let snapshot = self.switch.engine.store.read()?;
        let lines = snapshot.next_lines(&mut self.span, PAGE_LINES)?;
        let mut entries = Vec::with_capacity(lines.len());
        for line in lines {
            self.balance += line.amount;
            entries.push(Entry { line, balance: self.balance });
        }
        take(&snapshot, &entries).map(Some)
    }

    /// The last day that the closing balance speaks of: today where the period is not over.
    pub fn closed_on(&self, today: BusinessDate) -> BusinessDate {
        self.period.end.min(today).max(self.period.start)
    }
}

impl Background {
    /// Reads what a line refers to.
    /// Errors: the tables cannot be read, or lack the line's transaction.
    pub(super) fn read(snapshot: &Snapshot, line: &StatementLine) -> Result<Self, StoreError> {
        let origin = snapshot.transaction(line.transaction)?.ok_or_else(|| {
            let what = format!("statement line {} comes from no transaction", line.seq.0);
            StoreError::Inconsistent { what }
        })?;
        let card = match line.card {
            Some(slot) => snapshot.card(slot)?.map(|card| card.profile),
            None => None,
        };
        let member = match line.member {
            Some(slot) => snapshot.row::<Member>(slot)?,
            None => None,
        };
        Ok(Self { origin, card, member })
    }
}

/// The default name of a line.
pub const fn movement(kind: TransactionKind, amount: Minor) -> &'static str {
    match (kind.transfer_direction(), amount.0 < 0) {
        (Some(TransferDirection::Deposit), false) => "Deposit",
        (Some(TransferDirection::Deposit), true) => "Deposit returned",
        (Some(TransferDirection::Withdrawal), true) => "Withdrawal",
        (Some(TransferDirection::Withdrawal), false) => "Withdrawal returned",
        (None, true) => "Purchase",
        (None, false) => "Refund",
    }
}

/// The ledger balance before the first line of the span.
async fn balance_before(switch: &Switch, facts: &AccountFacts) -> Result<Minor, ApiError> {
    let (first, end) = (facts.span.numbers().start, facts.line_count + 1);
    let account = facts.account.slot;
    if first - 1 <= end.saturating_sub(first) {
        sum_of(switch, account, 1..first).await
    } else {
        Ok(facts.ledger - sum_of(switch, account, first..end).await?)
    }
}

async fn sum_of(
    switch: &Switch,
    account: AccountSlot,
    numbers: std::ops::Range<u64>,
) -> Result<Minor, ApiError> {
    let mut span = LineSpan::new(account, numbers);
    let mut sum = Minor::ZERO;
    loop {
        let lines = switch.read_at_once(|snapshot| snapshot.next_lines(&mut span, SUM_LINES))?;
        if lines.is_empty() {
            return Ok(sum);
        }
        sum += lines.iter().map(|line| line.amount).sum();
        // Others want this thread too.
        tokio::task::yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_without_a_name_are_called_by_what_moved() {
        let rows = [
            (TransactionKind::BankTransfer, 1, "Deposit"),
            (TransactionKind::BankTransfer, -1, "Deposit returned"),
            (TransactionKind::BankWithdrawal, -1, "Withdrawal"),
            (TransactionKind::BankWithdrawal, 1, "Withdrawal returned"),
            (TransactionKind::Purchase, -1, "Purchase"),
            (TransactionKind::Refund, 1, "Refund"),
        ];
        for (kind, amount, expected) in rows {
            assert_eq!(movement(kind, Minor(amount)), expected, "{kind:?} {amount}");
        }
    }
}
