//! Lists of transactions or cards, each of which can be counted and read from either end: those of
//! one run, of one dimension with what was tagged by hand, of some classes.

use std::ops::Range;

use redb::ReadOnlyTable;

use super::list::{self, ListPage, Order, Page};
use crate::domain::ids::{CompanySlot, DimensionId};
use crate::store::error::StoreError;
use crate::store::runs::{ChunkKey, RunReader, RunTables};
use crate::store::sets::{Classes, SetReader};
use crate::store::tables::ListKey;

/// Offsets up to this are skipped hit by hit; beyond, the place is searched for. Tests have short
/// lists.
const SKIPPED_MAX: usize = if cfg!(test) { 3 } else { 256 };

type Runs<'t> = RunReader<'t, ReadOnlyTable<ChunkKey, &'static [u8]>>;
type Seqs<'r> = Box<dyn Iterator<Item = Result<u64, StoreError>> + 'r>;

/// A list of sequence numbers, or of slots.
pub(super) enum Hits<'t> {
    /// The entries of a run under one owner.
    Run {
        /// The runs of its kind.
        runs: Runs<'t>,
        /// The owner of the list.
        owner: u64,
    },
    /// Transactions made with a dimension, less those that lost it by hand, and those that got it
    /// by hand.
    Tagged {
        /// The runs of its kind.
        runs: Runs<'t>,
        /// The owner of the list.
        owner: u64,
        /// The changes by hand.
        moves: TagMoves,
    },
    /// The members of a company's sets of some classes.
    Classes {
        /// The sets.
        sets: &'t SetReader,
        /// The company of the sets.
        company: CompanySlot,
        /// The classes of the sets.
        classes: Classes,
    },
}

impl<'t> Hits<'t> {
    /// The list under a key.
    pub(super) fn of_run(tables: &'t RunTables, list: ListKey) -> Result<Self, StoreError> {
        Ok(Self::Run { runs: tables.reader(list.kind)?, owner: list.owner })
    }

    /// The list of a dimension.
    pub(super) fn of_dimension(
        tables: &'t RunTables,
        list: ListKey,
        moves: TagMoves,
    ) -> Result<Self, StoreError> {
        let (runs, owner) = (tables.reader(list.kind)?, list.owner);
        Ok(if moves.is_empty() {
            Self::Run { runs, owner }
        } else {
            Self::Tagged { runs, owner, moves }
        })
    }

    /// The number of hits within these numbers.
    pub(super) fn count(&self, seqs: Range<u64>) -> Result<u64, StoreError> {
        match self {
            Self::Run { runs, owner } => runs.count(*owner, seqs),
            Self::Tagged { runs, owner, moves } => {
                let made = runs.count(*owner, seqs.clone())?;
                Ok((made + count_within(&moves.put_on, &seqs))
                    .saturating_sub(count_within(&moves.taken_off, &seqs)))
            }
            Self::Classes { sets, company, classes } => sets.count(*company, *classes, seqs),
        }
    }

