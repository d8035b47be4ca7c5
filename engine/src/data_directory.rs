//! A data directory: its identity, its lock, and the paths of its files.
//!
//! | file | content |
//! |---|---|
//! | `directory` | text: a title line, `layouts` and 16 hex digits, `id` and 32 hex digits, in a cell `cell` and two digits; also the lock |
//! | `directory.new` | `directory` until it is whole |
//! | `journal/` | the journal, see `journal::log` |
//! | `store.redb` | the query tables, see `store` |
//! | `receipts/` | files of receipts, which the edge keeps |
//!
//! INVARIANT: at most one process writes to a directory: it holds the lock on `directory`.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use crate::domain::cell::Cell;
use crate::layouts::FINGERPRINT;

const TITLE: &str = "cardswitch data directory";
const IDENTITY_FILE: &str = "directory";
const NEW_IDENTITY_FILE: &str = "directory.new";
const IDENTITY_BYTES_MAX: u64 = 4096;

/// A locked data directory.
#[derive(Debug)]
pub struct DataDirectory {
    path: PathBuf,
    identity: Identity,
    /// The lock, held for as long as the directory is open; the system releases it with the
    /// process.
    _lock: File,
}

/// The content of an identity file.
#[derive(Clone, Copy, Debug)]
struct Identity {
    id: [u8; 16],
    cell: Option<Cell>,
}

/// The cause of an unusable directory.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// There is no data directory at the path.
    #[error("`{0}` is no data directory; make one with `cardswitch init`")]
    NotFound(PathBuf),
    /// A data directory exists at the path already.
    #[error("`{0}` is a data directory already")]
    Exists(PathBuf),
    /// Another process uses the directory.
    #[error("data directory `{0}` is in use by another process")]
    InUse(PathBuf),
    /// Root wants to write to a directory of somebody else.
    #[error(
        "data directory `{path}` belongs to user {owner}, whose switch could not open files that root makes \
         there: run the command as that user, as by `sudo -u '#{owner}'`"
    )]
    OfOtherUser {
        /// Its path.
        path: PathBuf,
        /// The number of its user.
        owner: u32,
    },
    /// A build with other layouts made the directory.
    #[error(
        "data directory `{0}` was made by another build of cardswitch, whose files this one does \
         not read; nothing was changed: use that build, or make a new directory with `cardswitch \
         init`"
    )]
    OtherLayouts(PathBuf),
    /// Its identity file has another format.
    #[error("`{0}` was not written by cardswitch")]
    Foreign(PathBuf),
    /// The system refused.
    #[error("`{0}`: {1}")]
    Io(PathBuf, #[source] io::Error),
}

impl DataDirectory {
    /// Makes a new data directory at `path`, which may be an existing empty directory. A new
    /// directory is accessible to its owner only; an existing one keeps its permissions.
    pub fn create(path: &Path, id: [u8; 16]) -> Result<Self, DirectoryError> {
        Self::create_in_cell(path, id, None)
    }

