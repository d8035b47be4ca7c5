//! A node that the window does not reach any more is made anew by itself, out of the node that leads.
//!
//! INVARIANT: the directory that it had stays beside the new one, whole, until an operator deletes it or the node is
//! made anew again: of several, the newest says why it was behind, and each takes the room of a whole directory. The
//! two change places in one step once the new one is complete: there is a whole directory at every moment.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cardswitch_cluster::ClusterAddress;
use cardswitch_engine::clock::Clock;
use cardswitch_secrets::private_file::beside;
use parking_lot::Mutex;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use serde_json::Value;

use crate::commands::Failure;
use crate::commands::cluster::join::{JoinArgs, join};
use crate::config::CONFIG_FILE;
use crate::opening::KeyedDirectory;
use crate::staging::remove_entry;
use crate::telemetry::health::HealthNotes;

/// The ending of the name of the directory that it had.
const OLD: &str = ".behind";
/// How long it waits before it tries again; twice as long each time. A try may cost the leader a backup. After one
/// that succeeded and helped for less than the longest wait, it waits as long as that helped.
const RETRY_WAIT: Duration = Duration::from_secs(5);
const RETRY_WAIT_MAX: Duration = Duration::from_secs(600);

/// Makes the directory of a node anew, for as long as that takes: no node may lead now. `notes` has the reason why it
/// is not made yet.
pub(crate) async fn renew(
    place: KeyedDirectory<'_>,
    cluster: &ClusterAddress,
    notes: &HealthNotes,
) {
    let mut wait = RETRY_WAIT;
    let reason = Arc::new(Mutex::new(None::<String>));
    let told = Arc::clone(&reason);
    notes.tell("renewal", move || told.lock().clone().map(Value::from));
    if let Some(ago) = last_renewal(place.data).filter(|ago| *ago < RETRY_WAIT_MAX) {
        let wait = ago.max(RETRY_WAIT);
        let (ago_s, wait_s) = (ago.as_secs(), wait.as_secs());
        let message = format!("made anew {ago_s} s ago and behind again: it waits {wait_s} s");
        tracing::warn!("{message}");
        *reason.lock() = Some(message);
        tokio::time::sleep(wait).await;
    }
    while let Err(Failure { message, .. }) = try_renew(place, cluster).await {
        let wait_s = wait.as_secs();
        tracing::warn!("the node cannot be made anew, and tries again in {wait_s} s: {message}");
        *reason.lock() = Some(message);
        tokio::time::sleep(wait).await;
        wait = (2 * wait).min(RETRY_WAIT_MAX);
    }
}

/// How long ago the directory that it had was put aside.
fn last_renewal(data: &Path) -> Option<Duration> {
    let aside_at = fs::metadata(beside(data, OLD)).ok()?.ctime();
    let ago = Clock::System.now().0 / 1_000_000 - aside_at;
    u64::try_from(ago).ok().map(Duration::from_secs)
}

async fn try_renew(place: KeyedDirectory<'_>, cluster: &ClusterAddress) -> Result<(), Failure> {
    let data = std::path::absolute(place.data)?;
    let (new, old) = (beside(&data, ".new"), beside(&data, OLD));
    put_back(&data, &old)?;
    // The rest of a renewal that broke off, and the directory before the one there is: the copy needs the room.
    for path in [&new, &old] {
        remove_entry(path)?;
    }
    join(JoinArgs::renewing(place, new.clone(), cluster.clone())).await?;
    keep_settings(&data, &new)?;
    change_places(&data, &new, &old)?;
    let (data, old) = (data.display(), old.display());
    tracing::warn!("`{data}` was too far behind, and is made anew; it stays as `{old}`: delete it");
    Ok(())
}

/// Puts the new directory where `data` is, which becomes `old`. A kill in between leaves that beside it as `new`.
fn change_places(data: &Path, new: &Path, old: &Path) -> io::Result<()> {
    match renameat_with(CWD, new, CWD, data, RenameFlags::EXCHANGE) {
        Ok(()) => fs::rename(new, old),
        // The file system exchanges no names.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            fs::rename(data, old)?;
            fs::rename(new, data).inspect_err(|_| drop(put_back(data, old)))
        }
        Err(error) => Err(error.into()),
    }
}

/// Puts the old directory back where the new one did not come to be.
fn put_back(data: &Path, old: &Path) -> io::Result<()> {
    if data.try_exists()? { Ok(()) } else { fs::rename(old, data) }
}

/// The settings of the node stay its own; a copy has those of the leader.
fn keep_settings(data: &Path, new: &Path) -> io::Result<()> {
    let (own, copied) = (data.join(CONFIG_FILE), new.join(CONFIG_FILE));
    match fs::copy(own, &copied) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => remove_entry(&copied),
        copied => copied.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn directory(home: &Path, name: &str) -> PathBuf {
        let path = home.join(name);
        fs::create_dir(&path).unwrap();
        fs::write(path.join("directory"), name).unwrap();
        path
    }

    /// Once, the old directory went aside first: where the new one could not follow, nothing was at the place of the
    /// node's directory, and the next try deleted the old one.
    #[test]
    fn a_directory_is_at_its_place_whether_a_renewal_succeeds_or_not() {
        let home = tempfile::tempdir().unwrap();
        let data = directory(home.path(), "data");
        let (new, old) = (beside(&data, ".new"), beside(&data, OLD));
        let content = |path: &Path| fs::read_to_string(path.join("directory")).unwrap();
        assert!(change_places(&data, &new, &old).is_err(), "there is no new one");
        assert_eq!(content(&data), "data");
        directory(home.path(), "data.new");
        change_places(&data, &new, &old).unwrap();
        assert_eq!((content(&data), content(&old)), ("data.new".to_owned(), "data".to_owned()));
        assert!(!new.exists());
    }

    /// Once, a node that was behind again as soon as it was made anew cost the leader one backup after the other.
    #[test]
    fn a_renewal_is_remembered_by_the_next_run() {
        let home = tempfile::tempdir().unwrap();
        let data = directory(home.path(), "data");
        assert_eq!(last_renewal(&data), None);
        let (new, old) = (directory(home.path(), "data.new"), beside(&data, OLD));
        change_places(&data, &new, &old).unwrap();
        assert!(last_renewal(&data).unwrap() < RETRY_WAIT_MAX);
    }

    #[test]
    fn the_old_directory_is_put_back_where_none_is() {
        let home = tempfile::tempdir().unwrap();
        let old = directory(home.path(), "data.behind");
        let data = home.path().join("data");
        for _ in 0..2 {
            put_back(&data, &old).unwrap();
            assert!(data.exists() && !old.exists());
        }
    }
}
