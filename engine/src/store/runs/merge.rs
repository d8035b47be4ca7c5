//! Merges neighbouring runs, a bounded piece a commit.
//!
//! When `FAN_IN` neighbours are of one level they become one run of the next. Each entry appended
//! makes two entries of every merge of its kind due, so a merge ends well before its result is
//! needed, and the work of a commit follows what the commit appends. Merged entries are in the
//! target at once, and input chunks that were used up go in the same commit: no byte is kept
//! twice, and a transaction that is dropped has changed nothing.
//!
//! INVARIANT: a target ends with `merged_until`; inputs count only behind it.

use std::ops::Range;

use redb::ReadableTable;

use super::chunk::{ChunkBuilder, ChunkCopy};
use super::directory::{Group, Merge, Run, RunDirectory};
use super::seek::{ChunkCursor, ChunkReader, Segment};
use super::{ChunkKey, Entry, RunKind, RunWriter, last_of};
use crate::store::error::StoreError;

/// Runs that become one.
const FAN_IN: usize = 8;
/// A run of level n + 1 has at least this many entries times `FAN_IN` to the n: many tiny runs do
/// not make many levels.
const LEVEL_ENTRIES: u64 = 64;
/// A merge waits until this many entries are due, or its rest.
const QUANTUM: u64 = 16_384;
/// Entries of each input that are put in order at a time.
const ROUND: usize = 512;
/// The most that a step goes beyond its allowance to end with a full chunk. Units: entries.
const OVERRUN: u64 = 65_536;
/// The most chunks of runs below a floor that one step removes.
const DROPPED_CHUNKS_MAX: usize = 64;

/// The progress of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::store) struct MergeProgress {
    /// The number of merged entries.
    pub(in crate::store) merged: u64,
    /// The number of entries that are due and were left for a later step.
    pub(in crate::store) left: u64,
}

