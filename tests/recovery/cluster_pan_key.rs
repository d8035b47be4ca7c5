//! Another key for card numbers in a running cluster: every node has it before it is used and loses the older
//! ones with all others, whichever node is killed; and no node is passed over.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use cardswitch_harness::{Cluster, Installation, Purchase, Random, TestCard, seed_for};
use cardswitch_harness::{CommandOutput, run_cardswitch};

use crate::failover::text_of;
use crate::pan_key::{expect_numbers, figure, new_card, rotate, status, verified};

const CARDS: u32 = 800;
const LEFT: &str = "cardswitch_pan_key_left_cards ";

/// `rotate-pan-key` on the directory of a node.
fn rotate_at(cluster: &Cluster, node: usize, further: &[&str]) -> CommandOutput {
    rotate(&cluster.data(node), further)
}

/// The generations in the file of a node.
fn generations(cluster: &Cluster, node: usize) -> Vec<u64> {
    let text = fs::read_to_string(cluster.data(node).join("pan_seal.keys")).unwrap_or_default();
    let numbers = |name: &str| {
        let lines = text.lines().filter_map(|line| line.strip_prefix(name));
        let numbers = lines.filter_map(|rest| rest.split(' ').next()?.parse().ok());
        numbers.collect::<Vec<u64>>()
    };
    // The first has no line of its own.
    let first = numbers("oldest ").first().is_none_or(|oldest| *oldest == 0).then_some(0);
    first.into_iter().chain(numbers("generation ")).collect()
}

fn wait_for_generations(cluster: &Cluster, node: usize, wanted: &[u64]) {
    while generations(cluster, node) != wanted {
        thread::sleep(Duration::from_millis(10));
    }
}

/// Starts a node that was away; returns once it follows, and the cluster knows where.
fn bring_back(cluster: &mut Cluster, node: usize) {
    let since = Instant::now();
    cluster.start(node);
    cluster.wait_for_doors(node);
    let name = format!("node-{node}");
    loop {
        let records = cluster.records();
        let record = records.iter().find(|record| record["name"] == name.as_str());
        let seen_ms_ago = record.and_then(|record| record["seen_ms_ago"].as_u64());
        if seen_ms_ago.is_some_and(|ago| u128::from(ago) < since.elapsed().as_millis()) {
            return;
        }
    }
}

/// Purchases that every card approves only with its own number and code, at the door of each node.
#[track_caller]
fn expect_authorized(cluster: &Cluster, nodes: &[usize], cards: &[TestCard]) {
    for node in nodes {
        let mut acquirer = cluster.wait_for_doors(*node).acquirer();
        for card in cards {
            let cvv = Some(card.cvv.clone());
            let expiry_yymm = Some(card.expiry_yymm());
            let purchase = Purchase { cvv, expiry_yymm, ..Purchase::of(card, 100) };
            acquirer.ask(&purchase.request()).expect_approved();
        }
    }
}

/// Has the key replaced and kills the leader when some of the cards are re-sealed, not all.
fn rotate_and_kill(cluster: &mut Cluster) -> (usize, u64) {
    loop {
        let leader = cluster.wait_for_leader();
        let begun = rotate_at(cluster, leader, &["--no-wait"]).expect_json();
        let generation = begun["generation"].as_u64().expect("a generation");
        for node in 0..3 {
            assert_eq!(generations(cluster, node).last(), Some(&generation), "node {node}");
        }
        loop {
            let left = figure(cluster.node(leader), LEFT);
            if left > 0 && left < u64::from(CARDS) {
                cluster.take(leader).kill9();
                return (leader, generation);
            }
            if left == 0 {
                // It was faster than we look: another one.
                break;
            }
        }
    }
}

