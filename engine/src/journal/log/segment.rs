//! A segment: one file of the log, blocks of 4 KiB.
//!
//! Block 0 is the head; each batch begins at a block of its own, padded with zeroes:
//!
//! | bytes of the head | field |
//! |---|---|
//! | 0..4 | magic `CSWL` |
//! | 4..8 | format version, 1 |
//! | 8..24 | directory id |
//! | 24..26 | partition |
//! | 26..32 | zero |
//! | 32..40 | ordinal: 1 for the first segment of a journal, rising by one |
//! | 40..96 | the place in the chain that its first batch continues |
//! | 96..100 | CRC32C over bytes 0..96 |
//! | 100..4096 | zero |
//!
//! A segment is named after its ordinal. A segment of the past that is written again keeps its old
//! head until its first batch is written, together with the new head.
//!
//! INVARIANT: a block that holds an acknowledged batch is never changed before its segment is dropped;
//! a start may write the same bytes once more.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use super::super::chain::{BATCH_HEADER_BYTES, claims_to_follow, peek_header_prefix};
use super::super::limits::{BATCH_BYTES_MAX, CHECK_READ_BYTES};
use super::super::{BatchHeader, BatchNumber, ChainPosition, JournalError, JournalIdentity};
use super::READING;
use crate::disk::DiskFile;

/// The unit of storage: each batch begins at a multiple of it. Units: bytes.
pub(super) const BLOCK_BYTES: u64 = 4096;
/// The same, as a length in memory.
pub(super) const BLOCK_LEN: usize = 4096;
/// The offset of the first batch in a segment. Units: bytes.
pub(super) const FIRST_BATCH_OFFSET: u64 = BLOCK_BYTES;

const MAGIC: [u8; 4] = *b"CSWL";
const FORMAT_VERSION: u32 = 1;
const POSITION_OFFSET: usize = 40;
const CRC_OFFSET: usize = 96;
const SUFFIX: &str = ".segment";

/// The file name of a segment.
pub(super) fn segment_name(ordinal: u64) -> String {
    format!("{ordinal:016}{SUFFIX}")
}

/// Reads the ordinal from a file name; `None` if it is not that of a segment.
pub(super) fn ordinal_of(name: &str) -> Option<u64> {
    let ordinal = name.strip_suffix(SUFFIX)?.parse().ok()?;
    (segment_name(ordinal) == name).then_some(ordinal)
}

/// The offset of the first block behind `bytes` bytes.
pub(super) const fn round_up_to_block(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK_BYTES) * BLOCK_BYTES
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SegmentHead {
    pub(super) identity: JournalIdentity,
    pub(super) ordinal: u64,
    /// The place in the chain that its first batch continues.
    pub(super) after: ChainPosition,
}

impl SegmentHead {
    pub(super) fn render(&self) -> Box<[u8; BLOCK_LEN]> {
        let mut block = Box::new([0; BLOCK_LEN]);
        block[..4].copy_from_slice(&MAGIC);
        block[4..8].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        block[8..24].copy_from_slice(&self.identity.directory_id.0);
        block[24..26].copy_from_slice(&self.identity.partition.to_le_bytes());
        block[32..POSITION_OFFSET].copy_from_slice(&self.ordinal.to_le_bytes());
        block[POSITION_OFFSET..CRC_OFFSET].copy_from_slice(&self.after.to_bytes());
        let crc = crc32c::crc32c(&block[..CRC_OFFSET]);
        block[CRC_OFFSET..CRC_OFFSET + 4].copy_from_slice(&crc.to_le_bytes());
        block
    }

    /// Reads the head of a segment of the journal `identity`. `None` for anything else: zeroes, a
    /// torn head, a head of another journal.
    pub(super) fn read(
        file: &dyn DiskFile,
        identity: &JournalIdentity,
    ) -> io::Result<Option<Self>> {
        if file.len()? < BLOCK_BYTES {
            return Ok(None);
        }
        let mut block = Box::new([0; BLOCK_LEN]);
        file.read(0, block.as_mut_slice())?;
        let (mut ordinal, mut after) = ([0; 8], [0; ChainPosition::BYTES]);
        ordinal.copy_from_slice(&block[32..POSITION_OFFSET]);
        after.copy_from_slice(&block[POSITION_OFFSET..CRC_OFFSET]);
        let head = Self {
            identity: *identity,
            ordinal: u64::from_le_bytes(ordinal),
            after: ChainPosition::from_bytes(&after),
        };
        Ok((head.render() == block).then_some(head))
    }
}