    /// Makes a new data directory for a switch of this cell.
    pub fn create_in_cell(
        path: &Path,
        id: [u8; 16],
        cell: Option<Cell>,
    ) -> Result<Self, DirectoryError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|error| DirectoryError::Io(path.into(), error))?;
        let (place, new) = (path.join(IDENTITY_FILE), path.join(NEW_IDENTITY_FILE));
        let failed = |error| DirectoryError::Io(place.clone(), error);
        let require_none = || match place.try_exists().map_err(failed)? {
            true => Err(DirectoryError::Exists(path.into())),
            false => Ok(()),
        };
        require_none()?;
        // One that was left there is not whole.
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&new);
        let mut file = file.map_err(failed)?;
        lock(&file, path, Access::Exclusive)?;
        // Another process may have been before this one.
        require_none()?;
        let identity = Identity { id, cell };
        file.set_len(0)
            .and_then(|()| file.write_all(identity.text().as_bytes()))
            .and_then(|()| file.sync_all())
            .and_then(|()| fs::rename(&new, &place))
            .and_then(|()| File::open(path)?.sync_all())
            .map_err(failed)?;
        Ok(Self { path: path.into(), identity, _lock: file })
    }

    /// Opens a data directory for writing.
    /// Errors: besides those of its identity, `InUse`, and `OfOtherUser` for root.
    pub fn open(path: &Path) -> Result<Self, DirectoryError> {
        Self::open_for(path, Access::Exclusive)
    }

    /// Opens a data directory for reading, while no process writes to it.
    pub fn open_read_only(path: &Path) -> Result<Self, DirectoryError> {
        Self::open_for(path, Access::Shared)
    }

    fn open_for(path: &Path, access: Access) -> Result<Self, DirectoryError> {
        let place = path.join(IDENTITY_FILE);
        let file = open_identity(path, &place)?;
        lock(&file, path, access)?;
        if let Access::Exclusive = access {
            forbid_foreign_root(&file, path)?;
        }
        let identity = read_identity(&file, &place)?;
        Ok(Self { path: path.into(), identity, _lock: file })
    }

    /// Locks all that is in a directory without an identity, which was not made to its end; none if something else
    /// is in it, too.
    /// Errors: `InUse`.
    pub(crate) fn lock_begun(path: &Path) -> Result<Option<Vec<File>>, DirectoryError> {
        let failed = |error| DirectoryError::Io(path.into(), error);
        let mut locked = Vec::new();
        for entry in fs::read_dir(path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let (name, found) = (entry.file_name(), entry.metadata().map_err(failed)?);
            let is_begun = name == NEW_IDENTITY_FILE || name == IDENTITY_FILE && found.len() == 0;
            if !found.is_file() || !is_begun {
                return Ok(None);
            }
            let file = File::open(entry.path()).map_err(failed)?;
            lock(&file, path, Access::Exclusive)?;
            locked.push(file);
        }
        Ok(Some(locked))
    }

    /// The id of the directory at `path`, which may be in use.
    /// Errors: no data directory, or one with other layouts.
    pub fn id_of(path: &Path) -> Result<[u8; 16], DirectoryError> {
        let identity = path.join(IDENTITY_FILE);
        read_identity(&open_identity(path, &identity)?, &identity).map(|identity| identity.id)
    }

    /// The cell of the directory at `path`, which may be in use.
    /// Errors: as `id_of`.
    pub fn cell_of(path: &Path) -> Result<Option<Cell>, DirectoryError> {
        let identity = path.join(IDENTITY_FILE);
        read_identity(&open_identity(path, &identity)?, &identity).map(|identity| identity.cell)
    }

    /// The directory's id, which its files carry.
    pub const fn id(&self) -> [u8; 16] {
        self.identity.id
    }

    /// The cell of its switch, if it has one.
    pub const fn cell(&self) -> Option<Cell> {
        self.identity.cell
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The journal's directory.
    pub fn journal_path(&self) -> PathBuf {
        self.path.join("journal")
    }

    /// The query tables' file.
    pub fn store_path(&self) -> PathBuf {
        self.path.join("store.redb")
    }
}

fn open_identity(path: &Path, identity: &Path) -> Result<File, DirectoryError> {
    File::open(identity).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => DirectoryError::NotFound(path.into()),
        _ => DirectoryError::Io(identity.into(), error),
    })
}

