//! The slow store: keeps the last value of everything in maps and answers by looking at all of it.

use std::collections::BTreeMap;

use crate::command::NewTransaction;
use crate::command::effect::{EarlyReversal, Effect, IssuedCard, RememberedAnswer};
use crate::command::record::Record;
use crate::directory::row::IndexedRow as _;
use crate::directory::{DirectoryRow, each_resource};
use crate::domain::account::{Account, AccountBalances};
use crate::domain::audit::AuditEvent;
use crate::domain::company::{Company, SingleSignOn};
use crate::domain::credential::CredentialFailures;
use crate::domain::event::EventKind;
use crate::domain::ids::*;
use crate::domain::keyed_answer::KeyedAnswer;
use crate::domain::money::Minor;
use crate::domain::pan_key::PanGenerations;
use crate::domain::posting::StatementLine;
use crate::domain::response_code::ResponseCode;
use crate::domain::transaction::{TransactionKind, TransactionState};
use crate::domain::transaction_tags::TagChanges;
use crate::store::directory::StoredRow;
use crate::store::query::{CardRow, ListPage, Order, Page, TransactionRow};

macro_rules! define_rows {
    ($($rows:ident: $file:ident::$row:ident($($_:ident),+) $(of $id:ident)?, $(;)?)+) => {
        $(use crate::directory::$file::$row;)+

        /// The newest row of each key, by resource.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub(super) struct Rows {
            $(pub(super) $rows: BTreeMap<<$row as StoredRow>::Key, $row>,)+
        }

        impl Rows {
            pub(super) fn put(&mut self, row: DirectoryRow) {
                match row {
                    $(DirectoryRow::$row(row) => drop(self.$rows.insert(row.key(), *row)),)+
                }
            }

            /// Lets go of the rows that are forgotten by `at`.
            pub(super) fn forget(&mut self, at: Timestamp) {
                $(self.$rows.retain(|_, row| row.forgotten_at() > at);)+
            }

            fn retain_remembered(&mut self) {
                $(self.$rows.retain(|_, row| row.is_remembered());)+
            }
        }
    };
}
each_resource!(define_rows);

/// Everything as it stands after the records taken.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Model {
    pub(super) companies: BTreeMap<CompanySlot, Company>,
    pub(super) accounts: BTreeMap<AccountSlot, Account>,
    pub(super) balances: BTreeMap<AccountSlot, AccountBalances>,
    pub(super) rows: Rows,
    pub(super) network_key: Option<[u8; 32]>,
    pub(super) pan_generations: PanGenerations,
    pub(super) cards: BTreeMap<CardSlot, CardRow>,
    attempts: BTreeMap<CardSlot, Vec<Timestamp>>,
    failures: BTreeMap<CardSlot, CredentialFailures>,
    pub(super) transactions: BTreeMap<TransactionSeq, TransactionRow>,
    pub(super) lines: BTreeMap<LineSeq, StatementLine>,
    answers: BTreeMap<u128, RememberedAnswer>,
    early: BTreeMap<(Timestamp, Option<u64>, Option<u64>), EarlyReversal>,
    pub(super) tags: BTreeMap<TransactionSeq, TagChanges>,
    pub(super) sso: BTreeMap<CompanySlot, SingleSignOn>,
    pub(super) keyed_answers: BTreeMap<[u8; 32], KeyedAnswer>,
    pub(super) events: Vec<AuditEvent>,
    /// The transactions that each record made or changed, a record and a transaction once.
    pub(super) log: Vec<(EventKind, TransactionSeq, Timestamp)>,
    /// The number and the sum of decisions, by company, first instant of the quarter and code.
    pub(super) decisions: BTreeMap<(CompanySlot, Timestamp, ResponseCode), (u64, Minor)>,
}

impl Model {
    /// The model after these records.
    pub(super) fn of(records: &[Record]) -> Self {
        let mut model = Self::default();
        for record in records {
            for effect in &record.effects {
                model.apply(effect.clone());
                model.count(effect);
            }
            model.log(record);
            model.answers.retain(|_, answer| answer.expires_at > record.at);
            model.early.retain(|(expires_at, ..), _| *expires_at > record.at);
            model.keyed_answers.retain(|_, answer| answer.expires_at > record.at);
            model.rows.forget(record.at);
        }
        model
    }

    /// Logs the transactions of a record: as made if it made them, even where it changed them too.
    fn log(&mut self, record: &Record) {
        let mut touched = BTreeMap::new();
        for effect in &record.effects {
            let seq = match effect {
                Effect::Transaction(made) => made.record.seq,
                Effect::TransactionProgress(seq, _) | Effect::TransactionTags(seq, _) => *seq,
                Effect::Posting(row) => row.transaction,
                Effect::StatementLine(row) => row.transaction,
                _ => continue,
            };
            let is_made = matches!(effect, Effect::Transaction(..));
            *touched.entry(seq).or_insert(false) |= is_made;
        }
        self.log.extend(touched.into_iter().map(|(seq, is_made)| {
            (if is_made { EventKind::Created } else { EventKind::Updated }, seq, record.at)
        }));
    }

