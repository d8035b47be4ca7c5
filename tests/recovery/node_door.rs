//! The door between nodes of a cluster: who has no key of the cluster is told nothing.

use std::net::SocketAddr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use cardswitch_harness::{Cluster, HttpClient, HttpRequest, Installation, run_cardswitch};
use serde_json::{Value, json};

/// The door of a node, as nodes tell each other by etcd.
fn door_of(cluster: &Cluster, node: usize) -> SocketAddr {
    let key = cluster.etcd_text(&format!("test/node/node-{node}"));
    let found = cluster.ask_etcd("kv/range", &json!({ "key": key }));
    let value = found["kvs"][0]["value"].as_str().expect("the node has told where it is");
    let record = BASE64_STANDARD.decode(value).expect("etcd speaks base64");
    let record: Value = serde_json::from_slice(&record).expect("a record is JSON");
    let door = record["door"].as_str().expect("it has a door");
    door.parse().expect("an address")
}

#[test]
fn who_has_no_key_of_the_cluster_is_told_nothing() {
    let cluster = Cluster::of(Installation::init(3, 916));
    let leader = cluster.wait_for_leader();
    let door = HttpClient::anonymous(door_of(&cluster, leader));
    let forged = [("cardswitch-time", "1"), ("cardswitch-tag", "00112233445566778899aabbccddeeff")];
    for path in ["/key", "/clock/1", "/backup", "/receipts/00", "/"] {
        for headers in [&[][..], &forged[..]] {
            let answer = door.send(&HttpRequest { method: "GET", path, headers, body: b"" });
            assert_eq!(answer.status, 403, "{path}: {}", answer.text());
            assert!(!answer.text().contains("key "), "{path}: {}", answer.text());
        }
    }
    // Who has another master key joins nothing, and who has the right one does.
    let other = Installation::init(3, 917);
    let key = other.data().join("master.key");
    let (data, key) = (other.home().join("joined"), key.to_str().expect("UTF-8").to_owned());
    let data = data.to_str().expect("UTF-8");
    let join = ["cluster", "join", "--data", data, "--journal", &cluster.journal, "--master-key"];
    let with = |key: &str| run_cardswitch(&[&join[..], &[key]].concat());
    let error = with(&key).expect_one_line_error();
    assert!(error.contains("not signed with this cluster's master key"), "{error}");
    with(cluster.master_key().to_str().expect("UTF-8")).expect_done();
}
