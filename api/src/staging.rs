//! The private copy of a backup that `restore` reads: `PLACE.staging`, beside the directory it makes. Inside its
//! place, `init` prepares a directory.
//!
//! | inside | content |
//! |---|---|
//! | `lock` | held by the process at work on it |
//! | `moved` | names that are on their way from here to the place around it, a line each; the last one makes it whole |
//! | `outside` | links to files elsewhere that belong to them, named by what tells such a file from a later one |
//! | others | backups, each proven by its manifest while it was copied |
//!
//! INVARIANT: the restored bytes are the bytes that were proven. A user who may write to a backup can
//! change it at any moment, also after it was proven; this copy is its owner's alone.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, Metadata, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use cardswitch_engine::backup::CopyError;
use cardswitch_engine::data_directory::DirectoryError;
use cardswitch_secrets::Secrets;
use cardswitch_secrets::private_file::{self, beside, create_private};
use rustix::process::geteuid;

use crate::manifest::{Manifest, ManifestError};

const LOCK_FILE: &str = "lock";
const MOVED_FILE: &str = "moved";
const OUTSIDE_FOLDER: &str = "outside";

/// The folder of the copies; it is removed with this value.
#[derive(Debug)]
pub struct Staging {
    folder: PathBuf,
    _lock: File,
}

impl Staging {
    /// Makes it beside the place where a directory is to be. The leftover of a crash goes.
    /// Errors: the place is taken, another process is at work there, or the system refuses.
    pub fn make(place: &Path) -> Result<Self, CopyError> {
        if place.symlink_metadata().is_ok() {
            return Err(CopyError::Exists(place.to_path_buf()));
        }
        Self::at(beside(place, ".staging"))
    }

    /// Makes it inside the place where a directory is to be: that may be there already, and be a mount.
    /// Errors: as of `make`.
    pub fn within(place: &Path) -> Result<Self, CopyError> {
        Self::at(place.join("staging"))
    }

