//! Data directories that earlier builds have written, killed in the middle of their work: every later
//! build opens each of them, says the same of what is there, and goes on.
//!
//! `tools/golden/make_data_directory.py` writes one, with the build whose format is to be kept.

use std::fs;
use std::path::{Path, PathBuf};

use cardswitch_harness::{HttpClient, Installation, run_cardswitch};
use serde_json::{Value, json};

/// The archives, in the order of their formats.
fn archives() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("recovery/golden");
    let entries = fs::read_dir(directory).expect("the archives are there");
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.expect("an entry can be read").path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "there are archives");
    paths
}

/// Where `now` lacks something of `before` or says it otherwise. What is new is no difference.
fn differences(path: &str, before: &Value, now: &Value, found: &mut Vec<String>) {
    match (before, now) {
        (Value::Object(before), Value::Object(now)) => {
            for (name, value) in before {
                let now = now.get(name).unwrap_or(&Value::Null);
                differences(&format!("{path}.{name}"), value, now, found);
            }
        }
        (Value::Array(before), Value::Array(now)) if before.len() == now.len() => {
            for (place, (before, now)) in before.iter().zip(now).enumerate() {
                differences(&format!("{path}[{place}]"), before, now, found);
            }
        }
        _ if before == now => {}
        _ => found.push(format!("{path}: {before} became {now}")),
    }
}

fn assert_same_answers(api: &HttpClient, expected: &Value) {
    let mut found = Vec::new();
    for (path, before) in expected.as_object().expect("path -> answer") {
        differences(path, before, &api.get(path).expect(200), &mut found);
    }
    assert!(found.is_empty(), "{} differences, such as {:#?}", found.len(), &found[..1]);
}

#[test]
fn directories_of_earlier_builds_open_and_say_the_same() {
    for archive in archives() {
        println!("{}", archive.display());
        let (installation, home) = Installation::unpack(&archive);
        let expected = fs::read(home.join("expected.json")).expect("what was answered");
        let expected: Value = serde_json::from_slice(&expected).expect("JSON");
        let base_url = ["--clock", "manual", "--base-url", "http://golden.example"];
        let switch = installation.serve_with(&base_url);
        assert_same_answers(&switch.api(), &expected);
        // A kill before anything new is written, and once more.
        switch.kill9();
        let switch = installation.serve_with(&base_url);
        assert_same_answers(&switch.api(), &expected);
        let allowance = json!({"amount": 20, "interval": "weekly"});
        let card = json!({"allowance": allowance, "description": "New", "is_virtual": true});
        let card = switch.api().post("/v1/cards", &card).expect(201);
        let merchant = json!({"mid": 1, "mcc": 5812, "name": "Golden Diner", "city": "Oakland"});
        let purchase = json!({"card_id": card["id"], "amount": 1.25, "merchant": merchant});
        let answer = switch.network_api().post("/network/v1/authorizations", &purchase).expect(200);
        assert_eq!(answer["approved"], true, "{answer}");
        switch.stop();
        installation.verify_ok();
    }
}

/// A backup made of one is of this build's format, and holds the same.
#[test]
fn directories_of_earlier_builds_are_backed_up_and_come_back_the_same() {
    for archive in archives() {
        println!("{}", archive.display());
        let (installation, home) = Installation::unpack(&archive);
        let expected = fs::read(home.join("expected.json")).expect("what was answered");
        let expected: Value = serde_json::from_slice(&expected).expect("JSON");
        let (data, key) = (installation.data(), installation.data().join("master.key"));
        let [backup, restored] = ["backup", "restored"].map(|name| home.join(name));
        let [data, key, backup_at] = [&data, &key, &backup].map(|path| text(path));
        run_cardswitch(&["backup", "--data", data, "--to", backup_at, "--json"]).expect_json();
        let from = ["restore", "--from", backup_at, "--master-key", key, "--json"];
        run_cardswitch(&[&from[..], &["--data", text(&restored)]].concat()).expect_json();
        let base_url = ["--clock", "manual", "--base-url", "http://golden.example"];
        let switch = installation.serve_directory(&restored, &base_url);
        assert_same_answers(&switch.api(), &expected);
        switch.stop();
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are UTF-8")
}

#[test]
fn a_difference_is_what_is_lacking_or_otherwise_and_not_what_is_new() {
    let before = json!({"a": 1, "b": [{"c": null}, 2]});
    let cases = [
        (json!({"a": 1, "b": [{"c": null, "new": 3}, 2], "new": 4}), 0),
        (json!({"a": 1, "b": [{"c": 0}, 2]}), 1),
        (json!({"b": [{"c": null}, 2]}), 1),
        (json!({"a": 1, "b": [{"c": null}]}), 1),
    ];
    for (now, count) in cases {
        let mut found = Vec::new();
        differences("", &before, &now, &mut found);
        assert_eq!(found.len(), count, "{now}: {found:?}");
    }
}
