//! Every table of the store and its keys, on one page.
//!
//! Tables that grow with history consist of blocks (`blocks`), pages (`numbers`) and runs (`runs`);
//! tables that grow with the organization, of rows. Every value carries a sum of its own. Indexes
//! lead from an id or a filter to keys. Keys compare number by number, so a range over the leading
//! parts is a list in creation order.
//!
//! | table | key | value |
//! |---|---|---|
//! | meta | name | format, directory, checkpoint, numbers, commit, network key |
//! | companies, accounts, account_balances | slot | row |
//! | members, users and the others of `each_resource!` | slot | row: see `directory` |
//! | access_tokens, tickets | SHA-256 of the secret | row: see `directory` |
//! | the same with `_entries` | index, key, slot or instant and SHA-256 | -; see `directory::entry` |
//! | cards | card slot | CRC32C, packed card |
//! | card_usages | card slot / 90 | page of usages and holds: see `numbers` |
//! | card_attempts, credential_failures | card slot | row |
//! | transaction_blocks | last transaction sequence | block of packed transactions |
//! | transaction_changes | transaction sequence | CRC32C, packed progress; where it is newer than the block's |
//! | increments | transaction sequence, record sequence | CRC32C, packed decision |
//! | line_blocks | last line sequence | block of packed statement lines |
//! | posting_blocks | last posting, counted from 1 | block of packed postings |
//! | answers | record sequence | row; answers that no transaction's row says |
//! | network_log | record sequence, place in the record | row |
//! | moved_holds | end, transaction sequence | -; holds that may end otherwise than their lifetime after they were made |
//! | early_reversals | end, original key, retrieval key | row: card slot, if it names one, and what it gives back |
//! | company_ids, account_ids, card_ids, allowance_ids | id | slot |
//! | pan_hashes | keyed hash | card slot |
//! | company_accounts | company, account | - |
//! | company_cards | company, card | place in the company's list, from 1 |
//! | card_marks | kind, member, dimension or last four digits, card | -; as the profile stands |
//! | transaction_tags | transaction sequence | row: what was changed by hand |
//! | company_sso | company | row |
//! | keyed_answers | keyed hash of an idempotency key | row |
//! | keyed_answer_ends | end, keyed hash | - |
//! | audit_events | company, or 2^32 - 1 for none; number from 1 | row |
//! | audit_marks | company, kind, id of an actor or object, number | - |
//! | event_blocks | first event number | CRC32C, packed events: see `events` |
//! | day_figures | account, quarter hours since 1970 | what was decided: see `figures` |
//! | tag_moves | dimension, transaction sequence | whether it was put on by hand, or taken off |
//! | state_pages | company, class, level, number | transactions and cards by their state: see `sets` |
//! | run_chunks, run_lists | | lists of transactions and lines, network keys: see `runs` |
//!
//! The mark of a transaction's row in its block says that its record moved what was requested from
//! the account's funds to its holds; that posting stands nowhere else.
//!
//! INVARIANT: what is in a transaction list or a company's cards never leaves it and arrives in
//! order, so the difference of two places is an exact count.

use std::marker::PhantomData;

use redb::{Key, ReadableTable, TableDefinition};

use super::blocks::BlockTable;
use super::directory::{RESOURCE_TABLES, SECRET_TABLES};
use super::error::StoreError;
use super::runs::{self, RunKind};
use super::sets::SetKey;
use crate::command::effect::{NetworkLogEntry, RememberedAnswer};
use crate::command::network::ReversalAmount;
use crate::domain::account::{Account, AccountBalances};
use crate::domain::audit::AuditEvent;
use crate::domain::card::Dimensions;
use crate::domain::company::{Company, SingleSignOn};
use crate::domain::credential::CredentialFailures;
use crate::domain::ids::{CardSlot, Timestamp};
use crate::domain::keyed_answer::KeyedAnswer;
use crate::domain::transaction_tags::TagChanges;

/// The version of this page: key layouts and row types together.
pub(super) const STORE_FORMAT: u32 = 1;

/// A table whose values are encoded rows of one type.
pub(super) struct RowTable<K, T> {
    name: &'static str,
    row: PhantomData<fn() -> (K, T)>,
}

