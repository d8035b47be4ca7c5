//! Asks the runs of one kind: counts, lists, single entries.
//!
//! A reader sees the runs as segments, oldest first: a run, or the part of one that a merge under
//! way has left it or has written so far. A list is the concatenation of its parts in the segments.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use redb::{ReadOnlyTable, ReadableTable};

use super::counts::RunCounts;
use super::directory::{Group, RunDirectory};
use super::seek::{ChunkCursor, ChunkReader, LoadedChunk, Segment};
use super::{ChunkKey, Entry, RunKind, damaged_chunk};
use crate::store::error::StoreError;
use crate::store::query::{Order, SharedTable};

/// The tables of the runs in a read transaction.
pub(in crate::store) struct RunTables {
    chunks: SharedTable<ChunkKey, &'static [u8]>,
    lists: SharedTable<u8, &'static [u8]>,
    counts: Arc<RunCounts>,
}

impl RunTables {
    /// The runs in these tables, of which `counts` are known.
    pub(in crate::store) const fn new(
        chunks: SharedTable<ChunkKey, &'static [u8]>,
        lists: SharedTable<u8, &'static [u8]>,
        counts: Arc<RunCounts>,
    ) -> Self {
        Self { chunks, lists, counts }
    }

    /// A reader of the runs of a kind.
    pub(in crate::store) fn reader(
        &self,
        kind: RunKind,
    ) -> Result<RunReader<'_, ReadOnlyTable<ChunkKey, &'static [u8]>>, StoreError> {
        let directory = RunDirectory::read(&*self.lists, kind)?;
        let counts = Some(&*self.counts);
        Ok(RunReader { counts, ..RunReader::new(&*self.chunks, kind, &directory) })
    }
}

crate::opaque!(RunTables);

/// The runs of one kind, as they stand in one transaction.
#[derive(Debug)]
pub(in crate::store) struct RunReader<'t, T> {
    chunks: ChunkReader<'t, T>,
    kind: RunKind,
    floor: u64,
    segments: Vec<Segment>,
    /// None inside a write transaction, which may be dropped with the runs that it wrote.
    counts: Option<&'t RunCounts>,
}