    /// The hits within these numbers, in order.
    pub(super) fn scan(&self, seqs: Range<u64>, order: Order) -> Seqs<'_> {
        match self {
            Self::Run { runs, owner } => Box::new(runs.scan(*owner, seqs, order)),
            Self::Tagged { runs, owner, moves } => {
                let made = runs.scan(*owner, seqs.clone(), order);
                let kept = made.filter(
                    |seq| !matches!(seq, Ok(seq) if moves.taken_off.binary_search(seq).is_ok()),
                );
                Box::new(MergedHits::new(kept, moves.put_on_within(&seqs, order), order))
            }
            Self::Classes { sets, company, classes } => {
                Box::new(sets.scan(*company, *classes, seqs, order))
            }
        }
    }

    /// The page of those of these numbers that are in the list, and how many there are.
    pub(super) fn list(&self, seqs: Range<u64>, page: &Page) -> Result<ListPage<u64>, StoreError> {
        let count = self.count(seqs.clone())?;
        self.list_counted(count, seqs, page)
    }

    /// The same where it is known how many there are.
    pub(super) fn list_counted(
        &self,
        count: u64,
        seqs: Range<u64>,
        page: &Page,
    ) -> Result<ListPage<u64>, StoreError> {
        if page.limit == 0 || page.offset as u64 >= count {
            return Ok(ListPage { count, rows: Vec::new() });
        }
        let rows = self.page(seqs, page.order, (page.offset, page.limit))?;
        Ok(ListPage { count, rows })
    }

    /// The page of the list that leaves out `offset` of these numbers and has `limit` at most.
    /// Cost: O(limit), and for a great offset O(log n) counts.
    fn page(
        &self,
        seqs: Range<u64>,
        order: Order,
        (offset, limit): (usize, usize),
    ) -> Result<Vec<u64>, StoreError> {
        if offset <= SKIPPED_MAX {
            return self.scan(seqs, order).skip(offset).take(limit).collect();
        }
        if let Self::Run { runs, owner } = self {
            let mut hits = runs.scan(*owner, seqs, order);
            hits.leave_out(offset as u64)?;
            return hits.take(limit).collect();
        }
        let rest = self.behind(seqs, order, offset as u64)?;
        self.scan(rest, order).take(limit).collect()
    }

    /// The rest of these numbers behind the first `offset` hits.
    fn behind(
        &self,
        seqs: Range<u64>,
        order: Order,
        offset: u64,
    ) -> Result<Range<u64>, StoreError> {
        let Range { start, end } = seqs;
        match order {
            Order::NewestFirst => {
                let bound =
                    list::partition_point(start, end, |seq| Ok(self.count(seq..end)? > offset))?;
                Ok(start..bound)
            }
            Order::OldestFirst => {
                let behind = list::partition_point(start, end, |seq| {
                    Ok(self.count(start..seq + 1)? <= offset)
                })?;
                Ok(behind..end)
            }
        }
    }
}

/// Changes by hand of one dimension's list, rising.
#[derive(Debug, Default)]
pub(super) struct TagMoves {
    /// Transactions that got the dimension.
    put_on: Vec<u64>,
    /// Transactions made with it that lost it.
    taken_off: Vec<u64>,
}

impl TagMoves {
    /// The moves of a dimension among these transactions.
    /// Cost: O(moves among them).
    pub(super) fn load(
        moves: &ReadOnlyTable<(u128, u64), bool>,
        dimension: DimensionId,
        seqs: &Range<u64>,
    ) -> Result<Self, StoreError> {
        let mut found = Self::default();
        let id = dimension.0.as_u128();
        for entry in moves.range((id, seqs.start)..(id, seqs.end))? {
            let (key, is_put_on) = entry?;
            let list = if is_put_on.value() { &mut found.put_on } else { &mut found.taken_off };
            list.push(key.value().1);
        }
        Ok(found)
    }

    const fn is_empty(&self) -> bool {
        self.put_on.is_empty() && self.taken_off.is_empty()
    }

    fn put_on_within(&self, seqs: &Range<u64>, order: Order) -> Vec<u64> {
        let mut found = self.put_on[places_of(&self.put_on, seqs)].to_vec();
        // The next one stands last.
        if order == Order::OldestFirst {
            found.reverse();
        }
        found
    }
}

/// The places in a rising list of the numbers within `seqs`.
fn places_of(list: &[u64], seqs: &Range<u64>) -> Range<usize> {
    let start = list.partition_point(|seq| *seq < seqs.start);
    let end = list.partition_point(|seq| *seq < seqs.end);
    start..end.max(start)
}

fn count_within(list: &[u64], seqs: &Range<u64>) -> u64 {
    places_of(list, seqs).len() as u64
}

/// Two lists of numbers as one, all in order.
struct MergedHits<I: Iterator> {
    hits: std::iter::Peekable<I>,
    /// The next one stands last.
    others: Vec<u64>,
    order: Order,
}

impl<I: Iterator<Item = Result<u64, StoreError>>> MergedHits<I> {
    fn new(hits: I, others: Vec<u64>, order: Order) -> Self {
        Self { hits: hits.peekable(), others, order }
    }
}

impl<I: Iterator<Item = Result<u64, StoreError>>> Iterator for MergedHits<I> {
    type Item = Result<u64, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let is_others = match (self.hits.peek(), self.others.last()) {
            (Some(Ok(hit)), Some(other)) => match self.order {
                Order::NewestFirst => other > hit,
                Order::OldestFirst => other < hit,
            },
            (None, Some(_)) => true,
            _ => false,
        };
        if is_others { self.others.pop().map(Ok) } else { self.hits.next() }
    }
}
