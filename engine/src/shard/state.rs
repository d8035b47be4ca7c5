//! Everything a decision can touch, in memory.
//!
//! Cards stand in a dense array, found by index maps; descriptive rows stand beside them for the
//! admin commands. Only `apply.rs` changes any of this.

use std::collections::{BTreeMap, HashMap};

use compact_str::CompactString;

use super::duplicates::{EarlyReversals, RememberedAnswers};
use super::timers::Timers;
use crate::command::network::{CardRef, OriginalRef};
use crate::domain::account::{Account, AccountBalances};
use crate::domain::authorization_id::{AUTHORIZATION_ID_COUNT, sequence_residue_of};
use crate::domain::business_date::DayWindow;
use crate::domain::card::{CardProfile, CardRecord, PanHash};
use crate::domain::company::{Company, CompanyState};
use crate::domain::credential::CredentialFailures;
use crate::domain::ids::{
    AccountId, AccountSlot, AllowanceId, CardId, CardSlot, CompanyId, CompanySlot, LineSeq,
    MemberId, MemberSlot, RecordSeq, Timestamp, TransactionSeq,
};
use crate::domain::member::{AccessToken, Member, MemberState};
use crate::domain::money::{CurrencyAmount, Minor};
use crate::domain::network_key::{AuthorizationId, OriginalKey, RetrievalKey};
use crate::domain::public_id::IdMint;
use crate::domain::transaction::{TransactionKind, TransactionProgress};

/// A company and its current local day.
#[derive(Clone, Debug)]
pub(super) struct CompanyEntry {
    pub(super) company: Company,
    /// The local day of the last record; a cache, derived from it.
    pub(super) day: DayWindow,
}

/// An account and its balances.
#[derive(Clone, Debug)]
pub(super) struct AccountEntry {
    pub(super) account: Account,
    pub(super) balances: AccountBalances,
}

/// What the shard keeps of a transaction that may still change.
#[derive(Clone, Debug)]
pub struct OpenTransaction {
    /// The card, for purchases.
    pub card: Option<CardSlot>,
    /// The account.
    pub account: AccountSlot,
    /// What kind of movement it is.
    pub kind: TransactionKind,
    /// When it was accepted.
    pub authorized_at: Timestamp,
    /// What was asked for, in the account's currency.
    pub requested: Minor,
    /// What the merchant asked for in another currency.
    pub foreign: Option<CurrencyAmount>,
    /// The merchant's name, for statement lines.
    pub merchant_name: CompactString,
    /// How it stands.
    pub progress: TransactionProgress,
}

/// The hot state of one partition.
#[derive(Clone, Debug, Default)]
pub struct ShardState {
    pub(super) last_seq: RecordSeq,
    pub(super) last_at: Timestamp,
    pub(super) last_transaction: TransactionSeq,
    pub(super) last_line: LineSeq,
    pub(super) companies: Vec<CompanyEntry>,
    pub(super) accounts: Vec<AccountEntry>,
    pub(super) members: Vec<Member>,
    pub(super) cards: Vec<CardRecord>,
    pub(super) profiles: Vec<CardProfile>,
    pub(super) tokens: BTreeMap<[u8; 32], AccessToken>,
    pub(super) network_key: Option<[u8; 32]>,
    pub(super) card_by_pan: HashMap<PanHash, CardSlot>,
    pub(super) card_by_id: HashMap<CardId, CardSlot>,
    pub(super) card_by_allowance: HashMap<AllowanceId, CardSlot>,
    pub(super) company_by_id: HashMap<CompanyId, CompanySlot>,
    pub(super) account_by_id: HashMap<AccountId, AccountSlot>,
    pub(super) member_by_id: HashMap<MemberId, MemberSlot>,
    pub(super) attempts: BTreeMap<CardSlot, Vec<Timestamp>>,
    pub(super) failures: BTreeMap<CardSlot, CredentialFailures>,
    pub(super) transactions: HashMap<TransactionSeq, OpenTransaction>,
    pub(super) by_original: HashMap<OriginalKey, TransactionSeq>,
    pub(super) by_retrieval: HashMap<RetrievalKey, TransactionSeq>,
    pub(super) answers: RememberedAnswers,
    pub(super) early_reversals: EarlyReversals,
    pub(super) timers: Timers,
}

