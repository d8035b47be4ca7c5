//! The queue of letters, in `mail/` among the data or the notes of a cluster. Its files are sealed,
//! for links in letters open things, and bound to their names.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cardswitch_dispatch::mail::queue::{MailQueue, QueueError, Urgency};
use cardswitch_dispatch::mail::store::{MailDirectory, MailStore};
use cardswitch_engine::disk::RealDisk;
use cardswitch_secrets::{MailFile, SealedSecret, Secrets};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use uuid::Uuid;
use zeroize::Zeroizing;

use super::news::News;
use super::outbox::MailError;

/// The directory's name.
const DIRECTORY: &str = "mail";

/// The files of mail in a data directory.
/// Errors: the directory cannot be made, read or tidied.
pub fn open_directory(data: &Path) -> io::Result<MailDirectory> {
    MailDirectory::open(Arc::new(RealDisk::open(&data.join(DIRECTORY))?))
}

/// A letter that is ready to go.
#[derive(Serialize, Deserialize)]
pub(super) struct Parcel {
    /// The e-mail address of its reader.
    pub(super) to: String,
    /// The whole message.
    pub(super) message: String,
}

/// Letters that wait.
#[derive(Debug)]
pub(super) struct SealedQueue {
    /// The files, as they are.
    pub(super) queue: MailQueue,
    secrets: Arc<Secrets>,
    started: Instant,
    /// Says that a letter came.
    pub(super) came: Notify,
}

impl SealedQueue {
    /// Opens the queue in a store. Returns it with the ids of news held before.
    /// Errors: the store cannot be read.
    /// Cost: O(letters), without reading any.
    pub(super) fn open(
        store: Arc<dyn MailStore>,
        secrets: Arc<Secrets>,
    ) -> io::Result<(Self, Vec<Uuid>)> {
        let (queue, held) = MailQueue::open(store, Duration::ZERO)?;
        Ok((Self { queue, secrets, started: Instant::now(), came: Notify::new() }, held))
    }

    pub(super) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Keeps news until it is known whether it is true.
    /// Errors: too many wait, or the file cannot be written.
    /// Cost: blocks for one write of the store.
    pub(super) fn hold(&self, id: Uuid, news: &News) -> Result<(), MailError> {
        let sealed = self.seal(MailFile::Held, news, id)?;
        Ok(self.queue.hold(id, news.urgency(), &sealed)?)
    }

    /// News that is held.
    /// Errors: the file cannot be read, or was not written here.
    pub(super) fn read_news(&self, id: Uuid) -> Result<News, QueueError> {
        self.unseal(MailFile::Held, &self.queue.read_news(id)?, id)
    }

    /// Keeps a letter until a server takes it; it replaces news held under its id.
    /// Errors: too many wait, or the file cannot be written.
    /// Cost: blocks for one write of the store.
    pub(super) fn add_letter(
        &self,
        id: Uuid,
        urgency: Urgency,
        parcel: &Parcel,
    ) -> Result<(), MailError> {
        let sealed = self.seal(kind_of(urgency), parcel, id)?;
        self.queue.add_letter(id, urgency, &sealed, self.now())?;
        self.came.notify_one();
        Ok(())
    }

    /// A letter that was taken.
    /// Errors: the file cannot be read, or was not written here.
    pub(super) fn read_letter(&self, id: Uuid) -> Result<Parcel, QueueError> {
        let (urgency, sealed) = self.queue.read_letter(id)?;
        self.unseal(kind_of(urgency), &sealed, id)
    }

    fn seal(
        &self,
        kind: MailFile,
        content: &impl Serialize,
        id: Uuid,
    ) -> Result<Vec<u8>, MailError> {
        let plain = serde_json::to_vec(content).map(Zeroizing::new);
        let plain = plain.map_err(|error| MailError::Write(error.into()))?;
        self.secrets.seal(SealedSecret::Mail(kind, id), &plain).map_err(MailError::Seal)
    }

    fn unseal<T: DeserializeOwned>(
        &self,
        kind: MailFile,
        sealed: &[u8],
        id: Uuid,
    ) -> Result<T, QueueError> {
        let plain = self.secrets.open(SealedSecret::Mail(kind, id), sealed);
        let plain = plain.ok_or(QueueError::Foreign)?;
        serde_json::from_slice(&plain).map_err(|_| QueueError::Foreign)
    }
}

const fn kind_of(urgency: Urgency) -> MailFile {
    match urgency {
        Urgency::First => MailFile::First,
        Urgency::InTurn => MailFile::Due,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    use super::*;

    const KEY: &str = "7f3a-key-of-a-link";

    fn open(data: &Path, root: u8) -> (SealedQueue, Vec<Uuid>) {
        let store = Arc::new(open_directory(data).unwrap());
        SealedQueue::open(store, Arc::new(Secrets::from_root([root; 32]))).unwrap()
    }

    fn parcel(to: &str) -> Parcel {
        Parcel { to: to.to_owned(), message: format!("To: {to}\r\n\r\n{KEY}\r\n") }
    }

    #[test]
    fn news_and_letters_outlive_the_process() {
        let data = tempfile::tempdir().unwrap();
        let [id, held] = [Uuid::now_v7(), Uuid::now_v7()];
        let (queue, _) = open(data.path(), 5);
        queue.add_letter(id, Urgency::InTurn, &parcel("ada@example.com")).unwrap();
        queue.hold(held, &News::NewPassword { key: KEY.to_owned() }).unwrap();
        drop(queue);
        let (queue, found) = open(data.path(), 5);
        assert_eq!((found, queue.queue.len()), (vec![held], 2));
        assert!(matches!(queue.read_news(held).unwrap(), News::NewPassword { key } if key == KEY));
        assert_eq!(queue.read_letter(id).unwrap().to, "ada@example.com");
    }

    #[test]
    fn files_are_sealed_private_and_bound_to_their_names() {
        let data = tempfile::tempdir().unwrap();
        let directory = data.path().join(DIRECTORY);
        let path = |id, extension: &str| -> PathBuf { directory.join(format!("{id}.{extension}")) };
        let [id, other] = [Uuid::now_v7(), Uuid::now_v7()];
        let (queue, _) = open(data.path(), 5);
        queue.add_letter(id, Urgency::InTurn, &parcel("ada@example.com")).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path(id, "due")), mode(&directory)), (0o600, 0o700));
        let bytes = fs::read(path(id, "due")).unwrap();
        for clear in [KEY, "ada@example.com"] {
            assert!(!bytes.windows(clear.len()).any(|part| part == clear.as_bytes()), "{clear}");
        }
        for copy in [path(other, "due"), path(id, "held")] {
            fs::write(&copy, &bytes).unwrap();
        }
        assert!(matches!(queue.read_letter(other), Err(QueueError::Foreign)));
        assert!(matches!(queue.read_news(id), Err(QueueError::Foreign)));
        let (foreign, _) = open(data.path(), 6);
        assert!(matches!(foreign.read_letter(id), Err(QueueError::Foreign)));
    }
}
