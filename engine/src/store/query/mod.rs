//! Queries of the tables, one file a noun, all on a snapshot.
//!
//! Slots and sequence numbers rise with time, so creation order is key order, and a bound on the
//! time becomes a bound on the key by binary search. Counts are exact.
//!
//! Out of scope: the rights of callers, and the form in which rows are shown.

mod account;
mod audit_event;
mod card;
mod day_figures;
mod declines;
mod directory;
mod event;
mod hits;
mod identity;
mod leaving;
mod list;
mod organization;
mod recall;
mod statement_line;
mod transaction;
mod transaction_list;

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::RwLock;
use redb::{
    Key, ReadOnlyTable, ReadTransaction, ReadableTable, TableDefinition, TableHandle as _, Value,
};
use serde::de::DeserializeOwned;

pub use account::AccountRow;
pub use audit_event::AuditFilter;
pub use card::{CardFilter, CardRow, CardTables, SealedNumber};
pub use day_figures::QuarterFigures;
pub use declines::{DeclinePage, DeclineRow};
pub use event::EventPage;
pub use leaving::LeavingEffects;
pub use list::{ListPage, Order, Page};
pub use organization::RequisitionFilter;
pub use recall::{DueHolds, PurchaseKey, RecalledTransaction};
pub(super) use recall::{key_of_declined, key_of_yielding};
pub(super) use statement_line::parse_line_row;
pub use statement_line::{LineFilter, LineSpan};
pub use transaction::TransactionRow;
pub use transaction_list::TransactionFilter;

use super::blocks::{BlockReader, BlockTable};
use super::checkpoint::{self, Checkpoint};
use super::error::StoreError;
use super::figures::AddedFigures;
use super::numbers::Numbers;
use super::rows;
use super::runs::{RUN_CHUNKS, RUN_LISTS, RunCounts, RunTables};
use super::sets::SetReader;
pub use super::sets::TransactionClasses;
use super::tables::{META, META_NETWORK_KEY, META_PAN_GENERATIONS, RowTable, STATE_PAGES};
use crate::domain::pan_key::{PanGeneration, PanGenerations};
use crate::store::project::stored_row;

/// A table of a view. It is opened once for all who read the view.
pub(super) type SharedTable<K, V> = Arc<ReadOnlyTable<K, V>>;

/// A view of the tables that stands still. All who read between two commits share one.
/// INVARIANT: never held across a wait: while it lives, the file grows.
pub struct Snapshot {
    tables: Arc<SharedTables>,
    /// The rows that lists of this view may still look at.
    rows_left: AtomicUsize,
}

/// What all who read a view share.
struct SharedTables {
    read_txn: ReadTransaction,
    numbers: Arc<Numbers>,
    counts: Arc<RunCounts>,
    /// The tables that somebody has asked for, by where their names stand, which is quicker to compare than a name.
    opened: RwLock<BTreeMap<(usize, usize), Arc<dyn Any + Send + Sync>>>,
}

crate::opaque!(Snapshot);

impl Snapshot {
    pub(super) fn new(
        read_txn: ReadTransaction,
        numbers: Arc<Numbers>,
        counts: Arc<RunCounts>,
    ) -> Self {
        let tables = SharedTables { read_txn, numbers, counts, opened: RwLock::default() };
        Self { tables: Arc::new(tables), rows_left: AtomicUsize::new(usize::MAX) }
    }

    /// The same view for a reader whose lists, all together, may look at so many rows: beyond, they
    /// fail with `StoreError::LongScan`.
    pub fn within(&self, rows: usize) -> Self {
        Self { tables: Arc::clone(&self.tables), rows_left: AtomicUsize::new(rows) }
    }

    /// Counts a row that a list looks at, whether it is listed or not.
    /// Errors: `LongScan`.
    fn look_at_row(&self) -> Result<(), StoreError> {
        let left = self.rows_left.load(Relaxed);
        self.rows_left.store(left.checked_sub(1).ok_or(StoreError::LongScan)?, Relaxed);
        Ok(())
    }

    /// The checkpoint of this view.
    pub fn checkpoint(&self) -> Result<Checkpoint, StoreError> {
        checkpoint::read(&*self.table(META)?)
    }

    /// The SHA-256 of the key that opens the HTTP network door, if one is set.
    pub fn network_key(&self) -> Result<Option<[u8; 32]>, StoreError> {
        let meta = self.table(META)?;
        if meta.get(META_NETWORK_KEY)?.is_none() {
            return Ok(None);
        }
        meta_bytes(&meta, META_NETWORK_KEY).map(Some)
    }

