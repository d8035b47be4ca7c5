//! Transactions: what was made, and how it stands.

use std::ops::Range;

use redb::ReadOnlyTable;

use super::Snapshot;
use super::list::{self, Listed, Page};
use crate::codec::CodecError;
use crate::domain::card::Dimensions;
use crate::domain::ids::{CardSlot, CompanySlot, MemberSlot, Timestamp, TransactionSeq};
use crate::domain::transaction::{TransactionProgress, TransactionRecord};
use crate::domain::transaction_tags::{Receipt, TagChanges};
use crate::packed::{RowAnswer, TransactionView, parse_progress};
use crate::store::blocks::{BlockReader, BlockRow};
use crate::store::error::StoreError;
use crate::store::project::no_such_transaction;
use crate::store::rows;
use crate::store::runs::RunTables;
use crate::store::tables::{ListKey, TRANSACTION_BLOCKS, TRANSACTION_CHANGES, TRANSACTION_TAGS};

/// A transaction as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionRow {
    /// What never changes.
    pub record: TransactionRecord,
    /// What does.
    pub progress: TransactionProgress,
    /// What was changed by hand.
    pub tags: TagChanges,
}

impl TransactionRow {
    /// Its dimensions, as it was made or as they were changed by hand; deleted ones may be among
    /// them.
    #[must_use]
    pub fn dimensions(&self) -> Dimensions {
        self.tags.dimensions_over(&self.record.dimensions)
    }

    /// What somebody noted about it; blank at first.
    #[must_use]
    pub fn note(&self) -> &str {
        self.tags.note.as_deref().unwrap_or_default()
    }

    /// Its receipt, also a lost one.
    #[must_use]
    pub fn receipt(&self) -> Option<&Receipt> {
        self.tags.receipt.as_ref()?.as_ref()
    }
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

/// Which rows of a list fit, besides their time.
#[derive(Clone, Copy, Debug, Default)]
struct Facts {
    company: Option<CompanySlot>,
    card: Option<CardSlot>,
    member: Option<MemberSlot>,
    dimensions: Dimensions,
}

impl Facts {
    /// Every list that holds all rows that fit.
    fn lists(&self) -> Vec<ListKey> {
        let slots = [self.company.map(ListKey::company), self.card.map(ListKey::card)];
        let member = self.member.map(ListKey::member);
        let slots = slots.into_iter().flatten().chain(member);
        slots.chain(ListKey::dimensions(&self.dimensions)).collect()
    }

    fn fit(&self, row: &TransactionView<'_>) -> bool {
        let found = row.dimensions();
        let mut dimensions = self.dimensions.iter().zip(&found);
        self.company.is_none_or(|company| company == row.company())
            && self.card.is_none_or(|card| Some(card) == row.card())
            && self.member.is_none_or(|member| Some(member) == row.member())
            && dimensions.all(|(wanted, found)| wanted.is_none() || wanted == found)
    }
}

impl Snapshot {
    /// Finds a transaction.
    pub fn transaction(&self, seq: TransactionSeq) -> Result<Option<TransactionRow>, StoreError> {
        let found = self.transaction_rows()?.find(seq.0)?;
        Ok(found.map(|(row, _)| row))
    }

    /// Lists transactions of a company, declined ones too.
    /// Cost: O(limit) rows for one list, else O(rows of the shortest list that fits).
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
        let TransactionFilter { card, member, dimensions, .. } = *filter;
        let facts = Facts { company: Some(company), card, member, dimensions };
        TransactionLists::open(self)?.list(&facts, &within)
    }

    /// Lists transactions with a card, declined ones too. Cost: O(limit) rows.
    pub fn list_card_transactions(
        &self,
        card: CardSlot,
        page: &Page,
    ) -> Result<Listed<TransactionRow>, StoreError> {
        let facts = Facts { card: Some(card), ..Facts::default() };
        TransactionLists::open(self)?.list(&facts, page)
    }

