//! The files of letters that wait, in a directory of their own:
//!
//! | name | content |
//! |---|---|
//! | `<id>.held` | news of a change under way, until its outcome is known |
//! | `<id>.due` | a letter, until a server has taken it |
//! | `<id>.first` | the same of one that goes before those |
//! | `.<name>.part` | a file that is being written |
//!
//! Their bytes are the caller's, who seals them. A file never changes: a restart forgets how often a
//! letter was tried, and the id tells when it was handed in.
//!
//! INVARIANT: a file is durable, itself and its entry in the directory, before a caller learns that
//! it waits. An id has a held file or a letter; if a crash left both, the letter counts.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use cardswitch_engine::disk::Disk;
use parking_lot::Mutex;
use uuid::Uuid;

use super::limits::{FILE_BYTES_MAX, QUEUE_IN_TURN_MAX, QUEUE_LETTERS_MAX};

/// The order in which a letter goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Before all others: somebody waits for it.
    First,
    /// Behind those.
    InTurn,
}

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailFileKind {
    /// News of a change under way.
    Held,
    /// A letter.
    Letter(Urgency),
}

/// How often a letter was tried in vain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tries {
    /// All of them.
    pub all: u32,
    /// The refusals that a server called final.
    pub refusals: u32,
}

/// The next letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextLetter {
    /// This letter is due, and has been tried so often.
    Due(Uuid, Tries),
    /// The next one is due then.
    At(Duration),
    /// None waits.
    None,
}

/// Why a file of the queue was not written or read.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// It cannot be written.
    #[error("a file of mail cannot be written: {0}")]
    Write(io::Error),
    /// It cannot be read.
    #[error("a file of mail cannot be read: {0}")]
    Read(io::Error),
    /// It was not written here: no key opens it, or it is too long.
    #[error("a file of mail was not written here")]
    Foreign,
    /// Too many letters wait.
    #[error("too many emails wait")]
    Full,
}

/// Letters that wait.
#[derive(Debug)]
pub struct MailQueue {
    disk: Arc<dyn Disk>,
    waiting: Mutex<WaitingLetters>,
}

#[derive(Debug, Default)]
struct WaitingLetters {
    /// Letters that go first.
    first: Turns,
    /// The other letters.
    in_turn: Turns,
    /// The order of each letter that was written, also while it is on its way. A file alone proves
    /// nothing: its entry in the directory may not be durable.
    urgencies: BTreeMap<Uuid, Urgency>,
    /// How many files there are, held ones and the one on its way among them.
    files: usize,
}

/// Letters by when they are due.
type Turns = BTreeMap<(Duration, Uuid), Tries>;

impl WaitingLetters {
    fn urgency_of(&self, id: Uuid) -> Urgency {
        self.urgencies.get(&id).copied().unwrap_or(Urgency::InTurn)
    }

    fn turns(&mut self, id: Uuid) -> &mut Turns {
        match self.urgency_of(id) {
            Urgency::First => &mut self.first,
            Urgency::InTurn => &mut self.in_turn,
        }
    }
}

impl MailQueue {
    /// Opens the queue in a directory; all letters in it are due at `now`. Returns it with the ids of
    /// news held before, the oldest first.
    /// Errors: the directory cannot be read or tidied.
    /// Cost: O(letters), without reading any.
    pub fn open(disk: Arc<dyn Disk>, now: Duration) -> io::Result<(Self, Vec<Uuid>)> {
        let [mut held, mut in_turn, mut first] = [Vec::new(), Vec::new(), Vec::new()];
        for name in disk.names()? {
            match parse_name(&name) {
                Some((id, MailFileKind::Held)) => held.push(id),
                Some((id, MailFileKind::Letter(Urgency::InTurn))) => in_turn.push(id),
                Some((id, MailFileKind::Letter(Urgency::First))) => first.push(id),
                // A file that a crash cut short, of a letter or beside them; no caller learned of it.
                None if is_unfinished(&name) => disk.remove(&name)?,
                None => {}
            }
        }
        held.sort_unstable();
        let letters = [(&in_turn, Urgency::InTurn), (&first, Urgency::First)].into_iter();
        let urgencies: BTreeMap<_, _> =
            letters.flat_map(|(ids, urgency)| ids.iter().map(move |id| (*id, urgency))).collect();
        for id in held.extract_if(.., |id| urgencies.contains_key(id)) {
            // A held file left here would bring the letter again once that is gone.
            disk.remove(&name_of(id, MailFileKind::Held))?;
        }
        let files = held.len() + urgencies.len();
        let turns = |ids: &[Uuid]| ids.iter().map(|id| ((now, *id), Tries::default())).collect();
        let (first, in_turn) = (turns(&first), turns(&in_turn));
        let waiting = WaitingLetters { first, in_turn, urgencies, files };
        Ok((Self { disk, waiting: Mutex::new(waiting) }, held))
    }

