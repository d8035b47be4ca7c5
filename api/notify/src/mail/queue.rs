//! The files of letters that wait, in `mail/` among the data:
//!
//! | name | content |
//! |---|---|
//! | `<id>.held` | news of a change under way, until its outcome is known |
//! | `<id>.due` | a letter, until a server has taken it |
//! | `<id>.first` | the same of one that goes before those |
//! | `cursor` | see `cursor` |
//!
//! Each is sealed, for links in letters open things, and bound to its name. A file never changes: a
//! restart forgets how often a letter was tried, and the id tells when it was handed in.
//!
//! INVARIANT: a file is durable, itself and its entry in the directory, before a caller learns that
//! it waits. An id has a held file or a letter; if a crash left both, the letter counts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cardswitch_secrets::{MailFile, Secrets};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use uuid::Uuid;
use zeroize::Zeroizing;

use super::letter::Urgency;
use super::limits::{FILE_BYTES_MAX, QUEUE_IN_TURN_MAX, QUEUE_LETTERS_MAX};
use super::news::News;
use super::outbox::MailError;

/// The directory's name.
const DIRECTORY: &str = "mail";

/// A letter that is ready to go.
#[derive(Serialize, Deserialize)]
pub(super) struct Parcel {
    /// The e-mail address of its reader.
    pub(super) to: String,
    /// The whole message.
    pub(super) message: String,
}

/// How often a letter was tried in vain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tries {
    /// All of them.
    pub(super) all: u32,
    /// The refusals that a server called final.
    pub(super) refusals: u32,
}

/// The next step of the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// This letter is due, and has been tried so often.
    Letter(Uuid, Tries),
    /// The next one is due then.
    Wait(Instant),
    /// None waits.
    Nothing,
}

/// Letters that wait.
#[derive(Debug)]
pub(super) struct Queue {
    directory: PathBuf,
    secrets: Arc<Secrets>,
    waiting: Mutex<Waiting>,
    /// Says that a letter came.
    pub(super) came: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Letters that go first.
    first: Turns,
    /// The other letters.
    in_turn: Turns,
    /// The ids of letters that go first, also while they are on their way.
    urgent: BTreeSet<Uuid>,
    /// How many files there are, held ones and the one on its way among them.
    files: usize,
}

/// Letters by when they are due.
type Turns = BTreeMap<(Instant, Uuid), Tries>;

impl Waiting {
    fn urgency_of(&self, id: Uuid) -> Urgency {
        if self.urgent.contains(&id) { Urgency::First } else { Urgency::InTurn }
    }

    fn turns(&mut self, id: Uuid) -> &mut Turns {
        match self.urgency_of(id) {
            Urgency::First => &mut self.first,
            Urgency::InTurn => &mut self.in_turn,
        }
    }
}

impl Queue {
    /// Opens the queue of a data directory. Returns it with the ids of news held before.
    /// Errors: the directory cannot be made or read.
    /// Cost: O(letters), without reading any.
    pub(super) fn open(data: &Path, secrets: Arc<Secrets>) -> io::Result<(Self, Vec<Uuid>)> {
        let directory = data.join(DIRECTORY);
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        // An existing directory is synced too: its maker may have been killed before the sync.
        File::open(data)?.sync_all()?;
        let [mut held, mut due, mut urgent] = [Vec::new(), Vec::new(), Vec::new()];
        for entry in fs::read_dir(&directory)? {
            let path = entry?.path();
            match parse_name(&path) {
                Some((id, MailFile::Held)) => held.push(id),
                Some((id, MailFile::Due)) => due.push(id),
                Some((id, MailFile::First)) => urgent.push(id),
                // A file that a crash cut short; no caller learned of it.
                None if is_unfinished(&path) => fs::remove_file(&path)?,
                None => {}
            }
        }
        held.sort_unstable();
        let letters: BTreeSet<Uuid> = due.iter().chain(&urgent).copied().collect();
        let told = held.extract_if(.., |id| letters.contains(id));
        for id in told {
            // A held file left here would bring the letter again once that is gone.
            fs::remove_file(directory.join(format!("{id}.{}", extension(MailFile::Held))))?;
        }
        let (now, files) = (Instant::now(), held.len() + letters.len());
        let turns = |ids: &[Uuid]| ids.iter().map(|id| ((now, *id), Tries::default())).collect();
        let (first, in_turn) = (turns(&urgent), turns(&due));
        let urgent = urgent.into_iter().collect();
        let waiting = Mutex::new(Waiting { first, in_turn, urgent, files });
        Ok((Self { directory, secrets, waiting, came: Notify::new() }, held))
    }