    /// Opens everything a transaction is put together from.
    pub(in crate::store) fn transaction_rows(&self) -> Result<TransactionRows, StoreError> {
        Ok(TransactionRows {
            blocks: self.blocks(TRANSACTION_BLOCKS)?,
            changes: self.table(TRANSACTION_CHANGES.definition())?,
            tags: self.table(TRANSACTION_TAGS.definition())?,
        })
    }
}

fn earlier(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    one.into_iter().chain(other).min()
}

/// Everything a transaction is put together from: its row, and how it stands where that is newer.
pub(in crate::store) struct TransactionRows {
    blocks: BlockReader,
    changes: ReadOnlyTable<u64, &'static [u8]>,
    tags: ReadOnlyTable<u64, &'static [u8]>,
}

impl TransactionRows {
    /// Finds a transaction, with the answer its row says, if it says one.
    pub(in crate::store) fn find(
        &mut self,
        seq: u64,
    ) -> Result<Option<(TransactionRow, Option<RowAnswer>)>, StoreError> {
        let Some(row) = self.blocks.row(seq)? else { return Ok(None) };
        let view = view_of(&row)?;
        let record = view.to_record().map_err(unreadable)?;
        let progress = match change_of(&self.changes, seq)? {
            Some(progress) => progress,
            None => view.to_progress().map_err(unreadable)?,
        };
        let tags = super::find(&TRANSACTION_TAGS, &self.tags, seq)?.unwrap_or_default();
        Ok(Some((TransactionRow { record, progress, tags }, view.answer())))
    }

    /// Hands every transaction with one of these numbers to `visit`, as its row is packed, with how
    /// it stands where that is newer.
    pub(in crate::store) fn each(
        &self,
        numbers: Range<u64>,
        mut visit: impl FnMut(
            BlockRow<'_>,
            &TransactionView<'_>,
            Option<TransactionProgress>,
        ) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut changes = self.changes.range(numbers.clone())?;
        let mut next = changes.next().transpose()?;
        self.blocks.each(numbers, |row| {
            let mut progress = None;
            if let Some((seq, change)) = next.take_if(|(seq, _)| seq.value() <= row.number) {
                if seq.value() < row.number {
                    return Err(no_such_transaction(seq.value()));
                }
                progress = Some(parse_change(change.value())?);
                next = changes.next().transpose()?;
            }
            visit(row, &view_of(&row)?, progress)
        })
    }

    /// The number of the first transaction authorized at `at` or later; that behind the last where
    /// there is none. Cost: O(log n) blocks.
    pub(in crate::store) fn first_authorized(&mut self, at: Timestamp) -> Result<u64, StoreError> {
        let end = self.blocks.end()?;
        list::partition_point(0, end, |seq| {
            let Some(row) = self.blocks.row_from(seq)? else { return Ok(false) };
            Ok(view_of(&row)?.authorized_at() < at)
        })
    }

    /// When a transaction was authorized, or the first one after it.
    pub(in crate::store) fn authorized_at(
        &mut self,
        seq: u64,
    ) -> Result<Option<Timestamp>, StoreError> {
        let row = self.blocks.row_from(seq)?;
        row.map(|row| Ok(view_of(&row)?.authorized_at())).transpose()
    }

    /// The number behind the newest transaction's.
    pub(in crate::store) fn end(&mut self) -> Result<u64, StoreError> {
        self.blocks.end()
    }

    fn fits(&mut self, seq: u64, facts: &Facts) -> Result<bool, StoreError> {
        let Some(row) = self.blocks.row(seq)? else { return Err(missing(seq)) };
        Ok(facts.fit(&view_of(&row)?))
    }

    fn get(&mut self, seq: u64) -> Result<TransactionRow, StoreError> {
        self.find(seq)?.map(|(row, _)| row).ok_or_else(|| missing(seq))
    }
}

