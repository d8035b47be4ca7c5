//! The manifest of a backup: `manifest` in its directory. It names every file with its length and its
//! SHA-256, under a sum that only the directory's keys can make.
//!
//! | line | content |
//! |---|---|
//! | 1 | `cardswitch backup` |
//! | 2 | `format 1` |
//! | 3 to 5 | the wrapped data key, see `master_key/data_key` |
//! | others | `file LENGTH SHA256 NAME`, in the order of names |
//! | last | `sum TAG`: HMAC-SHA-256 of all lines before, first 128 bits |
//!
//! INVARIANT: each restored file was named by the manifest and is unchanged. A backup has no other
//! file, no link and nothing else, so no later addition is taken for a part of it.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use cardswitch_engine::backup::{CopyError, check_room};

use cardswitch_identity::receipts::receipt_digest;
use cardswitch_secrets::Secrets;
use cardswitch_secrets::hex::{array_from_hex, to_hex};
use cardswitch_secrets::master_key::MasterKey;
use cardswitch_secrets::master_key::data_key::{DataKeyError, WrappedKey};
use cardswitch_secrets::plain_file::{FileDigest, OpenFolder, copy_described, open_plain};
use cardswitch_secrets::private_file::{self, create_private};
use cardswitch_secrets::summed_text::{SummedText, SummedTextFlaw, render_summed};

/// The name of the file.
pub const MANIFEST_FILE: &str = "manifest";
const TITLE: &str = "cardswitch backup";
/// The longest manifest that is read. Units: bytes.
const MANIFEST_BYTES_MAX: u64 = 1 << 30;

/// Why a backup is not taken.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// It has no manifest.
    #[error("`{0}` is missing: this is no backup, or not as `backup` made it; take another one")]
    Missing(PathBuf),
    /// The manifest was cut or changed.
    #[error("the manifest `{0}` was cut or changed ({1}): take another backup")]
    Damaged(PathBuf, &'static str),
    /// It was written by a later build.
    #[error("`{0}` was written by a later version")]
    NewerFormat(PathBuf),
    /// A file that it names is not there.
    #[error("`{0}` is missing, which the manifest names: take another backup")]
    FileMissing(PathBuf),
    /// A file was changed.
    #[error(
        "`{0}` is not what the manifest says: it was damaged or changed, or is of another backup; \
         take another backup"
    )]
    FileDiffers(PathBuf),
    /// Something is there that it does not name, or that is no file.
    #[error(
        "`{0}` is not of this backup, or no plain file: find out who put it there, and move it \
         away"
    )]
    Stranger(PathBuf),
    /// The keys that it is checked with.
    #[error(transparent)]
    Keys(DataKeyError),
    /// There is no room for a copy.
    #[error(transparent)]
    Room(CopyError),
    /// The system refused.
    #[error("`{0}`: {1}")]
    Io(PathBuf, io::Error),
}

/// Whether a directory is a backup, or was one.
pub fn is_backup(directory: &Path) -> bool {
    directory.join(MANIFEST_FILE).symlink_metadata().is_ok()
}

/// Writes the manifest of a finished copy.
/// Errors: a file cannot be read, or is none; the manifest cannot be written.
/// Cost: reads everything but receipts, whose names tell their content.
pub fn write_manifest(
    backup: &Path,
    wrapped: &WrappedKey,
    secrets: &Secrets,
) -> Result<(), ManifestError> {
    let mut body = wrapped.render();
    for (name, path) in files_of(backup)? {
        let FileDigest { bytes, sha256 } = match receipt_digest(&name) {
            Some(sha256) => {
                let file = open_plain(&path).map_err(|error| of_file(&path, error))?;
                FileDigest { bytes: bytes_of(&file, &path)?, sha256 }
            }
            None => describe(&path)?,
        };
        body.push_str(&format!("file {bytes} {} {name}\n", to_hex(&sha256)));
    }
    let path = backup.join(MANIFEST_FILE);
    let text = render_summed(TITLE, &body, &secrets.manifest_sum);
    private_file::replace(&path, text.as_bytes()).map_err(|error| ManifestError::Io(path, error))
}

/// A manifest as it was read, before its sum and its files are looked at.
#[derive(Debug)]
pub struct Manifest {
    backup: PathBuf,
    text: String,
    /// The wrapped data key of the backup.
    pub wrapped: WrappedKey,
}

