//! Mail of a cluster: its files are notes of the node that leads, `mail/NAME`, so that the next leader sends what
//! waits, and tells of the declines that are left.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use super::store::MailStore;
use crate::notes::{LeaderNotes, NoteStore, NotesError};

const PREFIX: &str = "mail/";

/// Mail among the notes of a leader.
#[derive(Debug)]
pub struct NotedMail<S> {
    notes: Arc<LeaderNotes<S>>,
    /// The files that are known to be there.
    names: Mutex<BTreeSet<String>>,
}

impl<S: NoteStore> NotedMail<S> {
    /// The mail of a node that has taken over. The files of `directory` are moved there: mail of this machine from
    /// before it was a node.
    /// Errors: another node leads; the notes or the directory cannot be read or written.
    pub fn take_over(
        notes: Arc<LeaderNotes<S>>,
        directory: &dyn MailStore,
    ) -> Result<Self, NotesError<S::Error>> {
        notes.take_over()?;
        let names = Mutex::new(notes.names(PREFIX)?.into_iter().collect());
        let mail = Self { notes, names };
        for name in directory.names().map_err(NotesError::Files)? {
            // Beside a note of that name, the file is older.
            let is_known = mail.names.lock().contains(&name);
            let bytes = directory.read(&name).map_err(NotesError::Files)?;
            if let Some(bytes) = bytes.filter(|_| !is_known) {
                mail.keep(&name, bytes)?;
            }
            directory.remove(&name).map_err(NotesError::Files)?;
        }
        Ok(mail)
    }

    fn keep(&self, name: &str, bytes: Vec<u8>) -> Result<(), NotesError<S::Error>> {
        self.notes.write(vec![(note_of(name), Some(bytes))])?;
        self.names.lock().insert(name.to_owned());
        Ok(())
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
        self.notes.read(&note_of(name)).map_err(failure)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.keep(name, bytes.to_vec()).map_err(failure)
    }

    fn remove(&self, name: &str) -> io::Result<bool> {
        if !self.names.lock().contains(name) {
            return Ok(false);
        }
        self.notes.write(vec![(note_of(name), None)]).map_err(failure)?;
        Ok(self.names.lock().remove(name))
    }
}

fn failure<E: std::error::Error>(error: NotesError<E>) -> io::Error {
    io::Error::other(error.to_string())
}
