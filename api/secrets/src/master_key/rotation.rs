//! Another master key, while the switch goes on. The data key stays, so nothing else changes.
//!
//! | step | what is durable then | after a crash |
//! |---|---|---|
//! | 1. the old key gets a second name, `FILE.old`, where the new one takes its place | the old key, twice | the old key opens |
//! | 2. the new key is written beside its place, `FILE.new` | both keys | the old key opens; the next try makes another one |
//! | 3. `data.key` is replaced by the data key wrapped under the new key | both keys | the new key opens: it is found beside its place |
//! | 4. the new key takes its place | the new key, and the old one as `FILE.old` | nothing is left to do |
//!
//! If the new key has a place of its own (`--new-master-key FILE`), steps 1 and 4 are left out.
//! Step 2 then ends with the key there, durable, also if somebody else had put it there.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::data_key::{
    DataKeyError, WrappedKey, fitting_master, open_keys, read_wrapped, write_wrapped,
};
use super::source::MasterKeySource;
use super::{MasterKey, MasterKeyError};
use crate::issuing::SystemRandom;
use crate::private_file;
use crate::process::wiping_stack;

/// Why the master key is the one it was.
#[derive(Debug, thiserror::Error)]
pub enum MasterRotationError {
    /// The keys that are there, or the new one.
    #[error(transparent)]
    Keys(DataKeyError),
    /// The new key is the old one.
    #[error("`{0}` has the master key that is in use")]
    Same(PathBuf),
    /// An earlier key is kept where the old one is to be.
    #[error(
        "`{0}` keeps an earlier master key: move it to where backups from its time are opened, or \
         delete it"
    )]
    OldKept(PathBuf),
    /// The key comes from where the switch cannot put another one.
    #[error(
        "the master key comes from a command or from systemd: say with --new-master-key FILE \
         where the new one is"
    )]
    NoPlace,
}

impl<E: Into<DataKeyError>> From<E> for MasterRotationError {
    fn from(error: E) -> Self {
        Self::Keys(error.into())
    }
}

/// The outcome of a rotation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MasterKeyReport {
    /// The fingerprint of the new key.
    pub master_key_id: String,
    /// The path of the new key.
    pub place: PathBuf,
    /// The path of the old key, if the switch keeps it.
    pub old_place: Option<PathBuf>,
}

/// The master key of a running switch: its place, never the key itself.
#[derive(Debug)]
pub struct MasterKeys {
    data: PathBuf,
    source: Mutex<MasterKeySource>,
}

impl MasterKeys {
    /// The master key of this data directory.
    pub fn new(data: &Path, source: MasterKeySource) -> Self {
        Self { data: data.to_path_buf(), source: Mutex::new(source) }
    }

    /// Replaces the key; one at a time.
    /// Errors: as of `rotate_master_key`.
    pub fn rotate(&self, place: Option<&Path>) -> Result<MasterKeyReport, MasterRotationError> {
        let mut source = self.source.lock();
        let report = rotate_master_key(&self.data, &source, place)?;
        if place.is_some() {
            *source = MasterKeySource::File(report.place.clone());
        }
        Ok(report)
    }

    /// The place of the key now.
    pub fn source(&self) -> MasterKeySource {
        self.source.lock().clone()
    }

    /// Reads the key, and the data key that it wraps; neither is replaced in between.
    /// Errors: one of them cannot be read.
    pub fn read(&self) -> Result<(MasterKey, WrappedKey), DataKeyError> {
        let source = self.source.lock();
        Ok((source.read(&self.data)?, read_wrapped(&self.data)?))
    }
}

/// Replaces the master key of a directory that nobody else changes: by the one at `place`, which is
/// made where there is none, or by a new one at the place of the old.
/// Errors: a key cannot be read or written; then the old one or the new one opens the directory.
pub fn rotate_master_key(
    data: &Path,
    source: &MasterKeySource,
    place: Option<&Path>,
) -> Result<MasterKeyReport, MasterRotationError> {
    wiping_stack(|| replace_key(data, source, place))
}

