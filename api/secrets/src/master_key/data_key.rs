//! The data key of a directory, from which every other key is derived, wrapped under the master key:
//! `data.key`. Another master key wraps the same data key, so no card verification value, PIN value,
//! look-up or id changes with it.
//!
//! | line | content |
//! |---|---|
//! | 1 | `cardswitch data key` |
//! | 2 | `format 1` |
//! | 3 | `directory ID`: the directory of the data key, 32 hex digits |
//! | 4 | `master ID`: the master key that opens it, 16 hex digits |
//! | 5 | `key WRAPPED`: sealed as in `secrets/seal` under a key derived from the master key, lines 3 and 4 as associated data, as hex digits |
//! | last | `sum TAG`: HMAC-SHA-256 of all lines before under a key derived from the data key, first 128 bits |
//!
//! A backup has lines 3 to 5 in its manifest, and no such file. Only a holder of the master key can
//! make a data directory out of a backup.

use std::path::{Path, PathBuf};
use std::{fs, io};

use cardswitch_engine::data_directory::{DataDirectory, DirectoryError};
use zeroize::Zeroizing;

use super::source::MasterKeySource;
use super::{MasterKey, MasterKeyError, MasterKeyId};
use crate::hex::{array_from_hex, from_hex, to_hex};
use crate::private_file;
use crate::process::wiping_stack;
use crate::summed_text::{SummedText, SummedTextFlaw, render_summed};
use crate::{SealError, Secrets, fresh_nonce, open, seal};

/// The name of the file.
pub const DATA_KEY_FILE: &str = "data.key";
const TITLE: &str = "cardswitch data key";
/// The remedy where the file is lost. A backup as a whole would lack all that came after it.
const BRING_BACK: &str = "`cardswitch restore` any backup of the directory elsewhere, with the master key of its time, \
                          and copy `data.key` out of that";

/// The key that all others are derived from.
pub type DataKey = Zeroizing<[u8; 32]>;

/// Why the keys of a directory are not there.
#[derive(Debug, thiserror::Error)]
pub enum DataKeyError {
    /// The master key.
    #[error(transparent)]
    Master(#[from] MasterKeyError),
    /// There is no data key.
    #[error(
        "`{0}` is missing, the wrapped key of the directory: without it nothing is opened; {BRING_BACK}"
    )]
    Missing(PathBuf),
    /// The file is not what was written.
    #[error("`{0}` is damaged or was changed ({1}): {BRING_BACK}")]
    Damaged(PathBuf, &'static str),
    /// Written by a later build.
    #[error("`{0}` was written by a later version")]
    NewerFormat(PathBuf),
    /// It is wrapped under another master key than the one given.
    #[error(
        "the master key is not the one of this directory: `{path}` is opened by the key with id \
         {needed}, the one given has id {given}"
    )]
    OtherMaster {
        /// The file of the wrapped key.
        path: PathBuf,
        /// The fingerprint of the key that opens it.
        needed: MasterKeyId,
        /// The fingerprint of the key that was given.
        given: MasterKeyId,
    },
    /// It is another directory's.
    #[error("`{0}` belongs to another data directory")]
    OtherDirectory(PathBuf),
    /// The directory has no identity.
    #[error(transparent)]
    Directory(DirectoryError),
    /// No randomness, or the cipher refused.
    #[error(transparent)]
    Seal(SealError),
    /// The system refused.
    #[error("`{0}`: {1}")]
    Io(PathBuf, io::Error),
}

impl DataKeyError {
    pub(crate) fn of_flaw(flaw: SummedTextFlaw, path: &Path) -> Self {
        match flaw {
            SummedTextFlaw::Damaged(what) => Self::Damaged(path.to_path_buf(), what),
            SummedTextFlaw::NewerFormat => Self::NewerFormat(path.to_path_buf()),
        }
    }
}

/// A data key as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrappedKey {
    /// The directory's id.
    pub directory: [u8; 16],
    /// The master key that opens it.
    pub master: MasterKeyId,
    sealed: Vec<u8>,
}

impl WrappedKey {
    /// Wraps the data key of a directory.
    /// Errors: no randomness.
    pub fn wrap(
        data_key: &DataKey,
        master: &MasterKey,
        directory: [u8; 16],
    ) -> Result<Self, SealError> {
        let context = head_of(directory, master.id());
        let nonce = fresh_nonce()?;
        let sealed = seal(&master.cipher(), nonce, data_key.as_slice(), context.as_bytes())?;
        Ok(Self { directory, master: master.id(), sealed })
    }

