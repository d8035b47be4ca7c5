//! Mail of a cluster: its files are notes of the node that leads, `mail/NAME`, so that the next leader sends what
//! waits, and tells of the declines that are left.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::queue::is_of_mail;
use super::store::MailStore;
use crate::notes::{LeaderNotes, NoteStore, NotesError};

const PREFIX: &str = "mail/";
/// Files of a directory that are moved at once.
const MOVED_TOGETHER: usize = 100;
/// How often the notes are asked where they do not answer, and how long before the next time.
const TRIES_MAX: u32 = 20;
const TRY_WAIT: Duration = Duration::from_millis(250);

/// Mail among the notes of a leader.
#[derive(Debug)]
pub struct NotedMail<S> {
    notes: Arc<LeaderNotes<S>>,
    /// The files that are known to be there.
    names: Mutex<BTreeSet<String>>,
    /// Lets time pass before the notes are asked again.
    pause: fn(Duration),
}

impl<S: NoteStore> NotedMail<S> {
    /// The mail of a node that has taken over. The files of `directory` are moved there: mail of this machine from
    /// before it was a node. `pause` lets time pass before the notes are asked again.
    /// Errors: another node leads; the notes or the directory cannot be read or written.
    pub fn take_over(
        notes: Arc<LeaderNotes<S>>,
        directory: &dyn MailStore,
        pause: fn(Duration),
    ) -> Result<Self, NotesError<S::Error>> {
        notes.take_over()?;
        let names = Mutex::new(notes.names(PREFIX)?.into_iter().collect());
        let mail = Self { notes, names, pause };
        let names = directory.names().map_err(NotesError::Files)?;
        let own: Vec<_> = names.into_iter().filter(|name| is_of_mail(name)).collect();
        for names in own.chunks(MOVED_TOGETHER) {
            mail.take_in(directory, names)?;
        }
        Ok(mail)
    }

    /// Moves files. Beside a note of its name, a file is older.
    fn take_in(
        &self,
        directory: &dyn MailStore,
        names: &[String],
    ) -> Result<(), NotesError<S::Error>> {
        let mut notes = Vec::new();
        for name in names.iter().filter(|name| !self.names.lock().contains(*name)) {
            let bytes = directory.read(name).map_err(NotesError::Files)?;
            notes.extend(bytes.map(|bytes| (note_of(name), Some(bytes))));
        }
        self.notes.write(notes)?;
        self.names.lock().extend(names.iter().cloned());
        for name in names {
            directory.remove(name).map_err(NotesError::Files)?;
        }
        Ok(())
    }

    /// Asks again for a while where the notes do not answer: a request is repeated as a newer change.
    fn patiently<T>(
        &self,
        ask: impl Fn(&LeaderNotes<S>) -> Result<T, NotesError<S::Error>>,
    ) -> io::Result<T> {
        let mut asked = 0;
        loop {
            asked += 1;
            match ask(&self.notes) {
                Err(NotesError::Store(_)) if asked < TRIES_MAX => (self.pause)(TRY_WAIT),
                answered => return answered.map_err(|error| io::Error::other(error.to_string())),
            }
        }
    }
}

fn note_of(name: &str) -> String {
    format!("{PREFIX}{name}")
}

impl<S: NoteStore> MailStore for NotedMail<S> {
    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.names.lock().iter().cloned().collect())
    }

    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        self.patiently(|notes| notes.read(&note_of(name)))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.patiently(|notes| notes.write(vec![(note_of(name), Some(bytes.to_vec()))]))?;
        self.names.lock().insert(name.to_owned());
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<bool> {
        if !self.names.lock().contains(name) {
            return Ok(false);
        }
        self.patiently(|notes| notes.write(vec![(note_of(name), None)]))?;
        Ok(self.names.lock().remove(name))
    }
}
