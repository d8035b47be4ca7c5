//! The journal as a log: segment files that are written once from front to back, then written again
//! when no longer needed.
//!
//! | file | holds |
//! |---|---|
//! | `head` | the journal's identity, the oldest segment kept, the lock; see `head` |
//! | `ack` | the last batch whose replies may have left; see `ack_mark` |
//! | `<ordinal>.segment` | batches in blocks of 4 KiB; see `segment` |
//!
//! One group of batches is one write that returns when it is durable. It goes to blocks that were
//! allocated and zeroed before, so the file system has nothing of its own to make durable with it.
//! A thread of its own makes and zeroes the next segment, and removes old ones (`maker`). The committer's
//! upkeep does the rest in small steps between groups: it zeroes the rest of a half-full segment
//! that an open found, and lets go of old ones.
//!
//! `opening` opens it.
//!
//! INVARIANT: acknowledged bytes never change before their segment is dropped; a start may write the
//! same bytes once more. After an error nothing is written at all.

mod copy;
mod head;
mod index;
mod inspect;
mod maker;
mod opening;
mod reader;
mod segment;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use self::copy::LogCopy;
use self::head::JournalHead;
use self::index::LogIndex;
use self::maker::{MakerSteps, PreparedSegment, SegmentMaker, SegmentOrder, zero};
pub use self::opening::{open_read_only, open_read_only_on};
pub use self::reader::LogReader;
use self::segment::{
    BLOCK_BYTES, BLOCK_LEN, FIRST_BATCH_OFFSET, LogSegment, SegmentHead, round_up_to_block,
    segment_name,
};
use super::ack_mark::AckMark;
use super::chain::{BATCH_HEADER_BYTES, BatchHeader, BatchKind, SealedBatch};
use super::limits::{
    BATCH_BYTES_MAX, SEGMENT_BYTES_FOR_RECOVERY, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN,
    ZERO_AHEAD_BYTES, ZERO_STEP_BYTES,
};
use super::{BatchNumber, ChainPosition, Journal, JournalError, JournalIdentity, JournalNote};
use crate::disk::Disk;
use crate::steps::Steps;

const READING: &str = "cannot read the journal";
const WRITING: &str = "cannot write the journal";
const NOTING: &str = "cannot note what was acknowledged";

/// Segments of a journal of bounded size, which drops one at a time.
const SEGMENTS_KEPT: u64 = 8;

/// The source of padding, a block.
static ZEROES: [u8; BLOCK_LEN] = [0; BLOCK_LEN];

/// The facts that a journal must agree with before anything is read from it or written to it.
#[derive(Clone, Copy, Debug)]
pub struct Expectation {
    /// The identity that the journal must have.
    pub identity: JournalIdentity,
    /// The checkpoint of the tables: `GENESIS` if they hold nothing yet, `None` if unknown,
    /// which is for tools that read a journal by itself.
    pub checkpoint: Option<ChainPosition>,
}

/// How much of the past a journal keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogRetention {
    /// The size of all segments beyond which the oldest goes, as far as recovery does not need it.
    /// Units: bytes.
    pub keep_bytes: u64,
    /// The size of one segment. Units: bytes.
    pub segment_bytes: u64,
}

impl LogRetention {
    /// Keeps `bytes` of batches and more only as far as recovery needs them. The largest number
    /// keeps all. Units: bytes.
    pub fn of_bytes(bytes: u64) -> Self {
        let segment_bytes = round_up_to_block(bytes / SEGMENTS_KEPT);
        Self {
            keep_bytes: bytes,
            segment_bytes: segment_bytes.clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX),
        }
    }

    /// Keeps what recovery needs and no more.
    pub const fn for_recovery() -> Self {
        Self { keep_bytes: 0, segment_bytes: SEGMENT_BYTES_FOR_RECOVERY }
    }
}

