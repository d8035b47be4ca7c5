//! The notes of a leader beside the window of its cluster, with which the next leader goes on.
//!
//! | name | value |
//! |---|---|
//! | `owner` | the epoch of the leader that owns the notes, and its newest change: 20 digits each, with `/` between |
//! | `deliveries/NAME` | how far deliveries of webhooks are |
//! | `mail/NAME` | a file of mail |
//!
//! The steps are pure: a `NoteStore` compares and writes. It is etcd in a cluster, and a map in the simulator.
//!
//! INVARIANT: each change raises `owner`, so nothing comes behind a newer note: no note of a former leader, and none
//! that got no answer and arrives late.

use std::fmt::Debug;
use std::io;
use std::sync::Arc;

use cardswitch_engine::journal::chain::Epoch;
use parking_lot::Mutex;

use crate::deliveries::RemoteDeliveries;

/// The name of the note that says whose the others are.
pub const OWNER: &str = "owner";

/// A note: its name, and its content where it stays.
pub type Note = (String, Option<Vec<u8>>);
/// A note that is there: its name, and its content.
pub type StoredNote = (String, Vec<u8>);

/// What `owner` must be for a change to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnerCondition {
    /// It is not there.
    Absent,
    /// It is there and comes before this, byte by byte.
    Below(String),
}

/// A store of notes that all nodes of a cluster reach, as one run of one node.
pub trait NoteStore: Send + Debug {
    /// Why it gives no answer.
    type Error: std::error::Error;

    /// The epoch of the chain's newest batch, if this run of the node has written it.
    fn led_epoch(&mut self) -> Result<Option<Epoch>, Self::Error>;

    /// Makes all of these changes if the condition holds, or none. Returns whether it holds.
    /// Errors: no answer; it may take effect all the same, also later.
    fn change(
        &mut self,
        condition: OwnerCondition,
        changes: Vec<Note>,
    ) -> Result<bool, Self::Error>;

    /// The notes whose names begin with `prefix`.
    fn list(&mut self, prefix: &str) -> Result<Vec<StoredNote>, Self::Error>;

    /// The names of those.
    fn names(&mut self, prefix: &str) -> Result<Vec<String>, Self::Error>;

    /// The content of a note; none where there is none of that name.
    fn read(&mut self, name: &str) -> Result<Option<Vec<u8>>, Self::Error>;
}

/// The bounds of one change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoteBounds {
    /// Notes.
    pub changes_max: usize,
    /// Units: bytes.
    pub bytes_max: usize,
}

impl NoteBounds {
    /// Those of etcd, which takes 128 notes and 1.5 MiB.
    pub const ETCD: Self = Self { changes_max: 100, bytes_max: 1 << 20 };
}

/// Why notes are not read or written.
#[derive(Debug, thiserror::Error)]
pub enum NotesError<E: std::error::Error> {
    /// The store.
    #[error(transparent)]
    Store(#[from] E),
    /// Another node leads.
    #[error("another node leads: its notes stay")]
    Fenced,
    /// The files that become notes.
    #[error(transparent)]
    Files(io::Error),
}

/// The notes of the node that leads.
#[derive(Debug)]
pub struct LeaderNotes<S> {
    bounds: NoteBounds,
    /// One after the other: later notes come later.
    held: Mutex<OwnedNotes<S>>,
}

#[derive(Debug)]
struct OwnedNotes<S> {
    store: S,
    /// None before the notes are taken over.
    epoch: Option<Epoch>,
    /// Changes that were sent to the store.
    sent: u64,
}

impl<S: NoteStore> LeaderNotes<S> {
    /// The notes in `store` of a node that has taken over.
    pub const fn new(store: S, bounds: NoteBounds) -> Self {
        Self { bounds, held: Mutex::new(OwnedNotes { store, epoch: None, sent: 0 }) }
    }

    /// Makes the notes this node's, those of the node that led before among them.
    /// Errors: another node leads.
    pub fn take_over(&self) -> Result<(), NotesError<S::Error>> {
        let mut held = self.held.lock();
        let epoch = held.store.led_epoch()?.ok_or(NotesError::Fenced)?;
        held.own(epoch)
    }

