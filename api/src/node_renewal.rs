//! A node that the window does not reach any more is made anew by itself, out of the node that leads.
//!
//! INVARIANT: the directory that it had stays beside the new one, whole, until an operator deletes it or the node is
//! made anew again: of several, the newest says why it was behind, and each takes the room of a whole directory. The
//! two change places once the new one is complete.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cardswitch_cluster::ClusterAddress;

use crate::commands::Failure;
use crate::commands::cluster::join::{JoinArgs, join};
use crate::config::CONFIG_FILE;
use crate::opening::KeyedDirectory;

/// The ending of the name of the directory that it had.
const OLD: &str = ".behind";
/// How long it waits before it tries again.
const RETRY_WAIT: Duration = Duration::from_secs(5);

/// Makes the directory of a node anew, for as long as that takes: no node may lead now.
pub(crate) async fn renew(place: KeyedDirectory<'_>, cluster: &ClusterAddress) {
    while let Err(Failure { message, .. }) = try_renew(place, cluster).await {
        tracing::warn!("the node cannot be made anew, and tries again: {message}");
        tokio::time::sleep(RETRY_WAIT).await;
    }
}

async fn try_renew(place: KeyedDirectory<'_>, cluster: &ClusterAddress) -> Result<(), Failure> {
    let data = std::path::absolute(place.data).map_err(Failure::new)?;
    let (new, old) = (beside(&data, ".new"), beside(&data, OLD));
    // The rest of a renewal that broke off, and the directory before the one there is: the copy needs the room.
    for path in [&new, &old] {
        remove(path).map_err(Failure::new)?;
    }
    join(JoinArgs::renewing(place, new.clone(), cluster.clone())).await?;
    keep_settings(&data, &new).map_err(Failure::new)?;
    fs::rename(&data, &old).map_err(Failure::new)?;
    fs::rename(&new, &data).map_err(Failure::new)?;
    let (data, old) = (data.display(), old.display());
    tracing::warn!("`{data}` was too far behind, and is made anew; it stays as `{old}`: delete it");
    Ok(())
}

/// The settings of the node stay its own; a copy has those of the leader.
fn keep_settings(data: &Path, new: &Path) -> io::Result<()> {
    let (own, copied) = (data.join(CONFIG_FILE), new.join(CONFIG_FILE));
    match fs::copy(own, &copied) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => remove(&copied),
        copied => copied.map(drop),
    }
}

fn beside(data: &Path, ending: &str) -> PathBuf {
    let mut name = data.file_name().map(OsString::from).unwrap_or_default();
    name.push(ending);
    data.with_file_name(name)
}

fn remove(path: &Path) -> io::Result<()> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    removed.or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    })
}