    /// The generations of the key of card numbers that are of use.
    pub fn pan_generations(&self) -> Result<PanGenerations, StoreError> {
        let meta = self.table(META)?;
        if meta.get(META_PAN_GENERATIONS)?.is_none() {
            return Ok(PanGenerations::default());
        }
        let [a, b, c, d, e, f, g, h] = meta_bytes(&meta, META_PAN_GENERATIONS)?;
        let generation = |bytes| PanGeneration(u32::from_le_bytes(bytes));
        Ok(PanGenerations { oldest: generation([a, b, c, d]), newest: generation([e, f, g, h]) })
    }

    /// Figures of this view's decisions that are in no table yet.
    pub(super) fn added_figures(&self) -> &AddedFigures {
        &self.tables.numbers.figures
    }

    /// The view itself, and the numbers that belong to it.
    pub(super) fn parts(&self) -> (&ReadTransaction, &Numbers) {
        (&self.tables.read_txn, &self.tables.numbers)
    }

    /// Opens a table of blocks.
    pub(super) fn blocks(&self, table: BlockTable) -> Result<BlockReader, StoreError> {
        Ok(BlockReader::new(table, self.table(table)?))
    }

    /// Opens the runs.
    pub(super) fn runs(&self) -> Result<RunTables, StoreError> {
        let (chunks, lists) = (self.table(RUN_CHUNKS)?, self.table(RUN_LISTS)?);
        Ok(RunTables::new(chunks, lists, Arc::clone(&self.tables.counts)))
    }

    /// Opens the sets.
    fn sets(&self) -> Result<SetReader, StoreError> {
        Ok(SetReader::new(self.table(STATE_PAGES)?))
    }

    /// Opens a table.
    /// Cost: a look-up among those that are open, else about a microsecond.
    pub(super) fn table<K, V>(
        &self,
        definition: TableDefinition<'static, K, V>,
    ) -> Result<SharedTable<K, V>, StoreError>
    where
        K: Key + Send + Sync + 'static,
        V: Value + Send + Sync + 'static,
    {
        // INVARIANT: names are constants, and no two tables have one name.
        let place = (definition.name().as_ptr().addr(), definition.name().len());
        let known = self.tables.opened.read().get(&place).map(Arc::clone);
        if let Some(Ok(table)) = known.map(Arc::downcast) {
            return Ok(table);
        }
        let table = Arc::new(self.tables.read_txn.open_table(definition)?);
        let shared = Arc::clone(&table) as Arc<dyn Any + Send + Sync>;
        self.tables.opened.write().insert(place, shared);
        Ok(table)
    }

    /// Hands every row of a table to `visit`, in key order.
    pub(super) fn each<K, T>(
        &self,
        table: &RowTable<K, T>,
        mut visit: impl FnMut(K, T),
    ) -> Result<(), StoreError>
    where
        K: Key + Send + Sync + 'static,
        for<'a> K: Value<SelfType<'a> = K>,
        T: DeserializeOwned,
    {
        self.try_each(table, |key, row| {
            visit(key, row);
            Ok(())
        })
    }

    /// The same, until `visit` fails.
    pub(super) fn try_each<K, T>(
        &self,
        table: &RowTable<K, T>,
        mut visit: impl FnMut(K, T) -> Result<(), StoreError>,
    ) -> Result<(), StoreError>
    where
        K: Key + Send + Sync + 'static,
        for<'a> K: Value<SelfType<'a> = K>,
        T: DeserializeOwned,
    {
        for entry in self.table(table.definition())?.iter()? {
            let (key, row) = entry?;
            visit(key.value(), rows::decode(table.name(), row.value())?)?;
        }
        Ok(())
    }

    fn find<K, T>(&self, table: &RowTable<K, T>, key: K) -> Result<Option<T>, StoreError>
    where
        K: Key + Copy + Send + Sync + 'static,
        for<'a> K: Value<SelfType<'a> = K>,
        T: DeserializeOwned,
    {
        stored_row(table, &*self.table(table.definition())?, key)
    }

    /// Finds the row that an index leads to.
    fn find_by<I, T>(
        &self,
        index: TableDefinition<'static, I, u32>,
        key: I,
        table: &RowTable<u32, T>,
    ) -> Result<Option<T>, StoreError>
    where
        I: Key + Send + Sync + 'static,
        for<'a> I: Value<SelfType<'a> = I>,
        T: DeserializeOwned,
    {
        let slot = self.table(index)?.get(key)?.map(|slot| slot.value());
        slot.map_or(Ok(None), |slot| self.find(table, slot))
    }
}

/// A value of fixed length in the meta table.
pub(super) fn meta_bytes<const N: usize>(
    meta: &ReadOnlyTable<&'static str, &'static [u8]>,
    name: &str,
) -> Result<[u8; N], StoreError> {
    meta.get(name)?
        .and_then(|bytes| bytes.value().try_into().ok())
        .ok_or_else(|| StoreError::NotAStore { what: format!("its {name} is missing or damaged") })
}
