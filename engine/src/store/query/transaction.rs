//! Transactions: what was made, and how it stands.

use std::ops::Range;

use redb::{ReadOnlyTable, ReadableTable};

use super::list::{self, Listed, Page};
use super::{Snapshot, required};
use crate::domain::card::Dimensions;
use crate::domain::ids::{CardSlot, CompanySlot, MemberSlot, Timestamp, TransactionSeq};
use crate::domain::transaction::{TransactionProgress, TransactionRecord};
use crate::store::error::StoreError;
use crate::store::rows;
use crate::store::tables::{
    ListKey, ListedKey, TRANSACTION_LISTS, TRANSACTION_PROGRESS, TRANSACTIONS,
};

/// A transaction as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionRow {
    /// What never changes.
    pub record: TransactionRecord,
    /// What does.
    pub progress: TransactionProgress,
}

/// Which transactions of a company to list; every part that is set has to fit.
/// Source: spec "Transactions", filters.
#[derive(Clone, Copy, Debug, Default)]
pub struct TransactionFilter {
    /// Authorized before this instant.
    pub before: Option<Timestamp>,
    /// Authorized at this instant or later.
    pub after: Option<Timestamp>,
    /// With this card.
    pub card: Option<CardSlot>,
    /// By this member.
    pub member: Option<MemberSlot>,
    /// With these dimensions.
    pub dimensions: Dimensions,
}

impl TransactionFilter {
    fn lists(&self, company: CompanySlot) -> Vec<ListKey> {
        [Some(ListKey::company(company)), self.card.map(ListKey::card)]
            .into_iter()
            .chain([self.member.map(ListKey::member)])
            .flatten()
            .chain(ListKey::dimensions(&self.dimensions))
            .collect()
    }
}

impl Snapshot {
    /// Finds a transaction.
    pub fn transaction(&self, seq: TransactionSeq) -> Result<Option<TransactionRow>, StoreError> {
        let Some(record) = self.find(&TRANSACTIONS, seq.0)? else { return Ok(None) };
        let progress = self.table(TRANSACTION_PROGRESS.definition())?;
        let progress = required(&TRANSACTION_PROGRESS, &progress, seq.0)?;
        Ok(Some(TransactionRow { record, progress }))
    }

    /// Lists transactions of a company, declined ones too.
    /// Cost: O(offset + limit) keys for one list, else O(keys of the shortest list that fits).
    pub fn list_transactions(
        &self,
        company: CompanySlot,
        filter: &TransactionFilter,
        page: &Page,
    ) -> Result<Listed<TransactionRow>, StoreError> {
        let within = Page {
            created_after: page.created_after.max(filter.after),
            created_before: earlier(page.created_before, filter.before),
            ..*page
        };
        self.list_in(&filter.lists(company), &within)
    }

    /// Lists transactions with a card, declined ones too. Cost: O(offset + limit) keys.
    pub fn list_card_transactions(
        &self,
        card: CardSlot,
        page: &Page,
    ) -> Result<Listed<TransactionRow>, StoreError> {
        self.list_in(&[ListKey::card(card)], page)
    }

    /// Lists the transactions that are in every one of `lists`.
    fn list_in(
        &self,
        lists: &[ListKey],
        page: &Page,
    ) -> Result<Listed<TransactionRow>, StoreError> {
        let tables = TransactionTables::open(self)?;
        let seqs = tables.authorized_within(page)?;
        let mut shortest: Option<(u64, ListKey)> = None;
        for list in lists {
            let count = tables.count(*list, &seqs)?;
            shortest = shortest.into_iter().chain([(count, *list)]).min();
        }
        let Some((count, shortest)) = shortest else { return Ok(Listed::EMPTY) };
        let keys = tables.lists.range(list_range(shortest, &seqs))?;
        let listed = if lists.len() == 1 {
            list::take_page(keys, page, count)?.load(|(key, _)| Ok(key.value().2))?
        } else {
            list::filter_page(keys, page, |(_, _, seq)| {
                let is_in_all = tables.is_in_all(lists, seq)?;
                Ok(is_in_all.then_some(seq))
            })?
        };
        listed.load(|seq| tables.row(seq))
    }
}

fn earlier(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    one.into_iter().chain(other).min()
}

fn list_range(list: ListKey, seqs: &Range<u64>) -> Range<ListedKey> {
    (list.kind, list.owner, seqs.start)..(list.kind, list.owner, seqs.end)
}

/// Everything a list of transactions is put together from.
struct TransactionTables {
    records: ReadOnlyTable<u64, &'static [u8]>,
    progress: ReadOnlyTable<u64, &'static [u8]>,
    lists: ReadOnlyTable<ListedKey, u64>,
}

impl TransactionTables {
    fn open(snapshot: &Snapshot) -> Result<Self, StoreError> {
        Ok(Self {
            records: snapshot.table(TRANSACTIONS.definition())?,
            progress: snapshot.table(TRANSACTION_PROGRESS.definition())?,
            lists: snapshot.table(TRANSACTION_LISTS)?,
        })
    }

    fn row(&self, seq: u64) -> Result<TransactionRow, StoreError> {
        Ok(TransactionRow {
            record: required(&TRANSACTIONS, &self.records, seq)?,
            progress: required(&TRANSACTION_PROGRESS, &self.progress, seq)?,
        })
    }

    /// How many transactions of a list are in `seqs`: its places are without gaps.
    fn count(&self, list: ListKey, seqs: &Range<u64>) -> Result<u64, StoreError> {
        let first = self.lists.range(list_range(list, seqs))?.next().transpose()?;
        let last = self.lists.range(list_range(list, seqs))?.next_back().transpose()?;
        Ok(match (first, last) {
            (Some((_, first)), Some((_, last))) => last.value() - first.value() + 1,
            _ => 0,
        })
    }

    fn is_in_all(&self, lists: &[ListKey], seq: u64) -> Result<bool, StoreError> {
        for list in lists {
            if self.lists.get((list.kind, list.owner, seq))?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The sequence numbers of what was authorized within the page's time.
    fn authorized_within(&self, page: &Page) -> Result<Range<u64>, StoreError> {
        let end = self.records.last()?.map_or(0, |(seq, _)| seq.value() + 1);
        let seq_at = |bound: Option<Timestamp>, unbounded: u64| match bound {
            None => Ok(unbounded),
            Some(at) => list::partition_point(0, end, |seq| self.is_authorized_before(seq, at)),
        };
        let low = seq_at(page.created_after, 0)?;
        let high = seq_at(page.created_before, end)?;
        Ok(low..high.max(low))
    }

    /// Whether the first transaction from `seq` on was authorized before `at`.
    fn is_authorized_before(&self, seq: u64, at: Timestamp) -> Result<bool, StoreError> {
        let Some(entry) = self.records.range(seq..)?.next() else { return Ok(false) };
        let (_, row) = entry?;
        let record: TransactionRecord = rows::decode(TRANSACTIONS.name(), row.value())?;
        Ok(record.authorized_at < at)
    }
}
