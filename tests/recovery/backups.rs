//! `backup` while purchases arrive, and `restore`: approvals of before are there, and with the journal of the
//! lost directory so are later ones.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use cardswitch_harness::{
    CommandOutput, HttpRequest, Installation, NetworkTransaction, Switch, last_json_line,
    run_cardswitch, transactions_of_card, write_private,
};
use serde_json::{Value, json};

use crate::load::{Fate, run_acquirer};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n of a receipt";
const ANOTHER_PNG: &[u8] = b"\x89PNG\r\n\x1a\n of another";

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are UTF-8")
}

fn back_up(data: &Path, to: &Path) -> CommandOutput {
    run_cardswitch(&["backup", "--data", text(data), "--to", text(to), "--json"])
}

fn restore(from: &Path, data: &Path, key: &Path, further: &[&str]) -> CommandOutput {
    let mut arguments = vec!["restore", "--from", text(from), "--data", text(data)];
    arguments.extend(["--master-key", text(key), "--json"]);
    arguments.extend_from_slice(further);
    run_cardswitch(&arguments)
}

#[track_caller]
fn verified(data: &Path) -> Value {
    verified_with(data, &[])
}

#[track_caller]
fn verified_with(data: &Path, further: &[&str]) -> Value {
    let verify = ["verify", "--data", text(data), "--json"];
    let output = run_cardswitch(&[&verify[..], further].concat());
    assert_eq!(output.code, Some(0), "verify found a difference: {output:#?}");
    last_json_line(&output.stdout)
}

/// Buys something and hands in a receipt for it. Returns the receipt's path.
fn receipt(switch: &Switch, card: &str, content: &[u8]) -> String {
    let merchant = json!({"mid": 1, "mcc": 5812, "name": "Diner"});
    let purchase = json!({"card_id": card, "amount": 1, "merchant": merchant});
    let made = switch.network_api().post("/network/v1/authorizations", &purchase).expect(200);
    let path =
        format!("/v1/transactions/{}/receipt", made["transaction_id"].as_str().expect("an id"));
    let headers = [("content-type", "image/png")];
    switch
        .api()
        .send(&HttpRequest { method: "POST", path: &path, headers: &headers, body: content })
        .expect(201);
    path
}

/// Everything at a place that came out of one directory.
fn places(installation: &Installation) -> [PathBuf; 3] {
    let data = installation.data();
    let home = data.parent().expect("the directory stands in another").to_path_buf();
    ["backup", "restored", "key"].map(|name| home.join(name))
}

#[test]
fn a_backup_under_load_and_the_lost_journal_give_everything_back() {
    let installation = Installation::init(30, 8_600);
    let [backup, restored, key] = places(&installation);
    let data = installation.data();
    let switch = installation.serve();
    let cards: Vec<_> = installation.cards.with_profile("ordinary").into_iter().cloned().collect();
    let before = receipt(&switch, &cards[0].card_id, PNG);
    let door = switch.iso8583;
    let acquirers: Vec<_> = (0..2)
        .map(|seed| {
            let cards = cards.clone();
            thread::spawn(move || run_acquirer(door, &cards, seed))
        })
        .collect();
    let report = back_up(&data, &backup).expect_json();
    let after = receipt(&switch, &cards[0].card_id, ANOTHER_PNG);
    assert!(back_up(&data, &backup).expect_one_line_error().contains("exists already"));
    switch.kill9();
    let sent: Vec<_> = acquirers.into_iter().flat_map(|one| one.join().unwrap()).collect();
    assert!(sent.iter().any(|sent| matches!(sent.fate, Fate::Approved(_))), "nothing was tested");

    assert!(!backup.join("master.key").exists(), "a backup alone opens no card number");
    fs::copy(data.join("master.key"), &key).expect("a key that was kept apart");
    assert_eq!(verified_with(&backup, &["--master-key", text(&key)])["records"], report["records"]);
    let lost = verified(&data);
    let whole = restore(&backup, &restored, &key, &["--journal", text(&data)]).expect_json();
    assert_eq!(whole["revived_access"], Value::Null, "{whole:#}");
    let found = verified(&restored);
    assert_eq!((&found["state_hash"], &found["records"]), (&lost["state_hash"], &lost["records"]));

    let switch = installation.serve_directory(&restored, &[]);
    for (path, content) in [(&before, PNG), (&after, ANOTHER_PNG)] {
        assert_eq!(switch.api().get(path).bytes(), content);
    }
    for card in &cards {
        let known = transactions_of_card(&switch.network_api(), &card.card_id);
        let approved = sent.iter().filter(|sent| sent.card_id == card.card_id);
        for sent in approved {
            if let Fate::Approved(id) = &sent.fate {
                let is_it = |one: &&_| transaction_is(one, id);
                assert_eq!(known.iter().filter(is_it).count(), 1, "{id} of {}", card.card_id);
            }
        }
    }
    switch.stop();
    verified(&restored);
}

