//! A journal that is made of another's batches, for backups.

use std::path::Path;
use std::sync::Arc;

use super::super::ack_mark::AckMark;
use super::super::chain::ChainCursor;
use super::super::limits::SEGMENT_BYTES_MAX;
use super::super::{ChainPosition, JournalError, JournalIdentity};
use super::head::JournalHead;
use super::segment::{FIRST_BATCH_OFFSET, SegmentHead, round_up_to_block, segment_name};
use super::{NOTING, WRITING, ZEROES};
use crate::disk::{Disk, DiskFile, RealDisk};

/// A journal that batches are copied into; it is one once `finish` has returned.
#[derive(Debug)]
pub struct LogCopy {
    disk: RealDisk,
    head: JournalHead,
    cursor: ChainCursor,
    segment: CopiedSegment,
}

#[derive(Debug)]
struct CopiedSegment {
    ordinal: u64,
    file: Arc<dyn DiskFile>,
    end: u64,
}

impl LogCopy {
    /// Makes the journal in the directory `path`, where there is none; its first batch continues
    /// `after`.
    pub fn create(
        path: &Path,
        identity: JournalIdentity,
        after: ChainPosition,
    ) -> Result<Self, JournalError> {
        let disk = RealDisk::open(path).map_err(JournalError::io(WRITING))?;
        let head = JournalHead::create(&disk, identity)?;
        let segment = CopiedSegment::begin(&disk, SegmentHead { identity, ordinal: 1, after })?;
        let cursor = ChainCursor::after(identity.partition, after);
        Ok(Self { disk, head, cursor, segment })
    }

    /// Adds a batch.
    /// Errors: it does not continue the one before.
    pub fn append(&mut self, batch: &[u8]) -> Result<(), JournalError> {
        let after = self.cursor.tip();
        let bytes = round_up_to_block(batch.len() as u64);
        self.cursor
            .accept(batch)
            .map_err(|fault| JournalError::corrupt(after.number.0 + 1, &fault))?;
        if self.segment.end + bytes > SEGMENT_BYTES_MAX && self.segment.end > FIRST_BATCH_OFFSET {
            self.segment.file.sync().map_err(JournalError::io(WRITING))?;
            let (identity, ordinal) = (self.head.identity, self.segment.ordinal + 1);
            self.segment =
                CopiedSegment::begin(&self.disk, SegmentHead { identity, ordinal, after })?;
        }
        self.segment.write(batch).map_err(JournalError::io(WRITING))
    }

    /// Notes the last batch as acknowledged: a copy that lacks it is refused at its open.
    pub fn finish(self) -> Result<(), JournalError> {
        let last = self.cursor.tip().number;
        self.segment.file.sync().map_err(JournalError::io(WRITING))?;
        AckMark::create(&self.disk, self.head.identity.directory_id)
            .and_then(|mark| mark.write(last).and_then(|()| mark.sync()))
            .and_then(|()| self.disk.sync_names())
            .map_err(JournalError::io(NOTING))
    }
}

impl CopiedSegment {
    fn begin(disk: &dyn Disk, head: SegmentHead) -> Result<Self, JournalError> {
        let made = disk.create(&segment_name(head.ordinal)).and_then(|file| {
            file.write(0, head.render().as_slice())?;
            Ok(file)
        });
        let file = made.map_err(JournalError::io(WRITING))?;
        Ok(Self { ordinal: head.ordinal, file, end: FIRST_BATCH_OFFSET })
    }

    fn write(&mut self, batch: &[u8]) -> std::io::Result<()> {
        let end = self.end + batch.len() as u64;
        let padded = round_up_to_block(end);
        self.file.write(self.end, batch)?;
        let padding = usize::try_from(padded - end).unwrap_or(0);
        self.file.write(end, &ZEROES[..padding])?;
        self.end = padded;
        Ok(())
    }
}
