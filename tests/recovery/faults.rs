//! Starts that must be refused, each with one clear line, and damage that must never pass silently.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use cardswitch_harness::{Installation, Purchase, last_json_line, run_cardswitch};

#[test]
fn second_process_on_a_data_directory_is_refused() {
    let installation = Installation::init(60, 911);
    let switch = installation.serve();
    let error = installation.serve_refused().expect_one_line_error();
    eprintln!("{error}");
    let request = Purchase::of(installation.cards.ordinary(), 1).request();
    switch.acquirer().ask(&request).expect_approved();
    switch.stop();
    installation.verify_ok();
}

#[test]
fn init_refuses_a_directory_that_is_in_use_already() {
    let installation = Installation::init(60, 912);
    let data = installation.data();
    let data = data.to_str().expect("UTF-8");
    run_cardswitch(&["init", "--data", data, "--json"]).expect_one_line_error();
    installation.verify_ok();
}

#[test]
fn port_in_use_is_named() {
    let installation = Installation::init(60, 913);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let taken = listener.local_addr().expect("a bound socket has an address");
    let free = "127.0.0.1:0".parse().expect("an address");
    for output in
        [installation.serve_refused_on(taken, free), installation.serve_refused_on(free, taken)]
    {
        let error = output.expect_one_line_error();
        assert!(error.contains(&taken.port().to_string()), "which port? `{error}`");
        assert_eq!(output.stdout, "", "it was never ready");
    }
    drop(listener);
    installation.serve().stop();
}

#[test]
fn missing_directory_is_refused() {
    let nowhere = "/nonexistent/cardswitch-data";
    for command in [
        vec!["serve", "--data", nowhere, "--http", "127.0.0.1:0", "--iso8583", "127.0.0.1:0"],
        vec!["verify", "--data", nowhere, "--json"],
    ] {
        let error = run_cardswitch(&command).expect_one_line_error();
        assert!(error.contains(nowhere), "which directory? `{error}`");
    }
}

#[test]
fn foreign_file_in_place_of_the_journal_is_refused() {
    let installation = Installation::init(60, 914);
    for foreign in [&b"this is no database"[..], &[0; 65_536], b""] {
        let file = installation.journal().join("head");
        fs::write(&file, foreign).expect("the file can be written");
        let error = installation.serve_refused().expect_one_line_error();
        assert!(error.contains("journal"), "which file? `{error}`");
        assert_verify_refuses(&installation);
        let kept = fs::read(&file).expect("the file is still there");
        assert_eq!(kept, foreign, "a file that is not ours is never written to");
    }
}

#[test]
fn missing_journal_is_never_replaced_by_an_empty_one() {
    let installation = Installation::init(60, 915);
    let switch = installation.serve();
    let request = Purchase::of(installation.cards.ordinary(), 1).request();
    switch.acquirer().ask(&request).expect_approved();
    switch.stop();
    fs::remove_dir_all(installation.journal()).expect("the journal is there");
    installation.serve_refused().expect_one_line_error();
    assert_verify_refuses(&installation);
}

#[test]
fn journal_of_another_directory_is_refused() {
    let (one, other) = (Installation::init(60, 916), Installation::init(60, 917));
    fs::remove_dir_all(one.journal()).expect("the journal is there");
    fs::rename(other.journal(), one.journal()).expect("a directory can be moved");
    one.serve_refused().expect_one_line_error();
    assert_verify_refuses(&one);
}

/// A bit that flips on the disk inside a record that recovery needs.
///
/// The record is found by its merchant's name. Further purchases follow it, each a commit of its
/// own, so that the damage cannot be taken for the torn end of an unfinished last commit.
#[test]
fn flipped_byte_in_the_journal_is_found() {
    const MARK: &str = "FLIPPED BYTE DINER";
    let installation = Installation::init(60, 918);
    let switch = installation.serve();
    let mut acquirer = switch.acquirer();
    let mut marked = Purchase::of(installation.cards.ordinary(), 1);
    marked.merchant_name = MARK.to_owned();
    acquirer.ask(&marked.request()).expect_approved();
    for _ in 0..5 {
        let request = Purchase::of(installation.cards.ordinary(), 1).request();
        acquirer.ask(&request).expect_approved();
    }
    switch.kill9();

    let flipped = flip_every(MARK.as_bytes(), &installation.journal_segment());
    assert!(flipped > 0, "the journal holds the merchant's name");
    assert_verify_refuses(&installation);
    let error = installation.serve_refused().expect_one_line_error();
    assert!(error.contains("journal"), "which file? `{error}`");
}

/// Reads take rows as they find them: only the sums of the pages tell that one was tampered with.
#[test]
fn flipped_byte_in_the_query_tables_is_found() {
    const MARK: &str = "FLIPPED ROW DINER";
    let installation = Installation::init(60, 921);
    let switch = installation.serve();
    let mut marked = Purchase::of(installation.cards.ordinary(), 1);
    marked.merchant_name = MARK.to_owned();
    switch.acquirer().ask(&marked.request()).expect_approved();
    switch.stop();

    let flipped = flip_every(MARK.as_bytes(), &installation.data().join("store.redb"));
    assert!(flipped > 0, "the tables hold the merchant's name");
    assert_verify_refuses(&installation);
    let error = installation.serve_refused().expect_one_line_error();
    assert!(error.contains("query tables"), "which file? `{error}`");
}

