//! Every table of the store and its keys, on one page.
//!
//! Rows are keyed by slot or sequence number; a row's bytes are a version byte and the encoded
//! value (`rows`). Indexes lead from an id or a filter to such keys. Keys compare number by number,
//! so a range over the leading parts is a list in creation order.
//!
//! | table | key | value |
//! |---|---|---|
//! | meta | name | format, directory, checkpoint, network key |
//! | companies, accounts, account_balances, members | slot | row |
//! | access_tokens | SHA-256 of the token | row |
//! | card_profiles, card_bases, card_pins, card_zips, allowance_terms, card_usages | card slot | row |
//! | card_attempts, credential_failures | card slot | row |
//! | transactions, transaction_progress | transaction sequence | row |
//! | postings | transaction sequence, record sequence, place in the record | row |
//! | statement_lines | line sequence | row |
//! | answers | duplicate key | row |
//! | network_log | record sequence, place in the record | row |
//! | early_reversals | end, original key, retrieval key | - |
//! | company_ids, account_ids, member_ids, card_ids, allowance_ids | id | slot |
//! | pan_hashes | keyed hash | card slot |
//! | member_emails | company, lower-cased address | member slot; without deleted members |
//! | company_accounts | company, account | - |
//! | company_cards | company, card | place in the company's list, from 1 |
//! | card_marks | kind, member or dimension, card | -; as the profile stands |
//! | transaction_lists | kind, company, card, member or dimension, transaction | place in that list, from 1 |
//! | account_lines | account, number | line sequence |
//! | answer_ends | end, duplicate key | - |
//!
//! INVARIANT: what is in a transaction list or a company's cards never leaves it and arrives in
//! order, so the difference of two places is an exact count.

use std::marker::PhantomData;

use redb::{Key, TableDefinition};

use super::rows::CardBase;
use crate::command::effect::{NetworkLogEntry, RememberedAnswer};
use crate::domain::account::{Account, AccountBalances};
use crate::domain::allowance::{AllowanceTerms, CardUsage};
use crate::domain::card::CardProfile;
use crate::domain::company::Company;
use crate::domain::credential::{CredentialFailures, PackedZip, PinVerifier};
use crate::domain::ids::Timestamp;
use crate::domain::member::{AccessToken, Member};
use crate::domain::posting::{Posting, StatementLine};
use crate::domain::transaction::{TransactionProgress, TransactionRecord};

/// The version of this page: key layouts and row types together.
pub(super) const STORE_FORMAT: u32 = 1;

/// A table whose values are encoded rows of one type.
pub(super) struct RowTable<K, T> {
    name: &'static str,
    row: PhantomData<fn() -> (K, T)>,
}

impl<K: Key + 'static, T> RowTable<K, T> {
    const fn new(name: &'static str) -> Self {
        Self { name, row: PhantomData }
    }

    /// The table's name.
    pub(super) const fn name(&self) -> &'static str {
        self.name
    }

    /// The table as redb opens it.
    pub(super) const fn definition(&self) -> TableDefinition<'static, K, &'static [u8]> {
        TableDefinition::new(self.name)
    }
}

pub(super) const META: TableDefinition<&str, &[u8]> = TableDefinition::new("meta");
pub(super) const META_FORMAT: &str = "format";
pub(super) const META_DIRECTORY: &str = "directory";
pub(super) const META_CHECKPOINT: &str = "checkpoint";
pub(super) const META_NETWORK_KEY: &str = "network_key";

/// Place of a posting or log entry: the record that wrote it and which of its effects it is.
pub(super) type RecordPlace = (u64, u32);
/// A posting: its transaction, then its place.
pub(super) type PostingKey = (u64, u64, u32);
/// An early reversal: when it ends and how the purchase may be named.
pub(super) type EarlyReversalKey = (i64, Option<u64>, Option<u64>);
/// A card under a mark: kind of mark, member or dimension, card.
pub(super) type CardMarkKey = (u8, u128, u32);
/// A transaction in a list: kind of list, whose list, transaction.
pub(super) type ListedKey = (u8, u128, u64);

macro_rules! rows {
    ($($name:ident: $key:ty => $row:ty = $text:literal;)*) => {
        $(pub(super) const $name: RowTable<$key, $row> = RowTable::new($text);)*

        macro_rules! each_row_table {
            ($visit:ident) => { $($visit!($name);)* };
        }
    };
}

