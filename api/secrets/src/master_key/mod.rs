//! The master key: 32 random bytes that wrap the data key of a directory, see `data_key`, and do
//! nothing else. It may lie in the directory or elsewhere, see `source`, and is replaced by another
//! one at any time, see `rotation`.
//!
//! INVARIANT: it is read when a directory is opened, and is not in memory afterwards.

pub mod data_key;
pub mod rotation;
pub mod source;

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use chacha20poly1305::ChaCha20Poly1305;
use chacha20poly1305::aead::KeyInit as _;
use hkdf::Hkdf;
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::derived;
use crate::hex::{array_from_hex, to_hex};
use crate::issuing::{IssueError, RandomSource};
use crate::keyed_hash::KeyedHash;
use crate::plain_file::open_named;
use crate::private_file::{self, exposing_mode};

/// The name of the key's file inside a data directory, and of the credential that systemd hands over.
pub const MASTER_KEY_FILE: &str = "master.key";
const KEY_BYTES: usize = 32;
const SALT: &[u8] = b"cardswitch master key 1";
/// The longest text that is looked at for a key. Units: bytes.
const TEXT_BYTES_MAX: usize = 1024;

/// Why there is no master key.
#[derive(Debug, thiserror::Error)]
pub enum MasterKeyError {
    /// The file is missing.
    #[error(
        "the master key `{0}` is missing: where it lies elsewhere, give --master-key or \
         --master-key-command"
    )]
    Missing(PathBuf),
    /// The file is no key.
    #[error("`{0}` is not a master key: 64 hex digits")]
    Malformed(PathBuf),
    /// Others than its owner may read or change it.
    #[error("others may read or change the master key `{0}` (mode {1:03o}): chmod 600")]
    Exposed(PathBuf, u32),
    /// The system refused.
    #[error("`{0}`: {1}")]
    Io(PathBuf, io::Error),
    /// The command that prints it did not.
    #[error("the command for the master key {0}")]
    Command(String),
}

/// A master key, gone from memory with its last owner.
#[derive(Clone, PartialEq, Eq)]
pub struct MasterKey(Zeroizing<[u8; KEY_BYTES]>);

/// The fingerprint of a master key; it reveals nothing of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MasterKeyId(pub [u8; 8]);

impl std::fmt::Display for MasterKeyId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&to_hex(&self.0))
    }
}

cardswitch_engine::opaque!(MasterKey);

impl MasterKey {
    /// With these bytes.
    pub fn new(bytes: [u8; KEY_BYTES]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// A new one.
    /// Errors: no randomness.
    pub fn draw(random: &mut dyn RandomSource) -> Result<Self, IssueError> {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        random.fill(bytes.as_mut_slice())?;
        Ok(Self(bytes))
    }

    /// Reads 64 hex digits, with or without a line's end.
    pub fn parse(text: &str) -> Option<Self> {
        array_from_hex(text.trim()).map(Self)
    }

    /// Reads a key's file.
    /// Errors: there is none, it is no key, or others may read or change it.
    pub fn read(path: &Path) -> Result<Self, MasterKeyError> {
        let opened = open_named(path).and_then(|file| Ok((exposing_mode(&file)?, file)));
        let read = match opened {
            Ok((Some(mode), _)) => return Err(MasterKeyError::Exposed(path.to_path_buf(), mode)),
            Ok((None, file)) => read_text(file),
            Err(error) => Err(error),
        };
        match read {
            Ok(text) => {
                Self::parse(&text).ok_or_else(|| MasterKeyError::Malformed(path.to_path_buf()))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(MasterKeyError::Missing(path.to_path_buf()))
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Err(MasterKeyError::Malformed(path.to_path_buf()))
            }
            Err(error) => Err(MasterKeyError::Io(path.to_path_buf(), error)),
        }
    }

    /// Makes a key's file, durably.
    /// Errors: there is one, or it cannot be written.
    pub fn write_new(&self, path: &Path) -> Result<(), MasterKeyError> {
        let failed = |error| MasterKeyError::Io(path.to_path_buf(), error);
        if path.symlink_metadata().is_ok() {
            return Err(failed(io::ErrorKind::AlreadyExists.into()));
        }
        private_file::replace(path, self.text().as_bytes()).map_err(failed)
    }

    /// The content of its file.
    fn text(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(2 * KEY_BYTES + 1));
        let digits = Zeroizing::new(to_hex(self.0.as_slice()));
        text.push_str(&digits);
        text.push('\n');
        text
    }