impl<K: Key + 'static, T> RowTable<K, T> {
    pub(super) const fn new(name: &'static str) -> Self {
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

/// A value that a packed layout gives, not a row of `rows`.
pub(super) enum PackedLayout {}

pub(super) const META: TableDefinition<&str, &[u8]> = TableDefinition::new("meta");
pub(super) const META_FORMAT: &str = "format";
pub(super) const META_DIRECTORY: &str = "directory";
pub(super) const META_CHECKPOINT: &str = "checkpoint";
/// The record as of which usages and balances stand in their tables.
pub(super) const META_NUMBERS: &str = "numbers";
/// The number of commits: each state in memory belongs to one of them.
pub(super) const META_COMMIT: &str = "commit";
/// The note about late holds; absent where none is.
pub(super) const META_LATE_HOLDS: &str = "late_holds";
pub(super) const META_NETWORK_KEY: &str = "network_key";
/// The generations of the key of card numbers that are of use; 0 alone where there is none.
pub(super) const META_PAN_GENERATIONS: &str = "pan_generations";

/// Place of a log entry: the record that wrote it and which of its effects it is.
pub(super) type RecordPlace = (u64, u32);
/// An increment: its purchase, and the record that decided it.
pub(super) type IncrementKey = (u64, u64);
/// An early reversal: its end, and the two keys of the message it may name.
pub(super) type EarlyReversalKey = (i64, Option<u64>, Option<u64>);
/// The rest of an early reversal: its card, and what it gives back.
pub(super) type StoredReversal = (Option<CardSlot>, ReversalAmount);
/// A card under a mark: kind of mark, owner, card.
pub(super) type CardMarkKey = (u8, u128, u32);
/// An event under a mark: company, kind of mark, actor or object, number.
pub(super) type AuditMarkKey = (u32, u8, u128, u64);
/// An answer and when it was given.
pub(super) type StoredAnswer = (Timestamp, RememberedAnswer);

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
    CARDS: u32 => PackedLayout = "cards";
    CARD_USAGES: u32 => PackedLayout = "card_usages";
    CARD_ATTEMPTS: u32 => Vec<Timestamp> = "card_attempts";
    CREDENTIAL_FAILURES: u32 => CredentialFailures = "credential_failures";
    TRANSACTION_CHANGES: u64 => PackedLayout = "transaction_changes";
    INCREMENTS: IncrementKey => PackedLayout = "increments";
    ANSWERS: u64 => StoredAnswer = "answers";
    NETWORK_LOG: RecordPlace => NetworkLogEntry = "network_log";
    EARLY_REVERSALS: EarlyReversalKey => StoredReversal = "early_reversals";
    TRANSACTION_TAGS: u64 => TagChanges = "transaction_tags";
    COMPANY_SSO: u32 => SingleSignOn = "company_sso";
    KEYED_ANSWERS: [u8; 32] => KeyedAnswer = "keyed_answers";
    AUDIT_EVENTS: (u32, u64) => AuditEvent = "audit_events";
    EVENT_BLOCKS: u64 => PackedLayout = "event_blocks";
    DAY_FIGURES: (u32, u32) => PackedLayout = "day_figures";
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
    MOVED_HOLDS: (i64, u64) => () = "moved_holds";
    COMPANY_IDS: u128 => u32 = "company_ids";
    ACCOUNT_IDS: u128 => u32 = "account_ids";
    CARD_IDS: u128 => u32 = "card_ids";
    ALLOWANCE_IDS: u128 => u32 = "allowance_ids";
    PAN_HASHES: u64 => u32 = "pan_hashes";
    COMPANY_ACCOUNTS: (u32, u32) => () = "company_accounts";
    COMPANY_CARDS: (u32, u32) => u64 = "company_cards";
    CARD_MARKS: CardMarkKey => () = "card_marks";
    KEYED_ANSWER_ENDS: (i64, [u8; 32]) => () = "keyed_answer_ends";
    TAG_MOVES: (u128, u64) => bool = "tag_moves";
    AUDIT_MARKS: AuditMarkKey => () = "audit_marks";
    STATE_PAGES: SetKey => &[u8] = "state_pages";
}

pub(super) const TRANSACTION_BLOCKS: BlockTable = TableDefinition::new("transaction_blocks");
pub(super) const LINE_BLOCKS: BlockTable = TableDefinition::new("line_blocks");
pub(super) const POSTING_BLOCKS: BlockTable = TableDefinition::new("posting_blocks");

/// Every table of blocks.
pub(super) const BLOCKS: [BlockTable; 3] = [TRANSACTION_BLOCKS, LINE_BLOCKS, POSTING_BLOCKS];

#[cfg(test)]
pub(super) use {each_index, each_row_table};

trait TableVisitor {
    fn visit<K: Key + 'static, V: redb::Value + 'static>(
        &self,
        table: TableDefinition<'static, K, V>,
    ) -> Result<(), StoreError>;
}