fn replace_key(
    data: &Path,
    source: &MasterKeySource,
    place: Option<&Path>,
) -> Result<MasterKeyReport, MasterRotationError> {
    let keys = open_keys(data, source)?;
    let old = fitting_master(data, source, &keys.wrapped)?;
    settle(data, source, &keys.wrapped)?;
    let data_key = keys.wrapped.open_with(&old, data)?;
    let wrap = |new: &MasterKey| {
        let wrapped =
            WrappedKey::wrap(&data_key, new, keys.wrapped.directory).map_err(DataKeyError::Seal)?;
        write_wrapped(data, &wrapped, &keys.secrets)
    };
    let (new, place, old_place) = match place {
        Some(place) => {
            let new = key_at(place)?;
            if new == old {
                return Err(MasterRotationError::Same(place.to_path_buf()));
            }
            wrap(&new)?;
            (new, place.to_path_buf(), None)
        }
        None => {
            let place = source.own_path(data).ok_or(MasterRotationError::NoPlace)?;
            let old_place = keep_old(&place, &old)?;
            let new = drawn()?;
            let failed = |error| MasterKeyError::Io(place.clone(), error);
            private_file::write_unfinished(&place, new.text().as_bytes()).map_err(failed)?;
            wrap(&new)?;
            private_file::finish(&place).map_err(failed)?;
            (new, place, Some(old_place))
        }
    };
    Ok(MasterKeyReport { master_key_id: new.id().to_string(), place, old_place })
}

/// Ends what a crash cut short: a master key that waits beside its place, and is in use, takes it.
/// Errors: the system refuses.
pub fn settle(
    data: &Path,
    source: &MasterKeySource,
    wrapped: &WrappedKey,
) -> Result<(), MasterKeyError> {
    let Some(place) = source.own_path(data) else { return Ok(()) };
    let fits = |path: &Path| MasterKey::read(path).is_ok_and(|key| key.id() == wrapped.master);
    if !fits(&place) && fits(&private_file::unfinished(&place)) {
        private_file::finish(&place).map_err(|error| MasterKeyError::Io(place, error))?;
    }
    Ok(())
}

/// The key that waits at a place, made there if there is none. It is made durable either way: its
/// author may have left it in the cache of the system, and soon no other key opens the directory.
fn key_at(place: &Path) -> Result<MasterKey, MasterRotationError> {
    match MasterKey::read(place) {
        Err(MasterKeyError::Missing(_)) => {
            let new = drawn()?;
            new.write_new(place)?;
            Ok(new)
        }
        read => {
            let new = read?;
            let synced = private_file::sync(place);
            synced.map_err(|error| MasterKeyError::Io(place.to_path_buf(), error))?;
            Ok(new)
        }
    }
}

fn drawn() -> Result<MasterKey, DataKeyError> {
    let none = |_| DataKeyError::Seal(crate::SealError::NoRandomness);
    MasterKey::draw(&mut SystemRandom).map_err(none)
}

