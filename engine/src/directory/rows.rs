//! The rows of one resource in memory, dense by slot, found by their indexes.

use std::collections::BTreeSet;

use uuid::Uuid;

use super::change::PartitionView;
use super::company::find_company;
use super::entry::{EntryBytes, Index, IndexKey, slot_of};
use super::row::{CompanyRow, SlotRow, by_id, entries_of};
use crate::command::reply::Rejection;
use crate::domain::ids::{CompanyId, CompanySlot, Slot as _};

/// See the head of this file.
#[derive(Clone, Debug)]
pub struct Rows<R> {
    rows: Vec<R>,
    entries: BTreeSet<EntryBytes>,
}

impl<R> Default for Rows<R> {
    fn default() -> Self {
        Self { rows: Vec::new(), entries: BTreeSet::new() }
    }
}

impl<R: SlotRow> Rows<R> {
    /// The row of a slot. Panics: if there is none.
    pub fn get(&self, slot: R::Slot) -> &R {
        &self.rows[slot.number() as usize]
    }

    /// The row with an id, deleted rows included.
    pub fn find(&self, id: Uuid) -> Option<&R> {
        self.first(&by_id(), &id)
    }

    /// The row of a company with an id.
    /// Errors: `NotFound` if there is none, it is another company's, or it is deleted.
    pub(crate) fn find_own(&self, company: CompanySlot, id: R::Id) -> Result<&R, Rejection>
    where
        R: CompanyRow,
    {
        self.find(id.into()).filter(|row| row.is_own(company)).ok_or(Rejection::NotFound)
    }

    /// The same, of a company that is named by its id.
    /// Errors: those of `find_own`; `CompanyNotFound`.
    pub(crate) fn find_of(
        &self,
        state: &dyn PartitionView,
        company: CompanyId,
        id: R::Id,
    ) -> Result<&R, Rejection>
    where
        R: CompanyRow,
    {
        self.find_own(find_company(state, company)?, id)
    }

    /// The oldest row under a key: the only one, where a rule ensures it.
    pub fn first<K: IndexKey>(&self, index: &Index<R, K>, key: &K) -> Option<&R> {
        self.under(index, key).next()
    }

    /// The rows under a key, the oldest first.
    pub fn under<'a, K: IndexKey>(
        &'a self,
        index: &Index<R, K>,
        key: &K,
    ) -> impl Iterator<Item = &'a R> + use<'a, R, K> {
        let slots = self.entries.range(index.range(key)).filter_map(|entry| slot_of(entry));
        slots.map(|slot| self.get(R::Slot::of_number(slot)))
    }

    /// The number of rows, deleted ones included.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The slot of a row to be made.
    /// Errors: the id is in use, or slots are exhausted.
    pub fn slot_for(&self, id: Uuid) -> Result<R::Slot, Rejection> {
        if self.find(id).is_some() {
            return Err(Rejection::IdTaken);
        }
        R::Slot::next_after(self.rows.len()).ok_or(Rejection::Full)
    }

    /// The rows, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &R> {
        self.rows.iter()
    }

    /// Puts a row in the place of the one before it. Panics: if slots before it are missing.
    pub fn apply(&mut self, row: &R) {
        let place = row.slot().number() as usize;
        if let Some(before) = self.rows.get(place) {
            for entry in entries_of(before) {
                self.entries.remove(&entry);
            }
        }
        self.entries.extend(entries_of(row));
        match self.rows.get_mut(place) {
            Some(before) => before.clone_from(row),
            None => {
                assert!(place == self.rows.len(), "slots are given out one after the other");
                self.rows.push(row.clone());
            }
        }
    }
}
