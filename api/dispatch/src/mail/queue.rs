//! The files of letters that wait:
//!
//! | name | content |
//! |---|---|
//! | `<id>.held` | news of a change under way, until its outcome is known |
//! | `<id>.due` | a letter, until a server has taken it |
//! | `<id>.first` | the same of one that goes before those |
//!
//! Their bytes are the caller's, who seals them. A file never changes: a restart forgets how often a
//! letter was tried, and the id tells when it was handed in.
//!
//! INVARIANT: a file is durable before a caller learns that it waits. An id has a held file or a letter;
//! if a crash left both, the letter counts.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use uuid::Uuid;

use super::limits::{QUEUE_IN_TURN_MAX, QUEUE_LETTERS_MAX};
use super::store::MailStore;

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
    /// The files.
    pub store: Arc<dyn MailStore>,
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
    /// Opens the queue in a store; all letters in it are due at `now`. Returns it with the ids of
    /// news held before, the oldest first.
    /// Errors: the store cannot be read or tidied.
    /// Cost: O(letters), without reading any.
    pub fn open(store: Arc<dyn MailStore>, now: Duration) -> io::Result<(Self, Vec<Uuid>)> {
        let [mut held, mut in_turn, mut first] = [Vec::new(), Vec::new(), Vec::new()];
        for name in store.names()? {
            match parse_name(&name) {
                Some((id, MailFileKind::Held)) => held.push(id),
                Some((id, MailFileKind::Letter(Urgency::InTurn))) => in_turn.push(id),
                Some((id, MailFileKind::Letter(Urgency::First))) => first.push(id),
                None => {}
            }
        }
        held.sort_unstable();
        let letters = [(&in_turn, Urgency::InTurn), (&first, Urgency::First)].into_iter();
        let urgencies: BTreeMap<_, _> =
            letters.flat_map(|(ids, urgency)| ids.iter().map(move |id| (*id, urgency))).collect();
        for id in held.extract_if(.., |id| urgencies.contains_key(id)) {
            // A held file left here would bring the letter again once that is gone.
            store.remove(&name_of(id, MailFileKind::Held))?;
        }
        let files = held.len() + urgencies.len();
        let turns = |ids: &[Uuid]| ids.iter().map(|id| ((now, *id), Tries::default())).collect();
        let (first, in_turn) = (turns(&first), turns(&in_turn));
        let waiting = WaitingLetters { first, in_turn, urgencies, files };
        Ok((Self { store, waiting: Mutex::new(waiting) }, held))
    }

    /// How many letters wait, and news for the outcome of its change.
    pub fn len(&self) -> usize {
        self.waiting.lock().files
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keeps news until it is known whether it is true. `urgency` is that of its letter.
    /// Errors: too many wait, or the file cannot be written.
    /// Cost: blocks for one write of the store.
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
    /// Cost: blocks for one write of the store.
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
        self.remove(id, MailFileKind::Held);
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
        self.store.write(&name_of(id, kind), bytes).map_err(QueueError::Write)
    }

    fn read(&self, id: Uuid, kind: MailFileKind) -> Result<Vec<u8>, QueueError> {
        match self.store.read(&name_of(id, kind)) {
            Ok(bytes) => bytes.ok_or_else(|| QueueError::Read(io::ErrorKind::NotFound.into())),
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Err(QueueError::Foreign),
            Err(error) => Err(QueueError::Read(error)),
        }
    }

    /// Removes a file, if it is there.
    fn remove(&self, id: Uuid, kind: MailFileKind) {
        let removed = self.store.remove(&name_of(id, kind)).inspect_err(|error| {
            tracing::warn!(letter = %id, %error, "a file of the mail queue stays");
        });
        if removed.unwrap_or(true) {
            self.count_out();
        }
    }

    fn count_out(&self) {
        let files = &mut self.waiting.lock().files;
        *files = files.saturating_sub(1);
    }
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

/// Whether a file is one of mail: a letter, news, or the place of the last decline.
pub(super) fn is_of_mail(name: &str) -> bool {
    name == super::cursor::NAME || parse_name(name).is_some()
}

fn parse_name(name: &str) -> Option<(Uuid, MailFileKind)> {
    let (id, found) = name.split_once('.')?;
    let kind = KINDS.into_iter().find(|kind| extension(*kind) == found);
    Some((id.parse().ok()?, kind?))
}

/// How long ago a letter was handed in, by its id, which has the time in it. `now` is the time since
/// 1970.
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