#[test]
fn every_node_has_a_key_before_it_is_used_and_loses_it_with_all_others() {
    let mut random = Random::new(seed_for("every_node_has_a_key_before_it_is_used"));
    let mut cluster = Cluster::of(Installation::init(CARDS, random.next_u64() >> 1));
    let all = cluster.installation.cards.all().to_vec();
    let ordinary = cluster.installation.cards.with_profile("ordinary");
    let ordinary: Vec<TestCard> = ordinary.into_iter().take(10).cloned().collect();
    let first = cluster.wait_for_leader();
    cluster.wait_until_known();
    let (away, other) = ((first + 1) % 3, (first + 2) % 3);

    // An absent node makes a rotation fail at once: no key changes.
    cluster.take(away).kill9();
    for further in [&[][..], &["--no-wait"][..]] {
        let refused = rotate_at(&cluster, first, further).expect_one_line_error();
        assert!(refused.contains(&format!("node-{away} does not")), "{refused}");
        assert!(refused.contains("cluster leave"), "{refused}");
    }
    assert_eq!(status(&cluster.data(first)), [(0, u64::from(CARDS))]);
    for node in [first, other, away] {
        wait_for_generations(&cluster, node, &[0]);
    }
    let refused = rotate_at(&cluster, other, &[]).expect_one_line_error();
    assert!(refused.contains(&format!("node-{first}, which leads at")), "{refused}");
    bring_back(&mut cluster, away);

    // The leader dies amid re-sealing, and the next one goes on.
    let (killed, generation) = rotate_and_kill(&mut cluster);
    let second = cluster.wait_for_other_leader(killed);
    while figure(cluster.node(second), LEFT) > 0
        || status(&cluster.data(second)).last() != Some(&(generation, u64::from(CARDS)))
    {}
    expect_numbers(cluster.node(second), &all);

    // No key is forgotten while a node is away, and its file stays as it is.
    let kept = generations(&cluster, second);
    assert!(kept.len() > 1, "{kept:?}");
    let refused = rotate_at(&cluster, second, &["--forget"]).expect_one_line_error();
    assert!(refused.contains(&format!("node-{killed} does not")), "{refused}");
    (0..3).for_each(|node| assert_eq!(generations(&cluster, node), kept, "node {node}"));
    bring_back(&mut cluster, killed);
    let forgotten = rotate_at(&cluster, second, &["--forget"]).expect_json();
    assert_eq!(forgotten["generations"].as_array().map(Vec::len), Some(1));
    (0..3).for_each(|node| assert_eq!(generations(&cluster, node), [generation], "node {node}"));
    // A second run finishes one that may have been broken off.
    rotate_at(&cluster, second, &["--forget"]).expect_json();
    let made = cluster.node(second).api().post("/v1/cards", &new_card()).expect(201);
    let path = format!("/v1/cards/{}/number", made["id"].as_str().expect("an id"));
    let number = cluster.node(second).api().get(&path).expect(200);

    // The same with another leader, and at every door.
    cluster.take(second).kill9();
    let third = cluster.wait_for_other_leader(second);
    expect_numbers(cluster.node(third), &all);
    bring_back(&mut cluster, second);
    cluster.wait_until_level();
    expect_authorized(&cluster, &[0, 1, 2], &ordinary);
    for node in 0..3 {
        assert_eq!(cluster.node(node).api().get(&path).expect(200), number, "node {node}");
    }

    cluster.stop();
    for node in 0..3 {
        verified(&cluster.data(node));
        assert_eq!(generations(&cluster, node), [generation], "node {node}");
    }
}

#[test]
fn nobody_waits_for_a_node_that_left_and_it_has_every_key_when_it_joins_again() {
    let mut cluster = Cluster::of(Installation::init(60, 8_612));
    let leader = cluster.wait_for_leader();
    cluster.wait_until_known();
    let (gone, other) = ((leader + 1) % 3, (leader + 2) % 3);
    cluster.take(gone).stop();
    let refused = rotate_at(&cluster, leader, &[]).expect_one_line_error();
    assert!(refused.contains(&format!("node-{gone} does not")), "{refused}");
    let data = cluster.data(gone);
    run_cardswitch(&["cluster", "leave", "--data", text_of(&data)]).expect_done();
    assert_eq!(rotate_at(&cluster, leader, &[]).expect_json()["generation"], 1);
    rotate_at(&cluster, leader, &["--forget"]).expect_json();
    assert_eq!((generations(&cluster, other), generations(&cluster, gone)), (vec![1], vec![0]));

    // A node that begins with an older copy is given the newer keys, and loses the forgotten ones.
    fs::rename(&data, data.with_extension("left")).expect("a directory can be renamed");
    cluster.join(gone);
    fs::remove_file(data.join("pan_seal.keys")).expect("as of before");
    bring_back(&mut cluster, gone);
    wait_for_generations(&cluster, gone, &[1]);
    cluster.take(leader).kill9();
    let next = cluster.wait_for_other_leader(leader);
    expect_numbers(cluster.node(next), cluster.installation.cards.all());

    // The machine of the other one is lost.
    let name = format!("node-{leader}");
    let remove =
        |cluster: &Cluster, name: &str| cluster.command(&["cluster", "remove", "--node", name]);
    let unknown = remove(&cluster, "nobody").expect_one_line_error();
    assert!(unknown.contains("has no node `nobody`"), "{unknown}");
    let present = remove(&cluster, &format!("node-{next}")).expect_one_line_error();
    assert!(present.contains("stop it first"), "{present}");
    while remove(&cluster, &name).code != Some(0) {
        thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(rotate_at(&cluster, next, &[]).expect_json()["generation"], 2);
    let nodes = [0, 1, 2].into_iter().filter(|node| *node != leader);
    nodes.for_each(|node| assert_eq!(generations(&cluster, node), [1, 2], "node {node}"));
    cluster.stop();
    (0..3).for_each(|node| drop(verified(&cluster.data(node))));
}
