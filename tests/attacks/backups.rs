//! A backup in the hands of somebody who may write to it, and not to the switch: whatever is planted,
//! cut or exchanged there is refused by `restore` and by `verify`, in words that say what to do.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cardswitch_harness::{
    CommandOutput, Installation, Purchase, cardswitch_after, last_json_line, run_cardswitch,
};

/// The journal of a directory that has not left its first segment.
const JOURNAL: &str = "journal/0000000000000001.segment";

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are UTF-8")
}

fn back_up(installation: &Installation, name: &str) -> PathBuf {
    let backup = installation.home().join(name);
    let data = installation.data();
    run_cardswitch(&["backup", "--data", text(&data), "--to", text(&backup), "--json"])
        .expect_json();
    backup
}

fn restore(installation: &Installation, backup: &Path, further: &[&str]) -> CommandOutput {
    let (to, key) = (installation.home().join("restored"), installation.data().join("master.key"));
    let from = ["restore", "--from", text(backup), "--data", text(&to), "--master-key", text(&key)];
    let output = run_cardswitch(&[&from[..], &["--json"], further].concat());
    if output.code == Some(0) {
        fs::remove_dir_all(&to).expect("it was restored");
    } else {
        assert!(!to.exists(), "nothing is left of a restore that was refused");
    }
    let staging = installation.home().join("restored.staging");
    assert!(!staging.exists(), "the copy that was proven is not left behind");
    output
}

fn verify(installation: &Installation, backup: &Path) -> CommandOutput {
    let key = installation.data().join("master.key");
    run_cardswitch(&["verify", "--data", text(backup), "--master-key", text(&key)])
}

#[track_caller]
fn expect_refused(installation: &Installation, backup: &Path, told: &str) {
    for refused in [restore(installation, backup, &[]), verify(installation, backup)] {
        let line = refused.expect_one_line_error();
        assert!(line.contains(told), "`{told}` was expected: {line}");
    }
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").args(["-a", text(from), text(to)]).status();
    assert!(copied.expect("cp is there").success());
}

/// Two backups of one directory, with a purchase between them.
fn two_backups(installation: &Installation) -> [PathBuf; 2] {
    let early = back_up(installation, "early");
    let switch = installation.serve();
    let request = Purchase::of(installation.cards.ordinary(), 100).request();
    assert_eq!(switch.acquirer().ask(&request).response(), "00");
    switch.stop();
    [early, back_up(installation, "late")]
}

/// Before there was a manifest, a planted `cardswitch.toml` came into force with the restored directory,
/// and what it was linked to was copied along.
#[test]
fn nothing_that_was_planted_in_a_backup_is_restored() {
    let installation = Installation::init(60, 8_900);
    let backup = back_up(&installation, "backup");
    assert_eq!(restore(&installation, &backup, &[]).code, Some(0));
    assert_eq!(verify(&installation, &backup).code, Some(0));
    let secret = installation.home().join("secret");
    fs::write(&secret, "of another user").expect("a file");
    fs::create_dir_all(backup.join("receipts")).expect("a directory");
    for name in ["cardswitch.toml", "master.key", "data.key", "pan_seal.keys", "receipts/planted"] {
        let planted = backup.join(name);
        fs::write(&planted, "log = \"json\"\n").expect("a file");
        expect_refused(&installation, &backup, &format!("{name}` is not of this backup"));
        fs::remove_file(&planted).expect("it is there");
        symlink(&secret, &planted).expect("a link");
        expect_refused(&installation, &backup, &format!("{name}` is not of this backup"));
        fs::remove_file(&planted).expect("it is there");
    }
    for name in ["directory", JOURNAL, "store.redb", "manifest"] {
        let (place, moved) = (backup.join(name), installation.home().join("moved"));
        fs::rename(&place, &moved).expect("it is there");
        symlink(&moved, &place).expect("a link");
        expect_refused(&installation, &backup, &format!("{name}` is not of this backup"));
        fs::remove_file(&place).expect("it is there");
        fs::rename(&moved, &place).expect("it is there");
    }
    assert_eq!(restore(&installation, &backup, &[]).code, Some(0), "it is whole again");
}

