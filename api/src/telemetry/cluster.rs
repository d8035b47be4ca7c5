//! How a node and its cluster stand: figures, and what `/readyz` tells beside the word.

use std::sync::Arc;
use std::time::Duration;

use cardswitch_cluster::{Node, NodeStatus};
use serde_json::{Value, json};

use super::Telemetry;
use super::gauges::Kind;

/// From when on it is told that etcd does not answer.
const SILENCE_TOLD: Duration = Duration::from_secs(2);

type Figure = fn(&NodeStatus) -> u64;

/// Each figure of a node with what it is.
const FIGURES: [(&str, &str, Figure); 9] = [
    ("cardswitch_cluster_leads", "1 where this node leads its cluster.", |status| {
        u64::from(status.leads())
    }),
    ("cardswitch_cluster_epoch", "How often the lead was taken.", NodeStatus::epoch),
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
    ("cardswitch_cluster_etcd_bytes", "What etcd's largest database takes.", |status| {
        status.etcd().bytes
    }),
    ("cardswitch_cluster_etcd_full", "1 where a member of etcd takes nothing more.", |status| {
        u64::from(status.etcd().is_full)
    }),
    ("cardswitch_cluster_etcd_silence_ms", "How long etcd has not answered.", |status| {
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
    let help = "How many records each node has yet to take in, as it told last.";
    telemetry.gauges.add_each(behind, help, move || records_behind(&status));
    let notes = &telemetry.health_notes;
    let status = Arc::clone(&node.status);
    notes.add(("etcd", "does not answer"), move || status.silence() > SILENCE_TOLD);
    let status = Arc::clone(&node.status);
    notes.add(("etcd_room", "none left"), move || status.etcd().is_full);
    let (status, name) = (Arc::clone(&node.status), node.record.name.clone());
    notes.tell("cluster", move || Some(standing(&status, &name)));
}

fn records_behind(status: &NodeStatus) -> Vec<(String, u64)> {
    let newest = status.chain_record();
    let behind = status.nodes().into_iter().map(|node| {
        let behind = newest.saturating_sub(node.record);
        (node.name, behind)
    });
    behind.collect()
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