/// The writing side of a journal. Opening it to lead has written the barrier of its epoch.
#[derive(Debug)]
pub struct LogJournal {
    disk: Arc<dyn Disk>,
    head: JournalHead,
    mark: AckMark,
    retention: LogRetention,
    index: Arc<LogIndex>,
    tip: ChainPosition,
    /// Returns the last batch before this open, up to which recovery has to read.
    pub recovered: ChainPosition,
    /// Returns the notes of the open for the operator.
    pub notes: Vec<JournalNote>,
    /// Up to where the newest segment was written at least once. Units: bytes.
    zeroed_until: u64,
    maker: Arc<SegmentMaker>,
    next: NextSegment,
    /// A segment file of the past that can be written again.
    spare: Option<u64>,
    has_failed: bool,
}

/// How far the segment after the newest one is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum NextSegment {
    NotOrdered,
    /// The maker has it, ready or not.
    Ordered,
    /// The disk had no room for it: it is not tried again before it is needed, or room was made.
    NoRoom,
}

/// A journal opened for reading only: proven, and not changed by a single byte.
#[derive(Clone, Debug)]
pub struct ReadOnlyJournal {
    /// Reads its batches.
    pub reader: LogReader,
    /// The journal's identity.
    pub identity: JournalIdentity,
    /// The oldest batch kept.
    pub first: BatchNumber,
    /// The newest batch.
    pub tip: ChainPosition,
}

impl LogJournal {
    /// Opens a side for reading, to be used from any thread.
    pub fn reader(&self) -> LogReader {
        LogReader::of(&self.index, None)
    }

