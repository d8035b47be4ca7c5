//! A transaction, packed: its record, the reply to its message, and its progress.
//!
//! | at | bytes | content |
//! |---|---|---|
//! | 0 | 1 | format version, 1 |
//! | 1 | 1 | kind |
//! | 2 | 2 | response code |
//! | 4 | 4 | marks of the optional fields that follow, and of their forms |
//! | 8 | 8 | sequence number |
//! | 16 | 8 | authorized at, microseconds |
//! | 24 | 4 x 4 | slots of company, account, card, member |
//! | 40 | 8 | original key |
//! | 48 | 8 | retrieval key |
//! | 56 | 8 | requested, minor units |
//! | 64 | 4 | offset of the progress |
//! | 68 | 4 | rules that failed |
//! | 72 | 8 | low half of the id |
//! | 80 | 2 | version and tag bits of the id's high half |
//! | 82 | 1 | sub-reason |
//! | 83 | 34 or 50 | reply: content hash, allowance balance, currency, key, trace |
//! | | 16 each | dimensions |
//! | | | id's time (6) unless it is that of the authorization, refund of (8), foreign (8 + 2) |
//! | | | merchant: number (8), category (2), six texts |
//! | | | bank account: three texts |
//! | | | STAN (3), RRN (5), transmission time (4) as numbers or texts; acquirer, terminal as texts |
//! | | | the facts of the decision, see `facts.rs` |
//! | | | progress, see `progress.rs` |
//!
//! The slot and key fields are zero if the transaction has none.

use super::answer::{AnsweredTransaction, RowAnswer};
use super::cursor::{Cursor, malformed};
use super::facts::take_facts;
use super::progress::{flags_of, held_of, hold_end_of, parse_progress, state_of};
use crate::codec::CodecError;
use crate::decision::RuleSet;
use crate::domain::card::Dimensions;
use crate::domain::ids::{
    AccountSlot, CardSlot, CompanySlot, DimensionId, MemberSlot, Timestamp, TransactionId,
    TransactionSeq,
};
use crate::domain::merchant::{Mcc, Merchant};
use crate::domain::money::{CurrencyAmount, CurrencyCode, Minor};
use crate::domain::network_key::{
    DuplicateKey, DuplicateWindow, Fingerprint, NetworkTrace, OriginalKey, RetrievalKey, TraceKey,
};
use crate::domain::response_code::{ResponseCode, SubReason};
use crate::domain::text::LineText;
use crate::domain::transaction::{
    BankAccount, TransactionFlags, TransactionKind, TransactionProgress, TransactionRecord,
    TransactionState,
};
use uuid::Uuid;

/// The version of the layout above.
pub(super) const ROW_FORMAT: u8 = 1;

pub(super) const HEAD_BYTES: usize = 83;
/// The place of the progress's offset in a row.
pub(super) const PROGRESS_AT: usize = 64;
pub(super) const ANSWER_BYTES: usize = 34;
const TRACE_BYTES: usize = 16;
const DIMENSION_BYTES: usize = 16;

// The marks of the optional fields that follow, and of their forms.
pub(super) const CARD: u32 = 1;
pub(super) const MEMBER: u32 = 1 << 1;
pub(super) const ORIGINAL_KEY: u32 = 1 << 2;
pub(super) const RETRIEVAL_KEY: u32 = 1 << 3;
pub(super) const ANSWER: u32 = 1 << 4;
pub(super) const ANSWER_TRACE: u32 = 1 << 5;
pub(super) const ANSWER_REPEATS_ONLY: u32 = 1 << 6;
pub(super) const ANSWER_IS_REPEAT: u32 = 1 << 7;
pub(super) const FIRST_DIMENSION: u32 = 1 << 8;
const DIMENSIONS: u32 = 0b1111 << 8;
pub(super) const ID_TIME: u32 = 1 << 12;
pub(super) const REFUND_OF: u32 = 1 << 13;
pub(super) const FOREIGN: u32 = 1 << 14;
pub(super) const MERCHANT: u32 = 1 << 15;
pub(super) const MCC: u32 = 1 << 16;
pub(super) const BANK_ACCOUNT: u32 = 1 << 17;
pub(super) const STAN_DIGITS: u32 = 1 << 18;
pub(super) const RRN_DIGITS: u32 = 1 << 19;
pub(super) const TIME_DIGITS: u32 = 1 << 20;
pub(super) const FACTS: u32 = 1 << 21;
pub(super) const ANSWER_SHARES_TRACE: u32 = 1 << 22;
const KNOWN: u32 = (1 << 23) - 1;

pub(super) const STAN_LEN: usize = 6;
pub(super) const RRN_LEN: usize = 12;
pub(super) const TIME_LEN: usize = 10;

