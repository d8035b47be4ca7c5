//! The body of an authorization's record: the effects that nearly every command has, packed.
//!
//! What goes in is exactly `[Posting?, Transaction, CardUsage?, AccountBalances?, Answer?]` where
//! posting and answer are those that follow from the transaction; any other list of effects is
//! written as it is, by `record`. The layout stands there, too.
//!
//! INVARIANT: `to_effects` gives back what `of` was given, value for value.

use super::effect::{Effect, RememberedAnswer};
use crate::codec::CodecError;
use crate::domain::account::AccountBalances;
use crate::domain::allowance::CardUsage;
use crate::domain::ids::{AccountSlot, RecordSeq, Timestamp, TransactionSeq};
use crate::domain::posting::{Book, Posting};
use crate::domain::transaction::{TransactionProgress, TransactionRecord};
use crate::packed::{
    BALANCES_BYTES, RowAnswer, TransactionView, USAGE_BYTES, append_row, pack_balances, pack_usage,
    parse_balances, parse_usage,
};

const POSTING: u8 = 1;
const USAGE: u8 = 1 << 1;
const BALANCES: u8 = 1 << 2;
const KNOWN: u8 = POSTING | USAGE | BALANCES;

/// What comes before the row: sequence number, time, what is present, length of the row.
const HEAD_BYTES: usize = 21;
const ROW_LEN_AT: usize = 17;

/// The effects of an authorization, taken apart.
pub(super) struct Authorization<'a> {
    record: &'a TransactionRecord,
    progress: &'a TransactionProgress,
    answer: Option<RowAnswer>,
    usage: Option<&'a CardUsage>,
    balances: Option<&'a AccountBalances>,
    has_posting: bool,
}

impl<'a> Authorization<'a> {
    /// Takes the effects apart; none where they are any other list.
    pub(super) fn of(effects: &'a [Effect]) -> Option<Self> {
        let (posting, rest) = match effects {
            [Effect::Posting(posting), rest @ ..] => (Some(posting), rest),
            rest => (None, rest),
        };
        let [Effect::Transaction(record, progress), rest @ ..] = rest else { return None };
        let has_posting = posting.is_some();
        if has_posting && posting != posting_of(record.account, record.seq, progress).as_ref() {
            return None;
        }
        let (usage, rest) = match rest {
            [Effect::CardUsage(slot, usage), rest @ ..] if record.card == Some(*slot) => {
                (Some(usage), rest)
            }
            rest => (None, rest),
        };
        let (balances, rest) = match rest {
            [Effect::AccountBalances(slot, balances), rest @ ..] if record.account == *slot => {
                (Some(balances), rest)
            }
            rest => (None, rest),
        };
        let answer = match rest {
            [] => None,
            [Effect::Answer(answer)] => Some(RowAnswer::of(record, answer)?),
            _ => return None,
        };
        Some(Self { record, progress, answer, usage, balances, has_posting })
    }

    /// Appends the body of the record. Cost: no allocation beyond the vector's own.
    pub(super) fn append(&self, seq: RecordSeq, at: Timestamp, payload: &mut Vec<u8>) {
        let start = payload.len();
        let present = [
            (POSTING, self.has_posting),
            (USAGE, self.usage.is_some()),
            (BALANCES, self.balances.is_some()),
        ];
        let present = present.iter().fold(0, |bits, (bit, is)| bits | (bit * u8::from(*is)));
        let mut head = [0; HEAD_BYTES];
        head[..8].copy_from_slice(&seq.0.to_le_bytes());
        head[8..16].copy_from_slice(&at.0.to_le_bytes());
        head[16] = present;
        payload.extend_from_slice(&head);
        append_row(payload, self.record, self.progress, self.answer.as_ref());
        let row_len = payload.len() - start - HEAD_BYTES;
        // A row beyond 4 GiB is far beyond what a record may have, which the caller checks.
        let row_len = u32::try_from(row_len).unwrap_or(u32::MAX);
        payload[start + ROW_LEN_AT..start + HEAD_BYTES].copy_from_slice(&row_len.to_le_bytes());
        if let Some(usage) = self.usage {
            payload.extend_from_slice(&pack_usage(usage));
        }
        if let Some(balances) = self.balances {
            payload.extend_from_slice(&pack_balances(balances));
        }
    }
}

/// The posting that holds what a new transaction holds; none where it holds nothing.
fn posting_of(
    account: AccountSlot,
    transaction: TransactionSeq,
    progress: &TransactionProgress,
) -> Option<Posting> {
    let [part] = progress.held.parts() else { return None };
    let (from, to) = (Book::Funds, Book::Holds);
    Some(Posting { account, transaction, from, to, amount: part.amount })
}

/// An authorization's record, looked at in place.
#[derive(Clone, Copy, Debug)]
pub struct AuthorizationView<'a> {
    seq: RecordSeq,
    at: Timestamp,
    has_posting: bool,
    row: TransactionView<'a>,
    usage: Option<CardUsage>,
    balances: Option<AccountBalances>,
}

