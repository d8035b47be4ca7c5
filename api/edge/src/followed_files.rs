//! Files of TLS that are read again on SIGHUP and when one of them changes.
//!
//! INVARIANT: files that cannot be used are logged and change nothing.

use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::tls::TlsFileError;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Signs that a file was replaced; none where there is none.
type Stamp = Option<(SystemTime, u64)>;

/// The stamps of files just before they were read.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct FileStamps(Vec<Stamp>);

impl FileStamps {
    /// Looks at the files.
    pub(crate) fn of<'a>(files: impl IntoIterator<Item = &'a Path>) -> Self {
        Self(stamps(files))
    }
}

/// Calls `reload` whenever one of `files` changes, also before this is called, or SIGHUP comes, until `stop` turns true.
pub(crate) async fn follow<'a, F: Future<Output = ()>>(
    files: impl IntoIterator<Item = &'a Path>,
    FileStamps(first): &FileStamps,
    mut stop: watch::Receiver<bool>,
    reload: impl Fn() -> F,
) {
    let paths: Arc<[PathBuf]> = files.into_iter().map(Path::to_owned).collect();
    let Ok(mut hangup) = signal(SignalKind::hangup()) else {
        tracing::warn!(?paths, "no signal asks for new certificates");
        return;
    };
    let (mut seen, mut is_asked) = (first.clone(), false);
    loop {
        let look = Arc::clone(&paths);
        let look = move || stamps(look.iter().map(PathBuf::as_path));
        let now = tokio::task::spawn_blocking(look).await.unwrap_or_default();
        if is_asked || now != seen {
            seen = now;
            reload().await;
        }
        is_asked = tokio::select! {
            asked = hangup.recv() => asked.is_some(),
            () = tokio::time::sleep(LOOK_EVERY) => false,
            _ = stop.wait_for(|stop| *stop) => return,
        };
    }
}

/// Replaces `config` by what `read` returns, where that can be used by `user`.
pub(crate) async fn read_again<T: Send + 'static>(
    config: &Mutex<Arc<T>>,
    read: impl FnOnce() -> Result<T, TlsFileError> + Send + 'static,
    user: &(impl Debug + Sync),
) {
    match tokio::task::spawn_blocking(read).await {
        Ok(read) => replace(config, read, user),
        Err(error) => tracing::error!(?user, %error, "certificates were not read"),
    }
}

/// Replaces `config` by what was read, where that can be used by `user`.
pub(crate) fn replace<T>(config: &Mutex<Arc<T>>, read: Result<T, TlsFileError>, user: &impl Debug) {
    match read {
        Ok(new) => {
            *config.lock() = Arc::new(new);
            tracing::info!(?user, "new certificates are used");
        }
        Err(error) => tracing::error!(?user, %error, "the certificates before stay in use"),
    }
}

fn stamps<'a>(files: impl IntoIterator<Item = &'a Path>) -> Vec<Stamp> {
    let stamp = |path: &Path| {
        let metadata = fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    };
    files.into_iter().map(stamp).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Files are read before a recovery and followed after it: once, what was renewed meanwhile was not read.
    #[tokio::test]
    async fn a_change_before_files_are_followed_is_seen() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("certificate");
        fs::write(&file, "old").unwrap();
        let first = FileStamps::of([file.as_path()]);
        fs::write(&file, "a newer one").unwrap();
        let (stop, reloads) = (watch::Sender::new(false), AtomicUsize::new(0));
        follow([file.as_path()], &first, stop.subscribe(), || {
            reloads.fetch_add(1, Ordering::Relaxed);
            stop.send_replace(true);
            std::future::ready(())
        })
        .await;
        assert_eq!(reloads.into_inner(), 1);
    }
}