    /// The notes whose names begin with `prefix`, by the rest of their names.
    pub fn list(&self, prefix: &str) -> Result<Vec<StoredNote>, NotesError<S::Error>> {
        let found = self.held.lock().store.list(prefix)?.into_iter();
        Ok(found.filter_map(|(name, value)| Some((rest_of(&name, prefix)?, value))).collect())
    }

    /// The rest of the names that begin with `prefix`.
    pub fn names(&self, prefix: &str) -> Result<Vec<String>, NotesError<S::Error>> {
        let found = self.held.lock().store.names(prefix)?.into_iter();
        Ok(found.filter_map(|name| rest_of(&name, prefix)).collect())
    }

    /// The content of a note; none where there is none of that name.
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>, NotesError<S::Error>> {
        Ok(self.held.lock().store.read(name)?)
    }

    /// Writes notes, in this order where they are too many for one change.
    /// Errors: another node leads; the store does not answer, and some may be written.
    pub fn write(&self, notes: Vec<Note>) -> Result<(), NotesError<S::Error>> {
        let mut held = self.held.lock();
        let mut changes: Vec<Note> = Vec::new();
        let mut bytes = 0;
        for note in notes {
            let note_bytes = note.1.as_ref().map_or(0, Vec::len);
            bytes += note_bytes;
            let has_bytes = bytes > self.bounds.bytes_max && !changes.is_empty();
            if changes.len() >= self.bounds.changes_max || has_bytes {
                held.commit(std::mem::take(&mut changes))?;
                bytes = note_bytes;
            }
            changes.push(note);
        }
        if changes.is_empty() { Ok(()) } else { held.commit(changes) }
    }
}

impl<S: NoteStore> OwnedNotes<S> {
    /// Makes the notes those of the leader of an epoch, unless they are a later one's.
    fn own(&mut self, epoch: Epoch) -> Result<(), NotesError<S::Error>> {
        let owner = self.next_owner(epoch);
        let is_taken = self.store.change(OwnerCondition::Absent, vec![owner_note(&owner)])?
            || self.store.change(OwnerCondition::Below(owner.clone()), vec![owner_note(&owner)])?;
        self.epoch = Some(epoch).filter(|_| is_taken);
        if is_taken { Ok(()) } else { Err(NotesError::Fenced) }
    }

    /// Writes changes behind all that were sent before, also those that got no answer.
    fn commit(&mut self, mut changes: Vec<Note>) -> Result<(), NotesError<S::Error>> {
        let owner = self.next_owner(self.epoch.ok_or(NotesError::Fenced)?);
        changes.push(owner_note(&owner));
        let is_made = self.store.change(OwnerCondition::Below(owner), changes)?;
        if is_made { Ok(()) } else { Err(NotesError::Fenced) }
    }

    /// An owner that no change has had.
    fn next_owner(&mut self, epoch: Epoch) -> String {
        self.sent += 1;
        format!("{:020}/{:020}", epoch.0, self.sent)
    }
}

fn owner_note(owner: &str) -> Note {
    (OWNER.to_owned(), Some(owner.as_bytes().to_vec()))
}

fn rest_of(name: &str, prefix: &str) -> Option<String> {
    name.strip_prefix(prefix).map(str::to_owned)
}

/// How far deliveries are, among the notes of a leader.
#[derive(Debug)]
pub struct NotedDeliveries<S>(pub Arc<LeaderNotes<S>>);

const DELIVERIES: &str = "deliveries/";

impl<S: NoteStore> RemoteDeliveries for NotedDeliveries<S> {
    fn take_over(&self) -> Result<Vec<StoredNote>, String> {
        let notes = self.0.take_over().and_then(|()| self.0.list(DELIVERIES));
        notes.map_err(|error| error.to_string())
    }

    fn write(&self, values: Vec<Note>) -> Result<(), String> {
        let values = values.into_iter();
        let notes = values.map(|(name, value)| (format!("{DELIVERIES}{name}"), value)).collect();
        self.0.write(notes).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
#[path = "notes_tests.rs"]
mod tests;