impl<'a> AuthorizationView<'a> {
    /// Takes the body of a record apart.
    /// Errors: bytes that `append` did not write.
    pub(super) fn parse(body: &'a [u8]) -> Result<Self, CodecError> {
        let (head, mut rest) = body.split_first_chunk::<HEAD_BYTES>().ok_or(CodecError::Cut)?;
        let [a, b, c, d] = [head[17], head[18], head[19], head[20]];
        let row_len = u32::from_le_bytes([a, b, c, d]) as usize;
        let present = head[16];
        if present & !KNOWN != 0 {
            return Err(malformed("unknown effects of an authorization"));
        }
        let row = take(&mut rest, row_len)?;
        let mut view = Self {
            seq: RecordSeq(u64::from_le_bytes(eight(head, 0))),
            at: Timestamp(i64::from_le_bytes(eight(head, 8))),
            has_posting: present & POSTING != 0,
            row: TransactionView::parse(row)?,
            usage: None,
            balances: None,
        };
        if present & USAGE != 0 {
            view.usage = Some(parse_usage(take_array::<USAGE_BYTES>(&mut rest)?)?);
        }
        if present & BALANCES != 0 {
            view.balances = Some(parse_balances(take_array::<BALANCES_BYTES>(&mut rest)?));
        }
        if view.usage.is_some() && view.row.card().is_none() {
            return Err(malformed("a usage without a card"));
        }
        if rest.is_empty() { Ok(view) } else { Err(malformed("bytes are left over")) }
    }

    /// Its place in the journal.
    #[must_use]
    pub const fn seq(&self) -> RecordSeq {
        self.seq
    }

    /// When the command was accepted.
    #[must_use]
    pub const fn at(&self) -> Timestamp {
        self.at
    }

    /// The packed row of the transaction, with the answer where its message got one.
    #[must_use]
    pub const fn row(&self) -> &'a [u8] {
        self.row.bytes()
    }

    /// The transaction.
    #[must_use]
    pub const fn transaction(&self) -> TransactionView<'a> {
        self.row
    }

    /// The usage of the transaction's card afterwards, where it changed.
    #[must_use]
    pub const fn usage(&self) -> Option<CardUsage> {
        self.usage
    }

    /// The balances of the transaction's account afterwards, where they changed.
    #[must_use]
    pub const fn balances(&self) -> Option<AccountBalances> {
        self.balances
    }

    /// Whether what the transaction holds was posted from funds to holds.
    #[must_use]
    pub const fn has_posting(&self) -> bool {
        self.has_posting
    }

    /// The transaction with how it stands, and the posting that holds what it holds, where that was
    /// made. Errors: a damaged row.
    pub fn to_transaction(
        &self,
    ) -> Result<(TransactionRecord, TransactionProgress, Option<Posting>), CodecError> {
        let (record, progress) = (self.row.to_record()?, self.row.to_progress()?);
        let posting = self.has_posting.then(|| posting_of(record.account, record.seq, &progress));
        if posting.is_some_and(|posting| posting.is_none()) {
            return Err(malformed("a posting of no hold"));
        }
        Ok((record, progress, posting.flatten()))
    }

    /// The effects it was made of. Errors: a damaged row.
    pub fn to_effects(&self) -> Result<Vec<Effect>, CodecError> {
        let (record, progress, posting) = self.to_transaction()?;
        let mut effects = Vec::with_capacity(5);
        effects.extend(posting.map(Effect::Posting));
        let (card, account) = (record.card, record.account);
        let answer: Option<RememberedAnswer> =
            self.row.answer().map(|answer| answer.answer(&record));
        effects.push(Effect::Transaction(Box::new(record), Box::new(progress)));
        if let (Some(card), Some(usage)) = (card, self.usage) {
            effects.push(Effect::CardUsage(card, usage));
        }
        if let Some(balances) = self.balances {
            effects.push(Effect::AccountBalances(account, balances));
        }
        effects.extend(answer.map(|answer| Effect::Answer(Box::new(answer))));
        Ok(effects)
    }
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Result<&'a [u8], CodecError> {
    let (taken, behind) = rest.split_at_checked(len).ok_or(CodecError::Cut)?;
    *rest = behind;
    Ok(taken)
}

fn take_array<'a, const N: usize>(rest: &mut &'a [u8]) -> Result<&'a [u8; N], CodecError> {
    let (taken, behind) = rest.split_first_chunk().ok_or(CodecError::Cut)?;
    *rest = behind;
    Ok(taken)
}

fn eight(head: &[u8; HEAD_BYTES], at: usize) -> [u8; 8] {
    let mut number = [0; 8];
    number.copy_from_slice(&head[at..at + 8]);
    number
}

fn malformed(what: &str) -> CodecError {
    CodecError::Malformed { what: what.to_owned() }
}

#[cfg(test)]
#[path = "authorization_record_tests.rs"]
mod tests;