    fn at(folder: PathBuf) -> Result<Self, CopyError> {
        remove_leftover(&folder)?;
        let lock = make_locked(&folder).map_err(|error| CopyError::Io(folder.clone(), error))?;
        Ok(Self { folder, _lock: lock })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Takes a file elsewhere that was made now: unless everything is moved to the place, it goes with the folder, if
    /// it can be told from a later one.
    /// Errors: the system refuses.
    pub fn add_outside(&self, file: &Path) -> io::Result<()> {
        let Some(identity) = identity_of(&file.symlink_metadata()?) else { return Ok(()) };
        let folder = self.folder.join(OUTSIDE_FOLDER);
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let link = folder.join(identity);
        symlink(std::path::absolute(file)?, &link)?;
        private_file::sync_directory_of(&link)
    }

    /// The names of the entries that are to be moved to the place around it.
    /// Errors: it cannot be read.
    fn entries(&self) -> io::Result<Vec<OsString>> {
        let names = fs::read_dir(&self.folder)?.map(|entry| entry.map(|entry| entry.file_name()));
        let is_own = |name: &OsString| name == LOCK_FILE || name == OUTSIDE_FOLDER;
        names.filter(|name| !name.as_ref().is_ok_and(is_own)).collect()
    }

    /// Moves what is in it to the place around it, `last` as the last. If that ends midway, what was moved goes with
    /// the folder.
    /// Errors: something is in the way.
    pub fn publish(&self, last: &str) -> Result<(), CopyError> {
        let place = self.folder.parent().unwrap_or(Path::new("."));
        let failed = |error| CopyError::Io(place.to_path_buf(), error);
        let mut names = self.entries().map_err(failed)?;
        names.sort_by_key(|name| name == last);
        assert!(names.last().is_some_and(|name| name == last), "there is no `{last}`");
        for name in &names {
            let path = place.join(name);
            if path.symlink_metadata().is_ok() {
                return Err(CopyError::Exists(path));
            }
        }
        let lines: String = names.iter().map(|name| format!("{}\n", name.display())).collect();
        private_file::replace(&self.folder.join(MOVED_FILE), lines.as_bytes()).map_err(failed)?;
        for name in &names {
            if name == last {
                private_file::sync_directory_of(&self.folder).map_err(failed)?;
            }
            fs::rename(self.folder.join(name), place.join(name)).map_err(failed)?;
        }
        private_file::sync_directory_of(&self.folder).map_err(failed)
    }

    /// Copies a backup into it under this name, and proves the copy. Returns where it is.
    /// Errors: the backup differs from its manifest, or there is too little room.
    /// Cost: reads and writes everything once.
    pub fn take(
        &self,
        manifest: &Manifest,
        secrets: &Secrets,
        name: &str,
    ) -> Result<PathBuf, ManifestError> {
        let copy = self.folder.join(name);
        manifest.copy_proven(secrets, &copy)?;
        Ok(copy)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // The next try removes a leftover of this one.
        drop(remove(&self.folder));
    }
}

/// What tells a file from every other one that was ever at its path; none if the file system does not say when files
/// were made.
fn identity_of(file: &Metadata) -> Option<String> {
    let made = file.created().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(format!("{}-{}-{}", file.dev(), file.ino(), made.as_nanos()))
}

/// Removes a folder with what was moved out of it and made elsewhere, unless all was moved.
/// Errors: `InvalidData` if no process of this program has written it; the system refuses.
fn remove(folder: &Path) -> io::Result<()> {
    let names = match fs::read_to_string(folder.join(MOVED_FILE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        names => names?,
    };
    if !names.lines().all(is_file_name) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let is_left = |name: &str| folder.join(name).symlink_metadata().is_ok();
    let is_whole = !names.is_empty() && !names.lines().any(is_left);
    if let Some(place) = folder.parent().filter(|_| !is_whole) {
        for name in names.lines().filter(|name| !is_left(name)) {
            remove_entry(&place.join(name))?;
        }
        remove_outside(&folder.join(OUTSIDE_FOLDER))?;
    }
    fs::remove_dir_all(folder)
}

/// Whether a path joined with it is right below that path.
fn is_file_name(name: &str) -> bool {
    Path::new(name).file_name().is_some_and(|last| last == name)
}

/// Removes the files elsewhere that links of a folder name, each unless another file has its path by now.
fn remove_outside(links: &Path) -> io::Result<()> {
    let links = match fs::read_dir(links) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        links => links?,
    };
    for link in links {
        let link = link?;
        let file = fs::read_link(link.path())?;
        let is_same = |found| identity_of(&found).is_some_and(|found| *found == *link.file_name());
        if file.symlink_metadata().is_ok_and(is_same) {
            remove_entry(&file)?;
        }
    }
    Ok(())
}

/// Removes a file, or a folder with all in it, if it is there.
pub(crate) fn remove_entry(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
    }
}

fn make_locked(folder: &Path) -> io::Result<File> {
    if let Some(above) = folder.parent().filter(|above| !above.as_os_str().is_empty()) {
        DirBuilder::new().recursive(true).mode(0o700).create(above)?;
    }
    DirBuilder::new().mode(0o700).create(folder)?;
    let lock = create_private(&folder.join(LOCK_FILE))?;
    lock.try_lock()?;
    Ok(lock)
}

