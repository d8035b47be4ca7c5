//! How a node and its cluster stand: figures, and what `/readyz` tells beside the word.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cardswitch_cluster::{EtcdView, Node, NodeRecord, NodeStatus};
use cardswitch_site::overview::ClusterLine;
use serde_json::{Value, json};

use super::Telemetry;
use super::gauges::Kind;

/// From when on it is told that etcd does not answer, and a leader counts as cut off.
const SILENCE_TOLD: Duration = Duration::from_secs(2);

type Figure = fn(&NodeStatus) -> u64;

/// Each figure of a node with what it is.
const FIGURES: [(&str, &str, Figure); 9] = [
    ("cardswitch_cluster_leads", "1 where this node leads its cluster.", |status| {
        u64::from(status.leads())
    }),
    ("cardswitch_cluster_epoch", "Changes of leader.", NodeStatus::epoch),
    ("cardswitch_cluster_record", "The newest record of the chain.", NodeStatus::chain_record),
    ("cardswitch_cluster_window_batches", "Batches in the window.", |status| {
        status.etcd().window_batches
    }),
    (
        "cardswitch_cluster_durable_copies",
        "Members of etcd that hold the window and answer.",
        |status| status.etcd().answering,
    ),
    ("cardswitch_cluster_etcd_members", "Members of etcd.", |status| status.etcd().members),
    ("cardswitch_cluster_etcd_bytes", "Bytes of etcd's largest database.", |status| {
        status.etcd().bytes
    }),
    ("cardswitch_cluster_etcd_full", "1 where a member of etcd takes nothing more.", |status| {
        u64::from(status.etcd().is_full)
    }),
    ("cardswitch_cluster_etcd_silence_ms", "Milliseconds since etcd's last answer.", |status| {
        u64::try_from(status.silence().as_millis()).unwrap_or(u64::MAX)
    }),
];

/// Shows how a node stands in its cluster.
pub fn show_cluster(telemetry: &Telemetry, node: &Node) {
    for (name, help, figure) in FIGURES {
        let status = Arc::clone(&node.status);
        telemetry.gauges.add(name, Kind::Gauge, help, move || figure(&status));
    }
    let status = Arc::clone(&node.status);
    let behind = ("cardswitch_cluster_node_records_behind", "node");
    let help = "Records that each node has yet to take in, by its last report.";
    telemetry.gauges.add_each(behind, help, move || records_behind(&status));
    let status = Arc::clone(&node.status);
    let apart = ("cardswitch_cluster_node_clock_apart_ms", "node");
    let help = "Difference of each other node's clock from this one's.";
    telemetry.gauges.add_each(apart, help, move || clocks_apart(&status));
    let notes = &telemetry.health_notes;
    let status = Arc::clone(&node.status);
    notes.tell("clock", move || status.clock().words().map(|words| json!(words)));
    let status = Arc::clone(&node.status);
    notes.add(("etcd", "does not answer"), move || is_etcd_silent(&status));
    let status = Arc::clone(&node.status);
    notes.add(("etcd_room", "none left"), move || status.etcd().is_full);
    let (status, name) = (Arc::clone(&node.status), node.record.name.clone());
    notes.tell("cluster", move || Some(standing(&status, &name)));
    let (status, name) = (Arc::clone(&node.status), node.record.name.clone());
    notes.tell("settings", move || differing_settings(&status.nodes(), &name));
    // A process is one node.
    drop(telemetry.node.set(Arc::clone(&node.status)));
}

/// Whether etcd has not answered a node for long.
pub(super) fn is_etcd_silent(status: &NodeStatus) -> bool {
    status.silence() > SILENCE_TOLD
}

/// How the cluster of a node is that leads it, for the overview.
pub fn line_of(node: &Node) -> ClusterLine {
    let (status, own) = (Arc::clone(&node.status), node.record.name.clone());
    Box::new(move || {
        let EtcdView { answering, members, .. } = status.etcd();
        let others = records_behind(&status).into_iter().filter(|(name, _)| *name != own);
        let others: Vec<_> = others
            .map(|(name, behind)| match behind {
                0 => format!("{name} is level"),
                behind => format!("{name} is {behind} records behind"),
            })
            .collect();
        let others =
            if others.is_empty() { String::new() } else { format!("{}, ", others.join(", ")) };
        format!("{own} leads, {others}{answering} of {members} durable copies")
    })
}

fn records_behind(status: &NodeStatus) -> Vec<(String, u64)> {
    let newest = status.chain_record();
    let behind = status.nodes().into_iter().map(|node| {
        let behind = newest.saturating_sub(node.record);
        (node.name, behind)
    });
    behind.collect()
}

/// The settings in which other nodes differ from the one of this name, by node; none where all are the same.
fn differing_settings(nodes: &[NodeRecord], name: &str) -> Option<Value> {
    let own = nodes.iter().find(|node| node.name == name)?;
    let differing = nodes.iter().map(|node| (&node.name, own.settings.differing(&node.settings)));
    let differing: BTreeMap<_, _> = differing.filter(|(_, names)| !names.is_empty()).collect();
    (!differing.is_empty()).then(|| json!({ "not_those_of": differing }))
}

fn clocks_apart(status: &NodeStatus) -> Vec<(String, u64)> {
    let ahead = status.clocks_ahead().into_iter();
    ahead.map(|(name, ahead_us)| (name, ahead_us.unsigned_abs() / 1_000)).collect()
}

fn standing(status: &NodeStatus, name: &str) -> Value {
    let etcd = status.etcd();
    json!({
        "node": name,
        "role": if status.leads() { "leads" } else { "follows" },
        "epoch": status.epoch(),
        "durable_copies": etcd.answering,
        "window_batches": etcd.window_batches,
    })
}
