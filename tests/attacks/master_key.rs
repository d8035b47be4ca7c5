//! The master key: it lies where the operator wants it, is replaced while the switch decides purchases, and an
//! old one opens nothing. A kill between any two writes leaves a directory that one of both keys opens.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cardswitch_harness::{
    CommandOutput, Installation, Purchase, Switch, SystemCall, TestCard, Trace, cardswitch_after,
    run_cardswitch, run_cardswitch_with, write_private,
};
use serde_json::Value;

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are UTF-8")
}

fn rotate(data: &Path, further: &[&str]) -> CommandOutput {
    let arguments = ["rotate-master-key", "--data", text(data), "--json"];
    run_cardswitch(&[&arguments[..], further].concat())
}

fn verify(data: &Path, key: &[&str]) -> CommandOutput {
    run_cardswitch(&[&["verify", "--data", text(data)], key].concat())
}

/// Buys with everything that follows from keys: number, CVV and PIN.
#[track_caller]
fn expect_approved(switch: &Switch, card: &TestCard) {
    let mut purchase = Purchase::of(card, 100);
    purchase.cvv = Some(card.cvv.clone());
    purchase.pin = Some(card.pin.clone());
    assert_eq!(switch.acquirer().ask(&purchase.request()).response(), "00");
}

fn number_of(switch: &Switch, card: &TestCard) -> Value {
    switch.api().get(&format!("/v1/cards/{}/number", card.card_id)).expect(200)
}

#[test]
fn a_running_switch_takes_another_master_key_and_nothing_else_changes() {
    let installation = Installation::init(60, 8_920);
    let (data, card) = (installation.data(), installation.cards.ordinary().clone());
    let [old, given, backup] =
        ["old.key", "given.key", "backup"].map(|name| installation.home().join(name));
    let base_url = ["--base-url", "http://switch.example"];
    let switch = installation.serve_with(&base_url);
    expect_approved(&switch, &card);
    let number = number_of(&switch, &card);
    let tables = switch.api().get("/v1/transactions").expect(200);
    fs::copy(data.join("master.key"), &old).expect("a copy");

    let report = rotate(&data, &[]).expect_json();
    assert_eq!(report["place"], text(&data.join("master.key")));
    assert_eq!(report["old_place"], text(&data.join("master.key.old")));
    assert_eq!(fs::read(data.join("master.key.old")).unwrap(), fs::read(&old).unwrap());
    assert_ne!(fs::read(data.join("master.key")).unwrap(), fs::read(&old).unwrap());
    expect_approved(&switch, &card);
    let kept = rotate(&data, &[]).expect_one_line_error();
    assert!(kept.contains("master.key.old` keeps an earlier master key"), "{kept}");
    // Once, the flag was taken and counted for nothing.
    let flagged = rotate(&data, &["--master-key", text(&old)]).expect_one_line_error();
    assert!(flagged.contains("a running switch knows where its master key is"), "{flagged}");
    fs::remove_file(data.join("master.key.old")).expect("it is there");

    run_cardswitch(&["backup", "--data", text(&data), "--to", text(&backup)]);
    let second = installation.home().join("second.key");
    fs::copy(data.join("master.key"), &second).expect("a copy");
    write_private(&given, &format!("{}\n", "5a".repeat(32)));
    let report = rotate(&data, &["--new-master-key", text(&given)]).expect_json();
    assert_eq!(report["place"], text(&given));
    expect_approved(&switch, &card);
    switch.stop();

    for stale in [&old, &second] {
        let key = ["--master-key", text(stale)];
        let refused = verify(&data, &key).expect_one_line_error();
        assert!(refused.contains("the master key is not the one of this directory"), "{refused}");
        let serve = ["serve", "--data", text(&data), "--http", "127.0.0.1:0"];
        let refused = run_cardswitch(&[&serve[..], &key].concat()).expect_one_line_error();
        assert!(refused.contains("the master key is not the one of this directory"), "{refused}");
    }
    let refused = verify(&backup, &["--master-key", text(&old)]).expect_one_line_error();
    assert!(refused.contains("the master key is not the one"), "{refused}");
    assert_eq!(verify(&backup, &["--master-key", text(&second)]).code, Some(0));
    assert_eq!(verify(&data, &["--master-key", text(&given)]).code, Some(0));

    let key = ["--master-key", text(&given)];
    let switch = installation.serve_with(&[&base_url[..], &key].concat());
    expect_approved(&switch, &card);
    assert_eq!(number_of(&switch, &card), number);
    for before in tables["results"].as_array().expect("transactions") {
        let path = format!("/v1/transactions/{}", before["id"].as_str().expect("an id"));
        assert_eq!(&switch.api().get(&path).expect(200), before, "ids are the same");
    }
    switch.stop();
}

