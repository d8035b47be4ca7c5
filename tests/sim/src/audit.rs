//! Compares a switch with the model: its memory and its tables.

use std::fmt::Debug;

use cardswitch_engine::domain::account::AccountBalances;
use cardswitch_engine::domain::business_date::BusinessDate;
use cardswitch_engine::domain::card::CardRecord;
use cardswitch_engine::domain::company::Company;
use cardswitch_engine::domain::ids::{
    AccountSlot, CardSlot, CompanySlot, MemberSlot, Timestamp, TransactionSeq,
};
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::domain::transaction::{TransactionProgress, TransactionRecord};
use cardswitch_engine::shard::ShardState;
use cardswitch_engine::store::query::{AccountRow, CardRow};
use cardswitch_engine::store::{Snapshot, StoreError};

use crate::model::{Model, Purchase, date_in};

/// Compares the memory of the shard at `at`: all money, all cards, and the transactions that it has not left to
/// the tables.
pub fn audit_state(model: &mut Model, state: &ShardState, at: Timestamp, context: &str) {
    for company in 0..model.companies.len() {
        audit_balances(model, company, state.balances(AccountSlot(company as u32)), context);
    }
    assert_eq!(state.card_count(), model.cards.len(), "{context}");
    for card in 0..model.cards.len() {
        audit_card(model, state.card(CardSlot(card as u32)), card, at, context);
    }
    for purchase in &model.purchases {
        if let Some(open) = state.transaction(TransactionSeq(purchase.seq)) {
            audit_progress(purchase, &open.progress, open.member, context);
        }
    }
}

fn audit_balances(model: &Model, company: usize, balances: &AccountBalances, context: &str) {
    assert_eq!(balances.ledger, Minor(model.ledger(company)), "{context}");
    assert_eq!(balances.held, Minor(model.holds(company)), "{context}");
    let (incoming, outgoing) = model.in_transit(company);
    assert_eq!(balances.credits_in_transit, Minor(incoming), "{context}");
    assert_eq!(balances.debits_in_transit, Minor(outgoing), "{context}");
    let lines = model.companies[company].lines.len();
    assert_eq!(balances.line_count, lines as u64, "{context}");
}

fn audit_card(
    model: &mut Model,
    record: &CardRecord,
    at_card: usize,
    at: Timestamp,
    context: &str,
) {
    // No command was executed at `at`: the clock may go back to the day before.
    let closed = model.cards[at_card].clone();
    model.turn_pages(at_card, at.0);
    let card = &model.cards[at_card];
    let today = BusinessDate::from_naive(date_in(model.companies[card.company].zone, at.0));
    let usage = record.usage.rolled(record.terms.interval, today);
    let context = format_args!("{context} card {at_card}");
    assert_eq!(usage.spent, Minor(model.spent(at_card)), "{context}");
    assert_eq!(usage.day_spent, Minor(model.day_spent(at_card)), "{context}");
    assert_eq!(usage.state, card.state, "{context}");
    assert_eq!(usage.suspension, card.reason, "{context}");
    assert_eq!(usage.pin_failures, card.wrong_pins, "{context}");
    assert_eq!(record.terms, card.terms, "{context}");
    assert_eq!((record.pin.0, record.zip.0), (card.pin, card.zip), "{context}");
    model.cards[at_card] = closed;
}

fn audit_progress(
    purchase: &Purchase,
    progress: &TransactionProgress,
    member: Option<MemberSlot>,
    context: &str,
) {
    let context = format_args!("{context} transaction {}", purchase.seq);
    assert_eq!(progress.state, purchase.state, "{context}");
    assert_eq!(progress.held.total(), Minor(purchase.held()), "{context}");
    assert_eq!(progress.posted, Minor(purchase.posted), "{context}");
    assert_eq!(progress.refunded, Minor(purchase.refunded), "{context}");
    assert_eq!(progress.flags, purchase.flags, "{context}");
    assert_eq!(member, purchase.member.map(|member| MemberSlot(member as u32)), "{context}");
}

