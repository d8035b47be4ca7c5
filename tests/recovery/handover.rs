//! The state besides the journal with which a node that takes over goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use cardswitch_harness::{
    Cluster, HookReceiver, HttpClient, HttpRequest, Installation, Manner, Purchase, Switch,
    cardswitch_after, run_cardswitch, transactions_of_card,
};
use serde_json::{Value, json};

use crate::failover::text_of;

/// More batches than the window once had.
const AWAY_BATCHES: usize = 4_300;
/// Purchases before another node leads.
const EARLIER: usize = 20;

#[track_caller]
pub(crate) fn buy(cluster: &Cluster, node: usize, count: usize) {
    let mut acquirer = cluster.node(node).acquirer();
    for _ in 0..count {
        let purchase = Purchase::of(cluster.installation.cards.ordinary(), 1);
        acquirer.ask(&purchase.request()).expect_approved();
    }
}

/// The number of events of each transaction, in the order of the first one.
fn told(receiver: &HookReceiver) -> BTreeMap<String, usize> {
    let mut told = BTreeMap::new();
    for event in receiver.hooks().iter().flat_map(|hook| &hook.events) {
        let id = event["transaction"]["id"].as_str().expect("an id").to_owned();
        *told.entry(id).or_default() += 1;
    }
    told
}

#[test]
fn a_new_leader_goes_on_with_webhooks_where_the_old_one_was() {
    let mut cluster = Cluster::of(Installation::init(60, 82));
    let receiver = HookReceiver::start(Manner::Answers(204));
    let first = cluster.wait_for_leader();
    let endpoint = json!({"delivery_url": receiver.url(), "description": "test"});
    cluster.node(first).api().post("/v1/webhook-endpoints", &endpoint).expect(201);
    buy(&cluster, first, EARLIER);
    receiver.wait_for_events(EARLIER);
    let earlier = told(&receiver);
    cluster.step_down();
    let second = cluster.wait_for_other_leader(first);
    buy(&cluster, second, 1);
    receiver.wait_for_events(EARLIER + 1);
    let times = told(&receiver);
    assert_eq!(times.len(), EARLIER + 1);
    assert!(times.values().all(|times| *times == 1), "told again: {times:?}");
    // Events of the last second before a kill may be sent again, and no earlier ones.
    buy(&cluster, second, EARLIER);
    receiver.wait_for_events(2 * EARLIER + 1);
    cluster.take(second).kill9();
    let third = cluster.wait_for_other_leader(second);
    buy(&cluster, third, 1);
    receiver.wait_until(|hooks| {
        let told = hooks.iter().flat_map(|hook| &hook.events);
        let told: Vec<_> = told.map(|event| event["transaction"]["id"].as_str()).collect();
        told.iter().collect::<BTreeSet<_>>().len() == 2 * EARLIER + 2
    });
    let times = told(&receiver);
    assert!(earlier.keys().all(|id| times[id] == 1), "told again: {times:?}");
}

#[test]
fn a_leader_that_steps_down_before_nobody_leads_again() {
    let mut cluster = Cluster::of(Installation::init(60, 85));
    let leader = cluster.wait_for_leader();
    for other in (0..3).filter(|node| *node != leader) {
        cluster.take(other).kill9();
    }
    let alone = cluster.command(&["cluster", "step-down"]).expect_one_line_error();
    assert!(alone.contains("no other node leads yet"), "{alone}");
    assert_eq!(cluster.wait_for_leader(), leader);
    buy(&cluster, leader, 1);
    // Once the others have been gone for a while, it is not even asked.
    let refused = || cluster.command(&["cluster", "step-down"]).expect_one_line_error();
    while !refused().contains("nobody was asked") {}
    assert_eq!(cluster.wait_for_leader(), leader);
}

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n receipt of lunch ";

/// Hands in a receipt of a transaction.
#[track_caller]
fn hand_in(node: &Switch, transaction: &str, content: &[u8]) {
    let path = format!("/v1/transactions/{transaction}/receipt");
    let headers = [("content-type", "image/png")];
    let request = HttpRequest { method: "POST", path: &path, headers: &headers, body: content };
    node.api().send(&request).expect(201);
}