/// Each file of the late backup is sound in itself, and so is the journal that an attacker wrote anew.
#[test]
fn files_of_two_backups_are_not_put_together() {
    let installation = Installation::init(60, 8_901);
    let [early, late] = two_backups(&installation);
    for name in [JOURNAL, "store.redb", "journal/ack"] {
        let mixed = installation.home().join("mixed");
        copy(&early, &mixed);
        fs::copy(late.join(name), mixed.join(name)).expect("a file");
        expect_refused(&installation, &mixed, &format!("{name}` is not what the manifest says"));
        fs::remove_dir_all(&mixed).expect("it is there");
    }
    let both = installation.home().join("both");
    copy(&early, &both);
    for name in [JOURNAL, "store.redb", "journal/ack"] {
        fs::copy(late.join(name), both.join(name)).expect("a file");
    }
    expect_refused(&installation, &both, "is not what the manifest says");
    // With its manifest, and the places of webhooks that a switch has left, it is the late backup.
    for name in ["manifest", "deliveries.places"] {
        fs::copy(late.join(name), both.join(name)).expect("a file");
    }
    assert_eq!(restore(&installation, &both, &[]).code, Some(0));
}

/// A restore that stops as it opens what it restores from, and tells of it in `trace`.
fn stopping_before_use(arguments: &[&str], trace: &Path) -> Command {
    // The first lock is that of the folder for the copy, the second that of what was proven.
    let inject = "inject=flock:signal=STOP:when=2";
    let prelude = format!("set -- strace -f -qq -o '{}' -e {inject} \"$@\"", text(trace));
    let mut command = cardswitch_after(&prelude, arguments);
    command.stdout(Stdio::null());
    command
}

