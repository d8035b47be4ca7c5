//! The state that decisions read and change, in memory.
//!
//! Cards (`cards`) and transactions (`transactions`) stand in dense arrays, found by indexes of
//! their own; rows that only admin commands read are beside them. Only `apply.rs` changes any of
//! this.

use std::collections::{BTreeMap, HashMap};

use super::cards::Cards;
use super::duplicates::{AnswerPlace, CandidateAnswers, DuplicateCheck, Messages, NewestNumbers};
use super::early_reversals::EarlyReversals;
use super::keyed_answers::KeyedAnswers;
use super::open_transaction::OpenTransaction;
use super::recall::CacheState;
use super::recent_changes::RecentChanges;
use super::timers::Timers;
use super::transactions::{PurchaseKey, Transactions};
use crate::command::network::{CardRef, OriginalRef};
use crate::directory::Directory;
use crate::directory::member::MemberState;
use crate::domain::account::{Account, AccountBalances};
use crate::domain::authorization_id::{AUTHORIZATION_ID_COUNT, sequence_residue_of};
use crate::domain::business_date::DayWindow;
use crate::domain::card::CardRecord;
use crate::domain::company::{Company, SingleSignOn, VelocityLimits};
use crate::domain::credential::CredentialFailures;
use crate::domain::hold_table::HoldTable;
use crate::domain::ids::{
    AccountId, AccountSlot, CardSlot, CompanyId, CompanySlot, LineSeq, RecordSeq, Timestamp,
    TransactionSeq,
};
use crate::domain::money::{CurrencyCode, Minor};
use crate::domain::network_key::{AuthorizationId, Fingerprint, RetrievalKey};
use crate::domain::pan_key::PanGenerations;
use crate::domain::public_id::IdMint;

/// A company and its current local day.
#[derive(Clone, Debug)]
pub(super) struct CompanyEntry {
    /// The local day of the last record; a cache, derived from it.
    pub(super) day: DayWindow,
    /// The company's velocity limits, for decisions; copies of its own.
    pub(super) velocity: VelocityLimits,
    /// The lifetimes of its holds; a copy, too.
    pub(super) hold_table: HoldTable,
    /// Whether it does no business: closed, or not approved yet.
    pub(super) is_closed: bool,
    pub(super) company: Box<Company>,
}

/// An account and its balances: one cache line serves a purchase.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(super) struct AccountEntry {
    pub(super) balances: AccountBalances,
    /// Copies of the account's own.
    pub(super) credit_limit: Minor,
    pub(super) currency: CurrencyCode,
    pub(super) company: CompanySlot,
    pub(super) account: Box<Account>,
}

const _: () = assert!(size_of::<AccountEntry>() == 64);

/// The hot state of one partition.
#[derive(Clone, Debug, Default)]
pub struct ShardState {
    pub(super) last_seq: RecordSeq,
    pub(super) last_at: Timestamp,
    pub(super) last_transaction: TransactionSeq,
    pub(super) last_line: LineSeq,
    pub(super) companies: Vec<CompanyEntry>,
    pub(super) accounts: Vec<AccountEntry>,
    pub(super) directory: Directory,
    /// The first instant at which the day of any company is over.
    pub(super) days_end_at: Timestamp,
    pub(super) cards: Cards,
    pub(super) network_key: Option<[u8; 32]>,
    pub(super) pan_generations: PanGenerations,
    pub(super) company_by_id: HashMap<CompanyId, CompanySlot>,
    pub(super) account_by_id: HashMap<AccountId, AccountSlot>,
    pub(super) attempts: BTreeMap<CardSlot, Vec<Timestamp>>,
    pub(super) failures: BTreeMap<CardSlot, CredentialFailures>,
    pub(super) transactions: Transactions,
    pub(super) messages: Messages,
    pub(super) early_reversals: EarlyReversals,
    pub(super) single_sign_on: BTreeMap<CompanySlot, SingleSignOn>,
    pub(super) keyed_answers: KeyedAnswers,
    pub(super) timers: Timers,
    /// The caching of a shard that does not keep all of the past in memory.
    pub(super) caching: Option<CacheState>,
    /// The newest changes of objects; live only, and no part of the logical state.
    pub(super) recent_changes: RecentChanges,
}

impl ShardState {
    /// The last record folded into this state.
    pub const fn last_seq(&self) -> RecordSeq {
        self.last_seq
    }

    /// The instant when the last record was accepted.
    pub const fn last_at(&self) -> Timestamp {
        self.last_at
    }

