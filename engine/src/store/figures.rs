//! Figures of decisions: how many there were and over how much, by account, quarter of an hour and
//! response code. Quarters are those of UTC, so the days of any zone are made up of them.
//!
//! | table | key | value |
//! |---|---|---|
//! | day_figures | account slot, quarter hours since 1970 | CRC32C, format version, then for each response code: its number (2), count (8), sum (8) |
//!
//! Nearly every record adds to one, so a visible commit does not write them: the additions since
//! the last checkpoint are in memory (`numbers`), and the next checkpoint adds them to the table.
//!
//! A decision is a transaction that a card made, refunds apart. Its sum is the approved amount, or the requested one
//! where it was declined. An advice counts whole, also where a reversal of a part came first.

use std::collections::BTreeMap;
use std::ops::Range;

use redb::{ReadableTable, WriteTransaction};

use super::audit::each_posting;
use super::error::StoreError;
use super::layers::{LayerChange, Layers};
use super::query::Snapshot;
use super::rows;
use super::tables::DAY_FIGURES;
use crate::codec::CodecError;
use crate::domain::ids::Timestamp;
use crate::domain::money::Minor;
use crate::domain::posting::Book;
use crate::domain::transaction::{TransactionFlags, TransactionKind};
use crate::packed::TransactionView;

/// A quarter of an hour. Units: microseconds.
pub(super) const QUARTER: i64 = 15 * Timestamp::MINUTE;
const FORMAT: u8 = 1;
const ENTRY_BYTES: usize = 18;

/// The key of a count of decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FigureKey {
    /// The slot of the account.
    pub(super) account: u32,
    /// The quarter hour, counted since 1970.
    pub(super) quarter: u32,
    /// The number of the response code.
    pub(super) code: u16,
}

/// A count of decisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DecisionCount {
    /// The number of decisions.
    pub(super) count: u64,
    /// The sum of their amounts, in minor units; it saturates.
    pub(super) sum: i64,
}

impl DecisionCount {
    fn add(&mut self, other: Self) {
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
    }
}

impl LayerChange for DecisionCount {
    fn after(mut self, earlier: Self) -> Self {
        self.add(earlier);
        self
    }
}

/// The quarter hour that an instant is in.
pub(super) fn quarter_of(at: Timestamp) -> u32 {
    u32::try_from(at.0.div_euclid(QUARTER).max(0)).unwrap_or(u32::MAX)
}

/// The key that a transaction counts under; none if it is no decision.
fn key_of(view: &TransactionView<'_>) -> Option<FigureKey> {
    use TransactionKind::{Cash, Purchase, SingleMessagePurchase, Verification};
    let is_decision = matches!(view.kind(), Purchase | SingleMessagePurchase | Verification | Cash);
    is_decision.then(|| FigureKey {
        account: view.account().0,
        quarter: quarter_of(view.authorized_at()),
        code: view.response_number(),
    })
}

/// The sum of a decision; none where a part was approved, which its row does not tell for long.
fn sum_of(view: &TransactionView<'_>) -> Option<Minor> {
    if view.kind() == TransactionKind::Verification {
        return Some(Minor::ZERO);
    }
    let is_partial = view.flags().contains(TransactionFlags::PARTIALLY_APPROVED);
    (!is_partial).then(|| view.requested())
}

/// Figures that are being counted, in no order.
#[derive(Debug, Default)]
pub(super) struct NewFigures(Vec<(FigureKey, DecisionCount)>);

impl NewFigures {
    /// Counts a transaction as it was made. Cost: O(1).
    /// Errors: a damaged row.
    pub(super) fn count(&mut self, view: &TransactionView<'_>) -> Result<(), CodecError> {
        let Some(key) = key_of(view) else { return Ok(()) };
        let sum = match sum_of(view) {
            Some(sum) => sum,
            None => {
                let made = view.to_progress()?;
                made.held.total() + made.posted
            }
        };
        let figure = DecisionCount { count: 1, sum: sum.0 };
        match self.0.last_mut() {
            Some((last, total)) if *last == key => total.add(figure),
            _ => self.0.push((key, figure)),
        }
        Ok(())
    }

    /// One figure for each key, in their order.
    pub(super) fn in_order(mut self) -> Vec<(FigureKey, DecisionCount)> {
        self.0.sort_unstable_by_key(|(key, _)| *key);
        self.0.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            if is_same {
                kept.1.add(next.1);
            }
            is_same
        });
        self.0
    }
}

/// Figures added since the last checkpoint.
pub(super) type AddedFigures = Layers<FigureKey, DecisionCount>;

/// Adds everything to the table. Cost: a row for each account and quarter with a decision.
pub(super) fn write(added: &AddedFigures, write_txn: &WriteTransaction) -> Result<(), StoreError> {
    if added.is_empty() {
        return Ok(());
    }
    let mut table = write_txn.open_table(DAY_FIGURES.definition())?;
    let place = |key: &FigureKey| (key.account, key.quarter);
    for added in added.all().chunk_by(|(one, _), (other, _)| place(one) == place(other)) {
        let place = place(&added[0].0);
        let stored = table.get(place)?.map(|value| unpack(value.value())).transpose()?;
        let mut figures: BTreeMap<u16, DecisionCount> =
            stored.unwrap_or_default().into_iter().collect();
        for (key, figure) in added {
            figures.entry(key.code).or_default().add(*figure);
        }
        let value = rows::pack(|bytes| {
            bytes.push(FORMAT);
            for (code, DecisionCount { count, sum }) in &figures {
                bytes.extend_from_slice(&code.to_le_bytes());
                bytes.extend_from_slice(&count.to_le_bytes());
                bytes.extend_from_slice(&sum.to_le_bytes());
            }
        });
        table.insert(place, value.as_slice())?;
    }
    Ok(())
}

