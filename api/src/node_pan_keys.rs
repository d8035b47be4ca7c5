//! Keys of card numbers in a cluster: the leader gives its own to all others, which take them under
//! conditions.
//!
//! `PUT /pan-keys/EPOCH` has the file of keys as its body, in which they are wrapped. A rotation and a forgetting
//! wait until every node that etcd names has taken them. Each node that is present is given them once a second
//! besides: so it gets the keys that it lacks, and loses those that were not put to use.
//!
//! INVARIANT: a node takes keys only from the leader of the newest epoch that it has seen, and none without a
//! generation that its tables need.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use cardswitch_cluster::{ClusterView, Node, NodeRecord, NodeStatus};
use cardswitch_engine::store::{Store, StoreError};
use cardswitch_secrets::{PanKeys, PanKeysError, Secrets};
use parking_lot::Mutex;

use crate::node_call::{NodeCall, NodeCallError};
use crate::node_peers::is_away;

/// The path before the epoch.
pub const PAN_KEYS_PATH: &str = "/pan-keys/";
/// How often and how long a node is waited for that cannot take keys yet.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
const TRIES_MAX: usize = 50;
/// The longest answer. Units: bytes.
const ANSWER_BYTES_MAX: usize = 4_096;

/// Why a node that follows does not take keys.
#[derive(Debug, thiserror::Error)]
pub enum TakingError {
    /// They are those of a leader of another epoch, or this node follows no leader now.
    #[error("the node does not follow a leader of that epoch now")]
    NotFollowing,
    /// They lack a generation that is needed here.
    #[error("the tables of the node need a key that is not among these")]
    Needed,
    /// They are damaged, or cannot be written.
    #[error(transparent)]
    Keys(PanKeysError),
    /// The tables cannot be read.
    #[error("the tables: {0}")]
    Tables(#[from] StoreError),
}

impl TakingError {
    /// Whether the node may take them in a moment.
    pub const fn passes(&self) -> bool {
        matches!(self, Self::NotFollowing | Self::Needed)
    }
}

/// The keys of a node that follows.
#[derive(Debug)]
pub struct FollowerPanKeys {
    secrets: Secrets,
    data: PathBuf,
    status: Arc<NodeStatus>,
    /// Its tables for as long as it follows; held while keys are taken.
    tables: Mutex<Option<Arc<Store>>>,
}

impl FollowerPanKeys {
    /// The keys of a following node with this directory, these tables and secrets.
    pub fn new(
        (data, secrets): (PathBuf, Secrets),
        tables: Arc<Store>,
        status: Arc<NodeStatus>,
    ) -> Self {
        Self { secrets, data, status, tables: Mutex::new(Some(tables)) }
    }

    /// Takes a file of keys for its own, durably. Blocks.
    /// Errors: it is not that of the present leader, or lacks a key needed here.
    /// Cost: O(cards) where the keys change.
    pub fn take(&self, epoch: u64, text: &[u8]) -> Result<(), TakingError> {
        let tables = self.tables.lock();
        let tables = tables.as_ref().filter(|_| epoch == self.status.epoch());
        let tables = tables.ok_or(TakingError::NotFollowing)?;
        let path = PanKeys::path(&self.data);
        let text = String::from_utf8_lossy(text);
        let given = self.secrets.parse_pan_keys(&text, &path).map_err(TakingError::Keys)?;
        let own = self.secrets.read_pan_keys(&self.data).map_err(TakingError::Keys)?;
        if given == own {
            return Ok(());
        }
        given
            .require(tables.needed_pan_generations()?, &self.data)
            .map_err(|_| TakingError::Needed)?;
        self.secrets.write_pan_keys(&self.data, &given).map_err(TakingError::Keys)?;
        self.secrets.take_pan_keys(&given);
        tracing::info!(keys = ?given, "took the keys of card numbers from the node that leads");
        Ok(())
    }

    /// Takes none any more: the node leads, or makes its directory anew.
    pub fn close(&self) {
        *self.tables.lock() = None;
    }
}

/// Why not every node has the keys.
#[derive(Debug, thiserror::Error)]
pub enum GivingError {
    /// etcd does not tell which nodes there are.
    #[error("the nodes of the cluster are not known: {0}")]
    Unlisted(String),
    /// Another node leads.
    #[error("another node leads")]
    NotLeading,
    /// A node has not taken them.
    #[error(
        "every node has to take the keys, and {0} does not: {1}. Start it, or take it out of the cluster \
         for good with `cardswitch cluster leave` or `remove`"
    )]
    Node(String, NodeCallError),
}

/// The other nodes, as the leader gives them its keys.
#[derive(Debug)]
pub struct PanKeyNodes {
    /// This node.
    pub node: Node,
    /// The keys of all.
    pub secrets: Secrets,
}

impl PanKeyNodes {
    /// Gives keys to every node of the cluster; returns once all have them durably.
    /// Errors: one does not take them; others may have.
    pub async fn give_to_all(&self, keys: &PanKeys) -> Result<(), GivingError> {
        let cluster = self.node.cluster.clone();
        let read = tokio::task::spawn_blocking(move || ClusterView::read(&cluster)).await;
        let unlisted = |error: &dyn std::fmt::Display| GivingError::Unlisted(error.to_string());
        let view = read.map_err(|error| unlisted(&error))?.map_err(|error| unlisted(&error))?;
        if view.tip.writer != self.node.writer {
            return Err(GivingError::NotLeading);
        }
        let call = self.call(view.tip.position.epoch.0, keys).map_err(|error| unlisted(&error))?;
        for node in view.nodes.iter().filter(|node| self.is_other(node)) {
            let given = self.give_patiently(node, &call).await;
            given.map_err(|error| GivingError::Node(node.name.clone(), error))?;
        }
        Ok(())
    }

    /// Gives keys to every node that is there, as far as this one knows.
    pub async fn give_to_present(&self, keys: &PanKeys) {
        let status = &self.node.status;
        let Ok(call) = self.call(status.epoch(), keys) else { return };
        let nodes = status.nodes();
        for node in nodes.iter().filter(|node| self.is_other(node) && !is_away(node)) {
            if let Err(error) = self.give(node, &call).await {
                tracing::debug!(node = node.name, %error, "the node has not taken the keys yet");
            }
        }
    }

    fn is_other(&self, node: &NodeRecord) -> bool {
        node.name != self.node.record.name
    }

    fn call(&self, epoch: u64, keys: &PanKeys) -> Result<NodeCall, PanKeysError> {
        let body = self.secrets.render_pan_keys(keys)?.into();
        Ok(NodeCall { method: Method::PUT, path: format!("{PAN_KEYS_PATH}{epoch}"), body })
    }

    async fn give(&self, node: &NodeRecord, call: &NodeCall) -> Result<(), NodeCallError> {
        call.clone().ask(node.door, &self.secrets, ANSWER_BYTES_MAX).await.map(drop)
    }

    async fn give_patiently(
        &self,
        node: &NodeRecord,
        call: &NodeCall,
    ) -> Result<(), NodeCallError> {
        for _ in 1..TRIES_MAX {
            match self.give(node, call).await {
                Err(NodeCallError::Refused(_, StatusCode::CONFLICT, _)) => {
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
                given => return given,
            }
        }
        self.give(node, call).await
    }
}

#[cfg(test)]
#[path = "node_pan_keys_tests.rs"]
mod tests;