impl RunWriter<'_> {
    /// Goes on with the merges that are due, those most behind first.
    /// Cost: O(budget), and for each merge at most one chunk beyond.
    pub(in crate::store) fn merge_step(
        &mut self,
        budget: u64,
    ) -> Result<MergeProgress, StoreError> {
        let mut kinds = Vec::with_capacity(RunKind::ALL.len());
        let mut due = Vec::new();
        for kind in RunKind::ALL {
            let mut directory = RunDirectory::read(&self.lists, kind)?;
            let is_changed =
                directory.start_merges() | self.remove_dropped(kind, &mut directory)?;
            due.extend(directory.merges_due().map(|(at, entries)| (entries, kinds.len(), at)));
            kinds.push((kind, directory, is_changed));
        }
        due.sort_unstable_by(|left, right| right.cmp(left));
        let mut progress = MergeProgress::default();
        for (entries, place, at) in due {
            let left = budget.saturating_sub(progress.merged);
            if left == 0 {
                progress.left += entries;
                continue;
            }
            let (kind, directory, is_changed) = &mut kinds[place];
            let floor = directory.floor;
            if let Group::Merge(merge) = &mut directory.groups[at] {
                progress.merged += self.step(*kind, merge, floor, entries.min(left))?;
                *is_changed = true;
            }
        }
        for (kind, directory, is_changed) in &mut kinds {
            if *is_changed {
                directory.end_merges();
                directory.write(&mut self.lists, *kind)?;
            }
        }
        Ok(progress)
    }

    /// Merges about `allowance` entries; returns how many it took. A merge without inputs is done.
    fn step(
        &mut self,
        kind: RunKind,
        merge: &mut Merge,
        floor: u64,
        allowance: u64,
    ) -> Result<u64, StoreError> {
        let mut until = merge.merged_until.map(|(major, minor)| Entry::new(major, minor));
        let mut inputs = Inputs::open(merge, until);
        let mut builder = ChunkBuilder::new(kind, merge.target.run, merge.target.entries);
        let mut taken = 0;
        let is_done = loop {
            let Some(bound) = inputs.next_round(&ChunkReader::new(&self.chunks, kind))? else {
                break true;
            };
            let is_enough = taken >= allowance;
            taken += inputs.round.len() as u64;
            if let Some(last) = self.write_round(&inputs.round, floor, &mut builder, is_enough)? {
                until = Some(last);
                break false;
            }
            until = Some(bound);
            if taken >= allowance.saturating_add(OVERRUN) {
                break false;
            }
        };
        if !builder.is_empty() {
            self.write_chunk(&mut builder)?;
        }
        self.remove_used_up(&inputs, until)?;
        merge.target.entries = builder.position;
        merge.merged_until = until.map(|until| (until.major(), until.minor()));
        merge.due = merge.due.saturating_sub(taken);
        if is_done {
            merge.inputs.clear();
        }
        Ok(taken)
    }

    /// Writes a round; if that is enough it stops behind the first full chunk, and returns the last
    /// entry written.
    fn write_round(
        &mut self,
        round: &[Entry],
        floor: u64,
        builder: &mut ChunkBuilder,
        is_enough: bool,
    ) -> Result<Option<Entry>, StoreError> {
        for entry in round.iter().filter(|entry| entry.minor() >= floor) {
            if builder.push(*entry) {
                continue;
            }
            let last = builder.last();
            self.write_chunk(builder)?;
            if is_enough {
                return Ok(last);
            }
            let took = builder.push(*entry);
            assert!(took, "an empty chunk has room");
        }
        Ok(None)
    }

    /// Removes the input chunks that hold nothing behind `until`.
    fn remove_used_up(&mut self, inputs: &Inputs, until: Option<Entry>) -> Result<(), StoreError> {
        for key in inputs.inputs.iter().flat_map(|input| &input.read) {
            if Some(last_of(*key)) <= until {
                self.chunks.remove(key)?;
            }
        }
        Ok(())
    }

    /// Removes some chunks of runs that nobody reads any more; true if there were any.
    fn remove_dropped(
        &mut self,
        kind: RunKind,
        directory: &mut RunDirectory,
    ) -> Result<bool, StoreError> {
        let Some(run) = directory.dropped.last().copied() else { return Ok(false) };
        for _ in 0..DROPPED_CHUNKS_MAX {
            let keys = (kind.number(), run, 0, 0)..=(kind.number(), run, u64::MAX, u64::MAX);
            let first = self.chunks.range(keys)?.next().transpose()?.map(|(key, _)| key.value());
            let Some(key) = first else {
                directory.dropped.pop();
                break;
            };
            self.chunks.remove(key)?;
        }
        Ok(true)
    }
}

impl RunDirectory {
    /// Begins a merge wherever there are enough neighbours of one level.
    fn start_merges(&mut self) -> bool {
        let mut is_changed = false;
        let mut at = 0;
        while let Some(neighbours) = self.groups.get(at..at + FAN_IN) {
            if let Some(inputs) = runs_of_one_level(neighbours) {
                let merge = Merge::new(self.take_run_number(), inputs);
                self.groups.splice(at..at + FAN_IN, [Group::Merge(merge)]);
                is_changed = true;
            }
            at += 1;
        }
        is_changed
    }

    /// The merges that should go on, and by how many entries.
    fn merges_due(&self) -> impl Iterator<Item = (usize, u64)> {
        self.groups.iter().enumerate().filter_map(|(at, group)| match group {
            Group::Merge(merge) if merge.due >= QUANTUM.min(merge.rest()) => Some((at, merge.due)),
            _ => None,
        })
    }

    /// Makes a run of each merge that is done.
    fn end_merges(&mut self) {
        for group in &mut self.groups {
            if let Group::Merge(merge) = group
                && merge.inputs.is_empty()
            {
                *group = Group::Run(merge.result());
            }
        }
        self.groups.retain(|group| !matches!(group, Group::Run(run) if run.entries == 0));
    }
}

/// The runs of these groups, if they are runs of the same level.
fn runs_of_one_level(groups: &[Group]) -> Option<Vec<Run>> {
    let mut runs = Vec::with_capacity(groups.len());
    for group in groups {
        match group {
            Group::Run(run) => runs.push(*run),
            Group::Merge(_) => return None,
        }
    }
    let level = runs.first()?.level;
    runs.iter().all(|run| run.level == level).then_some(runs)
}