/// The response code with a number.
pub fn response_code_of(number: u16) -> Option<ResponseCode> {
    ResponseCode::ALL.into_iter().find(|code| code.number() == number)
}

/// A view of a row in place: each getter decodes only its own result.
#[derive(Clone, Copy, Debug)]
pub struct TransactionView<'a> {
    /// The row's bytes.
    pub bytes: &'a [u8],
}

impl<'a> TransactionView<'a> {
    /// Reads bytes as one row and nothing else.
    /// Errors: bytes that `append_row` did not write, as far as the fixed fields show; the texts
    /// behind them are checked when they are read.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, CodecError> {
        let view = Self { bytes };
        let Some(head) = bytes.first_chunk::<HEAD_BYTES>() else { return Err(CodecError::Cut) };
        let [version, kind] = [head[0], head[1]];
        if version != ROW_FORMAT {
            return Err(CodecError::UnknownVersion { version });
        }
        if usize::from(kind) >= TransactionKind::ALL.len() {
            return Err(CodecError::UnknownKind { kind });
        }
        if view.present() & !KNOWN != 0 {
            return Err(malformed("unknown fields of a row"));
        }
        if view.progress_at() < view.texts_at() {
            return Err(malformed("the progress begins within the fixed fields"));
        }
        state_of(*bytes.get(view.progress_at()).ok_or(CodecError::Cut)?)?;
        Ok(view)
    }

    /// Its place among all transactions.
    pub fn seq(&self) -> TransactionSeq {
        TransactionSeq(u64::from_le_bytes(self.fixed(8)))
    }

    /// The time of acceptance.
    pub fn authorized_at(&self) -> Timestamp {
        Timestamp(i64::from_le_bytes(self.fixed(16)))
    }

    /// The kind of movement.
    pub fn kind(&self) -> TransactionKind {
        TransactionKind::ALL[usize::from(self.bytes[1])]
    }

    /// The company that owns it.
    pub fn company(&self) -> CompanySlot {
        CompanySlot(u32::from_le_bytes(self.fixed(24)))
    }

    /// The account that pays or receives.
    pub fn account(&self) -> AccountSlot {
        AccountSlot(u32::from_le_bytes(self.fixed(28)))
    }

    /// The card, for purchases.
    pub fn card(&self) -> Option<CardSlot> {
        self.has(CARD).then(|| CardSlot(u32::from_le_bytes(self.fixed(32))))
    }

    /// The member who held the card then.
    pub fn member(&self) -> Option<MemberSlot> {
        self.has(MEMBER).then(|| MemberSlot(u32::from_le_bytes(self.fixed(36))))
    }

    /// The original key by which other messages may name it.
    pub fn original_key(&self) -> Option<OriginalKey> {
        self.has(ORIGINAL_KEY).then(|| OriginalKey(u64::from_le_bytes(self.fixed(40))))
    }

    /// The retrieval key by which other messages may name it.
    pub fn retrieval_key(&self) -> Option<RetrievalKey> {
        self.has(RETRIEVAL_KEY).then(|| RetrievalKey(u64::from_le_bytes(self.fixed(48))))
    }

    /// The requested amount, in the account's currency.
    pub fn requested(&self) -> Minor {
        Minor(i64::from_le_bytes(self.fixed(56)))
    }

    /// The number of its response code.
    pub fn response_number(&self) -> u16 {
        u16::from_le_bytes(self.fixed(2))
    }

    /// Facts that reviewers look for.
    pub fn flags(&self) -> TransactionFlags {
        flags_of(&self.bytes[self.progress_at()..])
    }

    /// Its public id. Errors: damaged bytes.
    pub fn transaction_id(&self) -> Result<TransactionId, CodecError> {
        let texts = self.bytes.get(self.texts_at()..).ok_or(CodecError::Cut)?;
        self.id(&mut Cursor(texts))
    }

    /// Its state.
    pub fn state(&self) -> TransactionState {
        // `parse` has checked this byte.
        state_of(self.bytes[self.progress_at()]).unwrap_or(TransactionState::Declined)
    }

    /// The time at which its hold expires; `Timestamp::MAX` if it has none or does not end.
    pub fn hold_expires_at(&self) -> Timestamp {
        hold_end_of(&self.bytes[self.progress_at()..])
    }

    /// The amount held at the time of writing. Errors: damaged bytes.
    pub fn held(&self) -> Result<Minor, CodecError> {
        held_of(&self.bytes[self.progress_at()..])
    }

    /// The dimensions of its card at that time.
    pub fn dimensions(&self) -> Dimensions {
        if self.present() & DIMENSIONS == 0 {
            return Dimensions::default();
        }
        let mut at = HEAD_BYTES + self.answer_bytes();
        let mut bit = FIRST_DIMENSION;
        Dimensions::default().map(|_: Option<DimensionId>| {
            let found = self.has(bit).then(|| DimensionId(Uuid::from_bytes(self.fixed(at))));
            at += DIMENSION_BYTES * usize::from(found.is_some());
            bit <<= 1;
            found
        })
    }

    /// The keys by which repeats of its message, or conflicts with it, are found: those of
    /// `Fingerprint::index_keys`, read in place.
    pub fn message_keys(&self) -> Option<(u64, Option<u64>)> {
        let half_at = |at| u64::from_le_bytes(self.fixed(at));
        let (own_at, trace_at) = (HEAD_BYTES + 18, HEAD_BYTES + ANSWER_BYTES);
        self.has(ANSWER).then(|| match (self.has(ANSWER_TRACE), self.has(ANSWER_SHARES_TRACE)) {
            (false, _) => (half_at(own_at), None),
            (true, false) => (half_at(trace_at), None),
            (true, true) => (half_at(own_at), Some(half_at(trace_at))),
        })
    }

    /// The parts of the reply to its message that the record does not hold.
    pub fn answer(&self) -> Option<RowAnswer> {
        if !self.has(ANSWER) {
            return None;
        }
        let trace_at = HEAD_BYTES + ANSWER_BYTES;
        let trace = self
            .has(ANSWER_TRACE)
            .then(|| TraceKey(u128::from_le_bytes(self.fixed::<TRACE_BYTES>(trace_at))));
        let is_repeat = self.has(ANSWER_IS_REPEAT);
        let window = if self.has(ANSWER_REPEATS_ONLY) {
            DuplicateWindow::RepeatsOnly { is_repeat }
        } else {
            DuplicateWindow::Day
        };
        Some(RowAnswer {
            fingerprint: Fingerprint {
                key: DuplicateKey(u128::from_le_bytes(self.fixed(HEAD_BYTES + 18))),
                trace,
                content: u64::from_le_bytes(self.fixed(HEAD_BYTES)),
                window,
            },
            shares_trace: self.has(ANSWER_SHARES_TRACE),
            allowance_balance: Minor(i64::from_le_bytes(self.fixed(HEAD_BYTES + 8))),
            currency: CurrencyCode(u16::from_le_bytes(self.fixed(HEAD_BYTES + 16))),
        })
    }

    /// The parts of the record that the reply to its message shows. Errors: damaged bytes.
    pub fn answered(&self) -> Result<AnsweredTransaction, CodecError> {
        Ok(AnsweredTransaction {
            seq: self.seq(),
            id: self.transaction_id()?,
            authorized_at: self.authorized_at(),
            requested: self.requested(),
            response_code: self.response_code()?,
            sub_reason: self.sub_reason()?,
            failed_rules: self.failed_rules(),
        })
    }

    /// Its progress. Errors: damaged bytes.
    pub fn to_progress(&self) -> Result<TransactionProgress, CodecError> {
        parse_progress(&self.bytes[self.progress_at()..])
    }

    /// The part that never changes. Errors: damaged bytes.
    pub fn to_record(&self) -> Result<TransactionRecord, CodecError> {
        let mut cursor = Cursor(&self.bytes[self.texts_at()..self.progress_at()]);
        let record = TransactionRecord {
            seq: self.seq(),
            id: self.id(&mut cursor)?,
            kind: self.kind(),
            company: self.company(),
            account: self.account(),
            card: self.card(),
            member: self.member(),
            requested: self.requested(),
            response_code: self.response_code()?,
            sub_reason: self.sub_reason()?,
            failed_rules: self.failed_rules(),
            // The order of the next fields is that of the bytes.
            refund_of: self
                .optional(REFUND_OF, &mut cursor, |cursor| cursor.u64().map(TransactionSeq))?,
            foreign: self.optional(FOREIGN, &mut cursor, take_foreign)?,
            merchant: self.optional(MERCHANT, &mut cursor, |cursor| {
                take_merchant(cursor, self.present() & MCC != 0)
            })?,
            bank_account: self.optional(BANK_ACCOUNT, &mut cursor, take_bank_account)?,
            trace: self.trace(&mut cursor)?,
            facts: self.optional(FACTS, &mut cursor, |cursor| take_facts(&mut cursor.0))?,
            authorized_at: self.authorized_at(),
            dimensions: self.dimensions(),
        };
        cursor.end()?;
        Ok(record)
    }

    fn id(&self, cursor: &mut Cursor<'_>) -> Result<TransactionId, CodecError> {
        let time = if self.has(ID_TIME) {
            let mut wide = [0; 8];
            wide[..6].copy_from_slice(&cursor.array::<6>()?);
            u64::from_le_bytes(wide)
        } else {
            time_of_authorization(self.authorized_at())
        };
        let high = time << 16 | u64::from(u16::from_le_bytes(self.fixed(80)));
        let low = u64::from_le_bytes(self.fixed(72));
        Ok(TransactionId(Uuid::from_u64_pair(high, low)))
    }

    fn response_code(&self) -> Result<ResponseCode, CodecError> {
        response_code_of(self.response_number()).ok_or_else(|| malformed("unknown response code"))
    }

    fn sub_reason(&self) -> Result<SubReason, CodecError> {
        let sub_reason = SubReason::ALL.get(usize::from(self.bytes[82]));
        sub_reason.copied().ok_or_else(|| malformed("unknown sub-reason"))
    }

    fn failed_rules(&self) -> RuleSet {
        RuleSet::from_bits(u32::from_le_bytes(self.fixed(68)))
    }

    fn trace(&self, cursor: &mut Cursor<'_>) -> Result<NetworkTrace, CodecError> {
        Ok(NetworkTrace {
            stan: self.digits::<3>(STAN_DIGITS, STAN_LEN, cursor)?,
            rrn: self.digits::<5>(RRN_DIGITS, RRN_LEN, cursor)?,
            transmission_time: self.digits::<4>(TIME_DIGITS, TIME_LEN, cursor)?,
            acquirer: take_line(cursor)?,
            terminal: take_line(cursor)?,
            original_key: self.original_key(),
            retrieval_key: self.retrieval_key(),
        })
    }

    /// A text that is stored as a number of `N` bytes if `bit` is set.
    fn digits<const N: usize>(
        &self,
        bit: u32,
        len: usize,
        cursor: &mut Cursor<'_>,
    ) -> Result<LineText, CodecError> {
        if self.has(bit) {
            Ok(LineText::spaced(cursor.digits::<N>(len)?.as_str()?))
        } else {
            take_line(cursor)
        }
    }

    fn optional<'c, T>(
        &self,
        bit: u32,
        cursor: &mut Cursor<'c>,
        take: impl FnOnce(&mut Cursor<'c>) -> Result<T, CodecError>,
    ) -> Result<Option<T>, CodecError> {
        if self.has(bit) { take(cursor).map(Some) } else { Ok(None) }
    }

    fn present(&self) -> u32 {
        u32::from_le_bytes(self.fixed(4))
    }

    fn has(&self, bit: u32) -> bool {
        self.present() & bit != 0
    }

    fn answer_bytes(&self) -> usize {
        ANSWER_BYTES * usize::from(self.has(ANSWER))
            + TRACE_BYTES * usize::from(self.has(ANSWER_TRACE))
    }

    /// The offset of the fields without a fixed place.
    fn texts_at(&self) -> usize {
        let dimensions = (self.present() & DIMENSIONS).count_ones() as usize;
        HEAD_BYTES + self.answer_bytes() + DIMENSION_BYTES * dimensions
    }

    pub(super) fn progress_at(&self) -> usize {
        u32::from_le_bytes(self.fixed(PROGRESS_AT)) as usize
    }

    /// The bytes of a field at a place that `parse` has found to be inside the row.
    fn fixed<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut field = [0; N];
        field.copy_from_slice(&self.bytes[at..at + N]);
        field
    }
}

