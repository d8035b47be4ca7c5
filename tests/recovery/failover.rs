//! A cluster whose machines die under load: no answer that was seen is lost, none is there twice, and a former
//! leader gives no answer.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use cardswitch_harness::{
    Cluster, Installation, MailServer, Purchase, Random, Route, Switch, TestCard, campaign_scaled,
    free_addresses, last_json_line, run_cardswitch, seed_for, transactions_of_card,
};

use serde_json::json;

use crate::kill::{audit, is_approved, raise_limits, settle_unknown};
use crate::load::{SentPurchase, run_acquirer};

const CONNECTIONS: u64 = 3;
const CARDS_A_ROUND: usize = 6;

/// The blow to the cluster in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blow {
    /// kill -9 of the leader.
    Leader,
    /// kill -9 of a node that follows.
    Follower,
    /// The leader stands still, as a machine that swaps, until another one leads; then it goes on.
    FrozenLeader,
    /// kill -9 of a member of etcd.
    Etcd,
    /// kill -9 of the leader and of a member of etcd, as if they shared a machine.
    Machine,
    /// kill -9 of every member of etcd.
    AllOfEtcd,
    /// The leader is asked to let another one lead.
    StepDown,
}

const BLOWS: [Blow; 7] = [
    Blow::Leader,
    Blow::FrozenLeader,
    Blow::Machine,
    Blow::Follower,
    Blow::StepDown,
    Blow::Etcd,
    Blow::AllOfEtcd,
];

#[test]
fn a_cluster_loses_no_answer_whatever_dies() {
    let mut random = Random::new(seed_for("a_cluster_loses_no_answer"));
    let cluster = Cluster::of(Installation::init(200, random.next_u64() >> 1));
    endure(cluster, &mut random, (&BLOWS, campaign_scaled(14, 500)), strike);
}

/// Strikes a cluster under load again and again, audits every answer that was seen, and ends with three
/// nodes that hold the same.
pub(crate) fn endure<B: Copy + Debug>(
    mut cluster: Cluster,
    random: &mut Random,
    (blows, rounds): (&[B], usize),
    strike: impl Fn(&mut Cluster, (B, usize), &mut Random),
) {
    let cards = cluster.installation.cards.with_profile("ordinary");
    let cards: Vec<TestCard> = cards.into_iter().cloned().collect();
    let mut earlier: Vec<SentPurchase> = Vec::new();
    for round in 0..rounds {
        let blow = blows[round % blows.len()];
        let chosen: Vec<TestCard> = (0..CARDS_A_ROUND)
            .map(|n| cards[(round * CARDS_A_ROUND + n) % cards.len()].clone())
            .collect();
        let leader = cluster.wait_for_leader();
        raise_limits(cluster.node(leader), &chosen);
        let sent = load(&mut cluster, &chosen, random, |cluster, random| {
            strike(cluster, (blow, leader), random);
        });
        let approvals = sent.iter().filter(|sent| is_approved(&sent.fate)).count();
        let leads = cluster.wait_for_leader();
        eprintln!(
            "round {round}: {blow:?}, {leader} led and {leads} leads; {approvals} of {}",
            sent.len()
        );
        // The door of a node that follows answers as the leader's does.
        let door = cluster.wait_for_doors((leads + round) % 3);
        audit(door, &sent);
        settle_unknown(door, &sent);
        earlier.extend(sent);
    }
    let leads = cluster.wait_for_leader();
    audit(cluster.node(leads), &earlier);
    let seen = earlier.iter().filter(|sent| is_approved(&sent.fate)).count();
    assert!(seen > 0, "no purchase was approved: nothing was tested");
    cluster.wait_until_level();
    cluster.stop();
    let reports = (0..3).map(|node| verify(&cluster, node)).collect::<Vec<_>>();
    let state = |node: usize| (&reports[node]["state_hash"], &reports[node]["records"]);
    assert_eq!(state(0), state(1), "the nodes hold the same");
    assert_eq!(state(0), state(2), "the nodes hold the same");
}

/// Lets a switch write to a directory by itself. Its barrier alone would be that of any other node.
fn stray(installation: &Installation, data: &Path) {
    let switch = installation.serve_directory(data, &[]);
    let purchase = Purchase::of(installation.cards.ordinary(), 5);
    switch.acquirer().ask(&purchase.request()).expect_approved();
    switch.stop();
}

pub(crate) fn text_of(path: &Path) -> &str {
    path.to_str().expect("temporary paths are UTF-8")
}

fn verify(cluster: &Cluster, node: usize) -> serde_json::Value {
    let data = cluster.data(node);
    let output = run_cardswitch(&["verify", "--json", "--data", text_of(&data)]);
    assert_eq!(output.code, Some(0), "node {node}: {output:#?}");
    last_json_line(&output.stdout)
}

