//! The row that says whose journal a file is.
//!
//! Layout: format version u32, partition u16, directory id 16 bytes, CRC32C u32 over all before,
//! little endian. The version comes first in every later layout too.

use super::super::{DirectoryId, JournalError, JournalIdentity};

pub(super) const KEY: &str = "identity";

const FORMAT_VERSION: u32 = 1;
const PARTITION_OFFSET: usize = 4;
const DIRECTORY_OFFSET: usize = 6;
const CRC_OFFSET: usize = 22;
const META_BYTES: usize = 26;

pub(super) fn render(identity: &JournalIdentity) -> [u8; META_BYTES] {
    let mut row = [0; META_BYTES];
    row[..PARTITION_OFFSET].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    row[PARTITION_OFFSET..DIRECTORY_OFFSET].copy_from_slice(&identity.partition.to_le_bytes());
    row[DIRECTORY_OFFSET..CRC_OFFSET].copy_from_slice(&identity.directory_id.0);
    let crc = crc32c::crc32c(&row[..CRC_OFFSET]);
    row[CRC_OFFSET..].copy_from_slice(&crc.to_le_bytes());
    row
}

/// Errors: `NewerFormat`, or `CorruptFile` if the row is not what was written.
pub(super) fn parse(row: &[u8]) -> Result<JournalIdentity, JournalError> {
    let damaged =
        || JournalError::CorruptFile { what: "its identity row".to_owned(), damage: None };
    let (version, rest) = row.split_first_chunk::<PARTITION_OFFSET>().ok_or_else(damaged)?;
    let version = u32::from_le_bytes(*version);
    let (partition, rest) = rest.split_first_chunk::<2>().ok_or_else(damaged)?;
    let (directory_id, _) = rest.split_first_chunk::<16>().ok_or_else(damaged)?;
    let identity = JournalIdentity {
        directory_id: DirectoryId(*directory_id),
        partition: u16::from_le_bytes(*partition),
    };
    if row == render(&identity) {
        return Ok(identity);
    }
    if version > FORMAT_VERSION {
        return Err(JournalError::NewerFormat { found: version, supported: FORMAT_VERSION });
    }
    Err(damaged())
}

/// Errors: `ForeignDirectory` or `ForeignPartition`.
pub(super) fn check(
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

    const IDENTITY: JournalIdentity =
        JournalIdentity { directory_id: DirectoryId([7; 16]), partition: 3 };

    #[test]
    fn a_row_is_read_back() {
        assert_eq!(parse(&render(&IDENTITY)).unwrap(), IDENTITY);
    }

    #[test]
    fn a_newer_version_is_named_and_any_other_change_is_damage() {
        let mut newer = render(&IDENTITY);
        newer[0] = 9;
        assert!(matches!(parse(&newer), Err(JournalError::NewerFormat { found: 9, supported: 1 })));
        for at in PARTITION_OFFSET..META_BYTES {
            let mut row = render(&IDENTITY);
            row[at] ^= 0x10;
            assert!(matches!(parse(&row), Err(JournalError::CorruptFile { .. })), "byte {at}");
        }
        assert!(matches!(parse(&[1, 0]), Err(JournalError::CorruptFile { .. })));
    }
}
