//! A transaction at its creation: its row, the reply to its message, its movements. The shard
//! decides it once; records, replay and projection take it unchanged.
//!
//! | bytes | content |
//! |---|---|
//! | 1 | parts behind the row: 1 usage, 2 balances |
//! | 4 | length of the row |
//! | n | the row with its reply, layout in `packed` |
//! | 0 or 32 | the card's usage |
//! | 0 or 40 | the account's balances |
//!
//! INVARIANT: the amount held by a new transaction was moved from funds to holds, so the posting
//! follows from the row and is never written beside it.

use super::Moment;
use crate::codec::CodecError;
use crate::decision::RuleSet;
use crate::domain::account::AccountBalances;
use crate::domain::allowance::CardUsage;
use crate::domain::ids::{AccountSlot, CompanySlot, TransactionSeq};
use crate::domain::money::Minor;
use crate::domain::network_key::NetworkTrace;
use crate::domain::posting::{Book, Posting};
use crate::domain::transaction::{
    BankAccount, TransactionKind, TransactionProgress, TransactionRecord,
};
use crate::packed::{
    BALANCES_BYTES, RowAnswer, TransactionView, USAGE_BYTES, append_row, pack_balances, pack_usage,
    parse_balances, parse_usage,
};

const USAGE: u8 = 1;
const BALANCES: u8 = 1 << 1;
const KNOWN: u8 = USAGE | BALANCES;

/// The bytes before the row: the flags of present parts, the row's length.
const HEAD_BYTES: usize = 5;

/// The record of a transfer between an account and the company's bank, by the rules that it failed.
pub(crate) fn bank_record(
    moment: &Moment<'_>,
    (seq, company, account): (TransactionSeq, CompanySlot, AccountSlot),
    (kind, requested): (TransactionKind, Minor),
    bank_account: BankAccount,
    failed: RuleSet,
) -> TransactionRecord {
    TransactionRecord {
        seq,
        id: moment.ids.transaction_id(moment.at, seq),
        kind,
        company,
        account,
        card: None,
        member: None,
        requested,
        foreign: None,
        merchant: None,
        bank_account: Some(bank_account),
        trace: NetworkTrace::default(),
        response_code: failed.response_code(),
        sub_reason: failed.sub_reason(),
        failed_rules: failed,
        facts: None,
        refund_of: None,
        authorized_at: moment.at,
        dimensions: [None; 4],
    }
}

/// See the head of this file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTransaction {
    /// The part that never changes.
    pub record: TransactionRecord,
    /// Its progress.
    pub progress: TransactionProgress,
    /// The reply to its message, if it follows from the row.
    pub answer: Option<RowAnswer>,
    /// The usage of its card afterwards, if it changed.
    pub usage: Option<CardUsage>,
    /// The balances of its account afterwards, if they changed.
    pub balances: Option<AccountBalances>,
}

impl NewTransaction {
    /// A transaction that moves nothing, and whose reply does not follow from its row.
    pub const fn of(record: TransactionRecord, progress: TransactionProgress) -> Self {
        Self { record, progress, answer: None, usage: None, balances: None }
    }

    /// The posting of the held amount; none without one.
    pub fn posting(&self) -> Option<Posting> {
        posting_of((self.record.account, self.record.seq), &self.progress)
    }

    /// Appends its packed form. Cost: no allocation beyond the vector's own.
    pub(super) fn append(&self, bytes: &mut Vec<u8>) {
        let present = (USAGE * u8::from(self.usage.is_some()))
            | (BALANCES * u8::from(self.balances.is_some()));
        bytes.extend_from_slice(&[present, 0, 0, 0, 0]);
        let row_at = bytes.len();
        append_row(bytes, &self.record, &self.progress, self.answer.as_ref());
        // A row beyond 4 GiB is far beyond the limit of a record, which the caller checks.
        let row_len = u32::try_from(bytes.len() - row_at).unwrap_or(u32::MAX);
        bytes[row_at - 4..row_at].copy_from_slice(&row_len.to_le_bytes());
        if let Some(usage) = &self.usage {
            bytes.extend_from_slice(&pack_usage(usage));
        }
        if let Some(balances) = &self.balances {
            bytes.extend_from_slice(&pack_balances(balances));
        }
    }
}

/// The posting of a new hold, which has one part.
fn posting_of(
    (account, transaction): (AccountSlot, TransactionSeq),
    progress: &TransactionProgress,
) -> Option<Posting> {
    let [part] = progress.held.parts() else { return None };
    let (from, to) = (Book::Funds, Book::Holds);
    Some(Posting { account, transaction, from, to, amount: part.amount })
}

/// A view of a new transaction in place.
#[derive(Clone, Copy, Debug)]
pub struct NewTransactionView<'a> {
    /// The packed row, with the reply if its message got one.
    pub row: TransactionView<'a>,
    /// The usage of its card afterwards, if it changed.
    pub usage: Option<CardUsage>,
    /// The balances of its account afterwards, if they changed.
    pub balances: Option<AccountBalances>,
}

impl<'a> NewTransactionView<'a> {
    /// Takes a view from the front of `rest`.
    /// Errors: bytes that `append` did not write.
    pub(super) fn take(rest: &mut &'a [u8]) -> Result<Self, CodecError> {
        let [present, a, b, c, d] = *take_array::<HEAD_BYTES>(rest)?;
        if present & !KNOWN != 0 {
            return Err(malformed("unknown parts of a new transaction"));
        }
        let row_len = u32::from_le_bytes([a, b, c, d]) as usize;
        let (row, behind) = rest.split_at_checked(row_len).ok_or(CodecError::Cut)?;
        *rest = behind;
        let mut view = Self { row: TransactionView::parse(row)?, usage: None, balances: None };
        if present & USAGE != 0 {
            view.usage = Some(parse_usage(take_array::<USAGE_BYTES>(rest)?)?);
        }
        if present & BALANCES != 0 {
            view.balances = Some(parse_balances(take_array::<BALANCES_BYTES>(rest)?));
        }
        if view.usage.is_some() && view.row.card().is_none() {
            return Err(malformed("a usage without a card"));
        }
        Ok(view)
    }

    /// The posting of the held amount; none without one. Errors: a damaged row.
    pub fn posting(&self) -> Result<Option<Posting>, CodecError> {
        Ok(posting_of((self.row.account(), self.row.seq()), &self.row.to_progress()?))
    }

    /// Reads the transaction. Errors: a damaged row.
    pub fn to_transaction(&self) -> Result<NewTransaction, CodecError> {
        Ok(NewTransaction {
            record: self.row.to_record()?,
            progress: self.row.to_progress()?,
            answer: self.row.answer(),
            usage: self.usage,
            balances: self.balances,
        })
    }
}

fn take_array<'a, const N: usize>(rest: &mut &'a [u8]) -> Result<&'a [u8; N], CodecError> {
    let (taken, behind) = rest.split_first_chunk().ok_or(CodecError::Cut)?;
    *rest = behind;
    Ok(taken)
}

fn malformed(what: &str) -> CodecError {
    CodecError::Malformed { what: what.to_owned() }
}

#[cfg(test)]
#[path = "new_transaction_tests.rs"]
mod tests;