fn each_table(visitor: &impl TableVisitor) -> Result<(), StoreError> {
    macro_rules! visit_rows {
        ($name:ident) => {
            visitor.visit($name.definition())?;
        };
    }
    macro_rules! visit_index {
        ($name:ident) => {
            visitor.visit($name)?;
        };
    }
    visitor.visit(META)?;
    each_row_table!(visit_rows);
    each_index!(visit_index);
    for (rows, entries) in RESOURCE_TABLES {
        visitor.visit(*rows)?;
        visitor.visit(*entries)?;
    }
    for (rows, entries) in SECRET_TABLES {
        visitor.visit(*rows)?;
        visitor.visit(*entries)?;
    }
    for blocks in BLOCKS {
        visitor.visit(blocks)?;
    }
    visitor.visit(runs::RUN_CHUNKS)?;
    visitor.visit(runs::RUN_LISTS)
}

/// Makes every table, so that readers find them all from the first moment.
pub(super) fn create_all(write_txn: &redb::WriteTransaction) -> Result<(), StoreError> {
    each_table(write_txn)
}

impl TableVisitor for redb::WriteTransaction {
    fn visit<K: Key + 'static, V: redb::Value + 'static>(
        &self,
        table: TableDefinition<'static, K, V>,
    ) -> Result<(), StoreError> {
        self.open_table(table)?;
        Ok(())
    }
}

/// Copies every table of `from` into `to`, a database without any, one commit a table.
/// Cost: reads and writes all of them.
pub(super) fn copy_all(
    from: &redb::ReadTransaction,
    to: &redb::Database,
) -> Result<(), StoreError> {
    each_table(&TableCopy { from, to })
}

struct TableCopy<'a> {
    from: &'a redb::ReadTransaction,
    to: &'a redb::Database,
}

impl TableVisitor for TableCopy<'_> {
    fn visit<K: Key + 'static, V: redb::Value + 'static>(
        &self,
        table: TableDefinition<'static, K, V>,
    ) -> Result<(), StoreError> {
        let rows = self.from.open_table(table)?;
        let write_txn = self.to.begin_write()?;
        {
            let mut copied = write_txn.open_table(table)?;
            for row in rows.iter()? {
                let (key, value) = row?;
                copied.insert(key.value(), value.value())?;
            }
        }
        write_txn.commit()?;
        Ok(())
    }
}

/// An index mark of cards: one property besides the company, and its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CardMark {
    /// The kind of mark: 2 a member's, 3 to 6 the four dimensions, 7 the last four digits.
    pub(super) kind: u8,
    /// The member or dimension; a company and digits.
    pub(super) owner: u128,
}

impl CardMark {
    /// The mark of a member's cards.
    pub(super) fn member(slot: crate::domain::ids::MemberSlot) -> Self {
        Self { kind: 2, owner: u128::from(slot.0) }
    }

    /// The company's cards whose numbers end in these digits.
    pub(super) fn last_four(company: crate::domain::ids::CompanySlot, digits: [u8; 4]) -> Self {
        Self {
            kind: 7,
            owner: u128::from(company.0) << 32 | u128::from(u32::from_be_bytes(digits)),
        }
    }

    /// The marks of cards with these dimensions, one for each that is set.
    pub(super) fn dimensions(dimensions: &Dimensions) -> impl Iterator<Item = Self> + '_ {
        (3..).zip(dimensions).filter_map(|(kind, dimension)| {
            dimension.map(|dimension| Self { kind, owner: dimension.0.as_u128() })
        })
    }
}

/// A list of transactions: its kind of runs, and whose list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ListKey {
    pub(super) kind: RunKind,
    /// The owner of the list: a slot, or the low half of a dimension's id.
    pub(super) owner: u64,
}

impl ListKey {
    /// The list of a company's transactions.
    pub(super) fn company(slot: crate::domain::ids::CompanySlot) -> Self {
        Self { kind: RunKind::CompanyTransactions, owner: u64::from(slot.0) }
    }

    /// The list of a card's transactions.
    pub(super) fn card(slot: crate::domain::ids::CardSlot) -> Self {
        Self { kind: RunKind::CardTransactions, owner: u64::from(slot.0) }
    }

    /// The list of a member's transactions.
    pub(super) fn member(slot: crate::domain::ids::MemberSlot) -> Self {
        Self { kind: RunKind::MemberTransactions, owner: u64::from(slot.0) }
    }

    /// The lists of transactions with these dimensions, one for each that is set.
    pub(super) fn dimensions(dimensions: &Dimensions) -> impl Iterator<Item = Self> + '_ {
        RunKind::DIMENSIONS.into_iter().zip(dimensions).filter_map(|(kind, dimension)| {
            dimension.map(|dimension| Self { kind, owner: dimension.0.as_u64_pair().1 })
        })
    }
}