    /// Its fingerprint.
    pub fn id(&self) -> MasterKeyId {
        MasterKeyId(*derived(&self.source(), b"master key id"))
    }

    /// The wrapping key.
    fn cipher(&self) -> ChaCha20Poly1305 {
        ChaCha20Poly1305::new(&(*derived::<32>(&self.source(), b"data key wrap")).into())
    }

    /// The key of calls by which a node joins a cluster.
    pub(crate) fn join_calls(&self) -> KeyedHash {
        KeyedHash::new(&derived(&self.source(), b"join calls"))
    }

    fn source(&self) -> Hkdf<Sha256> {
        Hkdf::new(Some(SALT), self.0.as_slice())
    }
}

fn read_text(source: impl Read) -> io::Result<Zeroizing<String>> {
    // All of it at once: a text that grows leaves parts of itself behind.
    let mut text = Zeroizing::new(String::with_capacity(2 * TEXT_BYTES_MAX));
    source.take(TEXT_BYTES_MAX as u64).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    #[test]
    fn a_key_reads_back_and_nothing_else_passes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(MASTER_KEY_FILE);
        assert!(matches!(MasterKey::read(&path), Err(MasterKeyError::Missing(_))));
        let key = MasterKey::new([0xa5; 32]);
        key.write_new(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{}\n", "a5".repeat(32)));
        assert_eq!(MasterKey::read(&path).unwrap(), key);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(MasterKey::new([0; 32]).write_new(&path).is_err(), "a key was overwritten");
        for text in ["", "a5", &"g5".repeat(32), &"a5".repeat(33), "\u{e9}"] {
            std::fs::write(&path, text).unwrap();
            assert!(matches!(MasterKey::read(&path), Err(MasterKeyError::Malformed(_))), "{text}");
        }
        assert_eq!(format!("{key:?}"), "MasterKey(..)");
    }

    /// Once, a key that everybody could read or change was taken without a word.
    #[test]
    fn a_key_that_others_may_read_or_change_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(MASTER_KEY_FILE);
        MasterKey::new([0xa5; 32]).write_new(&path).unwrap();
        let is_root = path.metadata().unwrap().uid() == 0;
        for (mode, is_taken) in [
            (0o600, true),
            (0o400, true),
            // As systemd hands over credentials.
            (0o440, is_root),
            (0o460, false),
            (0o620, false),
            (0o604, false),
            (0o602, false),
            (0o644, false),
        ] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            match MasterKey::read(&path) {
                Ok(_) => assert!(is_taken, "{mode:o}"),
                Err(error) => {
                    let told = error.to_string();
                    assert!(!is_taken && told.contains(&format!("mode {mode:03o}")), "{told}");
                }
            }
        }
    }

    /// Once, a pipe in the key's place stopped every command at it, until somebody wrote into the pipe.
    #[test]
    fn a_pipe_in_the_place_of_a_key_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(MASTER_KEY_FILE);
        mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
        let refused = MasterKey::read(&path).unwrap_err().to_string();
        assert!(refused.ends_with("is no plain file"), "{refused}");
    }

    #[test]
    fn keys_are_told_apart_by_their_ids() {
        let [one, other] = [1, 2].map(|byte| MasterKey::new([byte; 32]).id());
        assert_ne!(one, other);
        assert_eq!(one, MasterKey::new([1; 32]).id());
        assert_eq!(one.to_string().len(), 16);
    }
}
