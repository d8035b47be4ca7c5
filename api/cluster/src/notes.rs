//! The notes of a leader in etcd beside the window. What is noted, and by whom, is in `notes.rs` of `dispatch`.
//!
//! Calls come from any thread, also from those of a runtime: each waits on a thread of its own.

use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use cardswitch_dispatch::notes::{Note, NoteStore, OWNER, OwnerCondition, StoredNote};
use cardswitch_engine::journal::chain::Epoch;

use crate::follow::Node;
use crate::proto::{Compare, DeleteRangeRequest, EtcdRequest, RequestOp, TxnRequest};
use crate::requests::put;
use crate::window::Keys;
use crate::{EtcdError, EtcdWindow, OpenWindowError};

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

    fn name(&self, key: &str) -> Option<String> {
        key.strip_prefix(&self.key("")).map(str::to_owned)
    }

    fn key(&self, name: &str) -> String {
        self.keys.named(&format!("note/{name}"))
    }
}

impl NoteStore for EtcdNotes {
    type Error = EtcdError;

    fn led_epoch(&mut self) -> Result<Option<Epoch>, EtcdError> {
        let window = &mut self.window;
        let tip = apart(|| window.find_tip())?;
        Ok(tip.filter(|tip| window.is_of(tip)).map(|tip| tip.position.epoch))
    }

    fn change(&mut self, condition: OwnerCondition, changes: Vec<Note>) -> Result<bool, EtcdError> {
        let key = self.key(OWNER);
        let compare = vec![match condition {
            OwnerCondition::Absent => Compare::absent(key),
            OwnerCondition::Below(owner) => Compare::below(key, owner.into()),
        }];
        let changes = changes.into_iter();
        let success = changes.map(|(name, content)| change_of(self.key(&name), content)).collect();
        let transaction = TxnRequest { compare, success };
        Ok(apart(|| self.window.client.call(&transaction))?.succeeded)
    }

    fn list(&mut self, prefix: &str) -> Result<Vec<StoredNote>, EtcdError> {
        let prefix = self.key(prefix);
        let found = apart(|| self.window.client.list(prefix))?.into_iter();
        let note = |(key, value): (String, Bytes)| Some((self.name(&key)?, value.to_vec()));
        Ok(found.filter_map(note).collect())
    }

    fn names(&mut self, prefix: &str) -> Result<Vec<String>, EtcdError> {
        let prefix = self.key(prefix);
        let found = apart(|| self.window.client.names(prefix))?;
        Ok(found.iter().filter_map(|key| self.name(key)).collect())
    }

    fn read(&mut self, name: &str) -> Result<Option<Vec<u8>>, EtcdError> {
        let key = self.key(name);
        Ok(apart(|| self.window.client.get(key))?.map(|value| value.to_vec()))
    }
}

fn apart<T: Send>(work: impl FnOnce() -> Result<T, EtcdError> + Send) -> Result<T, EtcdError> {
    let done = thread::scope(|scope| scope.spawn(work).join());
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn change_of(key: String, content: Option<Vec<u8>>) -> RequestOp {
    match content {
        Some(content) => put(key, content.into()),
        None => {
            let one = DeleteRangeRequest { key: key.into(), range_end: Bytes::new() };
            EtcdRequest::DeleteRange(one).into()
        }
    }
}