/// Others than root cannot even open the identity file of somebody else.
fn forbid_foreign_root(identity: &File, path: &Path) -> Result<(), DirectoryError> {
    let found = identity.metadata().map_err(|error| DirectoryError::Io(path.into(), error))?;
    let (owner, user) = (found.uid(), geteuid());
    if user.is_root() && owner != user.as_raw() {
        return Err(DirectoryError::OfOtherUser { path: path.into(), owner });
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Access {
    Exclusive,
    Shared,
}

fn lock(file: &File, path: &Path, access: Access) -> Result<(), DirectoryError> {
    let outcome = match access {
        Access::Exclusive => file.try_lock(),
        Access::Shared => file.try_lock_shared(),
    };
    outcome.map_err(|error| match error {
        TryLockError::WouldBlock => DirectoryError::InUse(path.into()),
        TryLockError::Error(error) => DirectoryError::Io(path.into(), error),
    })
}

fn read_identity(file: &File, path: &Path) -> Result<Identity, DirectoryError> {
    let mut text = String::new();
    file.take(IDENTITY_BYTES_MAX).read_to_string(&mut text).map_err(|error| {
        match error.kind() {
            io::ErrorKind::InvalidData => DirectoryError::Foreign(path.into()),
            _ => DirectoryError::Io(path.into(), error),
        }
    })?;
    let foreign = || DirectoryError::Foreign(path.into());
    let mut lines = text.lines();
    if lines.next() != Some(TITLE) {
        return Err(foreign());
    }
    if lines.next().and_then(|line| line.strip_prefix("layouts ")) != Some(FINGERPRINT) {
        let directory = path.parent().unwrap_or(path);
        return Err(DirectoryError::OtherLayouts(directory.into()));
    }
    let id =
        lines.next().and_then(|line| parse_id(line.strip_prefix("id ")?)).ok_or_else(foreign)?;
    let cell = match lines.next() {
        None => None,
        Some(line) => Some(parse_cell(line).ok_or_else(foreign)?),
    };
    Ok(Identity { id, cell })
}

fn parse_cell(line: &str) -> Option<Cell> {
    line.strip_prefix("cell ")?.parse().ok()
}

impl Identity {
    /// The text that `read_identity` reads.
    fn text(self) -> String {
        let id: String = self.id.iter().map(|byte| format!("{byte:02x}")).collect();
        let cell = self.cell.map(|cell| format!("cell {cell}\n")).unwrap_or_default();
        format!("{TITLE}\nlayouts {FINGERPRINT}\nid {id}\n{cell}")
    }
}

fn parse_id(text: &str) -> Option<[u8; 16]> {
    u128::from_str_radix(text, 16).ok().filter(|_| text.len() == 32).map(u128::to_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_its_owners_alone() {
        use std::os::unix::fs::PermissionsExt;
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("data");
        drop(DataDirectory::create(&path, [7; 16]).unwrap());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_directory_has_one_writer_and_keeps_its_identity() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("data");
        assert!(matches!(DataDirectory::open(&path), Err(DirectoryError::NotFound(_))));
        let made = DataDirectory::create(&path, [7; 16]).unwrap();
        assert!(matches!(DataDirectory::create(&path, [7; 16]), Err(DirectoryError::Exists(_))));
        assert!(matches!(DataDirectory::open(&path), Err(DirectoryError::InUse(_))));
        assert_eq!(DataDirectory::id_of(&path).unwrap(), [7; 16]);
        drop(made);
        assert_eq!(DataDirectory::open(&path).unwrap().id(), [7; 16]);
    }

    /// Once, a directory whose making was cut short was one already for ever, with an identity that nobody could read.
    #[test]
    fn a_directory_that_was_not_made_to_its_end_is_made_anew() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path();
        let new = path.join(NEW_IDENTITY_FILE);
        fs::write(
            &new,
            format!("{TITLE}\nlayouts and something that is longer than the rest {:a>99}", ""),
        )
        .unwrap();
        let maker = File::open(&new).unwrap();
        maker.lock().unwrap();
        assert!(matches!(DataDirectory::create(path, [7; 16]), Err(DirectoryError::InUse(_))));
        assert!(matches!(DataDirectory::open(path), Err(DirectoryError::NotFound(_))));
        drop(maker);
        let made = DataDirectory::create(path, [7; 16]).unwrap();
        assert!(matches!(DataDirectory::open(path), Err(DirectoryError::InUse(_))));
        assert!(!new.exists());
        drop(made);
        assert_eq!(DataDirectory::open(path).unwrap().id(), [7; 16]);
    }

    #[test]
    fn a_directory_keeps_its_cell() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("data");
        let cell: Cell = "07".parse().unwrap();
        drop(DataDirectory::create_in_cell(&path, [7; 16], Some(cell)).unwrap());
        let opened = DataDirectory::open(&path).unwrap();
        assert_eq!((opened.id(), opened.cell()), ([7; 16], Some(cell)));
        drop(opened);
        let identity = std::fs::read_to_string(path.join(IDENTITY_FILE)).unwrap();
        for line in ["cell 7", "cell 100", "cell", "cell x7", ""] {
            let text = identity.replace("cell 07", line);
            std::fs::write(path.join(IDENTITY_FILE), text).unwrap();
            assert!(
                matches!(DataDirectory::open(&path), Err(DirectoryError::Foreign(_))),
                "{line}"
            );
        }
        let without = identity.replace("cell 07\n", "");
        std::fs::write(path.join(IDENTITY_FILE), without).unwrap();
        assert_eq!(DataDirectory::open(&path).unwrap().cell(), None);
    }

    #[test]
    fn a_directory_with_other_layouts_is_refused_and_left_as_it_is() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("data");
        drop(DataDirectory::create(&path, [7; 16]).unwrap());
        let identity = std::fs::read_to_string(path.join(IDENTITY_FILE)).unwrap();
        let other = identity.replace(FINGERPRINT, "fedcba9876543210");
        let before = format!("{TITLE}\nformat 1\nid {:032x}\n", 7);
        for (text, is_ours) in [(other.as_str(), true), (before.as_str(), true), ("hello", false)] {
            std::fs::write(path.join(IDENTITY_FILE), text).unwrap();
            for outcome in [DataDirectory::open(&path), DataDirectory::open_read_only(&path)] {
                let error = outcome.unwrap_err();
                let is_other = matches!(&error, DirectoryError::OtherLayouts(at) if *at == path);
                assert_eq!(is_other, is_ours, "{error}");
            }
            assert!(matches!(
                DataDirectory::create(&path, [8; 16]),
                Err(DirectoryError::Exists(_))
            ));
            assert_eq!(std::fs::read_to_string(path.join(IDENTITY_FILE)).unwrap(), text);
        }
    }
}
