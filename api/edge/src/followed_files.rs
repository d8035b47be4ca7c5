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

/// Calls `reload` whenever one of `files` changes or SIGHUP comes, until `stop` turns true.
pub(crate) async fn follow<F: Future<Output = ()>>(
    files: Vec<PathBuf>,
    mut stop: watch::Receiver<bool>,
    reload: impl Fn() -> F,
) {
    let Ok(mut hangup) = signal(SignalKind::hangup()) else {
        tracing::warn!(?files, "no signal asks for new certificates");
        return;
    };
    let files: Arc<[PathBuf]> = files.into();
    let mut seen = stamps(Arc::clone(&files)).await;
    loop {
        let is_asked = tokio::select! {
            asked = hangup.recv() => asked.is_some(),
            () = tokio::time::sleep(LOOK_EVERY) => false,
            _ = stop.wait_for(|stop| *stop) => return,
        };
        let now = stamps(Arc::clone(&files)).await;
        if is_asked || now != seen {
            seen = now;
            reload().await;
        }
    }
}

/// Replaces `config` by what `read` returns, where that can be used by `user`.
pub(crate) async fn read_again<T: Send + 'static>(
    config: &Mutex<Arc<T>>,
    read: impl FnOnce() -> Result<T, TlsFileError> + Send + 'static,
    user: &(impl Debug + Sync),
) {
    match tokio::task::spawn_blocking(read).await {
        Ok(Ok(new)) => {
            *config.lock() = Arc::new(new);
            tracing::info!(?user, "new certificates are used");
        }
        Ok(Err(error)) => tracing::error!(?user, %error, "the certificates before stay in use"),
        Err(error) => tracing::error!(?user, %error, "certificates were not read"),
    }
}

/// Signs that a file was replaced.
async fn stamps(files: Arc<[PathBuf]>) -> Vec<Option<(SystemTime, u64)>> {
    let stamp = |path: &Path| {
        let metadata = fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    };
    let look = move || files.iter().map(|path| stamp(path)).collect();
    tokio::task::spawn_blocking(look).await.unwrap_or_default()
}
