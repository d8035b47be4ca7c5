//! An etcd that was lost, or put back as it was earlier: nodes that cannot go on say what to do, and that works.

use cardswitch_harness::{Cluster, Installation, run_cardswitch};
use serde_json::json;

use crate::failover::text_of;
use crate::handover::buy;

const DOORS: [&str; 4] = ["--http", "127.0.0.1:0", "--iso8583", "127.0.0.1:0"];

/// What a node says that cannot go on, and the record that it names.
#[track_caller]
fn refusal(cluster: &Cluster, node: usize) -> (String, u64) {
    let (data, name) = (cluster.data(node), format!("node-{node}"));
    let own = ["serve", "--data", text_of(&data), "--journal", &cluster.journal, "--node", &name];
    let error = run_cardswitch(&[&own[..], &DOORS].concat()).expect_one_line_error();
    for step in ["cluster leave", "cluster adopt", "under a new name"] {
        assert!(error.contains(step), "{error}");
    }
    let record = error
        .split_once("this one has record ")
        .and_then(|(_, rest)| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok());
    let record = record.expect("it names its record");
    (error, record)
}

/// Once, the messages led to the first node at hand, not to the newest record. A node that leaves keeps no place of
/// webhooks either: of the time when it led last, months would be sent again.
#[test]
fn nodes_name_record_and_remedy_where_etcd_was_lost_or_put_back() {
    let mut cluster = Cluster::of(Installation::init(60, 90));
    let leader = cluster.wait_for_leader();
    let (behind, other) = ((leader + 1) % 3, (leader + 2) % 3);
    cluster.wait_until_level();
    let tip = cluster.etcd_text("test/tip");
    let found = cluster.ask_etcd("kv/range", &json!({"key": tip}));
    cluster.take(behind).kill9();
    buy(&cluster, leader, 3);
    cluster.stop();
    cluster.ask_etcd("kv/put", &json!({"key": tip, "value": found["kvs"][0]["value"]}));
    let (error, newest) = refusal(&cluster, leader);
    assert!(error.contains("not of one chain"), "{error}");
    let [first, end] = ["test/", "test0"].map(|key| cluster.etcd_text(key));
    cluster.ask_etcd("kv/deleterange", &json!({"key": first, "range_end": end}));
    let [again, older] = [leader, behind].map(|node| {
        let (error, record) = refusal(&cluster, node);
        assert!(error.contains("is no cluster any more"), "{error}");
        record
    });
    assert!(again == newest && newest > older, "{again} {newest} {older}");
    let data = cluster.data(leader);
    assert!(data.join("deliveries.redb").exists());
    for node in 0..3 {
        let left = run_cardswitch(&["cluster", "leave", "--data", text_of(&cluster.data(node))]);
        left.expect_done();
        let told = format!("its newest record is {newest}\n");
        assert!(node != leader || left.stdout.contains(&told), "{}", left.stdout);
    }
    assert!(!data.join("deliveries.redb").exists(), "it would repeat what came since");
    cluster.journal = cluster.journal.replace("/test", "/again");
    cluster.command(&["cluster", "adopt", "--data", text_of(&data)]).expect_done();
    cluster.start(leader);
    cluster.wait_for_leader();
    for node in [behind, other] {
        cluster.join(node);
        cluster.start(node);
    }
    buy(&cluster, leader, 1);
    cluster.wait_until_level();
}
