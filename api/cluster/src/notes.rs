//! The notes of a leader in etcd beside the window. What is noted, and by whom, is in `notes.rs` of `dispatch`.

use std::sync::Arc;

use bytes::Bytes;
use cardswitch_engine::journal::chain::Epoch;

use crate::follow::Node;
use crate::proto::{Compare, DeleteRangeRequest, Request, RequestOp, TxnRequest};
use crate::window::{Keys, put};
use crate::{EtcdError, EtcdWindow, OpenWindowError};

/// The state of a note that a change requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoteCondition {
    /// It is not there.
    Absent,
    /// It is there and comes before this, byte by byte.
    Below(Bytes),
}

/// The notes in etcd, as one run of one node.
#[derive(Debug)]
pub struct EtcdNotes {
    keys: Keys,
    window: EtcdWindow,
}

impl EtcdNotes {
    /// Reaches the notes of a node's cluster.
    /// Errors: the cluster cannot be reached.
    pub fn open(node: &Node) -> Result<Self, OpenWindowError> {
        let window = EtcdWindow::reach(&node.cluster, node.writer, &Arc::default())?;
        Ok(Self { keys: Keys::of(&node.cluster), window })
    }

    /// The epoch of the chain's newest batch, if this run of the node has written it.
    pub fn led_epoch(&mut self) -> Result<Option<Epoch>, EtcdError> {
        let tip = self.window.find_tip()?;
        Ok(tip.filter(|tip| self.window.is_of(tip)).map(|tip| tip.position.epoch))
    }

    /// Makes all of these changes in one transaction if the note `name` is as the condition has it, or none.
    /// Returns whether it is. A note without content is removed.
    /// Errors: no answer; it may take effect all the same, also later.
    pub fn change(
        &mut self,
        (name, condition): (&str, NoteCondition),
        changes: Vec<(String, Option<Vec<u8>>)>,
    ) -> Result<bool, EtcdError> {
        let key = self.key(name);
        let compare = vec![match condition {
            NoteCondition::Absent => Compare::absent(key),
            NoteCondition::Below(value) => Compare::below(key, value),
        }];
        let changes = changes.into_iter();
        let success = changes.map(|(name, content)| change_of(self.key(&name), content)).collect();
        Ok(self.window.client().call(&TxnRequest { compare, success })?.succeeded)
    }

    /// All notes.
    pub fn list(&mut self) -> Result<Vec<(String, Vec<u8>)>, EtcdError> {
        let prefix = self.key("");
        let found = self.window.client().list(prefix.clone())?.into_iter();
        let note = |(key, value): (String, Bytes)| {
            Some((key.strip_prefix(&prefix)?.to_owned(), value.to_vec()))
        };
        Ok(found.filter_map(note).collect())
    }

    fn key(&self, name: &str) -> String {
        self.keys.named(&format!("note/{name}"))
    }
}

fn change_of(key: String, content: Option<Vec<u8>>) -> RequestOp {
    match content {
        Some(content) => put(key, content.into()),
        None => {
            let one = DeleteRangeRequest { key: key.into(), range_end: Bytes::new() };
            Request::DeleteRange(one).into()
        }
    }
}