    /// Shows each batch after `position` that this open has found, oldest first. The open has just
    /// proven them, where `position` is its checkpoint: they are read in place and not proven again.
    pub fn visit_recovered<E: From<JournalError>>(
        &self,
        position: ChainPosition,
        visit: impl FnMut(&BatchHeader, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.index.visit(position.number, self.recovered.number, visit)
    }

    /// Returns the steps that make and zero the next segment, which end when the journal is closed.
    /// Without them, appends take longer. `keep_up` reports their failure.
    pub fn segment_steps(&self) -> Box<dyn Steps + Send> {
        Box::new(MakerSteps(Arc::clone(&self.maker)))
    }

    /// Returns the partition whose batches it holds.
    pub fn partition(&self) -> u16 {
        self.head.identity.partition
    }

    /// Writes batches that continue the tip, each run of them that one segment takes at once.
    fn write_group(&mut self, batches: &[SealedBatch]) -> Result<(), JournalError> {
        let mut rest = batches;
        while let Some(first) = rest.first() {
            let (room, head) = match self.index.newest().filter(|newest| has_room(newest, first)) {
                Some(newest) => (newest.len - newest.end(), None),
                None => {
                    let head = self.begin_segment(stored_bytes(first))?;
                    (self.newest().len - FIRST_BATCH_OFFSET, Some(head))
                }
            };
            let count = count_that_fits(rest, room);
            let (now, later) = rest.split_at(count);
            self.write_run(now, head.as_ref())?;
            rest = later;
        }
        self.mark.write(self.tip.number).map_err(JournalError::io(NOTING))
    }

    /// Writes batches into the newest segment, with its head before the first one.
    fn write_run(
        &mut self,
        batches: &[SealedBatch],
        head: Option<&SegmentHead>,
    ) -> Result<(), JournalError> {
        let segment = self.newest();
        let head = head.map(SegmentHead::render);
        let mut parts: Vec<&[u8]> = Vec::with_capacity(2 * batches.len() + 1);
        parts.extend(head.as_ref().map(|block| block.as_slice()));
        for batch in batches {
            let padding = batch.bytes.len().next_multiple_of(BLOCK_LEN) - batch.bytes.len();
            parts.push(&batch.bytes);
            if padding > 0 {
                parts.push(&ZEROES[..padding]);
            }
        }
        let offset = if head.is_some() { 0 } else { segment.end() };
        segment.file.write_durably(offset, &parts).map_err(JournalError::io(WRITING))?;
        for batch in batches {
            segment.push(batch.bytes.len());
        }
        let newest = batches.last().expect("a run has batches").position();
        self.zeroed_until = self.zeroed_until.max(segment.end());
        self.tip = newest;
        self.index.set_last(newest.number);
        Ok(())
    }

    /// Makes the next segment the newest one; its head is yet to be written.
    fn begin_segment(&mut self, batch_bytes: u64) -> Result<SegmentHead, JournalError> {
        let needed = FIRST_BATCH_OFFSET + batch_bytes;
        let PreparedSegment { ordinal, file, len, zeroed_until } = self.take_next(needed)?;
        let head = SegmentHead { identity: self.head.identity, ordinal, after: self.tip };
        self.zeroed_until = zeroed_until;
        self.index.begin(LogSegment::new(ordinal, self.tip, file, len));
        Ok(head)
    }

    /// Takes the next segment, which holds at least `needed` bytes.
    fn take_next(&mut self, needed: u64) -> Result<PreparedSegment, JournalError> {
        if self.next == NextSegment::Ordered {
            self.next = NextSegment::NotOrdered;
            match self.maker.take() {
                Ok(made) if made.len >= needed => return Ok(made),
                Ok(made) => {
                    let name = segment_name(made.ordinal);
                    self.disk.remove(&name).map_err(JournalError::io(WRITING))?;
                }
                // It says so of an earlier moment: room may have been made since, or files be on their
                // way out, which go before the next attempt.
                Err(error) if error.is_no_room() => {}
                Err(error) => return Err(error),
            }
        }
        self.order_next(needed);
        self.next = NextSegment::NotOrdered;
        self.maker.take()
    }

    /// Asks for a segment of at least `needed` bytes after the newest one.
    fn order_next(&mut self, needed: u64) {
        let ordinal = self.index.newest().map_or(self.head.oldest, |newest| newest.ordinal + 1);
        let len = needed.max(self.retention.segment_bytes);
        self.maker.order(SegmentOrder { ordinal, len, spare: self.spare.take() });
        self.next = NextSegment::Ordered;
    }

    fn newest(&self) -> Arc<LogSegment> {
        self.index.newest().expect("an open journal has a segment")
    }

    /// The next piece of upkeep: appends find all they need, and no more is kept than wanted.
    fn next_duty(&self, trim_before: BatchNumber) -> Option<Duty> {
        let newest = self.index.newest()?;
        let end = newest.end();
        if self.maker.has_failed() {
            return Some(Duty::NoteFailure);
        }
        let is_due = end >= newest.len / 4 || end + ZERO_AHEAD_BYTES >= newest.len;
        let is_wanted = is_due && self.next == NextSegment::NotOrdered;
        let is_releasable = self.is_releasable(trim_before);
        // What lets the maker work comes first, with a file of the past where there is one. Large commits
        // overtake the zeroes.
        if is_wanted && (self.spare.is_some() || !is_releasable) {
            return Some(Duty::OrderNext);
        }
        if is_releasable {
            return Some(Duty::LetGo);
        }
        let is_zeroed = self.zeroed_until >= newest.len.min(end + ZERO_AHEAD_BYTES);
        (!is_zeroed).then_some(Duty::ZeroAhead)
    }

    /// Whether the oldest segment may go: all of it stands before `trim_before`, and the segments
    /// exceed the size to keep.
    fn is_releasable(&self, trim_before: BatchNumber) -> bool {
        let is_ordered = self.next == NextSegment::Ordered;
        let next = if is_ordered { self.retention.segment_bytes } else { 0 };
        self.index.second().is_some_and(|second| {
            second.first() <= trim_before && self.index.bytes() + next > self.retention.keep_bytes
        })
    }

    fn fulfil(&mut self, duty: Duty) -> Result<(), JournalError> {
        match duty {
            Duty::ZeroAhead => {
                let newest = self.newest();
                self.zeroed_until = zero(&*newest.file, self.zeroed_until, newest.len)?;
            }
            Duty::LetGo => self.let_go()?,
            Duty::OrderNext => self.order_next(0),
            Duty::NoteFailure => match self.maker.take_failure() {
                Some(error) if error.is_no_room() => self.next = NextSegment::NoRoom,
                Some(error) => return Err(error),
                None => {}
            },
        }
        Ok(())
    }

    /// Lets go of the oldest segment. Its file is written again, or removed.
    fn let_go(&mut self) -> Result<(), JournalError> {
        let oldest = self.index.let_go_of_oldest();
        self.head.raise(oldest.ordinal + 1)?;
        if self.next == NextSegment::NoRoom {
            self.next = NextSegment::NotOrdered;
        }
        if self.spare.is_none() && oldest.len == self.retention.segment_bytes {
            self.spare = Some(oldest.ordinal);
            return Ok(());
        }
        self.maker.remove(oldest);
        Ok(())
    }

    /// Runs `write` unless something failed before; remembers if it fails.
    fn guarded<T>(
        &mut self,
        write: impl FnOnce(&mut Self) -> Result<T, JournalError>,
    ) -> Result<T, JournalError> {
        if self.has_failed {
            return Err(JournalError::Failed);
        }
        let written = write(self);
        self.has_failed = written.is_err();
        written
    }
}

const NO_ROOM: &str = "cannot make room for the journal";

/// A step of upkeep. Each takes a sync at most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Duty {
    ZeroAhead,
    LetGo,
    OrderNext,
    NoteFailure,
}