/// A backup from before is opened with the key of its time, or with the new one where the journal that
/// goes on knows it.
#[test]
fn a_backup_from_before_and_the_journal_from_after_meet() {
    let installation = Installation::init(60, 8_921);
    let (data, backup) = (installation.data(), installation.home().join("backup"));
    run_cardswitch(&["backup", "--data", text(&data), "--to", text(&backup), "--json"])
        .expect_json();
    let switch = installation.serve();
    rotate(&data, &[]).expect_json();
    expect_approved(&switch, installation.cards.ordinary());
    switch.stop();
    for (name, key) in [("by-old", "master.key.old"), ("by-new", "master.key")] {
        let (restored, key) = (installation.home().join(name), data.join(key));
        let from = ["restore", "--from", text(&backup), "--data", text(&restored), "--json"];
        let with = ["--journal", text(&data), "--master-key", text(&key)];
        run_cardswitch(&[&from[..], &with].concat()).expect_json();
        assert_eq!(verify(&restored, &[]).code, Some(0), "{name}");
        assert_eq!(fs::read(restored.join("master.key")).unwrap(), fs::read(&key).unwrap());
        let switch = installation.serve_directory(&restored, &[]);
        expect_approved(&switch, installation.cards.ordinary());
        switch.stop();
    }
}

/// Outside of the directory: in a file, from a command, as a credential of systemd.
#[test]
fn the_master_key_may_lie_elsewhere() {
    let installation = Installation::init(60, 8_922);
    let home = installation.home();
    let credentials = home.join("credentials");
    fs::create_dir(&credentials).expect("a directory");
    let (data, key) = (home.join("elsewhere"), credentials.join("master.key"));
    let init = ["init", "--data", text(&data), "--json", "--master-key", text(&key)];
    let made = run_cardswitch(&init).expect_json();
    let company = made["company_id"].as_str().expect("an id");
    assert!(key.exists() && !data.join("master.key").exists());
    let command = format!("cat '{}'", text(&key));
    let list = ["token", "list", "--data", text(&data), "--company", company, "--json"];
    for variables in [
        ("CARDSWITCH_MASTER_KEY", text(&key)),
        ("CARDSWITCH_MASTER_KEY_COMMAND", command.as_str()),
        ("CREDENTIALS_DIRECTORY", text(&credentials)),
    ] {
        let output = run_cardswitch_with(&list, &[variables]);
        assert_eq!(output.code, Some(0), "{variables:?}: {output:?}");
    }
    let refused = run_cardswitch(&list).expect_one_line_error();
    assert!(refused.contains("give --master-key or --master-key-command"), "{refused}");
    // A flag comes before a variable, whichever of both places each names.
    let (file, by) = (("CARDSWITCH_MASTER_KEY", text(&key)), "CARDSWITCH_MASTER_KEY_COMMAND");
    let missing = home.join("missing");
    for (flags, variable, expected) in [
        (&["--master-key", text(&key)][..], (by, "exit 7"), Some(0)),
        (&["--master-key-command", &command], (file.0, text(&missing)), Some(0)),
        (&["--master-key", text(&missing)], (by, &command), Some(1)),
        (&["--master-key-command", "exit 7"], file, Some(1)),
        (&["--master-key-command", &command, "--master-key", text(&key)], (by, "exit 7"), Some(2)),
    ] {
        let output = run_cardswitch_with(&[&list[..], flags].concat(), &[variable]);
        assert_eq!(output.code, expected, "{flags:?}, {variable:?}: {output:?}");
    }
    let output = run_cardswitch_with(&list, &[file, (by, &command)]);
    assert_eq!(output.code, Some(2), "two variables, and no flag to choose: {output:?}");
    let failing = [&list[..], &["--master-key-command", "exit 7"]].concat();
    let refused = run_cardswitch(&failing).expect_one_line_error();
    assert!(refused.contains("the command for the master key failed"), "{refused}");
    let refused = rotate(&data, &["--master-key-command", &command]).expect_one_line_error();
    assert!(refused.contains("say with --new-master-key FILE"), "{refused}");
    let next = home.join("next.key");
    let by_command = ["--master-key-command", &command, "--new-master-key", text(&next)];
    rotate(&data, &by_command).expect_json();
    assert_eq!(verify(&data, &["--master-key", text(&next)]).code, Some(0));
}