/// Tables that are gone are made again from the journal. A switch that called itself ready before
/// they were complete knew no access token yet.
#[test]
fn lost_query_tables_are_complete_again_when_the_switch_is_ready() {
    let installation = Installation::init(60, 922);
    let switch = installation.serve();
    let mut acquirer = switch.acquirer();
    for _ in 0..50 {
        let request = Purchase::of(installation.cards.ordinary(), 1).request();
        acquirer.ask(&request).expect_approved();
    }
    switch.kill9();
    fs::remove_file(installation.data().join("store.redb")).expect("the tables were there");

    let switch = installation.serve();
    let path = format!("/v1/transactions?card={}", installation.cards.ordinary().card_id);
    let listed = switch.api().get(&path).expect(200);
    assert_eq!(listed["count"], 50);
    switch.stop();
    installation.verify_ok();
}

/// Once, it said only that the switch had stopped.
#[test]
fn a_start_whose_first_commits_fail_gives_the_reason() {
    let installation = Installation::init(3, 926);
    let segment = installation.journal_segment();
    for (errno, reason) in [("ENOSPC", "No space left on device"), ("EIO", "Input/output error")] {
        let inject = format!("-P '{}' -e inject=pwritev2:error={errno}:when=2+", segment.display());
        let full = format!("set -- strace -f -qq -o /dev/null {inject} \"$@\"");
        let refused = installation.serve_refused_after(&full);
        let error = refused.expect_one_line_error();
        assert!(error.contains(reason), "{error}");
        assert_eq!(refused.stdout, "", "it was never ready");
    }
    installation.serve().stop();
    installation.verify_ok();
}

/// Where the tables are linked to a volume that is away, new ones are none of its business: once, they took the place
/// of the link.
#[test]
fn tables_on_a_volume_that_is_away_are_not_replaced() {
    let installation = Installation::init(3, 924);
    let store = installation.data().join("store.redb");
    let volume = installation.home().join("volume.redb");
    fs::rename(&store, &volume).expect("the tables are there");
    symlink(&volume, &store).expect("a link can be made");
    installation.serve().stop();
    let away = installation.home().join("away.redb");
    fs::rename(&volume, &away).expect("the tables are there");
    let error = installation.serve_refused().expect_one_line_error();
    assert!(error.contains("store.redb`: No such file"), "{error}");
    assert_eq!(fs::read_link(&store).expect("it is still the link"), volume);
    fs::rename(&away, &volume).expect("the tables are there");
    installation.verify_ok();
}

/// Once, a command of root at rest left files that the switch of another user could not open.
#[test]
fn root_writes_to_no_directory_of_another_user() {
    const NOBODY: &str = "65534";
    if !rustix::process::geteuid().is_root() {
        // Others cannot even read the directory.
        return;
    }
    let installation = Installation::init(3, 925);
    let data = installation.data();
    let data = data.to_str().expect("UTF-8");
    let give = |owner: &str| {
        let given = Command::new("chown").args(["-R", owner, data]).status();
        assert!(given.expect("chown is there").success());
    };
    give(NOBODY);
    let company = &installation.credentials.company_id;
    for refused in [
        installation.serve_refused(),
        run_cardswitch(&["token", "add", "--data", data, "--company", company]),
        run_cardswitch(&["rotate-pan-key", "--data", data]),
        run_cardswitch(&["rotate-master-key", "--data", data]),
    ] {
        let error = refused.expect_one_line_error();
        assert!(error.contains("sudo -u '#65534'"), "{error}");
    }
    let made_by_root = Command::new("find").args([data, "-user", "0"]).output();
    assert!(made_by_root.expect("find is there").stdout.is_empty(), "root left a file");
    // Readers leave nothing there.
    installation.verify_ok();
    give("0");
    installation.serve().stop();
}

#[test]
fn sigterm_ends_open_connections_cleanly() {
    let installation = Installation::init(60, 919);
    let switch = installation.serve();
    let mut idle = switch.acquirer();
    let mut half = switch.acquirer();
    half.send_raw(&[0, 100, b'0']).expect("the connection is open");
    idle.assert_alive();
    switch.stop();
    installation.verify_ok();
}

/// `verify` says no: exit code 1, and a report or a line that says why.
#[track_caller]
fn assert_verify_refuses(installation: &Installation) {
    let output = installation.verify();
    assert_eq!(output.code, Some(1), "verify must say no: {output:#?}");
    assert!(!output.stderr.contains("panicked"), "{output:#?}");
    if output.stdout.trim().is_empty() {
        output.expect_one_line_error();
    } else {
        assert_eq!(last_json_line(&output.stdout)["ok"], false);
    }
}

/// Flips one bit in every occurrence of `needle`; returns how many there were.
fn flip_every(needle: &[u8], path: &Path) -> usize {
    let mut bytes = fs::read(path).expect("the file can be read");
    let found: Vec<usize> = bytes
        .windows(needle.len())
        .enumerate()
        .filter(|(_, window)| *window == needle)
        .map(|(at, _)| at)
        .collect();
    for &at in &found {
        bytes[at + needle.len() / 2] ^= 0x01;
    }
    fs::write(path, bytes).expect("the file can be written");
    found.len()
}

/// With another key every card would be unknown, and new ones would be sealed by two keys.
#[test]
fn a_master_key_of_another_directory_is_refused() {
    let (one, other) = (Installation::init(60, 818), Installation::init(60, 819));
    let key = |installation: &Installation| installation.data().join("master.key");
    std::fs::copy(key(&other), key(&one)).expect("a copy of the key");
    let error = one.serve_refused().expect_one_line_error();
    assert!(error.contains("master key"), "{error}");
}