/// A segment whose batches count, shared by the writer and its readers.
#[derive(Debug)]
pub(super) struct LogSegment {
    pub(super) ordinal: u64,
    pub(super) after: ChainPosition,
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) len: u64,
    places: Mutex<BatchPlaces>,
}

/// The places of a segment's batches, from its first one on.
#[derive(Debug)]
struct BatchPlaces {
    /// The block at which each batch begins.
    blocks: Vec<u32>,
    /// The block behind the last of them.
    end: u32,
}

impl LogSegment {
    /// Takes a file whose head was read or is being written; no batch in it is known yet.
    pub(super) fn new(
        ordinal: u64,
        after: ChainPosition,
        file: Arc<dyn DiskFile>,
        len: u64,
    ) -> Self {
        let places = Mutex::new(BatchPlaces { blocks: Vec::new(), end: 1 });
        Self { ordinal, after, file, len, places }
    }

    /// The first batch that stands in it, or will.
    pub(super) fn first(&self) -> BatchNumber {
        BatchNumber(self.after.number.0 + 1)
    }

    /// The offset of the next batch. Units: bytes.
    pub(super) fn end(&self) -> u64 {
        u64::from(self.places.lock().end) * BLOCK_BYTES
    }

    /// Notes a batch of `bytes` bytes behind the last one.
    pub(super) fn push(&self, bytes: usize) {
        self.places.lock().push(bytes);
    }

    /// Returns where `number` begins. Batches that were not read so far are counted first, by their
    /// headers. Units: bytes.
    /// Errors: a header that does not follow.
    pub(super) fn offset_of(&self, number: BatchNumber) -> Result<u64, JournalError> {
        assert!(self.first() <= number, "the caller has looked for the segment");
        let at = index(number.0 - self.first().0);
        let mut places = self.places.lock();
        while places.blocks.len() <= at {
            let next = self.after.number.0 + 1 + places.blocks.len() as u64;
            let offset = u64::from(places.end) * BLOCK_BYTES;
            let header = self.header_at(offset)?.filter(|header| header.number.0 == next);
            let header = header.ok_or_else(|| self.misplaced(BatchNumber(next), offset))?;
            places.push(BATCH_HEADER_BYTES + header.payload_len as usize);
        }
        Ok(u64::from(places.blocks[at]) * BLOCK_BYTES)
    }

    /// Reads the header at `offset` without proving it; `None` if there is none, or it names a batch
    /// that the segment cannot hold.
    pub(super) fn header_at(&self, offset: u64) -> Result<Option<BatchHeader>, JournalError> {
        if offset + BATCH_HEADER_BYTES as u64 > self.len {
            return Ok(None);
        }
        let mut header = [0; BATCH_HEADER_BYTES];
        self.file.read(offset, &mut header).map_err(JournalError::io(READING))?;
        Ok(peek_header_prefix(&header).ok().filter(|header| {
            let bytes = BATCH_HEADER_BYTES + header.payload_len as usize;
            bytes <= BATCH_BYTES_MAX && offset + bytes as u64 <= self.len
        }))
    }

    /// Says that `number` is not at `offset`, where it has to be.
    pub(super) fn misplaced(&self, number: BatchNumber, offset: u64) -> JournalError {
        let what = format!("batch {} is not where it has to be", number.0);
        JournalError::Damaged { file: segment_name(self.ordinal), offset, what }
    }
}

impl BatchPlaces {
    fn push(&mut self, bytes: usize) {
        let blocks = round_up_to_block(bytes as u64) / BLOCK_BYTES;
        self.blocks.push(self.end);
        self.end += u32::try_from(blocks).expect("a batch is smaller than a segment");
    }
}

fn index(place: u64) -> usize {
    usize::try_from(place).unwrap_or(usize::MAX)
}