    /// The instant when the next timer is due, if any is set.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.timers.first().map(|timer| timer.due)
    }

    /// The number of cards.
    pub fn card_count(&self) -> usize {
        self.cards.len()
    }

    /// Rows that people set up around cards.
    pub const fn directory(&self) -> &Directory {
        &self.directory
    }

    /// The cards.
    pub const fn cards(&self) -> &Cards {
        &self.cards
    }

    /// An account's balances. Panics: if there is no such account.
    pub fn balances(&self, slot: AccountSlot) -> &AccountBalances {
        &self.account(slot).balances
    }

    /// A transaction that was not declined, where it is in memory.
    pub fn transaction(&self, seq: TransactionSeq) -> Option<&OpenTransaction> {
        self.transactions.get_open(seq)
    }

    /// The part of a card that decisions read. Its usage is that of its last change.
    /// Panics: if there is no such card.
    pub fn card(&self, slot: CardSlot) -> &CardRecord {
        self.cards.record(slot)
    }

    pub(super) fn account(&self, slot: AccountSlot) -> &AccountEntry {
        &self.accounts[slot.index()]
    }

    pub(super) fn company(&self, slot: CompanySlot) -> &CompanyEntry {
        &self.companies[slot.index()]
    }

    /// The local day of a company at the instant `at`.
    pub(super) fn day_at(&self, company: CompanySlot, at: Timestamp) -> DayWindow {
        let entry = self.company(company);
        if entry.day.contains(at) {
            entry.day
        } else {
            DayWindow::containing(entry.company.zone, at)
        }
    }

    pub(super) fn find_card(&self, card: CardRef) -> Option<CardSlot> {
        match card {
            CardRef::Pan(hash, _) => self.cards.find_by_pan(hash),
            CardRef::Id(id) => self.cards.find_by_id(id),
        }
    }

    /// Whether the company, or the member who holds the card, is gone.
    pub(super) fn is_company_closed(&self, card: CardSlot) -> bool {
        let head = self.cards.head(card);
        self.company(head.company).is_closed
            || head.assigned_to().is_some_and(|member| {
                self.directory.members.get(member).state != MemberState::Active
            })
    }

    /// Finds the transaction a message names; a card, where given, must be the transaction's.
    pub(super) fn find_original(
        &self,
        ids: &IdMint,
        card: Option<CardSlot>,
        named: &OriginalRef,
    ) -> Option<(TransactionSeq, &OpenTransaction)> {
        let by_id = named.transaction.and_then(|id| ids.open_transaction_id(id));
        let by_authorization =
            || named.authorization_id.and_then(|id| self.find_by_authorization_id(card?, id));
        let by_original = || self.find_by_key(PurchaseKey::Original(named.original_key?));
        let by_retrieval = || self.find_by_key(PurchaseKey::Retrieval(named.retrieval_key?));
        let seq = by_id.or_else(by_authorization).or_else(by_original).or_else(by_retrieval)?;
        let transaction = self.transaction(seq)?;
        (card.is_none() || transaction.card == card).then_some((seq, transaction))
    }

    fn find_by_key(&self, key: PurchaseKey) -> Option<TransactionSeq> {
        let newest = self.transactions.find_by_key(key);
        if let Some((seq, _)) = newest.filter(|found| !found.1.yields_marks()) {
            return Some(seq);
        }
        // It takes no key over: the older purchase in the tables keeps it.
        let older = self.in_tables(key).filter(|seq| self.transaction(*seq).is_some());
        older.or(newest.map(|found| found.0))
    }

    /// Whether a transaction has this reference, declined or not.
    pub(super) fn is_known_reference(&self, key: RetrievalKey) -> bool {
        let (name, ring) = (PurchaseKey::Retrieval(key), &self.transactions);
        let is_in_ring = ring.find_by_key(name).is_some() || ring.has_declined(key);
        is_in_ring || self.in_tables(name).is_some()
    }

    /// The transaction that the tables have under a key, for the command at hand.
    fn in_tables(&self, key: PurchaseKey) -> Option<TransactionSeq> {
        self.caching.as_ref()?.purchase(key)
    }

    /// The verdict on a message: whether it, or another one under its trace, was answered.
    pub(super) fn known_message(&self, fingerprint: &Fingerprint, at: Timestamp) -> DuplicateCheck {
        let mut comparison = CandidateAnswers::default();
        self.messages.each_place(fingerprint, &self.newest(), |place| {
            let answer = match place {
                AnswerPlace::Transaction(seq) => {
                    self.transactions.get(seq).and_then(|open| open.remembered_answer(seq))
                }
                AnswerPlace::Record(seq) => self.messages.answer_at(seq).cloned(),
            };
            if let Some(answer) = answer {
                comparison.add(fingerprint, at, answer);
            }
        });
        for (_, answer) in self.caching.iter().flat_map(CacheState::answers) {
            comparison.add(fingerprint, at, answer.clone());
        }
        comparison.known(fingerprint)
    }

    /// The newest numbers given out.
    pub(super) const fn newest(&self) -> NewestNumbers {
        NewestNumbers { transaction: self.last_transaction, record: self.last_seq }
    }

    fn find_by_authorization_id(
        &self,
        card: CardSlot,
        id: AuthorizationId,
    ) -> Option<TransactionSeq> {
        self.sequences_of(id)
            .find(|seq| self.transaction(*seq).is_some_and(|found| found.card == Some(card)))
    }

    /// The transactions with this authorization id, a full cycle apart, the newest first.
    pub(super) fn sequences_of(
        &self,
        id: AuthorizationId,
    ) -> impl Iterator<Item = TransactionSeq> + use<> {
        let residue = sequence_residue_of(id);
        let newest = self.last_transaction.0;
        let cycles = residue.and_then(|residue| {
            Some((residue, newest.checked_sub(residue)? / AUTHORIZATION_ID_COUNT))
        });
        cycles.into_iter().flat_map(|(residue, cycles)| {
            let seq = move |cycle| TransactionSeq(cycle * AUTHORIZATION_ID_COUNT + residue);
            (0..=cycles).rev().map(seq)
        })
    }

    /// The sum of open holds over all transactions of an account, whatever their state.
    pub fn open_holds(&self, account: AccountSlot) -> Minor {
        let of_account = self.transactions.iter().filter(|found| found.1.account == account);
        of_account.map(|found| found.1.progress.held.total()).sum()
    }
}
