//! Looks at every member of etcd by itself, beside everything else: a client asks the first that answers.

use std::sync::Weak;
use std::thread::Builder;
use std::time::Duration;

use crate::address::AnsweringMember;
use crate::etcd::EtcdClient;
use crate::requests::MemberStatus;
use crate::window::Keys;
use crate::{ClusterAddress, EtcdError, EtcdView, Node, NodeStatus};

/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Looks at the members of a node's etcd on a thread of its own, for as long as there is a node.
/// Errors: the system starts no more threads.
pub fn watch_etcd(node: &Node) -> Result<(), EtcdError> {
    let address = &node.cluster;
    let alone = |endpoint: &String| {
        let endpoints = vec![endpoint.clone()];
        let answering = AnsweringMember::default();
        EtcdClient::new(&ClusterAddress { endpoints, answering, ..address.clone() })
    };
    let clients: Vec<_> = address.endpoints.iter().map(alone).collect::<Result<_, _>>()?;
    let (keys, status) = (Keys::of(address), std::sync::Arc::downgrade(&node.status));
    let thread = Builder::new().name("etcd-watch".to_owned());
    thread.spawn(move || watch(clients, &keys, &status))?;
    Ok(())
}

fn watch(mut clients: Vec<EtcdClient>, keys: &Keys, status: &Weak<NodeStatus>) {
    while let Some(status) = status.upgrade() {
        status.note_etcd(look(&mut clients, keys));
        drop(status);
        std::thread::sleep(LOOK_EVERY);
    }
}

fn look(clients: &mut [EtcdClient], keys: &Keys) -> EtcdView {
    let mut seen = EtcdView { members: clients.len() as u64, ..EtcdView::default() };
    for client in clients {
        let MemberStatus { bytes, is_full, .. } = client.status().unwrap_or_default();
        seen.bytes = seen.bytes.max(bytes);
        seen.is_full |= is_full;
        // A member that has lost the others reports its own state, and nothing of the window.
        let Ok(batches) = client.window_batches(keys) else { continue };
        seen.answering += 1;
        seen.window_batches = batches;
    }
    seen
}