    /// The directory of the files.
    #[must_use]
    pub const fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// How many letters wait, and news for the outcome of its change.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.lock().files
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keeps news until it is known whether it is true. `urgency` is that of its letter.
    /// Errors: too many wait, or the file cannot be written.
    /// Cost: blocks for two syncs.
    pub fn hold(&self, id: Uuid, urgency: Urgency, news: &[u8]) -> Result<(), QueueError> {
        self.take_room(urgency)?;
        self.write(id, MailFileKind::Held, news).inspect_err(|_| self.count_out())
    }

    /// News that is held.
    /// Errors: the file cannot be read, or was not written here.
    pub fn read_news(&self, id: Uuid) -> Result<Vec<u8>, QueueError> {
        self.read(id, MailFileKind::Held)
    }

    /// Forgets news that is held.
    pub fn withdraw(&self, id: Uuid) {
        self.remove(id, MailFileKind::Held);
    }

    /// Keeps a letter, due at `now`, until a server takes it; it replaces news held under its id.
    /// Errors: too many wait, or the file cannot be written.
    /// Cost: blocks for two syncs.
    pub fn add_letter(
        &self,
        id: Uuid,
        urgency: Urgency,
        letter: &[u8],
        now: Duration,
    ) -> Result<(), QueueError> {
        // The letter was already written, perhaps before a crash.
        if self.waiting.lock().urgencies.contains_key(&id) {
            return Ok(());
        }
        self.take_room(urgency)?;
        self.write(id, MailFileKind::Letter(urgency), letter).inspect_err(|_| self.count_out())?;
        // The held file is removed before the letter can be sent: a letter that is sent first would
        // be written again.
        if self.has(id, MailFileKind::Held) {
            self.remove(id, MailFileKind::Held);
        }
        self.waiting.lock().urgencies.insert(id, urgency);
        self.put_back(id, Tries::default(), now);
        Ok(())
    }

    /// Takes the next letter, if one is due at `now`: of those that go first, where one of them is.
    pub fn next(&self, now: Duration) -> NextLetter {
        let waiting = &mut *self.waiting.lock();
        let mut next_at: Option<Duration> = None;
        for turns in [&mut waiting.first, &mut waiting.in_turn] {
            let Some(first) = turns.first_entry() else { continue };
            let (at, id) = *first.key();
            if at <= now {
                return NextLetter::Due(id, first.remove());
            }
            next_at = Some(next_at.map_or(at, |other| other.min(at)));
        }
        next_at.map_or(NextLetter::None, NextLetter::At)
    }

    /// A letter that was taken, with its order.
    /// Errors: the file cannot be read, or was not written here.
    pub fn read_letter(&self, id: Uuid) -> Result<(Urgency, Vec<u8>), QueueError> {
        let urgency = self.waiting.lock().urgency_of(id);
        Ok((urgency, self.read(id, MailFileKind::Letter(urgency))?))
    }

    /// Puts a letter back that was taken; it is due again at `at`.
    pub fn put_back(&self, id: Uuid, tries: Tries, at: Duration) {
        self.waiting.lock().turns(id).insert((at, id), tries);
    }