rows! {
    COMPANIES: u32 => Company = "companies";
    ACCOUNTS: u32 => Account = "accounts";
    ACCOUNT_BALANCES: u32 => AccountBalances = "account_balances";
    MEMBERS: u32 => Member = "members";
    ACCESS_TOKENS: [u8; 32] => AccessToken = "access_tokens";
    CARD_PROFILES: u32 => CardProfile = "card_profiles";
    CARD_BASES: u32 => CardBase = "card_bases";
    CARD_PINS: u32 => PinVerifier = "card_pins";
    CARD_ZIPS: u32 => PackedZip = "card_zips";
    ALLOWANCE_TERMS: u32 => AllowanceTerms = "allowance_terms";
    CARD_USAGES: u32 => CardUsage = "card_usages";
    CARD_ATTEMPTS: u32 => Vec<Timestamp> = "card_attempts";
    CREDENTIAL_FAILURES: u32 => CredentialFailures = "credential_failures";
    TRANSACTIONS: u64 => TransactionRecord = "transactions";
    TRANSACTION_PROGRESS: u64 => TransactionProgress = "transaction_progress";
    POSTINGS: PostingKey => Posting = "postings";
    STATEMENT_LINES: u64 => StatementLine = "statement_lines";
    ANSWERS: u128 => RememberedAnswer = "answers";
    NETWORK_LOG: RecordPlace => NetworkLogEntry = "network_log";
}

macro_rules! indexes {
    ($($name:ident: $key:ty => $value:ty = $text:literal;)*) => {
        $(pub(super) const $name: TableDefinition<$key, $value> = TableDefinition::new($text);)*

        macro_rules! each_index {
            ($visit:ident) => { $($visit!($name);)* };
        }
    };
}

indexes! {
    EARLY_REVERSALS: EarlyReversalKey => () = "early_reversals";
    COMPANY_IDS: u128 => u32 = "company_ids";
    ACCOUNT_IDS: u128 => u32 = "account_ids";
    MEMBER_IDS: u128 => u32 = "member_ids";
    CARD_IDS: u128 => u32 = "card_ids";
    ALLOWANCE_IDS: u128 => u32 = "allowance_ids";
    PAN_HASHES: u64 => u32 = "pan_hashes";
    MEMBER_EMAILS: (u32, &str) => u32 = "member_emails";
    COMPANY_ACCOUNTS: (u32, u32) => () = "company_accounts";
    COMPANY_CARDS: (u32, u32) => u64 = "company_cards";
    CARD_MARKS: CardMarkKey => () = "card_marks";
    TRANSACTION_LISTS: ListedKey => u64 = "transaction_lists";
    ACCOUNT_LINES: (u32, u64) => u64 = "account_lines";
    ANSWER_ENDS: (i64, u128) => () = "answer_ends";
}

#[cfg(test)]
pub(super) use {each_index, each_row_table};

/// Makes every table, so that readers find them all from the first moment.
pub(super) fn create_all(write_txn: &redb::WriteTransaction) -> Result<(), redb::TableError> {
    macro_rules! create_rows {
        ($name:ident) => {
            write_txn.open_table($name.definition())?;
        };
    }
    macro_rules! create_index {
        ($name:ident) => {
            write_txn.open_table($name)?;
        };
    }
    write_txn.open_table(META)?;
    each_row_table!(create_rows);
    each_index!(create_index);
    Ok(())
}

/// The lists a transaction is in, and the marks a card is found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ListKey {
    /// What kind of list.
    pub(super) kind: u8,
    /// Whose list.
    pub(super) owner: u128,
}

impl ListKey {
    /// What belongs to a company.
    pub(super) fn company(slot: crate::domain::ids::CompanySlot) -> Self {
        Self { kind: 0, owner: u128::from(slot.0) }
    }

    /// What was done with a card.
    pub(super) fn card(slot: crate::domain::ids::CardSlot) -> Self {
        Self { kind: 1, owner: u128::from(slot.0) }
    }

    /// What a member holds or did.
    pub(super) fn member(slot: crate::domain::ids::MemberSlot) -> Self {
        Self { kind: 2, owner: u128::from(slot.0) }
    }

    /// What carries these dimensions, one list for each that is set.
    pub(super) fn dimensions(
        dimensions: &crate::domain::card::Dimensions,
    ) -> impl Iterator<Item = Self> + '_ {
        (3..).zip(dimensions).filter_map(|(kind, dimension)| {
            dimension.map(|dimension| Self { kind, owner: dimension.0.as_u128() })
        })
    }
}