impl ShardState {
    /// The last record folded into this state.
    #[must_use]
    pub const fn last_seq(&self) -> RecordSeq {
        self.last_seq
    }

    /// When the last record was accepted.
    #[must_use]
    pub const fn last_at(&self) -> Timestamp {
        self.last_at
    }

    /// When the next timer is due, if any is set.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        self.timers.first().map(|timer| timer.due)
    }

    /// The number of cards.
    #[must_use]
    pub fn card_count(&self) -> usize {
        self.cards.len()
    }

    /// An account's balances. Panics: if there is no such account.
    #[must_use]
    pub fn balances(&self, slot: AccountSlot) -> &AccountBalances {
        &self.account(slot).balances
    }

    /// A transaction that was not declined.
    #[must_use]
    pub fn transaction(&self, seq: TransactionSeq) -> Option<&OpenTransaction> {
        self.transactions.get(&seq)
    }

    /// What decisions read of a card. Its usage is as of its last change.
    /// Panics: if there is no such card.
    #[must_use]
    pub fn card(&self, slot: CardSlot) -> &CardRecord {
        &self.cards[slot.index()]
    }

    pub(super) fn profile(&self, slot: CardSlot) -> &CardProfile {
        &self.profiles[slot.index()]
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
            CardRef::Pan(hash, _) => self.card_by_pan.get(&hash).copied(),
            CardRef::Id(id) => self.card_by_id.get(&id).copied(),
        }
    }

    /// Whether the company, or the member who holds the card, is gone.
    pub(super) fn is_company_closed(&self, card: CardSlot) -> bool {
        let profile = self.profile(card);
        self.company(profile.company).company.state == CompanyState::Closed
            || profile
                .assigned_to
                .is_some_and(|member| self.members[member.index()].state != MemberState::Active)
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
        let by_original = || named.original_key.and_then(|key| self.by_original.get(&key).copied());
        let by_retrieval =
            || named.retrieval_key.and_then(|key| self.by_retrieval.get(&key).copied());
        let seq = by_id.or_else(by_authorization).or_else(by_original).or_else(by_retrieval)?;
        let transaction = self.transactions.get(&seq)?;
        (card.is_none() || transaction.card == card).then_some((seq, transaction))
    }

    fn find_by_authorization_id(
        &self,
        card: CardSlot,
        id: AuthorizationId,
    ) -> Option<TransactionSeq> {
        // The newest sequence number with this id, then older ones a full cycle apart.
        let residue = sequence_residue_of(id)?;
        let newest = self.last_transaction.0;
        let cycles = newest.checked_sub(residue)? / AUTHORIZATION_ID_COUNT;
        (0..=cycles)
            .rev()
            .map(|cycle| TransactionSeq(cycle * AUTHORIZATION_ID_COUNT + residue))
            .find(|seq| self.transactions.get(seq).is_some_and(|found| found.card == Some(card)))
    }

    /// The e-mail addresses of a company's members are unique while they are not deleted.
    pub(super) fn is_email_taken(&self, company: CompanySlot, email: &str) -> bool {
        self.members.iter().any(|member| {
            member.company == company
                && member.state != MemberState::Deleted
                && member.email.eq_ignore_ascii_case(email)
        })
    }

    /// The sum of open holds over all transactions of an account, whatever their state.
    #[must_use]
    pub fn open_holds(&self, account: AccountSlot) -> Minor {
        let of_account = self.transactions.values().filter(|found| found.account == account);
        of_account.map(|found| found.progress.held.total()).sum()
    }
}
