//! Reads batches from any thread, while the writer goes on.
//!
//! Batches that were read are checked against the oldest segment kept afterwards: a segment that
//! was dropped meanwhile may have been written again.

use std::sync::Arc;

use super::super::chain::BATCH_HEADER_BYTES;
use super::super::{BatchNumber, ChainPosition, JournalError, JournalReader, StoredBatch};
use super::READING;
use super::index::LogIndex;
use super::segment::LogSegment;
use crate::disk::DiskFile;

/// The reading side of a journal. Clones read the same files.
#[derive(Clone, Debug)]
pub struct LogReader {
    index: Arc<LogIndex>,
    /// Keeps writers away, where the journal was opened for reading only.
    _lock: Option<Arc<dyn DiskFile>>,
}

impl LogReader {
    pub(super) fn of(index: &Arc<LogIndex>, lock: Option<Arc<dyn DiskFile>>) -> Self {
        Self { index: Arc::clone(index), _lock: lock }
    }

    /// Copies the batches of one segment from `number` on.
    fn read_segment(
        &self,
        segment: &LogSegment,
        number: BatchNumber,
        limit_bytes: usize,
    ) -> Result<Vec<StoredBatch>, JournalError> {
        let last = self.index.last_in(segment);
        let mut stored = Vec::new();
        let mut stored_bytes = 0;
        let mut next = number;
        while next <= last {
            let offset = segment.offset_of(next)?;
            let header = segment.header_at(offset)?.filter(|header| header.number == next);
            let Some(header) = header else { return Err(segment.misplaced(next, offset)) };
            let len = BATCH_HEADER_BYTES + header.payload_len as usize;
            if !stored.is_empty() && stored_bytes + len > limit_bytes {
                break;
            }
            let mut bytes = vec![0; len];
            segment.file.read(offset, &mut bytes).map_err(JournalError::io(READING))?;
            stored_bytes += len;
            stored.push(StoredBatch { number: next, bytes });
            next = BatchNumber(next.0 + 1);
        }
        Ok(stored)
    }

    /// The place in the chain before the oldest batch kept.
    pub fn before_first(&self) -> ChainPosition {
        self.index.before_first()
    }
}

impl JournalReader for LogReader {
    fn first(&self) -> Result<BatchNumber, JournalError> {
        Ok(self.index.first())
    }

    fn last(&self) -> Result<BatchNumber, JournalError> {
        Ok(self.index.last())
    }

    fn read_from(
        &self,
        number: BatchNumber,
        limit_bytes: usize,
    ) -> Result<Vec<StoredBatch>, JournalError> {
        let segment = self.index.segment_of(number)?;
        let stored = self.read_segment(&segment, number, limit_bytes);
        // First: bytes that were written again meanwhile may look damaged.
        self.index.check_kept(&segment)?;
        stored
    }
}
