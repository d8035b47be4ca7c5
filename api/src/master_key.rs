//! The master key of a data directory: 32 random bytes in a file only its owner can read.
//!
//! Every other key is derived from it. Losing it loses the card numbers for good; a copy of the
//! data directory without it shows nobody a card number.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

/// The name of the key's file inside a data directory.
pub const MASTER_KEY_FILE: &str = "master.key";
const KEY_BYTES: usize = 32;

/// Why there is no master key.
#[derive(Debug)]
pub enum MasterKeyError {
    /// The file is missing.
    Missing(PathBuf),
    /// The file is no key.
    Malformed(PathBuf),
    /// The system refused.
    Io(PathBuf, io::Error),
}

impl std::fmt::Display for MasterKeyError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing(path) => {
                write!(formatter, "the master key `{}` is missing", path.display())
            }
            Self::Malformed(path) => {
                write!(formatter, "`{}` is not a master key: 64 hex digits", path.display())
            }
            Self::Io(path, error) => write!(formatter, "`{}`: {error}", path.display()),
        }
    }
}

impl std::error::Error for MasterKeyError {}

/// Writes a new directory's master key.
pub fn write_master_key(directory: &Path, key: &[u8; KEY_BYTES]) -> Result<(), MasterKeyError> {
    let path = directory.join(MASTER_KEY_FILE);
    let text: Zeroizing<String> =
        Zeroizing::new(key.iter().map(|byte| format!("{byte:02x}")).collect());
    let written = create_private(&path).and_then(|mut file| {
        writeln!(file, "{}", text.as_str())?;
        file.sync_all()
    });
    written.map_err(|error| MasterKeyError::Io(path, error))
}

/// Makes a file that only its owner can read; refuses one that exists.
pub fn create_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Reads a directory's master key.
pub fn read_master_key(directory: &Path) -> Result<[u8; KEY_BYTES], MasterKeyError> {
    read_key_file(&directory.join(MASTER_KEY_FILE))
}

/// Reads a master key that stands somewhere else.
pub fn read_key_file(path: &Path) -> Result<[u8; KEY_BYTES], MasterKeyError> {
    let mut text = Zeroizing::new(String::new());
    let read = File::open(path).and_then(|file| file.take(1024).read_to_string(&mut text));
    let path = path.to_path_buf();
    match read {
        Ok(_) => parse_key(text.trim()).ok_or(MasterKeyError::Malformed(path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(MasterKeyError::Missing(path)),
        Err(error) => Err(MasterKeyError::Io(path, error)),
    }
}

fn parse_key(text: &str) -> Option<[u8; KEY_BYTES]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * KEY_BYTES || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut key = [0; KEY_BYTES];
    for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_reads_back_and_nothing_else_passes() {
        let directory = tempfile::tempdir().unwrap();
        let read = || read_master_key(directory.path());
        assert!(matches!(read(), Err(MasterKeyError::Missing(_))));
        write_master_key(directory.path(), &[0xa5; 32]).unwrap();
        assert_eq!(read().unwrap(), [0xa5; 32]);
        let path = directory.path().join(MASTER_KEY_FILE);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(write_master_key(directory.path(), &[0; 32]).is_err());
        for text in ["", "a5", &"g5".repeat(32), &"a5".repeat(33)] {
            std::fs::write(&path, text).unwrap();
            assert!(matches!(read(), Err(MasterKeyError::Malformed(_))), "{text}");
        }
    }
}