fn transaction_is(known: &NetworkTransaction, id: &str) -> bool {
    known.authorization_id.as_deref() == Some(id)
}

#[test]
fn a_directory_at_rest_is_backed_up_and_comes_back_as_it_was() {
    let installation = Installation::init(3, 8_601);
    let [backup, restored, key] = places(&installation);
    let data = installation.data();
    fs::write(data.join("cardswitch.toml"), "log = \"json\"\n").expect("settings");
    back_up(&data, &backup).expect_json();
    fs::copy(data.join("master.key"), &key).expect("a key that was kept apart");
    let early = restore(&backup, &restored, &key, &["--until", "2020-01-01T00:00:00Z"]);
    assert!(early.expect_one_line_error().contains("later moment"), "{early:?}");
    let idle = restore(&backup, &restored, &key, &["--journal", text(&data)]);
    assert!(idle.expect_one_line_error().contains("it adds nothing"), "{idle:?}");
    let other = installation.data().parent().unwrap().join("other.key");
    write_private(&other, &"ab".repeat(32));
    let refused = restore(&backup, &restored, &other, &[]);
    assert!(
        refused.expect_one_line_error().contains("the master key is not the one of this directory"),
        "{refused:?}"
    );
    assert!(!restored.exists());
    // Once, only people were told.
    let outdated = restore(&backup, &restored, &key, &[]).expect_json();
    let revived = outdated["revived_access"].as_str().expect("what is valid again");
    assert!(revived.contains(outdated["as_of"].as_str().expect("a time")), "{outdated:#}");
    assert_eq!(verified(&restored)["state_hash"], verified(&data)["state_hash"]);
    assert_eq!(fs::read_to_string(restored.join("cardswitch.toml")).unwrap(), "log = \"json\"\n");
    let taken = restore(&backup, &restored, &key, &[]);
    assert!(taken.expect_one_line_error().contains("exists already"), "{taken:?}");
    fs::remove_dir_all(&restored).expect("it is there");
    // A data directory of another build.
    let identity = fs::read_to_string(data.join("directory")).expect("an identity");
    fs::write(data.join("directory"), identity.replace("layouts ", "layouts 0")).expect("written");
    let told = back_up(&data, &restored).expect_one_line_error();
    assert!(told.contains("was made by another build of cardswitch"), "{told}");
    let manifest = fs::read_to_string(backup.join("manifest")).expect("a manifest");
    fs::write(backup.join("manifest"), manifest.replace("format 1", "format 9")).expect("written");
    let told = restore(&backup, &restored, &key, &[]).expect_one_line_error();
    assert!(told.contains("was written by a later version"), "{told}");
    assert!(!restored.exists());
}