impl Manifest {
    /// Reads the manifest of a backup.
    /// Errors: it is missing, or is no manifest.
    pub fn read(backup: &Path) -> Result<Self, ManifestError> {
        let path = backup.join(MANIFEST_FILE);
        let mut text = String::new();
        let read = open_plain(&path)
            .and_then(|file| file.take(MANIFEST_BYTES_MAX).read_to_string(&mut text));
        read.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => ManifestError::Missing(path.clone()),
            io::ErrorKind::InvalidInput => ManifestError::Stranger(path.clone()),
            io::ErrorKind::InvalidData => ManifestError::Damaged(path.clone(), "it is no text"),
            _ => ManifestError::Io(path.clone(), error),
        })?;
        let summed = SummedText::split(&text, TITLE).map_err(|flaw| flawed(flaw, &path))?;
        let wrapped = WrappedKey::parse(&mut summed.body());
        let wrapped = wrapped.ok_or(ManifestError::Damaged(path, "its keys"))?;
        Ok(Self { backup: backup.to_path_buf(), text, wrapped })
    }

    /// Its path.
    pub fn path(&self) -> PathBuf {
        self.backup.join(MANIFEST_FILE)
    }

    /// Opens the keys that the directory had when the backup was made.
    /// Errors: it is another master key.
    pub fn open(&self, master: &MasterKey) -> Result<Secrets, ManifestError> {
        let data_key = self.wrapped.open_with(master, &self.path()).map_err(ManifestError::Keys)?;
        Ok(Secrets::from_root(*data_key))
    }

    /// Proves the backup as it lies.
    /// Errors: the manifest or a file was changed, or there are other files.
    /// Cost: reads everything once.
    pub fn check(&self, secrets: &Secrets) -> Result<(), ManifestError> {
        self.prove(self.files(secrets)?, &mut |_, source| copy_described(source, &mut io::sink()))
    }

    /// Copies the backup, without its manifest, to a folder that is made, and proves the bytes that
    /// were copied.
    /// Errors: as of `check`; the copy cannot be written, or does not fit.
    /// Cost: reads and writes everything once.
    pub fn copy_proven(&self, secrets: &Secrets, to: &Path) -> Result<(), ManifestError> {
        let files = self.files(secrets)?;
        let bytes = files.values().fold(0_u64, |sum, file| sum.saturating_add(file.bytes));
        check_room(to, bytes).map_err(ManifestError::Room)?;
        let make = |folder: &Path| DirBuilder::new().recursive(true).mode(0o700).create(folder);
        make(to).map_err(|error| ManifestError::Io(to.to_path_buf(), error))?;
        self.prove(files, &mut |name, source| {
            let copy = to.join(name);
            make(copy.parent().unwrap_or(to))?;
            copy_described(source, &mut create_private(&copy)?)
        })
    }

    /// The files that it names.
    /// Errors: it was written without the keys.
    fn files(&self, secrets: &Secrets) -> Result<BTreeMap<String, FileDigest>, ManifestError> {
        let path = self.path();
        let summed = SummedText::split(&self.text, TITLE).map_err(|flaw| flawed(flaw, &path))?;
        if !summed.is_of(&secrets.manifest_sum) {
            return Err(ManifestError::Damaged(path, "its sum differs"));
        }
        parse_files(summed.body().skip(3)).ok_or(ManifestError::Damaged(path, "its files"))
    }

    /// Compares the bytes that `take` has read of each file with the expected ones.
    fn prove(
        &self,
        mut expected: BTreeMap<String, FileDigest>,
        take: &mut dyn FnMut(&str, &mut dyn Read) -> io::Result<FileDigest>,
    ) -> Result<(), ManifestError> {
        let folder = OpenFolder::open(&self.backup)
            .map_err(|error| ManifestError::Io(self.backup.clone(), error))?;
        for (name, path) in files_of(&self.backup)? {
            let Some(expected) = expected.remove(&name) else {
                return Err(ManifestError::Stranger(path));
            };
            let file =
                folder.open_plain(Path::new(&name)).map_err(|error| of_file(&path, error))?;
            // Lengths first: they cost nothing. One byte more tells of a file that grows.
            if bytes_of(&file, &path)? != expected.bytes
                || take(&name, &mut file.take(expected.bytes.saturating_add(1)))
                    .map_err(|error| ManifestError::Io(path.clone(), error))?
                    != expected
            {
                return Err(ManifestError::FileDiffers(path));
            }
        }
        match expected.pop_first() {
            Some((name, _)) => Err(ManifestError::FileMissing(self.backup.join(name))),
            None => Ok(()),
        }
    }
}