/// Reads a segment from front to back through a buffer.
pub(super) struct SegmentBytes<'a> {
    segment: &'a LogSegment,
    buffer: Vec<u8>,
    buffer_offset: u64,
}

impl<'a> SegmentBytes<'a> {
    pub(super) fn of(segment: &'a LogSegment) -> Self {
        Self { segment, buffer: Vec::new(), buffer_offset: 0 }
    }

    /// Returns the bytes of the batch whose header begins at `offset`, unproven; `None` if they do
    /// not look like a batch.
    pub(super) fn batch_at(&mut self, offset: u64) -> Result<Option<&[u8]>, JournalError> {
        let Some(head) = self.bytes(offset, BATCH_HEADER_BYTES)? else { return Ok(None) };
        let Ok(header) = peek_header_prefix(head) else { return Ok(None) };
        let bytes = BATCH_HEADER_BYTES + header.payload_len as usize;
        if bytes > BATCH_BYTES_MAX {
            return Ok(None);
        }
        self.bytes(offset, bytes)
    }

    /// Whether something that was to continue the chain stands behind the last batch.
    pub(super) fn continues(&mut self, tip: &ChainPosition) -> Result<bool, JournalError> {
        let header = self.bytes(self.segment.end(), BATCH_HEADER_BYTES)?;
        Ok(header.is_some_and(|header| claims_to_follow(header, tip)))
    }

    /// Returns `len` bytes from `offset` on; `None` if the segment ends before.
    fn bytes(&mut self, offset: u64, len: usize) -> Result<Option<&[u8]>, JournalError> {
        let end = offset + len as u64;
        if end > self.segment.len {
            return Ok(None);
        }
        let is_there =
            self.buffer_offset <= offset && end <= self.buffer_offset + self.buffer.len() as u64;
        if !is_there {
            let rest = usize::try_from(self.segment.len - offset).unwrap_or(usize::MAX);
            self.buffer.resize(len.max(CHECK_READ_BYTES).min(rest), 0);
            self.segment.file.read(offset, &mut self.buffer).map_err(JournalError::io(READING))?;
            self.buffer_offset = offset;
        }
        let start = index(offset - self.buffer_offset);
        Ok(Some(&self.buffer[start..start + len]))
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{ChainHash, DirectoryId, Epoch};
    use super::*;
    use crate::disk::Disk;
    use crate::journal::testing::FaultyDisk;

    const IDENTITY: JournalIdentity =
        JournalIdentity { directory_id: DirectoryId([7; 16]), partition: 3 };
    const HEAD: SegmentHead = SegmentHead {
        identity: IDENTITY,
        ordinal: 12,
        after: ChainPosition {
            epoch: Epoch(4),
            number: BatchNumber(99),
            hash: ChainHash([8; 32]),
            last_seq: 1_000,
        },
    };

    #[test]
    fn a_head_is_read_back_and_any_other_byte_makes_it_none() {
        let disk = FaultyDisk::default();
        let file = disk.create("x").unwrap();
        assert_eq!(SegmentHead::read(&*file, &IDENTITY).unwrap(), None);
        file.write(0, HEAD.render().as_slice()).unwrap();
        assert_eq!(SegmentHead::read(&*file, &IDENTITY).unwrap(), Some(HEAD));
        let other = JournalIdentity { partition: 4, ..IDENTITY };
        assert_eq!(SegmentHead::read(&*file, &other).unwrap(), None);
        for at in (0..120).chain([BLOCK_LEN - 1]) {
            let mut block = HEAD.render();
            block[at] ^= 0x10;
            file.write(0, block.as_slice()).unwrap();
            assert_eq!(SegmentHead::read(&*file, &IDENTITY).unwrap(), None, "byte {at}");
        }
    }

    #[test]
    fn a_name_is_an_ordinal_of_sixteen_digits() {
        assert_eq!(segment_name(12), "0000000000000012.segment");
        assert_eq!(ordinal_of("0000000000000012.segment"), Some(12));
        for other in
            ["12.segment", "head", "0000000000000012.segment.old", "+000000000000012.segment"]
        {
            assert_eq!(ordinal_of(other), None, "{other}");
        }
    }
}
