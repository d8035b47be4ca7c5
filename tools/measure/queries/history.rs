//! The rows: transactions of a year, from a seed, the same for both.

use cardswitch_benches::program::{merchant, mix};
use cardswitch_engine::decision::RuleSet;
use cardswitch_engine::domain::ids::{
    AccountSlot, CardSlot, CompanySlot, DimensionId, MemberSlot, Timestamp, TransactionId,
    TransactionSeq,
};
use cardswitch_engine::domain::merchant::{Mcc, Merchant};
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::domain::network_key::NetworkTrace;
use cardswitch_engine::domain::response_code::{ResponseCode, SubReason};
use cardswitch_engine::domain::transaction::{
    TransactionKind, TransactionRecord, TransactionState,
};
use uuid::Uuid;

/// The first instant: 2026-01-01T00:00:00Z.
const START: i64 = 1_767_225_600_000_000;
const YEAR: i64 = 365 * Timestamp::DAY;
/// Members and categories of a company.
const MEMBERS: u64 = 200;
const CATEGORIES: u64 = 20;
const CARDS_MAX: u64 = 20_000;
/// The greatest company has eight cards of ten, twenty others share the rest.
pub(crate) const COMPANIES: u64 = 21;

/// So many transactions of one program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct History {
    pub(crate) size: u64,
}

/// A transaction as it stands in the end.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// As it was made, with the category of the card.
    pub(crate) record: TransactionRecord,
    pub(crate) state: TransactionState,
    /// The number of its category: one in a hundred got another by hand.
    pub(crate) category: Option<u64>,
    /// Whether it was pending first, and completed later.
    pub(crate) is_late: bool,
}

impl History {
    pub(crate) const fn new(size: u64) -> Self {
        Self { size }
    }

    pub(crate) fn cards(&self) -> u64 {
        (self.size / 100).clamp(10, CARDS_MAX)
    }

    /// The transactions, in order.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Row> {
        let history = *self;
        (1..=self.size).map(move |seq| history.row(seq))
    }

    /// When transaction `seq` was authorized.
    pub(crate) fn time_of(&self, seq: u64) -> Timestamp {
        let step = YEAR / i64::try_from(self.size).unwrap_or(YEAR);
        Timestamp(START).plus(i64::try_from(seq).unwrap_or(0) * step)
    }

    /// Transaction `seq`.
    pub(crate) fn row(&self, seq: u64) -> Row {
        let mark = mix(seq ^ 0x5eed << 32);
        let card = mix(mark) % self.cards();
        let (kind, state) = fate(mark);
        let company = company_of(card);
        let card_category = category_of(card);
        let is_changed = mix(mark ^ 1).is_multiple_of(100);
        let category = if is_changed { Some(category(company, mark)) } else { card_category };
        let record = TransactionRecord {
            seq: TransactionSeq(seq),
            id: id_of(seq),
            kind,
            company: CompanySlot(narrow(company)),
            account: AccountSlot(narrow(company)),
            card: Some(CardSlot(narrow(card))),
            member: Some(MemberSlot(narrow(member_of(card)))),
            requested: Minor(i64::try_from(100 + mark % 20_000).unwrap_or(100)),
            foreign: None,
            merchant: Some(Merchant { mcc: Some(Mcc(5_812)), ..merchant() }),
            bank_account: None,
            trace: NetworkTrace::default(),
            response_code: ResponseCode::Approved,
            sub_reason: SubReason::None,
            failed_rules: RuleSet::default(),
            facts: None,
            refund_of: None,
            authorized_at: self.time_of(seq),
            dimensions: [card_category.map(category_id), None, None, None],
        };
        let is_late = state == TransactionState::Completed && (mark >> 40).is_multiple_of(7);
        Row { record, state, category, is_late }
    }
}

fn narrow(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The id of transaction `seq`.
pub(crate) const fn id_of(seq: u64) -> TransactionId {
    TransactionId(Uuid::from_u64_pair(mix(seq), mix(!seq)))
}

/// The kind and the final state of a transaction: seventy of a hundred are completed.
fn fate(mark: u64) -> (TransactionKind, TransactionState) {
    let state = match (mark >> 20) % 100 {
        0..70 => TransactionState::Completed,
        70..80 => TransactionState::Pending,
        80..89 => TransactionState::Declined,
        89..95 => TransactionState::Canceled,
        _ => return (TransactionKind::Verification, TransactionState::Canceled),
    };
    (TransactionKind::Purchase, state)
}

/// The company of a card.
pub(crate) fn company_of(card: u64) -> u64 {
    if card % 10 < 8 { 0 } else { 1 + card / 10 % (COMPANIES - 1) }
}

fn member_of(card: u64) -> u64 {
    company_of(card) * MEMBERS + mix(card) % MEMBERS
}

/// Four cards of five have a category.
fn category_of(card: u64) -> Option<u64> {
    let mark = mix(card * 4);
    (!mark.is_multiple_of(5)).then(|| category(company_of(card), mark >> 8))
}

/// One of a company's categories.
const fn category(company: u64, mark: u64) -> u64 {
    company * CATEGORIES + mark % CATEGORIES
}

pub(crate) fn category_id(number: u64) -> DimensionId {
    DimensionId(Uuid::from_u64_pair(7, number))
}

/// Every category with its company.
pub(crate) fn all_categories() -> impl Iterator<Item = (u64, u64)> {
    (0..COMPANIES * CATEGORIES).map(|number| (number / CATEGORIES, number))
}