    /// The directory of the files.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// How many letters wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.lock().files
    }

    /// Keeps news until it is known whether it is true.
    /// Errors: too many wait, or the file cannot be written.
    /// Cost: blocks for two syncs.
    pub(super) fn hold(&self, id: Uuid, news: &News) -> Result<(), MailError> {
        self.take_room(news.urgency())?;
        self.write(id, MailFile::Held, news).inspect_err(|_| self.count_out())
    }

    /// News that is held.
    /// Errors: the file cannot be read, or was not written here.
    pub(super) fn read_news(&self, id: Uuid) -> Result<News, MailError> {
        self.read(id, MailFile::Held)
    }

    /// Forgets news that is held.
    pub(super) fn withdraw(&self, id: Uuid) {
        self.remove(id, MailFile::Held);
    }

    /// Keeps a letter until a server takes it; it replaces news held under its id.
    /// Errors: too many wait, or the file cannot be written.
    /// Cost: blocks for two syncs.
    pub(super) fn add_letter(
        &self,
        id: Uuid,
        urgency: Urgency,
        parcel: &Parcel,
    ) -> Result<(), MailError> {
        // The letter was already written before a crash.
        if [MailFile::Due, MailFile::First].iter().any(|kind| self.path(id, *kind).exists()) {
            return Ok(());
        }
        self.take_room(urgency)?;
        self.write(id, kind_of(urgency), parcel).inspect_err(|_| self.count_out())?;
        // The held file is removed before the letter can be sent: a letter that is sent first would
        // be written again.
        if self.path(id, MailFile::Held).exists() {
            self.remove(id, MailFile::Held);
        }
        if urgency == Urgency::First {
            self.waiting.lock().urgent.insert(id);
        }
        self.again(id, Tries::default(), Duration::ZERO);
        self.came.notify_one();
        Ok(())
    }

    /// Takes the next letter, if one is due at the instant `now`: of those that go first, where one of
    /// them is.
    pub(super) fn next(&self, now: Instant) -> Next {
        let waiting = &mut *self.waiting.lock();
        let mut next_at: Option<Instant> = None;
        for turns in [&mut waiting.first, &mut waiting.in_turn] {
            let Some(first) = turns.first_entry() else { continue };
            let (at, id) = *first.key();
            if at <= now {
                return Next::Letter(id, first.remove());
            }
            next_at = Some(next_at.map_or(at, |other| other.min(at)));
        }
        next_at.map_or(Next::Nothing, Next::Wait)
    }

    /// A letter that was taken.
    /// Errors: the file cannot be read, or was not written here.
    pub(super) fn read_letter(&self, id: Uuid) -> Result<Parcel, MailError> {
        self.read(id, self.kind_of_letter(id))
    }

    /// Puts a letter back that was taken, for later.
    pub(super) fn again(&self, id: Uuid, tries: Tries, wait: Duration) {
        self.waiting.lock().turns(id).insert((Instant::now() + wait, id), tries);
    }

    /// Forgets a letter that was taken.
    pub(super) fn finish(&self, id: Uuid) {
        self.remove(id, self.kind_of_letter(id));
        self.waiting.lock().urgent.remove(&id);
    }

    fn kind_of_letter(&self, id: Uuid) -> MailFile {
        kind_of(self.waiting.lock().urgency_of(id))
    }

    /// Counts a file that is about to be written.
    /// Errors: there are too many.
    fn take_room(&self, urgency: Urgency) -> Result<(), MailError> {
        let mut waiting = self.waiting.lock();
        let most = match urgency {
            Urgency::First => QUEUE_LETTERS_MAX,
            Urgency::InTurn => QUEUE_IN_TURN_MAX,
        };
        if waiting.files >= most {
            return Err(MailError::Full);
        }
        waiting.files += 1;
        Ok(())
    }

    fn write(&self, id: Uuid, kind: MailFile, content: &impl Serialize) -> Result<(), MailError> {
        let plain = serde_json::to_vec(content).map(Zeroizing::new);
        let plain = plain.map_err(|error| MailError::Write(error.into()))?;
        let sealed = self.secrets.seal_mail(kind, &plain, id).map_err(MailError::Seal)?;
        let unfinished = self.directory.join(format!(".{id}"));
        write_durably(&unfinished, &self.path(id, kind), &sealed)
            .inspect_err(|_| drop(fs::remove_file(&unfinished)))
            .map_err(MailError::Write)
    }

    fn read<T: DeserializeOwned>(&self, id: Uuid, kind: MailFile) -> Result<T, MailError> {
        let mut sealed = Vec::new();
        File::open(self.path(id, kind))
            .and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut sealed))
            .map_err(MailError::Read)?;
        let plain = self.secrets.open_mail(kind, &sealed, id).ok_or(MailError::Foreign)?;
        serde_json::from_slice(&plain).map_err(|_| MailError::Foreign)
    }

    fn remove(&self, id: Uuid, kind: MailFile) {
        if let Err(error) = fs::remove_file(self.path(id, kind)) {
            tracing::warn!(letter = %id, %error, "a file of the mail queue stays");
        }
        self.count_out();
    }

    fn count_out(&self) {
        let files = &mut self.waiting.lock().files;
        *files = files.saturating_sub(1);
    }

    fn path(&self, id: Uuid, kind: MailFile) -> PathBuf {
        self.directory.join(format!("{id}.{}", extension(kind)))
    }
}

const KINDS: [MailFile; 3] = [MailFile::Held, MailFile::Due, MailFile::First];

const fn extension(kind: MailFile) -> &'static str {
    match kind {
        MailFile::Held => "held",
        MailFile::Due => "due",
        MailFile::First => "first",
    }
}

const fn kind_of(urgency: Urgency) -> MailFile {
    match urgency {
        Urgency::First => MailFile::First,
        Urgency::InTurn => MailFile::Due,
    }
}

fn parse_name(path: &Path) -> Option<(Uuid, MailFile)> {
    let (stem, found) = (path.file_stem()?.to_str()?, path.extension()?.to_str()?);
    let kind = KINDS.into_iter().find(|kind| extension(*kind) == found);
    Some((stem.parse().ok()?, kind?))
}

fn is_unfinished(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let id = name.and_then(|name| name.strip_prefix('.'));
    id.is_some_and(|id| id.parse::<Uuid>().is_ok())
}

fn write_durably(unfinished: &Path, path: &Path, content: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(unfinished)?;
    file.write_all(content)?;
    file.sync_data()?;
    fs::rename(unfinished, path)?;
    path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
}

/// How long ago a letter was handed in, by its id.
pub(super) fn age(id: Uuid) -> Duration {
    let handed_in = id.get_timestamp().map_or(UNIX_EPOCH, |at| {
        let (seconds, nanos) = at.to_unix();
        UNIX_EPOCH + Duration::new(seconds, nanos)
    });
    SystemTime::now().duration_since(handed_in).unwrap_or_default()
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
