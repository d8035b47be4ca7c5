//! The records that nodes publish of themselves, for each other and for operators.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use cardswitch_engine::clock::Stopwatch;
use cardswitch_engine::journal::window::{WindowTip, WriterId};
use serde::{Deserialize, Serialize};

use crate::SettingDigests;
use crate::etcd::{EtcdClient, EtcdError};
use crate::window::{Keys, STEP_DOWN};
use crate::{ClusterAddress, EtcdWindow, NodeStatus, OpenWindowError};

/// The interval of the looks whether another node leads.
const STEP_DOWN_LOOK_EVERY: Duration = Duration::from_millis(20);

/// The addresses of a node, its settings, and its newest record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Its name.
    pub name: String,
    /// Its run.
    pub writer: String,
    /// The address of its HTTP side for other nodes.
    pub http: SocketAddr,
    /// Address of its first ISO 8583 door for other nodes.
    pub iso8583: SocketAddr,
    /// Addresses of its further doors for other nodes, by name.
    pub iso8583_doors: BTreeMap<String, SocketAddr>,
    /// The address of its door for other nodes.
    pub door: SocketAddr,
    /// Digests of the settings that it needs like all others.
    pub settings: SettingDigests,
    /// The newest record in its journal.
    pub record: u64,
    /// The time of this record. Units: microseconds since 1970.
    pub at: i64,
}

/// An operator's view of a cluster.
#[derive(Clone, Debug)]
pub struct ClusterView {
    /// The newest batch of the chain.
    pub tip: WindowTip,
    /// The nodes that ever came, by name.
    pub nodes: Vec<NodeRecord>,
    /// The release of etcd.
    pub etcd: String,
}

impl NodeRecord {
    /// Notes how far the node has come.
    pub(crate) const fn reach(&mut self, record: u64, at: i64) {
        (self.record, self.at) = (record, at);
    }

    fn is_twin_of(&self, own: &Self) -> bool {
        self.writer != own.writer && self.at > own.at
    }

    /// Whether a run published it.
    pub fn is_of(&self, writer: WriterId) -> bool {
        self.writer == writer.to_string()
    }
}

impl ClusterView {
    /// Looks at a cluster without taking part in it.
    /// Errors: no cluster is there, or no member of etcd answers.
    pub fn read(address: &ClusterAddress) -> Result<Self, OpenWindowError> {
        let (mut window, etcd) = EtcdWindow::look_at(address)?;
        let tip = window.find_tip()?;
        let tip = tip.ok_or_else(|| OpenWindowError::Absent(Box::new(address.clone())))?;
        let nodes = list_nodes(&mut window.client, &Keys::of(address))?;
        Ok(Self { tip, nodes, etcd })
    }

    /// Removes the record of a node, so that it is no longer waited for. A running node publishes it
    /// again.
    /// Errors: as for `read`.
    pub fn remove(address: &ClusterAddress, node: &str) -> Result<(), OpenWindowError> {
        let (mut window, _) = EtcdWindow::look_at(address)?;
        Ok(window.client.delete(Keys::of(address).node(node))?)
    }

    /// Asks the node that leads to let another one lead, and waits until it does.
    /// Members of etcd that are silent meanwhile are asked again.
    /// Errors: as for `read`; none where no other node led within the time, or the same one leads again.
    pub fn step_down(
        address: &ClusterAddress,
        within: Duration,
    ) -> Result<Option<Self>, OpenWindowError> {
        let (since, mut before) = (Stopwatch::start(), None);
        loop {
            let is_last = since.elapsed() >= within;
            let looked = Self::read(address).and_then(|now| {
                let before = before.get_or_insert_with(|| AskedLeader::of(&now));
                before.ask(address, &now)?;
                Ok((before.is_replaced_in(&now), now))
            });
            match looked {
                Ok((Some(is_another), now)) => return Ok(is_another.then_some(now)),
                Ok(_) if is_last => return Ok(None),
                Err(OpenWindowError::Etcd(EtcdError::Unavailable(_))) if !is_last => {}
                Err(error) => return Err(error),
                Ok(_) => {}
            }
            std::thread::sleep(STEP_DOWN_LOOK_EVERY);
        }
    }