/// Longer than a cut connection takes to end; a door holds one for three seconds.
const HELD_FOR: Duration = Duration::from_millis(500);

/// Loads the doors of all nodes while `strike` strikes and mends, and returns the purchases sent, with the
/// answers seen.
fn load(
    cluster: &mut Cluster,
    cards: &[TestCard],
    random: &mut Random,
    strike: impl FnOnce(&mut Cluster, &mut Random),
) -> Vec<SentPurchase> {
    let doors: Vec<SocketAddr> = (0..3).map(|node| cluster.wait_for_doors(node).iso8583).collect();
    let seeds: Vec<u64> = (0..CONNECTIONS).map(|_| random.next_u64()).collect();
    thread::scope(|scope| {
        let load = |(seed, door)| scope.spawn(move || run_acquirer(door, cards, seed));
        let acquirers: Vec<_> = seeds.into_iter().zip(doors).map(load).collect();
        thread::sleep(Duration::from_millis(random.between(20, 600)));
        strike(cluster, random);
        // An acquirer still sends if its door was not the one that broke. It is cut off here; once more where a
        // door held the connection until the next one led.
        while acquirers.iter().any(|acquirer| !acquirer.is_finished()) {
            cluster.step_down();
            thread::sleep(HELD_FOR);
        }
        acquirers.into_iter().flat_map(|one| one.join().expect("an acquirer ends")).collect()
    })
}

/// Strikes, and mends the damage.
pub(crate) fn strike(cluster: &mut Cluster, (blow, leader): (Blow, usize), random: &mut Random) {
    let pause = Duration::from_millis(random.between(20, 600));
    let (member, follower) = (random.index(3), (leader + 1 + random.index(2)) % 3);
    match blow {
        Blow::Leader => {
            cluster.take(leader).kill9();
            cluster.wait_for_other_leader(leader);
            cluster.start(leader);
        }
        Blow::Follower => {
            cluster.take(follower).kill9();
            cluster.start(follower);
        }
        Blow::FrozenLeader => {
            cluster.node(leader).signal("STOP");
            cluster.wait_for_other_leader(leader);
            cluster.node(leader).signal("CONT");
        }
        Blow::Etcd => {
            cluster.kill_etcd(member);
            thread::sleep(pause);
            cluster.start_etcd(member);
        }
        Blow::Machine => {
            cluster.kill_etcd(member);
            cluster.take(leader).kill9();
            cluster.wait_for_other_leader(leader);
            cluster.start(leader);
            cluster.start_etcd(member);
        }
        Blow::AllOfEtcd => {
            (0..3).for_each(|member| cluster.kill_etcd(member));
            thread::sleep(pause);
            (0..3).for_each(|member| cluster.start_etcd(member));
            cluster.wait_for_etcd();
        }
        Blow::StepDown => {
            cluster.step_down();
        }
    }
}

#[test]
fn a_node_that_was_away_reads_on_and_one_that_lost_its_disk_begins_as_a_copy() {
    let mut cluster = Cluster::of(Installation::init(60, 77));
    let card = cluster.installation.cards.ordinary().clone();
    let leader = cluster.wait_for_leader();
    let (away, lost) = ((leader + 1) % 3, (leader + 2) % 3);
    cluster.take(away).kill9();
    for amount in 1..50 {
        let purchase = Purchase::of(&card, amount);
        cluster.node(lost).acquirer().ask(&purchase.request()).expect_approved();
    }
    cluster.start(away);
    cluster.take(lost).kill9();
    cluster.join(lost);
    cluster.start(lost);
    cluster.wait_until_level();
    cluster.stop();
    let records = [0, 1, 2].map(|node| verify(&cluster, node)["records"].clone());
    assert!(records[0] == records[1] && records[1] == records[2], "{records:?}");
}

/// Once, each new connection asked the first member first, and gave up with it: a node that took over ended at
/// once.
#[test]
fn a_member_of_etcd_that_takes_connections_and_is_silent_holds_nobody_up() {
    let cluster = Cluster::with_default_silence(Installation::init(60, 918));
    let card = cluster.installation.cards.ordinary().clone();
    for member in 0..3 {
        let leader = cluster.wait_for_leader();
        cluster.signal_etcd(member, "STOP");
        cluster.node(leader).signal("STOP");
        let leads = cluster.wait_for_other_leader(leader);
        let purchase = Purchase::of(&card, 3);
        cluster.node(leads).acquirer().ask(&purchase.request()).expect_approved();
        cluster.node(leader).signal("CONT");
        cluster.signal_etcd(member, "CONT");
        cluster.wait_for_doors(leader);
        cluster.wait_until_level();
    }
}

/// Longer than a leader that has closed its doors waits for etcd.
const STOP_DELAY: Duration = Duration::from_secs(7);