    /// Forgets a letter that was taken.
    pub fn finish(&self, id: Uuid) {
        let urgency = self.waiting.lock().urgency_of(id);
        self.remove(id, MailFileKind::Letter(urgency));
        self.waiting.lock().urgencies.remove(&id);
    }

    /// Counts a file that is about to be written.
    /// Errors: there are too many.
    fn take_room(&self, urgency: Urgency) -> Result<(), QueueError> {
        let mut waiting = self.waiting.lock();
        let most = match urgency {
            Urgency::First => QUEUE_LETTERS_MAX,
            Urgency::InTurn => QUEUE_IN_TURN_MAX,
        };
        if waiting.files >= most {
            return Err(QueueError::Full);
        }
        waiting.files += 1;
        Ok(())
    }

    fn write(&self, id: Uuid, kind: MailFileKind, bytes: &[u8]) -> Result<(), QueueError> {
        write_whole(&*self.disk, &name_of(id, kind), bytes).map_err(QueueError::Write)
    }

    fn read(&self, id: Uuid, kind: MailFileKind) -> Result<Vec<u8>, QueueError> {
        let file = self.disk.open(&name_of(id, kind)).map_err(QueueError::Read)?;
        let len = file.len().map_err(QueueError::Read)?;
        if len > FILE_BYTES_MAX {
            return Err(QueueError::Foreign);
        }
        let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
        file.read(0, &mut bytes).map_err(QueueError::Read)?;
        Ok(bytes)
    }

    fn has(&self, id: Uuid, kind: MailFileKind) -> bool {
        self.disk.open(&name_of(id, kind)).is_ok()
    }

    fn remove(&self, id: Uuid, kind: MailFileKind) {
        if let Err(error) = self.disk.remove(&name_of(id, kind)) {
            tracing::warn!(letter = %id, %error, "a file of the mail queue stays");
        }
        self.count_out();
    }

    fn count_out(&self) {
        let files = &mut self.waiting.lock().files;
        *files = files.saturating_sub(1);
    }
}

/// Writes a file whole and durable, under another name until then. A file of its name is replaced,
/// and an unfinished one that a crash left.
/// Errors: the file is not there, or as it was, or whole and perhaps not durable.
pub fn write_whole(disk: &dyn Disk, name: &str, bytes: &[u8]) -> io::Result<()> {
    let unfinished = &unfinished_name(name);
    let write = || {
        match disk.remove(unfinished) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = disk.create(unfinished)?;
        file.write(0, bytes)?;
        file.sync()?;
        disk.rename(unfinished, name)
    };
    write().inspect_err(|_| drop(disk.remove(unfinished)))?;
    disk.sync_names()
}

const KINDS: [MailFileKind; 3] = [
    MailFileKind::Held,
    MailFileKind::Letter(Urgency::InTurn),
    MailFileKind::Letter(Urgency::First),
];

const fn extension(kind: MailFileKind) -> &'static str {
    match kind {
        MailFileKind::Held => "held",
        MailFileKind::Letter(Urgency::InTurn) => "due",
        MailFileKind::Letter(Urgency::First) => "first",
    }
}

fn name_of(id: Uuid, kind: MailFileKind) -> String {
    format!("{id}.{}", extension(kind))
}

fn unfinished_name(name: &str) -> String {
    format!(".{name}.part")
}

fn parse_name(name: &str) -> Option<(Uuid, MailFileKind)> {
    let (id, found) = name.split_once('.')?;
    let kind = KINDS.into_iter().find(|kind| extension(*kind) == found);
    Some((id.parse().ok()?, kind?))
}

fn is_unfinished(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(".part")
}

/// How long ago a letter was handed in, by its id, which has the time in it. `now` is the time since
/// 1970.
#[must_use]
pub fn age(id: Uuid, now: Duration) -> Duration {
    let handed_in = id.get_timestamp().map_or(Duration::ZERO, |at| {
        let (seconds, nanos) = at.to_unix();
        Duration::new(seconds, nanos)
    });
    now.saturating_sub(handed_in)
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
