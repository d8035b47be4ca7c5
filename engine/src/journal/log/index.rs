//! The segments that count, shared by the writer and its readers.
//!
//! INVARIANT: `last` names a batch only after it is durable and its place is known.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use super::super::chain::{BATCH_HEADER_BYTES, peek_header};
use super::super::{BatchHeader, BatchNumber, ChainPosition, JournalError};
use super::missing_segment;
use super::segment::{LogSegment, SegmentBytes};

/// The segments, oldest first.
#[derive(Debug)]
pub(super) struct LogIndex {
    segments: RwLock<VecDeque<Arc<LogSegment>>>,
    /// The size of all segments, as the writer changes it. Units: bytes.
    bytes: AtomicU64,
    last: AtomicU64,
}

impl LogIndex {
    pub(super) fn of(segments: VecDeque<Arc<LogSegment>>, last: BatchNumber) -> Self {
        let bytes = segments.iter().map(|segment| segment.len).sum::<u64>().into();
        Self { segments: RwLock::new(segments), bytes, last: AtomicU64::new(last.0) }
    }

    /// The newest durable batch.
    pub(super) fn last(&self) -> BatchNumber {
        BatchNumber(self.last.load(Ordering::Acquire))
    }

    pub(super) fn set_last(&self, last: BatchNumber) {
        self.last.store(last.0, Ordering::Release);
    }

    /// The oldest batch kept.
    pub(super) fn first(&self) -> BatchNumber {
        let next = BatchNumber(self.last().0 + 1);
        self.segments.read().front().map_or(next, |oldest| oldest.first())
    }

    /// The place in the chain before the oldest batch kept.
    pub(super) fn before_first(&self) -> ChainPosition {
        self.segments.read().front().map_or(ChainPosition::GENESIS, |oldest| oldest.after)
    }

    pub(super) fn newest(&self) -> Option<Arc<LogSegment>> {
        self.segments.read().back().cloned()
    }

    /// The segment after the oldest.
    pub(super) fn second(&self) -> Option<Arc<LogSegment>> {
        self.segments.read().get(1).cloned()
    }

    /// The size of all segments. Units: bytes. Cost: one load, each commit asks.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn begin(&self, segment: LogSegment) {
        self.bytes.fetch_add(segment.len, Ordering::Relaxed);
        self.segments.write().push_back(Arc::new(segment));
    }

    pub(super) fn let_go_of_oldest(&self) -> Arc<LogSegment> {
        let mut segments = self.segments.write();
        assert!(segments.len() > 1, "the last batch is never let go of");
        let oldest = segments.pop_front().expect("there are several");
        self.bytes.fetch_sub(oldest.len, Ordering::Relaxed);
        oldest
    }

    /// Finds the segment that holds `number`, or will.
    /// Errors: `Trimmed` if it is not kept any more.
    pub(super) fn segment_of(&self, number: BatchNumber) -> Result<Arc<LogSegment>, JournalError> {
        let segments = self.segments.read();
        let count = segments.partition_point(|segment| segment.first() <= number);
        match count.checked_sub(1) {
            Some(at) => Ok(Arc::clone(&segments[at])),
            None => Err(JournalError::Trimmed { first: self.first_of(&segments) }),
        }
    }

    /// Makes sure that the bytes read of `segment` were not written again meanwhile.
    pub(super) fn check_kept(&self, segment: &LogSegment) -> Result<(), JournalError> {
        let segments = self.segments.read();
        match segments.front() {
            Some(oldest) if oldest.ordinal <= segment.ordinal => Ok(()),
            _ => Err(JournalError::Trimmed { first: self.first_of(&segments) }),
        }
    }

    fn first_of(&self, segments: &VecDeque<Arc<LogSegment>>) -> BatchNumber {
        segments.front().map_or(BatchNumber(self.last().0 + 1), |oldest| oldest.first())
    }

    /// The newest batch that stands in `segment`.
    pub(super) fn last_in(&self, segment: &LogSegment) -> BatchNumber {
        let segments = self.segments.read();
        let next = segments.iter().find(|later| later.ordinal == segment.ordinal + 1);
        next.map_or_else(|| self.last(), |next| next.after.number)
    }

    /// Shows each batch after `position` up to `last` in place, unproven.
    /// Errors: what `visit` says, or a batch that is not where it has to be.
    pub(super) fn visit<E: From<JournalError>>(
        &self,
        position: BatchNumber,
        last: BatchNumber,
        mut visit: impl FnMut(&BatchHeader, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut next = BatchNumber(position.0 + 1);
        while next <= last {
            let segment = self.segment_of(next)?;
            let end = self.last_in(&segment).min(last);
            if end < next {
                return Err(missing_segment(segment.ordinal + 1).into());
            }
            let mut bytes = SegmentBytes::of(&segment);
            while next <= end {
                let batch = bytes.batch_at(segment.offset_of(next)?)?.unwrap_or_default();
                let header =
                    peek_header(batch).map_err(|fault| JournalError::corrupt(next.0, &fault))?;
                assert_eq!(header.number, next, "the open has seen every batch");
                visit(&header, &batch[BATCH_HEADER_BYTES..])?;
                next = BatchNumber(next.0 + 1);
            }
        }
        Ok(())
    }
}
