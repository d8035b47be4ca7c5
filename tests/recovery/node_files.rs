//! The files that a node names in its settings: it leads with those that it could use when it began to follow.

use std::fs;
use std::path::{Path, PathBuf};

use cardswitch_harness::{Authority, Cluster, Installation, run_cardswitch, write_private};
use serde_json::Value;

use crate::failover::text_of;

/// The files of a node, by their use.
const FILES: [&str; 4] = ["faults.toml", "http.pem", "iso8583.pem", "zone.keys"];

/// Serves a directory as a node of a cluster that nobody reaches, with settings of its own, to its end.
#[track_caller]
fn refusal_with(installation: &Installation, settings: &str) -> String {
    installation.configure(settings);
    let (data, any) = (installation.data(), "127.0.0.1:0");
    let serve = ["serve", "--data", text_of(&data), "--node", "a"];
    let doors = ["--http", any, "--iso8583", any, "--metrics", any];
    let etcd = ["--journal", "etcd://127.0.0.1:1/nobody"];
    let refused = run_cardswitch(&[&serve[..], &doors, &etcd].concat());
    assert_eq!(refused.stdout, "", "it announces nothing");
    refused.expect_one_line_error()
}

/// Once, it followed, and ended when it was to lead.
#[test]
fn a_node_with_an_unusable_file_does_not_follow() {
    let installation = Installation::init(1, 931);
    for (settings, named) in [
        ("faults = \"/gone.toml\"\n", "/gone.toml"),
        ("[tls]\ncertificate = \"/gone.pem\"\nkey = \"/gone.key\"\n", "TLS of http"),
        ("[iso8583_zone]\nkeys = \"/gone.keys\"\n", "zone of iso8583"),
    ] {
        let error = refusal_with(&installation, settings);
        assert!(error.contains(named), "{settings}: {error}");
    }
}

/// Makes the files of a node, and the settings that name them.
fn make_files(folder: &Path, authority: &Authority, node: usize) -> (Vec<PathBuf>, String) {
    let files: Vec<_> = FILES.iter().map(|name| folder.join(format!("{node}-{name}"))).collect();
    let [faults, http, iso8583, zone] = &files[..] else { unreachable!("four files") };
    fs::write(faults, "[[webhooks]]\nfault = \"twice\"\n").expect("a file can be written");
    write_private(zone, "pin = { tdes = \"0123456789abcdeffedcba9876543210\" }\n");
    let table = |name: &str, file: &Path| {
        let issued = authority.issue(&format!("{node}-{name}-issued"));
        fs::copy(&issued.certificate, file).expect("a file can be copied");
        let (certificate, key) = (file.display(), issued.key.display());
        format!("[{name}]\ncertificate = \"{certificate}\"\nkey = \"{key}\"\n")
    };
    let (faults, zone) = (faults.display(), zone.display());
    let first = format!("faults = \"{faults}\"\n[iso8583_zone]\nkeys = \"{zone}\"\n");
    let settings = [first, table("tls", http), table("iso8583_tls", iso8583)].concat();
    (files, settings)
}

/// Once, it read them anew when it was to lead, and ended: nobody led.
#[test]
fn a_follower_whose_files_break_says_so_and_leads_with_the_former_ones() {
    let mut cluster = Cluster::of(Installation::init(1, 932));
    let home = cluster.installation.home().to_path_buf();
    let authority = Authority::new(&home, "authority");
    cluster.stop();
    let mut files = Vec::new();
    for node in 0..3 {
        let (made, settings) = make_files(&home, &authority, node);
        fs::write(cluster.data(node).join("cardswitch.toml"), settings).expect("a file");
        files.extend(made);
        cluster.start(node);
    }
    let leader = cluster.wait_for_leader();
    cluster.wait_until_known();
    let followers = (0..3).filter(|node| *node != leader);
    for node in followers.clone() {
        cluster.wait_for_doors(node);
    }
    files.iter().for_each(|file| fs::write(file, "spoilt").expect("a file can be written"));
    for node in followers {
        for door in ["Http", "Iso8583"] {
            cluster.node(node).wait_for_log(&["the certificates before stay in use", door]);
        }
    }
    cluster.take(leader).kill9();
    let next = cluster.wait_for_other_leader(leader);
    let told = cluster.wait_until_told(next, |told| told["status"] == "ready");
    assert_ne!(told["faults"], Value::Null, "{told}");
}