fn unpack(value: &[u8]) -> Result<Vec<(u16, DecisionCount)>, StoreError> {
    rows::unpack(DAY_FIGURES.name(), value, |bytes| {
        let (version, entries) = bytes.split_first().ok_or(CodecError::Cut)?;
        if *version != FORMAT {
            return Err(CodecError::UnknownVersion { version: *version });
        }
        let (entries, rest) = entries.as_chunks::<ENTRY_BYTES>();
        if !rest.is_empty() {
            return Err(CodecError::Cut);
        }
        Ok(entries.iter().map(unpack_entry).collect())
    })
}

fn unpack_entry(entry: &[u8; ENTRY_BYTES]) -> (u16, DecisionCount) {
    let (mut code, mut count, mut sum) = ([0; 2], [0; 8], [0; 8]);
    code.copy_from_slice(&entry[..2]);
    count.copy_from_slice(&entry[2..10]);
    sum.copy_from_slice(&entry[10..]);
    let figure = DecisionCount { count: u64::from_le_bytes(count), sum: i64::from_le_bytes(sum) };
    (u16::from_le_bytes(code), figure)
}

/// The figures of an account in some quarters, by quarter and response code.
/// Cost: O(quarters with a decision).
pub(super) fn figures_of(
    snapshot: &Snapshot,
    account: u32,
    quarters: Range<u32>,
) -> Result<BTreeMap<(u32, u16), DecisionCount>, StoreError> {
    let mut found: BTreeMap<(u32, u16), DecisionCount> = BTreeMap::new();
    if quarters.is_empty() {
        return Ok(found);
    }
    let table = snapshot.table(DAY_FIGURES.definition())?;
    for entry in table.range((account, quarters.start)..(account, quarters.end))? {
        let (key, value) = entry?;
        for (code, figure) in unpack(value.value())? {
            found.entry((key.value().1, code)).or_default().add(figure);
        }
    }
    let key = |quarter| FigureKey { account, quarter, code: 0 };
    let added = key(quarters.start)..key(quarters.end);
    for (key, figure) in snapshot.added_figures().within(added) {
        found.entry((key.quarter, key.code)).or_default().add(figure);
    }
    Ok(found)
}

/// The result of comparing the figures with the transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FigureComparison {
    /// The number of decisions.
    pub(super) decisions: u64,
    /// The number of counted decisions.
    pub(super) counted: u64,
    /// The number of figures that differ, are missing or too many.
    pub(super) differing: u64,
}

/// Compares the figures with the transactions. Cost: reads every transaction.
pub(super) fn compare(snapshot: &Snapshot) -> Result<FigureComparison, StoreError> {
    let mut found: BTreeMap<FigureKey, DecisionCount> =
        snapshot.added_figures().all().into_iter().collect();
    for entry in snapshot.table(DAY_FIGURES.definition())?.iter()? {
        let (key, value) = entry?;
        let (account, quarter) = key.value();
        for (code, figure) in unpack(value.value())? {
            found.entry(FigureKey { account, quarter, code }).or_default().add(figure);
        }
    }
    let mut compared = FigureComparison::default();
    for (key, expected) in counted(snapshot)? {
        compared.decisions += expected.count;
        let figure = found.remove(&key).unwrap_or_default();
        compared.counted += figure.count;
        compared.differing += u64::from(figure != expected);
    }
    compared.counted += found.values().map(|figure| figure.count).sum::<u64>();
    compared.differing += found.len() as u64;
    Ok(compared)
}

/// The figures as they follow from the transactions. The sum of a partial approval is that of its
/// first posting, which takes the approved part out of the account's funds.
fn counted(snapshot: &Snapshot) -> Result<BTreeMap<FigureKey, DecisionCount>, StoreError> {
    let mut figures: BTreeMap<FigureKey, DecisionCount> = BTreeMap::new();
    let mut partial = BTreeMap::new();
    snapshot.transaction_rows()?.each(0..u64::MAX, |row, view, _| {
        let Some(key) = key_of(view) else { return Ok(()) };
        let sum = sum_of(view);
        if sum.is_none() {
            partial.insert(row.number, key);
        }
        let sum = sum.unwrap_or(Minor::ZERO).0;
        figures.entry(key).or_default().add(DecisionCount { count: 1, sum });
        Ok(())
    })?;
    if partial.is_empty() {
        return Ok(figures);
    }
    each_posting(snapshot, |posting| {
        if posting.from == Book::Funds
            && let Some(key) = partial.remove(&posting.transaction.0)
        {
            figures.entry(key).or_default().add(DecisionCount { count: 0, sum: posting.amount.0 });
        }
    })?;
    Ok(figures)
}
