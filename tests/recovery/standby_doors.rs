//! Further ISO 8583 doors of nodes that follow: each leads to the leader's door of its name, whose dialect counts.

use std::fs;
use std::net::SocketAddr;

use cardswitch_harness::{Acquirer, Cluster, Installation, Purchase, run_cardswitch};

/// A cluster whose nodes all have a door in EBCDIC, and each a door of its own.
fn cluster_with_doors() -> Cluster {
    let mut cluster = Cluster::of(Installation::init(60, 921));
    cluster.stop();
    for node in 0..3 {
        let of_own = format!("of-{node}");
        let doors = [("ebcdic", "ebcdic"), (&of_own, "default")].map(|(name, dialect)| {
            let address = "127.0.0.1:0";
            format!(
                "[[iso8583_doors]]\nname = \"{name}\"\naddress = \"{address}\"\ndialect = \"{dialect}\"\n"
            )
        });
        let file = cluster.data(node).join("cardswitch.toml");
        fs::write(file, doors.concat()).expect("a file can be written");
        cluster.start(node);
    }
    cluster.wait_for_leader();
    cluster
}

/// Once, it told its addresses before it was refused.
#[test]
fn a_node_without_a_directory_announces_nothing() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let (data, any) = (home.path().join("gone"), "127.0.0.1:0");
    let serve = ["serve", "--data", data.to_str().expect("UTF-8"), "--node", "a"];
    let doors = ["--http", any, "--iso8583", any, "--metrics", any];
    let etcd = ["--journal", "etcd://127.0.0.1:1/nobody"];
    let refused = run_cardswitch(&[&serve[..], &doors, &etcd].concat());
    assert!(refused.expect_one_line_error().contains("gone"), "{refused:#?}");
    assert_eq!(refused.stdout, "");
}

/// Buys in a dialect at a door; returns the command's report of the answer.
fn buy(cluster: &Cluster, dialect: &str, door: SocketAddr) -> String {
    let request = Purchase::of(cluster.installation.cards.ordinary(), 100).request();
    let elements = request.field_numbers().filter(|number| *number != 48);
    let elements: Vec<String> = elements
        .map(|number| format!("{number}={}", request.get(number).unwrap_or_default()))
        .collect();
    let door = door.to_string();
    let mut arguments = vec!["send", "--connect", &door, "--dialect", dialect, "--mti", "0100"];
    arguments.extend(elements.iter().map(String::as_str));
    let told = run_cardswitch(&arguments).stdout;
    told.split_once("MTI  0110").map_or_else(|| told.clone(), |(_, answer)| answer.to_owned())
}

fn is_approved(answer: &str) -> bool {
    answer.lines().any(|line| line.trim_start().starts_with("39 ") && line.contains(" 00"))
}

#[test]
fn further_doors_of_followers_lead_to_the_leaders_door_of_their_name() {
    let mut cluster = cluster_with_doors();
    let leader = cluster.wait_for_leader();
    for node in 0..3 {
        // There is nothing to read again, which is no reason to end.
        cluster.node(node).signal("HUP");
        let answer = buy(&cluster, "ebcdic", cluster.node(node).door("ebcdic"));
        assert!(is_approved(&answer), "node {node}: {answer}");
    }
    // A door that the leader does not have gets no answer; the other doors go on.
    let follower = cluster.node((leader + 1) % 3);
    let of_own = format!("of-{}", (leader + 1) % 3);
    let mut odd = Acquirer::connect(follower.door(&of_own));
    assert!(odd.receive().is_err(), "it is closed");
    assert!(follower.log().contains("the leader has no such door"), "{}", follower.log());
    follower.acquirer().assert_alive();
    let at_leader = cluster.node(leader).door(&format!("of-{leader}"));
    Acquirer::connect(at_leader).assert_alive();

    // Another leader has the doors, too.
    cluster.take(leader).kill9();
    let next = cluster.wait_for_other_leader(leader);
    for node in [next, 3 - leader - next] {
        let answer = buy(&cluster, "ebcdic", cluster.node(node).door("ebcdic"));
        assert!(is_approved(&answer), "node {node}: {answer}");
    }
}

#[test]
fn an_address_of_a_further_door_that_is_in_use_is_named_at_the_start() {
    let mut cluster = Cluster::of(Installation::init(1, 922));
    let taken = cluster.node(0).iso8583;
    drop(cluster.take(2));
    let door = format!("[[iso8583_doors]]\nname = \"second\"\naddress = \"{taken}\"\n");
    fs::write(cluster.data(2).join("cardswitch.toml"), door).expect("a file can be written");
    let data = cluster.data(2);
    let data = data.to_str().expect("temporary paths are UTF-8");
    let free = "127.0.0.1:0";
    let serve = ["serve", "--data", data, "--node", "node-2", "--http", free, "--iso8583", free];
    let error = cluster.command(&serve).expect_one_line_error();
    assert!(error.contains(&format!("cannot listen at {taken}")), "{error}");
}