/// `serve` refused it, and all others took it: a backup of it was one that nobody can serve.
#[test]
fn the_data_key_of_another_directory_is_refused_by_every_command() {
    let [installation, other] = [8_925, 8_926].map(|seed| Installation::init(60, seed));
    let (data, to) = (installation.data(), installation.home().join("backup"));
    for name in ["data.key", "master.key"] {
        fs::copy(other.data().join(name), data.join(name)).expect("a file");
    }
    let company = &installation.credentials.company_id;
    let data = ["--data", text(&data)];
    for command in [
        &["serve", "--http", "127.0.0.1:0", "--iso8583", "127.0.0.1:0"][..],
        &["verify"],
        &["backup", "--to", text(&to)],
        &["rotate-master-key"],
        &["token", "list", "--company", company],
    ] {
        let refused = run_cardswitch(&[command, &data].concat()).expect_one_line_error();
        assert!(refused.contains("data.key` belongs to another data directory"), "{refused}");
    }
    assert!(!to.exists());
}

/// A key that somebody just copied to its place may be in the cache of the system alone. A power failure
/// after `data.key` was wrapped under it would leave nothing that opens the directory.
#[test]
fn a_key_that_was_there_is_durable_before_it_is_used() {
    let installation = Installation::init(60, 8_924);
    let given = installation.home().join("given.key");
    let trace = Trace::at(installation.home().join("trace"));
    write_private(&given, &format!("{}\n", "5a".repeat(32)));
    let data = installation.data();
    let prelude = trace.prelude("fsync,fdatasync,?rename,?renameat,?renameat2");
    let arguments = ["rotate-master-key", "--data", text(&data), "--new-master-key", text(&given)];
    let mut command = cardswitch_after(&prelude, &arguments);
    let mut rotation = command.stdout(Stdio::null()).spawn().expect("sh is there");
    assert!(rotation.wait().expect("it ends").success());
    let calls = trace.calls(rotation.id());
    let is_wrapping =
        |call: &&SystemCall| call.text.starts_with("rename") && call.text.contains("data.key.new");
    let wrapped = calls.iter().find(is_wrapping).expect("data.key is replaced");
    for path in [given.as_path(), installation.home()] {
        let is_before = calls.iter().any(|call| call.syncs(path) && call.is_before(wrapped));
        assert!(
            is_before,
            "{} is not synced before data.key is replaced: {calls:#?}",
            path.display()
        );
    }
}

/// `restore` says what to do next: that with the key where it is.
#[test]
fn what_restore_says_to_do_next_works() {
    let installation = Installation::init(60, 8_927);
    let (data, home) = (installation.data(), installation.home());
    let backup = home.join("backup");
    run_cardswitch(&["backup", "--data", text(&data), "--to", text(&backup), "--json"])
        .expect_json();
    let key = data.join("master.key");
    let command = format!("cat '{}'", text(&key));
    for (name, with) in [
        ("copied", &["--master-key", text(&key)][..]),
        ("left", &["--no-key-copy", "--master-key", text(&key)]),
        ("printed", &["--master-key-command", &command]),
    ] {
        let restored = home.join(name);
        let from = ["restore", "--from", text(&backup), "--data", text(&restored)];
        let output = run_cardswitch(&[&from[..], with].concat());
        let next = output.stdout.lines().find_map(|line| line.strip_prefix("Next: cardswitch "));
        let next = format!("set -- \"$@\" {}", next.expect("a next step"));
        let status = cardswitch_after(&next, &[]).stdout(Stdio::null()).status();
        assert!(status.expect("sh is there").success(), "{name}: {next}");
    }
}

