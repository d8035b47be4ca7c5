//! A note beside the journal of the last batch whose replies may have left.
//!
//! A last group that does not verify is taken for torn. If its replies had left, that would lose
//! them in silence: a flipped byte looks the same. So after each group, and before any reply leaves,
//! its number is written here, without a sync: a killed process loses nothing of it, and a power
//! failure can only make it older. A journal that ends before the note is refused; a torn group
//! without acknowledgement is dropped, as it may be.
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | magic `CSWA` |
//! | 4..8 | format version, 1 |
//! | 8..24 | directory id |
//! | 24..32 | batch number |
//! | 32..36 | CRC32C over bytes 0..32 |
//!
//! INVARIANT: the note never names a batch that is not durable.

use std::io;
use std::sync::Arc;

use super::{BatchNumber, DirectoryId};
use crate::disk::{Disk, DiskFile};

/// The file's name.
const MARK_NAME: &str = "ack";

const MARK_BYTES: usize = 36;
const CRC_OFFSET: usize = 32;
const HEAD: [u8; 8] = *b"CSWA\x01\0\0\0";

/// The note.
#[derive(Debug)]
pub(super) struct AckMark {
    /// `None` where there is none, which only a reader meets.
    file: Option<Arc<dyn DiskFile>>,
    directory_id: DirectoryId,
}

impl AckMark {
    /// Opens the note of this directory for reading. An absent note says nothing.
    pub(super) fn open(disk: &dyn Disk, directory_id: DirectoryId) -> Self {
        Self { file: disk.open(MARK_NAME).ok(), directory_id }
    }

    /// Opens the note for writing; makes it, and room for it, so that a full disk cannot refuse it
    /// later.
    pub(super) fn create(disk: &dyn Disk, directory_id: DirectoryId) -> io::Result<Self> {
        let file = match disk.open(MARK_NAME) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => disk.create(MARK_NAME)?,
            file => file?,
        };
        file.reserve(MARK_BYTES as u64)?;
        Ok(Self { file: Some(file), directory_id })
    }

    /// Returns the batch noted. A note that is absent, torn or of another directory says nothing:
    /// it can only ever make an open stricter.
    pub(super) fn read(&self) -> io::Result<Option<BatchNumber>> {
        let Some(file) = &self.file else { return Ok(None) };
        if file.len()? < MARK_BYTES as u64 {
            return Ok(None);
        }
        let mut mark = [0; MARK_BYTES];
        file.read(0, &mut mark)?;
        let mut number = [0; 8];
        number.copy_from_slice(&mark[24..CRC_OFFSET]);
        let number = BatchNumber(u64::from_le_bytes(number));
        Ok((mark == self.render(number)).then_some(number))
    }

    /// Notes `number`. Cost: one write, no sync.
    pub(super) fn write(&self, number: BatchNumber) -> io::Result<()> {
        self.file().write(0, &self.render(number))
    }

    /// Makes the note durable; for an orderly close.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file().sync()
    }

    fn file(&self) -> &dyn DiskFile {
        self.file.as_deref().expect("a note that is written was made")
    }

    fn render(&self, number: BatchNumber) -> [u8; MARK_BYTES] {
        let mut mark = [0; MARK_BYTES];
        mark[..HEAD.len()].copy_from_slice(&HEAD);
        mark[8..24].copy_from_slice(&self.directory_id.0);
        mark[24..CRC_OFFSET].copy_from_slice(&number.0.to_le_bytes());
        let crc = crc32c::crc32c(&mark[..CRC_OFFSET]);
        mark[CRC_OFFSET..].copy_from_slice(&crc.to_le_bytes());
        mark
    }
}