/// Gives the old key a second name, where the new one takes its own: backups from before need it.
fn keep_old(place: &Path, old: &MasterKey) -> Result<PathBuf, MasterRotationError> {
    let kept = private_file::beside(place, ".old");
    let failed = |error| MasterKeyError::Io(kept.clone(), error);
    match fs::hard_link(place, &kept) {
        // A try before this one got as far.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if MasterKey::read(&kept).ok().as_ref() != Some(old) {
                return Err(MasterRotationError::OldKept(kept));
            }
        }
        linked => linked.and_then(|()| private_file::sync_directory_of(&kept)).map_err(failed)?,
    }
    // It has the rights that somebody else gave the first name, perhaps more than the owner's to read.
    fs::set_permissions(&kept, Permissions::from_mode(0o600)).map_err(failed)?;
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use cardswitch_engine::data_directory::DataDirectory;
    use zeroize::Zeroizing;

    use super::*;

    /// A directory with a data key, whose master key is 32 times 1.
    fn directory(source: &MasterKeySource, data: &Path) {
        let (data_key, master) = (Zeroizing::new([3; 32]), MasterKey::new([1; 32]));
        let wrapped = WrappedKey::wrap(&data_key, &master, [7; 16]).unwrap();
        drop(DataDirectory::create(data, [7; 16]).unwrap());
        write_wrapped(data, &wrapped, &crate::Secrets::from_root(*data_key)).unwrap();
        if let Some(path) = source.own_path(data) {
            master.write_new(&path).unwrap();
        }
    }

    fn opens(data: &Path, source: &MasterKeySource) -> bool {
        let id_key = crate::Secrets::from_root([3; 32]).id_key();
        open_keys(data, source).is_ok_and(|keys| keys.secrets.id_key() == id_key)
    }

    #[test]
    fn a_new_key_takes_the_place_of_the_old_which_opens_nothing_any_more() {
        for is_elsewhere in [false, true] {
            let home = tempfile::tempdir().unwrap();
            let source = match is_elsewhere {
                true => MasterKeySource::File(home.path().join("elsewhere.key")),
                false => MasterKeySource::InDirectory,
            };
            directory(&source, home.path());
            let report = rotate_master_key(home.path(), &source, None).unwrap();
            assert!(opens(home.path(), &source));
            let old = MasterKeySource::File(report.old_place.unwrap());
            assert_eq!(old.read(home.path()).unwrap(), MasterKey::new([1; 32]));
            assert!(!opens(home.path(), &old));
            let again = rotate_master_key(home.path(), &source, None).unwrap_err();
            assert!(matches!(again, MasterRotationError::OldKept(_)), "{again}");
            assert!(opens(home.path(), &source));
        }
    }

    #[test]
    fn a_new_key_with_a_place_of_its_own_is_taken_or_made_there() {
        let home = tempfile::tempdir().unwrap();
        let source = MasterKeySource::InDirectory;
        directory(&source, home.path());
        let [given, made] = ["given", "made"].map(|name| home.path().join(name));
        MasterKey::new([2; 32]).write_new(&given).unwrap();
        let keys = MasterKeys::new(home.path(), source.clone());
        keys.rotate(Some(&given)).unwrap();
        assert!(
            !opens(home.path(), &source)
                && opens(home.path(), &MasterKeySource::File(given.clone()))
        );
        let same = keys.rotate(Some(&given)).unwrap_err();
        assert!(matches!(same, MasterRotationError::Same(_)), "{same}");
        keys.rotate(Some(&made)).unwrap();
        let (master, wrapped) = keys.read().unwrap();
        assert_eq!(master.id(), wrapped.master);
        assert_eq!(keys.source(), MasterKeySource::File(made.clone()));
        assert!(opens(home.path(), &MasterKeySource::File(made)));
        let command = MasterKeySource::Command(format!("echo {}", "02".repeat(32)));
        assert!(!opens(home.path(), &command));
    }

    #[test]
    fn a_key_from_a_command_needs_a_place_for_the_next() {
        let home = tempfile::tempdir().unwrap();
        let source = MasterKeySource::Command(format!("echo {}", "01".repeat(32)));
        directory(&source, home.path());
        let refused = rotate_master_key(home.path(), &source, None).unwrap_err();
        assert!(matches!(refused, MasterRotationError::NoPlace), "{refused}");
        rotate_master_key(home.path(), &source, Some(&home.path().join("next"))).unwrap();
        assert!(!opens(home.path(), &source));
    }

    #[test]
    fn what_a_crash_cut_short_is_ended() {
        let home = tempfile::tempdir().unwrap();
        let source = MasterKeySource::InDirectory;
        directory(&source, home.path());
        // As after step 2: the key beside the place is nobody's.
        let place = source.own_path(home.path()).unwrap();
        fs::write(private_file::unfinished(&place), "cut").unwrap();
        keep_old(&place, &MasterKey::new([1; 32])).unwrap();
        assert!(opens(home.path(), &source));
        // As after step 3.
        let report = rotate_master_key(home.path(), &source, None).unwrap();
        fs::rename(&place, private_file::unfinished(&place)).unwrap();
        fs::copy(report.old_place.unwrap(), &place).unwrap();
        assert!(opens(home.path(), &source), "the new key waits beside the old one's place");
        let wrapped = open_keys(home.path(), &source).unwrap().wrapped;
        settle(home.path(), &source, &wrapped).unwrap();
        assert!(!private_file::unfinished(&place).exists() && opens(home.path(), &source));
    }

    /// The old key had the rights that somebody had given it.
    #[test]
    fn the_old_key_is_its_owners_alone() {
        let home = tempfile::tempdir().unwrap();
        let (data, source) = (home.path().join("data"), MasterKeySource::InDirectory);
        directory(&source, &data);
        let place = source.own_path(&data).unwrap();
        fs::set_permissions(&place, Permissions::from_mode(0o400)).unwrap();
        let kept = rotate_master_key(&data, &source, None).unwrap().old_place.unwrap();
        assert_eq!(kept.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}