/// The rest of a failed try was in the way of the next try.
#[test]
fn a_master_key_that_cannot_be_made_leaves_no_directory_and_the_other_way_round() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let at = |name: &str| home.path().join(name);
    let init = |data: &Path, key: &Path| {
        run_cardswitch(&["init", "--data", text(data), "--json", "--master-key", text(key)])
    };
    let refused = init(&at("data"), &at("missing/key")).expect_one_line_error();
    assert!(refused.contains("missing/key`: No such file"), "{refused}");
    assert!(!at("data").exists());
    init(&at("data"), &at("key")).expect_json();
    let refused = init(&at("data"), &at("another")).expect_one_line_error();
    assert!(refused.contains("is a data directory already"), "{refused}");
    assert!(!at("another").exists(), "a key that opens nothing is left");
    let inside = at("second");
    init(&inside, &inside.join("master.key")).expect_json();
    assert_eq!(verify(&inside, &[]).code, Some(0));
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").args(["-a", text(from), text(to)]).status();
    assert!(copied.expect("cp is there").success());
}

/// The system calls that change files and make changes durable, under all their names. Names after a question
/// mark are not there on every processor.
const FILE_CALLS: [&str; 5] = [
    "write",
    "fsync,fdatasync",
    "?rename,?renameat,?renameat2",
    "?link,linkat",
    "?unlink,unlinkat",
];
/// Beyond what a replacement of the key does.
const CALLS_MAX: usize = 60;

/// Replaces the key of copies of a directory, each killed as it enters one of the calls, the next one in
/// each round. `look` is told of each copy that was killed. Returns how many there were.
#[track_caller]
fn kill_at_each_call(further: &[&str], look: &mut dyn FnMut(&Path, &str)) -> usize {
    let installation = Installation::init(60, 8_923);
    let data: PathBuf = installation.home().join("copy");
    let arguments = ["rotate-master-key", "--data", text(&data), "--json"];
    let mut kills = 0;
    for calls in FILE_CALLS {
        for place in 1.. {
            assert!(place < CALLS_MAX, "the key was never replaced: is strace there?");
            copy(&installation.data(), &data);
            let inject = format!("inject={calls}:signal=KILL:when={place}");
            let prelude = format!("set -- strace -f -qq -o /dev/null -e {inject} \"$@\"");
            let mut command = cardswitch_after(&prelude, &[&arguments[..], further].concat());
            let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
            let is_over = status.expect("sh is there").success();
            if !is_over {
                look(&data, &format!("{calls}, place {place}"));
                kills += 1;
            }
            fs::remove_dir_all(&data).expect("a copy");
            if is_over {
                break;
            }
        }
    }
    kills
}

#[test]
fn a_kill_anywhere_in_a_replacement_leaves_a_key_that_opens() {
    let kills = kill_at_each_call(&[], &mut |data, call| {
        assert_eq!(verify(data, &[]).code, Some(0), "killed at call {call}: no key opens");
        // The next try ends what was begun, or begins again; the old key is kept either way.
        let again = rotate(data, &[]);
        let is_kept = again.stderr.contains("keeps an earlier master key");
        assert!(again.code == Some(0) || is_kept, "killed at call {call}: {again:?}");
        assert_eq!(verify(data, &[]).code, Some(0), "killed at call {call}, and begun again");
    });
    assert!(kills >= 12, "a replacement has more steps than {kills}");
}

#[test]
fn a_kill_anywhere_in_a_replacement_from_elsewhere_leaves_one_of_both() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let given = home.path().join("given.key");
    write_private(&given, &format!("{}\n", "5a".repeat(32)));
    let (mut by_old, mut by_new) = (0, 0);
    kill_at_each_call(&["--new-master-key", text(&given)], &mut |data, call| {
        let is_old = verify(data, &[]).code == Some(0);
        let is_new = verify(data, &["--master-key", text(&given)]).code == Some(0);
        assert!(is_old != is_new, "killed at call {call}: old {is_old}, new {is_new}");
        by_old += usize::from(is_old);
        by_new += usize::from(is_new);
    });
    assert!(by_old > 4 && by_new > 1, "kills came before and after: {by_old}, {by_new}");
}