/// Once, a leader gave up on etcd five seconds after it had announced its stop, and refused everything until the delay
/// was over.
#[test]
fn a_leader_that_stops_approves_until_its_delay_is_over() {
    let installation = Installation::init(60, 919);
    let settings = format!("stop_delay_s = {}\n", STOP_DELAY.as_secs());
    std::fs::write(installation.data().join("cardswitch.toml"), settings).expect("a file");
    let cluster = Cluster::of(installation);
    let leader = cluster.node(cluster.wait_for_leader());
    let mut acquirer = leader.acquirer();
    let asked = Instant::now();
    leader.ask_to_stop();
    loop {
        let purchase = Purchase::of(cluster.installation.cards.ordinary(), 1);
        let is_sent = acquirer.send(&purchase.request()).is_ok();
        let Some(answer) = is_sent.then(|| acquirer.receive().ok()).flatten() else { break };
        answer.expect_approved();
        thread::sleep(Duration::from_millis(20));
    }
    assert!(asked.elapsed() >= STOP_DELAY, "it closed its doors early");
}

/// A letter waits for the mail server when the leader dies. The next one sends it, and tells nobody twice.
#[test]
fn letters_that_wait_are_sent_by_the_next_leader() {
    let [address, ..] = free_addresses();
    let installation = Installation::init(60, 83);
    let settings = format!("[mail]\nsmtp_url = \"smtp://{address}?tls=none\"\n");
    std::fs::write(installation.data().join("cardswitch.toml"), settings).expect("a file");
    let mut cluster = Cluster::of(installation);
    let first = cluster.wait_for_leader();
    let api = cluster.node(first).api();
    let member = json!({"email": "grace@example.com", "first_name": "Grace", "last_name": "H"});
    let member = api.post("/v1/members", &member).expect(201);
    let card = json!({
        "description": "Books",
        "is_virtual": true,
        "assigned_to": {"id": member["id"]},
        "allowance": {"amount": 500, "transaction_limit": 20},
    });
    let card = api.post("/v1/cards", &card).expect(201);
    let purchase = json!({"card_id": card["id"], "amount": 21, "merchant": {"name": "Bar"}});
    let decline = |switch: &Switch| {
        let answer = switch.network_api().post("/network/v1/authorizations", &purchase);
        assert_eq!(answer.expect(200)["response_code"], 1503);
    };
    decline(cluster.node(first));
    // An invitation, and the letter about the decline.
    let watcher = cluster.node(first).watcher();
    wait_until(|| watcher.get("/metrics").text().contains("\ncardswitch_mail_waiting_emails 2\n"));
    cluster.take(first).kill9();
    let second = cluster.wait_for_other_leader(first);
    let mail = MailServer::start(address);
    wait_until(|| mail.letters().len() == 2);
    decline(cluster.wait_for_doors(second));
    wait_until(|| mail.letters().len() > 2);
    let letters = mail.letters();
    let ids: BTreeSet<_> = letters.iter().filter_map(|letter| message_id(letter)).collect();
    assert_eq!((letters.len(), ids.len()), (3, 3), "{letters:?}");
}

fn wait_until(is_so: impl Fn() -> bool) {
    while !is_so() {
        thread::sleep(Duration::from_millis(20));
    }
}

fn message_id(letter: &str) -> Option<&str> {
    letter.lines().find(|line| line.starts_with("Message-ID:"))
}

#[test]
fn the_directory_of_a_node_is_written_by_its_node_alone_until_it_leaves() {
    let mut cluster = Cluster::of(Installation::init(60, 80));
    cluster.stop();
    let data = cluster.data(1);
    let data = text_of(&data);
    let company = cluster.installation.credentials.company_id.clone();
    for command in [
        &["serve", "--data", data, "--http", "127.0.0.1:0", "--iso8583", "127.0.0.1:0"][..],
        &["token", "add", "--data", data, "--company", &company],
        &["cluster", "adopt", "--data", data, "--journal", &cluster.journal],
    ] {
        let error = run_cardswitch(command).expect_one_line_error();
        assert!(error.contains("a node of etcd://") && error.contains("cluster leave"), "{error}");
    }
    run_cardswitch(&["verify", "--data", data]).expect_done();
    run_cardswitch(&["cluster", "leave", "--data", data]).expect_done();
    let again = run_cardswitch(&["cluster", "leave", "--data", data]).expect_one_line_error();
    assert!(again.contains("is of no cluster"), "{again}");
    stray(&cluster.installation, &cluster.data(1));
    // Its later records are no part of the chain.
    let further = ["--journal", &cluster.journal, "--node", "node-1"];
    let mut serve =
        vec!["serve", "--data", data, "--http", "127.0.0.1:0", "--iso8583", "127.0.0.1:0"];
    serve.extend(further);
    let refused = run_cardswitch(&serve).expect_one_line_error();
    assert!(refused.contains("one chain") || refused.contains("does not continue"), "{refused}");
}

