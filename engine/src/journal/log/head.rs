//! The head of a journal: its identity, and the oldest segment kept.
//!
//! The file `head` has two copies of this, in two blocks; the newer whole copy counts, so that a torn
//! write leaves the copy before:
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | magic `CSWH` |
//! | 4..8 | format version, 1 |
//! | 8..24 | directory id |
//! | 24..26 | partition |
//! | 26..32 | zero |
//! | 32..40 | ordinal of the oldest segment kept |
//! | 40..44 | CRC32C over bytes 0..40 |
//!
//! A process that has the journal open holds the lock on this file.
//!
//! INVARIANT: the ordinal only rises, and it rises before a segment is dropped: each one from it on
//! has to be there.

use std::io;
use std::sync::Arc;

use super::super::{DirectoryId, JournalError, JournalIdentity};
use super::segment::BLOCK_BYTES;
use super::{READING, WRITING};
use crate::disk::{Disk, DiskAccess, DiskFile};

/// The file's name.
pub(super) const HEAD_NAME: &str = "head";

const MAGIC: [u8; 4] = *b"CSWH";
const FORMAT_VERSION: u32 = 1;
const CRC_OFFSET: usize = 40;
const HEAD_BYTES: usize = 44;

/// The head, with the lock on it.
#[derive(Debug)]
pub(super) struct JournalHead {
    file: Arc<dyn DiskFile>,
    pub(super) identity: JournalIdentity,
    pub(super) oldest: u64,
}

impl JournalHead {
    /// Makes the head of a new journal, or of a journal whose making was cut short.
    pub(super) fn create(disk: &dyn Disk, identity: JournalIdentity) -> Result<Self, JournalError> {
        let file = match disk.open(HEAD_NAME) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => disk.create(HEAD_NAME),
            found => found,
        };
        let head = Self { file: file.map_err(JournalError::io(WRITING))?, identity, oldest: 1 };
        head.lock(DiskAccess::Exclusive)?;
        head.write().map_err(JournalError::io(WRITING))?;
        disk.sync_names().map_err(JournalError::io(WRITING))?;
        Ok(head)
    }

    /// Opens and locks the head; `None` if there is none, or it was never written.
    /// Errors: `InUse`, `NewerFormat`, `NotAJournal`, `Damaged`.
    pub(super) fn open(disk: &dyn Disk, access: DiskAccess) -> Result<Option<Self>, JournalError> {
        let file = match disk.open(HEAD_NAME) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(JournalError::io(READING))?,
        };
        let len = file.len().map_err(JournalError::io(READING))?;
        let identity = JournalIdentity { directory_id: DirectoryId([0; 16]), partition: 0 };
        let mut head = Self { file, identity, oldest: 0 };
        head.lock(access)?;
        let mut faults = Vec::new();
        for copy in [0, BLOCK_BYTES] {
            if copy + HEAD_BYTES as u64 > len {
                continue;
            }
            let mut bytes = [0; HEAD_BYTES];
            head.file.read(copy, &mut bytes).map_err(JournalError::io(READING))?;
            match parse(&bytes) {
                Ok((identity, oldest)) if oldest > head.oldest => {
                    (head.identity, head.oldest) = (identity, oldest);
                }
                Ok(_) => {}
                Err(_) if bytes == [0; HEAD_BYTES] => {}
                Err(fault) => faults.push(fault),
            }
        }
        match (head.oldest, faults.pop()) {
            (0, None) => Ok(None),
            (0, Some(fault)) => Err(fault),
            _ => Ok(Some(head)),
        }
    }

    /// Lets go of all segments before `oldest`. Cost: one sync.
    pub(super) fn raise(&mut self, oldest: u64) -> Result<(), JournalError> {
        assert!(oldest > self.oldest, "what was let go of does not come back");
        self.oldest = oldest;
        self.write().map_err(JournalError::io(WRITING))
    }

    /// Makes durable what was read: a start may read what a failed sync left.
    pub(super) fn write_again(&self) -> Result<(), JournalError> {
        self.write().map_err(JournalError::io(WRITING))
    }

    fn lock(&self, access: DiskAccess) -> Result<(), JournalError> {
        match self.file.try_lock(access).map_err(JournalError::io("cannot lock the journal"))? {
            true => Ok(()),
            false => Err(JournalError::InUse),
        }
    }

    /// Writes the copy whose turn it is.
    fn write(&self) -> io::Result<()> {
        let copy = (self.oldest - 1) % 2 * BLOCK_BYTES;
        self.file.write_durably(copy, &[&render(&self.identity, self.oldest)])
    }

    /// The file, which keeps the lock for as long as a handle to it lives.
    pub(super) fn lock_keeper(&self) -> Arc<dyn DiskFile> {
        Arc::clone(&self.file)
    }
}

