//! The notes of a leader in etcd beside the window, with which the next leader goes on.
//!
//! | key, behind `note/` | value |
//! |---|---|
//! | `owner` | the epoch of the leader that owns the notes, 20 digits |
//! | others | the leader's notes |
//!
//! INVARIANT: each write compares `owner`, so a former leader changes nothing that a later one noted.

use std::fmt::Display;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::follow::Node;
use crate::proto::{Compare, DeleteRangeRequest, Request, RequestOp, TxnRequest};
use crate::window::{Keys, put};
use crate::{EtcdError, EtcdWindow, OpenWindowError};

/// Changes of one transaction: etcd takes 128, and 1.5 MiB.
const CHANGES_MAX: usize = 100;
const CHANGES_BYTES: usize = 1 << 20;
const OWNER: &str = "owner";

/// A note: its name, and its content where it stays.
pub type Note = (String, Option<Vec<u8>>);

/// Why notes are not read or written.
#[derive(Debug, thiserror::Error)]
pub enum NotesError {
    /// The cluster.
    #[error(transparent)]
    Cluster(#[from] OpenWindowError),
    /// Another node leads.
    #[error("another node leads: its notes stay")]
    Fenced,
}

impl From<EtcdError> for NotesError {
    fn from(error: EtcdError) -> Self {
        Self::Cluster(error.into())
    }
}

/// The notes of the node that leads.
#[derive(Debug)]
pub struct LeaderNotes {
    keys: Keys,
    /// One after the other: later notes come later.
    window: Mutex<EtcdWindow>,
    owner: Mutex<Bytes>,
}

impl LeaderNotes {
    /// The notes of a node that has taken over.
    /// Errors: the cluster cannot be reached.
    pub fn open(node: &Node) -> Result<Self, OpenWindowError> {
        let window = EtcdWindow::reach(&node.cluster, node.writer, &Arc::default())?;
        let keys = Keys::of(&node.cluster);
        Ok(Self { keys, window: Mutex::new(window), owner: Mutex::default() })
    }

    /// Makes the notes this node's and returns those of the node that led before.
    /// Errors: another node leads.
    pub fn take_over(&self) -> Result<Vec<(String, Vec<u8>)>, NotesError> {
        let mut window = self.window.lock();
        let tip = window.find_tip()?.ok_or(NotesError::Fenced)?;
        if !window.is_of(&tip) {
            return Err(NotesError::Fenced);
        }
        let owner = Bytes::from(format!("{:020}", tip.position.epoch.0));
        let key = self.key(OWNER);
        let is_taken = [Compare::absent(key.clone()), Compare::below(key.clone(), owner.clone())]
            .into_iter()
            .try_fold(false, |is_taken, compare| {
                let success = vec![put(key.clone(), owner.clone())];
                let request = TxnRequest { compare: vec![compare], success };
                Ok::<_, EtcdError>(is_taken || window.client().call(&request)?.succeeded)
            })?;
        // After a lost answer the value is the one to be written.
        if !is_taken && window.client().get(key)?.as_ref() != Some(&owner) {
            return Err(NotesError::Fenced);
        }
        *self.owner.lock() = owner;
        let notes = window.client().list(self.key(""))?.into_iter().filter_map(|(key, value)| {
            let name = key.strip_prefix(&self.key(""))?;
            (name != OWNER).then(|| (name.to_owned(), value.to_vec()))
        });
        Ok(notes.collect())
    }

    /// Writes notes, in this order where they are too many for one transaction.
    /// Errors: another node leads; etcd does not answer, and some may be written.
    pub fn write(&self, notes: Vec<Note>) -> Result<(), NotesError> {
        let mut window = self.window.lock();
        let mut changes: Vec<RequestOp> = Vec::new();
        let mut bytes = 0;
        for (name, content) in notes {
            bytes += content.as_ref().map_or(0, Vec::len);
            if changes.len() >= CHANGES_MAX || (bytes > CHANGES_BYTES && !changes.is_empty()) {
                self.commit(&mut window, std::mem::take(&mut changes))?;
                bytes = content.as_ref().map_or(0, Vec::len);
            }
            let key = self.key(&name);
            changes.push(match content {
                Some(content) => put(key, content.into()),
                None => {
                    let one = DeleteRangeRequest { key: key.into(), range_end: Bytes::new() };
                    Request::DeleteRange(one).into()
                }
            });
        }
        if changes.is_empty() { Ok(()) } else { self.commit(&mut window, changes) }
    }

    fn commit(&self, window: &mut EtcdWindow, success: Vec<RequestOp>) -> Result<(), NotesError> {
        let owner = self.owner.lock().clone();
        let compare = vec![Compare::value(self.key(OWNER), owner)];
        let written = window.client().call(&TxnRequest { compare, success })?;
        if written.succeeded { Ok(()) } else { Err(NotesError::Fenced) }
    }

    fn key(&self, name: impl Display) -> String {
        self.keys.named(&format!("note/{name}"))
    }
}
