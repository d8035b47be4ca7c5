//! Inspects a journal before it is trusted, and changes nothing.
//!
//! Order of the checks: the identity; each segment from the oldest kept on; the chain; the bytes
//! behind its end; then whether the end is where the tables and the acknowledgements say it must
//! be. A start proves the chain from the segment of the checkpoint's batch on, which recovery
//! reads, so its cost does not grow with history. A reader (`verify`, tools) proves all of it.
//!
//! INVARIANT: the chain ends where the first batch is missing or broken, and this is an end only if
//! nothing behind it was written later: a batch of a later group proves that the broken one was
//! durable, so that it was damaged and not torn. A node of a cluster writes several groups at once, and
//! gets cut batches from the others: there only the note and the checkpoint count.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::super::ack_mark::AckMark;
use super::super::chain::{BATCH_HEADER_BYTES, ChainCursor, ChainLink, decode_header};
use super::super::error::{ChainFault, Damage};
use super::super::limits::{BATCH_BYTES_MAX, COMMIT_BYTES_TARGET};
use super::super::{BatchNumber, ChainPosition, JournalError, JournalIdentity, JournalNote};
use super::head::{JournalHead, check_identity};
use super::segment::{
    BLOCK_BYTES, LogSegment, SegmentBytes, SegmentHead, ordinal_of, round_up_to_block, segment_name,
};
use super::{READING, missing_segment};
use crate::disk::{Disk, DiskAccess};

/// How far behind a broken batch its group can reach. Units: bytes.
const GROUP_BYTES_MAX: u64 = (COMMIT_BYTES_TARGET + BATCH_BYTES_MAX + PADDING_BYTES_MAX) as u64;
/// Bytes that headers and padding add to a group, whose batches hold half of `BATCH_BYTES_TARGET`
/// or more on average.
const PADDING_BYTES_MAX: usize = 1 << 20;

/// A journal that was proven.
#[derive(Debug)]
pub(super) struct LogInspection {
    pub(super) head: JournalHead,
    /// The segments that count, oldest first.
    pub(super) segments: VecDeque<Arc<LogSegment>>,
    /// Files of segments that hold nothing any more, or nothing yet.
    pub(super) unused: Vec<u64>,
    pub(super) tip: ChainPosition,
    pub(super) notes: Vec<JournalNote>,
}

impl LogInspection {
    /// The oldest batch kept; the one that comes next in a journal without any.
    pub(super) fn first(&self) -> BatchNumber {
        self.segments.front().map_or(BatchNumber(self.tip.number.0 + 1), |oldest| oldest.first())
    }
}

/// How much of a journal is proven.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Proof {
    /// The chain from the segment of the checkpoint on; all of it where no checkpoint is known.
    Tail,
    /// The chain from end to end.
    Whole,
}

/// The facts that a journal has to agree with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claims<'a> {
    pub(super) identity: Option<&'a JournalIdentity>,
    pub(super) checkpoint: Option<ChainPosition>,
    pub(super) proof: Proof,
    /// Whether other nodes have the batches that are cut.
    pub(super) is_follower: bool,
}

/// Proves the journal on `disk`; `None` if nothing was ever written to it.
pub(super) fn inspect(
    disk: &dyn Disk,
    access: DiskAccess,
    claims: &Claims<'_>,
) -> Result<Option<LogInspection>, JournalError> {
    let Some(head) = JournalHead::open(disk, access)? else {
        return check_headless(disk, claims).map(|()| None);
    };
    if let Some(expected) = claims.identity {
        check_identity(&head.identity, expected)?;
    }
    let FoundSegments { segments, unused, next } = find_segments(disk, &head)?;
    let mut walk = Walk::begin(&head.identity, &segments, claims)?;
    for segment in &segments {
        walk.pass(segment)?;
    }
    let (tip, notes) = walk.finish(next.as_ref())?;
    let found = LogInspection { head, segments, unused, tip, notes };
    let mark = AckMark::open(disk, found.head.identity.directory_id);
    let acknowledged = mark.read().map_err(JournalError::io(READING))?;
    check_end(&found, acknowledged, claims.checkpoint)?;
    Ok(Some(found))
}

/// A journal without a head was never made: it may not lack a batch that it had to hold.
fn check_headless(disk: &dyn Disk, claims: &Claims<'_>) -> Result<(), JournalError> {
    let names = disk.names().map_err(JournalError::io(READING))?;
    if names.iter().any(|name| ordinal_of(name).is_some()) {
        let what = "it has segments and no head".to_owned();
        return Err(JournalError::NotAJournal { what });
    }
    if let Some(identity) = claims.identity {
        let mark = AckMark::open(disk, identity.directory_id);
        let acknowledged = mark.read().map_err(JournalError::io(READING))?;
        if let Some(acknowledged) = acknowledged.filter(|acknowledged| acknowledged.0 > 0) {
            let (last, damage) = (None, None);
            return Err(JournalError::EndsBeforeAcknowledged { acknowledged, last, damage });
        }
    }
    match claims.checkpoint.filter(|checkpoint| checkpoint.number.0 > 0) {
        Some(checkpoint) => {
            let checkpoint = checkpoint.number;
            Err(JournalError::EndsBeforeCheckpoint { checkpoint, last: None })
        }
        None => Ok(()),
    }
}