    /// The data key; none where this is another master key, or what is wrapped was changed.
    pub fn open(&self, master: &MasterKey) -> Option<DataKey> {
        let context = head_of(self.directory, self.master);
        let opened = open(&master.cipher(), &self.sealed, context.as_bytes())?;
        let mut key = DataKey::default();
        (opened.len() == key.len()).then(|| key.copy_from_slice(&opened))?;
        Some(key)
    }

    /// As `open`, with an error in words for the giver of the key. `path` is the file of this.
    /// Errors: the key is another one, or the wrapped key was changed.
    pub fn open_with(&self, master: &MasterKey, path: &Path) -> Result<DataKey, DataKeyError> {
        let path = path.to_path_buf();
        if self.master != master.id() {
            let (needed, given) = (self.master, master.id());
            return Err(DataKeyError::OtherMaster { path, needed, given });
        }
        self.open(master).ok_or(DataKeyError::Damaged(path, "its key"))
    }

    /// Three lines.
    pub fn render(&self) -> String {
        format!("{}key {}\n", head_of(self.directory, self.master), to_hex(&self.sealed))
    }

    /// Reads these lines off.
    pub fn parse<'a>(lines: &mut impl Iterator<Item = &'a str>) -> Option<Self> {
        let directory = array_from_hex(lines.next()?.strip_prefix("directory ")?)?;
        let master = array_from_hex(lines.next()?.strip_prefix("master ")?)?;
        let sealed = from_hex(lines.next()?.strip_prefix("key ")?)?;
        let master = MasterKeyId(*master);
        Some(Self { directory: *directory, master, sealed: sealed.to_vec() })
    }
}

fn head_of(directory: [u8; 16], master: MasterKeyId) -> String {
    format!("directory {}\nmaster {master}\n", to_hex(&directory))
}

/// Reads the file of a data directory, which shows no key.
/// Errors: it is missing or damaged.
pub fn read_wrapped(data: &Path) -> Result<WrappedKey, DataKeyError> {
    let path = data.join(DATA_KEY_FILE);
    let text = read_file(&path)?;
    let lines =
        SummedText::split(&text, TITLE).map_err(|flaw| DataKeyError::of_flaw(flaw, &path))?;
    WrappedKey::parse(&mut lines.body()).ok_or(DataKeyError::Damaged(path, "its lines"))
}

/// Checks that the file of a directory was written with these keys.
/// Errors: it was not.
pub fn check_file(data: &Path, secrets: &Secrets) -> Result<WrappedKey, DataKeyError> {
    let path = data.join(DATA_KEY_FILE);
    let text = read_file(&path)?;
    let lines =
        SummedText::split(&text, TITLE).map_err(|flaw| DataKeyError::of_flaw(flaw, &path))?;
    if !lines.is_of(&secrets.data_key_sum) {
        return Err(DataKeyError::Damaged(path, "its sum differs"));
    }
    WrappedKey::parse(&mut lines.body()).ok_or(DataKeyError::Damaged(path, "its lines"))
}

fn read_file(path: &Path) -> Result<String, DataKeyError> {
    fs::read_to_string(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => DataKeyError::Missing(path.to_path_buf()),
        io::ErrorKind::InvalidData => DataKeyError::Damaged(path.to_path_buf(), "it is no text"),
        _ => DataKeyError::Io(path.to_path_buf(), error),
    })
}

/// Makes or replaces the file of a data directory, durably: a crash leaves the old one or this.
/// Errors: it cannot be written.
pub fn write_wrapped(
    data: &Path,
    wrapped: &WrappedKey,
    secrets: &Secrets,
) -> Result<(), DataKeyError> {
    let path = data.join(DATA_KEY_FILE);
    let text = render_summed(TITLE, &wrapped.render(), &secrets.data_key_sum);
    private_file::replace(&path, text.as_bytes()).map_err(|error| DataKeyError::Io(path, error))
}

/// The keys of a data directory.
#[derive(Debug)]
pub struct OpenedKeys {
    /// Ready to use.
    pub secrets: Secrets,
    /// The wrapped key in the file.
    pub wrapped: WrappedKey,
}

/// Opens the keys of a data directory. If a replacement of the master key was cut short after the
/// new key had wrapped the data key, the new key waits beside the place of the old one and is
/// taken.
/// Errors: a key is missing, another one, or another directory's.
pub fn open_keys(data: &Path, source: &MasterKeySource) -> Result<OpenedKeys, DataKeyError> {
    wiping_stack(|| derive_keys(data, source))
}