/// Why a file of a backup cannot be opened.
fn of_file(path: &Path, error: io::Error) -> ManifestError {
    match error.kind() {
        io::ErrorKind::InvalidInput => ManifestError::Stranger(path.to_path_buf()),
        io::ErrorKind::NotFound => ManifestError::FileMissing(path.to_path_buf()),
        _ => ManifestError::Io(path.to_path_buf(), error),
    }
}

fn flawed(flaw: SummedTextFlaw, path: &Path) -> ManifestError {
    match flaw {
        SummedTextFlaw::Damaged(what) => ManifestError::Damaged(path.to_path_buf(), what),
        SummedTextFlaw::NewerFormat => ManifestError::NewerFormat(path.to_path_buf()),
    }
}

fn parse_files<'a>(lines: impl Iterator<Item = &'a str>) -> Option<BTreeMap<String, FileDigest>> {
    let file = |line: &str| {
        let (bytes, rest) = line.strip_prefix("file ")?.split_once(' ')?;
        let (sha256, name) = rest.split_once(' ')?;
        let described = FileDigest { bytes: bytes.parse().ok()?, sha256: *array_from_hex(sha256)? };
        Some((name.to_owned(), described))
    };
    lines.map(file).collect()
}

/// The files of a backup by their names, its manifest aside, in their order.
/// Errors: something is there that is neither file nor directory.
fn files_of(backup: &Path) -> Result<BTreeMap<String, PathBuf>, ManifestError> {
    let (mut files, mut folders) = (BTreeMap::new(), vec![backup.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        let failed = |error| ManifestError::Io(folder.clone(), error);
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let (path, kind) = (entry.path(), entry.file_type().map_err(failed)?);
            if kind.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(backup).ok().and_then(|name| name.to_str());
            let name = name.filter(|name| kind.is_file() && !name.contains('\n'));
            let Some(name) = name.map(ToOwned::to_owned) else {
                return Err(ManifestError::Stranger(path));
            };
            if name != MANIFEST_FILE {
                files.insert(name, path);
            }
        }
    }
    Ok(files)
}

fn bytes_of(file: &File, path: &Path) -> Result<u64, ManifestError> {
    let found = file.metadata();
    found.map(|found| found.len()).map_err(|error| ManifestError::Io(path.to_path_buf(), error))
}