/// Removes the leftover of a killed process, and nothing else.
fn remove_leftover(folder: &Path) -> Result<(), CopyError> {
    let in_the_way = || CopyError::InTheWay(folder.to_path_buf());
    let failed = |error| CopyError::Io(folder.to_path_buf(), error);
    match folder.symlink_metadata() {
        // The leftover of another user may name any file to be removed.
        Ok(found) if found.is_dir() && found.uid() == geteuid().as_raw() => {}
        Ok(_) => return Err(in_the_way()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    }
    // Held until it is gone.
    let _lock = match File::open(folder.join(LOCK_FILE)) {
        Ok(lock) => match lock.try_lock() {
            Ok(()) => Some(lock),
            Err(TryLockError::WouldBlock) => {
                return Err(DirectoryError::InUse(folder.to_path_buf()).into());
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        },
        Err(_) if fs::read_dir(folder).map_err(failed)?.next().is_none() => None,
        Err(_) => return Err(in_the_way()),
    };
    remove(folder).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => in_the_way(),
        _ => failed(error),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::chown;

    use super::*;

    /// Whoever could write to a directory had `init` remove what its user may remove, anywhere.
    #[test]
    fn a_leftover_names_nothing_but_what_is_beside_it() {
        for name in ["../mine", "x/../../mine", "/mine", "..", ".", "mine/", ""] {
            let home = tempfile::tempdir().unwrap();
            let (place, mine) = (home.path().join("data"), home.path().join("mine"));
            let folder = place.join("staging");
            fs::create_dir_all(&folder).unwrap();
            fs::create_dir(place.join("mine")).unwrap();
            fs::write(&mine, "").unwrap();
            let name = if name == "/mine" { mine.to_str().unwrap() } else { name };
            for (file, content) in
                [(LOCK_FILE, ""), ("x", ""), (MOVED_FILE, &format!("x\n{name}\n"))]
            {
                fs::write(folder.join(file), content).unwrap();
            }
            assert!(matches!(Staging::within(&place), Err(CopyError::InTheWay(_))), "{name}");
            assert!(mine.exists() && place.join("mine").exists(), "{name}");
        }
    }

    #[test]
    fn a_leftover_of_another_user_is_in_the_way() {
        let home = tempfile::tempdir().unwrap();
        let place = home.path().join("data");
        drop(Staging::within(&place).unwrap());
        let folder = place.join("staging");
        fs::create_dir(&folder).unwrap();
        // Only root can give a folder away.
        if chown(&folder, Some(65_534), None).is_ok() {
            assert!(matches!(Staging::within(&place), Err(CopyError::InTheWay(_))));
            assert!(folder.exists());
        }
    }

    /// A killed `init` left its cards file, and the next one refused to overwrite it.
    #[test]
    fn files_elsewhere_go_with_a_leftover_unless_they_are_others_by_now() {
        let home = tempfile::tempdir().unwrap();
        let place = home.path().join("data");
        let [left, replaced, gone] =
            ["left", "replaced", "gone"].map(|name| home.path().join(name));
        let killed = Staging::within(&place).unwrap();
        for file in [&left, &replaced, &gone] {
            fs::write(file, "cards").unwrap();
            killed.add_outside(file).unwrap();
        }
        std::mem::forget(killed.lock_given_up());
        fs::remove_file(&gone).unwrap();
        // Perhaps with the same number in the file system.
        fs::remove_file(&replaced).unwrap();
        fs::write(&replaced, "mine").unwrap();
        let next = Staging::within(&place).unwrap();
        assert!(!left.exists());
        assert_eq!(fs::read_to_string(&replaced).unwrap(), "mine");
        // They stay with what was published.
        fs::write(&left, "cards").unwrap();
        next.add_outside(&left).unwrap();
        fs::write(next.folder().join("directory"), "").unwrap();
        next.publish("directory").unwrap();
        drop(next);
        assert!(left.exists() && !place.join("staging").exists());
    }

    impl Staging {
        /// As if its process were killed.
        fn lock_given_up(self) -> Self {
            self._lock.unlock().unwrap();
            self
        }
    }

    #[test]
    fn only_what_a_killed_restore_left_makes_room() {
        let home = tempfile::tempdir().unwrap();
        let (place, folder) = (home.path().join("data"), home.path().join("data.staging"));
        let staging = Staging::make(&place).unwrap();
        let second = Staging::make(&place).unwrap_err();
        assert!(matches!(second, CopyError::Directory(DirectoryError::InUse(_))), "{second}");
        drop(staging);
        assert!(!folder.exists(), "it goes with its owner");
        // Killed before and after the lock was made.
        fs::create_dir(&folder).unwrap();
        drop(Staging::make(&place).unwrap());
        fs::create_dir_all(folder.join("backup")).unwrap();
        fs::write(folder.join(LOCK_FILE), "").unwrap();
        drop(Staging::make(&place).unwrap());
        // A folder of another user.
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("letters"), "mine").unwrap();
        assert!(matches!(Staging::make(&place), Err(CopyError::InTheWay(_))));
        assert_eq!(fs::read_to_string(folder.join("letters")).unwrap(), "mine");
        fs::write(&place, "").unwrap();
        assert!(matches!(Staging::make(&place), Err(CopyError::Exists(_))));
    }
}