fn render(identity: &JournalIdentity, oldest: u64) -> [u8; HEAD_BYTES] {
    let mut bytes = [0; HEAD_BYTES];
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[4..8].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes[8..24].copy_from_slice(&identity.directory_id.0);
    bytes[24..26].copy_from_slice(&identity.partition.to_le_bytes());
    bytes[32..CRC_OFFSET].copy_from_slice(&oldest.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..CRC_OFFSET]);
    bytes[CRC_OFFSET..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn parse(bytes: &[u8; HEAD_BYTES]) -> Result<(JournalIdentity, u64), JournalError> {
    if bytes[..4] != MAGIC {
        return Err(JournalError::NotAJournal { what: "its head is something else".to_owned() });
    }
    let (mut version, mut directory_id) = ([0; 4], [0; 16]);
    let (mut partition, mut oldest) = ([0; 2], [0; 8]);
    version.copy_from_slice(&bytes[4..8]);
    directory_id.copy_from_slice(&bytes[8..24]);
    partition.copy_from_slice(&bytes[24..26]);
    oldest.copy_from_slice(&bytes[32..CRC_OFFSET]);
    let identity = JournalIdentity {
        directory_id: DirectoryId(directory_id),
        partition: u16::from_le_bytes(partition),
    };
    let (version, oldest) = (u32::from_le_bytes(version), u64::from_le_bytes(oldest));
    if *bytes == render(&identity, oldest) && oldest > 0 {
        return Ok((identity, oldest));
    }
    if version > FORMAT_VERSION {
        return Err(JournalError::NewerFormat { found: version, supported: FORMAT_VERSION });
    }
    Err(JournalError::Damaged {
        file: HEAD_NAME.to_owned(),
        offset: 0,
        what: "it is not what was written".to_owned(),
    })
}

/// Errors: `ForeignDirectory` or `ForeignPartition`.
pub(super) fn check_identity(
    found: &JournalIdentity,
    expected: &JournalIdentity,
) -> Result<(), JournalError> {
    if found.directory_id != expected.directory_id {
        let (found, expected) = (found.directory_id, expected.directory_id);
        return Err(JournalError::ForeignDirectory { found, expected });
    }
    if found.partition != expected.partition {
        let (found, expected) = (found.partition, expected.partition);
        return Err(JournalError::ForeignPartition { found, expected });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::testing::FaultyDisk;

    const IDENTITY: JournalIdentity =
        JournalIdentity { directory_id: DirectoryId([7; 16]), partition: 3 };

    #[test]
    fn the_newer_copy_that_is_whole_counts() {
        let disk = FaultyDisk::default();
        assert!(JournalHead::open(&disk, DiskAccess::Exclusive).unwrap().is_none());
        let mut head = JournalHead::create(&disk, IDENTITY).unwrap();
        for oldest in 2..6 {
            head.raise(oldest).unwrap();
            let found = JournalHead::open(&disk, DiskAccess::Exclusive).unwrap().unwrap();
            assert_eq!((found.identity, found.oldest), (IDENTITY, oldest));
        }
        // Segment 5 is in the first copy, 4 in the second.
        disk.flip(HEAD_NAME, 33, 1);
        let found = JournalHead::open(&disk, DiskAccess::Exclusive).unwrap().unwrap();
        assert_eq!(found.oldest, 4);
        disk.flip(HEAD_NAME, 4096 + 33, 1);
        let refused = JournalHead::open(&disk, DiskAccess::Exclusive);
        assert!(matches!(refused, Err(JournalError::Damaged { .. })));
    }

    #[test]
    fn a_newer_version_is_named_and_any_other_change_is_damage() {
        let bytes = render(&IDENTITY, 9);
        assert_eq!(parse(&bytes).unwrap(), (IDENTITY, 9));
        let flipped = |at: usize, mask: u8| {
            let mut bytes = bytes;
            bytes[at] ^= mask;
            parse(&bytes).unwrap_err()
        };
        assert!(matches!(flipped(0, 1), JournalError::NotAJournal { .. }));
        let newer = flipped(4, 2);
        assert!(matches!(newer, JournalError::NewerFormat { found: 3, supported: 1 }));
        for at in 8..HEAD_BYTES {
            assert!(matches!(flipped(at, 0x10), JournalError::Damaged { .. }), "byte {at}");
        }
    }
}
