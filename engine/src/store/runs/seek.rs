//! Finds chunks: by entry, and one after the other inside a segment of a run.

use std::cell::RefCell;
use std::rc::Rc;

use redb::{AccessGuard, ReadableTable, StorageError};

use super::chunk::{ChunkLayout, ChunkView};
use super::directory::Run;
use super::{ChunkKey, Entry, RunKind, last_of};
use crate::store::error::StoreError;

/// The entries of a run that count, both ends included.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub(super) run: Run,
    pub(super) low: Entry,
    pub(super) high: Entry,
}

impl Segment {
    pub(super) const fn whole(run: Run) -> Self {
        Self { run, low: Entry::FIRST, high: Entry::LAST }
    }

    /// The part of a run behind `entry`; all of it without one.
    pub(super) fn behind(run: Run, entry: Option<Entry>) -> Option<Self> {
        let low = entry.map_or(Some(Entry::FIRST), Entry::next)?;
        Some(Self { run, low, high: Entry::LAST })
    }

    /// The part of the segment between two entries of one major, both included; none if that is
    /// empty.
    pub(super) fn clip(&self, low: Entry, high: Entry) -> Option<Self> {
        let clipped = Self { run: self.run, low: self.low.max(low), high: self.high.min(high) };
        let has_minors = self.run.first_minor <= high.minor() && low.minor() <= self.run.last_minor;
        (clipped.low <= clipped.high && has_minors).then_some(clipped)
    }

    /// Whether a segment that was clipped to one major has all that its run has of it.
    pub(super) fn is_all_of_major(&self) -> bool {
        let (low, high) = (self.low, self.high);
        low.major() == high.major()
            && low.minor() <= self.run.first_minor
            && self.run.last_minor <= high.minor()
    }
}

/// The chunks of one kind. It keeps the one that it found last in each run, so a list is counted and
/// read with one read and one check of the sum.
#[derive(Debug)]
pub(super) struct ChunkReader<'t, T> {
    table: &'t T,
    kind: RunKind,
    at_hand: RefCell<Vec<Rc<LoadedChunk<'t>>>>,
}

impl<'t, T: ReadableTable<ChunkKey, &'static [u8]>> ChunkReader<'t, T> {
    /// Reads them from this table.
    pub(super) const fn new(table: &'t T, kind: RunKind) -> Self {
        Self { table, kind, at_hand: RefCell::new(Vec::new()) }
    }

    /// The chunk of a run in which `entry` would stand, or else the first one behind it.
    pub(super) fn chunk_from(
        &self,
        run: u64,
        entry: Entry,
    ) -> Result<Option<Rc<LoadedChunk<'t>>>, StoreError> {
        let mut at_hand = self.at_hand.borrow_mut();
        let place = at_hand.iter().position(|chunk| chunk.key.1 == run);
        if let Some(known) = place.map(|place| &at_hand[place]).filter(|known| known.spans(entry)) {
            return Ok(Some(Rc::clone(known)));
        }
        let kind = self.kind.number();
        let keys = (kind, run, entry.major(), entry.minor())..=(kind, run, u64::MAX, u64::MAX);
        let found = LoadedChunk::take(self.table.range(keys)?.next())?;
        if let Some(found) = &found {
            place.map(|place| at_hand.swap_remove(place));
            at_hand.push(Rc::clone(found));
        }
        Ok(found)
    }

    /// The chunk of a run with the last entry at or before `entry`.
    pub(super) fn chunk_until(
        &self,
        run: u64,
        entry: Entry,
    ) -> Result<Option<Rc<LoadedChunk<'t>>>, StoreError> {
        let found = self.chunk_from(run, entry)?;
        if found.as_ref().is_some_and(|chunk| chunk.view().first() <= entry) {
            return Ok(found);
        }
        self.chunk_before((self.kind.number(), run, entry.major(), entry.minor()))
    }

    /// The last chunk of the same run whose key is below `key`.
    pub(super) fn chunk_before(
        &self,
        key: ChunkKey,
    ) -> Result<Option<Rc<LoadedChunk<'t>>>, StoreError> {
        LoadedChunk::take(self.table.range((key.0, key.1, 0, 0)..key)?.next_back())
    }

    /// The next chunk of a segment, in order, that may hold some of its entries.
    pub(super) fn next_chunk(
        &self,
        cursor: &mut ChunkCursor,
    ) -> Result<Option<Rc<LoadedChunk<'t>>>, StoreError> {
        let Segment { run, high, .. } = cursor.segment;
        let Some(next) = cursor.next else { return Ok(None) };
        let chunk = self.chunk_from(run.run, next)?;
        let Some(chunk) = chunk.filter(|chunk| chunk.view().first() <= high) else {
            return Ok(None);
        };
        cursor.next = chunk.last().next();
        Ok(Some(chunk))
    }
}

/// A place among the chunks of a segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChunkCursor {
    pub(super) segment: Segment,
    /// The entry from which on chunks come; none behind the last entry there can be.
    next: Option<Entry>,
}

impl ChunkCursor {
    /// Before all chunks of the segment.
    pub(super) const fn new(segment: Segment) -> Self {
        Self { segment, next: Some(segment.low) }
    }
}

/// A chunk and its key, checked.
pub(super) struct LoadedChunk<'t> {
    pub(super) key: ChunkKey,
    layout: ChunkLayout,
    bytes: AccessGuard<'t, &'static [u8]>,
}

crate::opaque!(LoadedChunk<'_>);

type ChunkRead<'t> =
    Result<(AccessGuard<'t, ChunkKey>, AccessGuard<'t, &'static [u8]>), StorageError>;

impl<'t> LoadedChunk<'t> {
    fn take(found: Option<ChunkRead<'t>>) -> Result<Option<Rc<Self>>, StoreError> {
        let Some((key, bytes)) = found.transpose()? else { return Ok(None) };
        let key = key.value();
        let layout = ChunkView::read(key, bytes.value())?.layout;
        Ok(Some(Rc::new(Self { key, layout, bytes })))
    }

    /// Its greatest entry.
    pub(super) fn last(&self) -> Entry {
        last_of(self.key)
    }

    /// Whether an entry would stand in it, not before or behind it.
    fn spans(&self, entry: Entry) -> bool {
        self.view().first() <= entry && entry <= self.last()
    }

    /// Its entries.
    pub(super) fn view(&self) -> ChunkView<'_> {
        ChunkView::again(self.layout, self.bytes.value())
    }
}