/// Once, undamaged keys were called damaged, an empty directory lacked the master key, and a backup could lie in what
/// it is made of.
#[test]
fn what_no_backup_comes_of_is_told_as_what_it_is() {
    let (installation, other) = (Installation::init(1, 8_608), Installation::init(1, 8_609));
    let [backup, restored, key] = places(&installation);
    let data = installation.data();
    let inside = back_up(&data, &data.join("backups/first")).expect_one_line_error();
    assert!(inside.contains("lies in the data directory"), "{inside}");
    assert!(!data.join("backups").exists());
    back_up(&data, &backup).expect_json();
    fs::copy(data.join("master.key"), &key).expect("a key that was kept apart");
    let foreign = restore(&backup, &restored, &key, &["--journal", text(&other.data())]);
    let foreign = foreign.expect_one_line_error();
    assert!(foreign.contains("belongs to another data directory"), "{foreign}");
    let empty = installation.home().join("empty");
    fs::create_dir(&empty).expect("a directory");
    let none = run_cardswitch(&["restore", "--from", text(&empty), "--data", text(&restored)]);
    let none = none.expect_one_line_error();
    assert!(none.contains("manifest") && !none.contains("master key"), "{none}");
    assert!(!restored.exists());
}

/// Once, the message had the whole directory restored, without the commands since the backup.
#[test]
fn a_lost_data_key_comes_out_of_any_backup_and_nothing_else_goes_back() {
    let installation = Installation::init(3, 8_607);
    let [backup, restored, key] = places(&installation);
    let data = installation.data();
    back_up(&data, &backup).expect_json();
    fs::copy(data.join("master.key"), &key).expect("a key that was kept apart");
    let switch = installation.serve();
    receipt(&switch, &installation.cards.ordinary().card_id, PNG);
    switch.stop();
    let before = verified(&data);
    let lost = data.join("data.key");
    fs::remove_file(&lost).expect("the key was there");
    let further = restore(&backup, &restored, &key, &["--journal", text(&data)]);
    for refused in [installation.serve_refused(), installation.verify(), further] {
        let error = refused.expect_one_line_error();
        assert!(error.contains(text(&lost)) && error.contains("copy `data.key` out"), "{error}");
    }
    restore(&backup, &restored, &key, &[]).expect_json();
    fs::copy(restored.join("data.key"), &lost).expect("it can be copied");
    let found = verified(&data);
    assert_eq!(
        (&found["records"], &found["state_hash"]),
        (&before["records"], &before["state_hash"])
    );
    installation.serve().stop();
}

/// A receipt whose file had rotted got into every backup, and each was refused when it was needed.
#[test]
fn a_damaged_receipt_spoils_no_backup_and_is_told_of() {
    let installation = Installation::init(30, 8_602);
    let [backup, restored, key] = places(&installation);
    let data = installation.data();
    let switch = installation.serve();
    let card = installation.cards.ordinary().card_id.clone();
    let good = receipt(&switch, &card, PNG);
    let before: Vec<PathBuf> = receipt_files(&data);
    receipt(&switch, &card, ANOTHER_PNG);
    let rotten = receipt_files(&data).into_iter().find(|path| !before.contains(path));
    let rotten = rotten.expect("another file");
    fs::write(&rotten, &ANOTHER_PNG[1..]).expect("written");
    let name = rotten.file_name().and_then(|name| name.to_str()).expect("hex digits");
    let told = |output: &CommandOutput| {
        let line = output.expect_one_line_error();
        assert!(line.contains("without 1 of the receipts") && line.contains(name), "{line}");
        assert!(
            last_json_line(&output.stdout)["damaged_receipts"][0].as_str().unwrap().contains(name)
        );
    };
    told(&back_up(&data, &backup));
    switch.stop();
    fs::copy(data.join("master.key"), &key).expect("a key that was kept apart");
    verified_with(&backup, &["--master-key", text(&key)]);
    fs::remove_dir_all(&backup).expect("it is there");
    told(&back_up(&data, &backup));
    verified_with(&backup, &["--master-key", text(&key)]);
    restore(&backup, &restored, &key, &[]).expect_json();
    let switch = installation.serve_directory(&restored, &[]);
    assert_eq!(switch.api().get(&good).bytes(), PNG);
    switch.stop();
}

fn receipt_files(data: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(data.join("receipts")).expect("a directory");
    entries.map(|entry| entry.expect("an entry").path()).collect()
}
