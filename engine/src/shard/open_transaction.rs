//! A transaction as the shard keeps it in memory.

use compact_str::CompactString;

use super::duplicates::{AnswerPlace, EnteredAnswer};
use super::index::spread;
use crate::command::effect::RememberedAnswer;
use crate::decision::RuleSet;
use crate::domain::ids::{
    AccountSlot, CardSlot, MemberSlot, RecordSeq, Timestamp, TransactionId, TransactionSeq,
};
use crate::domain::merchant::{Mcc, Merchant};
use crate::domain::money::{Conversion, CurrencyAmount, Minor};
use crate::domain::network_key::{Fingerprint, OriginalKey, RetrievalKey};
use crate::domain::response_code::{ResponseCode, SubReason};
use crate::domain::text::LineText;
use crate::domain::transaction::{
    TransactionKind, TransactionProgress, TransactionRecord, TransactionState,
};
use crate::packed::{AnsweredTransaction, RowAnswer};

/// The part of a transaction that the shard keeps: its changing state, and its answer.
#[derive(Clone, Debug)]
pub struct OpenTransaction {
    /// The card, for purchases.
    pub card: Option<CardSlot>,
    /// The card's holder at that time; its statement lines name nobody else.
    pub member: Option<MemberSlot>,
    /// The account.
    pub account: AccountSlot,
    /// The kind of movement.
    pub kind: TransactionKind,
    /// The instant when it was accepted.
    pub authorized_at: Timestamp,
    /// The requested amount, in the account's currency.
    pub requested: Minor,
    /// The merchant's amount in another currency.
    pub foreign: Option<CurrencyAmount>,
    /// The name of the merchant or of the bank account, for statement lines.
    pub merchant_name: CompactString,
    /// The merchant's category.
    pub mcc: Option<Mcc>,
    /// Tells its merchant from others.
    merchant_mark: MerchantMark,
    /// The purchase it gives money back for.
    pub refund_of: Option<TransactionSeq>,
    /// The progress of the transaction.
    pub progress: TransactionProgress,
    pub(super) id: TransactionId,
    pub(super) original_key: Option<OriginalKey>,
    pub(super) retrieval_key: Option<RetrievalKey>,
    response_code: ResponseCode,
    sub_reason: SubReason,
    failed_rules: RuleSet,
    answer: Option<RowAnswer>,
    /// The last record that changed it.
    pub(super) changed_seq: RecordSeq,
}

// A quarter of a million of these are in memory: a change that makes them larger has to say so
// here. Less where something else in the build makes `smallvec` use unions.
const _: () = assert!(size_of::<OpenTransaction>() <= 400);

/// The other side and the member whom the statement lines of a transaction name.
pub(super) type NamedOnLines<'a> = (&'a str, Option<MemberSlot>);

/// The other side's name on statement lines.
fn name_on_lines(record: &TransactionRecord) -> CompactString {
    match (&record.merchant, &record.bank_account) {
        (Some(merchant), _) => merchant.name.as_str().into(),
        (None, Some(bank_account)) => bank_account.description.as_str().into(),
        (None, None) => CompactString::default(),
    }
}

/// What tells merchants apart beside name and category: hashes of number, city, state, country and ZIP. What the
/// merchant does not tell has zero.
#[derive(Clone, Copy, Debug, Default)]
struct MerchantMark([u16; 5]);

impl MerchantMark {
    fn of(merchant: &Merchant) -> Self {
        let Merchant { mid, city, state, country, zip, .. } = merchant;
        let hashes = [spread(*mid), hash_of(city), hash_of(state), hash_of(country), hash_of(zip)];
        Self(hashes.map(|hash| if hash == 0 { 0 } else { (hash & 0xffff) as u16 | 1 }))
    }

    /// Whether a merchant with this mark tells something else than one with the other mark.
    fn differs_from(self, other: Self) -> bool {
        self.0.iter().zip(other.0).any(|(told, other)| *told != 0 && *told != other)
    }
}

/// FNV-1a: these texts are a few bytes long. Zero of an empty one.
fn hash_of(text: &LineText) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    if text.is_empty() { 0 } else { text.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, step) }
}