/// The time bits of an id from the mint; other ids keep their own.
pub(super) fn time_of_authorization(at: Timestamp) -> u64 {
    at.unix_ms() & ((1 << 48) - 1)
}

fn take_foreign(cursor: &mut Cursor<'_>) -> Result<CurrencyAmount, CodecError> {
    let amount = Minor(cursor.i64()?);
    Ok(CurrencyAmount { amount, currency: CurrencyCode(cursor.u16()?) })
}

/// Reads what `append_merchant` wrote.
pub(super) fn take_merchant(
    cursor: &mut Cursor<'_>,
    has_category: bool,
) -> Result<Merchant, CodecError> {
    Ok(Merchant {
        mid: cursor.u64()?,
        mcc: has_category.then(|| cursor.u16().map(Mcc)).transpose()?,
        card_acceptor_id: take_line(cursor)?,
        name: take_line(cursor)?,
        city: take_line(cursor)?,
        state: take_line(cursor)?,
        country: take_line(cursor)?,
        zip: take_line(cursor)?,
    })
}

fn take_line(cursor: &mut Cursor<'_>) -> Result<LineText, CodecError> {
    LineText::new(cursor.text()?).map_err(|_| malformed("text has a character that steers"))
}

fn take_bank_account(cursor: &mut Cursor<'_>) -> Result<BankAccount, CodecError> {
    Ok(BankAccount {
        description: take_line(cursor)?,
        name: take_line(cursor)?,
        number: take_line(cursor)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_sub_reasons_stand_at_the_place_of_their_number() {
        for (number, kind) in TransactionKind::ALL.iter().enumerate() {
            assert_eq!(*kind as usize, number);
        }
        for (number, reason) in SubReason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, number);
        }
    }
}
