//! The other nodes of a cluster, as a node asks them for receipts and gives them its own.

use std::sync::Arc;

use axum::http::Method;
use bytes::Bytes;
use cardswitch_cluster::{NodeRecord, NodeStatus};
use cardswitch_engine::clock::Clock;
use cardswitch_identity::receipts::{RECEIPT_BYTES_MAX, ReceiptPeers};
use cardswitch_secrets::Secrets;
use cardswitch_secrets::hex::to_hex;
use tokio::runtime::Handle;

use crate::node_call::{NodeCall, NodeCallError};

/// A node that published nothing for so long is away: it is not waited for. Units: microseconds.
const AWAY_AFTER: i64 = 5_000_000;

/// The nodes but this one. Called from threads that may wait.
#[derive(Debug)]
pub struct NodePeers {
    /// The name of this node.
    pub own: String,
    /// The status, with the other nodes.
    pub status: Arc<NodeStatus>,
    /// The keys of all.
    pub secrets: Secrets,
    /// The runtime of calls.
    pub runtime: Handle,
}

impl NodePeers {
    fn others(&self) -> impl Iterator<Item = NodeRecord> {
        self.status.nodes().into_iter().filter(|node| node.name != self.own)
    }

    fn ask(&self, node: &NodeRecord, call: NodeCall) -> Result<Bytes, NodeCallError> {
        self.runtime.block_on(call.ask(node.door, &self.secrets, RECEIPT_BYTES_MAX))
    }
}

impl ReceiptPeers for NodePeers {
    fn give(&self, digest: &[u8; 32], content: &[u8]) {
        for node in self.others().filter(|node| !is_away(node)) {
            let body = Bytes::copy_from_slice(content);
            let call = NodeCall { method: Method::PUT, path: path_of(digest), body };
            if let Err(error) = self.ask(&node, call) {
                tracing::warn!(node = node.name, %error, "the node fetches a receipt later");
            }
        }
    }

    fn fetch(&self, digest: &[u8; 32]) -> Option<Vec<u8>> {
        let call = NodeCall::get(path_of(digest));
        let mut found = self.others().map(|node| self.ask(&node, call.clone()));
        found.find_map(Result::ok).map(Vec::from)
    }
}

/// Whether a node has published no record for long.
pub fn is_away(node: &NodeRecord) -> bool {
    Clock::System.now().0 - node.at >= AWAY_AFTER
}

fn path_of(digest: &[u8; 32]) -> String {
    format!("/receipts/{}", to_hex(digest).as_str())
}
