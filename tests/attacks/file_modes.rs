//! Other users of the machine: they can read no file of a data directory, a backup or a restored directory,
//! under any umask of the switch.

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use cardswitch_harness::{Browser, HttpRequest, Installation, Purchase, Switch, cardswitch_after};
use tempfile::TempDir;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n of a receipt";

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are UTF-8")
}

/// Everything below a folder, itself among it.
fn everything_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![folder.to_owned()];
    let mut at = 0;
    while let Some(place) = found.get(at).cloned() {
        at += 1;
        if place.is_dir() {
            let entries = fs::read_dir(&place).expect("a directory can be read");
            found.extend(entries.map(|entry| entry.expect("an entry").path()));
        }
    }
    found
}

/// Asserts that only the owner may do anything with what is below `folder`; returns the names there.
#[track_caller]
fn expect_private(folder: &Path) -> Vec<String> {
    let everything = everything_below(folder);
    for path in &everything {
        let found = path.symlink_metadata().expect("it is there");
        let mode = found.permissions().mode() & 0o777;
        let expected = if found.is_dir() { 0o700 } else { 0o600 };
        let kind = if found.file_type().is_socket() { "socket" } else { "file" };
        assert_eq!(mode, expected, "{kind} {} has mode {mode:o}", path.display());
    }
    everything.iter().map(|path| text(path).to_owned()).collect()
}

#[track_caller]
fn run(umask: &str, arguments: &[&str]) {
    let output =
        cardswitch_after(&format!("umask {umask}"), arguments).stdin(Stdio::null()).output();
    let output = output.expect("sh is there");
    assert!(output.status.success(), "{arguments:?}: {output:?}");
}

fn expect_private_under(umask: &str) {
    let installation = Installation::init(30, 8_910);
    let (data, cards) = (installation.data(), installation.home().join("more.jsonl"));
    fs::remove_dir_all(&data).expect("init made it under another umask");
    let init = ["init", "--data", text(&data), "--seed", "8910", "--retention", "1GiB"];
    run(umask, &[&init[..], &["--cards", "30", "--cards-out", text(&cards)]].concat());
    let switch = installation.serve_after(&format!("umask {umask}"));
    fill(&installation, &switch);
    let home = installation.home();
    let [running, at_rest, restored, key] =
        ["running", "rest", "restored", "key"].map(|name| home.join(name));
    run(umask, &["backup", "--data", text(&data), "--to", text(&running)]);
    run(umask, &["rotate-pan-key", "--data", text(&data)]);
    run(umask, &["rotate-master-key", "--data", text(&data)]);
    let names = expect_private(&data).join("\n");
    for name in [
        "/directory",
        "/data.key",
        "/master.key",
        "/master.key.old",
        "/pan_seal.keys",
        "/store.redb",
        "/journal/head",
        "/journal/ack",
        "/journal/0000000000000001.segment",
        "/deliveries.redb",
        "/deliveries.places",
        "/cardswitch.toml",
        "/control.sock",
        "/receipts/",
        "/outbox/",
        "/mail/",
    ] {
        assert!(names.contains(name), "{name} was not looked at: {names}");
    }
    switch.stop();
    expect_private(&data);
    run(umask, &["backup", "--data", text(&data), "--to", text(&at_rest)]);
    run(umask, &["rotate-master-key", "--data", text(&data), "--new-master-key", text(&key)]);
    let old = data.join("master.key");
    let from = ["restore", "--from", text(&at_rest), "--data", text(&restored)];
    run(umask, &[&from[..], &["--master-key", text(&old)]].concat());
    for folder in [&data, &running, &at_rest, &restored] {
        expect_private(folder);
    }
    for file in [&key, &cards] {
        assert_eq!(
            fs::metadata(file).expect("its metadata").permissions().mode() & 0o777,
            0o600,
            "{file:?}"
        );
    }
}

/// Leaves something in each folder: a receipt, a letter.
fn fill(installation: &Installation, switch: &Switch) {
    let card = installation.cards.ordinary();
    assert_eq!(switch.acquirer().ask(&Purchase::of(card, 100).request()).response(), "00");
    let path = "/v1/transactions?limit=1";
    let found = switch.api().get(path).expect(200);
    let id = found["results"][0]["id"].as_str().expect("a transaction").to_owned();
    let path = format!("/v1/transactions/{id}/receipt");
    let headers = &[("content-type", "image/png")];
    let request = HttpRequest { method: "POST", path: &path, headers, body: PNG };
    switch.api().send(&request).expect(201);
    let mut browser = Browser::new(switch.http);
    let email = [("email", installation.credentials.admin_email.as_str())];
    assert_eq!(browser.fill("/password/forgot", &email).status, 200);
    let asked = Instant::now();
    let outbox = installation.data().join("outbox");
    while fs::read_dir(&outbox).map_or(0, Iterator::count) == 0 {
        assert!(asked.elapsed() < Duration::from_secs(60), "no letter came");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn every_file_is_its_owners_alone_under_the_usual_umask() {
    expect_private_under("022");
}

#[test]
fn every_file_is_its_owners_alone_under_no_umask_at_all() {
    expect_private_under("000");
}

/// `man --dir` writes for everybody.
#[test]
fn manual_pages_are_for_everybody() {
    let home = TempDir::new().expect("a temporary directory");
    run("022", &["man", "--dir", text(&home.path().join("man"))]);
    let page = everything_below(home.path()).into_iter().find(|path| path.is_file());
    let page = page.expect("a page");
    assert_eq!(fs::metadata(page).unwrap().permissions().mode() & 0o777, 0o644);
}