impl Journal for LogJournal {
    fn tip(&self) -> ChainPosition {
        self.tip
    }

    fn append(&mut self, batches: &[SealedBatch]) -> Result<(), JournalError> {
        let mut tip = self.tip;
        for batch in batches {
            assert_continues(batch, &tip);
            if batch.bytes.len() > BATCH_BYTES_MAX {
                return Err(JournalError::BatchTooLarge { bytes: batch.bytes.len() });
            }
            tip = batch.position();
        }
        self.guarded(|journal| journal.write_group(batches))
    }

    fn needs_upkeep(&self, trim_before: BatchNumber) -> bool {
        !self.has_failed && self.next_duty(trim_before).is_some()
    }

    fn keep_up(&mut self, trim_before: BatchNumber) -> Result<(), JournalError> {
        self.guarded(|journal| match journal.next_duty(trim_before) {
            Some(duty) => journal.fulfil(duty),
            None => Ok(()),
        })
    }
}

impl Drop for LogJournal {
    /// An orderly close makes the note durable; if it cannot, the note is only older.
    fn drop(&mut self) {
        self.maker.close();
        drop(self.mark.sync());
    }
}

/// The room that a batch takes in a segment. Units: bytes.
fn stored_bytes(batch: &SealedBatch) -> u64 {
    round_up_to_block(batch.bytes.len() as u64)
}

fn has_room(segment: &LogSegment, batch: &SealedBatch) -> bool {
    segment.end() + stored_bytes(batch) <= segment.len
}

/// How many batches fit into `room` bytes together; one does, as the caller has seen.
fn count_that_fits(batches: &[SealedBatch], room: u64) -> usize {
    let ends = batches.iter().scan(0, |end, batch| {
        *end += stored_bytes(batch);
        Some(*end)
    });
    ends.take_while(|end| *end <= room).count().max(1)
}

fn missing_segment(ordinal: u64) -> JournalError {
    let what = "it is missing, or its head cannot be read".to_owned();
    JournalError::Damaged { file: segment_name(ordinal), offset: 0, what }
}

/// The pair of the checks that `ChainCursor` makes after reading.
fn assert_continues(batch: &SealedBatch, tip: &ChainPosition) {
    assert_eq!(batch.header.number.0, tip.number.0 + 1, "a batch has the next number");
    match batch.header.kind {
        BatchKind::Batch => {
            assert_eq!(batch.header.epoch, tip.epoch, "a batch is of the open epoch");
        }
        BatchKind::Barrier => {
            assert!(batch.header.epoch > tip.epoch, "a barrier raises the epoch");
        }
    }
    assert_eq!(batch.header.previous, tip.hash, "a batch carries the hash of the one before");
    assert_eq!(batch.header.first_seq, tip.last_seq + 1, "records follow without a hole");
}

const _: () = assert!(SEGMENT_BYTES_MIN.is_multiple_of(BLOCK_BYTES));
const _: () = assert!(SEGMENT_BYTES_FOR_RECOVERY.is_multiple_of(BLOCK_BYTES));
const _: () = assert!(SEGMENT_BYTES_MAX.is_multiple_of(BLOCK_BYTES));
const _: () = assert!(ZERO_STEP_BYTES.is_multiple_of(BLOCK_LEN));
const _: () = assert!(BATCH_HEADER_BYTES < BLOCK_LEN && BLOCK_BYTES == BLOCK_LEN as u64);