impl OpenTransaction {
    /// The kept part of a transaction that record `changed_seq` made or brought.
    pub(super) fn of(
        record: &TransactionRecord,
        progress: TransactionProgress,
        changed_seq: RecordSeq,
    ) -> Self {
        Self {
            card: record.card,
            member: record.member,
            account: record.account,
            kind: record.kind,
            authorized_at: record.authorized_at,
            requested: record.requested,
            foreign: record.foreign,
            merchant_name: name_on_lines(record),
            mcc: record.merchant.as_ref().and_then(|merchant| merchant.mcc),
            merchant_mark: record.merchant.as_ref().map(MerchantMark::of).unwrap_or_default(),
            refund_of: record.refund_of,
            progress,
            id: record.id,
            original_key: record.trace.original_key,
            retrieval_key: record.trace.retrieval_key,
            response_code: record.response_code,
            sub_reason: record.sub_reason,
            failed_rules: record.failed_rules,
            answer: None,
            changed_seq,
        }
    }

    /// The merchant of a presentment that names another one: by name, category, number or place. A name or
    /// category that it leaves out is as it was authorized, and so is all where the rest is the same.
    pub(super) fn other_merchant(&self, presented: &Merchant) -> Option<Merchant> {
        let is_other = (!presented.name.is_empty() && *presented.name != *self.merchant_name)
            || (presented.mcc.is_some() && presented.mcc != self.mcc)
            || MerchantMark::of(presented).differs_from(self.merchant_mark);
        if !is_other {
            return None;
        }
        let mut merchant = presented.clone();
        merchant.mcc = merchant.mcc.or(self.mcc);
        if merchant.name.is_empty() {
            merchant.name = LineText::spaced(&self.merchant_name);
        }
        Some(merchant)
    }

    /// Whom its statement lines name.
    pub(super) fn named_on_lines(&self) -> NamedOnLines<'_> {
        (self.merchant_name.as_str(), self.member)
    }

    /// The rate of the message that made it.
    pub(super) fn conversion(&self) -> Option<Conversion> {
        Conversion::of(self.foreign, self.requested)
    }

    /// The rate of what it holds.
    pub(super) fn conversion_of_hold(&self) -> Option<Conversion> {
        self.progress.later.conversion_of_hold(self.conversion())
    }

    /// Approved, or why not.
    pub(super) const fn response_code(&self) -> ResponseCode {
        self.response_code
    }

    pub(super) fn is_refund(&self) -> bool {
        self.kind == TransactionKind::Refund
    }

    pub(super) const fn yields_marks(&self) -> bool {
        self.kind.yields_marks()
    }

    pub(super) fn is_declined(&self) -> bool {
        self.progress.state == TransactionState::Declined
    }

    /// Keeps what its message was answered.
    pub(super) fn keep_answer(&mut self, answer: Option<RowAnswer>) {
        self.answer = answer;
    }

    /// The fingerprint of the message that made the transaction, where its answer is kept here.
    pub(super) fn fingerprint(&self) -> Option<&Fingerprint> {
        self.answer.as_ref().map(|kept| &kept.fingerprint)
    }

    /// The same as an index enters it, at its place.
    pub(super) fn entered_answer(&self, place: AnswerPlace) -> Option<EnteredAnswer> {
        let RowAnswer { fingerprint, shares_trace, .. } = *self.answer.as_ref()?;
        Some(EnteredAnswer { fingerprint, shares_trace, place })
    }

    /// The end of the answer to the message that made the transaction, where that is kept here.
    pub(super) fn answer_expires_at(&self) -> Option<Timestamp> {
        self.answer.as_ref().map(|kept| kept.expires_at(self.authorized_at))
    }

    /// The answer to the message that made the transaction `seq`, where that is kept here.
    pub(super) fn remembered_answer(&self, seq: TransactionSeq) -> Option<RememberedAnswer> {
        let made = AnsweredTransaction {
            seq,
            id: self.id,
            authorized_at: self.authorized_at,
            requested: self.requested,
            response_code: self.response_code,
            sub_reason: self.sub_reason,
            failed_rules: self.failed_rules,
        };
        self.answer.as_ref().map(|kept| kept.answer(made))
    }
}