/// The files of segments.
struct FoundSegments {
    /// The segments that count, from the oldest kept on.
    segments: VecDeque<Arc<LogSegment>>,
    /// The segments that may be written again.
    unused: Vec<u64>,
    /// The unused segment that would follow the newest that counts: its first group may be torn.
    next: Option<LogSegment>,
}

fn find_segments(disk: &dyn Disk, head: &JournalHead) -> Result<FoundSegments, JournalError> {
    let names = disk.names().map_err(JournalError::io(READING))?;
    let mut files = BTreeMap::new();
    for (ordinal, name) in names.iter().filter_map(|name| Some((ordinal_of(name)?, name))) {
        let file = disk.open(name).map_err(JournalError::io(READING))?;
        files.insert(ordinal, file);
    }
    let mut segments = VecDeque::new();
    let (mut unused, mut next) = (Vec::new(), None);
    for (ordinal, file) in files {
        let found = SegmentHead::read(&*file, &head.identity).map_err(JournalError::io(READING))?;
        let expected =
            segments.back().map_or(head.oldest, |last: &Arc<LogSegment>| last.ordinal + 1);
        match found {
            Some(found) if found.ordinal == ordinal && ordinal >= head.oldest => {
                if ordinal != expected {
                    return Err(missing_segment(expected));
                }
                let len = file.len().map_err(JournalError::io(READING))?;
                segments.push_back(Arc::new(LogSegment::new(ordinal, found.after, file, len)));
            }
            Some(found) if found.ordinal >= head.oldest => {
                let what = format!("it holds what belongs into {}", segment_name(found.ordinal));
                return Err(JournalError::Damaged { file: segment_name(ordinal), offset: 0, what });
            }
            // Let go of, made for later batches, or torn when its first batch was written.
            _ => {
                if ordinal == expected {
                    let len = file.len().map_err(JournalError::io(READING))?;
                    next = Some(LogSegment::new(ordinal, ChainPosition::GENESIS, file, len));
                }
                unused.push(ordinal);
            }
        }
    }
    let is_new = segments.is_empty() && head.oldest == 1;
    if segments.is_empty() && !is_new {
        return Err(missing_segment(head.oldest));
    }
    Ok(FoundSegments { segments, unused, next })
}

/// Follows the chain through the segments.
struct Walk {
    partition: u16,
    checkpoint: Option<ChainPosition>,
    is_follower: bool,
    /// The segment at which it begins.
    start: u64,
    cursor: ChainCursor,
    /// The place at which the chain ended in the segment before, if it did.
    stop: Option<Stop>,
}

/// The place behind the last batch of a segment.
#[derive(Debug)]
struct Stop {
    segment: Arc<LogSegment>,
    /// Why the next batch is not there, if something is.
    fault: Option<ChainFault>,
}

impl Walk {
    fn begin(
        identity: &JournalIdentity,
        segments: &VecDeque<Arc<LogSegment>>,
        claims: &Claims<'_>,
    ) -> Result<Self, JournalError> {
        let Claims { checkpoint, proof, is_follower, .. } = *claims;
        let oldest = segments.front().map(|segment| segment.after);
        if let (Some(checkpoint), Some(oldest)) = (checkpoint, oldest)
            && oldest.number > checkpoint.number
        {
            let first = BatchNumber(oldest.number.0 + 1);
            let checkpoint = checkpoint.number;
            return Err(JournalError::StartsAfterCheckpoint { checkpoint, first });
        }
        let start = match (proof, checkpoint) {
            (Proof::Tail, Some(checkpoint)) => {
                segments.iter().rev().find(|segment| segment.first() <= checkpoint.number)
            }
            _ => None,
        };
        let start = start.or_else(|| segments.front());
        let after = start.map_or(ChainPosition::GENESIS, |start| start.after);
        let partition = identity.partition;
        let cursor = ChainCursor::after(partition, after);
        let walk = Self {
            partition,
            checkpoint,
            is_follower,
            start: start.map_or(0, |start| start.ordinal),
            cursor,
            stop: None,
        };
        walk.compare(&after)?;
        Ok(walk)
    }

    fn tip(&self) -> ChainPosition {
        self.cursor.tip()
    }

    /// Proves the batches of one segment.
    fn pass(&mut self, segment: &Arc<LogSegment>) -> Result<(), JournalError> {
        if segment.ordinal < self.start {
            return Ok(());
        }
        if segment.after != self.tip() {
            return Err(self.broken_before(segment));
        }
        let mut bytes = SegmentBytes::of(segment);
        let fault = loop {
            let Some(batch) = bytes.batch_at(segment.end())? else { break None };
            match self.cursor.accept(batch) {
                Ok(ChainLink::Batch(view) | ChainLink::Barrier(view)) => {
                    let position = view.position();
                    segment.push(batch.len());
                    self.compare(&position)?;
                }
                Ok(ChainLink::Void(_)) => break None,
                Err(fault) => break Some(fault),
            }
        };
        self.stop = Some(Stop { segment: Arc::clone(segment), fault });
        Ok(())
    }