impl<'t, T: ReadableTable<ChunkKey, &'static [u8]>> RunReader<'t, T> {
    pub(super) fn new(chunks: &'t T, kind: RunKind, directory: &RunDirectory) -> Self {
        let segments = directory.groups.iter().flat_map(segments_of).collect();
        let chunks = ChunkReader::new(chunks, kind);
        Self { chunks, kind, floor: directory.floor, segments, counts: None }
    }

    /// The number of entries of `major` with a minor in `minors`.
    /// Cost: at most two chunks a run; none of a run whose count is known.
    pub(in crate::store) fn count(
        &self,
        major: u64,
        minors: Range<u64>,
    ) -> Result<u64, StoreError> {
        let mut sum = 0;
        for part in self.parts(major, &minors) {
            let count = || self.count_segment(&part);
            sum += match self.counts {
                Some(counts) if part.is_all_of_major() => {
                    counts.get_or_count((self.kind.number(), part.run.run, major), count)?
                }
                _ => count()?,
            };
        }
        Ok(sum)
    }

    /// The minors of `major` within `minors`, in order. Cost: at most a chunk a run, and one for
    /// each further 8 KiB that is read.
    pub(in crate::store) fn scan(
        &self,
        major: u64,
        minors: Range<u64>,
        order: Order,
    ) -> Scan<'_, 't, T> {
        let mut waiting: Vec<Segment> = self.parts(major, &minors).collect();
        // The next one stands last.
        if order == Order::OldestFirst {
            waiting.reverse();
        }
        Scan { reader: self, order, waiting, current: None, at_hand: None }
    }

    /// Whether there is such an entry.
    pub(in crate::store) fn contains(&self, major: u64, minor: u64) -> Result<bool, StoreError> {
        let Some(end) = minor.checked_add(1) else { return Ok(false) };
        Ok(self.scan(major, minor..end, Order::NewestFirst).next().transpose()?.is_some())
    }

    /// The number of runs and parts of runs that a query goes to.
    #[cfg(test)]
    pub(super) fn runs(&self) -> usize {
        self.segments.len()
    }

    /// The number of entries in the runs that may have a minor of at least `first_minor`.
    pub(in crate::store) fn count_from(&self, first_minor: u64) -> u64 {
        let first_minor = first_minor.max(self.floor);
        let segments = self.segments.iter().filter(|part| part.run.last_minor >= first_minor);
        segments.map(|part| part.run.entries).sum()
    }

    /// Hands every entry with a minor of at least `first_minor` to `visit`, run by run, the oldest
    /// run first, sorted inside a run. Cost: reads all those runs.
    pub(in crate::store) fn each(
        &self,
        first_minor: u64,
        mut visit: impl FnMut(Entry),
    ) -> Result<(), StoreError> {
        let first_minor = first_minor.max(self.floor);
        for segment in self.segments.iter().filter(|part| part.run.last_minor >= first_minor) {
            let mut cursor = ChunkCursor::new(*segment);
            while let Some(chunk) = self.chunks.next_chunk(&mut cursor)? {
                let view = chunk.view();
                view.between(segment.low, segment.high)
                    .map(|place| view.entry(place))
                    .filter(|entry| entry.minor() >= first_minor)
                    .for_each(&mut visit);
            }
        }
        Ok(())
    }

    /// Checks every chunk of the kind: sums, order, positions, spans.
    /// Errors: `Damaged`, naming what is wrong. Cost: reads all runs.
    pub(in crate::store) fn check(&self) -> Result<(), StoreError> {
        self.segments.iter().try_for_each(|segment| self.check_segment(segment))
    }

    fn check_segment(&self, segment: &Segment) -> Result<(), StoreError> {
        let whole = Segment { low: Entry::FIRST, high: Entry::LAST, ..*segment };
        let mut cursor = ChunkCursor::new(whole);
        let mut before: Option<(Entry, u64)> = None;
        while let Some(chunk) = self.chunks.next_chunk(&mut cursor)? {
            let view = chunk.view();
            if before.is_some_and(|(last, end)| last >= view.first() || end != view.position()) {
                return Err(damaged_chunk(chunk.key, "it does not follow the one before"));
            }
            let entries = (0..view.count()).map(|place| view.entry(place));
            if !entries.clone().is_sorted_by(|left, right| left < right) {
                return Err(damaged_chunk(chunk.key, "its entries are out of order"));
            }
            let span = segment.run.first_minor..=segment.run.last_minor;
            if !entries.clone().all(|entry| span.contains(&entry.minor())) {
                return Err(damaged_chunk(chunk.key, "an entry is outside its run's span"));
            }
            let is_begun = before.is_some() || segment.low > Entry::FIRST;
            if !is_begun && view.position() != 0 {
                return Err(damaged_chunk(chunk.key, "the run's first chunk is missing"));
            }
            before = Some((view.last(), view.position() + view.count() as u64));
        }
        let is_merged_away = before.is_none() && segment.low > Entry::FIRST;
        if is_merged_away || before.map_or(0, |(_, end)| end) == segment.run.entries {
            return Ok(());
        }
        let key = (self.kind.number(), segment.run.run, 0, 0);
        Err(damaged_chunk(key, "the run does not have as many entries as it should"))
    }

    /// The parts of the segments that may hold such entries, oldest first.
    fn parts(&self, major: u64, minors: &Range<u64>) -> impl Iterator<Item = Segment> {
        let first = minors.start.max(self.floor);
        let bounds = (first < minors.end)
            .then(|| (Entry::new(major, first), Entry::new(major, minors.end - 1)));
        bounds.into_iter().flat_map(|(low, high)| {
            self.segments.iter().filter_map(move |part| part.clip(low, high))
        })
    }

    /// The number of entries of a segment.
    fn count_segment(&self, segment: &Segment) -> Result<u64, StoreError> {
        let Some(chunk) = self.chunks.chunk_from(segment.run.run, segment.low)? else {
            return Ok(0);
        };
        let view = chunk.view();
        let places = view.between(segment.low, segment.high);
        if segment.high <= view.last() {
            return Ok(places.len() as u64);
        }
        let from = view.position() + places.start as u64;
        let behind = self.chunks.chunk_from(segment.run.run, segment.high)?;
        let until = behind.as_ref().map_or(segment.run.entries, |chunk| {
            let view = chunk.view();
            view.position() + view.between(Entry::FIRST, segment.high).end as u64
        });
        until.checked_sub(from).ok_or_else(|| damaged_chunk(chunk.key, "its position is wrong"))
    }
}