/// Compares reads as of the record at which the model stands, while the switch goes on: money, cards and their
/// holds, all of the one record.
pub fn audit_reads(model: &mut Model, tables: &Snapshot, at: Timestamp, context: &str) {
    let context = format!("{context} read");
    for company in 0..model.companies.len() {
        let row = tables.account(AccountSlot(company as u32)).unwrap().unwrap();
        audit_balances(model, company, &row.balances, &context);
    }
    for (card, held) in held_by_cards(model).into_iter().enumerate() {
        let row = tables.card(CardSlot(card as u32)).unwrap().unwrap();
        audit_card(model, &row.record, card, at, &context);
        assert_eq!(row.held, Minor(held), "{context} card {card}");
    }
}

fn held_by_cards(model: &Model) -> Vec<i64> {
    let mut held = vec![0; model.cards.len()];
    model.purchases.iter().for_each(|purchase| held[purchase.card] += purchase.held());
    held
}

/// The rows of tables that are whole.
pub struct WholeTables {
    companies: Vec<Option<Company>>,
    accounts: Vec<Option<AccountRow>>,
    cards: Vec<Option<CardRow>>,
    transactions: Vec<(TransactionRecord, TransactionProgress)>,
}

impl WholeTables {
    /// Reads all.
    pub fn read(model: &Model, tables: &Snapshot) -> Self {
        let (companies, cards) = (0..model.companies.len() as u32, 0..model.cards.len() as u32);
        let mut transactions = Vec::new();
        let put = |record, progress| transactions.push((record, progress));
        tables.each_transaction(put).unwrap();
        Self {
            companies: companies
                .clone()
                .map(|at| tables.company(CompanySlot(at)).unwrap())
                .collect(),
            accounts: companies.map(|at| tables.account(AccountSlot(at)).unwrap()).collect(),
            cards: cards.map(|at| tables.card(CardSlot(at)).unwrap()).collect(),
            transactions,
        }
    }

    /// Compares the rows that can be read with these. Returns how many cannot be read.
    pub fn compare(self, tables: &Snapshot, context: &str) -> usize {
        let mut written = self.transactions.into_iter();
        let read = tables.each_transaction(|record, progress| {
            assert_eq!(Some((record, progress)), written.next(), "{context}");
        });
        assert!(read.is_err() || written.next().is_none(), "{context}: a transaction is lost");
        usize::from(read.is_err())
            + unread(self.companies, |at| tables.company(CompanySlot(at)), context)
            + unread(self.accounts, |at| tables.account(AccountSlot(at)), context)
            + unread(self.cards, |at| tables.card(CardSlot(at)), context)
    }
}

/// The number of rows that cannot be read; the others are as they were written.
fn unread<R: PartialEq + Debug>(
    written: Vec<R>,
    read: impl Fn(u32) -> Result<R, StoreError>,
    context: &str,
) -> usize {
    let mut unread = 0;
    for (at, written) in (0..).zip(written) {
        match read(at) {
            Ok(row) => assert_eq!(row, written, "{context}"),
            Err(_) => unread += 1,
        }
    }
    unread
}

/// Compares the tables, which hold everything up to the newest record, with the model and with the memory of the
/// shard.
pub fn audit_tables(model: &Model, state: &ShardState, tables: &Snapshot, context: &str) {
    for company in 0..model.companies.len() {
        let slot = AccountSlot(company as u32);
        let row = tables.account(slot).unwrap().unwrap();
        assert_eq!(row.balances, *state.balances(slot), "{context} company {company}");
    }
    for (card, held) in held_by_cards(model).into_iter().enumerate() {
        let slot = CardSlot(card as u32);
        let row = tables.card(slot).unwrap().unwrap();
        assert_eq!(row.record, *state.card(slot), "{context} card {card}");
        assert_eq!(row.held, Minor(held), "{context} card {card}");
    }
    let mut expected = model.purchases.iter().peekable();
    let mut compare = |record: TransactionRecord, progress: TransactionProgress| {
        if let Some(purchase) = expected.next_if(|purchase| purchase.seq == record.seq.0) {
            audit_progress(purchase, &progress, record.member, context);
        }
    };
    tables.each_transaction(&mut compare).unwrap();
    let lost = expected.next().map(|purchase| purchase.seq);
    assert_eq!(lost, None, "{context} a transaction is lost");
}