#[test]
fn what_is_no_node_of_the_cluster_is_refused() {
    let cluster = Cluster::of(Installation::init(60, 78));
    let other = Installation::init(60, 79);
    let refused = |journal: &str, data: &Path, node: &str| {
        let data = text_of(data);
        let doors = ["--http", "127.0.0.1:0", "--iso8583", "127.0.0.1:0"];
        let mut arguments = vec!["serve", "--data", data, "--journal", journal, "--node", node];
        arguments.extend(doors);
        run_cardswitch(&arguments).expect_one_line_error()
    };
    let elsewhere = cluster.journal.replace("/test", "/other");
    let cases = [
        (refused(&elsewhere, &other.data(), "x"), "is no cluster yet"),
        (refused(&cluster.journal, &other.data(), "x"), "is the cluster of data directory"),
        (refused(&cluster.journal, &other.data(), ""), "cluster.node"),
    ];
    for (error, expected) in cases {
        assert!(error.contains(expected), "{error}");
    }
    let data = other.data();
    let adopted = cluster.command(&["cluster", "adopt", "--data", text_of(&data)]);
    assert!(adopted.expect_one_line_error().contains("is a cluster already"));
    // It has written by itself: its records are no part of the chain.
    let strayed = other.home().join("strayed");
    let backup = other.home().join("backup");
    let [backup, strayed_text] = [&backup, &strayed].map(|path| text_of(path));
    let from = cluster.data(cluster.wait_for_leader());
    let key = cluster.master_key();
    let (from, key) = (text_of(&from), text_of(&key));
    run_cardswitch(&["backup", "--data", from, "--to", backup]).expect_done();
    let restore = ["restore", "--from", backup, "--data", strayed_text, "--master-key", key];
    run_cardswitch(&restore).expect_done();
    stray(&cluster.installation, &strayed);
    let error = refused(&cluster.journal, &strayed, "x");
    assert!(error.contains("one chain") || error.contains("does not continue"), "{error}");
    // Once, it stayed in the list, and everybody waited for it.
    let status = cluster.status().expect("etcd answers");
    let nodes = status["nodes"].as_array().expect("nodes");
    assert!(nodes.iter().all(|node| node["name"] != "x"), "{status:#}");
}

#[test]
fn operators_change_a_cluster_at_its_leader_and_are_told_so_elsewhere() {
    let mut cluster = Cluster::of(Installation::init(3, 907));
    let leader = cluster.wait_for_leader();
    let company = cluster.installation.credentials.company_id.clone();
    let list = |node: usize| {
        let data = cluster.data(node);
        let data = data.to_str().expect("UTF-8");
        run_cardswitch(&["token", "list", "--data", data, "--company", &company, "--json"])
    };
    assert_eq!(list(leader).expect_json()["tokens"].as_array().map(Vec::len), Some(1));
    let refused = list((leader + 1) % 3).expect_one_line_error();
    let named = format!("the data directory of node-{leader}, which leads at 127.0.0.1:");
    assert!(refused.contains(&named), "{refused}");
    cluster.stop();
}

/// The router learns of no leader: it tries the addresses of the cell, whose nodes find theirs.
#[test]
fn a_router_finds_the_next_leader_of_a_cell() {
    let mut cluster = Cluster::of(Installation::init_with(60, 2_407, &["--cell", "07"]));
    let nodes = [0, 1, 2].map(|node| cluster.wait_for_doors(node));
    let route = Route::before(&[("07", &nodes)]);
    let (card, credentials) =
        (cluster.installation.cards.ordinary().clone(), cluster.installation.credentials.clone());
    let api = route.api(&credentials.access_token);
    let mut acquirer = route.acquirer();
    for round in 0..2 {
        let (before, after) = (Purchase::of(&card, 100), Purchase::of(&card, 200));
        acquirer.ask(&before.request()).expect_approved();
        let leader = cluster.wait_for_leader();
        cluster.take(leader).kill9();
        let mut message = after.request();
        while acquirer.ask(&message).response() != "00" {
            message.mti = "0101".to_owned();
        }
        let tag = json!({"name": format!("Travel {round}")});
        while api.post("/v1/categories", &tag).status != 201 {}
        let found =
            transactions_of_card(&route.network_api(&credentials.network_key), &card.card_id);
        for purchase in [before, after] {
            let own = found.iter().filter(|found| found.rrn == purchase.rrn);
            assert_eq!(own.map(|own| own.state.as_str()).collect::<Vec<_>>(), ["pending"]);
        }
        cluster.start(leader);
        cluster.wait_for_doors(leader);
    }
    drop(route);
    cluster.wait_until_level();
    cluster.stop();
}