    /// Says where the chain is broken that `segment` was to continue.
    fn broken_before(&self, segment: &LogSegment) -> JournalError {
        match &self.stop {
            Some(stop) if segment.after.number > self.tip().number => stop.damaged(),
            _ => JournalError::Damaged {
                file: segment_name(segment.ordinal),
                offset: 0,
                what: "it does not continue the segment before it".to_owned(),
            },
        }
    }

    /// Compares a place in the chain with the checkpoint of the tables.
    fn compare(&self, position: &ChainPosition) -> Result<(), JournalError> {
        match self.checkpoint {
            Some(checkpoint) if checkpoint.number == position.number && checkpoint != *position => {
                Err(JournalError::DiffersFromCheckpoint { checkpoint: checkpoint.number })
            }
            _ => Ok(()),
        }
    }

    /// Returns the end of the chain, once it is known that nothing was written behind it later, in the
    /// newest segment or in `next`, which would be the one after it.
    fn finish(
        self,
        next: Option<&LogSegment>,
    ) -> Result<(ChainPosition, Vec<JournalNote>), JournalError> {
        let (tip, mut notes) = (self.tip(), Vec::new());
        let torn = |segment: &LogSegment, has_whole_batch| JournalNote::TornTail {
            file: segment_name(segment.ordinal),
            offset: segment.end(),
            last_seq: tip.last_seq,
            has_whole_batch,
        };
        if let Some(stop) = &self.stop {
            match self.behind(&stop.segment)? {
                TailContent::LaterGroup if !self.is_follower => return Err(stop.damaged()),
                TailContent::LaterGroup | TailContent::TornGroup => {
                    notes.push(torn(&stop.segment, true))
                }
                TailContent::Nothing if SegmentBytes::of(&stop.segment).continues(&tip)? => {
                    notes.push(torn(&stop.segment, false));
                }
                TailContent::Nothing => {}
            }
        }
        if let Some(next) = next {
            match self.behind(next)? {
                TailContent::LaterGroup if !self.is_follower => {
                    return Err(missing_segment(next.ordinal));
                }
                TailContent::LaterGroup | TailContent::TornGroup => notes.push(torn(next, true)),
                TailContent::Nothing => {}
            }
        }
        Ok((tip, notes))
    }

    /// Looks for batches that were written behind the end of the chain.
    fn behind(&self, segment: &LogSegment) -> Result<TailContent, JournalError> {
        let tip = self.tip();
        let mut bytes = SegmentBytes::of(segment);
        let mut found = TailContent::Nothing;
        let mut offset = segment.end();
        let until = segment.len.min(offset + GROUP_BYTES_MAX);
        while offset < until {
            let header = bytes.batch_at(offset)?.and_then(|batch| decode_header(batch).ok());
            let later = header.filter(|header| {
                let is_ours = header.partition == self.partition && header.epoch >= tip.epoch;
                is_ours && header.number > tip.number
            });
            match later {
                Some(header) if header.group_start().0 > tip.number.0 + 1 => {
                    return Ok(TailContent::LaterGroup);
                }
                Some(header) => {
                    found = TailContent::TornGroup;
                    let bytes = BATCH_HEADER_BYTES as u64 + u64::from(header.payload_len);
                    offset += round_up_to_block(bytes);
                }
                None => offset += BLOCK_BYTES,
            }
        }
        Ok(found)
    }
}

/// The content behind the end of a chain.
enum TailContent {
    Nothing,
    /// Parts of the group that would continue it.
    TornGroup,
    /// Batches that were written when that group was durable.
    LaterGroup,
}

impl Stop {
    fn damaged(&self) -> JournalError {
        let what = self.fault.as_ref().map_or_else(|| MISSING.to_owned(), ToString::to_string);
        let file = segment_name(self.segment.ordinal);
        JournalError::Damaged { file, offset: self.segment.end(), what }
    }
}

const MISSING: &str = "a batch is missing that others follow";

/// Compares the end with the promises: replies that have left, tables that are further.
fn check_end(
    found: &LogInspection,
    acknowledged: Option<BatchNumber>,
    checkpoint: Option<ChainPosition>,
) -> Result<(), JournalError> {
    let reached = found.tip.number;
    let last = (reached.0 > 0).then_some(reached);
    if let Some(acknowledged) = acknowledged.filter(|acknowledged| *acknowledged > reached) {
        let damage = found.segments.back().map(|segment| Damage {
            file: segment_name(segment.ordinal),
            file_offset: segment.end(),
        });
        return Err(JournalError::EndsBeforeAcknowledged { acknowledged, last, damage });
    }
    match checkpoint {
        Some(checkpoint) if checkpoint.number > reached => {
            Err(JournalError::EndsBeforeCheckpoint { checkpoint: checkpoint.number, last })
        }
        _ => Ok(()),
    }
}
