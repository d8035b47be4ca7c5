//! Settings that the nodes of a cluster need alike: where they differ, a node says so or does not follow.

use std::fs;
use std::path::PathBuf;

use cardswitch_harness::{Cluster, Installation, write_private};
use serde_json::{Value, json};

use crate::failover::text_of;

/// Settings with a file of zone keys of its own for a node; the key ends with these digits.
fn zone_settings(cluster: &Cluster, node: usize, last: &str) -> String {
    let file = cluster.installation.home().join(format!("{node}.keys"));
    let key = format!("pin = {{ tdes = \"0123456789abcdeffedcba98765432{last}\" }}\n");
    write_private(&file, &key);
    format!("[iso8583_zone]\nkeys = \"{}\"\n", file.display())
}

fn settings_file(cluster: &Cluster, node: usize) -> PathBuf {
    cluster.data(node).join("cardswitch.toml")
}

/// Serves a node that is expected to end by itself, to its end.
#[track_caller]
fn refusal_of(cluster: &Cluster, node: usize) -> String {
    let (data, name, any) = (cluster.data(node), format!("node-{node}"), "127.0.0.1:0");
    let serve = ["serve", "--data", text_of(&data), "--node", &name];
    let doors = ["--http", any, "--iso8583", any, "--metrics", any];
    // A slow machine must not make it lead.
    let silence = ["--leader-silence-ms", "60000"];
    cluster.command(&[&serve[..], &doors, &silence].concat()).expect_one_line_error()
}

/// Once, nodes with other keys led: messages without a code were approved, and exchanged keys became void for good.
#[test]
fn a_node_with_other_zone_keys_than_the_leaders_does_not_follow() {
    let mut cluster = Cluster::of(Installation::init(1, 941));
    let leader = cluster.wait_for_leader();
    let (odd, other) = ((leader + 1) % 3, (leader + 2) % 3);
    drop(cluster.take(odd));
    fs::write(settings_file(&cluster, odd), zone_settings(&cluster, odd, "10")).expect("a file");
    let refusal = refusal_of(&cluster, odd);
    let named = format!("zone of iso8583 is not the same at `node-{leader}`");
    assert!(refusal.contains(&named), "{refusal}");
    assert!(cluster.is_led_by(leader), "nothing has changed");

    // A change on all nodes: only the leader's restart is a pause.
    for node in 0..3 {
        let settings = zone_settings(&cluster, node, "10");
        fs::write(settings_file(&cluster, node), settings).expect("a file");
    }
    for node in [other, leader] {
        cluster.take(node).stop();
    }
    for node in [leader, odd, other] {
        cluster.start(node);
        cluster.wait_for_leader();
    }
    cluster.wait_until_known();

    // The file before comes too late, and is refused after a change of leader as well.
    let leader = cluster.wait_for_leader();
    let late = (leader + 1) % 3;
    drop(cluster.take(late));
    fs::write(settings_file(&cluster, late), zone_settings(&cluster, late, "20")).expect("a file");
    assert!(refusal_of(&cluster, late).contains("zone of iso8583"));
}

/// Once, nobody said so before it led and misbehaved.
#[test]
fn a_follower_with_faults_says_so_and_every_node_names_the_difference() {
    let mut cluster = Cluster::of(Installation::init(1, 942));
    let leader = cluster.wait_for_leader();
    let odd = (leader + 1) % 3;
    drop(cluster.take(odd));
    fs::write(settings_file(&cluster, odd), "faults = \"7\"\n").expect("a file");
    cluster.start(odd);
    let is_told = |told: &Value| !told["settings"].is_null();
    let told = cluster.wait_until_told(odd, |told| is_told(told) && told["status"] == "following");
    assert_eq!(told["settings"]["not_those_of"][format!("node-{leader}")], json!(["faults"]));
    assert!(told["faults"].as_str().is_some_and(|words| words.contains("on purpose")), "{told}");
    for said in ["settings are not the leader's", "answers and webhooks meet faults on purpose"] {
        cluster.node(odd).wait_for_log(&[said]);
    }
    let told = cluster.wait_until_told(leader, is_told);
    assert_eq!(told["settings"]["not_those_of"], json!({format!("node-{odd}"): ["faults"]}));
    assert_eq!(told["status"], "ready", "a difference alone is no reason not to work");
    let told: Vec<_> =
        cluster.records().iter().map(|node| node["differing_settings"].clone()).collect();
    assert_eq!(told.iter().filter(|names| **names == json!(["faults"])).count(), 1, "{told:?}");
    let text = cluster.command(&["cluster", "status"]).stdout;
    assert!(text.contains("settings that are not the leader's: faults"), "{text}");
}