/// Waits until a process has stopped, and returns which one.
fn wait_until_stopped(trace: &Path) -> String {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(60) {
        let told = fs::read_to_string(trace).unwrap_or_default();
        let stopped = told.lines().find(|line| line.contains("stopped by SIGSTOP"));
        if let Some(pid) = stopped.and_then(|line| line.split_whitespace().next()) {
            return pid.to_owned();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    unreachable!("it did not stop: is strace there?")
}

/// The files were proven, and opened again by their paths for use: the settings last of all, links
/// followed. A file put there in between came into force.
#[test]
fn what_is_exchanged_after_it_was_proven_is_not_restored() {
    let installation = Installation::init(60, 8_907);
    installation.configure("log = \"json\"\n");
    let [backup, late] = two_backups(&installation);
    let home = installation.home();
    let (to, key) = (home.join("restored"), installation.data().join("master.key"));
    let state_hash = |data: &Path| {
        let verify = ["verify", "--data", text(data), "--master-key", text(&key), "--json"];
        last_json_line(&run_cardswitch(&verify).stdout)["state_hash"].clone()
    };
    let proven = state_hash(&backup);
    assert_ne!(proven, state_hash(&late), "it would not show which one was restored");
    let from = ["restore", "--from", text(&backup), "--data", text(&to), "--master-key"];
    let arguments = [&from[..], &[text(&key)]].concat();
    let trace = home.join("trace");
    let mut child = stopping_before_use(&arguments, &trace).spawn().expect("sh is there");
    let stopped = wait_until_stopped(&trace);
    for name in [JOURNAL, "store.redb", "journal/ack", "manifest"] {
        fs::copy(late.join(name), backup.join(name)).expect("a file");
    }
    fs::write(home.join("planted"), "log = \"text\"\n").expect("a file");
    fs::remove_file(backup.join("cardswitch.toml")).expect("it is there");
    symlink(home.join("planted"), backup.join("cardswitch.toml")).expect("a link");
    assert!(Command::new("kill").args(["-CONT", &stopped]).status().expect("a kill").success());
    assert!(child.wait().expect("it ends").success());
    assert_eq!(state_hash(&to), proven);
    let settings = fs::read_to_string(to.join("cardswitch.toml")).expect("settings");
    assert_eq!(settings, "log = \"json\"\n");
    assert!(!home.join("restored.staging").exists());
}

#[test]
fn a_manifest_that_is_gone_or_cut_or_of_another_directory_is_told_of() {
    let (installation, other) = (Installation::init(60, 8_902), Installation::init(60, 8_903));
    let (backup, foreign) = (back_up(&installation, "backup"), back_up(&other, "backup"));
    let manifest = backup.join("manifest");
    let whole = fs::read(&manifest).expect("a manifest");
    fs::write(&manifest, &whole[..whole.len() / 2]).expect("a file");
    expect_refused(&installation, &backup, "was cut or changed");
    fs::copy(foreign.join("manifest"), &manifest).expect("a file");
    expect_refused(&installation, &backup, "the master key is not the one of this directory");
    fs::remove_file(&manifest).expect("it is there");
    let refused = restore(&installation, &backup, &[]).expect_one_line_error();
    assert!(refused.contains("this is no backup, or not as `backup` made it"), "{refused}");
    let refused = verify(&installation, &backup).expect_one_line_error();
    assert!(refused.contains("data.key` is missing"), "{refused}");
    expect_refused(&installation, &foreign, "the master key is not the one of this directory");
}

/// A journal that goes on where a backup ends is taken only from the same directory: from a later
/// backup that is whole, or from what has the directory's keys.
#[test]
fn a_further_journal_is_of_the_same_directory_and_whole() {
    let (installation, other) = (Installation::init(60, 8_904), Installation::init(60, 8_905));
    let [early, late] = two_backups(&installation);
    let data = installation.data();
    restore(&installation, &early, &["--journal", text(&data)]).expect_json();
    // It begins where its own tables end: told of by the journal itself, for the manifest is in order.
    let gap = restore(&installation, &early, &["--journal", text(&late)]).expect_one_line_error();
    assert!(gap.contains("take a later backup, or a journal that was kept longer"), "{gap}");
    let foreign = back_up(&other, "backup");
    for (journal, told) in
        [(foreign, "was cut or changed"), (other.data(), "belongs to another data directory")]
    {
        let refused = restore(&installation, &early, &["--journal", text(&journal)]);
        let line = refused.expect_one_line_error();
        assert!(line.contains(told), "{line}");
    }
    fs::write(late.join("cardswitch.toml"), "").expect("a file");
    let refused = restore(&installation, &early, &["--journal", text(&late)]);
    assert!(refused.expect_one_line_error().contains("is not of this backup"), "{refused:?}");
    fs::remove_file(late.join("manifest")).expect("it is there");
    let refused = restore(&installation, &early, &["--journal", text(&late)]);
    assert!(refused.expect_one_line_error().contains("data.key` is missing"), "{refused:?}");
}

/// A backup that somebody made with keys of their own would pass, if its key were taken from it.
#[test]
fn a_master_key_in_a_backup_is_not_taken() {
    let installation = Installation::init(60, 8_908);
    let backup = back_up(&installation, "backup");
    fs::copy(installation.data().join("master.key"), backup.join("master.key")).expect("a file");
    let to = installation.home().join("restored");
    for arguments in [
        &["restore", "--from", text(&backup), "--data", text(&to)][..],
        &["verify", "--data", text(&backup)],
    ] {
        let line = run_cardswitch(arguments).expect_one_line_error();
        assert!(line.contains("master.key` is missing: where it lies elsewhere, give"), "{line}");
    }
}

/// Once, `explain` asked for the key that no backup has, and `cluster adopt` made a cluster of one.
#[test]
fn a_backup_is_no_data_directory_of_any_command() {
    let installation = Installation::init(60, 8_906);
    let backup = back_up(&installation, "backup");
    let (key, to) = (installation.data().join("master.key"), installation.home().join("copy"));
    let (backup, key) = (text(&backup), text(&key));
    let restore = "is a backup: make a data directory of it with `cardswitch restore`";
    let (transaction, etcd) = ("01900000-0000-7000-8000-000000000000", "etcd://127.0.0.1:1/none");
    for (arguments, told) in [
        (&["serve", "--http", "127.0.0.1:0", "--master-key", key][..], restore),
        (&["explain", transaction, "--master-key", key], restore),
        (&["rotate-pan-key", "--master-key", key], restore),
        (&["rotate-master-key", "--master-key", key], restore),
        (&["cluster", "adopt", "--journal", etcd], restore),
        (&["backup", "--to", text(&to), "--master-key", key], "is a backup already"),
    ] {
        let refused = run_cardswitch(&[arguments, &["--data", backup]].concat());
        let line = refused.expect_one_line_error();
        assert!(line.contains(told), "{line}");
    }
    assert_eq!(verify(&installation, Path::new(backup)).code, Some(0), "it is as it was");
}