impl Merge {
    fn new(run: u64, inputs: Vec<Run>) -> Self {
        let level = inputs.iter().map(|run| run.level).max().unwrap_or_default();
        let first_minor = inputs.iter().map(|run| run.first_minor).min().unwrap_or_default();
        let last_minor = inputs.iter().map(|run| run.last_minor).max().unwrap_or_default();
        let target = Run { run, level, entries: 0, first_minor, last_minor };
        Self { target, inputs, merged_until: None, due: 0 }
    }

    /// The number of entries still to be merged, at most.
    fn rest(&self) -> u64 {
        let all: u64 = self.inputs.iter().map(|run| run.entries).sum();
        all.saturating_sub(self.target.entries)
    }

    /// The run that the merge has made.
    fn result(&self) -> Run {
        let Run { level, entries, .. } = self.target;
        let enough = (FAN_IN as u64).saturating_pow(u32::from(level)).saturating_mul(LEVEL_ENTRIES);
        let level = if entries >= enough { level.saturating_add(1) } else { level };
        Run { level, ..self.target }
    }
}

/// The runs that are merged, each at the place it has come to.
struct Inputs {
    inputs: Vec<Input>,
    /// Entries of all inputs up to a bound, in order.
    round: Vec<Entry>,
}

struct Input {
    cursor: Option<ChunkCursor>,
    low: Entry,
    /// The chunk at hand, and which of its entries come next.
    chunk: Option<ChunkCopy>,
    places: Range<usize>,
    /// The chunks that were read.
    read: Vec<ChunkKey>,
}

impl Inputs {
    fn open(merge: &Merge, until: Option<Entry>) -> Self {
        let parts = merge.inputs.iter().filter_map(|run| Segment::behind(*run, until));
        let inputs: Vec<Input> = parts.map(Input::open).collect();
        let round = Vec::with_capacity(inputs.len() * ROUND);
        Self { inputs, round }
    }

    /// Puts the next entries of all inputs in order, and returns a bound: they are all up to it.
    fn next_round<T: ReadableTable<ChunkKey, &'static [u8]>>(
        &mut self,
        chunks: &ChunkReader<'_, T>,
    ) -> Result<Option<Entry>, StoreError> {
        for input in &mut self.inputs {
            input.load(chunks)?;
        }
        let Some(bound) = self.inputs.iter().filter_map(Input::round_end).min() else {
            return Ok(None);
        };
        self.round.clear();
        for input in &mut self.inputs {
            input.take_until(bound, &mut self.round);
        }
        // The parts are in order already, which this sort makes use of.
        self.round.sort();
        Ok(Some(bound))
    }
}

impl Input {
    fn open(segment: Segment) -> Self {
        let cursor = Some(ChunkCursor::new(segment));
        Self { cursor, low: segment.low, chunk: None, places: 0..0, read: Vec::new() }
    }

    /// Takes the next chunk if there is nothing at hand.
    fn load<T: ReadableTable<ChunkKey, &'static [u8]>>(
        &mut self,
        chunks: &ChunkReader<'_, T>,
    ) -> Result<(), StoreError> {
        while self.places.is_empty() {
            let Some(cursor) = &mut self.cursor else { break };
            let Some(chunk) = chunks.next_chunk(cursor)? else {
                self.cursor = None;
                break;
            };
            let view = chunk.view();
            self.places = view.rank(self.low)..view.count();
            self.read.push(chunk.key);
            let spare = self.chunk.take().map(ChunkCopy::into_spare).unwrap_or_default();
            self.chunk = Some(view.to_copy(spare));
        }
        Ok(())
    }

    fn round_places(&self) -> Range<usize> {
        self.places.start..self.places.end.min(self.places.start + ROUND)
    }

    /// The entry up to which this input has enough at hand for a round.
    fn round_end(&self) -> Option<Entry> {
        let last = self.round_places().next_back()?;
        self.chunk.as_ref().map(|chunk| chunk.view().entry(last))
    }

    fn take_until(&mut self, bound: Entry, round: &mut Vec<Entry>) {
        let Some(chunk) = &self.chunk else { return };
        let places = self.round_places();
        let end = chunk.view().rank_behind(places.clone(), bound);
        chunk.view().decode_into(places.start..end, round);
        self.places.start = end;
    }
}
