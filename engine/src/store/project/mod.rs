//! The projection: records of the journal become rows. The only writer of the tables.
//!
//! Effects are after-images, so the last one at a key stands for all before it. A projection
//! gathers a run of records in memory, one value a key, and writes it at once: what an
//! authorization changes every time (usage, balances, progress) costs one write a run.
//!
//! INVARIANT: writing a run equals writing its records one by one, and writing it twice equals
//! writing it once.

mod indexes;
mod write;

pub(in crate::store) use indexes::email_key;
pub use write::ChainPlace;

use std::collections::{BTreeMap, BTreeSet};

use super::checkpoint::Checkpoint;
use super::rows::CardBase;
use super::tables::{EarlyReversalKey, PostingKey, RecordPlace};
use crate::command::effect::{Effect, IssuedCard, NetworkLogEntry, RememberedAnswer};
use crate::command::record::Record;
use crate::domain::account::{Account, AccountBalances};
use crate::domain::allowance::{AllowanceTerms, CardUsage};
use crate::domain::card::CardProfile;
use crate::domain::company::Company;
use crate::domain::credential::{CredentialFailures, PackedZip, PinVerifier};
use crate::domain::ids::{LineSeq, RecordSeq, Timestamp, TransactionSeq};
use crate::domain::member::{AccessToken, Member};
use crate::domain::posting::{Posting, StatementLine};
use crate::domain::transaction::{TransactionProgress, TransactionRecord};

/// A run of records on its way into the tables.
#[derive(Debug, Default)]
pub struct Projection {
    companies: BTreeMap<u32, Company>,
    accounts: BTreeMap<u32, Account>,
    account_balances: BTreeMap<u32, AccountBalances>,
    members: BTreeMap<u32, Member>,
    access_tokens: BTreeMap<[u8; 32], AccessToken>,
    network_key: Option<[u8; 32]>,
    card_profiles: BTreeMap<u32, CardProfile>,
    card_bases: BTreeMap<u32, CardBase>,
    card_pins: BTreeMap<u32, PinVerifier>,
    card_zips: BTreeMap<u32, PackedZip>,
    allowance_terms: BTreeMap<u32, AllowanceTerms>,
    card_usages: BTreeMap<u32, CardUsage>,
    card_attempts: BTreeMap<u32, Vec<Timestamp>>,
    credential_failures: BTreeMap<u32, CredentialFailures>,
    transactions: BTreeMap<u64, TransactionRecord>,
    transaction_progress: BTreeMap<u64, TransactionProgress>,
    postings: BTreeMap<PostingKey, Posting>,
    statement_lines: BTreeMap<u64, StatementLine>,
    answers: BTreeMap<u128, RememberedAnswer>,
    early_reversals: BTreeSet<EarlyReversalKey>,
    network_log: BTreeMap<RecordPlace, NetworkLogEntry>,
    applied_seq: RecordSeq,
    applied_at: Option<Timestamp>,
    records: u64,
}

impl Projection {
    /// How many records were taken.
    #[must_use]
    pub const fn records(&self) -> u64 {
        self.records
    }

    /// Takes a record; records come in journal order.
    pub fn project(&mut self, record: Record) {
        assert!(record.seq > self.applied_seq, "records come in journal order");
        for (place, effect) in (0..).zip(record.effects) {
            self.project_effect((record.seq.0, place), effect);
        }
        self.applied_seq = record.seq;
        self.applied_at = self.applied_at.max(Some(record.at));
        self.records += 1;
    }

    fn project_effect(&mut self, place: RecordPlace, effect: Effect) {
        match effect {
            Effect::Company(row) => put(&mut self.companies, row.slot.0, *row),
            Effect::Account(row) => put(&mut self.accounts, row.slot.0, *row),
            Effect::AccountBalances(slot, row) => put(&mut self.account_balances, slot.0, row),
            Effect::Member(row) => put(&mut self.members, row.slot.0, *row),
            Effect::AccessToken(row) => put(&mut self.access_tokens, row.digest, *row),
            Effect::NetworkKey(digest) => self.network_key = Some(digest),
            Effect::CardIssued(issued) => self.project_card(*issued),
            Effect::CardProfile(row) => put(&mut self.card_profiles, row.slot.0, *row),
            Effect::CardPin(slot, row) => put(&mut self.card_pins, slot.0, row),
            Effect::CardZip(slot, row) => put(&mut self.card_zips, slot.0, row),
            Effect::AllowanceTerms(slot, row) => put(&mut self.allowance_terms, slot.0, *row),
            Effect::CardUsage(slot, row) => put(&mut self.card_usages, slot.0, row),
            Effect::CardAttempts(slot, row) => put(&mut self.card_attempts, slot.0, row),
            Effect::CredentialFailures(slot, row) => {
                put(&mut self.credential_failures, slot.0, row);
            }
            Effect::Transaction(row, progress) => {
                put(&mut self.transaction_progress, row.seq.0, *progress);
                put(&mut self.transactions, row.seq.0, *row);
            }
            Effect::TransactionProgress(seq, row) => {
                put(&mut self.transaction_progress, seq.0, *row);
            }
            Effect::Posting(row) => {
                put(&mut self.postings, (row.transaction.0, place.0, place.1), row);
            }
            Effect::StatementLine(row) => put(&mut self.statement_lines, row.seq.0, *row),
            Effect::Answer(row) => put(&mut self.answers, row.fingerprint.key.0, *row),
            Effect::EarlyReversal(row) => {
                let original = row.original_key.map(|key| key.0);
                let retrieval = row.retrieval_key.map(|key| key.0);
                self.early_reversals.insert((row.expires_at.0, original, retrieval));
            }
            Effect::NetworkLog(row) => put(&mut self.network_log, place, *row),
        }
    }

    fn project_card(&mut self, issued: IssuedCard) {
        let slot = issued.profile.slot.0;
        put(&mut self.card_bases, slot, CardBase::of(&issued));
        put(&mut self.card_pins, slot, issued.record.pin);
        put(&mut self.card_zips, slot, issued.record.zip);
        put(&mut self.allowance_terms, slot, issued.record.terms);
        put(&mut self.card_usages, slot, issued.record.usage);
        put(&mut self.card_profiles, slot, issued.profile);
    }

    /// The checkpoint after this run, less its place in the chain, which only the journal knows.
    fn advance(&self, checkpoint: &mut Checkpoint) {
        let last_transaction = self.transactions.keys().next_back().copied().map(TransactionSeq);
        let last_line = self.statement_lines.keys().next_back().copied().map(LineSeq);
        checkpoint.applied_seq = checkpoint.applied_seq.max(self.applied_seq);
        checkpoint.applied_at =
            self.applied_at.map_or(checkpoint.applied_at, |at| at.max(checkpoint.applied_at));
        checkpoint.last_transaction =
            checkpoint.last_transaction.max(last_transaction.unwrap_or_default());
        checkpoint.last_line = checkpoint.last_line.max(last_line.unwrap_or_default());
    }
}

fn put<K: Ord, T>(rows: &mut BTreeMap<K, T>, key: K, row: T) {
    rows.insert(key, row);
}