fn missing(seq: u64) -> StoreError {
    StoreError::Inconsistent { what: format!("a list names transaction {seq}, and there is none") }
}

fn view_of<'a>(row: &BlockRow<'a>) -> Result<TransactionView<'a>, StoreError> {
    TransactionView::parse(row.bytes).map_err(unreadable)
}

/// A row of a block that cannot be read.
pub(super) fn unreadable(source: CodecError) -> StoreError {
    StoreError::Row { table: "transaction_blocks", source }
}

fn change_of(
    changes: &ReadOnlyTable<u64, &'static [u8]>,
    seq: u64,
) -> Result<Option<TransactionProgress>, StoreError> {
    changes.get(seq)?.map(|row| parse_change(row.value())).transpose()
}

fn parse_change(row: &[u8]) -> Result<TransactionProgress, StoreError> {
    rows::unpack(TRANSACTION_CHANGES.name(), row, parse_progress)
}

/// Lists of transactions and the rows they lead to.
struct TransactionLists {
    rows: TransactionRows,
    runs: RunTables,
}

impl TransactionLists {
    fn open(snapshot: &Snapshot) -> Result<Self, StoreError> {
        Ok(Self { rows: snapshot.transaction_rows()?, runs: snapshot.runs()? })
    }

    /// Lists the transactions that fit.
    fn list(&mut self, facts: &Facts, page: &Page) -> Result<Listed<TransactionRow>, StoreError> {
        let seqs = self.authorized_within(page)?;
        let mut shortest: Option<(u64, ListKey)> = None;
        let lists = facts.lists();
        for list in &lists {
            let count = self.runs.reader(list.kind)?.count(list.owner, seqs.clone())?;
            if shortest.is_none_or(|(least, _)| count < least) {
                shortest = Some((count, *list));
            }
        }
        let Some((count, shortest)) = shortest else { return Ok(Listed::EMPTY) };
        if lists.len() == 1 {
            self.take_page(shortest, seqs, page, count)
        } else {
            self.filter_page(shortest, seqs, page, facts)
        }
    }

    /// A page of one list, all of which fits.
    fn take_page(
        &mut self,
        list: ListKey,
        seqs: Range<u64>,
        page: &Page,
        count: u64,
    ) -> Result<Listed<TransactionRow>, StoreError> {
        let reader = self.runs.reader(list.kind)?;
        let mut hits = reader.scan(list.owner, seqs, page.order);
        hits.leave_out(page.offset as u64)?;
        let hits = hits.take(page.limit).collect::<Result<Vec<_>, _>>()?;
        Listed { count, rows: hits }.load(|seq| self.rows.get(seq))
    }

    /// A page of those in a list that fit. Every hit is compared with its row: a list of a dimension
    /// knows only half of its id.
    fn filter_page(
        &mut self,
        list: ListKey,
        seqs: Range<u64>,
        page: &Page,
        facts: &Facts,
    ) -> Result<Listed<TransactionRow>, StoreError> {
        let reader = self.runs.reader(list.kind)?;
        let mut listed = Listed::EMPTY;
        for seq in reader.scan(list.owner, seqs, page.order) {
            let seq = seq?;
            if !self.rows.fits(seq, facts)? {
                continue;
            }
            if page.holds(listed.count) {
                listed.rows.push(seq);
            }
            listed.count += 1;
        }
        listed.load(|seq| self.rows.get(seq))
    }

    /// The sequence numbers of what was authorized within the page's time.
    fn authorized_within(&mut self, page: &Page) -> Result<Range<u64>, StoreError> {
        let mut seq_at = |bound: Option<Timestamp>, unbounded: u64| match bound {
            None => Ok(unbounded),
            Some(at) => self.rows.first_authorized(at),
        };
        let low = seq_at(page.created_after, 0)?;
        let high = seq_at(page.created_before, u64::MAX)?;
        Ok(low..high.max(low))
    }
}