    /// The node that leads, or led last.
    pub fn leader(&self) -> Option<&NodeRecord> {
        self.nodes.iter().find(|node| node.is_of(self.tip.writer))
    }
}

/// A leader that is asked to let another node lead.
struct AskedLeader {
    writer: WriterId,
    /// None where its record cannot be read.
    name: Option<String>,
    is_asked: bool,
}

impl AskedLeader {
    fn of(view: &ClusterView) -> Self {
        let name = view.leader().map(|node| node.name.clone());
        Self { writer: view.tip.writer, name, is_asked: false }
    }

    /// Asks it, once.
    fn ask(&mut self, address: &ClusterAddress, now: &ClusterView) -> Result<(), OpenWindowError> {
        if !self.is_asked && now.tip.writer == self.writer {
            let (mut window, _) = EtcdWindow::look_at(address)?;
            let writer = self.writer.to_string();
            window.client.put(Keys::of(address).named(STEP_DOWN), writer.into_bytes())?;
            self.is_asked = true;
        }
        Ok(())
    }

    /// Whether another node leads; none while this leader does. A node begins again as another writer, and leads
    /// again where no other node was there to.
    fn is_replaced_in(&self, now: &ClusterView) -> Option<bool> {
        let is_same =
            self.name.is_some() && now.leader().map(|node| &node.name) == self.name.as_ref();
        (now.tip.writer != self.writer).then_some(!is_same)
    }
}

pub(crate) fn list_nodes(
    client: &mut EtcdClient,
    keys: &Keys,
) -> Result<Vec<NodeRecord>, EtcdError> {
    let values = client.list(keys.named("node/"))?;
    // A record that a later build wrote differently is left out.
    Ok(values.iter().filter_map(|(_, value)| serde_json::from_slice(value).ok()).collect())
}

/// Whether another run has published its record under a node's name since the node did. A request of an earlier run may
/// come late, with an earlier time.
pub(crate) fn has_twin(client: &mut EtcdClient, keys: &Keys, record: &NodeRecord) -> bool {
    find_node(client, keys, &record.name).is_some_and(|found| found.is_twin_of(record))
}

/// The record under a node's name, if etcd answers.
fn find_node(client: &mut EtcdClient, keys: &Keys, name: &str) -> Option<NodeRecord> {
    let found = client.get(keys.node(name)).ok().flatten()?;
    serde_json::from_slice(&found).ok()
}

/// Takes back the record of a node that is refused: nobody is to wait for it. That of another run stays.
/// Errors: etcd does not answer; then the record stays until an operator removes it.
pub(crate) fn withdraw(
    client: &mut EtcdClient,
    keys: &Keys,
    record: &NodeRecord,
) -> Result<(), EtcdError> {
    match find_node(client, keys, &record.name) {
        Some(found) if found.writer == record.writer => client.delete(keys.node(&record.name)),
        _ => Ok(()),
    }
}

/// Publishes the record of a node, and takes in those of others.
pub(crate) fn report(
    client: &mut EtcdClient,
    keys: &Keys,
    record: &NodeRecord,
    status: &NodeStatus,
) -> Result<(), EtcdError> {
    let value = serde_json::to_vec(record).unwrap_or_default();
    client.put(keys.node(&record.name), value)?;
    status.note_nodes(list_nodes(client, keys)?);
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The record of a node that nobody reaches.
    pub(crate) fn node(name: &str, writer: WriterId) -> NodeRecord {
        let door = SocketAddr::from(([127, 0, 0, 1], 1));
        let (name, writer) = (name.to_owned(), writer.to_string());
        let iso8583_doors = BTreeMap::new();
        let (settings, record, at) = (SettingDigests::default(), 0, 0);
        let (http, iso8583) = (door, door);
        NodeRecord { name, writer, http, iso8583, iso8583_doors, door, settings, record, at }
    }

    /// Once, two nodes of one name published their records over each other, and doors led to either.
    #[test]
    fn a_twin_is_another_run_with_a_later_record() {
        let (own, other) = (WriterId(1), WriterId(2));
        let record = |writer, at| NodeRecord { at, ..node("node-1", writer) };
        for (found, expected) in
            [(record(other, 8), true), (record(other, 6), false), (record(own, 8), false)]
        {
            assert_eq!(found.is_twin_of(&record(own, 7)), expected, "{found:?}");
        }
    }
}
