//! The notes of a leader in etcd beside the window. What is noted, and by whom, is in `notes.rs` of `dispatch`.

use std::sync::Arc;

use bytes::Bytes;
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

    /// The epoch of the chain's newest batch, if this run of the node has written it.
    pub fn led_epoch(&mut self) -> Result<Option<Epoch>, EtcdError> {
        let tip = self.window.find_tip()?;
        Ok(tip.filter(|tip| self.window.is_of(tip)).map(|tip| tip.position.epoch))
    }

    /// Makes all of these changes in one transaction if the note `name` comes before `bound`, byte by byte, or is
    /// absent where there is no bound; else none. Returns whether it does. A note without content is removed.
    /// Errors: no answer; it may take effect all the same, also later.
    pub fn change(
        &mut self,
        (name, bound): (&str, Option<String>),
        changes: Vec<(String, Option<Vec<u8>>)>,
    ) -> Result<bool, EtcdError> {
        let key = self.key(name);
        let compare = vec![match bound {
            None => Compare::absent(key),
            Some(bound) => Compare::below(key, bound.into()),
        }];
        let changes = changes.into_iter();
        let success = changes.map(|(name, content)| change_of(self.key(&name), content)).collect();
        Ok(self.window.client.call(&TxnRequest { compare, success })?.succeeded)
    }

    /// The notes whose names begin with `prefix`.
    pub fn list(&mut self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, EtcdError> {
        let prefix = self.key(prefix);
        let found = self.window.client.list(prefix)?.into_iter();
        let note = |(key, value): (String, Bytes)| Some((self.name(&key)?, value.to_vec()));
        Ok(found.filter_map(note).collect())
    }

    /// The names of those.
    pub fn names(&mut self, prefix: &str) -> Result<Vec<String>, EtcdError> {
        let prefix = self.key(prefix);
        let found = self.window.client.names(prefix)?;
        Ok(found.iter().filter_map(|key| self.name(key)).collect())
    }

    /// The content of a note; none where there is none of that name.
    pub fn read(&mut self, name: &str) -> Result<Option<Vec<u8>>, EtcdError> {
        let key = self.key(name);
        Ok(self.window.client.get(key)?.map(|value| value.to_vec()))
    }

    fn name(&self, key: &str) -> Option<String> {
        key.strip_prefix(&self.key("")).map(str::to_owned)
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
            EtcdRequest::DeleteRange(one).into()
        }
    }
}
