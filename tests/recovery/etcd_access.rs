//! An etcd that speaks TLS alone, asks for certificates and has users: nodes take part with their credentials,
//! and no other client does.

use std::fs;
use std::path::Path;

use cardswitch_harness::{Authority, Cluster, Installation, Purchase, run_cardswitch};
use serde_json::json;

use crate::failover::text_of;

const USER: &str = "cardswitch";
const PASSWORD: &str = "a password of etcd";

/// Makes users of etcd, one of which may do the work of a node and nothing else.
#[track_caller]
fn make_users(cluster: &Cluster) {
    let key = cluster.etcd_text("test/");
    let end = cluster.etcd_text("test0");
    let permission = json!({"permType": "READWRITE", "key": key, "range_end": end});
    for (path, body) in [
        ("user/add", json!({"name": "root", "password": "root"})),
        ("role/add", json!({"name": "root"})),
        ("user/grant", json!({"user": "root", "role": "root"})),
        ("role/add", json!({"name": "node"})),
        ("role/grant", json!({"name": "node", "perm": permission})),
        ("user/add", json!({"name": USER, "password": PASSWORD})),
        ("user/grant", json!({"user": USER, "role": "node"})),
        ("user/add", json!({"name": "stranger", "password": PASSWORD})),
        ("enable", json!({})),
    ] {
        cluster.ask_etcd(&format!("auth/{path}"), &body);
    }
}

#[test]
fn nodes_take_part_by_certificates_and_as_users() {
    let mut cluster = Cluster::of(Installation::init(60, 84));
    cluster.stop();
    make_users(&cluster);
    let home = cluster.installation.home().to_path_buf();
    let file = |name: &str| home.join(name);
    let authority = Authority::new(&home, "authority");
    let (member, node) = (authority.issue("member"), authority.issue("node"));
    let ca = authority.certificate();
    cluster.restart_etcd_with_tls(&member, &ca);
    let password = file("password");
    fs::write(&password, format!("{PASSWORD}\n")).expect("a file can be written");
    let place = cluster.journal.replace("etcd://", "etcds://");
    let by = |ca: &Path, user: &str, password: &Path| {
        format!(
            "{place}?ca={}&cert={}&key={}&user={user}&password-file={}",
            text_of(ca),
            text_of(&node.certificate),
            text_of(&node.key),
            text_of(password)
        )
    };
    cluster.journal = by(&ca, USER, &password);
    (0..3).for_each(|node| cluster.start(node));
    let leader = cluster.wait_for_leader();
    let purchase = Purchase::of(cluster.installation.cards.ordinary(), 5);
    cluster.node(leader).acquirer().ask(&purchase.request()).expect_approved();
    cluster.step_down();

    let other = Authority::new(&home, "other");
    let wrong = file("wrong");
    fs::write(&wrong, "another").expect("a file can be written");
    let status = |journal: &str| {
        run_cardswitch(&["cluster", "status", "--journal", journal]).expect_one_line_error()
    };
    // Silence of a busy member is no verdict.
    let refused = |journal: &str, expected: &str| loop {
        let error = status(journal);
        if error.contains(expected) || !error.contains("is silent") {
            return error;
        }
    };
    for (journal, expected) in [
        (by(&other.certificate(), USER, &password), "invalid peer certificate"),
        (by(&ca, USER, &wrong), "invalid user ID or password"),
        (by(&ca, "stranger", &password), "permission denied"),
        (by(&ca, USER, &file("none")), "No such file"),
        (by(&password, USER, &password), "has no certificate"),
        (format!("{place}?ca={}", text_of(&ca)), "no member of etcd answers"),
        (place.replace("etcds://", "etcd://"), "no member of etcd answers"),
    ] {
        let error = refused(&journal, expected);
        assert!(error.contains(expected), "{journal}: {error}");
        assert!(!error.contains(PASSWORD), "{error}");
    }

    // Certificates are renewed while nodes run, here by another authority: the members trust no old one.
    let renewed = other.issue("renewed");
    for (new, old) in [
        (&renewed.certificate, &node.certificate),
        (&renewed.key, &node.key),
        (&other.certificate(), &ca),
    ] {
        fs::copy(new, old).expect("a file can be replaced");
    }
    cluster.restart_etcd_with_tls(&other.issue("renewed-member"), &other.certificate());
    cluster.step_down();
    let leader = cluster.wait_for_leader();
    let purchase = Purchase::of(cluster.installation.cards.ordinary(), 7);
    cluster.node(leader).acquirer().ask(&purchase.request()).expect_approved();
}