/// The segments of a group, oldest first.
fn segments_of(group: &Group) -> Vec<Segment> {
    let merge = match group {
        Group::Run(run) => return vec![Segment::whole(*run)],
        Group::Merge(merge) => merge,
    };
    let until = merge.merged_until.map(|(major, minor)| Entry::new(major, minor));
    let target = until.map(|high| Segment { high, ..Segment::whole(merge.target) });
    let rest = merge.inputs.iter().filter_map(|run| Segment::behind(*run, until));
    target.into_iter().chain(rest).collect()
}

/// The minors of one major, read chunk by chunk.
#[derive(Debug)]
pub(in crate::store) struct Scan<'r, 't, T> {
    reader: &'r RunReader<'t, T>,
    order: Order,
    waiting: Vec<Segment>,
    current: Option<ChunkCursor>,
    /// The chunk that is read, and the places in it that are still to come.
    at_hand: Option<(Rc<LoadedChunk<'t>>, Range<usize>)>,
}

impl<'t, T: ReadableTable<ChunkKey, &'static [u8]>> Scan<'_, 't, T> {
    /// Leaves out the next `count` minors.
    /// Cost: at most two chunks a run, and one for every 8 KiB left out of the run where it ends.
    pub(in crate::store) fn leave_out(&mut self, count: u64) -> Result<(), StoreError> {
        let mut left = count;
        while left > 0 {
            let Some((_, places)) = self.at_hand.as_mut().filter(|(_, places)| !places.is_empty())
            else {
                if !self.leave_out_segment(&mut left)? && !self.load_more()? {
                    break;
                }
                continue;
            };
            let taken = places.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            match self.order {
                Order::OldestFirst => places.start += taken,
                Order::NewestFirst => places.end -= taken,
            }
            left -= taken as u64;
        }
        Ok(())
    }

    /// Leaves out the next segment if it has no more entries than that and none was read yet.
    fn leave_out_segment(&mut self, left: &mut u64) -> Result<bool, StoreError> {
        let (None, Some(segment)) = (self.current, self.waiting.last()) else { return Ok(false) };
        let count = self.reader.count_segment(segment)?;
        if count > *left {
            return Ok(false);
        }
        *left -= count;
        self.waiting.pop();
        Ok(true)
    }

    /// Reads the next chunk that has any; false at the end.
    fn load_more(&mut self) -> Result<bool, StoreError> {
        loop {
            if self.current.is_none() {
                self.current = self.waiting.pop().map(ChunkCursor::new);
            }
            let Some(mut cursor) = self.current else { return Ok(false) };
            let chunk = match self.order {
                Order::OldestFirst => self.reader.chunks.next_chunk(&mut cursor)?,
                Order::NewestFirst => self.previous_chunk(&cursor.segment)?,
            };
            let Some(chunk) = chunk else {
                self.current = None;
                continue;
            };
            if self.take_chunk(cursor, chunk) {
                return Ok(true);
            }
        }
    }

    /// The chunk of a segment before the one that was read last.
    fn previous_chunk(
        &self,
        Segment { run, high, .. }: &Segment,
    ) -> Result<Option<Rc<LoadedChunk<'t>>>, StoreError> {
        match &self.at_hand {
            Some((read, _)) if read.key.1 == run.run => self.reader.chunks.chunk_before(read.key),
            _ => self.reader.chunks.chunk_until(run.run, *high),
        }
    }

    /// Takes what the segment has in this chunk, and moves on; false if there is nothing.
    fn take_chunk(&mut self, cursor: ChunkCursor, chunk: Rc<LoadedChunk<'t>>) -> bool {
        let Segment { low, high, .. } = cursor.segment;
        let view = chunk.view();
        let places = view.between(low, high);
        let is_last = match self.order {
            Order::OldestFirst => view.last() >= high,
            Order::NewestFirst => view.first() <= low,
        };
        self.current = (!is_last).then_some(cursor);
        let has_any = !places.is_empty();
        self.at_hand = Some((chunk, places));
        has_any
    }

    /// The next minor of the chunk at hand.
    fn next_at_hand(&mut self) -> Option<u64> {
        let (chunk, places) = self.at_hand.as_mut()?;
        let place = match self.order {
            Order::OldestFirst => places.next(),
            Order::NewestFirst => places.next_back(),
        };
        place.map(|place| chunk.view().minor(place))
    }
}

impl<'t, T: ReadableTable<ChunkKey, &'static [u8]>> Iterator for Scan<'_, 't, T> {
    type Item = Result<u64, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(minor) = self.next_at_hand() {
                return Some(Ok(minor));
            }
            match self.load_more() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    self.waiting.clear();
                    self.current = None;
                    return Some(Err(error));
                }
            }
        }
    }
}