fn derive_keys(data: &Path, source: &MasterKeySource) -> Result<OpenedKeys, DataKeyError> {
    let wrapped = read_wrapped(data)?;
    let master = fitting_master(data, source, &wrapped)?;
    let data_key = wrapped.open_with(&master, &data.join(DATA_KEY_FILE))?;
    let secrets = Secrets::from_root(*data_key);
    check_file(data, &secrets)?;
    if wrapped.directory != DataDirectory::id_of(data).map_err(DataKeyError::Directory)? {
        return Err(DataKeyError::OtherDirectory(data.join(DATA_KEY_FILE)));
    }
    Ok(OpenedKeys { secrets, wrapped })
}

/// The master key, or the one that waits to take its place.
/// Errors: it cannot be read.
pub(super) fn fitting_master(
    data: &Path,
    source: &MasterKeySource,
    wrapped: &WrappedKey,
) -> Result<MasterKey, DataKeyError> {
    let fits = |key: &MasterKey| key.id() == wrapped.master;
    let waiting = || MasterKey::read(&private_file::unfinished(&source.own_path(data)?)).ok();
    match source.read(data) {
        Ok(master) if fits(&master) => Ok(master),
        read => match waiting().filter(fits) {
            Some(master) => Ok(master),
            None => Ok(read?),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIRECTORY: [u8; 16] = [7; 16];

    fn made(data: &Path, master: &MasterKey) -> DataKey {
        let data_key = Zeroizing::new([3; 32]);
        let wrapped = WrappedKey::wrap(&data_key, master, DIRECTORY).unwrap();
        write_wrapped(data, &wrapped, &Secrets::from_root(*data_key)).unwrap();
        drop(DataDirectory::create(data, DIRECTORY).unwrap());
        data_key
    }

    #[test]
    fn a_data_key_is_opened_by_its_master_key_alone() {
        let data = tempfile::tempdir().unwrap();
        let (master, other) = (MasterKey::new([1; 32]), MasterKey::new([2; 32]));
        let data_key = made(data.path(), &master);
        let wrapped = read_wrapped(data.path()).unwrap();
        assert_eq!(wrapped.open(&master), Some(data_key));
        assert_eq!(wrapped.open(&other), None);
        let refused = wrapped.open_with(&other, Path::new("here")).unwrap_err().to_string();
        assert!(refused.contains(&master.id().to_string()), "{refused}");
        assert!(refused.contains(&other.id().to_string()), "{refused}");
        let text = fs::read_to_string(data.path().join(DATA_KEY_FILE)).unwrap();
        assert!(!text.contains(&"03".repeat(8)), "a key in clear: {text}");
    }

    #[test]
    fn the_data_key_of_another_directory_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let [data, key] = ["data", "key"].map(|name| home.path().join(name));
        drop(DataDirectory::create(&data, [8; 16]).unwrap());
        let master = MasterKey::new([1; 32]);
        let wrapped = WrappedKey::wrap(&Zeroizing::new([3; 32]), &master, DIRECTORY).unwrap();
        write_wrapped(&data, &wrapped, &Secrets::from_root([3; 32])).unwrap();
        master.write_new(&key).unwrap();
        let refused = open_keys(&data, &MasterKeySource::File(key)).unwrap_err();
        assert!(matches!(refused, DataKeyError::OtherDirectory(_)), "{refused}");
    }

    #[test]
    fn each_changed_byte_of_the_file_is_found() {
        let data = tempfile::tempdir().unwrap();
        let (path, master) = (data.path().join(DATA_KEY_FILE), MasterKey::new([1; 32]));
        made(data.path(), &master);
        let source = MasterKeySource::File(data.path().join("elsewhere"));
        master.write_new(&data.path().join("elsewhere")).unwrap();
        open_keys(data.path(), &source).unwrap();
        let whole = fs::read(&path).unwrap();
        for position in 0..whole.len() {
            for flipped in [1, 0x80] {
                let mut changed = whole.clone();
                changed[position] ^= flipped;
                fs::write(&path, &changed).unwrap();
                assert!(open_keys(data.path(), &source).is_err(), "byte {position}");
            }
            fs::write(&path, &whole[..position]).unwrap();
            assert!(open_keys(data.path(), &source).is_err(), "cut at {position}");
        }
        fs::remove_file(&path).unwrap();
        assert!(matches!(open_keys(data.path(), &source), Err(DataKeyError::Missing(_))));
    }
}