#[track_caller]
fn receipt(node: &Switch, transaction: &str) -> Vec<u8> {
    let answer = node.api().get(&format!("/v1/transactions/{transaction}/receipt"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.bytes().to_vec()
}

#[test]
fn receipts_outlive_the_machine_that_took_them() {
    let mut cluster = Cluster::of(Installation::init(60, 83));
    let first = cluster.wait_for_leader();
    buy(&cluster, first, 2);
    let card = &cluster.installation.cards.ordinary().card_id;
    let network = cluster.node(first).network_api();
    let bought: Vec<_> =
        transactions_of_card(&network, card).into_iter().map(|one| one.transaction_id).collect();
    let [lunch, dinner] = &bought[..] else { panic!("two purchases: {bought:?}") };
    let away = (first + 1) % 3;
    hand_in(cluster.node(first), lunch, &[PNG, b"1"].concat());
    cluster.take(away).kill9();
    // One node is away, and has it when it has come back.
    hand_in(cluster.node(first), dinner, &[PNG, b"2"].concat());
    cluster.start(away);
    cluster.wait_until_level();
    cluster.wait_for_receipts(away, 2);
    // The disk of the node that took them is gone; the third node is away, too.
    cluster.take((first + 2) % 3).kill9();
    cluster.take(first).kill9();
    std::fs::remove_dir_all(cluster.data(first)).expect("a directory can be removed");
    cluster.wait_for_other_leader(first);
    assert_eq!(receipt(cluster.node(away), lunch), [PNG, b"1"].concat());
    assert_eq!(receipt(cluster.node(away), dinner), [PNG, b"2"].concat());
    // A damaged file is fetched again from a node that has it.
    cluster.join(first);
    cluster.start(first);
    cluster.wait_until_level();
    cluster.wait_for_receipts(first, 2);
    cluster.damage_receipts(away);
    // As soon as the leader knows where the node is now.
    let path = format!("/v1/transactions/{lunch}/receipt");
    while cluster.node(away).api().get(&path).status != 200 {
        thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(receipt(cluster.node(away), lunch), [PNG, b"1"].concat());
}

#[test]
fn who_joins_has_the_master_key_and_a_place_of_its_own() {
    let cluster = Cluster::of(Installation::init(60, 85));
    let leader = cluster.wait_for_leader();
    let home = cluster.installation.home().to_path_buf();
    let other = Installation::init(60, 86);
    let (new, key, foreign) =
        (home.join("new"), cluster.master_key(), other.data().join("master.key"));
    let refused = |further: &[&str]| {
        let command = [&["cluster", "join"], further].concat();
        cluster.command(&command).expect_one_line_error()
    };
    let (new_text, key) = (text_of(&new), text_of(&key));
    let follower = format!("node-{}", (leader + 1) % 3);
    for (further, expected) in [
        (
            &["--data", new_text, "--master-key", text_of(&foreign)][..],
            "not signed with this cluster's master key",
        ),
        (&["--data", new_text], "master.key` is missing"),
        (&["--data", text_of(&cluster.data(0)), "--master-key", key], "is there already"),
        (&["--data", new_text, "--master-key", key, "--from", "nobody"], "has no node `nobody`"),
        (&["--data", new_text, "--master-key", key, "--from", &follower], "the node follows"),
    ] {
        let error = refused(further);
        assert!(error.contains(expected), "{further:?}: {error}");
        assert!(!new.exists() && !home.join("new.joining").exists(), "{further:?} left something");
    }
    // A request without the keys gets nothing.
    let nodes = cluster.status().expect("etcd answers")["nodes"].clone();
    let door = nodes[leader]["door"].as_str().expect("a node has a door").parse();
    let stranger = HttpClient::anonymous(door.expect("an address"));
    let forged = [("cardswitch-time", "1"), ("cardswitch-tag", "00112233445566778899aabbccddeeff")];
    for path in ["/key", "/clock/1", "/backup", "/receipts/00", "/pan-keys/1", "/"] {
        for headers in [&[][..], &forged[..]] {
            let answer = stranger.send(&HttpRequest { method: "GET", path, headers, body: b"" });
            assert_eq!(answer.status, 403, "{path}: {}", answer.text());
        }
    }
}

/// Once, the node went on with the old key where others joined, and named it to the program that it became.
#[test]
fn a_leader_under_another_master_key_takes_nodes_in_and_steps_down() {
    let cluster = Cluster::of(Installation::init(60, 89));
    let (leader, home) = (cluster.wait_for_leader(), cluster.installation.home().to_path_buf());
    let (data, key, new) = (cluster.data(leader), home.join("second.key"), home.join("new"));
    let (data, key) = (text_of(&data), text_of(&key));
    run_cardswitch(&["rotate-master-key", "--data", data, "--new-master-key", key]).expect_done();
    let join = ["cluster", "join", "--data", text_of(&new), "--master-key", key];
    cluster.command(&join).expect_done();
    cluster.step_down();
    cluster.wait_for_other_leader(leader);
    cluster.wait_until_told(leader, |told| told["status"] == "following");
}

/// Once, a copy stood at its place before the mark was in it that only its node may open it: where a join ended in
/// between, a switch outside the cluster opened the copy, and decided on the cluster's cards.
#[test]
fn a_join_cut_short_leaves_no_copy_outside_the_cluster() {
    let cluster = Cluster::of(Installation::init(60, 90));
    cluster.wait_for_leader();
    let (home, key) = (cluster.installation.home().to_path_buf(), cluster.master_key());
    let (new, key) = (home.join("new"), text_of(&key));
    let join = ["cluster", "join", "--data", text_of(&new), "--master-key", key];
    let in_full = [&join[..], &["--journal", &cluster.journal]].concat();
    // It ends when it tells of the restored directory.
    let ended = cardswitch_after("exec > /dev/full", &in_full).output().expect("a shell starts");
    assert!(!ended.status.success() && new.exists(), "{ended:?}");
    let write_alone = ["rotate-pan-key", "--data", text_of(&new)];
    let refused = run_cardswitch(&write_alone).expect_one_line_error();
    assert!(refused.contains("is that of a node of etcd://"), "{refused}");
    let refused = cluster.command(&join).expect_one_line_error();
    assert!(refused.contains("is there already"), "{refused}");
    assert!(!home.join("new.joining").exists(), "the next try removes what is left");
}

/// Once, each node that joined deleted the backup that was on its way to another one.
#[test]
fn nodes_that_join_together_wait_for_each_other() {
    let cluster = Cluster::of(Installation::init(60, 88));
    let (home, key) = (cluster.installation.home().to_path_buf(), cluster.master_key());
    let join = |place: usize| {
        let data = home.join(format!("joined-{place}"));
        let (data, key) = (text_of(&data), text_of(&key));
        cluster.command(&["cluster", "join", "--data", data, "--master-key", key]).expect_done();
        run_cardswitch(&["verify", "--data", data]).expect_done();
    };
    thread::scope(|scope| {
        for place in 0..4 {
            let join = &join;
            scope.spawn(move || join(place));
        }
    });
}

/// The directories that a node had before it was made anew, which are kept.
fn kept_beside(cluster: &Cluster, node: usize) -> Vec<OsString> {
    let data = cluster.data(node);
    let name = format!("{}.", data.file_name().expect("a name").to_string_lossy());
    let beside = fs::read_dir(data.parent().expect("a place")).expect("a directory");
    let names = beside.map(|entry| entry.expect("a name").file_name());
    names.filter(|other| other.to_string_lossy().starts_with(&name)).collect()
}

#[test]
fn a_node_beyond_the_window_is_made_anew_by_itself() {
    let mut cluster = Cluster::of(Installation::init(60, 87));
    let leader = cluster.wait_for_leader();
    let (away, other) = ((leader + 1) % 3, (leader + 2) % 3);
    let settings = cluster.data(away).join("cardswitch.toml");
    fs::write(&settings, "log = \"json\"").expect("a file is written");
    for _ in 0..2 {
        for node in [away, other] {
            cluster.take(node).kill9();
        }
        buy(&cluster, leader, 3);
        // As if more batches had come since than the window has.
        let (key, end) = (cluster.etcd_text("test/j/"), cluster.etcd_text("test/j0"));
        cluster.ask_etcd("kv/deleterange", &json!({"key": key, "range_end": end}));
        buy(&cluster, leader, 1);
        for node in [away, other] {
            cluster.start(node);
        }
        cluster.wait_until_level();
        assert_eq!(fs::read_to_string(&settings).ok().as_deref(), Some("log = \"json\""));
        assert_eq!(kept_beside(&cluster, away).len(), 1, "what it had last is kept");
    }
    cluster.take(leader).kill9();
    let next = cluster.wait_for_other_leader(leader);
    buy(&cluster, next, 1);
}

/// Once, a second node of one name published its record over that of the first.
#[test]
fn a_second_node_of_one_name_is_refused() {
    let mut cluster = Cluster::of(Installation::init(3, 918));
    let leader = cluster.wait_for_leader();
    let away = (leader + 1) % 3;
    cluster.take(away).kill9();
    let (data, name) = (cluster.data(away), format!("node-{leader}"));
    let any = "127.0.0.1:0";
    let doors = ["--http", any, "--iso8583", any, "--metrics", any];
    let serve = ["serve", "--data", text_of(&data), "--node", &name];
    let patient = ["--leader-silence-ms", "60000"];
    let refused = cluster.command(&[&serve[..], &doors, &patient].concat());
    assert_ne!(refused.code, Some(0));
    assert!(refused.stderr.contains(&format!("`{name}` runs already")), "{refused:#?}");
    assert!(cluster.is_led_by(leader));
}

/// Once, such a node answered that no node leads for as long as it was being made anew.
#[test]
fn doors_of_a_node_beyond_the_window_lead_to_the_leader() {
    let mut cluster = Cluster::of(Installation::init(60, 88));
    let leader = cluster.wait_for_leader();
    let away = if leader == 1 { 2 } else { 1 };
    for node in (0..3).filter(|node| *node != leader) {
        cluster.take(node).kill9();
    }
    let (key, end) = (cluster.etcd_text("test/j/"), cluster.etcd_text("test/j0"));
    buy(&cluster, leader, 1);
    cluster.ask_etcd("kv/deleterange", &json!({"key": key, "range_end": end}));
    buy(&cluster, leader, 1);
    // Without the master key, which is there until it is open, it cannot be made anew.
    (0..3).for_each(|member| cluster.signal_etcd(member, "STOP"));
    cluster.start(away);
    cluster.wait_until_told(away, |told| told["status"] == "following");
    fs::remove_file(cluster.data(away).join("master.key")).expect("it is there");
    (0..3).for_each(|member| cluster.signal_etcd(member, "CONT"));
    cluster.wait_until_told(away, |told| !told["renewal"].is_null());
    cluster.node(away).api().get("/v1/cards").expect(200);
}

/// Once, the window had 4,096 batches, which came in five seconds: a node that was away for longer took a backup, was
/// behind again when it had it, and so on.
#[test]
fn a_node_that_was_away_for_thousands_of_batches_reads_on() {
    let mut cluster = Cluster::of(Installation::init(60, 89));
    let leader = cluster.wait_for_leader();
    let away = (leader + 1) % 3;
    cluster.take(away).kill9();
    // Each is answered once its batch is in the window.
    buy(&cluster, leader, AWAY_BATCHES);
    cluster.start(away);
    cluster.wait_until_level();
    assert_eq!(kept_beside(&cluster, away), Vec::<OsString>::new(), "it was made anew");
    let batches = |told: &Value| told["cluster"]["window_batches"].as_u64();
    cluster.wait_until_told(leader, |told| batches(told) >= Some(AWAY_BATCHES as u64));
}

const MASTER: &str = "0123456789abcdeffedcba98765432101122334455667788";

/// A file of keys with this MAC key.
fn write_keys(file: &Path, mac: &str) {
    let keys = format!("master = {{ tdes = \"{MASTER}\" }}\nmac = {{ tdes = \"{mac}\" }}\n");
    fs::write(file, keys).expect("a file can be written");
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).expect("its owner may");
}

/// The answer of a door, in 39 and last in 44, to a message of network management with a code under the keys of a
/// file.
#[track_caller]
fn answered(node: &Switch, keys: &Path, fields: &[&str]) -> [String; 2] {
    let door = node.iso8583.to_string();
    let line = ["send", "--connect", &door, "--zone-keys", text_of(keys), "--mac", "retail_1"];
    let sent = run_cardswitch(&[&line[..], &["--mti", "0800"], fields].concat());
    sent.expect_done();
    let (_, answer) = sent.stdout.split_once("answer\n").expect("an answer");
    let words = answer.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let words: Vec<_> = words.collect();
    ["39", "44"].map(|de| {
        let element = words.iter().find(|words| words.first() == Some(&de));
        element.and_then(|words| words.last()).map_or_else(String::new, |last| (*last).to_owned())
    })
}

/// The key block of a file's MAC key, as the other end takes it.
fn key_block(keys: &Path) -> String {
    let printed = run_cardswitch(&["zone-keys", text_of(keys)]);
    let line = printed.stdout.lines().find(|line| line.starts_with("mac ")).expect("a MAC key");
    line.rsplit(' ').next().expect("a block").to_owned()
}

#[test]
fn a_new_leader_knows_the_keys_that_peers_exchanged_and_takes_none_twice() {
    let installation = Installation::init(60, 83);
    let [file, fresh] = ["zone.keys", "fresh.keys"].map(|name| installation.home().join(name));
    write_keys(&file, "1111111111111111aaaaaaaaaaaaaaaa");
    write_keys(&fresh, "22222222222222223333333333333333");
    let settings = format!("[iso8583_zone]\nkeys = \"{}\"\nmac = \"retail_1\"\n", text_of(&file));
    fs::write(installation.data().join("cardswitch.toml"), settings).expect("a file is written");
    let mut cluster = Cluster::of(installation);
    let first = cluster.wait_for_leader();
    let block = format!("48={}", key_block(&fresh));
    let ahead = Command::new("date").args(["-u", "-d", "300 seconds", "+7=%m%d%H%M%S"]).output();
    let ahead = String::from_utf8(ahead.expect("date is there").stdout).expect("digits");
    let exchange = [ahead.trim(), "11=7", block.as_str(), "70=101"];
    assert_eq!(answered(cluster.node(first), &file, &exchange), ["00", ""]);
    cluster.take(first).kill9();
    let second = cluster.wait_for_other_leader(first);
    assert_eq!(answered(cluster.node(second), &fresh, &["11=8", "70=301"]), ["00", ""]);
    let again = answered(cluster.node(second), &fresh, &exchange);
    assert_eq!(again, ["63", "key_replayed"]);
}
