//! Nodes of a cluster whose clocks are apart: a node that most others contradict does not lead.

use cardswitch_harness::{Cluster, Installation, Purchase};
use serde_json::Value;

fn says_of_its_clock(told: &Value) -> bool {
    told["clock"].as_str().is_some_and(|words| words.contains("NTP"))
}

fn says_nothing_of_its_clock(told: &Value) -> bool {
    told["clock"].is_null()
}

#[test]
fn a_node_whose_clock_is_apart_neither_keeps_the_lead_nor_takes_it() {
    let mut cluster = Cluster::with_clocks(Installation::init(3, 911));
    let apart = cluster.wait_for_leader();
    let others = [(apart + 1) % 3, (apart + 2) % 3];
    cluster.turn_clock(apart, "+2");
    let leads = cluster.wait_for_other_leader(apart);
    let told = cluster.wait_until_told(apart, says_of_its_clock);
    let words = told["clock"].as_str().unwrap_or_default();
    for other in others {
        assert!(words.contains(&format!("ahead of `node-{other}`")), "{words}");
    }
    // A figure shows it, too, at the nodes that agree: one may lead before it compared the clocks again.
    let figure = format!("cardswitch_cluster_node_clock_apart_ms{{node=\"node-{apart}\"}}");
    cluster.wait_for_figure(leads, &figure, |apart_ms| (1_500..2_500).contains(&apart_ms));
    // Only the third node can take over now.
    let third = others.into_iter().find(|node| *node != leads).expect("three nodes");
    cluster.take(leads).kill9();
    assert_eq!(cluster.wait_for_other_leader(leads), third);
    let purchase = Purchase::of(cluster.installation.cards.ordinary(), 5);
    cluster.node(third).acquirer().ask(&purchase.request()).expect_approved();
    // A clock that is right again may lead: one of two that agree.
    cluster.turn_clock(apart, "+0");
    cluster.wait_until_told(apart, says_nothing_of_its_clock);
    cluster.take(third).kill9();
    assert_eq!(cluster.wait_for_other_leader(third), apart);
}

/// Once, a node led before it had compared its clock with any other: after a stop of all nodes, the first one to come
/// ran the timers of its own day, and holds ended by it.
#[test]
fn a_node_that_has_just_started_does_not_lead_by_a_clock_that_others_contradict() {
    let mut cluster = Cluster::with_clocks(Installation::init(3, 916));
    cluster.wait_until_known();
    cluster.stop();
    cluster.turn_clock(0, "+864000");
    (0..3).for_each(|node| cluster.start(node));
    assert_ne!(cluster.wait_for_leader(), 0);
    cluster.wait_until_told(0, says_of_its_clock);
}