fn describe(path: &Path) -> Result<FileDigest, ManifestError> {
    let read = open_plain(path).and_then(|mut file| copy_described(&mut file, &mut io::sink()));
    read.map_err(|error| of_file(path, error))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use sha2::{Digest as _, Sha256};
    use zeroize::Zeroizing;

    use super::*;

    fn secrets() -> Secrets {
        Secrets::from_root([3; 32])
    }

    fn backup() -> tempfile::TempDir {
        let backup = tempfile::tempdir().unwrap();
        fs::create_dir(backup.path().join("receipts")).unwrap();
        fs::create_dir(backup.path().join("journal")).unwrap();
        let receipt = format!("receipts/{}", to_hex(&Sha256::digest(b"a receipt")));
        for (name, content) in
            [("store.redb", "tables"), ("journal/head", ""), (&receipt, "a receipt")]
        {
            fs::write(backup.path().join(name), content).unwrap();
        }
        let master = MasterKey::new([1; 32]);
        let wrapped = WrappedKey::wrap(&Zeroizing::new([3; 32]), &master, [7; 16]).unwrap();
        write_manifest(backup.path(), &wrapped, &secrets()).unwrap();
        backup
    }

    fn check(backup: &Path) -> Result<(), ManifestError> {
        let manifest = Manifest::read(backup)?;
        manifest.check(&manifest.open(&MasterKey::new([1; 32]))?)
    }

    #[test]
    fn a_backup_as_it_was_made_passes_and_its_keys_open() {
        let backup = backup();
        check(backup.path()).unwrap();
        let manifest = Manifest::read(backup.path()).unwrap();
        let other = manifest.open(&MasterKey::new([2; 32])).unwrap_err();
        assert!(matches!(other, ManifestError::Keys(DataKeyError::OtherMaster { .. })), "{other}");
        let foreign = manifest.check(&Secrets::from_root([4; 32])).unwrap_err();
        assert!(matches!(foreign, ManifestError::Damaged(..)), "{foreign}");
    }

    /// Each change to a backup, by an attacker or an accident, with its message.
    #[test]
    fn whatever_is_changed_is_told_of() {
        type Change = (&'static str, fn(&Path));
        let rows: [Change; 10] = [
            ("`manifest` is missing", |at| fs::remove_file(at.join("manifest")).unwrap()),
            ("journal/head` is missing", |at| fs::remove_file(at.join("journal/head")).unwrap()),
            ("store.redb` is not what", |at| fs::write(at.join("store.redb"), "tablez").unwrap()),
            ("store.redb` is not what", |at| fs::write(at.join("store.redb"), "tables.").unwrap()),
            ("cardswitch.toml` is not of this", |at| {
                fs::write(at.join("cardswitch.toml"), "log = 'json'").unwrap();
            }),
            ("cardswitch.toml` is not of this", |at| {
                symlink("/etc/passwd", at.join("cardswitch.toml")).unwrap();
            }),
            ("store.redb` is not of this", |at| {
                fs::rename(at.join("store.redb"), at.join("elsewhere")).unwrap();
                symlink("elsewhere", at.join("store.redb")).unwrap();
            }),
            ("receipts/planted` is not of this", |at| {
                fs::write(at.join("receipts/planted"), "").unwrap();
            }),
            ("its sum differs", |at| {
                let text = fs::read_to_string(at.join("manifest")).unwrap();
                fs::write(at.join("manifest"), text.replace("file 6 ", "file 7 ")).unwrap();
            }),
            ("its sum is missing", |at| {
                let text = fs::read_to_string(at.join("manifest")).unwrap();
                fs::write(at.join("manifest"), text.split("sum ").next().unwrap()).unwrap();
            }),
        ];
        for (told, change) in rows {
            let backup = backup();
            change(backup.path());
            let refused = check(backup.path()).unwrap_err().to_string();
            let told = told.trim_start_matches('`');
            assert!(refused.contains(told), "{told}: {refused}");
        }
    }

    /// Only the bytes given to `take` are looked at: a file that is exchanged, cut or made longer while
    /// it is read is not as expected.
    #[test]
    fn a_copy_holds_what_was_proven_and_nothing_else() {
        let (backup, home) = (backup(), tempfile::tempdir().unwrap());
        let manifest = Manifest::read(backup.path()).unwrap();
        let copy = home.path().join("copy");
        manifest.copy_proven(&secrets(), &copy).unwrap();
        let [names, copied] = [backup.path(), &copy].map(|folder| files_of(folder).unwrap());
        assert_eq!(names.keys().collect::<Vec<_>>(), copied.keys().collect::<Vec<_>>());
        for (name, path) in names {
            assert_eq!(fs::read(path).unwrap(), fs::read(&copied[&name]).unwrap(), "{name}");
        }
        let tables = backup.path().join("store.redb");
        for exchanged in ["tablez", "table", "tables and more"] {
            let files = manifest.files(&secrets()).unwrap();
            let refused = manifest.prove(files, &mut |_, source| {
                // Its length was looked at already.
                fs::write(&tables, exchanged)?;
                copy_described(source, &mut io::sink())
            });
            fs::write(&tables, "tables").unwrap();
            assert!(matches!(refused, Err(ManifestError::FileDiffers(_))), "{exchanged}");
        }
        assert!(manifest.copy_proven(&secrets(), &copy).is_err(), "a copy was overwritten");
    }

    #[test]
    fn each_changed_byte_of_a_manifest_is_found() {
        let backup = backup();
        let path = backup.path().join(MANIFEST_FILE);
        let whole = fs::read(&path).unwrap();
        for position in 0..whole.len() {
            let mut changed = whole.clone();
            changed[position] ^= 1;
            fs::write(&path, &changed).unwrap();
            assert!(check(backup.path()).is_err(), "byte {position}");
            fs::write(&path, &whole[..position]).unwrap();
            assert!(check(backup.path()).is_err(), "cut at {position}");
        }
    }
}