    fn count(&mut self, effect: &Effect) {
        use TransactionKind::{BankTransfer, BankWithdrawal, Refund, Verification};
        let Effect::Transaction(made) = effect else { return };
        let NewTransaction { record: row, progress, .. } = &**made;
        if matches!(row.kind, Refund | BankTransfer | BankWithdrawal) {
            return;
        }
        let quarter = 15 * Timestamp::MINUTE;
        let from = Timestamp(row.authorized_at.0 / quarter * quarter);
        let sum = match row.kind {
            Verification => Minor::ZERO,
            _ if row.response_code.is_approved() && progress.state == TransactionState::Pending => {
                progress.held.total()
            }
            _ => row.requested,
        };
        let counted = self.decisions.entry((row.company, from, row.response_code));
        let (count, total) = counted.or_insert((0, Minor::ZERO));
        *count += 1;
        *total += sum;
    }

    pub(super) fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::Company(row) => drop(self.companies.insert(row.slot, *row)),
            Effect::Account(row) => drop(self.accounts.insert(row.slot, *row)),
            Effect::AccountBalances(slot, row) => drop(self.balances.insert(slot, row)),
            Effect::Row(row) => self.rows.put(row),
            Effect::NetworkKey(digest) => self.network_key = Some(digest),
            Effect::CardIssued(issued) => {
                let IssuedCard { profile, record, sealed_pan } = *issued;
                self.cards.insert(
                    profile.slot,
                    CardRow { profile, record, held: Minor::ZERO, sealed_pan },
                );
            }
            Effect::CardProfile(row) => {
                let slot = row.slot;
                self.card(slot).profile = *row;
            }
            Effect::PanGenerations(row) => self.pan_generations = row,
            Effect::CardNumber(slot, row) => self.card(slot).sealed_pan = row,
            Effect::CardPin(slot, row) => self.card(slot).record.pin = row,
            Effect::CardZip(slot, row) => self.card(slot).record.zip = row,
            Effect::AllowanceTerms(slot, row) => self.card(slot).record.terms = *row,
            Effect::CardUsage(slot, row) => self.card(slot).record.usage = row,
            Effect::CardAttempts(slot, row) => drop(self.attempts.insert(slot, row)),
            Effect::CredentialFailures(slot, row) => drop(self.failures.insert(slot, row)),
            Effect::Transaction(made) => {
                let NewTransaction { record, progress, answer, usage, balances } = *made;
                if let (Some(card), Some(usage)) = (record.card, usage) {
                    self.card(card).record.usage = usage;
                }
                if let Some(card) = record.card {
                    self.card(card).held += progress.held.total();
                }
                if let Some(balances) = balances {
                    self.balances.insert(record.account, balances);
                }
                if let Some(answer) = answer {
                    self.answers.insert(answer.fingerprint.key.0, answer.answer(&record));
                }
                let tags = TagChanges::default();
                let row = TransactionRow { record: Box::new(record), progress, tags };
                self.transactions.insert(row.record.seq, row);
            }
            Effect::TransactionProgress(seq, row) => {
                let transaction = self.transactions.get_mut(&seq).unwrap();
                let added = row.held.total() - transaction.progress.held.total();
                transaction.progress = *row;
                if let Some(card) = transaction.record.card {
                    self.card(card).held += added;
                }
            }
            Effect::StatementLine(row) => drop(self.lines.insert(row.seq, *row)),
            Effect::Answer(row) => drop(self.answers.insert(row.fingerprint.key.0, *row)),
            Effect::EarlyReversal(row) => {
                let EarlyReversal { original_key, retrieval_key, expires_at, .. } = *row;
                let key = (expires_at, original_key.map(|k| k.0), retrieval_key.map(|k| k.0));
                self.early.insert(key, *row);
            }
            Effect::TransactionTags(seq, row) => {
                self.transactions.get_mut(&seq).unwrap().tags.merge(&row);
                self.tags.entry(seq).or_default().merge(&row);
            }
            Effect::CompanySso(slot, Some(row)) => drop(self.sso.insert(slot, *row)),
            Effect::CompanySso(slot, None) => drop(self.sso.remove(&slot)),
            Effect::KeyedAnswer(row) => drop(self.keyed_answers.insert(row.key, *row)),
            Effect::Audit(row) => self.events.push(*row),
            Effect::AuditGroup(group) => self.events.extend(group.events()),
            Effect::Posting(_) | Effect::NetworkLog(_) | Effect::Increment(_) => {}
        }
    }

    fn card(&mut self, slot: CardSlot) -> &mut CardRow {
        self.cards.get_mut(&slot).unwrap()
    }

    /// The part of it that a shard needs after a restart.
    pub(super) fn hot(mut self) -> Self {
        self.transactions.retain(|_, row| row.progress.state != TransactionState::Declined);
        self.lines.clear();
        self.tags.clear();
        self.events.clear();
        self.log.clear();
        self.decisions.clear();
        self.rows.retain_remembered();
        for row in self.transactions.values_mut() {
            row.tags = TagChanges::default();
        }
        self
    }
}

/// A page of `rows`, which come oldest first with the instant they were made at.
pub(super) fn page_of<T: Clone>(rows: &[(Timestamp, T)], page: &Page) -> ListPage<T> {
    let mut fitting: Vec<T> = rows
        .iter()
        .filter(|(at, _)| page.created_after.is_none_or(|after| *at >= after))
        .filter(|(at, _)| page.created_before.is_none_or(|before| *at < before))
        .map(|(_, row)| row.clone())
        .collect();
    if page.order == Order::NewestFirst {
        fitting.reverse();
    }
    let count = fitting.len() as u64;
    ListPage { count, rows: fitting.into_iter().skip(page.offset).take(page.limit).collect() }
}
