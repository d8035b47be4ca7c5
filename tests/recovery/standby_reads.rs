//! Reads at any node of a cluster: a client that hands in `min_seq` reads what it wrote, a node that follows
//! answers from its own tables, and a leader that was cut off shows nothing old as current.

use std::net::Ipv4Addr;

use cardswitch_harness::{Acquirer, Cluster, HttpRequest, HttpResponse, Installation, Purchase};
use serde_json::json;

const SEQ: &str = "cardswitch-seq";

fn seq_of(answer: &HttpResponse) -> u64 {
    let seq = answer.header(SEQ).expect("answers of /v1 have a sequence number");
    seq.parse().expect("it is a number")
}

fn first_card(cluster: &Cluster) -> String {
    cluster.installation.cards.ordinary().card_id.clone()
}

/// How many requests a node has answered at the route of one card.
fn answered_here(cluster: &Cluster, node: usize) -> u64 {
    let figures = cluster.node(node).watcher().get("/metrics").text();
    let of_route = |line: &&str| line.contains("_count{") && line.contains("/v1/cards/{card_id}\"");
    let counts = figures.lines().filter(of_route).filter_map(|line| line.rsplit(' ').next());
    counts.filter_map(|count| count.parse::<u64>().ok()).sum()
}

#[test]
fn a_client_reads_what_it_wrote_at_every_node() {
    let cluster = Cluster::of(Installation::init(5, 912));
    let leader = cluster.wait_for_leader();
    let [near, far] = [(leader + 1) % 3, (leader + 2) % 3];
    let card = first_card(&cluster);
    let before = answered_here(&cluster, far);
    for turn in 0..50 {
        let description = format!("Turn {turn}");
        let body = json!({ "description": description });
        let written = cluster.node(near).api().put(&format!("/v1/cards/{card}"), &body);
        written.expect(200);
        let path = format!("/v1/cards/{card}?min_seq={}", seq_of(&written));
        let read = cluster.node(far).api().get(&path);
        assert_eq!(read.expect(200)["description"], description, "turn {turn}");
        assert!(seq_of(&read) >= seq_of(&written));
    }
    assert!(answered_here(&cluster, far) > before, "the node answered from its own tables");
    // A purchase is durable before the tables show it.
    let purchase =
        json!({"card_id": card, "amount": 1.5, "merchant": {"mcc": 5812, "name": "Bar"}});
    let bought = cluster.node(near).network_api().post("/network/v1/authorizations", &purchase);
    let id = bought.expect(200)["transaction_id"].as_str().expect("an id").to_owned();
    let path = format!("/v1/transactions/{id}?min_seq={}", seq_of(&bought));
    cluster.node(far).api().get(&path).expect(200);
}

#[test]
fn what_a_follower_cannot_answer_the_leader_answers() {
    let cluster = Cluster::of(Installation::init(3, 913));
    let leader = cluster.wait_for_leader();
    let follower = cluster.node((leader + 1) % 3).api();
    let refused = follower.get("/v1/cards?min_seq=x").expect_error(400);
    assert_eq!(refused["param"], "min_seq");
    let refused = follower.get("/v1/cards?min_seq=99999999").expect_error(400);
    assert_eq!((&refused["code"], &refused["param"]), (&json!("out_of_range"), &json!("min_seq")));
    follower.get("/v1/webhook-endpoints").expect(200);
    follower.get("/v1/nothing").expect_error(404);
    cluster.node((leader + 1) % 3).anonymous().get("/v1/cards").expect_error(401);
    // Without etcd no node is sure to lead, and no follower hears anything; a client's earlier reads can be
    // repeated.
    let seq = seq_of(&cluster.node(leader).api().get("/v1/cards"));
    let mut cluster = cluster;
    (0..3).for_each(|member| cluster.kill_etcd(member));
    let unsure = cluster.node(leader).api().get("/v1/cards");
    assert_eq!(unsure.expect_error(503)["code"], "no_leader");
    assert!(unsure.header("retry-after").is_some());
    cluster.node(leader).api().get(&format!("/v1/cards?min_seq={seq}")).expect(200);
    (0..3).for_each(|member| cluster.start_etcd(member));
    cluster.wait_for_etcd();
    cluster.node(leader).api().get(&format!("/v1/cards?min_seq={seq}")).expect(200);
}

/// A leader that stood still while another one took over has tables that lack the later changes.
#[test]
fn a_leader_that_was_cut_off_shows_nothing_old_as_current() {
    let cluster = Cluster::of(Installation::init(3, 914));
    let card = first_card(&cluster);
    for turn in 0..4 {
        let old = cluster.wait_for_leader();
        cluster.node(old).signal("STOP");
        let new = cluster.wait_for_other_leader(old);
        let body = json!({"description": format!("After the change {turn}")});
        let path = format!("/v1/cards/{card}");
        cluster.node(new).api().put(&path, &body).expect(200);
        cluster.node(old).signal("CONT");
        let headers = &[];
        let read = HttpRequest { method: "GET", path: &path, headers, body: b"" };
        // It answers that it does not know, or breaks off, until it follows: then the new one answers, or
        // it does from tables that have the change.
        let shown = loop {
            let answer = cluster.node(old).api().try_send(&read);
            if let Some(answer) = answer.filter(|answer| answer.status == 200) {
                break answer.json();
            }
        };
        assert_eq!(shown["description"], body["description"], "turn {turn}");
    }
}

#[test]
fn a_follower_takes_iso_8583_of_its_peers_alone() {
    let mut cluster = Cluster::of(Installation::init(3, 915));
    let follower = (cluster.wait_for_leader() + 1) % 3;
    let settings = "iso8583_peers = [\"127.0.0.2\"]\n";
    std::fs::write(cluster.data(follower).join("cardswitch.toml"), settings).expect("a file");
    cluster.take(follower).kill9();
    cluster.start(follower);
    let door = cluster.wait_for_doors(follower).iso8583;
    let request = Purchase::of(cluster.installation.cards.ordinary(), 7).request();
    let from = |last| Acquirer::connect_from(Ipv4Addr::new(127, 0, 0, last), door);
    from(2).ask(&request).expect_approved();
    let mut stranger = from(3);
    // The system may still take the stranger's bytes.
    let _ = stranger.send(&request);
    assert!(stranger.receive().is_err(), "a stranger is turned away");
}
